//! Buckets of one series while they fill: from summaries of whole stretches, and from rows.

use nilometer_codec::stats::statistics;
use nilometer_codec::{BLOCK_ROWS_MAX, PhysicalType, ValuesRef};
use rustc_hash::FxHashMap;

use super::{
    AggregateRow, AggregateSum, AggregateValue, FieldAggregate, Fold, FoldRows, Plan, Stretch,
};
use crate::error::Error;
use crate::schema::{ColumnId, SeriesId};
use crate::segment::{HOUR_NS, Moment, StoredField, StoredSums, StoredTotals, Summary, Totals};

/// When the bucket of a time starts.
fn bucket_of(time: i64, bucket_ns: Option<i64>) -> i64 {
    bucket_ns.map_or(i64::MIN, |width| {
        let number = time.div_euclid(width);
        number.checked_mul(width).unwrap_or(i64::MIN)
    })
}

/// The last time of the bucket of a time.
fn end_of(time: i64, bucket_ns: Option<i64>) -> i64 {
    bucket_ns.map_or(i64::MAX, |width| {
        let next = time.div_euclid(width).checked_add(1);
        let start = next.and_then(|number| number.checked_mul(width));
        start.map_or(i64::MAX, |start| start.saturating_sub(1))
    })
}

/// Rows of an aggregation: one for each series and bucket.
#[derive(Debug)]
pub(super) struct ByBucket<'a> {
    plan: &'a Plan,
    /// The series that is added up now.
    position: usize,
    buckets: Buckets,
    rows: Vec<AggregateRow>,
}

impl<'a> ByBucket<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            position: 0,
            buckets: Buckets::new(&plan.fields, plan.bucket_ns),
            rows: Vec::new(),
        }
    }

    fn turn_to(&mut self, position: usize) {
        if position != self.position {
            self.end_series();
            self.position = position;
        }
    }

    fn end_series(&mut self) {
        let plan = self.plan;
        let next = Buckets::new(&plan.fields, plan.bucket_ns);
        let series = plan.series.get(self.position).copied().unwrap_or(0);
        let is_as_asked = plan.slots.iter().copied().eq(0..plan.fields.len());
        for (bucket, rows, fields) in std::mem::replace(&mut self.buckets, next).finish() {
            let fields = if is_as_asked {
                fields
            } else {
                let slots = plan.slots.iter();
                slots.map(|&slot| fields.get(slot)?.clone()).collect()
            };
            self.rows.push(AggregateRow {
                series: SeriesId(series),
                position: self.position,
                bucket,
                rows,
                fields,
            });
        }
    }

    pub(super) fn finish(mut self) -> Vec<AggregateRow> {
        self.end_series();
        self.rows
    }
}

impl Fold for ByBucket<'_> {
    type Error = Error;

    fn is_one(&self, first: i64, last: i64) -> bool {
        let width = self.plan.bucket_ns;
        bucket_of(first, width) == bucket_of(last, width)
    }

    fn takes_hours(&self) -> bool {
        self.plan.bucket_ns.is_none_or(|width| width >= HOUR_NS)
    }

    fn wants_ends(&self) -> bool {
        true
    }

    fn hold(&mut self, _bytes: usize) -> Result<(), Error> {
        Ok(())
    }

    fn stored(
        &mut self,
        position: usize,
        stretches: &[Stretch],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<(), Error> {
        self.turn_to(position);
        for (at, stretch) in stretches.iter().enumerate() {
            let summaries = fields.iter().map(|field| summary_of(field.as_ref()?, at));
            let rows = u64::from(stretch.rows);
            self.buckets.add(stretch.first_ns, rows, summaries);
        }
        Ok(())
    }

    fn rows(&mut self, position: usize, rows: FoldRows<'_>) -> Result<(), Error> {
        self.turn_to(position);
        self.buckets.add_rows(&rows);
        Ok(())
    }
}

fn summary_of(field: &StoredField<'_>, at: usize) -> Option<Summary> {
    let count = field.counts.get(at).copied().filter(|count| *count > 0)?;
    let moment = |ends: &[(i64, u64)]| {
        let &(time, bits) = ends.get(at)?;
        Some(Moment { time, bits })
    };
    let sum_of = |sums: StoredSums<'_>| match sums {
        StoredSums::Narrow(sums) => sums.get(at).copied().map(i128::from),
        StoredSums::Wide(sums) => sums.get(at).copied(),
    };
    let totals = match field.totals {
        StoredTotals::Int { min, max, sum } => Totals::Int {
            min: *min.get(at)?,
            max: *max.get(at)?,
            sum: sum_of(sum)?,
        },
        StoredTotals::Unsigned { min, max, sum } => Totals::Unsigned {
            min: *min.get(at)?,
            max: *max.get(at)?,
            sum: sum_of(sum)?.cast_unsigned(),
        },
        StoredTotals::Float { min, max, sum } => Totals::Float {
            min: *min.get(at)?,
            max: *max.get(at)?,
            sum: *sum.get(at)?,
            non_finite: false,
        },
        StoredTotals::Bool { trues } => Totals::Bool {
            trues: u64::from(*trues.get(at)?),
        },
    };
    Some(Summary {
        count: u64::from(count),
        first: moment(field.first)?,
        last: moment(field.last)?,
        totals,
    })
}

/// Buckets in the order of their first row.
#[derive(Debug)]
struct Buckets {
    kinds: Vec<(ColumnId, PhysicalType)>,
    bucket_ns: Option<i64>,
    /// Start and number of rows.
    found: Vec<(i64, u64)>,
    /// Of every bucket, what is known of each field.
    cells: Vec<Option<Known>>,
    /// Positions by start.
    places: FxHashMap<i64, usize>,
    /// The bucket that was added to last: the next row is nearly always its or a new one's.
    last: usize,
    bitmap: Vec<u8>,
}

/// What is known of a field in a bucket.
#[derive(Debug)]
enum Known {
    Numbers(Summary),
    Text(Box<TextKnown>),
}

#[derive(Debug)]
struct TextKnown {
    count: u64,
    min: Vec<u8>,
    max: Vec<u8>,
    first: (i64, Vec<u8>),
    last: (i64, Vec<u8>),
}

impl Buckets {
    fn new(fields: &[(ColumnId, PhysicalType)], bucket_ns: Option<i64>) -> Self {
        Self {
            kinds: fields.to_vec(),
            bucket_ns,
            found: Vec::new(),
            cells: Vec::new(),
            places: FxHashMap::default(),
            last: 0,
            bitmap: Vec::new(),
        }
    }

    /// Adds rows to the bucket of a time; returns its cells.
    fn bucket(&mut self, time: i64, rows: u64) -> &mut [Option<Known>] {
        let start = bucket_of(time, self.bucket_ns);
        if self
            .found
            .get(self.last)
            .is_none_or(|bucket| bucket.0 != start)
        {
            let new = self.found.len();
            self.last = *self.places.entry(start).or_insert(new);
            if self.last == new {
                self.found.push((start, 0));
                let cells = self.cells.len() + self.kinds.len();
                self.cells.resize_with(cells, || None);
            }
        }
        if let Some(bucket) = self.found.get_mut(self.last) {
            bucket.1 += rows;
        }
        let first = self.last * self.kinds.len();
        let cells = self.cells.get_mut(first..first + self.kinds.len());
        cells.unwrap_or_default()
    }

    /// Adds rows of one bucket that only their summaries stand for, by field.
    fn add(&mut self, time: i64, rows: u64, summaries: impl Iterator<Item = Option<Summary>>) {
        for (cell, summary) in self.bucket(time, rows).iter_mut().zip(summaries) {
            if let Some(summary) = summary {
                join(cell, summary);
            }
        }
    }

    /// Adds rows that ascend in time.
    fn add_rows(&mut self, given: &FoldRows<'_>) {
        let (times, rows) = (given.times, given.range.clone());
        let mut start = rows.start;
        while let Some(&time) = times.get(start).filter(|_| start < rows.end) {
            let last = end_of(time, self.bucket_ns);
            let rest = times.get(start..rows.end).unwrap_or_default();
            let length = rest.partition_point(|&time| time <= last);
            let end = start + length.clamp(1, BLOCK_ROWS_MAX);
            let mut bitmap = std::mem::take(&mut self.bitmap);
            let cells = self.bucket(time, (end - start) as u64);
            let own = times.get(start..end).unwrap_or_default();
            for (field, column) in cells.iter_mut().zip(given.columns) {
                let Some(column) = column else { continue };
                if let ValuesRef::Text { offsets, bytes } | ValuesRef::Bytes { offsets, bytes } =
                    column.values
                {
                    for (row, &time) in (start..end).zip(own) {
                        if column.is_present(row) {
                            join_text(field, time, text_at(offsets, bytes, row));
                        }
                    }
                    continue;
                }
                let found = statistics(column.slice(start..end, &mut bitmap));
                let time = |row: u16| own.get(usize::from(row)).copied();
                if let Some(summary) = Summary::of(&found, time) {
                    join(field, summary);
                }
            }
            self.bitmap = bitmap;
            start = end;
        }
    }

    /// Start, number of rows and aggregates by field, in the order of time.
    fn finish(mut self) -> Vec<(i64, u64, Vec<Option<FieldAggregate>>)> {
        let mut order: Vec<usize> = (0..self.found.len()).collect();
        order.sort_by_key(|&at| self.found.get(at).map(|bucket| bucket.0));
        let width = self.kinds.len();
        let mut finished = Vec::with_capacity(order.len());
        for at in order {
            let Some(&(start, rows)) = self.found.get(at) else {
                continue;
            };
            let cells = self.cells.get_mut(at * width..(at + 1) * width);
            let cells = cells.unwrap_or_default().iter_mut().zip(&self.kinds);
            let fields = cells.map(|(cell, (_, kind))| Some(cell.take()?.finish(*kind)));
            finished.push((start, rows, fields.collect()));
        }
        finished
    }
}

fn join(field: &mut Option<Known>, summary: Summary) {
    match field {
        Some(Known::Numbers(known)) => known.join(&summary),
        _ => *field = Some(Known::Numbers(summary)),
    }
}

fn text_at<'a>(offsets: &[u32], bytes: &'a [u8], row: usize) -> &'a [u8] {
    let (Some(&start), Some(&end)) = (offsets.get(row), offsets.get(row + 1)) else {
        return &[];
    };
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

fn join_text(field: &mut Option<Known>, time: i64, value: &[u8]) {
    let Some(Known::Text(known)) = field else {
        *field = Some(Known::Text(Box::new(TextKnown {
            count: 1,
            min: value.to_vec(),
            max: value.to_vec(),
            first: (time, value.to_vec()),
            last: (time, value.to_vec()),
        })));
        return;
    };
    known.count += 1;
    if value < known.min.as_slice() {
        value.clone_into(&mut known.min);
    }
    if value > known.max.as_slice() {
        value.clone_into(&mut known.max);
    }
    if time < known.first.0 {
        known.first = (time, value.to_vec());
    }
    if time >= known.last.0 {
        known.last.0 = time;
        value.clone_into(&mut known.last.1);
    }
}

impl Known {
    fn finish(self, kind: PhysicalType) -> FieldAggregate {
        match self {
            Self::Numbers(summary) => finish_numbers(&summary, kind),
            Self::Text(text) => {
                let value = |bytes: Vec<u8>| match kind {
                    PhysicalType::Bytes => AggregateValue::Bytes(bytes),
                    _ => AggregateValue::Text(bytes),
                };
                FieldAggregate {
                    count: text.count,
                    min: value(text.min),
                    max: value(text.max),
                    sum: None,
                    first: (text.first.0, value(text.first.1)),
                    last: (text.last.0, value(text.last.1)),
                }
            }
        }
    }
}

fn finish_numbers(summary: &Summary, kind: PhysicalType) -> FieldAggregate {
    let value = |bits: u64| match kind {
        PhysicalType::I64 => AggregateValue::Int(bits as i64),
        PhysicalType::F64 => AggregateValue::Float(f64::from_bits(bits)),
        PhysicalType::Bool => AggregateValue::Bool(bits != 0),
        PhysicalType::U64 | PhysicalType::Text | PhysicalType::Bytes => {
            AggregateValue::Unsigned(bits)
        }
    };
    let (min, max, sum) = match summary.totals {
        Totals::Int { min, max, sum } => (min as u64, max as u64, AggregateSum::Int(sum)),
        Totals::Unsigned { min, max, sum } => (min, max, AggregateSum::Unsigned(sum)),
        Totals::Float { min, max, sum, .. } => {
            (min.to_bits(), max.to_bits(), AggregateSum::Float(sum))
        }
        Totals::Bool { trues } => (
            u64::from(trues == summary.count),
            u64::from(trues > 0),
            AggregateSum::Unsigned(u128::from(trues)),
        ),
    };
    FieldAggregate {
        count: summary.count,
        min: value(min),
        max: value(max),
        sum: Some(sum),
        first: (summary.first.time, value(summary.first.bits)),
        last: (summary.last.time, value(summary.last.bits)),
    }
}
