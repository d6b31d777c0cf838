//! DELETE: by time and tags as one range, by anything else row by row.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, Delete, FromTable};
use nilometer_engine::{DeleteRequest, RowKey, TableSchema};

use super::rows::{first_of_each, named_as, row_keys, without};
use super::source::{Sources, column, item, only_table};
use super::writing::{Kept, TRIES_MAX, Writing, is_overtaken};
use crate::error::Error;
use crate::execution::blocking;
use crate::planning::filter::{Coverage, Pushdown};
use crate::statement::name::TableName;
use crate::tables::catalogue::ReadContext;
use crate::tables::relation;
use crate::tables::table::ROW_COLUMNS;

/// Carries out a DELETE. Returns how many rows it found.
pub(crate) async fn delete(
    writing: Writing<'_>,
    delete: Delete,
) -> Result<(u64, Writing<'_>), Error> {
    let is_plain = delete.tables.is_empty()
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
    let sources = Sources::new(from.clone(), delete.using.into_iter().flatten());
    if relation::find(&writing.reading.snapshot, &name).is_some() {
        return super::relation::delete(writing, name, &sources, delete.selection).await;
    }
    let table = writing.table(&name)?;
    if sources.are_several() || writing.returns() {
        return by_rows_again(writing, &name, &sources, delete.selection).await;
    }
    let time = table.time().0;
    let time = vec![item(column(time), time)];
    let query = sources.select(time, delete.selection.clone())?;
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
            let done = blocking(&executor, move || Ok(engine.delete(&request)?)).await;
            match done {
                // The table has other tags now, so the range may be another one.
                Err(error) if is_overtaken(&error) => {
                    by_rows_again(writing.again(), &name, &sources, delete.selection).await
                }
                done => done.map(|_| (rows, writing)),
            }
        }
        Some(Found::Range(_)) | None => {
            by_rows_again(writing, &name, &sources, delete.selection).await
        }
    }
}

/// Finds the rows and deletes these, again where somebody else was faster.
pub(super) async fn by_rows_again<'a>(
    mut writing: Writing<'a>,
    name: &TableName,
    sources: &Sources,
    condition: Option<ast::Expr>,
) -> Result<(u64, Writing<'a>), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (done, back) = by_rows(writing, name, sources, condition.clone()).await?;
        match done {
            Err(error) if is_overtaken(&error) && tries < TRIES_MAX => writing = back.again(),
            done => return Ok((done?, back)),
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
    sources: &Sources,
    condition: Option<ast::Expr>,
) -> Result<(Result<u64, Error>, Writing<'a>), Error> {
    let mut columns = ROW_COLUMNS
        .map(|name| item(sources.column(name), name))
        .to_vec();
    let table = writing.table(name)?;
    let arrow = Arc::clone(&table.shown_columns().schema);
    let returns = writing.returns();
    if returns {
        let names = arrow.fields().iter().map(|field| field.name());
        columns.extend(names.map(|name| item(sources.column(name), name)));
    }
    let query = sources.select(columns, condition)?;
    let reading: ReadContext = writing.reading.changing(name.clone());
    let (session, plan) = writing.plan(&reading, query).await?;
    let schema = Arc::clone(plan.schema().inner());
    let mut keys: Vec<RowKey> = Vec::new();
    let memory = writing.reserve();
    let mut kept = Kept::new(writing.reserve());
    let mut writing = writing
        .run(&session, &plan, |batch| {
            // Twice: they are sorted before they are deleted.
            memory.try_grow(batch.num_rows() * size_of::<RowKey>() * 2)?;
            if returns {
                kept.add(&batch)?;
            }
            row_keys(&batch, &mut keys)
        })
        .await?;
    let first = first_of_each(&keys);
    if returns {
        let (batch, _memory) = kept.together(&schema)?;
        let rows = without(&batch, ROW_COLUMNS.len(), first.as_ref())?;
        let rows = named_as(&rows, &arrow)?;
        writing = writing.returned(&sources.alias(), rows).await?;
    }
    if let Some(first) = first {
        let mut is_first = first.iter();
        keys.retain(|_| is_first.next().flatten() == Some(true));
    }
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
