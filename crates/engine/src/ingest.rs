//! Points to batches: line protocol in, one atomic batch out, bad lines named.
//!
//! Does: resolve series and fields to ids through a memo, group columns by table, reject single rows. Does not: read
//! sockets or decide status codes.
//!
//! The memo is what makes this fast: a series text that was seen before is hashed, not parsed, and the series that
//! followed it last time is tried first. Series that nobody saw before are collected and defined once for the body.

mod memo;
mod pending;

use std::sync::{Arc, PoisonError};

use nilometer_codec::PhysicalType;
use nilometer_lineproto::{
    FIELD_TEXT_BYTES_MAX, FieldValue, LineError, Point, Precision, Reader, SeriesKey,
};
use rustc_hash::FxHashMap;

use crate::batch::{Batch, BatchKey, Column, TableRows, Values};
use crate::engine::{Engine, RelationChange, check_name};
use crate::error::Error;
use crate::relation::Change;
use crate::schema::{
    ColumnId, ColumnKind, Lsn, SchemaId, SeriesId, TIME_COLUMN, TableId, type_name,
};
use memo::Fingerprint;
pub(crate) use memo::SeriesMemo;
use pending::Pending;

/// Rejected lines that a report shows; the rest are counted.
pub const REJECTED_SHOWN_MAX: usize = 100;
/// Bytes of a rejected line that a report shows.
const LINE_SHOWN_BYTES: usize = 1024;
/// Lines read while the memo is held: a fraction of a millisecond, so that who wants to teach it does not wait long.
const LINES_OF_ONE_LOCK: usize = 256;

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
    schema: SchemaId,
    /// The catalogue's epoch at which all that it knows was looked up.
    epoch: u64,
    /// Where the memo would have the next series.
    expected: usize,
    tables: Vec<TableSlot>,
    slots: FxHashMap<TableId, usize>,
    pending: Pending,
}

/// What a session knows of a table.
#[derive(Debug)]
struct TableSlot {
    id: TableId,
    name: String,
    tags: Vec<(String, ColumnId)>,
    fields: Vec<KnownField>,
    by_key: FxHashMap<Box<[u8]>, usize>,
}

/// A field by the text of its key.
#[derive(Debug)]
struct KnownField {
    key: Box<[u8]>,
    id: ColumnId,
    kind: PhysicalType,
}

/// Rows of one table of the body at hand.
#[derive(Debug)]
struct Builder {
    rows: TableRows,
    /// Rows whose series is pending, and its position there.
    unresolved: Vec<(usize, usize)>,
    /// By known field: its position in `rows.columns`.
    column_of: Vec<Option<usize>>,
    /// Known fields of the row before, in its order.
    template: Vec<usize>,
}

/// The series of a row.
#[derive(Debug, Clone, Copy)]
enum RowSeries {
    Known(SeriesId),
    /// Its position among the pending ones.
    Pending(usize),
}

/// Why a row cannot be added.
enum RowError {
    Conflict {
        field: String,
        got: PhysicalType,
        known: PhysicalType,
    },
    TooLong {
        field: String,
        bytes: usize,
    },
    NoField,
    BadName(Error),
    /// The table was dropped since it was looked up: the whole body is read again.
    Stale,
}

impl Session {
    /// A writer of `database`, which must exist.
    pub fn new(engine: Arc<Engine>, database: &str) -> Result<Self, Error> {
        let epoch = engine.catalogue_epoch();
        let schema = default_schema(&engine, database)?;
        Ok(Self {
            engine,
            database: database.to_owned(),
            schema,
            epoch,
            expected: 0,
            tables: Vec::new(),
            slots: FxHashMap::default(),
            pending: Pending::default(),
        })
    }

    /// The database that it writes.
    pub fn database(&self) -> &str {
        &self.database
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
        let key = self.engine.batch_key(key);
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
        let relations = self.engine.encode_relations(changes)?;
        let key = key.map(|key| self.engine.batch_key(key));
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
            if let Some(report) = self.try_write(body, precision, key, relations)? {
                return Ok(report);
            }
        }
    }

    /// Forgets what a change of the catalogue may have made wrong.
    fn follow_changes(&mut self) -> Result<(), Error> {
        let epoch = self.engine.catalogue_epoch();
        if epoch != self.epoch {
            self.schema = default_schema(&self.engine, &self.database)?;
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
            let current = self.engine.catalogue_epoch() == self.epoch;
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

    /// The rows of a body by table; `None` = the catalogue changed meanwhile.
    fn read_lines(
        &mut self,
        body: &[u8],
        precision: Precision,
        report: &mut WriteReport,
    ) -> Result<Option<Vec<TableRows>>, Error> {
        let engine = Arc::clone(&self.engine);
        let now = precision.truncate(engine.clock().now_ns());
        let mut builders: Vec<Option<Builder>> = Vec::new();
        let mut reader = Reader::new(body, precision);
        self.pending.clear();
        let mut at_end = false;
        while !at_end {
            let memo = engine.memo().read().unwrap_or_else(PoisonError::into_inner);
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
        }
        if !self.pending.is_empty() {
            if !self.pending.resolve(&engine, self.epoch)? {
                return Ok(None);
            }
            let mut memo = engine
                .memo()
                .write()
                .unwrap_or_else(PoisonError::into_inner);
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

    fn add(
        &mut self,
        point: &Point<'_>,
        now: i64,
        memo: &SeriesMemo,
        builders: &mut Vec<Option<Builder>>,
        report: &mut WriteReport,
    ) {
        let text = memo.fingerprint(self.schema, point.series);
        let found = match memo.find(text, self.epoch, &mut self.expected) {
            Some((table, series)) => (self.slot_of(table), RowSeries::Known(series)),
            None => match self.wait_for(text, point, report) {
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
        let builder = builder.get_or_insert_with(|| Builder::new(table.id));
        let time = point.timestamp.unwrap_or(now);
        let mut context = RowContext {
            engine: &self.engine,
            table,
            stripped_time: false,
        };
        let added = builder.add_row(point, series, time, &mut context);
        if context.stripped_time {
            let reason = format!(
                "invalid field name: input field \"{TIME_COLUMN}\" on measurement \"{}\" is invalid",
                table.name
            );
            report.reject(point.line_number, point.line, reason, false);
        }
        match added {
            Ok(()) => {
                if let RowSeries::Pending(at) = series {
                    self.pending.mark_used(at);
                }
            }
            Err(RowError::NoField | RowError::Stale) => {}
            Err(error) => {
                report.reject(
                    point.line_number,
                    point.line,
                    error.text(&table.name),
                    false,
                );
            }
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
        let known = self.engine.catalogue().table(table).cloned();
        self.tables.push(TableSlot {
            id: table,
            name: known.map_or_else(String::new, |known| known.name.clone()),
            tags: Vec::new(),
            fields: Vec::new(),
            by_key: FxHashMap::default(),
        });
        self.slots.insert(table, self.tables.len() - 1);
        self.tables.len() - 1
    }

    /// Takes apart a series text that the memo does not know, and waits for its id; `None` = the line was rejected, or
    /// the schema or the table was dropped and the body will be read again.
    #[cold]
    fn wait_for(
        &mut self,
        text: Fingerprint,
        point: &Point<'_>,
        report: &mut WriteReport,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.pending.find(text) {
            return Some(found);
        }
        let key = match SeriesKey::parse(point.series) {
            Ok(key) => key,
            Err(reason) => {
                reject_parse(&point.error(reason), report);
                return None;
            }
        };
        let names = std::iter::once(("measurement", &key.measurement))
            .chain(key.tags.iter().map(|(name, _)| ("tag", name)));
        for (what, name) in names {
            if let Err(error) = check_name(what, name) {
                report.reject(point.line_number, point.line, error.to_string(), true);
                return None;
            }
        }
        if key.tags.iter().any(|(name, _)| name == TIME_COLUMN) {
            let reason = format!(
                "invalid tag key: input tag \"{TIME_COLUMN}\" on measurement \"{}\" is invalid",
                key.measurement
            );
            report.reject(point.line_number, point.line, reason, false);
            return None;
        }
        let schema = self.schema;
        let mut is_relation = false;
        let table = self.engine.define_missing(|catalogue| {
            if catalogue.schema_name(schema).is_none() {
                return Ok(None);
            }
            let known = catalogue.table_id(schema, &key.measurement);
            is_relation = known.is_none() && self.engine.is_relation(schema, &key.measurement);
            if is_relation {
                return Ok(None);
            }
            known
                .map(Some)
                .ok_or_else(|| catalogue.plan_table(schema, &key.measurement))
        });
        if is_relation {
            let reason = format!(
                "measurement \"{}\" is a relation; write it as one, or use another name",
                key.measurement
            );
            report.reject(point.line_number, point.line, reason, false);
        }
        let table = table?;
        let slot = self.slot_of(table);
        let known = self.tables.get_mut(slot)?;
        let mut tags = Vec::with_capacity(key.tags.len());
        for (at, (name, value)) in key.tags.iter().enumerate() {
            tags.push((known.tag_id(&self.engine, at, name)?, value.as_ref()));
        }
        Some((slot, self.pending.add(text, table, slot, &tags)))
    }
}

impl TableSlot {
    /// The id of a tag, defined if it is new; `None` = the table was dropped. The tags of a table tend to stand at the
    /// same positions.
    fn tag_id(&mut self, engine: &Engine, position: usize, name: &str) -> Option<ColumnId> {
        let guess = self.tags.get(position).filter(|(known, _)| known == name);
        let known = guess.or_else(|| self.tags.iter().find(|(known, _)| known == name));
        if let Some((_, id)) = known {
            return Some(*id);
        }
        let table = self.id;
        let id = engine.define_missing(|catalogue| {
            let Some(known) = catalogue.table(table) else {
                return Ok(None);
            };
            let tag = known.tag(name).map(|tag| tag.id);
            tag.map(Some)
                .ok_or_else(|| catalogue.plan_column(table, ColumnKind::Tag, name))
        })?;
        self.tags.push((name.to_owned(), id));
        Some(id)
    }
}

/// The schema that a database's lines go to.
fn default_schema(engine: &Engine, database: &str) -> Result<SchemaId, Error> {
    let catalogue = engine.catalogue();
    let id = catalogue.database(database);
    id.and_then(|id| catalogue.default_schema(id))
        .ok_or_else(|| Error::UnknownDatabase {
            name: database.to_owned(),
        })
}

fn reject_parse(error: &LineError<'_>, report: &mut WriteReport) {
    report.reject(
        error.line_number,
        error.line,
        error.reason.to_string(),
        true,
    );
}

impl RowError {
    fn text(&self, table: &str) -> String {
        match self {
            Self::Conflict { field, got, known } => format!(
                "field type conflict: input field \"{field}\" on measurement \"{table}\" is type {}, already exists as type {}",
                type_name(*got),
                type_name(*known)
            ),
            Self::TooLong { field, bytes } => format!(
                "input field \"{field}\" on measurement \"{table}\" is too long, {bytes} > {FIELD_TEXT_BYTES_MAX}"
            ),
            Self::NoField => "the point has no field".to_owned(),
            Self::Stale => "the table was dropped meanwhile".to_owned(),
            Self::BadName(error) => error.to_string(),
        }
    }
}

/// What adding a row needs beside the row.
struct RowContext<'a> {
    engine: &'a Engine,
    table: &'a mut TableSlot,
    /// The point has a field named `time`, which is left out.
    stripped_time: bool,
}

impl Builder {
    fn new(table: TableId) -> Self {
        Self {
            rows: TableRows {
                table,
                series: Vec::new(),
                times: Vec::new(),
                columns: Vec::new(),
            },
            unresolved: Vec::new(),
            column_of: Vec::new(),
            template: Vec::new(),
        }
    }

    fn finish(mut self, pending: &Pending) -> TableRows {
        for (row, at) in self.unresolved {
            if let (Some(slot), Some(id)) = (self.rows.series.get_mut(row), pending.id(at)) {
                *slot = id.0;
            }
        }
        let rows = self.rows.rows();
        for column in &mut self.rows.columns {
            column.pad(rows);
        }
        self.rows
            .columns
            .retain(|column| column.validity.nulls() < rows);
        self.rows
    }

    fn add_row(
        &mut self,
        point: &Point<'_>,
        series: RowSeries,
        time: i64,
        context: &mut RowContext<'_>,
    ) -> Result<(), RowError> {
        let rows = self.rows.rows();
        let mut kept = 0;
        for field in point.fields {
            match self.add_field(kept, rows, field.key, &field.value, context) {
                Ok(true) => kept += 1,
                Ok(false) => {}
                Err(error) => {
                    self.take_back(rows);
                    return Err(error);
                }
            }
        }
        if kept == 0 {
            return Err(RowError::NoField);
        }
        let series = match series {
            RowSeries::Known(id) => id.0,
            RowSeries::Pending(at) => {
                self.unresolved.push((rows, at));
                0
            }
        };
        self.rows.series.push(series);
        self.rows.times.push(time);
        Ok(())
    }

    /// Adds one value to its column; false = the field is left out.
    #[inline]
    fn add_field(
        &mut self,
        at: usize,
        rows: usize,
        key: &[u8],
        value: &FieldValue<'_>,
        context: &mut RowContext<'_>,
    ) -> Result<bool, RowError> {
        let guess = self.template.get(at).copied();
        let guess = guess.filter(|&known| {
            let field = context.table.fields.get(known);
            field.is_some_and(|field| &*field.key == key)
        });
        let known = match guess {
            Some(known) => known,
            None => match self.look_up(at, key, value, context)? {
                Some(known) => known,
                None => return Ok(false),
            },
        };
        let position = match self.column_of.get(known) {
            Some(Some(position)) => *position,
            _ => self.start_column(known, context.table),
        };
        let Some(column) = self.rows.columns.get_mut(position) else {
            return Ok(false);
        };
        if column.values.len() < rows {
            column.pad(rows);
        }
        if push_value(column, value) {
            return Ok(true);
        }
        Err(refusal(key, value, column.values.kind()))
    }

    #[cold]
    fn look_up(
        &mut self,
        at: usize,
        key: &[u8],
        value: &FieldValue<'_>,
        context: &mut RowContext<'_>,
    ) -> Result<Option<usize>, RowError> {
        let known = match context.table.by_key.get(key) {
            Some(&known) => known,
            None => match define_field(key, value, context)? {
                Some(known) => known,
                None => return Ok(None),
            },
        };
        if at < self.template.len() {
            if let Some(slot) = self.template.get_mut(at) {
                *slot = known;
            }
        } else {
            self.template.push(known);
        }
        Ok(Some(known))
    }

    #[cold]
    fn start_column(&mut self, known: usize, table: &TableSlot) -> usize {
        if self.column_of.len() <= known {
            self.column_of.resize(known + 1, None);
        }
        let position = self.rows.columns.len();
        if let (Some(field), Some(slot)) = (table.fields.get(known), self.column_of.get_mut(known))
        {
            self.rows.columns.push(Column::new(field.id, field.kind));
            *slot = Some(position);
        }
        position
    }

    /// Undoes what the fields of a refused row added.
    #[cold]
    fn take_back(&mut self, rows: usize) {
        for column in &mut self.rows.columns {
            column.truncate(rows);
        }
    }
}

fn kind_of(value: &FieldValue<'_>) -> PhysicalType {
    match value {
        FieldValue::Float(_) => PhysicalType::F64,
        FieldValue::Integer(_) => PhysicalType::I64,
        FieldValue::Unsigned(_) => PhysicalType::U64,
        FieldValue::Boolean(_) => PhysicalType::Bool,
        FieldValue::Text(_) => PhysicalType::Text,
    }
}

/// Adds a value of the column's type; another type or an overlong text adds nothing and returns false.
#[inline]
fn push_value(column: &mut Column, value: &FieldValue<'_>) -> bool {
    match (&mut column.values, value) {
        (Values::I64(to), FieldValue::Integer(value)) => to.push(*value),
        (Values::F64(to), FieldValue::Float(value)) => to.push(*value),
        (Values::U64(to), FieldValue::Unsigned(value)) => to.push(*value),
        (Values::Bool(to), FieldValue::Boolean(value)) => to.push(*value),
        (Values::Text(to), FieldValue::Text(value)) if value.len() <= FIELD_TEXT_BYTES_MAX => {
            to.push(value.as_bytes());
        }
        _ => return false,
    }
    column.validity.push(true);
    true
}

#[cold]
fn refusal(key: &[u8], value: &FieldValue<'_>, known: PhysicalType) -> RowError {
    let field = field_name(key);
    match value {
        FieldValue::Text(text) if known == PhysicalType::Text => RowError::TooLong {
            field,
            bytes: text.len(),
        },
        _ => RowError::Conflict {
            field,
            got: kind_of(value),
            known,
        },
    }
}

fn field_name(key: &[u8]) -> String {
    let field = nilometer_lineproto::Field {
        key,
        value: FieldValue::Boolean(true),
    };
    field.name().into_owned()
}

/// Learns a field by its key, defining it with the type at hand if the table has none of that name.
fn define_field(
    key: &[u8],
    value: &FieldValue<'_>,
    context: &mut RowContext<'_>,
) -> Result<Option<usize>, RowError> {
    let name = field_name(key);
    if name == TIME_COLUMN {
        context.stripped_time = true;
        return Ok(None);
    }
    check_name("field", &name).map_err(RowError::BadName)?;
    if matches!(value, FieldValue::Text(text) if text.len() > FIELD_TEXT_BYTES_MAX) {
        // A value that will not be kept defines nothing.
        return Err(refusal(key, value, PhysicalType::Text));
    }
    let table = context.table.id;
    let kind = ColumnKind::Field(kind_of(value));
    let defined = context.engine.define_missing(|catalogue| {
        let Some(known) = catalogue.table(table) else {
            return Ok(None);
        };
        match known.field(&name).map(|field| (field.id, field.kind)) {
            Some((id, ColumnKind::Field(kind))) => Ok(Some((id, kind))),
            _ => Err(catalogue.plan_column(table, kind, &name)),
        }
    });
    let (id, kind) = defined.ok_or(RowError::Stale)?;
    let known = context.table.fields.len();
    context.table.by_key.insert(key.into(), known);
    context.table.fields.push(KnownField {
        key: key.into(),
        id,
        kind,
    });
    Ok(Some(known))
}
