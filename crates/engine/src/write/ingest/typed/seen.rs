//! Keys of rows that came before, to count those that come again.
//!
//! Does: say of a row whether one of its series and time was there, in memory that is bounded. Does not: look at tables;
//! what it has not been shown it does not know.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};
use twox_hash::XxHash3_64;

/// What is known of a row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No row had it.
    New,
    /// A row had it.
    Again,
    /// A row may have had it; there were more keys than are remembered.
    Unknown,
}

/// Series and times that were seen.
///
/// Of each series it remembers the first and the last time, so that rows which come in the order of time, upwards or
/// downwards, need nothing else. For the others it remembers so many keys, as 64 bits of a hash: two of ten million
/// different ones are taken for the same with a probability of 3 in a million.
#[derive(Debug)]
pub struct SeenKeys {
    ranges: FxHashMap<u64, (i64, i64)>,
    keys: FxHashSet<u64>,
    max: usize,
    is_complete: bool,
}

impl SeenKeys {
    /// Remembers up to `max` keys, at up to 20 bytes each, and the times of up to `max` series, at up to 60 bytes each.
    pub fn new(max: usize) -> Self {
        Self {
            ranges: FxHashMap::default(),
            keys: FxHashSet::default(),
            max,
            is_complete: true,
        }
    }

    /// Adds a row.
    pub fn add(&mut self, series: u64, time: i64) -> Seen {
        let has_room = self.ranges.len() < self.max;
        let is_outside = match self.ranges.entry(series) {
            Entry::Occupied(mut known) => {
                let (first, last) = known.get_mut();
                let is_outside = time < *first || *last < time;
                (*first, *last) = ((*first).min(time), (*last).max(time));
                is_outside
            }
            Entry::Vacant(new) if has_room => {
                new.insert((time, time));
                true
            }
            Entry::Vacant(_) => false,
        };
        let is_new = if self.keys.len() < self.max {
            self.keys.insert(hash(series, time))
        } else {
            let is_new = !self.keys.contains(&hash(series, time));
            self.is_complete &= !is_new;
            is_new
        };
        match (is_outside, is_new) {
            (true, _) => Seen::New,
            (false, false) => Seen::Again,
            (false, true) if self.is_complete => Seen::New,
            (false, true) => Seen::Unknown,
        }
    }

    /// Adds rows; says how many of them were certainly there.
    pub(super) fn add_all(&mut self, series: &[u32], times: &[i64]) -> u64 {
        let rows = series.iter().zip(times);
        let again = rows.filter(|(series, time)| {
            let seen = self.add(u64::from(**series), **time);
            seen == Seen::Again
        });
        again.count() as u64
    }
}

fn hash(series: u64, time: i64) -> u64 {
    let key = (u128::from(series) << 64) | u128::from(time.cast_unsigned());
    XxHash3_64::oneshot(&key.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A file of trades, many of them at one time, was imported as a fraction of its rows, and nobody was told.
    #[test]
    fn rows_that_come_again_are_counted_whatever_their_order() {
        let mut seen = SeenKeys::new(1000);
        let mut known = HashSet::new();
        let mut state = 7_u64;
        for _ in 0..900 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (series, time) = ((state >> 40) % 5, (state >> 50).cast_signed() % 100 - 50);
            let want = if known.insert((series, time)) {
                Seen::New
            } else {
                Seen::Again
            };
            assert_eq!(seen.add(series, time), want, "{series} {time}");
        }
    }

    #[test]
    fn beyond_its_room_it_says_new_only_where_that_is_certain() {
        let mut seen = SeenKeys::new(10);
        for time in 0..100 {
            assert_eq!(seen.add(1, time * 2), Seen::New);
        }
        assert_eq!(seen.add(1, 4), Seen::Again);
        assert_eq!(seen.add(1, 5), Seen::Unknown);
        assert_eq!(seen.add(1, 150), Seen::Unknown);
        assert_eq!(seen.add(1, 200), Seen::New);
        assert_eq!(seen.add(1, -1), Seen::New);
    }
}
