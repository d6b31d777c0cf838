//! Counters of requests, connections and bytes sent.
//!
//! Does not: print; the surface with `/metrics` does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nilometer_service::{Counter, Gauge};

/// Upper ends of the latency buckets in microseconds.
pub const BUCKETS_US: [u64; 12] = [
    500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of the listener.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests that have no answer yet.
    pub running: Gauge,
    /// Bytes of answers taken by clients, without heads.
    pub bytes_sent: Counter,
    /// Connections that are open.
    pub connections: Gauge,
    by_request: Mutex<ByRequest>,
}

/// What is counted by label. The labels are routes, statuses and settings: few, whatever clients send.
#[derive(Debug, Default)]
pub struct ByRequest {
    /// Requests by route and status.
    pub requests: BTreeMap<(String, u16), u64>,
    /// Times until the head of the answer, by route.
    pub latencies: BTreeMap<String, Latency>,
}

/// How long requests took.
#[derive(Debug, Default)]
pub struct Latency {
    /// How many ended in each bucket, and in none before.
    pub buckets: [u64; BUCKETS_US.len()],
    /// How many there were.
    pub count: u64,
    /// All their microseconds.
    pub sum_us: u64,
}

impl Metrics {
    /// What is counted by label, for as long as the guard is kept.
    pub fn by_request(&self) -> MutexGuard<'_, ByRequest> {
        self.by_request
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end_request(&self, route: &str, status: u16, elapsed: Duration) {
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let mut by = self.by_request();
        *by.requests.entry((route.to_owned(), status)).or_default() += 1;
        let latency = by.latencies.entry(route.to_owned()).or_default();
        latency.count += 1;
        latency.sum_us = latency.sum_us.saturating_add(us);
        let bucket = BUCKETS_US.partition_point(|&end| end < us);
        if let Some(count) = latency.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}
