//! The layers around every request: id, limits, login, metrics, access log, and panics as 500.

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use nilometer_service::Principal;

use crate::admit::cors::preflight;
use crate::admit::{credentials, hosts};
use crate::answer::access::{Line, Logged};
use crate::answer::packed::{self, Coding};
use crate::config::HttpConfig;
use crate::error::ErrorResponse;
use crate::http::Http;
use crate::listener::connections::{OnKeptPlace, OverConnection};
use crate::routes::{Mounted, Rules};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_OF_INFLUXDB: HeaderName = HeaderName::from_static("request-id");

/// Longest id that is taken from a client; it goes into logs.
const REQUEST_ID_BYTES_MAX: usize = 128;

pub(crate) async fn around(
    State(mounted): State<Arc<Mounted>>,
    request: Request,
    next: Next,
) -> Response {
    let http = &mounted.http;
    let started = Instant::now();
    let (mut head, body) = request.into_parts();
    let id = request_id(&head.headers);
    let method = head.method.clone();
    let route = head
        .extensions
        .get::<MatchedPath>()
        .and_then(|path| mounted.rules(path.as_str()));
    let path = route.map_or("other", |route| route.path);
    let running = http.metrics().running.enter();
    let waiting = Waiting {
        http,
        request_id: &id,
        path,
        started,
        answered: false,
    };
    let page = http.config().cors_origins.allowed(&head.headers);
    let asked = page.as_ref().and_then(|_| preflight(&head));
    let coding = Coding::preferred(&head.headers);
    let mut response = match (admit(http, route, &mut head).await, asked) {
        // A browser asks without the token, and is told nothing but what the list says.
        (_, Some(answer)) => answer,
        (Ok(()), None) => {
            let answer = next.run(Request::from_parts(head, body));
            let answer = AssertUnwindSafe(answer).catch_unwind().await;
            answer.unwrap_or_else(|_| {
                ErrorResponse::internal(
                    "the server failed on this request; its log has the details",
                )
                .into_response()
            })
        }
        (Err(refusal), None) => in_words_of(route, refusal).into_response(),
    };
    waiting.end();
    drop(running);
    let elapsed = started.elapsed();
    let status = response.status().as_u16();
    let request_id = id.to_str().unwrap_or_default().to_owned();
    let refused = ErrorResponse::name_request(&mut response, &request_id);
    let limit = refused.as_ref().and_then(|refused| refused.limit);
    http.service().counters().limits_hit.note(limit);
    http.metrics().end_request(path, status, elapsed);

    let mut response = packed::packed(response, coding);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(REQUEST_ID_OF_INFLUXDB, id);
    if let Some(page) = page {
        page.tell(headers);
    }
    for (name, value) in route.map_or(&[][..], |route| route.words.headers) {
        let (name, value) = (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        headers.insert(name, value);
    }
    let line = Line {
        request_id,
        method,
        route: path,
        status,
        limit,
        error: refused.map(|refused| refused.error),
        started,
    };
    response.map(|body| Body::new(Logged::new(body, line, Arc::clone(http))))
}

/// Proxies write this status of their own for a client that went before its answer; nobody is sent it.
const STATUS_OF_NOBODY: u16 = 499;

/// A request that has no answer yet. Its future is dropped when its client goes, and this is what tells.
struct Waiting<'a> {
    http: &'a Http,
    request_id: &'a HeaderValue,
    path: &'static str,
    started: Instant,
    answered: bool,
}

impl Waiting<'_> {
    fn end(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let elapsed = self.started.elapsed();
        self.http
            .metrics()
            .end_request(self.path, STATUS_OF_NOBODY, elapsed);
        let request_id = self.request_id.to_str().unwrap_or_default();
        let ms = elapsed.as_micros() as f64 / 1e3;
        let (route, status) = (self.path, STATUS_OF_NOBODY);
        tracing::info!(
            request_id,
            route,
            status,
            ms,
            "the client went before its answer"
        );
    }
}

/// Who asks, as it was found out before the handler; on an open route nobody is asked, and nothing is allowed that is not
/// allowed to everybody.
pub fn principal_of(head: &Parts) -> Principal {
    let known = head.extensions.get::<Principal>();
    known.cloned().unwrap_or_else(Principal::nobody)
}

/// Whether a request may reach its handler, which finds in its head who asks.
async fn admit(http: &Http, route: Option<Rules>, head: &mut Parts) -> Result<(), ErrorResponse> {
    let config = http.config();
    check_size(config, head)?;
    check_host(head)?;
    check_coding(&head.headers)?;
    let is_open = route.is_some_and(|route| route.is_open);
    if head.extensions.get::<OnKeptPlace>().is_some() && !is_open {
        let what = format!(
            "{} connections are busy already; try again later",
            config.connections_max
        );
        return Err(ErrorResponse::busy(
            StatusCode::SERVICE_UNAVAILABLE,
            what,
            "connections-max",
        ));
    }
    let is_signed = route.is_some_and(|route| route.is_signed);
    if !is_open && !is_signed {
        let access = http.service().access();
        let shown = if access.asks() {
            credentials::shown(head)
        } else {
            Vec::new()
        };
        let principal: Principal = access.login(&shown).await?;
        head.extensions.insert(principal);
    }
    // A page that a browser was lured to has no key to sign with.
    check_origin(http, is_open || is_signed, head)
}

/// Refuses what pages of other servers have a browser send. Without a token a browser is all they need.
fn check_origin(http: &Http, is_open: bool, head: &Parts) -> Result<(), ErrorResponse> {
    let refused =
        |what: String, setting| ErrorResponse::limit(StatusCode::FORBIDDEN, what, setting);
    if let Some(origin) = http.config().cors_origins.stranger(head) {
        let what = format!(
            "a page of {origin} may not call this server; if it should, list its origin, such as https://grafana.example.org"
        );
        return Err(refused(what, "http-cors-origins"));
    }
    if http.asks_for_host
        && !is_open
        && let Some(name) = http.config().hosts.stranger(head)
    {
        let what = format!(
            "this server is not called {name:?}; ask it as localhost or 127.0.0.1, or list the name, or use a token"
        );
        return Err(refused(what, "http-hosts"));
    }
    Ok(())
}

/// HTTP/1.1 wants every request to name its server, once.
fn check_host(head: &Parts) -> Result<(), ErrorResponse> {
    let came = head.extensions.get::<OverConnection>().is_some();
    if came && head.version == Version::HTTP_11 && !head.headers.contains_key(header::HOST) {
        return Err(ErrorResponse::bad_request(
            "the request has no Host header, which HTTP/1.1 requires; send one, as in Host: localhost:8086",
        ));
    }
    hosts::malformed(head).map_or(Ok(()), |what| Err(ErrorResponse::bad_request(what)))
}

/// A body comes as it is or in chunks. What else a transfer may do with it is not undone, so it would be stored as it came.
fn check_coding(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let (first, more) = (codings.next(), codings.next());
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (first, more) {
        (None, _) => Ok(()),
        (Some(only), None) if is_chunked(only) => Ok(()),
        (Some(value), _) => {
            let named = String::from_utf8_lossy(value.as_bytes());
            Err(ErrorResponse::new(
                StatusCode::NOT_IMPLEMENTED,
                format!(
                    "the Transfer-Encoding '{named}' is not supported: send the body plain or chunked, and name its compression in Content-Encoding (gzip or zstd)"
                ),
            ))
        }
    }
}

fn check_size(config: &HttpConfig, head: &Parts) -> Result<(), ErrorResponse> {
    let url_bytes = head.uri.path_and_query().map_or(0, |it| it.as_str().len());
    let over = |status, what: &str, bytes, limit, setting| {
        let what = format!("{what} {bytes} bytes, more than the {limit} they may have");
        Err(ErrorResponse::limit(status, what, setting))
    };
    if url_bytes > config.url_bytes_max {
        return over(
            StatusCode::URI_TOO_LONG,
            "path and query of the request have",
            url_bytes,
            config.url_bytes_max,
            "url-bytes-max",
        );
    }
    let header_bytes = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum::<usize>();
    if header_bytes > config.header_bytes_max {
        return over(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the headers of the request have",
            header_bytes,
            config.header_bytes_max,
            "header-bytes-max",
        );
    }
    Ok(())
}

fn in_words_of(route: Option<Rules>, refusal: ErrorResponse) -> ErrorResponse {
    match route {
        Some(route) => refusal.in_words(route.words),
        None => refusal,
    }
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
