//! Points to batches: line protocol in, one atomic batch out, bad lines named.
//!
//! Does: resolve series and fields to ids through a memo, group columns by table, reject single rows. Does not: read
//! sockets or decide status codes.
//!
//! The memo is what makes this fast: a series text that was seen before is compared, not parsed, and the series that
//! followed it last time is tried first, so a steady stream costs one comparison a point.

mod memo;

use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_lineproto::{
    FIELD_TEXT_BYTES_MAX, FieldValue, LineError, Point, Precision, Reader, SeriesKey,
};
use rustc_hash::FxHashMap;

use crate::batch::{Batch, Column, TableRows, Values};
use crate::definition::Definition;
use crate::engine::{Engine, RelationChange, check_name};
use crate::error::Error;
use crate::schema::{
    ColumnId, ColumnKind, Lsn, SchemaId, SeriesId, TIME_COLUMN, TableId, type_name,
};
use memo::SeriesMemo;

/// Rejected lines that a report shows; the rest are counted.
pub const REJECTED_SHOWN_MAX: usize = 100;
/// Bytes of a rejected line that a report shows.
const LINE_SHOWN_BYTES: usize = 1024;

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
    memo: SeriesMemo,
    tables: Vec<TableSlot>,
    slots: FxHashMap<TableId, usize>,
}

/// What a session knows of a table.
#[derive(Debug)]
struct TableSlot {
    id: TableId,
    name: String,
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
    /// By known field: its position in `rows.columns`.
    column_of: Vec<Option<usize>>,
    /// Known fields of the row before, in its order.
    template: Vec<usize>,
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

/// What a series text stands for.
enum Resolved {
    Series(TableId, SeriesId),
    /// The schema was dropped: the whole body is read again.
    NoSchema,
    /// Its measurement is the name of a relation.
    Relation,
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
            memo: SeriesMemo::default(),
            tables: Vec::new(),
            slots: FxHashMap::default(),
        })
    }

    /// The database that it writes.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Writes the points of a body as one batch. Returns when they are durable and visible. Lines that cannot be kept
    /// are in the report, and the others are kept; an `Err` means that nothing was acknowledged.
    pub fn write_lines(&mut self, body: &[u8], precision: Precision) -> Result<WriteReport, Error> {
        self.write_body(body, precision, &Batch::default())
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
        let with = Batch {
            key: Some(self.engine.batch_key(key)),
            ..Batch::default()
        };
        self.write_body(body, precision, &with)
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
        let with = Batch {
            relations: self.engine.encode_relations(changes)?,
            key: key.map(|key| self.engine.batch_key(key)),
            ..Batch::default()
        };
        self.write_body(body, precision, &with)
    }

    /// Writes the points of a body and what `with` has, which has no rows.
    fn write_body(
        &mut self,
        body: &[u8],
        precision: Precision,
        with: &Batch,
    ) -> Result<WriteReport, Error> {
        loop {
            self.follow_changes()?;
            // Whatever was dropped, renamed or retyped while the batch was built may have taken its ids away.
            if let Some(report) = self.try_write(body, precision, with)? {
                return Ok(report);
            }
        }
    }

    /// Forgets what a change of the catalogue may have made wrong.
    fn follow_changes(&mut self) -> Result<(), Error> {
        let epoch = self.engine.catalogue_epoch();
        if epoch != self.epoch {
            self.schema = default_schema(&self.engine, &self.database)?;
            self.memo = SeriesMemo::default();
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
        with: &Batch,
    ) -> Result<Option<WriteReport>, Error> {
        let now = precision.truncate(self.engine.clock().now_ns());
        let mut report = WriteReport::default();
        let mut builders: Vec<Option<Builder>> = Vec::new();
        let mut reader = Reader::new(body, precision);
        while let Some(next) = reader.next() {
            match next {
                Ok(point) => self.add(&point, now, &mut builders, &mut report),
                Err(error) => reject_parse(&error, &mut report),
            }
        }
        let mut batch = with.clone();
        batch.tables = builders
            .into_iter()
            .flatten()
            .map(Builder::finish)
            .filter(|rows| rows.rows() > 0)
            .collect();
        if batch.is_empty() && batch.key.is_none() {
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

    fn add(
        &mut self,
        point: &Point<'_>,
        now: i64,
        builders: &mut Vec<Option<Builder>>,
        report: &mut WriteReport,
    ) {
        let known = self.memo.find(point.series);
        let Some((slot, series)) = known.or_else(|| self.resolve(point, report)) else {
            return;
        };
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
            Ok(()) | Err(RowError::NoField | RowError::Stale) => {}
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

    /// Parses and defines a series text that was not seen before; `None` = the line was rejected, or the schema was
    /// dropped and the body will be read again.
    #[cold]
    fn resolve(
        &mut self,
        point: &Point<'_>,
        report: &mut WriteReport,
    ) -> Option<(usize, SeriesId)> {
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
        let (schema, engine) = (self.schema, &self.engine);
        let resolved = engine.define_missing(|catalogue| {
            if catalogue.schema_name(schema).is_none() {
                return Ok(Resolved::NoSchema);
            }
            let table = match catalogue.table_id(schema, &key.measurement) {
                Some(table) => table,
                None if engine.is_relation(schema, &key.measurement) => {
                    return Ok(Resolved::Relation);
                }
                None => return Err(catalogue.plan_table(schema, &key.measurement)),
            };
            let mut codes = Vec::with_capacity(key.tags.len());
            for (name, value) in &key.tags {
                let tag = catalogue
                    .table(table)
                    .and_then(|known| known.tag(name))
                    .map(|tag| tag.id)
                    .ok_or_else(|| catalogue.plan_column(table, ColumnKind::Tag, name))?;
                let code = catalogue.tag_code(tag, value);
                let code = code.ok_or_else(|| Definition::TagValue {
                    tag,
                    value: value.to_string(),
                })?;
                codes.push((tag, code));
            }
            codes.sort_unstable();
            match catalogue.series(table, &codes) {
                Some(series) => Ok(Resolved::Series(table, series)),
                None => Err(catalogue.plan_series(table, codes)),
            }
        });
        let (table, series) = match resolved {
            Resolved::Series(table, series) => (table, series),
            Resolved::NoSchema => return None,
            Resolved::Relation => {
                let reason = format!(
                    "measurement \"{}\" is a relation; write it as one, or use another name",
                    key.measurement
                );
                report.reject(point.line_number, point.line, reason, false);
                return None;
            }
        };
        let tables = &mut self.tables;
        let slot = *self.slots.entry(table).or_insert_with(|| {
            tables.push(TableSlot {
                id: table,
                name: key.measurement.to_string(),
                fields: Vec::new(),
                by_key: FxHashMap::default(),
            });
            tables.len() - 1
        });
        self.memo.insert(point.series, slot, series);
        Some((slot, series))
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
            column_of: Vec::new(),
            template: Vec::new(),
        }
    }

    fn finish(mut self) -> TableRows {
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
        series: SeriesId,
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
        self.rows.series.push(series.0);
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
