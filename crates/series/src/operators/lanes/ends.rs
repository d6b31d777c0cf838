//! First and last values.
//!
//! Does: keep the value, or the time, of the row that comes first or last. Does not: keep text; `accumulate` does.

use std::cmp::Ordering;

use nilometer_engine::{StoredField, Stretch, float_order};

use super::operand::Operand;
use super::run::{Run, When, resize};
use crate::query::{Aggregate, Expr, Selector};
use crate::value::{Rules, Type};

/// The row that was chosen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct End {
    time: i64,
    tie: u64,
    bits: u64,
}

/// First or last values by cell.
#[derive(Debug)]
pub(super) struct Ends {
    is_first: bool,
    rules: Rules,
    /// Of the values.
    kind: Type,
    /// The time of the row is wanted, and not its value.
    shows_time: bool,
    seen: Vec<bool>,
    all: Vec<End>,
}

impl Ends {
    pub(super) const BYTES_EACH: usize = size_of::<End>() + 1;

    /// `None` = the aggregate is no such value, or of a type that is kept another way.
    pub(super) fn of(aggregate: &Aggregate, kind: Type, rules: Rules) -> Option<Self> {
        let (is_first, shows_time) = match aggregate {
            Aggregate::First(_) => (true, false),
            Aggregate::Last(_) => (false, false),
            Aggregate::Select {
                selector: selector @ (Selector::First | Selector::Last),
                by,
                value,
            } if by == value || *value == Expr::Time => (*selector == Selector::First, by != value),
            _ => return None,
        };
        let is_fixed = !matches!(kind, Type::Text | Type::Bytes | Type::Counts);
        is_fixed.then_some(Self {
            is_first,
            rules,
            kind,
            shows_time,
            seen: Vec::new(),
            all: Vec::new(),
        })
    }

    pub(super) fn resize(&mut self, cells: usize) {
        resize(&mut self.seen, cells, false);
        resize(&mut self.all, cells, End::default());
    }

    fn order(&self, one: u64, other: u64) -> Ordering {
        match self.kind {
            Type::Float => float_order(f64::from_bits(one), f64::from_bits(other)),
            Type::Int | Type::Time => one.cast_signed().cmp(&other.cast_signed()),
            _ => one.cmp(&other),
        }
    }

    fn offer(&mut self, cell: u32, new: End) {
        let Some(&kept) = self.all.get(cell as usize) else {
            return;
        };
        let by_value = self.order(new.bits, kept.bits);
        let by_series = new.tie.cmp(&kept.tie);
        // Of one time.
        let among = match self.rules {
            Rules::Influx if by_value.is_ne() => by_value.is_gt(),
            _ if self.is_first => by_series.is_lt(),
            _ => by_series.is_ge(),
        };
        let is_better = match new.time.cmp(&kept.time) {
            Ordering::Equal => among,
            Ordering::Less => self.is_first,
            Ordering::Greater => !self.is_first,
        };
        let Some(seen) = self.seen.get_mut(cell as usize) else {
            return;
        };
        if (!*seen || is_better)
            && let Some(kept) = self.all.get_mut(cell as usize)
        {
            *seen = true;
            *kept = new;
        }
    }

    /// Adds rows: those of the first, or last, time that has a value. They are offered in their order, because of rows of one
    /// time and series the one that was written last is the last.
    pub(super) fn add(&mut self, run: Run, values: &Operand<'_>, when: &When<'_>) {
        let mut rows = run.rows();
        let has_value = |row: &usize| values.bits(*row).is_some();
        let edge = if self.is_first {
            rows.clone().find(has_value)
        } else {
            rows.clone().rev().find(has_value)
        };
        let Some(edge) = edge else { return };
        let time = when.at(edge).0;
        if self.is_first {
            rows.start = edge;
        } else {
            let before = (rows.start..edge).rev();
            let same = before.take_while(|row| when.at(*row).0 == time);
            rows = same.last().unwrap_or(edge)..edge + 1;
        }
        for row in rows {
            let (own, series) = when.at(row);
            if own != time {
                break;
            }
            if let Some(bits) = values.bits(row) {
                let end = End {
                    time,
                    tie: series,
                    bits,
                };
                self.offer(run.cell, end);
            }
        }
    }

    pub(super) fn add_stored(
        &mut self,
        cells: &[u32],
        stretches: &[Stretch],
        field: Option<StoredField<'_>>,
        tie: u64,
    ) {
        for (at, (cell, stretch)) in cells.iter().zip(stretches).enumerate() {
            let end = match field {
                None if self.is_first => (stretch.first_ns, stretch.first_ns.cast_unsigned()),
                None => (stretch.last_ns, stretch.last_ns.cast_unsigned()),
                Some(field) => {
                    let ends = if self.is_first {
                        field.first
                    } else {
                        field.last
                    };
                    let has_values = field.counts.get(at).is_some_and(|count| *count > 0);
                    match ends.get(at).filter(|_| has_values) {
                        Some(end) => *end,
                        None => continue,
                    }
                }
            };
            let end = End {
                time: end.0,
                tie,
                bits: end.1,
            };
            self.offer(*cell, end);
        }
    }

    pub(super) fn join(&mut self, other: &Self, cells: &[u32]) {
        for ((cell, seen), end) in cells.iter().zip(&other.seen).zip(&other.all) {
            if *seen {
                self.offer(*cell, *end);
            }
        }
    }

    /// What is wanted of a cell, as bits.
    pub(super) fn bits(&self, cell: u32) -> Option<u64> {
        let is_seen = self.seen.get(cell as usize).copied().unwrap_or(false);
        let end = self.all.get(cell as usize).filter(|_| is_seen)?;
        Some(if self.shows_time {
            end.time.cast_unsigned()
        } else {
            end.bits
        })
    }
}
