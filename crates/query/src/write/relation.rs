//! UPDATE and DELETE of relations: rows are found by the planner, and changed by their primary keys as one batch, which
//! the engine takes only if they still are what was read.
//!
//! Does: turn what the planner finds into changes. Does not: insert (`relation/insert.rs` does), or decide about keys
//! that are taken (the engine does).

mod insert;
mod merge;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::sql::sqlparser::ast;
use nilometer_engine::{
    RelationChange, RelationReader, RelationSchema, Sequenced, Snapshot, Value,
};
use nilometer_service::sequence_relations;

use super::declared::Rules;
use super::rows::{batch_of, first_of_each, fitted, named_as, without};
use super::source::{Sources, item};
use super::stored::Stored;
use super::writer::Writer;
use super::writing::{Kept, TRIES_MAX, Writing, is_overtaken};
use crate::error::{Error, Position};
use crate::semantics::zone::Zone;
use crate::statement::name::TableName;
use crate::tables::names;
use crate::tables::relation;

pub(super) use insert::insert;
pub(crate) use merge::{check as check_merge, merge};

/// An UPDATE of a relation.
pub(super) struct Update {
    pub(super) name: TableName,
    pub(super) sources: Sources,
    /// What each column is set to, if it is.
    pub(super) values: Vec<Option<ast::Expr>>,
    pub(super) selection: Option<ast::Expr>,
    /// Where the first value stands.
    pub(super) position: Option<Position>,
}

/// Carries out an UPDATE. Returns how many rows it changed.
pub(super) async fn update(
    mut writing: Writing<'_>,
    update: Update,
) -> Result<(u64, Writing<'_>), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (done, back) = update_once(writing, &update).await?;
        match done {
            Err(error) if is_overtaken(&error) && tries < TRIES_MAX => writing = back.again(),
            done => return Ok((done?, back)),
        }
    }
}

/// The inner error is the engine's about the rows; then it may be tried again.
type Tried<'a> = (Result<u64, Error>, Writing<'a>);

async fn update_once<'a>(writing: Writing<'a>, update: &Update) -> Result<Tried<'a>, Error> {
    let schema = schema_of(&writing, &update.name)?;
    let sources = &update.sources;
    let columns = changed_columns(&schema, &update.values, |name| sources.column(name));
    let query = sources.select(columns, update.selection.clone())?;
    let reading = writing.reading.changing(update.name.clone());
    let (session, plan) = writing.plan(&reading, query).await?;
    let arrow = Arc::clone(plan.schema().inner());
    let mut kept = Kept::new(writing.reserve());
    let writing = writing
        .run(&session, &plan, |batch| kept.add(&batch))
        .await?;
    let (mut batch, memory) = kept.together(&arrow)?;
    // A row that several others match is changed once, as the first of them says.
    if sources.are_several()
        && let Some(first) = first_of_each(&key_texts(&schema, &batch)?)
    {
        batch = without(&batch, 0, Some(&first))?;
    }
    let new = shall_be(&schema, &batch, update.position, &reading.zone)?;
    let rules = Rules::of_relation(&schema);
    let mut writing = rules.checked(writing, &new).await?;
    if writing.returns() {
        writing = writing
            .returned(&sources.alias(), rules.shown(&new)?)
            .await?;
    }
    let moves = moves(&schema, &update.values);
    let changes = changed(&schema, &batch, update.position, moves, &reading.zone)?;
    let rows = batch.num_rows();
    Ok(write(
        writing,
        &update.name,
        &reading.snapshot,
        changes,
        rows,
        memory,
    )
    .await)
}

/// Carries out a DELETE. Returns how many rows are gone.
pub(super) async fn delete<'a>(
    mut writing: Writing<'a>,
    name: TableName,
    sources: &Sources,
    selection: Option<ast::Expr>,
) -> Result<(u64, Writing<'a>), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let schema = schema_of(&writing, &name)?;
        let keys_of = key_columns(&schema).map(|name| item(sources.column(name), &old_name(name)));
        let mut columns: Vec<ast::SelectItem> = keys_of.collect();
        if writing.returns() {
            let shown = schema.named_columns().iter();
            let names = shown.map(|column| column.name.as_str());
            columns.extend(names.map(|name| item(sources.column(name), name)));
        }
        let query = sources.select(columns, selection.clone())?;
        let reading = writing.reading.changing(name.clone());
        let (session, plan) = writing.plan(&reading, query).await?;
        let arrow = Arc::clone(plan.schema().inner());
        let mut kept = Kept::new(writing.reserve());
        let mut back = writing
            .run(&session, &plan, |batch| kept.add(&batch))
            .await?;
        let (mut batch, memory) = kept.together(&arrow)?;
        if sources.are_several()
            && let Some(first) = first_of_each(&key_texts(&schema, &batch)?)
        {
            batch = without(&batch, 0, Some(&first))?;
        }
        if back.returns() {
            let gone = without(&batch, schema.primary_key.len(), None)?;
            let gone = named_as(&gone, &schema.shown_columns().schema)?;
            back = back.returned(&sources.alias(), gone).await?;
        }
        let rows = batch.num_rows();
        let keys = keys(&schema, &batch)?;
        let changes = vec![RelationChange::Delete(schema, keys)];
        let (done, back) = write(back, &name, &reading.snapshot, changes, rows, memory).await;
        match done {
            Err(error) if is_overtaken(&error) && tries < TRIES_MAX => writing = back.again(),
            done => return Ok((done?, back)),
        }
    }
}

/// The relation as the statement's snapshot has it; after a try it may be another one, or none.
fn reader_of(writing: &Writing<'_>, name: &TableName) -> Result<RelationReader, Error> {
    let snapshot = &writing.reading.snapshot;
    relation::find(snapshot, name).ok_or_else(|| names::unknown_table(snapshot, name))
}

fn schema_of(writing: &Writing<'_>, name: &TableName) -> Result<Arc<RelationSchema>, Error> {
    Ok(Arc::clone(reader_of(writing, name)?.schema()))
}

/// Names of the columns of the primary key.
fn key_columns(schema: &RelationSchema) -> impl Iterator<Item = &str> {
    let positions = schema.primary_key.iter();
    positions.filter_map(|&at| Some(schema.columns.get(at as usize)?.name.as_str()))
}

/// What a key that a row had is called, beside the one that it gets. No column of a user is called so by accident.
fn old_name(name: &str) -> String {
    format!("old {name}")
}

/// What is read to change rows: the keys that they have, then all columns as they shall be. `of` says how a column of the
/// relation is written.
fn changed_columns(
    schema: &RelationSchema,
    values: &[Option<ast::Expr>],
    of: impl Fn(&str) -> ast::Expr,
) -> Vec<ast::SelectItem> {
    let keys = key_columns(schema).map(|name| item(of(name), &old_name(name)));
    let mut columns: Vec<ast::SelectItem> = keys.collect();
    for (known, value) in schema.named_columns().iter().zip(values) {
        let value = value.clone().unwrap_or_else(|| of(&known.name));
        columns.push(item(value, &known.name));
    }
    columns
}

/// Whether a key may change: then rows have to go before others come, or they would be in each other's way.
fn moves(schema: &RelationSchema, values: &[Option<ast::Expr>]) -> bool {
    let mut keys = std::iter::once(&schema.primary_key)
        .chain(&schema.unique)
        .flatten();
    keys.any(|&at| matches!(values.get(at as usize), Some(Some(_))))
}

/// The changes that make rows what [`changed_columns`] has read.
fn changed(
    schema: &Arc<RelationSchema>,
    batch: &RecordBatch,
    position: Option<Position>,
    moves: bool,
    zone: &Zone,
) -> Result<Vec<RelationChange>, Error> {
    let old = keys(schema, batch)?;
    let new = schema.rows_of(&shall_be(schema, batch, position, zone)?)?;
    let new = with_numbers(schema, new, &old);
    Ok(if moves {
        vec![
            RelationChange::Delete(Arc::clone(schema), old),
            RelationChange::Insert(Arc::clone(schema), new),
        ]
    } else {
        vec![RelationChange::Replace(Arc::clone(schema), new)]
    })
}

/// Rows with the numbers that they had, where rows are numbered: no statement changes these.
fn with_numbers(
    schema: &RelationSchema,
    mut rows: Vec<Vec<Value>>,
    keys: &[Vec<Value>],
) -> Vec<Vec<Value>> {
    if let Some(at) = schema.row_number() {
        for (row, key) in rows.iter_mut().zip(keys) {
            if let (Some(cell), Some(number)) = (row.get_mut(at), key.first()) {
                *cell = number.clone();
            }
        }
    }
    rows
}

/// The rows as they shall be, of what [`changed_columns`] has read.
fn shall_be(
    schema: &RelationSchema,
    batch: &RecordBatch,
    position: Option<Position>,
    zone: &Zone,
) -> Result<RecordBatch, Error> {
    let arrow = schema.shown_columns().schema;
    let new = batch.columns().iter().skip(schema.primary_key.len());
    let columns: Result<Vec<(Field, ArrayRef)>, Error> = arrow
        .fields()
        .iter()
        .zip(new)
        .map(|(field, array)| {
            let array = fitted(array, field, position, zone)?;
            Ok((field.as_ref().clone(), array))
        })
        .collect();
    batch_of(columns?, batch.num_rows())
}

/// The primary keys that a batch has in its first columns, in the key's order.
fn keys(schema: &RelationSchema, batch: &RecordBatch) -> Result<Vec<Vec<Value>>, Error> {
    let arrow: SchemaRef = schema.columns_with_number().schema;
    let columns = key_columns(schema).zip(batch.columns());
    let columns = columns.filter_map(|(name, array)| {
        let field = arrow.field_with_name(name).ok()?.clone();
        Some((field, Arc::clone(array)))
    });
    let rows = schema.rows_of(&batch_of(columns.collect(), batch.num_rows())?)?;
    let key_of = |row: Vec<Value>| {
        let positions = schema.primary_key.iter();
        let values = positions.filter_map(|&at| row.get(at as usize).cloned());
        values.collect()
    };
    Ok(rows.into_iter().map(key_of).collect())
}

/// The primary keys of a batch as texts that are equal for keys that are.
fn key_texts(schema: &RelationSchema, batch: &RecordBatch) -> Result<Vec<String>, Error> {
    let keys = keys(schema, batch)?;
    Ok(keys.iter().map(|key| insert::key_text(key)).collect())
}

/// Writes changes of rows that a snapshot has shown.
async fn write<'a>(
    writing: Writing<'a>,
    name: &TableName,
    snapshot: &Arc<Snapshot>,
    changes: Vec<RelationChange>,
    rows: usize,
    memory: MemoryReservation,
) -> Tried<'a> {
    if rows == 0 {
        return (Ok(0), writing);
    }
    let stored = RelationRows {
        writer: writing.writer(),
        name: name.clone(),
        snapshot: Some(Arc::clone(snapshot)),
        changes,
        rows,
        _memory: memory,
    };
    let done = writing.store(stored).await;
    (done, writing)
}

/// Changes of relations, and the memory that they are held in.
struct RelationRows {
    writer: Writer,
    name: TableName,
    /// What has shown the rows that are changed.
    snapshot: Option<Arc<Snapshot>>,
    changes: Vec<RelationChange>,
    rows: usize,
    _memory: MemoryReservation,
}

impl Stored for RelationRows {
    fn rows(&self) -> usize {
        self.rows
    }

    fn put(&self) -> Result<Option<Sequenced>, Error> {
        let within = (self.name.database.as_str(), self.name.schema.as_str());
        let snapshot = self.snapshot.as_deref();
        let put = sequence_relations(&self.writer.engine, snapshot, within, &self.changes)?;
        Ok(put)
    }

    fn write(&self) -> Result<u64, Error> {
        let snapshot = self.snapshot.as_deref();
        let done = self
            .writer
            .write_relations(&self.name, snapshot, &self.changes);
        done?;
        Ok(self.rows as u64)
    }

    fn written(&self, _: Sequenced) -> u64 {
        self.rows as u64
    }
}
