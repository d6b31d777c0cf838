//! TRUNCATE: all rows of tables and relations, and their numbers from the start again.
//!
//! Does: delete one table over time as one range, without reading it; several, or any within a transaction, row by row as one
//! batch. Does not: free space (compaction does), or count what went.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{TableWithJoins, Truncate, TruncateIdentityOption};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use nilometer_engine::{DeleteRequest, Transaction};
use nilometer_service::define;

use super::delete::by_rows_again;
use super::source::Sources;
use super::writing::Writing;
use crate::error::Error;
use crate::execution::blocking;
use crate::statement::name::{Path, TableName, quoted};
use crate::tables::relation;

/// Carries out a TRUNCATE.
pub(crate) async fn truncate(
    mut writing: Writing<'_>,
    truncate: Truncate,
) -> Result<Writing<'_>, Error> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
        return Err(Error::Unsupported {
            statement: "this form of TRUNCATE".to_owned(),
            instead: "write TRUNCATE and the names of tables, and RESTART IDENTITY behind them if numbers shall begin again",
        });
    }
    // All of them are there, and may be written to, before the first is touched.
    let mut names: Vec<TableName> = Vec::new();
    for target in &truncate.table_names {
        let name = Path::of(&target.name)?.table(&writing.place)?;
        writing.allow(&name)?;
        if relation::find(&writing.reading.snapshot, &name).is_none() {
            writing.table(&name)?;
        }
        if names.iter().all(|other| other.name() != name.name()) {
            names.push(name);
        }
    }
    let own = begin_own(&mut writing, &names)?;
    for name in &names {
        writing = Box::pin(all_rows(writing, name)).await?;
        // So that the next one is read with what has gone by now.
        writing = writing.again();
    }
    if let Some(own) = own {
        writing.writer.transaction = None;
        writing = writing.again();
        blocking(&writing.executor(), move || Ok(own.commit()?)).await?;
    }
    if matches!(truncate.identity, Some(TruncateIdentityOption::Restart)) {
        restart(&writing, &names).await?;
    }
    Ok(writing)
}

/// Several tables go together or not at all.
fn begin_own(
    writing: &mut Writing<'_>,
    names: &[TableName],
) -> Result<Option<Arc<Transaction>>, Error> {
    if names.len() < 2 || writing.writer.transaction.is_some() {
        return Ok(None);
    }
    let own = writing.writer.engine.begin()?;
    writing.writer.transaction = Some(Arc::clone(&own));
    Ok(Some(own))
}

async fn all_rows<'a>(writing: Writing<'a>, name: &TableName) -> Result<Writing<'a>, Error> {
    let is_relation = relation::find(&writing.reading.snapshot, name).is_some();
    if !is_relation && writing.writer.transaction.is_none() {
        let table = writing.table(name)?;
        let engine = writing.writer().engine;
        let request = DeleteRequest {
            table,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
        };
        let executor = writing.executor();
        blocking(&executor, move || Ok(engine.delete(&request)?)).await?;
        return Ok(writing);
    }
    let sources = Sources::new(from(name)?, None);
    let (_, writing) = if is_relation {
        super::relation::delete(writing, name.clone(), &sources, None).await?
    } else {
        by_rows_again(writing, name, &sources, None).await?
    };
    Ok(writing)
}

/// The table as a statement has it behind FROM.
fn from(name: &TableName) -> Result<TableWithJoins, Error> {
    let parts = [&name.database, &name.schema, &name.table];
    let parts = parts.map(|part| quoted(part)).join(".");
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&parts);
    let parsed = parsed.and_then(|mut parser| parser.parse_table_and_joins());
    parsed.map_err(|error| Error::internal(format!("the name of a table: {error}")))
}

/// Numbers of the tables' columns begin again. Not of the transaction: a rollback does not bring numbers back.
async fn restart(writing: &Writing<'_>, names: &[TableName]) -> Result<(), Error> {
    let snapshot = &writing.reading.snapshot;
    let own = names
        .iter()
        .flat_map(|name| define::own_sequences(snapshot, &name.name()));
    let own: Vec<(define::TableName, i64)> = own.collect();
    let shared = Arc::clone(&writing.queries.shared);
    let set = move || {
        for (sequence, start) in &own {
            let set = shared
                .sequences
                .set(&shared.engine, sequence, (*start, false));
            set.map_err(Error::of_service)?;
        }
        Ok(())
    };
    blocking(&writing.executor(), set).await
}
