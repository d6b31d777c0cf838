//! `/metrics` in the text format of Prometheus.

mod store;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nilometer_service::{Counted, Counter, Gauge, Service};

/// Upper ends of the latency buckets in microseconds.
const BUCKETS_US: [u64; 12] = [
    500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests that have no answer yet.
    pub(crate) running: Gauge,
    /// Bytes of answers taken by clients, without heads.
    pub(crate) bytes_sent: Counter,
    /// Connections that are open.
    pub(crate) connections: Gauge,
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

impl Metrics {
    pub(crate) fn start_request(&self) -> Counted<'_> {
        self.running.enter()
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

    /// Everything as text.
    pub(crate) fn print(&self, service: &Service) -> String {
        let mut page = Page::default();
        store::print(&mut page, &service.store_metrics());
        self.print_own(&mut page, service);
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

impl Metrics {
    /// What has no labels.
    fn print_own(&self, page: &mut Page, service: &Service) {
        let all = service.counters();
        let counters: [(&str, &str, &Counter); 5] = [
            (
                "write_body_bytes_total",
                "Bytes of written bodies taken in, inflated.",
                &all.body_bytes,
            ),
            (
                "write_lines_rejected_total",
                "Lines refused in writes.",
                &all.lines_rejected,
            ),
            (
                "query_rows_total",
                "Rows answered to queries.",
                &all.rows_answered,
            ),
            (
                "queries_cancelled_total",
                "Queries stopped because their client went.",
                &all.queries_cancelled,
            ),
            (
                "http_response_bytes_total",
                "Bytes of answers taken by clients, without heads.",
                &self.bytes_sent,
            ),
        ];
        for (name, help, value) in counters {
            page.counter(name, help, value.get());
        }
        let gauges: [(&str, &str, &Gauge); 3] = [
            (
                "queries_running",
                "Queries that compute or wait for their client.",
                &all.queries_running,
            ),
            (
                "http_requests_running",
                "Requests that have no answer yet.",
                &self.running,
            ),
            (
                "http_connections",
                "Connections that are open.",
                &self.connections,
            ),
        ];
        for (name, help, value) in gauges {
            page.gauge(name, help, value.get());
        }
        page.head("build_info", "1, with the version as a label.", "gauge");
        let version = env!("CARGO_PKG_VERSION");
        page.value("build_info", &format!("{{version=\"{version}\"}}"), 1);
    }
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
