//! Descriptions of a table: its columns, and the statement that creates it.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use nilometer_engine::{
    Check, ColumnSource, RelationSchema, TIME_COLUMN, TableSchema, TimeKind, nearest,
};
use nilometer_service::define::{
    self, INFORMATION_SCHEMA, Numbered, NumberedBy, PayloadSchema, SYSTEM_SCHEMA, payload_schema,
};

use crate::Params;
use crate::error::Error;
use crate::planning::plan::plan;
use crate::statement::name::{NameScope, TableName, literal, quoted};
use crate::statement::settings::{
    TSTORAGE_PAYLOAD, cold_after_text, duplicates_text, duration_text, retention_text,
};
use crate::statement::types::{self, kind_of, name_of_arrow, type_of};
use crate::statement::{Bounds, Show, Statement, parse, unknown_setting};
use crate::tables::catalogue::ReadContext;
use crate::tables::names;
use crate::tables::relation;
use crate::tables::system;

/// Whether what is to be shown is there.
pub(crate) fn check(reading: &ReadContext, place: &NameScope, show: &Show) -> Result<(), Error> {
    let snapshot = &reading.snapshot;
    match show {
        Show::Schemas {
            database: Some(database),
            ..
        } => names::find_database(snapshot, &database.text, database.position),
        Show::Tables {
            from: Some(path), ..
        } => {
            let (database, schema) = path.clone().schema(place)?;
            names::find_schema(snapshot, &database, &schema.text, schema.position)
        }
        Show::Tags { table } | Show::Series { table, .. } => {
            let name = table.clone().table(place)?;
            names::find_table(snapshot, &name).map(drop)
        }
        Show::Setting(name) => {
            let wanted = name.text.replace('_', "-");
            let mut known = system::setting_names(&reading.store());
            if known.contains(&wanted) {
                Ok(())
            } else {
                Err(unknown_setting(name, known.drain(..)))
            }
        }
        _ => Ok(()),
    }
}

/// The answer of SHOW DATABASES where there is none.
pub(crate) fn no_databases() -> RecordBatch {
    let schema = Schema::new(vec![Field::new("database_name", DataType::Utf8, false)]);
    RecordBatch::new_empty(Arc::new(schema))
}

/// Columns of a table or view: name, type, kind, whether a row may have none.
pub(crate) async fn columns(reading: &ReadContext, name: &TableName) -> Result<RecordBatch, Error> {
    let table = reading
        .snapshot
        .table(&name.database, &name.schema, &name.table);
    let relation = relation::find(&reading.snapshot, name);
    let rows: Vec<[String; 3]>;
    let nullable: Vec<bool>;
    if let Some(table) = table {
        let shown = table.shown_columns();
        let arrow = &shown.schema;
        let columns = arrow.fields().iter().enumerate();
        rows = columns
            .map(|(at, field)| {
                let position = shown.position(at).unwrap_or(at);
                [
                    field.name().clone(),
                    type_of(&table, position),
                    kind_of(&table, position).to_owned(),
                ]
            })
            .collect();
        let at = 0..shown.len();
        nullable = at
            .map(|at| !table.is_not_null(shown.position(at).unwrap_or(at)))
            .collect();
    } else {
        let provider = provider(reading, name).await?;
        let arrow = provider.schema();
        let fields = arrow.fields().iter().enumerate();
        rows = fields
            .map(|(at, field)| {
                let kind = match &relation {
                    Some(relation) => relation::kind_of(relation.schema(), at),
                    None => "column",
                };
                let of = match &relation {
                    Some(relation) => types::of_relation(relation.schema(), at),
                    None => name_of_arrow(field.data_type()),
                };
                [field.name().clone(), of, kind.to_owned()]
            })
            .collect();
        nullable = arrow
            .fields()
            .iter()
            .map(|field| field.is_nullable())
            .collect();
    }
    let schema = Schema::new(vec![
        Field::new("column_name", DataType::Utf8, false),
        Field::new("type", DataType::Utf8, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("nullable", DataType::Boolean, false),
    ]);
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for at in 0..3 {
        let texts = rows.iter().filter_map(|row| row.get(at));
        arrays.push(Arc::new(StringArray::from_iter_values(texts)));
    }
    arrays.push(Arc::new(BooleanArray::from(nullable)));
    Ok(RecordBatch::try_new(Arc::new(schema), arrays)
        .expect("three columns of text and one of booleans, each as long as the table has columns"))
}

/// Something that is no table of the engine.
async fn provider(
    reading: &ReadContext,
    name: &TableName,
) -> Result<Arc<dyn datafusion::catalog::TableProvider>, Error> {
    if name.schema == INFORMATION_SCHEMA {
        let place = NameScope {
            database: name.database.clone(),
            schema: name.schema.clone(),
        };
        let session = reading.session(&place);
        let schema = session.schema_for_ref(name.table.as_str())?;
        if let Some(provider) = schema.table(&name.table).await? {
            return Ok(provider);
        }
        return Err(Error::UnknownTable {
            name: name.shown(),
            nearest: nearest(&name.table, schema.table_names()),
            position: name.position,
        });
    }
    if let Some(provider) = reading.provider(name).await {
        return Ok(provider);
    }
    if let Some(error) = reading.view_error() {
        return Err(Error::View {
            name: error.view,
            message: error.message,
            position: name.position,
        });
    }
    Err(if name.schema == SYSTEM_SCHEMA {
        system::unknown_table(name).unwrap_or_else(|| Error::internal("a table is missing"))
    } else {
        names::unknown_table(&reading.snapshot, name)
    })
}

/// The statement that would make a table or a view again, as one row.
pub(crate) fn create(reading: &ReadContext, name: &TableName) -> Result<RecordBatch, Error> {
    let snapshot = &reading.snapshot;
    let shown = [&name.schema, &name.table]
        .map(|part| quoted(part))
        .join(".");
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    let statement = if let Some(table) = snapshot.table(database, schema, table) {
        let payload = payload_schema(snapshot, (database, schema), &table);
        create_table(&shown, &table, payload)
    } else if let Some(relation) = relation::find(snapshot, name) {
        create_relation(&shown, relation.schema())
    } else if let Some(query) = define::view(snapshot, database, schema, table) {
        format!("CREATE VIEW {shown} AS {query}")
    } else {
        return Err(names::unknown_table(snapshot, name));
    };
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("statement", DataType::Utf8, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![name.shown()])),
        Arc::new(StringArray::from(vec![statement])),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns).expect("two columns of text with one row"))
}

fn create_table(shown: &str, table: &TableSchema, payload: Option<PayloadSchema>) -> String {
    let mut text = format!("CREATE TABLE {shown} (\n");
    let shown = table.shown_columns();
    for (at, field) in shown.schema.fields().iter().enumerate() {
        let separator = if at > 0 { ",\n" } else { "" };
        let position = shown.position(at).unwrap_or(at);
        let tag = if table.is_tag(position) { " TAG" } else { "" };
        let not_null = if table.is_not_null(position) {
            " NOT NULL"
        } else {
            ""
        };
        let (kind, default) = with_default(type_of(table, position), default_of(table, position));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{separator}  {} {kind}{tag}{not_null}{default}",
            quoted(field.name()),
        );
    }
    for check in table.declared.iter().flat_map(|it| &it.checks) {
        let _ = write!(text, ",\n  {}", check_text(check));
    }
    text.push_str("\n) WITH (");
    let payload = payload.map(|schema| (TSTORAGE_PAYLOAD, schema.to_string()));
    for (at, (name, value)) in settings(table).into_iter().chain(payload).enumerate() {
        let separator = if at > 0 { ", " } else { "" };
        let _ = write!(text, "{separator}{name} = {}", literal(&value));
    }
    text.push(')');
    text
}

/// A type and what follows it of a default. What numbers its rows is written so that it gets a sequence of its own.
fn with_default(kind: String, default: Option<&str>) -> (String, String) {
    let Some(default) = default else {
        return (kind, String::new());
    };
    match Numbered::of(default).map(|it| it.how) {
        None => (kind, format!(" DEFAULT {default}")),
        Some(NumberedBy::Always) => (kind, " GENERATED ALWAYS AS IDENTITY".to_owned()),
        Some(NumberedBy::Identity) => (kind, " GENERATED BY DEFAULT AS IDENTITY".to_owned()),
        Some(NumberedBy::Default) => {
            let serial = match kind.as_str() {
                "SMALLINT" => "SMALLSERIAL",
                "INTEGER" => "SERIAL",
                _ => "BIGSERIAL",
            };
            (serial.to_owned(), String::new())
        }
    }
}

fn check_text(check: &Check) -> String {
    format!(
        "CONSTRAINT {} CHECK ({})",
        quoted(&check.name),
        check.expression
    )
}

/// The default of a column, as SQL.
pub(crate) fn default_of(table: &TableSchema, position: usize) -> Option<&str> {
    let declared = match table.source(position)? {
        ColumnSource::Time => &table.declared.as_ref()?.time.as_ref()?.column,
        ColumnSource::Tag(at) => table.tags.get(at)?.declared.as_ref()?,
        ColumnSource::Field(at) => table.fields.get(at)?.declared.as_ref()?,
    };
    declared.default.as_deref()
}

fn create_relation(shown: &str, relation: &RelationSchema) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (at, column) in relation.named_columns().iter().enumerate() {
        let is_key = relation::kind_of(relation, at) == "key";
        let rest = if column.nullable || is_key {
            ""
        } else {
            " NOT NULL"
        };
        let kind = types::of_relation(relation, at);
        let declared = relation.declared_column(at);
        let default = declared.and_then(|it| it.default.as_deref());
        let (kind, default) = with_default(kind, default);
        parts.push(format!("  {} {kind}{rest}{default}", quoted(&column.name)));
    }
    let names = |key: &[u32]| {
        let columns = key
            .iter()
            .filter_map(|&at| relation.columns.get(at as usize));
        let names: Vec<String> = columns.map(|column| quoted(&column.name)).collect();
        names.join(", ")
    };
    for (number, key) in relation.keys() {
        let kind = if number == 0 { "PRIMARY KEY" } else { "UNIQUE" };
        parts.push(format!("  {kind} ({})", names(key)));
    }
    let declared = relation.declared.iter();
    parts.extend(
        declared
            .flat_map(|it| &it.table.checks)
            .map(|check| format!("  {}", check_text(check))),
    );
    format!("CREATE TABLE {shown} (\n{}\n)", parts.join(",\n"))
}

fn settings(table: &TableSchema) -> Vec<(&'static str, String)> {
    let unit_ns = match table.time().1 {
        TimeKind::Integer { unit_ns } => Some(unit_ns.max(1)),
        _ => None,
    };
    let mut all = vec![
        (
            "duplicates",
            duplicates_text(table.settings.duplicates).to_owned(),
        ),
        (
            "partition_interval",
            match unit_ns {
                Some(unit_ns) => (table.settings.partition_interval_ns / unit_ns).to_string(),
                None => duration_text(table.settings.partition_interval_ns),
            },
        ),
    ];
    if table.time().0 != TIME_COLUMN || unit_ns.is_some() {
        all.push(("tsdb.partition_column", quoted(table.time().0)));
    }
    if let Some(ns) = table.settings.retention_ns {
        all.push(("retention", retention_text(ns)));
    }
    if let Some(ns) = table.settings.cold_after_ns {
        all.push(("cold_after", cold_after_text(ns)));
    }
    all
}

/// Whether a view that is about to be made can be read.
pub(crate) async fn check_view(
    reading: &ReadContext,
    name: &TableName,
    query: &str,
) -> Result<(), Error> {
    let place = NameScope {
        database: name.database.clone(),
        schema: name.schema.clone(),
    };
    names::find_schema(
        &reading.snapshot,
        &name.database,
        &name.schema,
        name.position,
    )?;
    let bounds = Bounds::of(&reading.shared.options);
    let Statement::Query(question) = parse(query, bounds, &Params::new())? else {
        return Err(Error::Unsupported {
            statement: "CREATE VIEW".to_owned(),
            instead: "write a SELECT after AS",
        });
    };
    let making = reading.making(name.clone());
    let session = making.session(&place);
    let found = plan(&making, &session, &place, &question.statement).await?;
    let mut seen = std::collections::BTreeSet::new();
    for field in found.schema().fields() {
        if !seen.insert(field.name()) {
            return Err(Error::Plan {
                message: format!(
                    "two columns of the view are called \"{}\"; give one another name with AS",
                    field.name()
                ),
                position: name.position,
            });
        }
    }
    Ok(())
}
