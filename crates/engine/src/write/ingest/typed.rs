//! Typed writes: a record batch in, one atomic batch out.
//!
//! Does: find columns by name, convert them, give rows their series, and decide what becomes of rows whose key is there.
//! Does not: make tables or columns ([`Session::make_missing`] does), keep the good part of a bad
//! batch, or look keys up (`engine/change/key_lookup.rs` does).
//!
//! A `unique` table is checked without a lock: look the keys up, build the batch, and ask under the sequencer whether
//! anything happened to one of them since. If so, all of it is done again; somebody else got ahead, so this ends.

mod arrays;
mod beforehand;
mod declared;
mod guess;
mod missing;
mod moved;
mod pages;
mod relation;
mod seen;
mod sequenced;
mod series;
mod staged;
mod stated;
mod update;

use std::sync::Arc;

use arrow_array::RecordBatch;
use rustc_hash::FxHashSet;

use super::Session;
use crate::batch::{Batch, BatchKey, TableRows};
use crate::engine::{Engine, Key, Keys, Presence, Since, Transaction, find_table};
use crate::error::{ConstraintKind, Error};
use crate::nearest::nearest;
use crate::order::sorted_order;
use crate::schema::{ColumnId, ColumnKind, Duplicates, Lsn, SeriesId, TIME_COLUMN, TableSchema};
use crate::state::State;
use arrays::{Refusal, Strings};
pub use guess::{is_likely_tag, likely_tags};
pub use missing::Missing;
pub(crate) use moved::Moved;
pub use pages::{FlashPages, PageBlock};
pub use seen::{Seen, SeenKeys};
pub use stated::Stated;

/// Where rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// A schema of the session's database; `None` = its default one.
    pub schema: Option<&'a str>,
    /// A table, which must exist with all columns that are written.
    pub table: &'a str,
}

impl<'a> Target<'a> {
    /// A table of the default schema.
    pub fn table(table: &'a str) -> Self {
        Self {
            schema: None,
            table,
        }
    }
}

/// What becomes of a row of a `unique` table whose series and time are those of a row that is there, or of an earlier
/// row of the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// The whole batch is refused, and the error names the first such row.
    Error,
    /// The row is left out.
    Skip,
    /// It takes the place of the other, as a whole: a field that it lacks is null. The only choice in `last` tables, which
    /// merge rows, and in `keep` tables, which keep both.
    Replace,
}

/// What became of a typed write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TypedReport {
    /// Rows of the batch that are there now: durable and visible.
    pub written: u64,
    /// Rows of the batch that were left out.
    pub skipped: u64,
    /// Rows that had to go for others, of the table or earlier ones of the batch.
    pub replaced: u64,
    /// Rows of the batch that a `last` table merges with an earlier row: one of the batch, or one that the [`SeenKeys`] of
    /// [`Session::write_arrow_counted`] know. What the table had before does not count: nothing is looked up for it.
    pub merged: u64,
    /// LSN of the batch; 0 when nothing had to be written.
    pub lsn: Lsn,
    /// The batch was written before, under the same key: `written` and `lsn` are those of then, the others are not known
    /// any more and 0, and nothing was written now.
    pub repeated: bool,
}

/// What is to be done with a batch that was read.
struct Request<'a> {
    target: Target<'a>,
    rows: &'a RecordBatch,
    on_conflict: OnConflict,
    key: Option<BatchKey>,
}

/// Rows, and what had to be looked at to know which.
struct Decided {
    rows: TableRows,
    skipped: u64,
    replaced: u64,
    /// Keys that must not have changed since this LSN.
    keys: Vec<Key>,
    looked: Lsn,
    /// Those of the keys that were free, and what the store had of them, if a transaction writes.
    free: Vec<(Key, Presence)>,
}

impl Decided {
    /// All rows are written, whatever is there.
    fn all(rows: TableRows) -> Self {
        Self {
            rows,
            skipped: 0,
            replaced: 0,
            keys: Vec::new(),
            looked: 0,
            free: Vec::new(),
        }
    }
}

impl Session {
    /// Writes rows into a table, as one batch: all of them, but for those that `on_conflict` leaves out, or nothing.
    /// Returns when they are durable and visible.
    ///
    /// Columns are found by the names of [`TableSchema::arrow_schema`], or by what they say that they are ([`Stated`]), in any
    /// order; those that are missing are null. The
    /// time must be there. A tag that is null or empty is one that the series does not have. Null fields are absent ones
    /// in `last` and `keep` tables; in a `unique` table the row is what it is, with its nulls. A type is taken if every
    /// value stays what it is. A batch that is refused may leave names of new series behind, but no row.
    pub fn write_arrow(
        &mut self,
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<TypedReport, Error> {
        let request = Request {
            target,
            rows,
            on_conflict,
            key: None,
        };
        self.write_typed(&request, None)
    }

    /// As [`Self::write_arrow`], but a batch that was written under this key lately is not written again; see
    /// [`Self::write_lines_once`].
    pub fn write_arrow_once(
        &mut self,
        key: [u8; 16],
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<TypedReport, Error> {
        let request = Request {
            target,
            rows,
            on_conflict,
            key: Some(self.engine.sequencer().batch_key(key)),
        };
        self.write_typed(&request, None)
    }

    /// As [`Self::write_arrow`] or, with a key, [`Self::write_arrow_once`], for one batch of several that belong together:
    /// rows that a `last` table merges with those of an earlier batch are counted, too. `seen` knows their keys.
    pub fn write_arrow_counted(
        &mut self,
        key: Option<[u8; 16]>,
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
        seen: &mut SeenKeys,
    ) -> Result<TypedReport, Error> {
        let request = Request {
            target,
            rows,
            on_conflict,
            key: key.map(|key| self.engine.sequencer().batch_key(key)),
        };
        self.write_typed(&request, Some(seen))
    }

    /// Says whether the CHECKs of tables are evaluated before their rows come here; else a table that has some refuses them.
    pub fn have_checked(&mut self, has_checked: bool) {
        self.has_checked = has_checked;
    }

    fn write_typed(
        &mut self,
        request: &Request<'_>,
        mut seen: Option<&mut SeenKeys>,
    ) -> Result<TypedReport, Error> {
        // Counted once, however often the batch has to be built.
        let mut merged = None;
        loop {
            self.follow_changes()?;
            let mut count = |rows: &TableRows| {
                *merged.get_or_insert_with(|| match seen.as_deref_mut() {
                    Some(seen) => seen.add_all(&rows.series, &rows.times),
                    None => merged_within(rows),
                })
            };
            if let Some(report) = self.try_write_typed(request, &mut count)? {
                return Ok(report);
            }
        }
    }

    /// `None` = what it was built on changed meanwhile, and nothing was written. `merged` counts the rows that a `last`
    /// table merges.
    fn try_write_typed(
        &mut self,
        request: &Request<'_>,
        merged: &mut dyn FnMut(&TableRows) -> u64,
    ) -> Result<Option<TypedReport>, Error> {
        let table = self.target(&request.target)?;
        let duplicates = table.settings.duplicates;
        if duplicates != Duplicates::Unique && request.on_conflict != OnConflict::Replace {
            return Err(Error::NoConflicts {
                table: table.name.clone(),
                duplicates: duplicates_name(duplicates),
            });
        }
        if let Some(repeated) = self.repeated(request)? {
            return Ok(Some(repeated));
        }
        let Some(rows) = self.typed_rows(&table, request.rows)? else {
            return Ok(None);
        };
        let merged = match duplicates {
            Duplicates::Last => merged(&rows),
            Duplicates::Keep | Duplicates::Unique => 0,
        };
        let decided = if duplicates == Duplicates::Unique {
            let own = self.transaction.as_deref();
            match decide(&self.engine, own, &table, rows, request.on_conflict) {
                // The rows that are in the way may be this batch's own, sent a moment ago by somebody else.
                Err(refused @ Error::RowConflict { .. }) => {
                    return match self.repeated(request)? {
                        Some(repeated) => Ok(Some(repeated)),
                        None => Err(refused),
                    };
                }
                decided => decided?,
            }
        } else {
            Decided::all(rows)
        };
        let mut report = TypedReport {
            skipped: decided.skipped,
            replaced: decided.replaced,
            merged,
            ..TypedReport::default()
        };
        let has_rows = decided.rows.rows() > 0;
        if let Some(own) = &self.transaction {
            report.written = decided.rows.rows() as u64;
            let free = decided.free.into_iter();
            own.add_rows(&table, decided.rows, free, decided.looked)?;
            if !has_rows {
                self.engine.sequencer().wait_for(decided.looked)?;
            }
            return Ok(Some(report));
        }
        let batch = Batch {
            tables: has_rows.then_some(decided.rows).into_iter().collect(),
            key: request.key,
            ..Batch::default()
        };
        let keys = Keys {
            table: table.id,
            keys: &decided.keys,
        };
        let still_holds = |state: &State| !state.has_news(keys, decided.looked);
        let written = if self.waits {
            self.engine.write_if(batch, self.epoch, still_holds)?
        } else {
            self.engine.sequence_if(batch, self.epoch, still_holds)?
        };
        let Some(written) = written else {
            return Ok(None);
        };
        if !has_rows {
            // Who hears that his rows are there must find them there after a power cut.
            self.engine.sequencer().wait_for(decided.looked)?;
        }
        if written.repeated {
            report = TypedReport::default();
        }
        report.written = written.rows;
        report.lsn = written.lsn;
        report.repeated = written.repeated;
        Ok(Some(report))
    }

    /// What became of the batch when it was written before.
    fn repeated(&self, request: &Request<'_>) -> Result<Option<TypedReport>, Error> {
        let Some(key) = &request.key else {
            return Ok(None);
        };
        let taken = self.engine.sequencer().taken_under(key)?;
        Ok(taken.map(|taken| TypedReport {
            written: taken.rows,
            lsn: taken.lsn,
            repeated: true,
            ..TypedReport::default()
        }))
    }

    fn target(&self, target: &Target<'_>) -> Result<Arc<TableSchema>, Error> {
        let schema = self.schema_of(target);
        let catalogue = self.engine.sequencer().catalogue();
        find_table(&catalogue, &self.database, &schema, target.table)
    }

    /// The name of the schema that rows go to.
    fn schema_of(&self, target: &Target<'_>) -> String {
        if let Some(schema) = target.schema {
            return schema.to_owned();
        }
        let catalogue = self.engine.sequencer().catalogue();
        let name = catalogue.schema_name(self.schema);
        name.unwrap_or_default().to_owned()
    }

    /// Rows as a batch carries them. `None` = the catalogue changed meanwhile.
    fn typed_rows(
        &mut self,
        table: &Arc<TableSchema>,
        batch: &RecordBatch,
    ) -> Result<Option<TableRows>, Error> {
        self.engine
            .check_batch(batch.num_rows(), batch.num_columns())?;
        let declared = table.declared.as_ref();
        if let Some(check) = declared.and_then(|it| it.checks.first())
            && !self.has_checked
        {
            return Err(Error::TypedColumn {
                table: table.name.clone(),
                column: table.time().0.to_owned(),
                reason: format!(
                    "the table has the CHECK \"{}\", which only SQL evaluates; write the rows with INSERT",
                    check.name
                ),
            });
        }
        let most = self.engine.options().value_bytes_max;
        let columns = Columns::of(table, batch, most)?;
        let Some(series) = self.series_of(table, &columns.tags, batch.num_rows())? else {
            return Ok(None);
        };
        Ok(Some(TableRows {
            table: table.id,
            series,
            times: columns.times,
            columns: columns.fields,
        }))
    }
}

/// The columns of a batch, converted.
struct Columns<'a> {
    times: Vec<i64>,
    /// By id.
    tags: Vec<(&'a str, ColumnId, Strings<'a>)>,
    /// Those with a value.
    fields: Vec<crate::batch::Column>,
}

impl<'a> Columns<'a> {
    fn of(
        table: &'a TableSchema,
        batch: &'a RecordBatch,
        value_bytes_max: u64,
    ) -> Result<Self, Error> {
        let rows = batch.num_rows();
        let schema = batch.schema_ref();
        let mut times = None;
        let mut taken = FxHashSet::default();
        let mut tags = Vec::new();
        let mut fields = Vec::new();
        for (at, (column, array)) in schema.fields().iter().zip(batch.columns()).enumerate() {
            let name = column.name();
            let before = schema.fields().iter().take(at);
            let refused = |refusal| refusal_of(&table.name, name, column.data_type(), refusal);
            if before.clone().any(|other| stated::is_same(other, column)) {
                return Err(given_twice(table, name));
            }
            let time_name = table.time().0;
            if name == time_name || name == TIME_COLUMN {
                if times.is_some() {
                    return Err(Error::TypedColumn {
                        table: table.name.clone(),
                        column: name.clone(),
                        reason: format!("the time is given twice, as \"{time_name}\" too"),
                    });
                }
                times = Some(declared::times(array, table).map_err(refused)?);
                continue;
            }
            let known = stated::meant(table, column).ok_or_else(|| unknown(table, name))?;
            if !taken.insert(known.id) {
                return Err(given_twice(table, name));
            }
            match known.kind {
                ColumnKind::Tag => {
                    let values = match known.of() {
                        None => Strings::tag(array),
                        Some(of) => Strings::integer_tag(array, of),
                    };
                    let values = values.map_err(refused)?;
                    if known.is_not_null() {
                        let lacks = |row: &usize| values.get(*row).is_none_or(<[u8]>::is_empty);
                        check_null(table, &known.name, (0..rows).find(lacks))?;
                    }
                    tags.push((known.name.as_str(), known.id, values));
                }
                ColumnKind::Field(kind) => {
                    let field = match known.of() {
                        None => arrays::field(array, known.id, kind, value_bytes_max),
                        Some(of) => declared::field(array, known.id, of),
                    };
                    let field = field.map_err(refused)?;
                    if known.is_not_null() {
                        let lacks = |row: &usize| !field.validity.is_valid(*row);
                        check_null(table, name, (0..rows).find(lacks))?;
                    }
                    if field.validity.nulls() < rows {
                        fields.push(field);
                    }
                }
            }
        }
        tags.sort_by_key(|(_, id, _)| *id);
        let columns = table.tags.iter().chain(&table.fields);
        for required in columns.filter(|column| column.is_not_null()) {
            let given = |it: &Arc<arrow_schema::Field>| {
                stated::meant(table, it).is_some_and(|column| column.id == required.id)
            };
            if rows > 0 && !schema.fields().iter().any(given) {
                check_null(table, &required.name, Some(0))?;
            }
        }
        let times = times.ok_or_else(|| Error::TypedColumn {
            table: table.name.clone(),
            column: table.time().0.to_owned(),
            reason: "it is missing, and every row needs a time".to_owned(),
        })?;
        Ok(Self {
            times,
            tags,
            fields,
        })
    }
}

fn refusal_of(
    table: &str,
    column: &str,
    found: &arrow_schema::DataType,
    refusal: Refusal,
) -> Error {
    let table = table.to_owned();
    let column = column.to_owned();
    match refusal {
        Refusal::Type { taken } => Error::TypedColumn {
            table,
            column,
            reason: format!("its type is {found}; {taken}"),
        },
        Refusal::Row { row, reason } => Error::TypedRow {
            table,
            column,
            row: row + 1,
            reason,
        },
        Refusal::Violation { row, why } => Error::Constraint {
            kind: why.kind,
            table,
            reason: format!("column \"{column}\": {}", why.reason),
            column: Some(column),
            constraint: None,
            row: row + 1,
        },
        Refusal::Text { bytes, max } => Error::Limit {
            what: "the text of one column of one batch",
            limit: max as u64,
            needed: bytes as u64,
            remedy: "send smaller batches",
        },
    }
}

/// Refuses a null, if there is one, in a column that may have none.
fn check_null(table: &TableSchema, column: &str, row: Option<usize>) -> Result<(), Error> {
    match row {
        None => Ok(()),
        Some(row) => Err(Error::Constraint {
            kind: ConstraintKind::NotNull,
            table: table.name.clone(),
            column: Some(column.to_owned()),
            constraint: None,
            row: row + 1,
            reason: format!("the column \"{column}\" is NOT NULL, and the row has no value for it"),
        }),
    }
}

fn given_twice(table: &TableSchema, name: &str) -> Error {
    Error::TypedColumn {
        table: table.name.clone(),
        column: name.to_owned(),
        reason: "it is given twice; give each column once".to_owned(),
    }
}

fn unknown(table: &TableSchema, name: &str) -> Error {
    let arrow = &table.shown_columns().schema;
    let names = arrow.fields().iter().map(|field| field.name().as_str());
    let reason = match nearest(name, names) {
        Some(nearest) => format!(
            "the table has no such column; did you mean \"{nearest}\"? Otherwise add it to the table first"
        ),
        None => "the table has no such column; add it to the table first".to_owned(),
    };
    Error::TypedColumn {
        table: table.name.clone(),
        column: name.to_owned(),
        reason,
    }
}

fn duplicates_name(duplicates: Duplicates) -> &'static str {
    match duplicates {
        Duplicates::Last => "last",
        Duplicates::Keep => "keep",
        Duplicates::Unique => "unique",
    }
}

/// Which rows of a batch for a `unique` table are written.
fn decide(
    engine: &Engine,
    own: Option<&Transaction>,
    table: &TableSchema,
    rows: TableRows,
    on_conflict: OnConflict,
) -> Result<Decided, Error> {
    let order = sorted_order(&rows.series, &rows.times);
    let key_of = |row: u32| key_at(&rows, row);
    let groups: Vec<&[u32]> = order.chunk_by(|&a, &b| key_of(a) == key_of(b)).collect();
    let first = |group: &&[u32]| group.first().copied().unwrap_or(0);
    let keys: Vec<Key> = groups.iter().map(|group| key_of(first(group))).collect();
    let asked = Keys {
        table: table.id,
        keys: &keys,
    };
    let look = match own {
        Some(own) => own.look_up(asked)?,
        None => engine.sequencer().look_up(asked, Since::default())?,
    };
    let mut kept: Vec<u32> = Vec::with_capacity(rows.rows());
    let mut replaced = 0;
    // The first row in the way, and whether the other is of the batch.
    let mut conflict: Option<(u32, bool)> = None;
    for (group, found) in groups.iter().zip(&look.found) {
        let is_there = *found != Presence::Absent;
        let row = if is_there {
            group.first()
        } else {
            group.get(1)
        };
        if let Some(&row) = row
            && conflict.is_none_or(|(first, _)| row < first)
        {
            conflict = Some((row, !is_there));
        }
        match on_conflict {
            OnConflict::Replace => {
                kept.extend(group.last());
                replaced += group.len() as u64 - 1 + u64::from(is_there);
            }
            OnConflict::Skip | OnConflict::Error if is_there => {}
            OnConflict::Skip | OnConflict::Error => kept.extend(group.first()),
        }
    }
    if let (OnConflict::Error, Some((row, in_batch))) = (on_conflict, conflict) {
        // What it is refused for must not be lost after the refusal was heard.
        engine.sequencer().wait_for(look.lsn)?;
        let (series, time) = key_of(row);
        let series = SeriesId(series);
        let tags = match own {
            Some(own) => own.shown_tags(table, series),
            None => engine.shown_tags(table, series),
        };
        return Err(conflict_of(table, tags, time, row, in_batch));
    }
    let found = look.found.iter().zip(&look.committed);
    let free = keys.iter().zip(found);
    let free = free.filter(|(_, (found, _))| **found == Presence::Absent);
    let free = free.map(|(key, (_, committed))| (*key, *committed));
    let free = match on_conflict {
        OnConflict::Replace => Vec::new(),
        OnConflict::Error | OnConflict::Skip => free.collect(),
    };
    let left_out = (rows.rows() - kept.len()) as u64;
    let skipped = if on_conflict == OnConflict::Skip {
        left_out
    } else {
        0
    };
    let rows = if left_out == 0 {
        rows
    } else {
        kept.sort_unstable();
        rows.picked(&kept)
    };
    Ok(Decided {
        rows,
        skipped,
        replaced,
        free,
        keys,
        looked: look.lsn,
    })
}

/// Rows that share series and time with an earlier one of the same batch.
fn merged_within(rows: &TableRows) -> u64 {
    let keys = rows.series.iter().zip(&rows.times);
    // Most batches come in order, of one series or of many at one time after the other.
    if keys.is_sorted_by(|a, b| a < b) {
        return 0;
    }
    let order = sorted_order(&rows.series, &rows.times);
    let pairs = order.iter().zip(order.iter().skip(1));
    pairs
        .filter(|&(&a, &b)| key_at(rows, a) == key_at(rows, b))
        .count() as u64
}

fn key_at(rows: &TableRows, row: u32) -> Key {
    let series = rows.series.get(row as usize).copied().unwrap_or(0);
    let time = rows.times.get(row as usize).copied().unwrap_or(0);
    (series, time)
}

fn conflict_of(table: &TableSchema, tags: String, time: i64, row: u32, in_batch: bool) -> Error {
    let (place, remedy) = if in_batch {
        ("earlier in the batch", "give each series and time once")
    } else {
        ("there already", "leave such rows out")
    };
    Error::RowConflict {
        table: table.name.clone(),
        row: row as usize + 1,
        tags,
        time,
        place,
        remedy,
    }
}
