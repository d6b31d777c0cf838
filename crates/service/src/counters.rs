//! Counters of what surfaces do, beside the figures of the store.
//!
//! Does: count writes and queries, whichever surface they come from. Does not: print; a surface has a format for that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds so many.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The sum since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many of something there are now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more, until what this returns is dropped.
    pub fn enter(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(&self.0)
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts as one until dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often each limit was reached, by its setting.
#[derive(Debug, Default)]
pub struct LimitsHit(Mutex<BTreeMap<&'static str, u64>>);

impl LimitsHit {
    /// Counts what a client is refused for, if it is a limit.
    pub fn note(&self, setting: Option<&'static str>) {
        if let Some(setting) = setting {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(setting).or_default() += 1;
        }
    }

    /// The sums since the start.
    pub fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What was written and asked, by all surfaces together.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes of bodies, or of parts of them, that were written.
    pub body_bytes: Counter,
    /// Lines refused in writes.
    pub lines_rejected: Counter,
    /// Datagrams of line protocol that came.
    pub datagrams: Counter,
    /// Lines of datagrams that were lost: no room in the queue, or the write failed.
    pub datagram_lines_lost: Counter,
    /// Records of TStorage's clients that were stored.
    pub records_written: Counter,
    /// Records of TStorage's clients that no request could reach, and that were therefore not stored.
    pub records_unreachable: Counter,
    /// Records answered to TStorage's clients.
    pub records_read: Counter,
    /// Pages of devices that were taken in.
    pub device_pages: Counter,
    /// Pages of devices that came again.
    pub device_pages_repeated: Counter,
    /// Requests of devices that were refused because of a page.
    pub device_pages_refused: Counter,
    /// Rows of the pages that were taken in.
    pub device_rows: Counter,
    /// Rows answered to queries.
    pub rows_answered: Counter,
    /// Queries whose client went before its answer was whole.
    pub queries_cancelled: Counter,
    /// Limits that clients have reached.
    pub limits_hit: LimitsHit,
    /// Queries that compute or wait for their client.
    pub queries_running: Gauge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_counts_until_it_is_left() {
        let gauge = Gauge::default();
        let first = gauge.enter();
        let second = gauge.enter();
        assert_eq!(gauge.get(), 2);
        drop(first);
        assert_eq!(gauge.get(), 1);
        drop(second);
        assert_eq!(gauge.get(), 0);
    }
}
