//! `CREATE TABLE t AS SELECT ...`, as the two statements that it stands for.
//!
//! Does: make the table with the columns of the query, write the rows, and drop the table if that fails. Does not: do both in one record: others
//! see the table without rows while they are written, and a crash then leaves it so.

use arrow::datatypes::{DataType, Field, IntervalUnit};
use nilometer_engine::{Error as EngineError, SQL_TYPE};
use nilometer_service::Fault;

use super::Sql;
use crate::error::Error;
use crate::statement::FilledTable;
use crate::statement::name::quoted;
use crate::statement::types::name_of_arrow;

impl Sql {
    /// Carries it out. Returns how many rows it has.
    pub(super) async fn fill(&self, database: &str, table: FilledTable) -> Result<u64, Error> {
        let described = Box::pin(self.described(database, &table.query, &[])).await?;
        let Some(columns) = described.columns else {
            return Err(Error::Plan {
                message: "CREATE TABLE ... AS needs a query that answers columns".to_owned(),
                position: None,
            });
        };
        if let Some(name) = table.names.get(columns.fields().len()) {
            return Err(Error::Plan {
                message: "too many column names were specified".to_owned(),
                position: name.position,
            });
        }
        let mut names = table.names.iter().map(|name| name.text.as_str());
        let definitions = columns.fields().iter().map(|field| {
            let name = names.next().unwrap_or(field.name());
            format!("{} {}", quoted(name), type_of(field))
        });
        let definitions: Vec<String> = definitions.collect();
        let FilledTable { path, settings, .. } = &table;
        let create = format!(
            "CREATE TABLE {path} ({}) {settings}",
            definitions.join(", ")
        );
        match Box::pin(self.query(database, &create)).await {
            Err(error) if table.if_not_exists && is_there(&error) => {
                return Ok(0);
            }
            made => drop(made?),
        }
        if !table.with_data {
            return Ok(0);
        }
        let insert = format!("INSERT INTO {path} {}", table.query);
        match Box::pin(self.query(database, &insert)).await {
            Ok(answer) => Ok(answer.written().unwrap_or(0)),
            Err(error) => {
                let drop = format!("DROP TABLE IF EXISTS {path}");
                Box::pin(self.query(database, &drop)).await?;
                Err(error)
            }
        }
    }
}

/// Whether the name is taken, by a table or something else that has one like it.
fn is_there(error: &Error) -> bool {
    matches!(error, Error::Engine(EngineError::ExistsAlready { .. }))
        || error.fault() == Some(Fault::TableExists)
}

/// The type of a column of an answer, as a definition writes it.
fn type_of(field: &Field) -> String {
    if let Some(declared) = field.metadata().get(SQL_TYPE) {
        return declared.clone();
    }
    of_arrow(field.data_type())
}

fn of_arrow(kind: &DataType) -> String {
    match kind {
        DataType::Int8 | DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Decimal128(precision, scale) => format!("NUMERIC({precision}, {scale})"),
        DataType::Time64(_) => "TIME".to_owned(),
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(_) => {
            "INTERVAL".to_owned()
        }
        DataType::Null => "TEXT".to_owned(),
        DataType::List(of) => format!("{}[]", of_arrow(of.data_type())),
        other => name_of_arrow(other),
    }
}
