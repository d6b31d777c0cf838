//! Functions of a field, over all points of a group or those of each bucket.

use std::cmp::Ordering;

use super::super::answer::Cell;
use super::super::names::quarters;
use super::super::store::Fields;
use super::{Read, Select};

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// An integer.
    I,
    /// A float.
    F,
    /// A text.
    S,
    /// A truth.
    B,
}

/// A function of one number field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// How many.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest less the least.
    Spread,
    /// The least, of several the first.
    Min,
    /// The greatest, of several the first.
    Max,
    /// The first, of several the greatest.
    First,
    /// The last, of several the greatest.
    Last,
}

/// What a bucket without points shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// It is not there.
    None,
    /// Nothing; a count of 0.
    Null,
    /// This number.
    Number(u32),
    /// What the bucket before it shows.
    Previous,
}

impl Field {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::I, Self::F, Self::S, Self::B];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::I => "i",
            Self::F => "f",
            Self::S => "s",
            Self::B => "b",
        }
    }

    fn number(self, fields: &Fields) -> Option<i64> {
        match self {
            Self::I => fields.i,
            Self::F => fields.f,
            Self::S | Self::B => None,
        }
    }

    fn of_number(self, number: i64) -> Cell {
        match self {
            Self::I => Cell::Int(number),
            _ => Cell::Float(quarters(number)),
        }
    }

    /// What `INTO` makes of a row with one value of this field.
    pub(super) fn point_of(self, row: &[Cell]) -> Option<(i64, Fields)> {
        let [Cell::Int(time), value] = row else {
            return None;
        };
        let mut fields = Fields::default();
        match (self, value) {
            (Self::I, Cell::Int(i)) => fields.i = Some(*i),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a whole number of quarters"
            )]
            (Self::F, Cell::Float(f)) => fields.f = Some((f * 4.0) as i64),
            _ => return None,
        }
        Some((*time, fields))
    }
}

impl Fill {
    /// Its argument.
    pub(super) fn text(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Previous => "previous".to_owned(),
        }
    }
}

impl Call {
    /// Its name, and that of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Spread => "spread",
            Self::Min => "min",
            Self::Max => "max",
            Self::First => "first",
            Self::Last => "last",
        }
    }

    /// As it is called.
    pub(super) fn text(self, field: Field) -> String {
        format!("{}({})", self.name(), field.name())
    }

    /// The value, and of a selector the time. There is a point.
    fn of(self, field: Field, points: &[(i64, i64)]) -> (Option<i64>, Cell) {
        let values = points.iter().map(|(_, value)| *value);
        let count = i64::try_from(points.len()).unwrap_or(i64::MAX);
        let sum: i64 = values.clone().sum();
        let (least, most) = (values.clone().min().unwrap_or(0), values.max().unwrap_or(0));
        let chosen = |order: fn(&(i64, i64), &(i64, i64)) -> Ordering| {
            let found = points
                .iter()
                .max_by(|a, b| order(a, b))
                .copied()
                .unwrap_or_default();
            (Some(found.0), field.of_number(found.1))
        };
        match self {
            Self::Count => (None, Cell::Int(count)),
            Self::Sum => (None, field.of_number(sum)),
            Self::Mean => (None, Cell::Float(mean(field, sum, count))),
            Self::Spread => (None, field.of_number(most - least)),
            Self::Min => chosen(|a, b| b.1.cmp(&a.1).then(b.0.cmp(&a.0))),
            Self::Max => chosen(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0))),
            Self::First => chosen(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1))),
            Self::Last => chosen(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1))),
        }
    }
}

fn mean(field: Field, sum: i64, count: i64) -> f64 {
    let sum = match field {
        Field::I => sum as f64,
        _ => quarters(sum),
    };
    sum / count as f64
}

impl Select {
    /// Rows of functions.
    pub(super) fn calculated(
        &self,
        calls: &[Call],
        field: Field,
        points: &[Read],
    ) -> Vec<Vec<Cell>> {
        let of = |read: &Read| Some((read.time, field.number(&read.fields)?));
        let points: Vec<(i64, i64)> = points.iter().filter_map(of).collect();
        if points.is_empty() {
            return Vec::new();
        }
        let Some((seconds, fill)) = self.every else {
            let mut shown = self.time.map_or(0, |(from, _)| from);
            let mut row = vec![Cell::Null];
            for call in calls {
                let (time, value) = call.of(field, &points);
                // A lone selector shows when.
                shown = time.filter(|_| calls.len() == 1).unwrap_or(shown);
                row.push(value);
            }
            row[0] = Cell::Int(shown);
            return vec![row];
        };
        let (from, until) = self.time.unwrap_or_default();
        let first = from.div_euclid(seconds) * seconds;
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        let mut at = first;
        while at < until {
            let bucket = at..at + seconds;
            let within = points.iter().filter(|(time, _)| bucket.contains(time));
            let within: Vec<_> = within.copied().collect();
            let before = rows.last().cloned();
            let mut row = vec![Cell::Int(at)];
            for (call, nth) in calls.iter().zip(1..) {
                row.push(match (within.is_empty(), fill) {
                    (false, _) => call.of(field, &within).1,
                    (true, Fill::Null) if *call == Call::Count => Cell::Int(0),
                    (true, Fill::None | Fill::Null) => Cell::Null,
                    (true, Fill::Number(number)) => match (call, field) {
                        (Call::Mean, _) | (_, Field::F) if *call != Call::Count => {
                            Cell::Float(f64::from(number))
                        }
                        _ => Cell::Int(i64::from(number)),
                    },
                    (true, Fill::Previous) => {
                        let before = before.as_ref().and_then(|row| row.get(nth));
                        before.cloned().unwrap_or(Cell::Null)
                    }
                });
            }
            if !(within.is_empty() && fill == Fill::None) {
                rows.push(row);
            }
            at += seconds;
        }
        if self.descends {
            rows.reverse();
        }
        rows
    }
}
