//! Aggregates of cells, a column for each: of exactly the type and the numbers that are asked for.
//!
//! Does: add runs of rows and what is stored of whole stretches, join what several threads know, and finish as columns. Does
//! not: know groups and buckets (`cells`); what has no column of its own is kept a value at a time (`accumulate`).

mod condition;
mod ends;
mod extremes;
mod finish;
mod operand;
mod run;
mod stretch;
mod sums;

use nilometer_engine::{StoredField, StoredTotals, Stretch};

use super::accumulate::{Accumulator, selector};
use crate::context::Context;
use crate::error::Error;
use crate::long::Asks;
use crate::query::{Aggregate, Expr, Selector};
use crate::value::{Rules, Type};
pub(super) use condition::Condition;
use ends::Ends;
use extremes::Extreme;
pub(super) use operand::Operand;
pub(super) use run::{Run, Ties, When};
use run::{add_to, resize};
use stretch::One;
use sums::{Sums, ints_sum};

/// What is stored of the operand of an aggregate.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known<'a> {
    /// It has no values.
    Null,
    Field(StoredField<'a>),
    Time,
}

/// One aggregate of all cells.
#[derive(Debug)]
pub(super) struct Lane {
    aggregate: Aggregate,
    rules: Rules,
    /// Of the aggregate; `None` = null always.
    kind: Option<Type>,
    column: Column,
}

#[derive(Debug)]
enum Column {
    Count(Vec<u64>),
    Ints(Sums<i128>),
    Floats(Sums<f64>),
    Int(Extreme<i64>),
    Unsigned(Extreme<u64>),
    Float(Extreme<f64>),
    Ends(Ends),
    Each(Vec<Accumulator>),
}

impl Lane {
    /// Of an aggregate of a type, of operands of types.
    pub(super) fn new(
        aggregate: &Aggregate,
        kind: Option<Type>,
        operands: &[Option<Type>],
        rules: Rules,
    ) -> Self {
        let operand = operands.first().copied().flatten();
        let column = match (aggregate, operand) {
            (Aggregate::Rows | Aggregate::Count(_), _) => Column::Count(Vec::new()),
            (
                Aggregate::Sum(_)
                | Aggregate::Mean(_)
                | Aggregate::NumericSum(_)
                | Aggregate::NumericMean(_),
                Some(Type::Int | Type::Unsigned),
            ) => Column::Ints(Sums::default()),
            (Aggregate::Sum(_) | Aggregate::Mean(_), Some(Type::Float)) => {
                Column::Floats(Sums::default())
            }
            (Aggregate::Min(_) | Aggregate::Max(_), Some(kind)) => {
                let is_max = matches!(aggregate, Aggregate::Max(_));
                match kind {
                    Type::Int | Type::Time => Column::Int(Extreme::new(is_max)),
                    Type::Unsigned => Column::Unsigned(Extreme::new(is_max)),
                    Type::Float => Column::Float(Extreme::new(is_max)),
                    _ => Column::Each(Vec::new()),
                }
            }
            (_, Some(kind)) => match Ends::of(aggregate, kind, rules) {
                Some(ends) => Column::Ends(ends),
                None => Column::Each(Vec::new()),
            },
            _ => Column::Each(Vec::new()),
        };
        Self {
            aggregate: aggregate.clone(),
            rules,
            kind,
            column,
        }
    }

    /// Memory of a cell.
    pub(super) fn bytes_each(&self) -> usize {
        match &self.column {
            Column::Count(_) => size_of::<u64>(),
            Column::Ints(_) => size_of::<u64>() + size_of::<i128>(),
            Column::Floats(_) => 2 * size_of::<u64>(),
            Column::Int(_) | Column::Unsigned(_) | Column::Float(_) => size_of::<u64>() + 1,
            Column::Ends(_) => Ends::BYTES_EACH,
            Column::Each(_) => size_of::<Accumulator>(),
        }
    }

    /// Makes room for so many cells.
    pub(super) fn resize(&mut self, cells: usize) {
        match &mut self.column {
            Column::Count(counts) => resize(counts, cells, 0),
            Column::Ints(sums) => sums.resize(cells),
            Column::Floats(sums) => sums.resize(cells),
            Column::Int(extreme) => extreme.resize(cells),
            Column::Unsigned(extreme) => extreme.resize(cells),
            Column::Float(extreme) => extreme.resize(cells),
            Column::Ends(ends) => ends.resize(cells),
            Column::Each(all) => {
                let fresh = Accumulator::new(&self.aggregate);
                all.reserve_exact(cells.saturating_sub(all.len()));
                all.resize(cells, fresh);
            }
        }
    }

    /// Adds rows. Returns the bytes that it has grown by.
    pub(super) fn add(&mut self, runs: &[Run], operands: &[Operand<'_>], when: &When<'_>) -> usize {
        let Some(first) = operands.first() else {
            if let Column::Count(counts) = &mut self.column {
                for run in runs {
                    add_to(counts, run.cell, run.rows().len() as u64);
                }
            }
            return 0;
        };
        if let Operand::Null = first {
            return 0;
        }
        match &mut self.column {
            Column::Count(counts) => {
                for run in runs {
                    add_to(counts, run.cell, first.present(run.rows()));
                }
            }
            Column::Ints(sums) => {
                if let Some((values, valid)) = first.ints() {
                    sums.add(runs, values, valid, ints_sum, |value| i128::from(*value));
                } else if let Some((values, valid)) = first.unsigneds() {
                    sums.add(runs, values, valid, sums::unsigneds_sum, |value| {
                        i128::from(*value)
                    });
                }
            }
            Column::Floats(sums) => {
                if let Some((values, valid)) = first.floats() {
                    sums.add(runs, values, valid, sums::floats_sum, |value| *value);
                }
            }
            Column::Int(extreme) => {
                if let Some((values, valid)) = first.ints() {
                    extreme.add(runs, values, valid);
                }
            }
            Column::Unsigned(extreme) => {
                if let Some((values, valid)) = first.unsigneds() {
                    extreme.add(runs, values, valid);
                }
            }
            Column::Float(extreme) => {
                if let Some((values, valid)) = first.floats() {
                    extreme.add(runs, values, valid);
                }
            }
            Column::Ends(ends) => {
                for run in runs {
                    ends.add(*run, first, when);
                }
            }
            Column::Each(all) => {
                let mut grown = 0;
                for run in runs {
                    if let Some(accumulator) = all.get_mut(run.cell as usize) {
                        let value = |operand: usize, row: usize| operands.get(operand)?.scalar(row);
                        let (aggregate, rules) = (&self.aggregate, self.rules);
                        let at = |row| when.at(row);
                        grown += accumulator.add(aggregate, rules, run.rows(), value, at);
                    }
                }
                return grown;
            }
        }
        0
    }

    /// Adds what is stored of stretches of rows of a series, which belong to these cells.
    pub(super) fn add_stored(
        &mut self,
        cells: &[u32],
        stretches: &[Stretch],
        known: Known<'_>,
        tie: u64,
    ) {
        let field = match (known, &self.aggregate) {
            (_, Aggregate::Rows) | (Known::Time, _) => None,
            (Known::Null, _) => return,
            (Known::Field(field), _) => Some(field),
        };
        match (&mut self.column, field) {
            (Column::Count(counts), None) => {
                for (cell, stretch) in cells.iter().zip(stretches) {
                    add_to(counts, *cell, u64::from(stretch.rows));
                }
            }
            (Column::Count(counts), Some(field)) => {
                for (cell, count) in cells.iter().zip(field.counts) {
                    add_to(counts, *cell, u64::from(*count));
                }
            }
            (Column::Ints(sums), Some(field)) => {
                if let StoredTotals::Int { sum, .. } | StoredTotals::Unsigned { sum, .. } =
                    field.totals
                {
                    sums.add_stored(cells, field.counts, sum);
                }
            }
            (Column::Floats(sums), Some(field)) => {
                if let StoredTotals::Float { sum, .. } = field.totals {
                    sums.add_stored(cells, field.counts, sum);
                }
            }
            (Column::Int(extreme), None) => {
                for (cell, stretch) in cells.iter().zip(stretches) {
                    extreme.offer(*cell, stretch.first_ns);
                    extreme.offer(*cell, stretch.last_ns);
                }
            }
            (Column::Int(extreme), Some(field)) => {
                if let StoredTotals::Int { min, max, .. } = field.totals {
                    extreme.add_stored(cells, field.counts, min, max);
                }
            }
            (Column::Unsigned(extreme), Some(field)) => {
                if let StoredTotals::Unsigned { min, max, .. } = field.totals {
                    extreme.add_stored(cells, field.counts, min, max);
                }
            }
            (Column::Float(extreme), Some(field)) => {
                if let StoredTotals::Float { min, max, .. } = field.totals {
                    extreme.add_stored(cells, field.counts, min, max);
                }
            }
            (Column::Ends(ends), field) => ends.add_stored(cells, stretches, field, tie),
            (Column::Each(all), field) => {
                for (at, (cell, stretch)) in cells.iter().zip(stretches).enumerate() {
                    if let Some(accumulator) = all.get_mut(*cell as usize) {
                        let one = One { at, stretch, field };
                        one.add(accumulator);
                    }
                }
            }
            (
                Column::Ints(_) | Column::Floats(_) | Column::Unsigned(_) | Column::Float(_),
                None,
            ) => {}
        }
    }

    /// Whether it says the same of rows whose times are not known, if it is of a field.
    pub(super) fn takes_values(&self) -> bool {
        !matches!(self.column, Column::Ends(_) | Column::Each(_))
    }

    /// Whether it says the same of stretches of rows as of the rows, if it is of their time.
    pub(super) fn takes_stretches(&self) -> bool {
        matches!(self.column, Column::Count(_) | Column::Int(_))
    }

    /// Whether it is of extremes of a field, which values within those that are known do not change.
    pub(super) fn is_extreme(&self) -> bool {
        matches!(
            self.column,
            Column::Int(_) | Column::Unsigned(_) | Column::Float(_)
        )
    }

    /// Whether no value of rows of which this is stored would change a cell.
    pub(super) fn is_beyond(&self, cell: u32, known: Known<'_>) -> bool {
        let field = match known {
            Known::Null => return true,
            Known::Time => return false,
            Known::Field(field) => field,
        };
        if field.counts.first() == Some(&0) {
            return true;
        }
        match (&self.column, field.totals) {
            (Column::Int(extreme), StoredTotals::Int { min, max, .. }) => {
                extreme.is_beyond(cell, min.first(), max.first())
            }
            (Column::Unsigned(extreme), StoredTotals::Unsigned { min, max, .. }) => {
                extreme.is_beyond(cell, min.first(), max.first())
            }
            (Column::Float(extreme), StoredTotals::Float { min, max, .. }) => {
                extreme.is_beyond(cell, min.first(), max.first())
            }
            _ => false,
        }
    }

    /// Takes in what another thread knows: its cells become these.
    pub(super) fn join(
        &mut self,
        other: Self,
        cells: &[u32],
        context: &Context,
    ) -> Result<(), Error> {
        match (&mut self.column, other.column) {
            (Column::Count(mine), Column::Count(theirs)) => {
                for (cell, count) in cells.iter().zip(theirs) {
                    add_to(mine, *cell, count);
                }
            }
            (Column::Ints(mine), Column::Ints(theirs)) => mine.join(&theirs, cells),
            (Column::Floats(mine), Column::Floats(theirs)) => mine.join(&theirs, cells),
            (Column::Int(mine), Column::Int(theirs)) => mine.join(&theirs, cells),
            (Column::Unsigned(mine), Column::Unsigned(theirs)) => mine.join(&theirs, cells),
            (Column::Float(mine), Column::Float(theirs)) => mine.join(&theirs, cells),
            (Column::Ends(mine), Column::Ends(theirs)) => mine.join(&theirs, cells),
            (Column::Each(mine), Column::Each(theirs)) => {
                let mut asks = Asks::of(context);
                for (cell, theirs) in cells.iter().zip(theirs) {
                    asks.rows(1)?;
                    if let Some(mine) = mine.get_mut(*cell as usize) {
                        mine.join(theirs, (&self.aggregate, self.rules), context)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether what is stored of rows says what an aggregate of them is, and whether it has to know first and last values.
pub(super) fn is_stored(aggregate: &Aggregate) -> Option<bool> {
    match aggregate {
        Aggregate::Rows
        | Aggregate::Count(_)
        | Aggregate::Sum(_)
        | Aggregate::Mean(_)
        | Aggregate::NumericSum(_)
        | Aggregate::NumericMean(_)
        | Aggregate::Min(_)
        | Aggregate::Max(_)
        | Aggregate::Spread(_) => Some(false),
        Aggregate::First(_) | Aggregate::Last(_) => Some(true),
        Aggregate::Select {
            selector: Selector::First | Selector::Last,
            by,
            value,
        } if by == value || *value == Expr::Time => Some(true),
        _ => None,
    }
}

/// Whether the rules choose the greatest of several values of one series and time, which is not stored.
pub(super) fn picks_greatest(aggregate: &Aggregate, rules: Rules) -> bool {
    rules == Rules::Influx && selector(aggregate).is_some()
}
