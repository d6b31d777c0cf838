//! Typed writes, updates and deletes of rows.

use nilometer_engine::Duplicates;
use nilometer_engine::ingest::OnConflict;
use rand::RngExt;

use super::{Draw, TABLES, pick};
use crate::plan::{Act, Line};

impl Draw {
    pub(super) fn write_typed(&mut self) -> Act {
        if !self.sent.is_empty() && self.random.random_bool(0.1) {
            return pick(&mut self.random, &self.sent).clone();
        }
        let on_conflict = self.on_conflict();
        let rows = match on_conflict {
            // One row in the way is enough to refuse them all.
            OnConflict::Error if self.random.random_bool(0.7) => self.random.random_range(1..=3),
            _ => self.random.random_range(1..=self.rows_typical),
        };
        let table = self.table();
        let key = self.random.random_bool(0.15).then_some(self.next_key);
        self.next_key = self.next_key.wrapping_add(u8::from(key.is_some()));
        Act::WriteTyped {
            database: self.database(),
            lines: self.points(&table, rows),
            table,
            on_conflict,
            key,
        }
    }

    pub(super) fn on_conflict(&mut self) -> OnConflict {
        let choices = [OnConflict::Error, OnConflict::Skip, OnConflict::Replace];
        // Tables that merge or keep take nothing else.
        let plain = if self.is_unique() { 0.1 } else { 0.5 };
        if self.random.random_bool(plain) {
            OnConflict::Replace
        } else {
            *pick(&mut self.random, &choices)
        }
    }

    pub(super) fn update(&mut self) -> Act {
        // A few rows, about half of them, or all.
        let which = match self.random.random_range(0..10) {
            0..6 => 1 << self.random.random_range(0..64),
            6..9 => self.random.random(),
            _ => u64::MAX,
        };
        let rows = *pick(&mut self.random, &[0, 0, 1, 2, 10]);
        let table = self.table();
        Act::Update {
            database: self.database(),
            which,
            lines: self.points(&table, rows),
            table,
        }
    }

    /// Whether every table that is made is unique.
    pub(super) fn is_unique(&self) -> bool {
        self.kinds == [Duplicates::Unique]
    }

    fn table(&mut self) -> String {
        (*pick(&mut self.random, &TABLES)).to_owned()
    }

    fn points(&mut self, table: &str, rows: usize) -> Vec<Line> {
        self.day = self.random.random_range(0..self.days);
        (0..rows).map(|_| self.line(table)).collect()
    }
}
