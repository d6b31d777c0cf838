//! The tables of `pg_catalog` and `information_schema`: their names, numbers and columns, as PostgreSQL 15 has them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nilometer_engine::SQL_TYPE;
use nilometer_service::define::{INFORMATION_SCHEMA, PG_CATALOG, TIMESCALEDB_INFORMATION};

/// One table a line: schema and name, number, kind, and for each column its name, its type and `!` where it is never NULL.
const TEXT: &str = include_str!("text/relations.txt");

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// As `pg_type` has it, such as `int4` and `_text`.
    pub(super) kind: &'static str,
    pub(super) not_null: bool,
}

/// A table.
#[derive(Debug)]
pub(crate) struct CatalogTable {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) oid: i64,
    /// `r` or `v`.
    pub(super) kind: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) arrow: SchemaRef,
}

static TABLES: LazyLock<Vec<CatalogTable>> =
    LazyLock::new(|| TEXT.lines().filter_map(read).collect());

static BY_NAME: LazyLock<HashMap<(&str, &str), usize>> = LazyLock::new(|| {
    let tables = TABLES.iter().enumerate();
    tables
        .map(|(at, table)| ((table.schema, table.name), at))
        .collect()
});

/// All of them, by schema and name.
pub(super) fn all() -> &'static [CatalogTable] {
    &TABLES
}

/// One of them.
pub(super) fn find(schema: &str, name: &str) -> Option<&'static CatalogTable> {
    TABLES.get(*BY_NAME.get(&(schema, name))?)
}

/// The number of a table by its name alone.
pub(crate) fn oid_of(name: &str) -> Option<i64> {
    find(PG_CATALOG, name).map(|table| table.oid)
}

fn read(line: &'static str) -> Option<CatalogTable> {
    let mut words = line.split(' ');
    let (schema, name) = words.next()?.split_once('.')?;
    let schema = [PG_CATALOG, INFORMATION_SCHEMA, TIMESCALEDB_INFORMATION]
        .into_iter()
        .find(|known| *known == schema)?;
    let oid = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let columns: Vec<Column> = words
        .filter_map(|column| {
            let (name, kind) = column.split_once(':')?;
            let not_null = kind.ends_with('!');
            let kind = kind.trim_end_matches('!');
            Some(Column {
                name,
                kind,
                not_null,
            })
        })
        .collect();
    let fields: Vec<Field> = columns.iter().map(field).collect();
    Some(CatalogTable {
        schema,
        name,
        oid,
        kind,
        columns,
        arrow: Arc::new(Schema::new(fields)),
    })
}

fn field(column: &Column) -> Field {
    let field = Field::new(column.name, arrow_of(column.kind), true);
    let named = match column.kind {
        "oid" | "xid" | "regproc" | "regtype" => "oid",
        "char" => "\"char\"",
        "name" => "name",
        "int2vector" => "int2vector",
        _ => return field,
    };
    field.with_metadata(HashMap::from([(SQL_TYPE.to_owned(), named.to_owned())]))
}

/// The Arrow type of a type of `pg_type`.
pub(super) fn arrow_of(kind: &str) -> DataType {
    let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
    match kind {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" | "oid" | "xid" | "regproc" | "regtype" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "timestamptz" => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        "_int2" | "int2vector" => list(DataType::Int16),
        "oidvector" | "_oid" => list(DataType::Int64),
        "_text" | "_aclitem" | "_name" | "_char" | "_regtype" => list(DataType::Utf8),
        // What is left is shown as text, and all of it is NULL here.
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_numbers_and_columns_that_postgresql_documents() {
        let class = find(PG_CATALOG, "pg_class").unwrap();
        assert_eq!((class.oid, class.kind), (1259, "r"));
        assert_eq!(class.columns[0].name, "oid");
        assert_eq!(class.arrow.field(0).data_type(), &DataType::Int64);
        assert_eq!(class.arrow.field(0).metadata()[SQL_TYPE], "oid");
        assert_eq!(find(PG_CATALOG, "pg_type").unwrap().oid, 1247);
        let columns = find(INFORMATION_SCHEMA, "columns").unwrap();
        assert_eq!(columns.columns.len(), 44);
        assert_eq!(all().len(), TEXT.lines().count());
    }
}
