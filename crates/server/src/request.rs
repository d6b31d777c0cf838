//! What happens around every request: an id, a log line, metrics, and a panic that becomes a 500.

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use crate::error::{LimitHit, Refusal};
use crate::http::App;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_OF_INFLUXDB: HeaderName = HeaderName::from_static("request-id");

/// Longest id that is taken from a client; it goes into logs.
const REQUEST_ID_BYTES_MAX: usize = 128;

pub(crate) async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    let _running = app.metrics.start_request();
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        Refusal::internal("the server failed on this request; its log has the details")
            .into_response()
    });
    let elapsed = started.elapsed();
    let status = response.status();
    let limit = response.extensions().get::<LimitHit>().map(|hit| hit.0);
    app.metrics
        .end_request(&route, status.as_u16(), elapsed, limit);

    let request_id = id.to_str().unwrap_or_default();
    let ms = elapsed.as_secs_f64() * 1e3;
    let status = status.as_u16();
    match status {
        500.. => tracing::warn!(request_id, %method, route, status, ms, limit, "request failed"),
        400.. => tracing::info!(request_id, %method, route, status, ms, limit, "request refused"),
        _ => tracing::debug!(request_id, %method, route, status, ms, "request"),
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's id if it sent a sane one, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    [REQUEST_ID, REQUEST_ID_OF_INFLUXDB]
        .iter()
        .filter_map(|name| headers.get(name))
        .find(|id| {
            let sane = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
            sane && id.as_bytes().iter().all(u8::is_ascii_graphic)
        })
        .cloned()
        .unwrap_or_else(new_id)
}

/// Unique in this process by the counter, and among processes by what the system seeds hashers with.
fn new_id() -> HeaderValue {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one(number);
    HeaderValue::try_from(format!("{random:016x}-{number:x}"))
        .unwrap_or_else(|_| HeaderValue::from_static("none"))
}
