//! Buckets of one series while they fill: from summaries of whole stretches, and from rows.

use std::ops::Range;

use nilometer_codec::stats::statistics;
use nilometer_codec::{BLOCK_ROWS_MAX, PhysicalType};
use rustc_hash::FxHashMap;

use super::{AggregateSum, AggregateValue, FieldAggregate, Plan, merge};
use crate::batch::{Column, Strings, Values};
use crate::scan::output::Output;
use crate::scan::source::{Piece, Rows};
use crate::schema::ColumnId;
use crate::segment::{Summary, Totals};

/// When the bucket of a time starts.
pub(super) fn bucket_of(time: i64, bucket_ns: Option<i64>) -> i64 {
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

/// Buckets in the order of their first row.
#[derive(Debug)]
pub(super) struct Buckets {
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
    pub(super) fn new(fields: &[(ColumnId, PhysicalType)], bucket_ns: Option<i64>) -> Self {
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
    pub(super) fn add(
        &mut self,
        time: i64,
        rows: u64,
        summaries: impl Iterator<Item = Option<Summary>>,
    ) {
        for (cell, summary) in self.bucket(time, rows).iter_mut().zip(summaries) {
            if let Some(summary) = summary {
                join(cell, summary);
            }
        }
    }

    /// Adds rows, merged as the table says; returns how many were looked at.
    pub(super) fn add_pieces(&mut self, pieces: Vec<Piece>, plan: &Plan) -> u64 {
        let rows = pieces.iter().map(|piece| piece.rows.len() as u64).sum();
        if let [
            Piece {
                data,
                rows: Rows::Range(range),
                ..
            },
        ] = pieces.as_slice()
        {
            let times = data.times();
            let own = times.get(range.clone()).unwrap_or_default();
            let is_keep = plan.duplicates == crate::schema::Duplicates::Keep;
            if is_keep || own.is_sorted_by(|a, b| a < b) {
                self.add_rows(times, range.clone(), |field| data.column(field));
                return rows;
            }
        }
        let mut output = Output::new(&self.kinds);
        merge::append(pieces, 0, plan.duplicates, &mut output);
        let merged = output.take_rows(plan.table.id, &[0]);
        let kinds = self.kinds.clone();
        let column = |field: usize| {
            let (id, _) = kinds.get(field)?;
            merged.columns.iter().find(|column| column.id == *id)
        };
        self.add_rows(&merged.times, 0..merged.rows(), column);
        rows
    }

    /// Adds rows that ascend in time.
    fn add_rows<'c>(
        &mut self,
        times: &[i64],
        rows: Range<usize>,
        column: impl Fn(usize) -> Option<&'c Column>,
    ) {
        let mut start = rows.start;
        while let Some(&time) = times.get(start).filter(|_| start < rows.end) {
            let last = end_of(time, self.bucket_ns);
            let rest = times.get(start..rows.end).unwrap_or_default();
            let length = rest.partition_point(|&time| time <= last);
            let end = start + length.clamp(1, BLOCK_ROWS_MAX);
            let mut bitmap = std::mem::take(&mut self.bitmap);
            let cells = self.bucket(time, (end - start) as u64);
            for (at, field) in cells.iter_mut().enumerate() {
                let Some(column) = column(at) else { continue };
                let own = times.get(start..end).unwrap_or_default();
                if let Values::Text(strings) | Values::Bytes(strings) = &column.values {
                    for (row, &time) in (start..end).zip(own) {
                        if column.validity.is_valid(row) {
                            join_text(field, time, strings, row);
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
    pub(super) fn finish(mut self) -> Vec<(i64, u64, Vec<Option<FieldAggregate>>)> {
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

fn join_text(field: &mut Option<Known>, time: i64, strings: &Strings, row: usize) {
    let value = strings.get(row);
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
