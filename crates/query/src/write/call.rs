//! Calls that change a table, carried out, and what they answer.
//!
//! Does: hand the change to the service, put its answer into columns, or into one value where the call is one. Does not: read a
//! statement.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use nilometer_engine::{Engine, SQL_TYPE};
use nilometer_service::define::{self, Hypertable};
use nilometer_service::{Class, Error as ServiceError, Principal, Scope};

use crate::error::{Error, Position};
use crate::statement::name::NameScope;
use crate::statement::{Call, What};

/// A column of an answer.
enum Answered {
    Integer(&'static str, i64),
    Name(&'static str, String),
    Bool(&'static str, bool),
}

/// The columns of what a call answers.
pub(crate) fn schema(call: &Call) -> SchemaRef {
    let nobody = Hypertable {
        id: 0,
        name: define::TableName {
            database: String::new(),
            schema: String::new(),
            table: String::new(),
        },
        is_new: false,
    };
    batch(call, &nobody).schema()
}

/// Carries a call out. Blocks for a sync of the log.
pub(crate) fn run(
    engine: &Arc<Engine>,
    principal: &Principal,
    place: NameScope,
    call: &Call,
) -> Result<RecordBatch, Error> {
    let scope = Scope::from(place);
    let done = match &call.what {
        What::Create(new) => define::create_hypertable(engine, principal, &scope, new.clone()),
        What::Dimension(new) => define::add_dimension(engine, principal, &scope, new.clone()),
        What::Interval(path, interval) => {
            let path = path.clone();
            define::set_chunk_interval(engine, principal, &scope, path, *interval)
        }
    };
    let done = done.map_err(|error| placed(error, call.position))?;
    Ok(batch(call, &done))
}

fn placed(error: ServiceError, position: Option<Position>) -> Error {
    match error {
        ServiceError::Engine(error) => error.into(),
        ServiceError::Define { source, .. } => Error::of_name(source, position),
        denied if denied.class() == Class::Forbidden => Error::Denied(Box::new(denied)),
        other => Error::internal(other.to_string()),
    }
}

fn batch(call: &Call, done: &Hypertable) -> RecordBatch {
    let (function, columns) = answered(call, done);
    let named = match (&call.what, call.is_table) {
        (What::Interval(..), _) => vec![text(function, String::new())],
        (_, true) => columns.into_iter().map(column).collect(),
        (_, false) => vec![text(function, record(&columns))],
    };
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = named.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .expect("each column is made with its field, and all have one row")
}

fn answered(call: &Call, done: &Hypertable) -> (&'static str, Vec<Answered>) {
    let created = Answered::Bool("created", done.is_new);
    let names = || {
        [
            Answered::Name("schema_name", done.name.schema.clone()),
            Answered::Name("table_name", done.name.table.clone()),
        ]
    };
    match &call.what {
        What::Create(_) => {
            let mut all = vec![Answered::Integer("hypertable_id", done.id)];
            if !call.is_by_dimension {
                all.extend(names());
            }
            all.push(created);
            ("create_hypertable", all)
        }
        What::Dimension(new) => {
            let mut all = vec![Answered::Integer("dimension_id", done.id)];
            if !call.is_by_dimension {
                all.extend(names());
                all.push(Answered::Name("column_name", new.column.clone()));
            }
            all.push(created);
            ("add_dimension", all)
        }
        What::Interval(..) => ("set_chunk_time_interval", Vec::new()),
    }
}

fn text(name: &str, value: String) -> (Field, ArrayRef) {
    let array: ArrayRef = Arc::new(StringArray::from(vec![value]));
    (Field::new(name, DataType::Utf8, true), array)
}

fn column(answered: Answered) -> (Field, ArrayRef) {
    let typed = |name: &str, kind, of: &str| {
        let said = HashMap::from([(SQL_TYPE.to_owned(), of.to_owned())]);
        Field::new(name, kind, true).with_metadata(said)
    };
    match answered {
        Answered::Integer(name, value) => (
            typed(name, DataType::Int64, "integer"),
            Arc::new(Int64Array::from(vec![value])),
        ),
        Answered::Name(name, value) => (
            typed(name, DataType::Utf8, "name"),
            Arc::new(StringArray::from(vec![value])),
        ),
        Answered::Bool(name, value) => (
            Field::new(name, DataType::Boolean, true),
            Arc::new(BooleanArray::from(vec![value])),
        ),
    }
}

/// Columns as one value, as PostgreSQL writes a record.
fn record(columns: &[Answered]) -> String {
    let values: Vec<String> = columns
        .iter()
        .map(|column| match column {
            Answered::Integer(_, value) => value.to_string(),
            Answered::Bool(_, value) => if *value { "t" } else { "f" }.to_owned(),
            Answered::Name(_, value) => quoted(value),
        })
        .collect();
    format!("({})", values.join(","))
}

fn quoted(value: &str) -> String {
    let is_plain =
        |letter: char| !matches!(letter, '"' | '\\' | '(' | ')' | ',') && !letter.is_whitespace();
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 prints of `SELECT ROW(1, 'a', 'b c', true)` and of names with its own signs.
    #[test]
    fn records_are_written_as_postgresql_writes_them() {
        let name = |text: &str| Answered::Name("n", text.to_owned());
        let columns = [
            Answered::Integer("i", 1),
            name("a"),
            name("b c"),
            Answered::Bool("b", true),
        ];
        assert_eq!(record(&columns), "(1,a,\"b c\",t)");
        assert_eq!(record(&[name("a\"b"), name("")]), "(\"a\"\"b\",\"\")");
    }
}
