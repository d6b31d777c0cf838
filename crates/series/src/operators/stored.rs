//! Tables whose aggregates the engine adds up: what it knows of whole hours and blocks, and else its rows as it has them.
//!
//! Does: say whether a query is made of such, calculate what its aggregates are of where that is no field as it is, and put what
//! the engine gives into cells. Does not: read tags or other rows; a query that needs those reads rows.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, NullArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use nilometer_engine::{
    AggregateRequest, Aggregation, ColumnRef, Fold, FoldBlock, FoldRows, FoldRun, Snapshot,
    StoredField, Stretch, ValuesRef,
};

use super::cells::Cells;
use super::edges::Edges;
use super::lanes::{Condition, Known, Lane, Operand, Run, Ties, When};
use crate::context::{Charge, Context};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots};
use crate::input::Table;
use crate::long::Asks;
use crate::query::{Aggregate, Binary, Expr, Function};
use crate::value::{Literal, Rules, Type, Value};

/// What an operand of an aggregate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The table has no such field.
    Nowhere,
    /// By place among the fields of the aggregation.
    Field(usize),
    Time,
    /// By place among the calculations.
    Made(usize),
}

/// A calculation with fields, block by block.
#[derive(Debug)]
struct Made {
    of: Resolved,
    /// By column that the expression may name: which field it is, and of which type.
    slots: Vec<Option<(usize, Type)>>,
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
    made: Vec<Made>,
    /// The field of the condition, if it is that this field has a value, and all aggregates are of it: they pass over rows
    /// without one by themselves.
    presence: Option<Place>,
}

/// What aggregates are of.
pub(super) struct Operands<'p> {
    pub(super) aggregates: &'p [Aggregate],
    /// By aggregate: which of the distinct ones its operands are.
    pub(super) places: &'p [Vec<usize>],
    pub(super) distinct: &'p [Resolved],
    pub(super) slots: &'p Slots,
    pub(super) condition: Option<&'p Condition>,
}

/// Whether an operand is a field or the time as it is.
fn is_plain(of: &Expr) -> bool {
    matches!(of, Expr::Field(_) | Expr::Time)
}

/// Whether an operand is a calculation with numbers that has a value, or none, whatever the row: the rows of a block are
/// calculated together, those too that do not count, and an error among them would be none.
fn is_made(of: &Expr, slots: &Slots, rules: Rules) -> bool {
    let is_number = |field: &str| {
        let kind = slots.place(&Name::Field(field.to_owned()));
        let kind = kind.and_then(|at| slots.all.get(at)?.1);
        matches!(kind, Some(Type::Int | Type::Float))
    };
    let is_other = |expr: &Expr| match expr {
        Expr::Field(field) => !is_number(field),
        Expr::Literal(Literal::Value(value)) => !matches!(value, Value::Int(_) | Value::Float(_)),
        Expr::Binary(operator, ..) => !matches!(
            operator,
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide
        ),
        Expr::Call(function, _) => !matches!(
            function,
            Function::Floor | Function::Ceil | Function::Abs | Function::Sqrt | Function::NullIfNan
        ),
        _ => true,
    };
    rules == Rules::Influx && !of.has(is_other)
}

/// Whether the engine's blocks say what an aggregate is: it is of fields or of the time as they are, or of calculations.
pub(super) fn is_known(aggregate: &Aggregate, slots: &Slots, rules: Rules) -> bool {
    let operands = aggregate.operands();
    let mut operands = operands.iter();
    operands.all(|of| is_plain(of) || is_made(of, slots, rules))
}

/// Whether an aggregate is of fields or of the time as they are, of which something is stored.
pub(super) fn has_stored(aggregate: &Aggregate) -> bool {
    aggregate.operands().iter().all(|of| is_plain(of))
}

impl<'a> Stored<'a> {
    pub(super) fn plan(
        snapshot: &Snapshot,
        table: &'a Table,
        operands: &Operands<'_>,
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
        let mut places = Vec::with_capacity(operands.aggregates.len());
        let (mut made, mut numbers): (Vec<Made>, Vec<usize>) = (Vec::new(), Vec::new());
        for (aggregate, known) in operands.aggregates.iter().zip(operands.places) {
            let mut own = Vec::with_capacity(known.len());
            for (of, number) in aggregate.operands().into_iter().zip(known) {
                own.push(match of {
                    Expr::Field(name) => place(name),
                    Expr::Time => Place::Time,
                    of => {
                        let at = numbers.iter().position(|known| known == number);
                        Place::Made(at.unwrap_or_else(|| {
                            numbers.push(*number);
                            made.extend(operands.made(of, *number, &mut place));
                            made.len() - 1
                        }))
                    }
                });
            }
            places.push(own);
        }
        let is_presence = operands.condition.is_some_and(Condition::is_presence);
        let tests = operands
            .condition
            .iter()
            .flat_map(|condition| &condition.tests);
        let tests: Vec<Place> = tests.map(|test| place(&test.field)).collect();
        let is_of = |own: &Vec<Place>| own.as_slice() == tests.as_slice();
        let presence = tests.first().copied();
        let presence = presence.filter(|_| is_presence && places.iter().all(is_of));
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
            made,
            presence,
        })
    }
}

impl Operands<'_> {
    /// A calculation, with the places of its fields.
    fn made(
        &self,
        of: &Expr,
        number: usize,
        place: &mut impl FnMut(&str) -> Place,
    ) -> Option<Made> {
        let slots = self.slots.all.iter().map(|(name, kind)| match name {
            Name::Field(field) if of.names_field(field) => match place(field) {
                Place::Field(at) => Some((at, (*kind)?)),
                _ => None,
            },
            _ => None,
        });
        Some(Made {
            slots: slots.collect(),
            of: self.distinct.get(number)?.clone(),
        })
    }
}

impl Made {
    /// Its values in rows of a block.
    fn values(&self, columns: &[Option<ColumnRef<'_>>], rows: usize) -> Result<ArrayRef, Error> {
        let nothing: ArrayRef = Arc::new(NullArray::new(rows));
        let own = self.slots.iter().map(|slot| match slot {
            None => Arc::clone(&nothing),
            Some((at, kind)) => array(columns.get(*at).copied().flatten(), *kind, rows),
        });
        let own: Vec<ArrayRef> = own.collect();
        self.of.column(&own, rows)
    }
}

/// The values of a field in rows of a block as an array of its type.
fn array(column: Option<ColumnRef<'_>>, kind: Type, rows: usize) -> ArrayRef {
    let valid = |column: &ColumnRef<'_>| {
        let bytes = column.validity?;
        let bits = BooleanBuffer::new(Buffer::from_slice_ref(bytes), 0, rows);
        Some(NullBuffer::new(bits))
    };
    match column.map(|column| (column.values, valid(&column))) {
        Some((ValuesRef::F64(values), valid)) if values.len() == rows => {
            Arc::new(Float64Array::new(values.to_vec().into(), valid))
        }
        Some((ValuesRef::I64(values), valid)) if values.len() == rows => {
            Arc::new(Int64Array::new(values.to_vec().into(), valid))
        }
        _ if kind == Type::Int => Arc::new(Int64Array::new_null(rows)),
        _ => Arc::new(Float64Array::new_null(rows)),
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
    pub(super) stretches: Vec<Stretch>,
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
                Place::Nowhere | Place::Time | Place::Made(_) => None,
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

    fn takes_runs(&self) -> bool {
        true
    }

    fn wants_times(&self) -> bool {
        let mut lanes = self.cells.lanes.iter().zip(&self.stored.places);
        self.condition.is_some() || lanes.any(|(lane, places)| !takes_runs(lane, places))
    }

    fn runs(&mut self, runs: &[FoldRun], block: &FoldBlock<'_>) -> Result<(), Error> {
        let rows = runs.iter().map(|run| (run.end - run.start) as usize);
        self.asks.rows(rows.sum())?;
        if self.wants_times() {
            return self.timed(|adding| {
                runs.iter().try_for_each(|run| {
                    let rows = FoldRows {
                        times: block.times.unwrap_or_default(),
                        columns: block.columns,
                        range: run.start as usize..run.end as usize,
                    };
                    adding.add_rows(run.position, &rows)
                })
            });
        }
        self.timed(|adding| adding.add_runs(runs, block))
    }
}

/// Whether what an aggregate is of rows of several series is known from their values and from the first and last time of each
/// series.
fn takes_runs(lane: &Lane, places: &[Place]) -> bool {
    match places {
        [] | [Place::Nowhere] => true,
        [Place::Time] => lane.takes_stretches(),
        [Place::Field(_)] => lane.takes_values(),
        _ => false,
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

    /// Adds rows of several series, of which no aggregate asks for the time of each.
    fn add_runs(&mut self, runs: &[FoldRun], block: &FoldBlock<'_>) -> Result<(), Error> {
        let table = self.stored.table;
        let times = block.times.unwrap_or_default();
        self.runs.clear();
        self.numbers.clear();
        self.stretches.clear();
        for run in runs {
            let group = table.group(run.position);
            let (mut row, mut time) = (run.start, run.first_ns);
            while row < run.end {
                let (bucket, until) = self.edges.around(time);
                let is_one = run.last_ns < until || run.last_ns == time;
                let (mut end, mut last_ns) = (run.end, run.last_ns);
                if !is_one && !self.edges.is_one(time, run.last_ns) {
                    end = short(end_of(times, row as usize, run.end as usize, until));
                    last_ns = times
                        .get((end as usize).saturating_sub(1))
                        .copied()
                        .unwrap_or(time);
                }
                let cell = self.cells.cell(group, bucket)?;
                self.numbers.push(cell);
                self.stretches.push(Stretch {
                    first_ns: time,
                    last_ns,
                    rows: end - row,
                });
                self.runs.push(Run {
                    cell,
                    start: row,
                    end,
                });
                row = end;
                time = times.get(end as usize).copied().unwrap_or(last_ns);
            }
        }
        let when = When {
            times,
            ties: Ties::One(0),
        };
        let mut grown = 0;
        for (lane, places) in self.cells.lanes.iter_mut().zip(&self.stored.places) {
            match places.first() {
                Some(Place::Field(at)) => {
                    let operand = match block.columns.get(*at) {
                        Some(Some(column)) => Operand::Column(*column),
                        _ => Operand::Null,
                    };
                    grown += lane.add(&self.runs, &[operand], &when);
                }
                Some(Place::Nowhere | Place::Made(_)) => {}
                None | Some(Place::Time) => {
                    lane.add_stored(&self.numbers, &self.stretches, Known::Time, 0);
                }
            }
        }
        self.cells.charge(grown)
    }

    fn add_rows(&mut self, position: usize, rows: &FoldRows<'_>) -> Result<(), Error> {
        let table = self.stored.table;
        let group = table.group(position);
        let FoldRows {
            times,
            columns,
            range,
        } = rows;
        let made = self.stored.made.iter();
        let made = made.map(|made| made.values(columns, times.len()));
        let made: Vec<ArrayRef> = made.collect::<Result<_, _>>()?;
        let operand = |place: &Place| match place {
            Place::Nowhere => Operand::Null,
            Place::Time => Operand::Time(times),
            Place::Made(at) => match made.get(*at) {
                Some(values) if !values.data_type().is_null() => Operand::Array(values),
                _ => Operand::Null,
            },
            Place::Field(at) => match columns.get(*at) {
                Some(Some(column)) => Operand::Column(*column),
                _ => Operand::Null,
            },
        };
        let mut has_condition = false;
        let presence = self.stored.presence.as_ref().map(operand);
        if let Some(condition) = self.condition.filter(|_| presence.is_none()) {
            let tests: Vec<Operand<'_>> = self.stored.tests.iter().map(operand).collect();
            has_condition = !condition.is_met_by_all(&tests, range);
            if has_condition {
                condition.holds(&tests, range.clone(), &mut self.met);
            }
        }
        self.runs.clear();
        let mut start = range.start;
        while start < range.end {
            let mut end_of_met = range.end;
            if has_condition {
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
            let own = start..end;
            start = end;
            if presence
                .as_ref()
                .is_some_and(|of| of.present(own.clone()) == 0)
            {
                continue;
            }
            self.runs.push(Run {
                cell: self.cells.cell(group, bucket)?,
                start: short(own.start),
                end: short(own.end),
            });
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
        // Of what is calculated nothing is stored, and nobody asks.
        Some(Place::Nowhere | Place::Made(_)) => Known::Null,
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
