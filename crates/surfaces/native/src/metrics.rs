//! `GET /metrics` in the text format of Prometheus: the store's figures, the service's and the listener's.

mod store;

use std::fmt::{Display, Write};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use nilometer_http::{BUCKETS_US, ErrorResponse, Http, Latency, principal_of};
use nilometer_service::{Counter, Gauge};

use crate::app::App;

pub(crate) async fn metrics(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    if let Err(refusal) = principal_of(&head).check_known() {
        return ErrorResponse::from(refusal).into_response();
    }
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let text = print(&app.http);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

/// Everything as text.
fn print(http: &Http) -> String {
    let mut page = Page::default();
    store::print(&mut page, &http.service().store_metrics());
    print_own(&mut page, http);
    let by = http.metrics().by_request();
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
        "Requests and statements, of all surfaces, that reached a limit, by the setting.",
        "counter",
    );
    for (setting, count) in &http.service().counters().limits_hit.get() {
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

/// What has no labels.
fn print_own(page: &mut Page, http: &Http) {
    let (all, own) = (http.service().counters(), http.metrics());
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
            &own.bytes_sent,
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
            &own.running,
        ),
        (
            "http_connections",
            "Connections that are open.",
            &own.connections,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value.get());
    }
    for (metric, value) in all.of_surfaces() {
        if metric.is_counter() {
            page.counter(metric.name, metric.help, value);
        } else {
            page.gauge(metric.name, metric.help, value);
        }
    }
    page.head("build_info", "1, with the version as a label.", "gauge");
    let version = env!("CARGO_PKG_VERSION");
    page.value("build_info", &format!("{{version=\"{version}\"}}"), 1);
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
