//! `/metrics`: what the engine and the server count, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nilometer_engine::Metrics as EngineMetrics;
use nilometer_engine::ingest::WriteReport;

/// Upper ends of the latency buckets in microseconds.
const BUCKETS_US: [u64; 12] = [
    500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    running: AtomicU64,
    body_bytes: AtomicU64,
    lines_rejected: AtomicU64,
    rows_answered: AtomicU64,
    by_request: Mutex<ByRequest>,
}

/// What is counted by label. The labels are routes, statuses and settings: few, whatever clients send.
#[derive(Debug, Default)]
struct ByRequest {
    requests: BTreeMap<(String, u16), u64>,
    latencies: BTreeMap<String, Latency>,
    limits: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Latency {
    buckets: [u64; BUCKETS_US.len()],
    count: u64,
    sum_us: u64,
}

/// Counts as a running request until dropped.
pub(crate) struct Running<'a>(&'a Metrics);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn start_request(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    pub(crate) fn end_request(
        &self,
        route: &str,
        status: u16,
        elapsed: Duration,
        limit: Option<&'static str>,
    ) {
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let mut by = self
            .by_request
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *by.requests.entry((route.to_owned(), status)).or_default() += 1;
        if let Some(limit) = limit {
            *by.limits.entry(limit).or_default() += 1;
        }
        let latency = by.latencies.entry(route.to_owned()).or_default();
        latency.count += 1;
        latency.sum_us = latency.sum_us.saturating_add(us);
        let bucket = BUCKETS_US.partition_point(|&end| end < us);
        if let Some(count) = latency.buckets.get_mut(bucket) {
            *count += 1;
        }
    }

    pub(crate) fn count_write(&self, body_bytes: usize, report: &WriteReport) {
        self.body_bytes
            .fetch_add(body_bytes as u64, Ordering::Relaxed);
        self.lines_rejected
            .fetch_add(report.rejected_total, Ordering::Relaxed);
    }

    pub(crate) fn count_answer(&self, rows: usize) {
        self.rows_answered.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Everything as text.
    pub(crate) fn print(&self, engine: &EngineMetrics) -> String {
        let mut page = Page::default();
        print_engine(&mut page, engine);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        page.counter(
            "write_body_bytes_total",
            "Bytes of line protocol taken in, inflated.",
            load(&self.body_bytes),
        );
        page.counter(
            "write_lines_rejected_total",
            "Lines refused in writes.",
            load(&self.lines_rejected),
        );
        page.counter(
            "query_rows_total",
            "Rows answered to queries.",
            load(&self.rows_answered),
        );
        page.gauge(
            "http_requests_running",
            "Requests that have no answer yet.",
            load(&self.running),
        );
        let by = self
            .by_request
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        page.head(
            "http_requests_total",
            "Requests by route and status.",
            "counter",
        );
        for ((route, status), count) in &by.requests {
            page.value(
                "http_requests_total",
                &format!("{{route=\"{route}\",status=\"{status}\"}}"),
                count,
            );
        }
        page.head(
            "limits_hit_total",
            "Requests that reached a limit, by the setting.",
            "counter",
        );
        for (setting, count) in &by.limits {
            page.value(
                "limits_hit_total",
                &format!("{{setting=\"{setting}\"}}"),
                count,
            );
        }
        page.head(
            "http_request_seconds",
            "Time until the head of the answer, by route.",
            "histogram",
        );
        for (route, latency) in &by.latencies {
            print_latency(&mut page, route, latency);
        }
        page.text
    }
}

fn print_engine(page: &mut Page, engine: &EngineMetrics) {
    page.counter(
        "rows_written_total",
        "Rows acknowledged since the start.",
        engine.rows_written,
    );
    page.counter(
        "batches_written_total",
        "Batches acknowledged since the start.",
        engine.batches_written,
    );
    page.counter(
        "log_bytes_written_total",
        "Bytes written to the log since the start.",
        engine.log_bytes_written,
    );
    page.counter(
        "log_syncs_total",
        "Syncs of the log since the start.",
        engine.log_syncs,
    );
    page.gauge(
        "log_files",
        "Log files, in use or kept for reuse.",
        engine.log_files,
    );
    page.gauge(
        "log_bytes",
        "Bytes of log records that are not in segments yet.",
        engine.log_bytes,
    );
    page.gauge(
        "head_rows",
        "Rows in memory that are not in segments yet.",
        engine.head_rows,
    );
    page.gauge("head_bytes", "Memory of those rows.", engine.head_bytes);
    page.gauge("segments", "Segment files.", engine.segments);
    page.gauge(
        "segment_bytes",
        "Bytes of segment files.",
        engine.segment_bytes,
    );
    page.gauge(
        "segment_rows",
        "Rows in segment files.",
        engine.segment_rows,
    );
    page.gauge(
        "definition_bytes",
        "Bytes of definition files.",
        engine.definition_bytes,
    );
    page.gauge("databases", "Databases.", engine.databases);
    page.gauge("tables", "Tables of all databases.", engine.tables);
    page.gauge("series", "Series of all tables.", engine.series);
    page.gauge(
        "visible_lsn",
        "Highest batch number that queries see.",
        engine.visible_lsn,
    );
    page.gauge(
        "flushed_lsn",
        "Highest batch number that is in segments.",
        engine.flushed_lsn,
    );
    page.gauge(
        "poisoned",
        "1 if writes are refused after a failed disk operation.",
        u64::from(engine.poisoned.is_some()),
    );
}

fn print_latency(page: &mut Page, route: &str, latency: &Latency) {
    let mut below = 0;
    for (end_us, count) in BUCKETS_US.iter().zip(&latency.buckets) {
        below += count;
        let end = *end_us as f64 / 1e6;
        page.value(
            "http_request_seconds_bucket",
            &format!("{{route=\"{route}\",le=\"{end}\"}}"),
            below,
        );
    }
    page.value(
        "http_request_seconds_bucket",
        &format!("{{route=\"{route}\",le=\"+Inf\"}}"),
        latency.count,
    );
    page.value(
        "http_request_seconds_sum",
        &format!("{{route=\"{route}\"}}"),
        latency.sum_us as f64 / 1e6,
    );
    page.value(
        "http_request_seconds_count",
        &format!("{{route=\"{route}\"}}"),
        latency.count,
    );
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "# HELP nilometer_{name} {help}\n# TYPE nilometer_{name} {kind}"
        );
    }

    fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "nilometer_{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.value(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "gauge");
        self.value(name, "", value);
    }
}
