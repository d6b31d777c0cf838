//! Disorder of the entries on their way: missing, late, or with a value absent, as often as in the suite.
//!
//! Does: draw the fate of a batch of ten entries and of each of its places. Does not: hold entries.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::trucks::{FIELDS_MAX, TAGS_AND_PROPERTIES};

/// Entries of a batch.
pub(super) const BATCH: usize = 10;

// The chances, all the suite's own. Of a batch:
const BATCH_IS_MISSING: f64 = 0.01;
const BATCH_IS_LATE: f64 = 0.05;
const LATE_BATCH_COMES_NOW: f64 = 0.5;
// Of an entry:
const ENTRY_IS_MISSING: f64 = 0.1;
const ENTRY_IS_LATE: f64 = 0.3;
const LATE_ENTRY_COMES_NOW: f64 = 0.5;
const TAG_IS_ABSENT: f64 = 0.01;
const FIELD_IS_ABSENT: f64 = 0.1;

/// What the next batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ten new entries that never arrive.
    Missing,
    /// A batch that was late.
    Earlier,
    /// A new batch that will be late.
    Late,
    /// A new batch.
    Now,
}

/// One place of a new batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The entry is one that was late, not a new one.
    pub(super) is_from_late: bool,
    /// The entry never arrives.
    pub(super) is_missing: bool,
    /// The entry arrives later.
    pub(super) is_late: bool,
    pub(super) without_field: Option<usize>,
    pub(super) without_tag: Option<usize>,
}

impl Place {
    /// A new entry that arrives as it is.
    pub(super) const ORDINARY: Self = Self {
        is_from_late: false,
        is_missing: false,
        is_late: false,
        without_field: None,
        without_tag: None,
    };
}

/// The stream of random numbers that all of this comes from.
#[derive(Debug)]
pub(super) struct Disorder(Xoshiro256PlusPlus);

impl Disorder {
    pub(super) fn new(random: Xoshiro256PlusPlus) -> Self {
        Self(random)
    }

    /// What comes next, when batches that were late wait or not.
    pub(super) fn order(&mut self, is_batch_waiting: bool) -> Order {
        if self.chance(BATCH_IS_MISSING) {
            return Order::Missing;
        }
        let is_late = self.chance(BATCH_IS_LATE);
        if is_batch_waiting && self.chance(LATE_BATCH_COMES_NOW) {
            Order::Earlier
        } else if is_late {
            Order::Late
        } else {
            Order::Now
        }
    }

    /// The places of a new batch, when so many entries wait that were late.
    pub(super) fn places(&mut self, mut entries_waiting: usize) -> [Place; BATCH] {
        std::array::from_fn(|_| {
            let mut place = Place::ORDINARY;
            if entries_waiting > 0 && self.chance(LATE_ENTRY_COMES_NOW) {
                place.is_from_late = true;
                entries_waiting -= 1;
            }
            if self.chance(ENTRY_IS_MISSING) {
                place.is_missing = true;
                return place;
            }
            if self.chance(FIELD_IS_ABSENT) {
                place.without_field = Some(self.0.random_range(0..FIELDS_MAX));
            }
            if self.chance(TAG_IS_ABSENT) {
                place.without_tag = Some(self.0.random_range(0..TAGS_AND_PROPERTIES));
            }
            place.is_late = self.chance(ENTRY_IS_LATE);
            place
        })
    }

    fn chance(&mut self, of_one: f64) -> bool {
        self.0.random::<f64>() < of_one
    }
}
