//! Rows of a query in a query, or of an answer: each of a series, at a time, with values.

use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::select::values::value::Value;

/// A measurement and the tags of a group, sorted by their keys. An absent tag is empty.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SetKey {
    pub(crate) name: Arc<str>,
    pub(crate) tags: Vec<(Arc<str>, Arc<str>)>,
}

impl SetKey {
    pub(crate) fn tag(&self, name: &str) -> Option<&Arc<str>> {
        self.tags
            .iter()
            .find(|(key, _)| **key == *name)
            .map(|(_, value)| value)
    }

    /// Another one like it.
    pub(crate) fn copy(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            tags: self.tags.clone(),
        }
    }

    /// The tags of these keys.
    pub(crate) fn subset(&self, keys: &[String]) -> Self {
        let tags = self
            .tags
            .iter()
            .filter(|(key, _)| keys.iter().any(|wanted| **wanted == **key));
        Self {
            name: Arc::clone(&self.name),
            tags: tags.cloned().collect(),
        }
    }
}

/// Groups by number.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) keys: Vec<Arc<SetKey>>,
    numbers: FxHashMap<Arc<SetKey>, u32>,
}

impl Sets {
    pub(crate) fn number(&mut self, key: SetKey) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let key = Arc::new(key);
        self.keys.push(Arc::clone(&key));
        self.numbers.insert(key, number);
        number
    }

    pub(crate) fn key(&self, number: u32) -> &Arc<SetKey> {
        self.keys
            .get(number as usize)
            .expect("numbers are given by this list")
    }

    /// The place of every group in the order of their names and these tags, then in that of all tags.
    pub(crate) fn places(&self, keys: &[String]) -> Vec<(usize, usize)> {
        let subsets: Vec<SetKey> = self.keys.iter().map(|key| key.subset(keys)).collect();
        let place = |sorted: &mut Vec<usize>, same: &dyn Fn(usize, usize) -> Ordering| {
            sorted.sort_by(|one, two| same(*one, *two));
            let mut places = vec![0; sorted.len()];
            let mut place = 0;
            for pair in 0..sorted.len() {
                let (Some(&own), before) = (sorted.get(pair), pair.checked_sub(1)) else {
                    continue;
                };
                if let Some(&before) = before.and_then(|before| sorted.get(before))
                    && same(before, own).is_ne()
                {
                    place += 1;
                }
                if let Some(slot) = places.get_mut(own) {
                    *slot = place;
                }
            }
            places
        };
        let mut all: Vec<usize> = (0..self.keys.len()).collect();
        let by_subset = place(&mut all, &|one, two| {
            subsets.get(one).cmp(&subsets.get(two))
        });
        let by_all = place(&mut all, &|one, two| {
            self.keys.get(one).cmp(&self.keys.get(two))
        });
        by_subset.into_iter().zip(by_all).collect()
    }
}

/// Rows, by columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) sets: Sets,
    /// The group of each row.
    pub(crate) set: Vec<u32>,
    pub(crate) times: Vec<i64>,
    pub(crate) columns: Vec<Vec<Value>>,
}

impl Rows {
    pub(crate) fn of(columns: usize) -> Self {
        Self {
            columns: vec![Vec::new(); columns],
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn value(&self, column: usize, row: usize) -> &Value {
        self.columns
            .get(column)
            .and_then(|column| column.get(row))
            .unwrap_or(&Value::Null)
    }

    pub(crate) fn set_of(&self, row: usize) -> u32 {
        self.set.get(row).copied().unwrap_or_default()
    }

    pub(crate) fn time_of(&self, row: usize) -> i64 {
        self.times.get(row).copied().unwrap_or_default()
    }

    /// Gives the rows to the groups of fewer tags.
    pub(crate) fn regroup(&mut self, keys: &[String]) {
        let mut sets = Sets::default();
        let numbers = self
            .sets
            .keys
            .iter()
            .map(|key| sets.number(key.subset(keys)));
        let numbers: Vec<u32> = numbers.collect();
        for set in &mut self.set {
            *set = numbers.get(*set as usize).copied().unwrap_or_default();
        }
        self.sets = sets;
    }

    /// Keeps the rows of these places, in this order.
    pub(crate) fn keep(&mut self, places: &[usize]) {
        self.set = places.iter().map(|row| self.set_of(*row)).collect();
        self.times = places.iter().map(|row| self.time_of(*row)).collect();
        for column in &mut self.columns {
            let mut old: Vec<Value> = std::mem::take(column);
            let taken = |row: &usize| {
                old.get_mut(*row)
                    .map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
            };
            *column = places.iter().map(taken).collect();
        }
    }

    /// Sorts by name and some tags, then by time.
    pub(crate) fn sort(&mut self, dimensions: &[String], ascending: bool) {
        let places = self.sets.places(dimensions);
        let place = |row: usize| places.get(self.set_of(row) as usize).map(|place| place.0);
        let compare = |one: &usize, two: &usize| {
            let by_time = self.time_of(*one).cmp(&self.time_of(*two));
            let order = place(*one).cmp(&place(*two)).then(by_time);
            if ascending { order } else { order.reverse() }
        };
        let mut rows: Vec<usize> = (0..self.len()).collect();
        if rows.is_sorted_by(|one, two| compare(one, two).is_le()) {
            return;
        }
        rows.sort_by(compare);
        self.keep(&rows);
    }

    /// Keeps some of the rows of each run of one group, as InfluxDB counts them: where the tags change, it starts anew.
    pub(crate) fn limit(&mut self, limit: u64, offset: u64) {
        if limit == 0 && offset == 0 {
            return;
        }
        let mut kept = Vec::new();
        let (mut last, mut seen) = (None, 0);
        for row in 0..self.len() {
            let set = self.set_of(row);
            if last != Some(set) {
                (last, seen) = (Some(set), 0);
            }
            seen += 1;
            if seen > offset && (limit == 0 || seen - offset <= limit) {
                kept.push(row);
            }
        }
        self.keep(&kept);
    }

    /// Bytes that the rows take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * (12 + self.columns.len() * size_of::<Value>())
    }
}
