//! A table as the input of a query.
//!
//! Does: find its series, and turn the engine's batches into chunks. Does not: decide what to read of them.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use nilometer_engine::{
    ColumnKind, MorselReader, Narrowing, PhysicalType, Scan, ScanRequest, SeriesId, SeriesTag,
    Snapshot, TableSchema,
};

use super::chunk::{Chunk, absent_column, coded_column};
use super::groups::{NO_GROUP, tag_order};
use super::tags;
use crate::context::{Charge, Context, Reads};
use crate::error::Error;
use crate::evaluate::{Name, Slots};
use crate::long;
use crate::query::{TableName, TagExpr};
use crate::value::{Rules, Type};

/// Bits of a tie that say which of its input's series a row is of.
const RANK_BITS: u32 = 40;

/// Rows of a batch of the engine's.
const BATCH_ROWS: u64 = 8192;

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    /// Those that qualify, ascending.
    pub(crate) series: Vec<SeriesId>,
    /// By position of the series.
    pub(crate) groups: Vec<u32>,
    /// By position of the series: its place among all by their tags. Empty if nobody asks.
    ties: Vec<u64>,
}

/// A read of a table.
#[derive(Debug)]
pub(crate) struct TableScan {
    scan: Scan,
    /// Rows that need not be read, which are the first part.
    known: Option<(Chunk, Charge)>,
    blocks: Told,
}

/// A morsel while it is read.
#[derive(Debug)]
pub(crate) struct TableReader {
    known: Option<Chunk>,
    morsel: Option<MorselReader>,
    columns: Vec<Option<usize>>,
    charge: Charge,
    blocks: Told,
}

/// The blocks of a scan that its readers have told of.
#[derive(Debug, Clone)]
struct Told {
    scan: Scan,
    blocks: Arc<Mutex<(u64, u64)>>,
}

impl Told {
    fn of(scan: &Scan) -> Self {
        Self {
            scan: scan.clone(),
            blocks: Arc::default(),
        }
    }

    /// The blocks that were read and ruled out since anybody has told of them.
    fn since_last(&self) -> Reads {
        let mut told = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, skipped) = self.scan.blocks_so_far();
        let before = std::mem::replace(&mut *told, (read, skipped));
        Reads {
            blocks: read.saturating_sub(before.0),
            blocks_skipped: skipped.saturating_sub(before.1),
            ..Reads::default()
        }
    }
}

impl TableScan {
    pub(super) fn morsels(&self) -> usize {
        self.scan.morsels() + usize::from(self.known.is_some())
    }

    pub(super) fn rows_estimate(&self) -> u64 {
        let known = self.known.as_ref();
        self.scan.rows_estimate() + known.map_or(0, |(known, _)| known.rows() as u64)
    }
}

impl Table {
    pub(super) fn find(snapshot: &Snapshot, name: &TableName) -> Result<Self, Error> {
        let schema = match &name.schema {
            Some(schema) => Some(schema.clone()),
            None => snapshot.default_schema(&name.database),
        };
        let found = schema.and_then(|schema| snapshot.table(&name.database, &schema, &name.table));
        let schema = found.ok_or_else(|| Error::UnknownTable {
            table: name.to_string(),
        })?;
        Ok(Self {
            schema,
            series: Vec::new(),
            groups: Vec::new(),
            ties: Vec::new(),
        })
    }

    pub(super) fn kind(&self, name: &Name) -> Option<Type> {
        match name {
            Name::Time => Some(Type::Time),
            Name::Tag(tag) => self.schema.tag(tag).map(|_| Type::Text),
            Name::Field(field) => match self.schema.field(field)?.kind {
                ColumnKind::Tag => None,
                ColumnKind::Field(kind) => Some(match kind {
                    PhysicalType::I64 => Type::Int,
                    PhysicalType::U64 => Type::Unsigned,
                    PhysicalType::F64 => Type::Float,
                    PhysicalType::Bool => Type::Bool,
                    PhysicalType::Text => Type::Text,
                    PhysicalType::Bytes => Type::Bytes,
                }),
            },
        }
    }

    pub(super) fn names(&self, tags: bool) -> Vec<String> {
        let columns = if tags {
            &self.schema.tags
        } else {
            &self.schema.fields
        };
        columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The position of a column in the table's schema.
    pub(crate) fn position(&self, name: &Name) -> Option<usize> {
        let tags = self.schema.tags.len();
        match name {
            Name::Time => Some(0),
            Name::Tag(tag) => {
                let at = self.schema.tags.iter().position(|it| it.name == *tag)?;
                Some(1 + at)
            }
            Name::Field(field) => {
                let at = self.schema.fields.iter().position(|it| it.name == *field)?;
                Some(1 + tags + at)
            }
        }
    }

    pub(super) fn select(
        &mut self,
        snapshot: &Snapshot,
        tags: &TagExpr,
        rules: Rules,
    ) -> Result<(), Error> {
        self.series = tags::series(snapshot, &self.schema, tags, rules)?;
        Ok(())
    }

    /// Numbers the series by their tags, those of shared groups.
    pub(super) fn rank(
        &mut self,
        (snapshot, context): (&Snapshot, &Context),
        number: usize,
        rules: Rules,
        is_shared: impl Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let base = (number as u64) << RANK_BITS;
        self.ties = vec![base; self.series.len()];
        let positions = 0..self.series.len();
        let shared: Vec<usize> = positions.filter(|at| is_shared(self.group(*at))).collect();
        if shared.len() < 2 {
            return Ok(());
        }
        let ids = shared.iter().filter_map(|at| self.series.get(*at).copied());
        let ids: Vec<SeriesId> = ids.collect();
        let mut tags: Vec<SeriesTag> = Vec::with_capacity(self.schema.tags.len());
        for tag in &self.schema.tags {
            tags.push(snapshot.series_tag(&self.schema, tag.id, &ids)?);
        }
        let order = (0..ids.len()).collect::<Vec<usize>>();
        let order = long::sorted(order, context, |&one, &other| {
            let orders = tags
                .iter()
                .map(|tag| tag_order(tag.value(one), tag.value(other), rules));
            orders
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        })?;
        for (place, at) in (base..).zip(order) {
            let tie = shared.get(at).and_then(|at| self.ties.get_mut(*at));
            if let Some(tie) = tie {
                *tie = place;
            }
        }
        Ok(())
    }

    pub(crate) fn tie(&self, position: usize) -> u64 {
        self.ties.get(position).copied().unwrap_or(0)
    }

    pub(crate) fn group(&self, position: usize) -> u32 {
        self.groups.get(position).copied().unwrap_or(NO_GROUP)
    }

    /// The columns that are read, after the series and the time.
    fn columns(&self, slots: &Slots) -> Vec<Option<usize>> {
        let others = slots.all.iter().skip(1);
        others.map(|(name, _)| self.position(name)).collect()
    }

    pub(super) fn scan(
        &self,
        snapshot: &Snapshot,
        range: RangeInclusive<i64>,
        narrowing: &Narrowing,
        slots: &Slots,
        (limit, own): (Option<usize>, Option<&[SeriesId]>),
        context: &Context,
    ) -> Result<TableScan, Error> {
        let is_last = Narrowing::Ends { first: 0, last: 1 };
        let mut known = None;
        if *narrowing == is_last && own.is_none() {
            known = self.last_rows(snapshot, &range, slots, context)?;
        }
        let series = match (&known, own) {
            (Some((_, rest, _)), _) => rest.as_slice(),
            (None, Some(own)) => own,
            (None, None) => &self.series,
        };
        let mut projection = vec![ScanRequest::SERIES, 0];
        projection.extend(self.columns(slots).into_iter().flatten());
        let request = ScanRequest {
            table: Arc::clone(&self.schema),
            projection,
            time: range,
            tags: Vec::new(),
            limit,
        };
        let scan = snapshot.scan_series(&request, series, narrowing)?;
        let known = known.map(|(chunk, _, charge)| (chunk, charge));
        let blocks = Told::of(&scan);
        Ok(TableScan {
            scan,
            known,
            blocks,
        })
    }

    /// The series of some groups.
    pub(super) fn of_groups(&self, groups: &Range<u32>) -> Vec<SeriesId> {
        let pairs = self.series.iter().zip(&self.groups);
        let own = pairs.filter(|(_, group)| groups.contains(group));
        own.map(|(series, _)| *series).collect()
    }

    /// Keeps the series of some groups.
    pub(super) fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let pairs = self.series.iter().zip(&self.groups);
        let kept = pairs.filter(|(_, group)| keeps(**group));
        (self.series, self.groups) = kept.map(|(series, group)| (*series, *group)).unzip();
    }

    /// Which of some series, which ascend, have a row at any time.
    pub(super) fn with_rows(
        &self,
        (snapshot, context): (&Snapshot, &Context),
        series: &[SeriesId],
    ) -> Result<Vec<SeriesId>, Error> {
        let range = i64::MIN..=i64::MAX;
        let last = snapshot.last_rows(&self.schema, series, &[], &range)?;
        let (mut found, rest) = match last {
            Some(last) => {
                let known = last.positions.iter();
                let known = known.filter_map(|at| series.get(*at as usize).copied());
                (known.collect(), last.rest)
            }
            None => (Vec::new(), series.to_vec()),
        };
        if rest.is_empty() {
            return Ok(found);
        }
        let request = ScanRequest {
            table: Arc::clone(&self.schema),
            projection: vec![ScanRequest::SERIES],
            time: range,
            tags: Vec::new(),
            limit: None,
        };
        let ends = Narrowing::Ends { first: 0, last: 1 };
        let scan = snapshot.scan_series(&request, &rest, &ends)?;
        for morsel in 0..scan.morsels() {
            for batch in scan.read(morsel) {
                context.check()?;
                let batch = batch?;
                let own = batch.column(0).as_primitive::<UInt32Type>().values();
                found.extend(own.iter().map(|series| SeriesId(*series)));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The last rows of series that need not be read, and the other series. `None` = all have to be.
    fn last_rows(
        &self,
        snapshot: &Snapshot,
        range: &RangeInclusive<i64>,
        slots: &Slots,
        context: &Context,
    ) -> Result<Option<(Chunk, Vec<SeriesId>, Charge)>, Error> {
        let names = || slots.all.iter().skip(1);
        let mut fields: Vec<usize> = Vec::new();
        for (name, _) in names() {
            if let Name::Field(_) = name {
                fields.extend(self.position(name));
            }
        }
        let mut charge = context.charge();
        charge.grow(self.series.len() * (fields.len() + 4) * size_of::<u64>())?;
        let Some(last) = snapshot.last_rows(&self.schema, &self.series, &fields, range)? else {
            return Ok(None);
        };
        for column in &last.columns {
            // Texts are as long as they are.
            if !column.data_type().is_primitive() {
                charge.grow(column.get_array_memory_size())?;
            }
        }
        let rows = last.positions.len();
        let positions = || last.positions.iter().map(|at| *at as usize);
        let mut found = last.columns.into_iter();
        let times = TimestampNanosecondArray::from(last.times.clone());
        let mut all: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("UTC"))];
        for (name, kind) in names() {
            let column = match (name, self.position(name)) {
                (Name::Tag(tag), Some(_)) => self.tag(snapshot, tag, positions())?,
                (_, Some(_)) => found.next(),
                (_, None) => None,
            };
            all.push(column.unwrap_or_else(|| absent_column(name, *kind, rows)));
        }
        let chunk = Chunk {
            columns: all,
            groups: positions().map(|at| self.group(at)).collect(),
            ties: positions().map(|at| self.tie(at)).collect(),
            times: last.times,
        };
        Ok(Some((chunk, last.rest, charge)))
    }

    /// A tag of the series at some positions; `None` = no series has it.
    fn tag(
        &self,
        snapshot: &Snapshot,
        name: &str,
        positions: impl ExactSizeIterator<Item = usize>,
    ) -> Result<Option<ArrayRef>, Error> {
        let Some(tag) = self.schema.tag(name) else {
            return Ok(None);
        };
        let tag = snapshot.series_tag(&self.schema, tag.id, &self.series)?;
        let column = tag.values().map(|values| {
            let code = |at| tag.code(at).and_then(|code| i32::try_from(code).ok());
            coded_column(values, positions.map(code))
        });
        Ok(column)
    }

    /// Begins to read a morsel.
    pub(super) fn open(
        &self,
        scan: &TableScan,
        morsel: usize,
        slots: &Slots,
        context: &Context,
    ) -> Result<TableReader, Error> {
        let mut charge = context.charge();
        context.check()?;
        let columns = self.columns(slots);
        let morsel = match &scan.known {
            Some((known, _)) if morsel == 0 => {
                return Ok(TableReader {
                    known: Some(known.clone()),
                    morsel: None,
                    columns,
                    charge,
                    blocks: scan.blocks.clone(),
                });
            }
            Some(_) => morsel - 1,
            None => morsel,
        };
        let (blocks, scan) = (scan.blocks.clone(), &scan.scan);
        if morsel == 0 {
            context.watch.has_planned(scan);
        }
        // What a morsel decodes first: a block of each column, and the rows of a batch.
        let width = slots.all.len() + 2;
        let rows = scan.rows_estimate() / scan.morsels().max(1) as u64;
        let rows = usize::try_from(rows.min(BATCH_ROWS)).unwrap_or(0);
        charge.grow(rows * width * size_of::<u64>())?;
        Ok(TableReader {
            known: None,
            morsel: Some(scan.read(morsel)),
            columns,
            charge,
            blocks,
        })
    }

    /// The next rows of a morsel.
    pub(super) fn next(
        &self,
        reader: &mut TableReader,
        slots: &Slots,
        context: &Context,
    ) -> Result<Option<Chunk>, Error> {
        if let Some(known) = reader.known.take() {
            return Ok(Some(known));
        }
        let Some(morsel) = &mut reader.morsel else {
            return Ok(None);
        };
        let Some(batch) = morsel.next() else {
            reader.morsel = None;
            context.watch.has_read(&reader.blocks.since_last());
            return Ok(None);
        };
        let batch = batch?;
        context.watch.has_read(&Reads {
            rows: batch.num_rows() as u64,
            ..reader.blocks.since_last()
        });
        let held = morsel.held_bytes() + batch.get_array_memory_size();
        reader.charge.resize(held)?;
        Ok(Some(self.chunk(&batch, &reader.columns, slots)))
    }

    fn chunk(&self, batch: &RecordBatch, columns: &[Option<usize>], slots: &Slots) -> Chunk {
        let rows = batch.num_rows();
        let series = batch.column(0).as_primitive::<UInt32Type>().values();
        let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
        let mut groups = Vec::with_capacity(rows);
        let mut own_ties = Vec::with_capacity(rows);
        for run in series.chunk_by(|one, other| one == other) {
            let id = run.first().map_or(SeriesId(0), |id| SeriesId(*id));
            let position = self.series.binary_search(&id).unwrap_or(usize::MAX);
            groups.resize(groups.len() + run.len(), self.group(position));
            own_ties.resize(groups.len(), self.tie(position));
        }
        let mut next = 2;
        let mut all: Vec<ArrayRef> = vec![Arc::clone(batch.column(1))];
        for (column, (name, kind)) in columns.iter().zip(slots.all.iter().skip(1)) {
            all.push(match column {
                Some(_) => {
                    next += 1;
                    Arc::clone(batch.column(next - 1))
                }
                None => absent_column(name, *kind, rows),
            });
        }
        Chunk {
            columns: all,
            times: times.values().to_vec(),
            groups,
            ties: own_ties,
        }
    }
}
