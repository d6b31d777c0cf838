//! Points of a call: by group, in the order of the answer.

use crate::select::values::rows::{Rows, Sets};
use crate::select::values::value::Value;

/// A value at a time, and what else the row has that it was chosen from.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) time: i64,
    pub(crate) value: Value,
    pub(crate) aux: Vec<Value>,
}

impl Point {
    pub(crate) fn new(time: i64, value: Value) -> Self {
        Self {
            time,
            value,
            aux: Vec::new(),
        }
    }
}

/// Points by group; the groups are numbered by the statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Points {
    pub(crate) groups: Vec<(u32, Vec<Point>)>,
}

impl Points {
    /// The rows that have a value in a column, with the values of others.
    pub(crate) fn of_column(
        rows: &Rows,
        column: usize,
        aux: &[usize],
        sets: &mut Sets,
        keys: &[String],
    ) -> Self {
        let numbers: Vec<u32> = rows
            .sets
            .keys
            .iter()
            .map(|key| sets.number(key.subset(keys)))
            .collect();
        let mut groups: Vec<(u32, Vec<Point>)> = Vec::new();
        let mut places: rustc_hash::FxHashMap<u32, usize> = rustc_hash::FxHashMap::default();
        for row in 0..rows.len() {
            let value = rows.value(column, row);
            if value.is_null() {
                continue;
            }
            let number = numbers
                .get(rows.set_of(row) as usize)
                .copied()
                .unwrap_or_default();
            let place = *places.entry(number).or_insert_with(|| {
                groups.push((number, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, points)) = groups.get_mut(place) {
                points.push(Point {
                    time: rows.time_of(row),
                    value: value.clone(),
                    aux: aux.iter().map(|at| rows.value(*at, row).clone()).collect(),
                });
            }
        }
        Self { groups }
    }

    /// The points of each group after a step.
    pub(crate) fn map(self, mut step: impl FnMut(Vec<Point>) -> Vec<Point>) -> Self {
        let groups = self
            .groups
            .into_iter()
            .map(|(set, points)| (set, step(points)));
        Self {
            groups: groups.filter(|(_, points)| !points.is_empty()).collect(),
        }
    }
}
