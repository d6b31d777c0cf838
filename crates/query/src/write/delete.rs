//! DELETE: by time and tags as one range, by anything else row by row.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, Delete, FromTable};
use nilometer_engine::{DeleteRequest, RowKey, TIME_COLUMN, TableSchema};

use super::rows::row_keys;
use super::source::{column, item, only_table, select};
use super::writing::{TRIES_MAX, Writing, is_overtaken};
use crate::error::Error;
use crate::execution::blocking;
use crate::planning::filter::{Coverage, Pushdown};
use crate::statement::name::TableName;
use crate::tables::catalogue::ReadContext;
use crate::tables::relation;
use crate::tables::table::ROW_COLUMNS;

/// Carries out a DELETE. Returns how many rows it found.
pub(crate) async fn delete(
    mut writing: Writing<'_>,
    delete: Delete,
) -> Result<(u64, Writing<'_>), Error> {
    let is_plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.returning.is_none()
        && delete.output.is_none()
        && delete.order_by.is_empty()
        && delete.limit.is_none();
    if !is_plain {
        return Err(Error::Unsupported {
            statement: "this form of DELETE".to_owned(),
            instead: "write DELETE FROM t WHERE ..., with a sub-select for what is in other tables",
        });
    }
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let (name, from) = only_table(tables, "DELETE", &writing.place)?;
    writing.allow(&name)?;
    if relation::find(&writing.reading.snapshot, &name).is_some() {
        return super::relation::delete(writing, name, from, delete.selection).await;
    }
    let table = writing.table(&name)?;
    let time = vec![item(column(TIME_COLUMN), TIME_COLUMN)];
    let query = select(time, from.clone(), delete.selection.clone())?;
    let (session, plan) = writing.plan(&writing.reading, query).await?;
    let plan = session.optimize(&plan)?;
    match range(&plan, &table) {
        Some(Found::Nothing) => Ok((0, writing)),
        // A range would take rows along that others write before the transaction ends.
        Some(Found::Range(pushdown)) if writing.writer.transaction.is_none() => {
            let mut rows = 0;
            let writing = writing
                .run(&session, &plan, |batch| {
                    rows += batch.num_rows() as u64;
                    Ok(())
                })
                .await?;
            let engine = writing.writer().engine;
            let executor = writing.executor();
            let request = DeleteRequest {
                table,
                time: pushdown.time,
                tags: pushdown.tags,
            };
            blocking(&executor, move || Ok(engine.delete(&request)?)).await?;
            Ok((rows, writing))
        }
        Some(Found::Range(_)) | None => {
            let mut tries = 0;
            loop {
                tries += 1;
                let (done, back) = by_rows(writing, &name, &from, delete.selection.clone()).await?;
                match done {
                    Err(error) if is_overtaken(&error) && tries < TRIES_MAX => {
                        writing = back.again();
                    }
                    done => return Ok((done?, back)),
                }
            }
        }
    }
}

/// What a plan reads, if it is a range of times of series chosen by tags.
enum Found {
    Nothing,
    Range(Pushdown),
}

/// `None` = conditions on something else are left, which only reading the rows can decide.
fn range(plan: &LogicalPlan, table: &TableSchema) -> Option<Found> {
    match plan {
        LogicalPlan::Projection(projection) => range(&projection.input, table),
        LogicalPlan::SubqueryAlias(alias) => range(&alias.input, table),
        LogicalPlan::EmptyRelation(_) => Some(Found::Nothing),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            let mut all = Pushdown::everything();
            for filter in &scan.filters {
                let (pushdown, coverage) = Pushdown::of(filter, table);
                if coverage != Coverage::Exact {
                    return None;
                }
                all = all.and(pushdown);
            }
            Some(if all.is_nothing() {
                Found::Nothing
            } else {
                Found::Range(all)
            })
        }
        _ => None,
    }
}

/// Finds the rows, and deletes these. The inner error is the engine's about them; then it may be tried again.
async fn by_rows<'a>(
    writing: Writing<'a>,
    name: &TableName,
    from: &ast::TableWithJoins,
    condition: Option<ast::Expr>,
) -> Result<(Result<u64, Error>, Writing<'a>), Error> {
    let [series, nth] = ROW_COLUMNS;
    let columns = [series, TIME_COLUMN, nth].map(|name| item(column(name), name));
    let query = select(columns.to_vec(), from.clone(), condition)?;
    let reading: ReadContext = writing.reading.changing(name.clone());
    let table = writing.table(name)?;
    let (session, plan) = writing.plan(&reading, query).await?;
    let mut keys: Vec<RowKey> = Vec::new();
    let memory = writing.reserve();
    let writing = writing
        .run(&session, &plan, |batch| {
            // Twice: they are sorted before they are deleted.
            memory.try_grow(batch.num_rows() * size_of::<RowKey>() * 2)?;
            row_keys(&batch, &mut keys)
        })
        .await?;
    if keys.is_empty() {
        return Ok((Ok(0), writing));
    }
    let writer = writing.writer();
    let executor = writing.executor();
    let snapshot = Arc::clone(&reading.snapshot);
    let done = blocking(&executor, move || {
        writer.delete_rows(&snapshot, &table, &keys)?;
        drop(memory);
        Ok(keys.len() as u64)
    })
    .await;
    Ok((done, writing))
}
