//! A table as the input of a query.
//!
//! Does: find its series, and turn the engine's batches into chunks. Does not: decide what to read of them.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use nilometer_engine::{
    ColumnKind, Narrowing, PhysicalType, Scan, ScanRequest, SeriesId, SeriesTag, Snapshot,
    TableSchema,
};

use super::chunk::{Chunk, absent_column};
use super::groups::{NO_GROUP, tag_order};
use super::tags;
use crate::context::{Charge, Context};
use crate::error::Error;
use crate::evaluate::{Name, Slots};
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
        snapshot: &Snapshot,
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
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by(|&one, &other| {
            let orders = tags
                .iter()
                .map(|tag| tag_order(tag.value(one), tag.value(other), rules));
            orders
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
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
        (limit, groups): (Option<usize>, Option<&Range<u32>>),
        context: &Context,
    ) -> Result<TableScan, Error> {
        let is_last = Narrowing::Ends { first: 0, last: 1 };
        let mut known = None;
        if *narrowing == is_last && groups.is_none() {
            known = self.last_rows(snapshot, &range, slots, context)?;
        }
        let own = groups.map(|groups| self.of_groups(groups));
        let series = match (&known, &own) {
            (Some((_, rest, _)), _) => rest,
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
        Ok(TableScan { scan, known })
    }

    /// The series of some groups.
    pub(super) fn of_groups(&self, groups: &Range<u32>) -> Vec<SeriesId> {
        let pairs = self.series.iter().zip(&self.groups);
        let own = pairs.filter(|(_, group)| groups.contains(group));
        own.map(|(series, _)| *series).collect()
    }

    /// The last rows of series that need not be read, and the other series. `None` = all have to be.
    fn last_rows(
        &self,
        snapshot: &Snapshot,
        range: &RangeInclusive<i64>,
        slots: &Slots,
        context: &Context,
    ) -> Result<Option<(Chunk, Vec<SeriesId>, Charge)>, Error> {
        let columns = self.columns(slots);
        let names = slots.all.iter().skip(1);
        if names.clone().any(|(name, _)| matches!(name, Name::Tag(_))) {
            return Ok(None);
        }
        let fields: Vec<usize> = columns.iter().flatten().copied().collect();
        let mut charge = context.charge();
        charge.grow(self.series.len() * (fields.len() + 4) * size_of::<u64>())?;
        let Some(last) = snapshot.last_rows(&self.schema, &self.series, &fields, range)? else {
            return Ok(None);
        };
        let rows = last.positions.len();
        let mut found = last.columns.into_iter();
        let times = TimestampNanosecondArray::from(last.times.clone());
        let mut all: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("UTC"))];
        for (column, (name, kind)) in columns.iter().zip(names) {
            let column = column.and_then(|_| found.next());
            all.push(column.unwrap_or_else(|| absent_column(name, *kind, rows)));
        }
        let positions = || last.positions.iter().map(|at| *at as usize);
        let chunk = Chunk {
            columns: all,
            groups: positions().map(|at| self.group(at)).collect(),
            ties: positions().map(|at| self.tie(at)).collect(),
            times: last.times,
        };
        Ok(Some((chunk, last.rest, charge)))
    }

    /// Reads a morsel.
    pub(super) fn visit(
        &self,
        scan: &TableScan,
        morsel: usize,
        slots: &Slots,
        context: &Context,
        visit: &mut dyn FnMut(Chunk) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut charge = context.charge();
        context.check()?;
        let morsel = match &scan.known {
            Some((known, _)) if morsel == 0 => {
                if known.rows() > 0 {
                    visit(known.clone())?;
                }
                return Ok(());
            }
            Some(_) => morsel - 1,
            None => morsel,
        };
        let scan = &scan.scan;
        if morsel == 0 {
            context.watch.has_planned(scan);
        }
        // What a morsel decodes first: a block of each column, and the rows of a batch.
        let width = slots.all.len() + 2;
        let rows = scan.rows_estimate() / scan.morsels().max(1) as u64;
        let rows = usize::try_from(rows.min(BATCH_ROWS)).unwrap_or(0);
        charge.grow(rows * width * size_of::<u64>())?;
        let mut reader = scan.read(morsel);
        let columns = self.columns(slots);
        while let Some(batch) = reader.next() {
            let batch = batch?;
            charge.resize(reader.held_bytes() + batch.get_array_memory_size())?;
            if !visit(self.chunk(&batch, &columns, slots))? {
                break;
            }
        }
        Ok(())
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
