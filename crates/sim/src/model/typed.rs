//! Model of typed rows and of rows that are changed by their keys.

use std::collections::BTreeSet;

use nilometer_engine::Duplicates;
use nilometer_engine::ingest::OnConflict;

use super::names::Name;
use super::predict::{Batch, Point};
use super::state::{Hidden, Schema, State};
use crate::plan::Tags;

/// A row by what a reader sees of its series, its time and its place among the rows of both.
pub type Place = (Tags, i64, usize);

/// What is expected of a typed write or an update.
#[derive(Debug, Clone)]
pub enum Decided {
    /// The table has no conflicts that could be refused or skipped.
    NoConflicts,
    /// This row, counted from 1, is in the way of another.
    Refused(usize),
    /// These rows come.
    Taken {
        /// The rows.
        batch: Batch,
        /// Rows of the call that are there then.
        written: u64,
        /// Rows that are left out.
        skipped: u64,
        /// Rows that go for others.
        replaced: u64,
    },
}

impl State {
    /// What becomes of a typed write into a table, which is like this now. Rows at `gone` do not count.
    pub fn decide(
        &self,
        name: &Name,
        schema: &Schema,
        points: Vec<Point>,
        on_conflict: OnConflict,
        gone: &[Place],
    ) -> Decided {
        let mut batch = Batch::new(&name.0);
        let rows = points.len() as u64;
        if schema.duplicates != Duplicates::Unique {
            if on_conflict != OnConflict::Replace {
                return Decided::NoConflicts;
            }
            batch.points = points;
            return Decided::Taken {
                batch,
                written: rows,
                skipped: 0,
                replaced: 0,
            };
        }
        let mut seen: BTreeSet<(Tags, i64)> = BTreeSet::new();
        let mut replaced = 0;
        for (at, point) in points.into_iter().enumerate() {
            let key = (point.tags.clone(), point.time);
            let is_gone = gone
                .iter()
                .any(|(tags, time, _)| (tags, *time) == (&key.0, key.1));
            let is_there = seen.contains(&key) || (!is_gone && self.has(name, &key.0, key.1));
            match on_conflict {
                OnConflict::Error if is_there => return Decided::Refused(at + 1),
                OnConflict::Skip if is_there => continue,
                _ => replaced += u64::from(is_there),
            }
            if !seen.insert(key) {
                // Of several rows of one key only the last is ever written.
                let is_it = |other: &Point| (&other.tags, other.time) == (&point.tags, point.time);
                batch.points.retain(|other| !is_it(other));
            }
            batch.points.push(point);
        }
        let written = seen.len() as u64;
        let skipped = match on_conflict {
            OnConflict::Skip => rows - written,
            OnConflict::Error | OnConflict::Replace => 0,
        };
        Decided::Taken {
            batch,
            written,
            skipped,
            replaced,
        }
    }

    fn has(&self, name: &Name, tags: &Tags, time: i64) -> bool {
        let key = (tags.clone(), time, Hidden::new());
        self.kept(name)
            .is_some_and(|kept| kept.rows.contains_key(&key))
    }

    /// Rows that have the key of one that goes, and stay.
    pub fn survivors(&self, name: &Name, gone: &[Place]) -> u64 {
        let keys: BTreeSet<(&Tags, i64)> =
            gone.iter().map(|(tags, time, _)| (tags, *time)).collect();
        let rows = |(tags, time): &(&Tags, i64)| {
            let key = ((*tags).clone(), *time, Hidden::new());
            let rows = self.kept(name).and_then(|kept| kept.rows.get(&key));
            rows.map_or(0, |rows| rows.len() as u64)
        };
        keys.iter()
            .map(rows)
            .sum::<u64>()
            .saturating_sub(gone.len() as u64)
    }

    /// Takes rows away. They stand in the order of their places.
    pub(super) fn remove(&mut self, name: &Name, gone: &[Place]) {
        let Some(kept) = self.kept_mut(name) else {
            return;
        };
        for (tags, time, nth) in gone.iter().rev() {
            let key = (tags.clone(), *time, Hidden::new());
            if let Some(rows) = kept.rows.get_mut(&key) {
                if *nth < rows.len() {
                    rows.remove(*nth);
                }
                if rows.is_empty() {
                    kept.rows.remove(&key);
                }
            }
        }
    }
}
