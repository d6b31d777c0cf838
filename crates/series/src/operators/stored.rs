//! Tables whose aggregates the engine adds up: what it knows of whole hours and blocks, and else its rows as it has them.
//!
//! Does: say whether a query is made of such, and put what the engine gives into cells. Does not: make columns of rows, or
//! evaluate; a query with a condition on rows, or with expressions in its aggregates, reads rows.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use nilometer_engine::{
    AggregateRequest, Aggregation, Fold, FoldRows, Snapshot, StoredField, Stretch,
};

use super::cells::Cells;
use super::edges::Edges;
use super::lanes::{Condition, Known, Lane, Operand, Run, Ties, When};
use crate::context::{Charge, Context};
use crate::error::Error;
use crate::evaluate::Name;
use crate::input::Table;
use crate::long::Asks;
use crate::query::{Aggregate, Expr};

/// What an operand of an aggregate is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The table has no such field.
    Nowhere,
    /// By place among the fields of the aggregation.
    Field(usize),
    Time,
}

/// A table's aggregation.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    pub(super) table: &'a Table,
    pub(super) aggregation: Aggregation,
    /// By aggregate of the query, by operand.
    places: Vec<Vec<Place>>,
    /// By test of the condition.
    tests: Vec<Place>,
}

/// Whether an aggregate is of fields or of the time as they are.
pub(super) fn is_plain(aggregate: &Aggregate) -> bool {
    let operands = aggregate.operands();
    let mut operands = operands.iter();
    operands.all(|of| matches!(of, Expr::Field(_) | Expr::Time))
}

impl<'a> Stored<'a> {
    pub(super) fn plan(
        snapshot: &Snapshot,
        table: &'a Table,
        (aggregates, condition): (&[Aggregate], Option<&Condition>),
        time: RangeInclusive<i64>,
    ) -> Result<Self, Error> {
        let mut fields: Vec<usize> = Vec::new();
        let mut place = |field: &str| {
            let position = table.position(&Name::Field(field.to_owned()));
            position.map_or(Place::Nowhere, |position| {
                let known = fields.iter().position(|field| *field == position);
                Place::Field(known.unwrap_or_else(|| {
                    fields.push(position);
                    fields.len() - 1
                }))
            })
        };
        let mut places = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let operands = aggregate.operands().into_iter();
            let own = operands.map(|of| match of {
                Expr::Field(name) => place(name),
                _ => Place::Time,
            });
            places.push(own.collect());
        }
        let tests = condition.iter().flat_map(|condition| &condition.tests);
        let tests = tests.map(|test| place(&test.field)).collect();
        let request = AggregateRequest {
            table: Arc::clone(&table.schema),
            fields,
            time,
            tags: Vec::new(),
            bucket_ns: None,
        };
        let aggregation = snapshot.aggregate_series(&request, &table.series)?;
        Ok(Self {
            table,
            aggregation,
            places,
            tests,
        })
    }
}

/// What a morsel is added up with.
pub(super) struct Adding<'a> {
    pub(super) stored: &'a Stored<'a>,
    pub(super) cells: &'a mut Cells,
    pub(super) edges: &'a Edges<'a>,
    /// What rows have to meet.
    pub(super) condition: Option<&'a Condition>,
    /// Whether what is stored of rows may stand for them; with first and last values or without.
    pub(super) stands: Option<bool>,
    pub(super) context: &'a Context,
    pub(super) held: Charge,
    pub(super) runs: Vec<Run>,
    pub(super) numbers: Vec<u32>,
    pub(super) met: Vec<bool>,
    pub(super) asks: Asks<'a>,
    /// Time that went into adding up; what else a morsel takes is decoding.
    pub(super) spent: Duration,
}

impl Adding<'_> {
    /// Does work, and takes its time.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(before) = self.context.watch.now() else {
            return work(self);
        };
        let done = work(self);
        if let Some(now) = self.context.watch.now() {
            self.spent += now.saturating_sub(before);
        }
        done
    }
}

impl Fold for Adding<'_> {
    type Error = Error;

    fn is_one(&self, first: i64, last: i64) -> bool {
        self.stands.is_some() && self.edges.is_one(first, last)
    }

    fn takes_hours(&self) -> bool {
        self.stands.is_some() && self.edges.takes_hours()
    }

    fn wants_ends(&self) -> bool {
        self.stands == Some(true)
    }

    fn may_pass_over(&self) -> bool {
        self.condition.is_some() || self.has_extremes()
    }

    fn passes_over(
        &mut self,
        position: usize,
        (first, last): (i64, i64),
        fields: &[Option<StoredField<'_>>],
    ) -> bool {
        if let Some(condition) = self.condition {
            let tests = self.stored.tests.iter();
            let tests = tests.map(|place| match place {
                Place::Field(at) => fields.get(*at).copied().flatten(),
                Place::Nowhere | Place::Time => None,
            });
            if condition.is_met_by_none(tests) {
                return true;
            }
        }
        if !self.has_extremes() {
            return false;
        }
        let group = self.stored.table.group(position);
        let mut time = first;
        for _ in 0..PASSED_BUCKETS_MAX {
            let (start, until) = self.edges.around(time);
            let Some(cell) = self.cells.known(group, start) else {
                return false;
            };
            let lanes = self.cells.lanes.iter().zip(&self.stored.places);
            let mut known = lanes.map(|(lane, places)| (lane, known(places, fields)));
            if !known.all(|(lane, known)| lane.is_beyond(cell, known)) {
                return false;
            }
            if until > last {
                return true;
            }
            time = until;
        }
        false
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        self.context.check()?;
        Ok(self.held.resize(bytes)?)
    }

    fn stored(
        &mut self,
        position: usize,
        stretches: &[Stretch],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<(), Error> {
        self.asks.rows(stretches.len())?;
        self.timed(|adding| adding.add_stored(position, stretches, fields))
    }

    fn rows(&mut self, position: usize, rows: FoldRows<'_>) -> Result<(), Error> {
        self.asks.rows(rows.range.len())?;
        self.timed(|adding| adding.add_rows(position, &rows))
    }
}

impl Adding<'_> {
    fn add_stored(
        &mut self,
        position: usize,
        stretches: &[Stretch],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<(), Error> {
        let table = self.stored.table;
        let group = table.group(position);
        self.numbers.clear();
        for stretch in stretches {
            let start = self.edges.around(stretch.first_ns).0;
            self.numbers.push(self.cells.cell(group, start)?);
        }
        let tie = table.tie(position);
        for (lane, places) in self.cells.lanes.iter_mut().zip(&self.stored.places) {
            lane.add_stored(&self.numbers, stretches, known(places, fields), tie);
        }
        Ok(())
    }

    fn add_rows(&mut self, position: usize, rows: &FoldRows<'_>) -> Result<(), Error> {
        let table = self.stored.table;
        let group = table.group(position);
        let FoldRows {
            times,
            columns,
            range,
        } = rows;
        let operand = |place: &Place| match place {
            Place::Nowhere => Operand::Null,
            Place::Time => Operand::Time(times),
            Place::Field(at) => match columns.get(*at) {
                Some(Some(column)) => Operand::Column(*column),
                _ => Operand::Null,
            },
        };
        if let Some(condition) = self.condition {
            let tests: Vec<Operand<'_>> = self.stored.tests.iter().map(operand).collect();
            condition.holds(&tests, range.clone(), &mut self.met);
        }
        self.runs.clear();
        let mut start = range.start;
        while start < range.end {
            let mut end_of_met = range.end;
            if self.condition.is_some() {
                // Rows that meet the condition, and stand side by side.
                let met = self.met.get(start - range.start..).unwrap_or_default();
                let Some(first) = met.iter().position(|met| *met) else {
                    break;
                };
                start += first;
                let own = met.get(first..).unwrap_or_default();
                let own = own.iter().position(|met| !*met).unwrap_or(own.len());
                end_of_met = start + own;
            }
            let Some(&time) = times.get(start) else {
                break;
            };
            let (bucket, until) = self.edges.around(time);
            let end = end_of(times, start, end_of_met, until);
            self.runs.push(Run {
                cell: self.cells.cell(group, bucket)?,
                start: short(start),
                end: short(end),
            });
            start = end;
        }
        let when = When {
            times,
            ties: Ties::One(table.tie(position)),
        };
        let mut grown = 0;
        for (lane, places) in self.cells.lanes.iter_mut().zip(&self.stored.places) {
            grown += match places.as_slice() {
                [] => lane.add(&self.runs, &[], &when),
                [one] => lane.add(&self.runs, &[operand(one)], &when),
                all => {
                    let operands: Vec<Operand<'_>> = all.iter().map(operand).collect();
                    lane.add(&self.runs, &operands, &when)
                }
            };
        }
        self.cells.charge(grown)
    }

    /// Whether nothing but extremes is asked for, which may be known already.
    fn has_extremes(&self) -> bool {
        self.stands.is_some() && self.cells.lanes.iter().all(Lane::is_extreme)
    }
}

/// What is stored of the first operand of an aggregate.
fn known<'f>(places: &[Place], fields: &[Option<StoredField<'f>>]) -> Known<'f> {
    match places.first() {
        None | Some(Place::Time) => Known::Time,
        Some(Place::Nowhere) => Known::Null,
        Some(Place::Field(at)) => match fields.get(*at) {
            Some(Some(field)) => Known::Field(*field),
            _ => Known::Null,
        },
    }
}

/// Buckets of a block that are compared with what is stored of it before it is read.
const PASSED_BUCKETS_MAX: usize = 64;

/// Rows that are looked at one by one before the end of a bucket is searched for.
const NEAR_ROWS: usize = 16;

/// Where the rows from `start` on end that are before a time; one row at least.
fn end_of(times: &[i64], start: usize, end: usize, until: i64) -> usize {
    let near = times.get(start + 1..end.min(start + 1 + NEAR_ROWS));
    let near = near.unwrap_or_default();
    if let Some(found) = near.iter().position(|time| *time >= until) {
        return start + 1 + found;
    }
    let from = start + 1 + near.len();
    let rest = times.get(from..end).unwrap_or_default();
    from + rest.partition_point(|time| *time < until)
}

/// A block has at most 1024 rows, and merged rows of a series are fewer than 32 bits count.
fn short(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
