//! Time as the store sees it: a trait, because tests and the simulation own the clock.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall time for timestamps and a monotonic time for intervals.
pub trait Clock: Debug + Send + Sync {
    /// Nanoseconds since 1970-01-01T00:00:00Z; may jump in either direction.
    fn now_ns(&self) -> i64;
    /// Milliseconds since some fixed moment; never goes back.
    fn monotonic_ms(&self) -> u64;
}

/// The operating system's clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> i64 {
        // A clock before 1970 or after 2262 is a broken clock; saturating keeps the store alive under it.
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }

    fn monotonic_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
