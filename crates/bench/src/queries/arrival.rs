//! Queries while rows arrive: a load beside them, as fast as it is asked to be.
//!
//! The load begins first; the first statement is asked once rows are acknowledged, and the load is stopped after the
//! last. If its file ends before that, the report says so, because the last timings were then taken in peace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::{QueryOptions, QuerySpec, QueryTiming, run_queries};
use crate::Result;
use crate::load::{LatencyMs, LoadOptions, LoadReport, load};

/// Pause between two looks whether rows arrive.
const POLL: Duration = Duration::from_millis(2);

/// The rows that arrived beside the queries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arrival {
    /// The file they came from.
    pub file: String,
    /// The rate asked for; none = as fast as the database took them.
    pub asked_rows_per_second: Option<f64>,
    /// The rate that there was.
    pub rows_per_second: f64,
    /// Rows acknowledged.
    pub rows: u64,
    /// First request sent to last batch acknowledged.
    pub seconds: f64,
    /// How long batches took.
    pub latency_ms: LatencyMs,
    /// Rows were still arriving when the last statement was answered.
    pub is_to_the_end: bool,
}

impl Arrival {
    fn new(options: &LoadOptions, report: &LoadReport, is_to_the_end: bool) -> Self {
        Self {
            file: report.file.clone(),
            asked_rows_per_second: options.rows_per_second,
            rows_per_second: report.rows_per_second,
            rows: report.rows,
            seconds: report.seconds,
            latency_ms: report.latency_ms,
            is_to_the_end,
        }
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let end = if self.is_to_the_end {
            ""
        } else {
            "; the file ended before the queries did, so the last ones were asked without it"
        };
        format!(
            "while rows arrived: {:.0} rows/s, {} rows in {:.2} s, a batch took p50 {:.1}, p99 {:.1} ms{end}",
            self.rows_per_second, self.rows, self.seconds, self.latency_ms.p50, self.latency_ms.p99
        )
    }
}

/// Runs all statements as [`run_queries`] does, while the rows of `arriving` are written to its database.
pub fn run_while_loading(
    arriving: &LoadOptions,
    url: &str,
    database: &str,
    specs: &[QuerySpec],
    options: &QueryOptions,
) -> Result<(Vec<QueryTiming>, Arrival)> {
    let has_begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let loader = scope.spawn(|| load(arriving, |_| has_begun.store(true, Ordering::Relaxed)));
        while !has_begun.load(Ordering::Relaxed) && !loader.is_finished() {
            thread::sleep(POLL);
        }
        let timings = run_queries(url, database, specs, options);
        let is_to_the_end = !loader.is_finished();
        arriving.stop.store(true, Ordering::Relaxed);
        let report = loader.join().expect("the load returns its errors")?;
        Ok((timings?, Arrival::new(arriving, &report, is_to_the_end)))
    })
}
