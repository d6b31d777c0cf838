//! Counters of surfaces, beside the figures of the store.
//!
//! Does: count writes and queries, whichever surface they come from, and keep what a surface counts of its own ([`Metric`]), so that
//! whoever prints metrics knows no surface. Does not: print.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Rows answered to queries.
    pub rows_answered: Counter,
    /// Queries whose client went before its answer was whole.
    pub queries_cancelled: Counter,
    /// Limits that clients have reached.
    pub limits_hit: LimitsHit,
    /// Queries that compute or wait for their client.
    pub queries_running: Gauge,
    own: Mutex<BTreeMap<&'static str, Own>>,
}

/// A figure that one surface alone has. It is there, with 0, as soon as the surface has asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name; one that counts ends in `_total`.
    pub name: &'static str,
    /// A sentence on what it is.
    pub help: &'static str,
}

#[derive(Debug)]
struct Own {
    metric: Metric,
    counter: Arc<Counter>,
    gauge: Arc<Gauge>,
}

impl Metric {
    /// Whether it only grows.
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

impl Counters {
    /// A counter of a surface's own.
    pub fn counter(&self, metric: &Metric) -> Arc<Counter> {
        self.with_own(metric, |own| Arc::clone(&own.counter))
    }

    /// A gauge of a surface's own.
    pub fn gauge(&self, metric: &Metric) -> Arc<Gauge> {
        self.with_own(metric, |own| Arc::clone(&own.gauge))
    }

    /// All figures of surfaces, by their names.
    pub fn of_surfaces(&self) -> Vec<(Metric, u64)> {
        let all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let value = |own: &Own| {
            if own.metric.is_counter() {
                own.counter.get()
            } else {
                own.gauge.get()
            }
        };
        all.values().map(|own| (own.metric, value(own))).collect()
    }

    fn with_own<T>(&self, metric: &Metric, take: impl FnOnce(&Own) -> T) -> T {
        let mut all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        take(all.entry(metric.name).or_insert_with(|| Own {
            metric: *metric,
            counter: Arc::default(),
            gauge: Arc::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surface_counts_what_no_other_knows() {
        let (counters, sent) = (
            Counters::default(),
            Metric {
                name: "sent_total",
                help: "Sent.",
            },
        );
        let open = Metric {
            name: "open",
            help: "Open.",
        };
        counters.counter(&sent).add(2);
        counters.counter(&sent).add(3);
        let gauge = counters.gauge(&open);
        let _one = gauge.enter();
        assert_eq!(counters.of_surfaces(), [(open, 1), (sent, 5)]);
    }

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
