//! Heap trimming: free memory goes back to the system where the allocator keeps it.
//!
//! The C library's allocator has an arena for each of many threads and keeps what was freed in each of them: after a hundred
//! requests that each took what they may, a process that uses 60 MB was seen to hold 300. In a control group of 512 MiB the next
//! request, which may have its share too, is then the one that the system kills the server for.
//!
//! Does: look, with each turn of a thread of maintenance, at how much is resident, and have the allocator give back what it can
//! when that is near the budget. Does not: decide who may have how much; that is the budget's.

use std::time::{Duration, Instant};

use crate::heap;

/// Of the budget: below this share what is kept does no harm.
const SHARE: (u64, u64) = (3, 4);

/// Shortest and longest pause between two attempts; an attempt that brings little doubles it.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// When to give back.
#[derive(Debug)]
pub(crate) struct HeapTrim {
    floor_bytes: u64,
    pause: Duration,
    next: Option<Instant>,
}

impl HeapTrim {
    /// For a store that may have so many bytes.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            floor_bytes: budget_bytes / SHARE.1 * SHARE.0,
            pause: PAUSES[0],
            next: None,
        }
    }

    /// Gives back if it is time and there is reason.
    pub(crate) fn turn(&mut self, now: Instant) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        let Some(before) = heap::resident_bytes() else {
            return;
        };
        if before > self.floor_bytes {
            heap::give_back();
            let after = heap::resident_bytes().unwrap_or(before);
            self.tried(before, after);
        } else {
            self.pause = PAUSES[0];
        }
        self.next = Some(now + self.pause);
    }

    fn tried(&mut self, before: u64, after: u64) {
        let brought_little = before.saturating_sub(after) < before / 8;
        self.pause = if brought_little {
            (self.pause * 2).min(PAUSES[1])
        } else {
            PAUSES[0]
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_where_memory_is_near_the_budget_and_less_often_where_that_brings_little() {
        let start = Instant::now();
        // All that is resident is above a budget of nothing.
        let mut always = HeapTrim::new(0);
        always.turn(start);
        let first = always.next.expect("it was tried");
        assert!(first > start);
        always.turn(start);
        assert_eq!(always.next, Some(first), "not before its time");
        let mut never = HeapTrim::new(u64::MAX);
        never.turn(start);
        assert_eq!(never.pause, PAUSES[0]);

        let mut paused = HeapTrim::new(0);
        for _ in 0..20 {
            paused.tried(1000, 990);
        }
        assert_eq!(paused.pause, PAUSES[1]);
        paused.tried(1000, 500);
        assert_eq!(paused.pause, PAUSES[0]);
    }
}
