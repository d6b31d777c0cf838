//! Types, keys and definitions as PostgreSQL writes them.

use arrow::datatypes::{DataType, Field};
use nilometer_engine::SQL_TYPE;
use nilometer_service::{ForeignKey, OnChange};

use super::fixed::{self, Type};
use super::objects::{Catalogue, Index, Object, Of};
use crate::statement::name::quoted;

/// The number of a column's type, and its length or precision as `atttypmod` has it; -1 = none.
pub(super) fn type_of(field: &Field) -> (i64, i64) {
    if let Some(named) = field.metadata().get(SQL_TYPE)
        && let Some(found) = type_of_name(named)
    {
        return found;
    }
    (oid_of_arrow(field.data_type()), -1)
}

/// The same of a type by its name in SQL, such as `numeric(10,2)`.
pub(super) fn type_of_name(name: &str) -> Option<(i64, i64)> {
    let name = name.trim().to_lowercase();
    if let Some(element) = name.strip_suffix("[]") {
        let (element, modifier) = type_of_name(element)?;
        let element = fixed::type_of_oid(element)?;
        let array = fixed::type_named(&format!("_{}", element.name))?;
        return Some((array.oid, modifier));
    }
    let (bare, arguments) = match name.split_once('(') {
        Some((bare, rest)) => (bare.trim(), rest.split_once(')').map_or(rest, |it| it.0)),
        None => (name.as_str(), ""),
    };
    let numbers: Vec<i64> = arguments
        .split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    let known = match bare {
        "bigint" => "int8",
        "integer" | "int" => "int4",
        "smallint" => "int2",
        "boolean" => "bool",
        "double precision" | "float" => "float8",
        "real" => "float4",
        "character varying" => "varchar",
        "character" => "bpchar",
        "char" if !arguments.is_empty() => "bpchar",
        "\"char\"" => "char",
        "decimal" | "bigint unsigned" => "numeric",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        other => other,
    };
    let modifier = match (known, numbers.as_slice()) {
        ("varchar" | "bpchar", [length]) => length + 4,
        ("numeric", [precision]) => (precision << 16) + 4,
        ("numeric", [precision, scale]) => (precision << 16) + scale + 4,
        _ => -1,
    };
    Some((fixed::type_named(known)?.oid, modifier))
}

fn oid_of_arrow(kind: &DataType) -> i64 {
    use DataType as T;
    let name = match kind {
        T::Boolean => "bool",
        T::Int8 | T::UInt8 | T::Int16 => "int2",
        T::UInt16 | T::Int32 => "int4",
        T::UInt32 | T::Int64 => "int8",
        T::UInt64 | T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
            "numeric"
        }
        T::Float16 | T::Float32 => "float4",
        T::Float64 => "float8",
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => "bytea",
        T::Timestamp(_, Some(_)) => "timestamptz",
        T::Timestamp(_, None) => "timestamp",
        T::Date32 | T::Date64 => "date",
        T::Time32(_) | T::Time64(_) => "time",
        T::Interval(_) | T::Duration(_) => "interval",
        T::Dictionary(_, value) => return oid_of_arrow(value),
        T::List(of) | T::LargeList(of) | T::FixedSizeList(of, _) | T::ListView(of) => {
            let element = fixed::type_of_oid(type_of(of).0);
            let array = element.and_then(|it| fixed::type_named(&format!("_{}", it.name)));
            return array.map_or(1009, |array| array.oid);
        }
        _ => "text",
    };
    fixed::type_named(name).map_or(25, |found| found.oid)
}

/// `format_type`: a type as SQL writes it.
pub(super) fn format_type(oid: i64, modifier: Option<i64>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(found) = fixed::type_of_oid(oid) else {
        return "???".to_owned();
    };
    if found.category == "A" && found.element != 0 && found.name.starts_with('_') {
        return format!("{}[]", format_type(found.element, modifier));
    }
    let modifier = modifier.filter(|it| *it >= 0);
    let named = match found.name {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "char" => "\"char\"",
        "varchar" => "character varying",
        // Without a length it would be read as one of 1.
        "bpchar" if modifier.is_none() => "bpchar",
        "bpchar" => "character",
        "timestamptz" => "timestamp with time zone",
        "timestamp" => "timestamp without time zone",
        "timetz" => "time with time zone",
        "time" => "time without time zone",
        "varbit" => "bit varying",
        other => other,
    };
    match (found.name, modifier) {
        ("varchar" | "bpchar", Some(length)) => format!("{named}({})", length - 4),
        ("numeric", Some(of)) => format!("{named}({},{})", (of - 4) >> 16, (of - 4) & 0x7ff),
        _ => named.to_owned(),
    }
}

/// A type as `information_schema` calls it.
pub(super) fn standard_name(found: &Type) -> String {
    if found.category == "A" {
        return "ARRAY".to_owned();
    }
    match found.name {
        "bpchar" => "character".to_owned(),
        _ => format_type(found.oid, None),
    }
}

/// A name with its schema, where it is not found without.
pub(super) fn shown(catalogue: &Catalogue, object: &Object) -> String {
    if catalogue.is_visible(object) {
        return quoted(&object.name);
    }
    qualified(catalogue, object)
}

fn qualified(catalogue: &Catalogue, object: &Object) -> String {
    let schema = quoted(catalogue.schema_of(object));
    format!("{schema}.{}", quoted(&object.name))
}

/// The names of an index's columns.
pub(super) fn names(catalogue: &Catalogue, index: &Index) -> Vec<String> {
    let table = catalogue.objects.get(index.table);
    let Some(columns) = table.and_then(Object::columns) else {
        return Vec::new();
    };
    let named = index.columns.iter().filter_map(|number| {
        // An expression has no name.
        let Some(at) = usize::try_from(*number).ok()?.checked_sub(1) else {
            return Some(String::new());
        };
        columns.fields().get(at).map(|field| field.name().clone())
    });
    named.collect()
}

/// `pg_get_indexdef`: the whole definition, or one column of it.
pub(super) fn index(catalogue: &Catalogue, object: &Object, column: i64) -> Option<String> {
    let Of::Index(index) = &object.of else {
        return None;
    };
    if let Some(definition) = &index.definition
        && column == 0
    {
        let table = qualified(catalogue, catalogue.objects.get(index.table)?);
        let name = quoted(&object.name);
        return Some(format!("CREATE INDEX {name} ON {table} {definition}"));
    }
    let names = names(catalogue, index);
    if column > 0 {
        let at = usize::try_from(column).ok()?.checked_sub(1)?;
        return names.get(at).map(|name| quoted(name));
    }
    let table = catalogue.objects.get(index.table)?;
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    Some(format!(
        "CREATE UNIQUE INDEX {} ON {} USING btree ({})",
        quoted(&object.name),
        qualified(catalogue, table),
        names.join(", ")
    ))
}

/// The columns that a foreign key points to.
pub(super) fn targets(catalogue: &Catalogue, object: &Object, key: &ForeignKey) -> Vec<String> {
    if !key.to_columns.is_empty() {
        return key.to_columns.clone();
    }
    let indexes = catalogue.objects.iter();
    let mut primary = indexes.filter_map(|it| match &it.of {
        Of::Index(index) if index.is_primary && it.schema == object.schema => Some(index),
        _ => None,
    });
    let index = primary.find(|index| {
        let table = catalogue.objects.get(index.table);
        table.is_some_and(|table| table.name == key.to)
    });
    index.map_or_else(Vec::new, |index| names(catalogue, index))
}

fn foreign_key(catalogue: &Catalogue, object: &Object, key: &ForeignKey) -> String {
    let listed = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        names.join(", ")
    };
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        listed(&key.columns),
        quoted(&key.to),
        listed(&targets(catalogue, object, key))
    );
    for (what, on) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if on != OnChange::NoAction {
            text.extend([" ON ", what, " ", on.text()]);
        }
    }
    text
}

/// `pg_get_constraintdef`.
pub(super) fn constraint(catalogue: &Catalogue, oid: i64) -> Option<String> {
    if let Some((object, check)) = catalogue.check(oid) {
        if let Some(key) = ForeignKey::of(check) {
            return Some(foreign_key(catalogue, object, &key));
        }
        return Some(format!("CHECK (({}))", check.expression));
    }
    let mut indexes = catalogue.objects.iter();
    let index = indexes.find_map(|object| match &object.of {
        Of::Index(index) if index.constraint == oid && oid != 0 => Some(index),
        _ => None,
    })?;
    let names: Vec<String> = names(catalogue, index)
        .iter()
        .map(|name| quoted(name))
        .collect();
    let kind = if index.is_primary {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    Some(format!("{kind} ({})", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers to `SELECT atttypid, atttypmod, format_type(atttypid, atttypmod)`.
    #[test]
    fn types_are_written_as_postgresql_writes_them() {
        for (named, oid, modifier, shown) in [
            ("bigint", 20, -1, "bigint"),
            ("numeric(10,2)", 1700, 655_366, "numeric(10,2)"),
            ("varchar(20)", 1043, 24, "character varying(20)"),
            ("char(3)", 1042, 7, "character(3)"),
            ("text[]", 1009, -1, "text[]"),
            ("timestamptz", 1184, -1, "timestamp with time zone"),
            ("double precision", 701, -1, "double precision"),
            ("uuid", 2950, -1, "uuid"),
        ] {
            assert_eq!(type_of_name(named), Some((oid, modifier)), "{named}");
            assert_eq!(format_type(oid, Some(modifier)), shown);
        }
        assert_eq!(format_type(1042, None), "bpchar");
        assert_eq!(format_type(0, None), "-");
        assert_eq!(format_type(4_294_967, None), "???");
        assert_eq!(type_of_name("no_such_type"), None);
    }
}
