//! UPDATE: rows are read, and others written in their place, as one batch.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Update, UpdateTableFromKind,
};
use nilometer_engine::{RowKey, TableSchema};

use super::declared::Rules;
use super::rows::{batch_of, first_of_each, fitted, row_keys, without};
use super::source::{Sources, item, only_table};
use super::writing::{Kept, TRIES_MAX, Writing, is_overtaken};
use crate::error::{Error, Position};
use crate::execution::blocking;
use crate::statement::name::{Path, TableName};
use crate::tables::names;
use crate::tables::relation;
use crate::tables::table::ROW_COLUMNS;

/// Carries out an UPDATE. Returns how many rows it changed.
pub(crate) async fn update(
    mut writing: Writing<'_>,
    mut update: Update,
) -> Result<(u64, Writing<'_>), Error> {
    let is_plain = update.output.is_none()
        && update.or.is_none()
        && update.order_by.is_empty()
        && update.limit.is_none();
    if !is_plain {
        return Err(Error::Unsupported {
            statement: "this form of UPDATE".to_owned(),
            instead: "write UPDATE t SET a = ... WHERE ..., with sub-selects for what is in other tables",
        });
    }
    let tables = std::slice::from_ref(&update.table);
    let (name, from) = only_table(tables, "UPDATE", &writing.place)?;
    writing.allow(&name)?;
    let others = match update.from {
        Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => {
            tables
        }
        None => Vec::new(),
    };
    let sources = Sources::new(from, others);
    if let Some(reader) = relation::find(&writing.reading.snapshot, &name) {
        let rules = Rules::of_relation(reader.schema()).at(&name);
        rules.assign(&mut update.assignments, &mut writing)?;
        let (values, position) =
            assigned(&reader.schema().shown_columns().schema, &update.assignments)?;
        let update = super::relation::Update {
            name,
            sources,
            values,
            selection: update.selection,
            position,
        };
        return super::relation::update(writing, update).await;
    }
    let table = writing.table(&name)?;
    let rules = Rules::of_table(&table).at(&name);
    rules.assign(&mut update.assignments, &mut writing)?;
    let (query, position) = query(&table, &update.assignments, &sources, update.selection)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let (done, back) = once(writing, &name, (&sources, query.clone()), position).await?;
        match done {
            Err(error) if is_overtaken(&error) && tries < TRIES_MAX => writing = back.again(),
            done => return Ok((done?, back)),
        }
    }
}

/// The query for rows as they shall be, after the columns that say which they are; and where the first value stands.
fn query(
    table: &TableSchema,
    assignments: &[Assignment],
    sources: &Sources,
    condition: Option<ast::Expr>,
) -> Result<(ast::Query, Option<Position>), Error> {
    let arrow = &table.shown_columns().schema;
    let (values, first) = assigned(arrow, assignments)?;
    let mut columns: Vec<ast::SelectItem> = ROW_COLUMNS
        .map(|name| item(sources.column(name), name))
        .to_vec();
    for (field, value) in arrow.fields().iter().zip(values) {
        let value = value.unwrap_or_else(|| sources.column(field.name()));
        columns.push(item(value, field.name()));
    }
    Ok((sources.select(columns, condition)?, first))
}

/// What each column is set to, if it is, and where the first of these stands.
pub(super) type Assigned = (Vec<Option<ast::Expr>>, Option<Position>);

pub(super) fn assigned(arrow: &Schema, assignments: &[Assignment]) -> Result<Assigned, Error> {
    let mut values: Vec<Option<ast::Expr>> = vec![None; arrow.fields().len()];
    let mut first = None;
    for assignment in assignments {
        let AssignmentTarget::ColumnName(target) = &assignment.target else {
            return Err(Error::Unsupported {
                statement: "SET of several columns at once".to_owned(),
                instead: "write SET a = ..., b = ...",
            });
        };
        let target = Path::of(target)?.last;
        let Ok(at) = arrow.index_of(&target.text) else {
            return Err(names::unknown_column_of(arrow, &target));
        };
        first = first.or(target.position);
        match values.get_mut(at) {
            Some(value @ None) => *value = Some(assignment.value.clone()),
            _ => {
                return Err(Error::Plan {
                    message: format!("the column \"{}\" is set twice", target.text),
                    position: target.position,
                });
            }
        }
    }
    Ok((values, first))
}

/// Reads the rows and writes what they shall be. The inner error is the engine's about them; then it may be tried again.
async fn once<'a>(
    writing: Writing<'a>,
    name: &TableName,
    (sources, query): (&Sources, ast::Query),
    position: Option<Position>,
) -> Result<(Result<u64, Error>, Writing<'a>), Error> {
    let table = writing.table(name)?;
    let reading = writing.reading.changing(name.clone());
    let (session, plan) = writing.plan(&reading, query).await?;
    let schema = Arc::clone(plan.schema().inner());
    let mut kept = Kept::new(writing.reserve());
    let mut keys: Vec<RowKey> = Vec::new();
    let zone = writing.reading.zone.clone();
    let writing = writing
        .run(&session, &plan, |batch| {
            row_keys(&batch, &mut keys)?;
            kept.add(&batch)
        })
        .await?;
    if keys.is_empty() {
        let shown = &table.shown_columns().schema;
        let writing = writing.returned_nothing(&sources.alias(), shown).await?;
        return Ok((Ok(0), writing));
    }
    let (mut batch, memory) = kept.together(&schema)?;
    // A row that several others match is changed once, as the first of them says.
    if let Some(first) = first_of_each(&keys) {
        batch = without(&batch, 0, Some(&first))?;
        let mut is_first = first.iter();
        keys.retain(|_| is_first.next().flatten() == Some(true));
    }
    let arrow = &table.shown_columns().schema;
    let columns: Result<Vec<(Field, ArrayRef)>, Error> = arrow
        .fields()
        .iter()
        .zip(batch.columns().iter().skip(ROW_COLUMNS.len()))
        .map(|(field, array)| {
            let array = fitted(array, field, position, &zone)?;
            Ok((field.as_ref().clone(), array))
        })
        .collect();
    let rows = batch_of(columns?, batch.num_rows())?;
    let rules = Rules::of_table(&table);
    let mut writing = rules.checked(writing, &rows).await?;
    if writing.returns() {
        writing = writing
            .returned(&sources.alias(), rules.shown(&rows)?)
            .await?;
    }
    let writer = writing.writer();
    let executor = writing.executor();
    let snapshot = Arc::clone(&reading.snapshot);
    let database = name.database.clone();
    let done = blocking(&executor, move || {
        let mut session = writer.session(&database)?;
        session.have_checked(true);
        let report = session.update_rows(&snapshot, &table, &keys, &rows)?;
        drop(memory);
        Ok(report.written)
    })
    .await;
    Ok((done, writing))
}
