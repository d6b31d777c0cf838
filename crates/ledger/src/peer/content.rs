//! Rows that every peer promises to keep as they are: one table, two tags, a float and an integer, times in milliseconds.
//!
//! Does: make the rows of a batch from a seed, its writer and its number; tell from a row that came back which it is.
//! Does not: send what one of them does not promise: floats of any bits, nanoseconds, text, odd characters in tags.
//! `batch.rs` does that to our own server.

use std::fmt::Write as _;

use crate::journal::Name;
use crate::random::Random;

/// From one batch of a writer to the next.
const BATCH_MS: i64 = 1000;
/// Rows of a batch, a millisecond apart.
const ROWS_MAX: u64 = 20;
/// One batch in so many is a week late. The half second keeps it apart from every other batch.
const LATE_ONE_IN: u64 = 9;
const LATE_MS: i64 = 604_800_000 + BATCH_MS / 2;
const HOSTS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One row. Writer and time are its identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Milliseconds since 1970.
    pub time: i64,
    /// Who wrote it.
    pub writer: usize,
    /// A tag that follows from the row.
    pub host: &'static str,
    /// A decimal number of at most 14 digits, because one peer keeps no more for certain.
    pub value: f64,
    /// A whole number.
    pub number: i64,
}

/// What a life writes.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Of the life.
    pub seed: u64,
    /// The time of the first batch. It has to be a recent one, because one peer drops what is older than a month.
    pub first_ms: i64,
}

impl Content {
    /// How many rows a batch has.
    pub fn rows(self, (writer, batch): Name) -> u64 {
        1 + Random::of(&[self.seed, writer as u64, batch]).below(ROWS_MAX)
    }

    /// A row of a batch; `None` above its last.
    pub fn row(self, name: Name, slot: u64) -> Option<Row> {
        if slot >= self.rows(name) {
            return None;
        }
        let (writer, batch) = name;
        let begin = self
            .first_ms
            .checked_add_unsigned(batch.checked_mul(BATCH_MS as u64)?)?;
        let late = if self.is_late(batch) { LATE_MS } else { 0 };
        let mut random = Random::of(&[self.seed, writer as u64, batch, slot]);
        let host = *random.pick(&HOSTS);
        let value = match random.below(3) {
            0 => random.below(1000) as f64 / 10.0,
            1 => random.below(1 << 40) as f64,
            _ => -(random.below(1_000_000) as f64) / 10.0 - 1.0,
        };
        Some(Row {
            time: begin.checked_add_unsigned(slot)?.checked_sub(late)?,
            writer,
            host,
            value,
            number: i64::try_from(batch.checked_mul(BATCH_MS as u64)? + slot).ok()?,
        })
    }

    /// All rows of a batch.
    pub fn batch(self, name: Name) -> Vec<Row> {
        (0..self.rows(name))
            .filter_map(|slot| self.row(name, slot))
            .collect()
    }

    /// Which row of which batch has that time, if one has.
    pub fn place(self, writer: usize, time: i64) -> Option<(Name, u64)> {
        let mut since = time.checked_sub(self.first_ms)?;
        let is_late = since.rem_euclid(BATCH_MS) >= BATCH_MS / 2;
        if is_late {
            since = since.checked_add(LATE_MS)?;
        }
        let batch = u64::try_from(since.div_euclid(BATCH_MS)).ok()?;
        let slot = u64::try_from(since.rem_euclid(BATCH_MS)).ok()?;
        let is_there = is_late == self.is_late(batch) && slot < self.rows((writer, batch));
        is_there.then_some(((writer, batch), slot))
    }

    fn is_late(self, batch: u64) -> bool {
        Random::of(&[self.seed, batch]).one_in(LATE_ONE_IN)
    }
}

impl Row {
    /// The row in line protocol.
    pub fn line(&self, table: &str) -> String {
        let mut line = String::new();
        let Self {
            time,
            writer,
            host,
            value,
            number,
        } = self;
        writeln!(
            line,
            "{table},writer=w{writer},host={host} value={value},number={number}i {time}"
        )
        .expect("a string takes all");
        line
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const CONTENT: Content = Content {
        seed: 3,
        first_ms: 1_700_000_000_123,
    };

    #[test]
    fn every_row_is_found_by_its_time_and_no_two_share_one() {
        let mut seen = BTreeSet::new();
        for batch in 0..1500 {
            for slot in 0..CONTENT.rows((1, batch)) {
                let row = CONTENT.row((1, batch), slot).unwrap();
                assert_eq!(CONTENT.place(1, row.time), Some(((1, batch), slot)));
                assert!(seen.insert(row.time));
            }
        }
    }

    #[test]
    fn no_row_is_a_week_late_by_more_than_the_oldest_batch() {
        let oldest = (0..1500)
            .flat_map(|batch| CONTENT.batch((0, batch)))
            .map(|row| row.time)
            .min();
        assert!(oldest.unwrap() >= CONTENT.first_ms - LATE_MS);
        assert!(oldest.unwrap() < CONTENT.first_ms, "no batch was late");
    }

    #[test]
    fn a_line_has_the_row_as_line_protocol_writes_it() {
        let row = Row {
            time: 1_700_000_000_123,
            writer: 2,
            host: "c",
            value: 41.5,
            number: 17_003,
        };
        assert_eq!(
            row.line("points"),
            "points,writer=w2,host=c value=41.5,number=17003i 1700000000123\n"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_time_makes_the_search_for_its_row_panic(time: i64, writer: usize) {
            if let Some((name, slot)) = CONTENT.place(writer, time) {
                proptest::prop_assert_eq!(CONTENT.row(name, slot).map(|row| row.time), Some(time));
            }
        }
    }
}
