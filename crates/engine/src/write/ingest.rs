//! Points to batches: line protocol in, one atomic batch out, bad lines named. Typed rows come in through `typed.rs`.
//!
//! Does: resolve series and fields to ids through a memo, group columns by table, reject single rows. Does not: read
//! sockets or decide status codes.
//!
//! The memo is what makes this fast: a series text that was seen before is hashed, not parsed, and the series that
//! followed it last time is tried first. Series that nobody saw before are collected and defined once for the body.

mod declared;
mod fits;
mod memo;
mod new_series;
mod pending;
mod planned;
mod rows;
mod slot;
mod typed;
mod window;

use std::sync::Arc;

use nilometer_lineproto::{LineError, Point, Precision, Reader, SeriesKey};
use rustc_hash::FxHashMap;

use crate::batch::{Batch, BatchKey, TableRows};
use crate::engine::{Engine, RelationChange, Transaction};
use crate::error::Error;
use crate::relation::Change;
use crate::schema::{Lsn, SchemaId, TIME_COLUMN, TableId};
pub(crate) use memo::SeriesMemo;
use pending::Pending;
use planned::{PLANNED_SCHEMA, Planned};
use rows::{Builder, RowContext, RowError, RowSeries};
use slot::TableSlot;
pub(crate) use typed::Moved;
pub use typed::{
    FlashPages, Missing, OnConflict, PageBlock, Seen, SeenKeys, Stated, Target, TypedReport,
    is_likely_tag, likely_tags,
};
pub use window::{Beyond, BeyondPoint, Bound, WriteWindow};

/// Rejected lines that a report shows; the rest are counted.
pub const REJECTED_SHOWN_MAX: usize = 100;
/// Bytes of a rejected line that a report shows.
const LINE_SHOWN_BYTES: usize = 1024;
/// Lines read while the memo is held: a fraction of a millisecond, so that who wants to teach it does not wait long.
const LINES_OF_ONE_LOCK: usize = 256;

/// Tables that a session remembers from body to body.
const TABLES_KEPT_MAX: usize = 4096;
/// What a new table costs beside its name until its first rows are in a segment: a run, series, what the session knows.
const NEW_TABLE_BYTES: usize = 512;

/// What became of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Points that were kept: durable and visible now.
    pub rows: u64,
    /// LSN of their batch; 0 when none was kept.
    pub lsn: Lsn,
    /// The body was written before, under the same key: rows and LSN are those of then, and nothing was written now.
    pub repeated: bool,
    /// The first [`REJECTED_SHOWN_MAX`] lines that were not kept, or not whole.
    pub rejected: Vec<Rejected>,
    /// All of them.
    pub rejected_total: u64,
    /// Points that are line protocol, but clash with their table and were not kept.
    pub dropped: u64,
    /// Points that were not kept because of their times; they are in none of the counts above.
    pub beyond: Option<Box<Beyond>>,
}

/// A line that was not kept, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Counted from 1.
    pub line_number: usize,
    /// The line as it came, cut after 1024 bytes.
    pub line: String,
    /// InfluxDB's words for what is wrong with it.
    pub reason: String,
    /// Whether the text is wrong; otherwise it clashes with the table.
    pub parse: bool,
}

impl WriteReport {
    fn reject(&mut self, line_number: usize, line: &[u8], reason: String, parse: bool) {
        self.rejected_total += 1;
        self.dropped += u64::from(!parse);
        if self.rejected.len() < REJECTED_SHOWN_MAX {
            let shown = line.get(..LINE_SHOWN_BYTES).unwrap_or(line);
            self.rejected.push(Rejected {
                line_number,
                line: String::from_utf8_lossy(shown).into_owned(),
                reason,
                parse,
            });
        }
    }
}

/// One writer of one database. Keep it: what it learns makes the next body cheaper.
#[derive(Debug)]
pub struct Session {
    engine: Arc<Engine>,
    database: String,
    /// The schema it was made for; `None` = whichever is the default one.
    named: Option<String>,
    window: WriteWindow,
    schema: SchemaId,
    /// The catalogue's epoch at which all that it knows was looked up.
    epoch: u64,
    /// Where the memo would have the next series.
    expected: usize,
    tables: Vec<TableSlot>,
    slots: FxHashMap<TableId, usize>,
    pending: Pending,
    planned: Planned,
    /// Of the body at hand.
    columns: ColumnCount,
    /// Memory of what the body at hand has given a name.
    new_names: u64,
    /// Whoever writes has evaluated the CHECKs.
    has_checked: bool,
    /// Whether what is written is durable when a call returns.
    waits: bool,
    /// What the body at hand is refused for when its next lines have been read.
    refused: Option<Error>,
    /// Typed rows are part of this one.
    transaction: Option<Arc<Transaction>>,
}

/// Columns that a batch writes, against those that it may. They are counted before they are made, because what is made
/// stays.
#[derive(Debug, Default)]
struct ColumnCount {
    used: u64,
    max: u64,
}

impl ColumnCount {
    fn new(max: u64) -> Self {
        Self { used: 0, max }
    }

    /// Counts one more; false = it is too many.
    fn add(&mut self) -> bool {
        self.used += 1;
        self.used <= self.max
    }

    /// Whether there is no room for one more.
    fn is_full(&self) -> bool {
        self.used >= self.max
    }

    fn is_over(&self) -> bool {
        self.used > self.max
    }
}

impl Session {
    /// A writer of the default schema of `database`, which must exist.
    pub fn new(engine: Arc<Engine>, database: &str) -> Result<Self, Error> {
        Self::in_schema(engine, database, None)
    }

    /// A writer of a schema of `database`; both must exist. `None` = the default schema.
    pub fn in_schema(
        engine: Arc<Engine>,
        database: &str,
        named: Option<&str>,
    ) -> Result<Self, Error> {
        let epoch = engine.sequencer().catalogue_epoch();
        let schema = schema_of(&engine, database, named)?;
        Ok(Self {
            database: database.to_owned(),
            named: named.map(str::to_owned),
            epoch,
            ..Self::of_schema(engine, schema)
        })
    }

    /// Whether a limit would refuse a body in a database that is not there yet: asked before that is made.
    pub fn check_lines_for_new(
        engine: &Arc<Engine>,
        body: &[u8],
        precision: Precision,
    ) -> Result<(), Error> {
        let mut session = Self::of_schema(Arc::clone(engine), PLANNED_SCHEMA);
        session.planned.begin();
        session.read_all(body, precision, 0, &mut WriteReport::default())?;
        session.pending.check_all(engine)
    }

    fn of_schema(engine: Arc<Engine>, schema: SchemaId) -> Self {
        let epoch = engine.sequencer().catalogue_epoch();
        Self {
            engine,
            database: String::new(),
            named: None,
            window: WriteWindow::default(),
            schema,
            epoch,
            expected: 0,
            tables: Vec::new(),
            slots: FxHashMap::default(),
            pending: Pending::default(),
            planned: Planned::default(),
            columns: ColumnCount::default(),
            new_names: 0,
            has_checked: false,
            waits: true,
            refused: None,
            transaction: None,
        }
    }

    /// The database that it writes.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// From now on typed rows are part of a transaction; lines are not.
    #[must_use]
    pub fn within(mut self, transaction: &Arc<Transaction>) -> Self {
        self.transaction = Some(Arc::clone(transaction));
        self
    }

    /// From now on leaves out the points of bodies whose time is beyond these bounds.
    pub fn keep_within(&mut self, window: WriteWindow) {
        self.window = window;
    }

    /// Writes the points of a body as one batch. Returns when they are durable and visible. Lines that cannot be kept
    /// are in the report, and the others are kept; an `Err` means that nothing was acknowledged.
    pub fn write_lines(&mut self, body: &[u8], precision: Precision) -> Result<WriteReport, Error> {
        self.write_body(body, precision, None, &[])
    }

    /// As [`Self::write_lines`], but a body that was kept under this key lately is not written again: so a writer that
    /// has not heard the answer may send the same body with the same key until it does.
    ///
    /// The key is all that counts. How long and how many keys are remembered is set by [`crate::Options::key_age_ns`]
    /// and [`crate::Options::keys_max`].
    pub fn write_lines_once(
        &mut self,
        key: [u8; 16],
        body: &[u8],
        precision: Precision,
    ) -> Result<WriteReport, Error> {
        let key = self.engine.sequencer().batch_key(key);
        self.write_body(body, precision, Some(key), &[])
    }

    /// As [`Self::write_lines`], with changes of relations, in one batch: both are visible or neither. A change that is
    /// refused refuses the body. With a key it is as [`Self::write_lines_once`] says.
    pub fn write_lines_with(
        &mut self,
        body: &[u8],
        precision: Precision,
        changes: &[RelationChange],
        key: Option<[u8; 16]>,
    ) -> Result<WriteReport, Error> {
        let engine = Arc::clone(&self.engine);
        let _locked = engine.locked(changes)?;
        let relations = engine.encode_relations(changes)?;
        let key = key.map(|key| self.engine.sequencer().batch_key(key));
        self.write_body(body, precision, key, &relations)
    }

    /// Writes the points of a body, under a key if there is one.
    fn write_body(
        &mut self,
        body: &[u8],
        precision: Precision,
        key: Option<BatchKey>,
        relations: &[Change],
    ) -> Result<WriteReport, Error> {
        loop {
            self.follow_changes()?;
            // Whatever was dropped, renamed or retyped while the batch was built may have taken its ids away.
            let written = self.try_write(body, precision, key, relations);
            self.end_body();
            if let Some(report) = written? {
                return Ok(report);
            }
        }
    }

    /// Says what memory the names have that a body made, and gives back what a body of very many tables has taken: the
    /// session is kept, as others are.
    fn end_body(&mut self) {
        if self.new_names > 0 {
            self.engine.sequencer().report_index();
        }
        if self.tables.len() > TABLES_KEPT_MAX {
            self.tables = Vec::new();
            self.slots = FxHashMap::default();
        }
        self.pending.clear();
    }

    /// Forgets what a change of the catalogue may have made wrong.
    fn follow_changes(&mut self) -> Result<(), Error> {
        let epoch = self.engine.sequencer().catalogue_epoch();
        if epoch != self.epoch {
            self.schema = schema_of(&self.engine, &self.database, self.named.as_deref())?;
            self.tables.clear();
            self.slots.clear();
            self.epoch = epoch;
        }
        Ok(())
    }

    /// `None` = the catalogue changed meanwhile, and nothing was written.
    fn try_write(
        &mut self,
        body: &[u8],
        precision: Precision,
        key: Option<BatchKey>,
        relations: &[Change],
    ) -> Result<Option<WriteReport>, Error> {
        let mut report = WriteReport::default();
        let Some(tables) = self.read_lines(body, precision, &mut report)? else {
            return Ok(None);
        };
        let batch = Batch {
            tables,
            relations: relations.to_vec(),
            key,
            ..Batch::default()
        };
        if batch.is_empty() && key.is_none() {
            let current = self.engine.sequencer().catalogue_epoch() == self.epoch;
            return Ok(current.then_some(report));
        }
        let written = self.engine.write(batch, self.epoch)?;
        Ok(written.map(|written| {
            report.rows = written.rows;
            report.lsn = written.lsn;
            report.repeated = written.repeated;
            report
        }))
    }

    /// The rows of a body by table; `None` = the catalogue changed meanwhile. A body that is refused defines nothing.
    fn read_lines(
        &mut self,
        body: &[u8],
        precision: Precision,
        report: &mut WriteReport,
    ) -> Result<Option<Vec<TableRows>>, Error> {
        let engine = Arc::clone(&self.engine);
        let now = precision.truncate(engine.site().clock().now_ns());
        self.planned.begin();
        let mut read = self.read_all(body, precision, now, report);
        if self.planned.end() {
            // What was learnt of tables has ids that are none.
            self.tables.clear();
            self.slots.clear();
            read?;
            self.pending.check_all(&engine)?;
            *report = WriteReport::default();
            read = self.read_all(body, precision, now, report);
        }
        let builders = read?;
        if !self.pending.is_empty() {
            if !self.pending.resolve(&engine, self.epoch)? {
                return Ok(None);
            }
            let mut memo = engine.sequencer().memo().write();
            memo.follow(self.epoch);
            self.pending.teach(self.epoch, &mut memo);
        }
        let tables = builders
            .into_iter()
            .flatten()
            .map(|builder| builder.finish(&self.pending))
            .filter(|rows| rows.rows() > 0);
        Ok(Some(tables.collect()))
    }

    /// Reads a body to its end, or to the limit that it passes.
    fn read_all(
        &mut self,
        body: &[u8],
        precision: Precision,
        now: i64,
        report: &mut WriteReport,
    ) -> Result<Vec<Option<Builder>>, Error> {
        let engine = Arc::clone(&self.engine);
        let mut builders: Vec<Option<Builder>> = Vec::new();
        let mut reader = Reader::new(body, precision);
        self.pending.clear();
        self.columns = ColumnCount::new(engine.options().batch_columns_max);
        self.new_names = 0;
        self.refused = None;
        let mut at_end = false;
        while !at_end {
            let memo = engine.sequencer().memo().read();
            for _ in 0..LINES_OF_ONE_LOCK {
                match reader.next() {
                    Some(Ok(point)) => self.add(&point, now, &memo, &mut builders, report),
                    Some(Err(error)) => reject_parse(&error, report),
                    None => {
                        at_end = true;
                        break;
                    }
                }
            }
            drop(memo);
            self.check_size(&builders)?;
            self.pending.check_new(&engine)?;
            self.pending.charge(&engine)?;
        }
        Ok(builders)
    }

    /// Whether what was read so far is more than a batch may have.
    fn check_size(&mut self, builders: &[Option<Builder>]) -> Result<(), Error> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let builders = || builders.iter().flatten();
        let rows: usize = builders().map(Builder::rows).sum();
        let bytes: u64 = builders().map(Builder::padded_bytes).sum();
        self.engine.site().check_batch_rows(rows as u64)?;
        self.engine.site().check_batch_columns(self.columns.used)?;
        self.engine.site().check_batch_bytes(bytes)
    }

    fn add(
        &mut self,
        point: &Point<'_>,
        now: i64,
        memo: &SeriesMemo,
        builders: &mut Vec<Option<Builder>>,
        report: &mut WriteReport,
    ) {
        let time = point.timestamp.unwrap_or(now);
        if let Some(bound) = self.window.passed(time) {
            leave_out(point, (self.window, time, bound), report);
            return;
        }
        let text = memo.fingerprint(self.schema, point.series);
        let found = match memo.find(text, self.epoch, &mut self.expected) {
            Some((table, series)) => (self.slot_of(table), RowSeries::Known(series)),
            None => match self.wait_for(text, (point, time), report) {
                Some((slot, at)) => (slot, RowSeries::Pending(at)),
                None => return,
            },
        };
        let (slot, series) = found;
        if builders.len() <= slot {
            builders.resize_with(slot + 1, || None);
        }
        let (Some(table), Some(builder)) = (self.tables.get_mut(slot), builders.get_mut(slot))
        else {
            return;
        };
        if let Some(reason) = table.refusal() {
            report.reject(point.line_number, point.line, reason, false);
            return;
        }
        let builder = builder.get_or_insert_with(|| Builder::new(table.id));
        let mut context = RowContext {
            engine: &self.engine,
            table,
            columns: &mut self.columns,
            new_names: &mut self.new_names,
            planned: &mut self.planned,
            point,
            fits: false,
            stripped_time: false,
        };
        let added = builder.add_row(series, time, &mut context);
        let stripped_time = context.stripped_time;
        if added.is_ok()
            && let RowSeries::Pending(at) = series
        {
            self.pending.mark_used(at);
        }
        if stripped_time || added.is_err() {
            let refused = reject_row(point, &table.name, stripped_time, added, report);
            self.refused = refused.or(self.refused.take());
        }
    }

    /// The slot of a table that exists.
    #[inline]
    fn slot_of(&mut self, table: TableId) -> usize {
        match self.slots.get(&table) {
            Some(&slot) => slot,
            None => self.new_slot(table),
        }
    }

    #[cold]
    fn new_slot(&mut self, table: TableId) -> usize {
        let known = self.engine.sequencer().catalogue().table(table).cloned();
        let has_stored_answers = self.engine.sequencer().noted().has_stored_answers(table);
        let slot = TableSlot::new(table, known.as_deref(), has_stored_answers);
        self.tables.push(slot);
        self.slots.insert(table, self.tables.len() - 1);
        self.tables.len() - 1
    }
}

/// The schema that lines go to.
fn schema_of(engine: &Engine, database: &str, named: Option<&str>) -> Result<SchemaId, Error> {
    let catalogue = engine.sequencer().catalogue();
    let Some(id) = catalogue.database(database) else {
        return Err(Error::UnknownDatabase {
            name: database.to_owned(),
        });
    };
    let schema = match named {
        Some(name) => catalogue.schema(id, name),
        None => catalogue.default_schema(id),
    };
    schema.ok_or_else(|| Error::NotFound {
        what: "schema",
        name: named.unwrap_or_default().to_owned(),
        place: format!("database \"{database}\""),
        hint: "create it first".to_owned(),
    })
}

/// Counts a point that is beyond a bound, which makes no series and is not compared with its table.
#[cold]
fn leave_out(
    point: &Point<'_>,
    (window, time, bound): (WriteWindow, i64, Bound),
    report: &mut WriteReport,
) {
    match SeriesKey::parse(point.series) {
        Ok(key) => Beyond::add(&mut report.beyond, window, (&key, time, bound)),
        Err(reason) => reject_parse(&point.error(reason), report),
    }
}

/// Says in the report what of a point was not kept; returns why the whole body is refused, if it is.
#[cold]
fn reject_row(
    point: &Point<'_>,
    table: &str,
    stripped_time: bool,
    added: Result<(), RowError>,
    report: &mut WriteReport,
) -> Option<Error> {
    if stripped_time {
        let reason = format!(
            "invalid field name: input field \"{TIME_COLUMN}\" on measurement \"{table}\" is invalid"
        );
        report.reject(point.line_number, point.line, reason, false);
        // The field goes, the point stays, unless it has no other.
        report.dropped -= u64::from(added.is_ok());
    }
    match added {
        // The body is refused for it when its next lines have been read.
        Ok(()) | Err(RowError::NoField | RowError::Stale | RowError::TooManyColumns) => None,
        Err(RowError::Refused(error)) => Some(error),
        Err(error) => {
            report.reject(point.line_number, point.line, error.text(table), false);
            None
        }
    }
}

fn reject_parse(error: &LineError<'_>, report: &mut WriteReport) {
    report.reject(
        error.line_number,
        error.line,
        error.reason.to_string(),
        true,
    );
}
