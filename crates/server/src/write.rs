//! Line protocol in, 204 when every row is durable and visible: what the routes share, and `POST /api/v3/write_lp`.

mod arrow;
mod influx;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use nilometer_engine::ingest::{Session, WriteReport};
use nilometer_engine::{Engine, Error as EngineError};
use nilometer_lineproto::Precision;
use nilometer_service::executor::{block, within};
use nilometer_service::{Check, Error as ServiceError, Scope, WhenMissing};
use serde_json::{Value, json};

use crate::body::{InflateLimits, Largest, Received, receive};
use crate::error::ErrorResponse;
use crate::http::App;
use crate::idempotency;
use crate::parameters::Parameters;
use crate::sabotage::Sabotage;

pub(crate) use arrow::write_arrow;
pub(crate) use influx::{write_v1, write_v2};

pub(crate) async fn write_lp(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let target = Target::of_v3(&parameters, &head.headers);
    answer(&write_body(&app, target, &head.headers, body).await?)
}

/// Where a body goes, and how it is read.
#[derive(Debug)]
pub(crate) struct Target {
    scope: Scope,
    /// Whether a database that is not there is made.
    creates: bool,
    precision: Precision,
    /// Names the body, so that it is stored once however often it is sent.
    key: Option<[u8; 16]>,
}

impl Target {
    /// For rows that are no line protocol.
    fn of_rows(scope: Scope, creates: bool) -> Self {
        Self {
            scope,
            creates,
            precision: Precision::Nanosecond,
            key: None,
        }
    }

    fn of_v3(parameters: &Parameters, headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let scope = Scope::of_database(parameters.required("db")?);
        let precision = parameters.get("precision").unwrap_or("auto");
        let precision = Precision::from_v3(precision).ok_or_else(|| {
            ErrorResponse::bad_request(format!(
                "invalid precision '{precision}': use auto, nanosecond, microsecond, millisecond or second"
            ))
        })?;
        if !parameters.flag("accept_partial", true)? {
            return Err(ErrorResponse::bad_request(
                "accept_partial=false is not supported yet: the valid lines of a write are always stored",
            ));
        }
        // Every write is synced, which is more than no_sync=true asks for.
        parameters.flag("no_sync", false)?;
        let key = idempotency::key_of(headers, &scope.database)?;
        Ok(Self {
            scope,
            creates: true,
            precision,
            key,
        })
    }

    fn when_missing<'a>(&self, check: Check<'a>) -> WhenMissing<'a> {
        if self.creates {
            WhenMissing::Create(check)
        } else {
            WhenMissing::Refuse
        }
    }
}

/// Reads a body of line protocol and stores it, each under its limits.
async fn write_body(
    app: &Arc<App>,
    target: Result<Target, ErrorResponse>,
    headers: &HeaderMap,
    body: Body,
) -> Result<WriteReport, ErrorResponse> {
    // The body is read even if the parameters are wrong: a client that is still sending would not see the answer.
    let largest = Largest::of_rows(&app.config);
    let received = receive(headers, body, &app.body_memory, &app.config, largest).await?;
    let target = target?;
    let time_max = Duration::from_millis(app.config.write_ms_max);
    let written = within(time_max, write(app, target, received)).await;
    if written.is_none() && app.has(Sabotage::TimeLimitIsSuccess) {
        return Ok(WriteReport::default());
    }
    written.ok_or_else(|| time_limit(app))?
}

async fn write(
    app: &Arc<App>,
    target: Target,
    received: Received,
) -> Result<WriteReport, ErrorResponse> {
    let limits = InflateLimits::of(&app.config, Largest::of_rows(&app.config));
    let storing = run_blocking(Arc::clone(app), move |app| {
        let (body, _held) = received.inflate(limits)?;
        let report = write_lines(app, &target, &body)?;
        app.metrics.count_body(body.len());
        app.metrics.count_rejected(report.rejected_total);
        Ok(report)
    });
    if app.has(Sabotage::AnsweredBeforeStored) {
        let app = Arc::clone(app);
        app.query_runtime.spawn(storing.map(drop));
        return Ok(WriteReport::default());
    }
    storing.await
}

/// Does what computes and waits for the disk on a thread of its own, when it is its turn among the writes.
async fn run_blocking<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<T, ErrorResponse> + Send + 'static,
) -> Result<T, ErrorResponse> {
    let permit = Arc::clone(&app.writes).acquire_owned().await;
    let permit = permit.map_err(|_| ServiceError::Stopping)?;
    let work = move || {
        let _permit = permit;
        work(&app)
    };
    match block(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => {
            tracing::error!("a write panicked");
            Err(ErrorResponse::internal(
                "the server failed on this write; its log has the details",
            ))
        }
        Err(_) => Err(ServiceError::Stopping.into()),
    }
}

fn time_limit(app: &App) -> ErrorResponse {
    let what = format!(
        "the write did not finish within {} ms; it may still be stored",
        app.config.write_ms_max
    );
    ErrorResponse::busy(StatusCode::GATEWAY_TIMEOUT, what, "write-ms-max")
}

fn write_lines(app: &App, target: &Target, body: &[u8]) -> Result<WriteReport, EngineError> {
    let precision = target.precision;
    let check = |engine: &Arc<Engine>| Session::check_lines_for_new(engine, body, precision);
    let when_missing = target.when_missing(&check);
    app.sessions.write(&target.scope, when_missing, |session| {
        let Some(key) = target.key else {
            return session.write_lines(body, precision);
        };
        if app.has(Sabotage::KeyApartFromRows) {
            let first = session.write_lines_once(key, b"keys n=1i", precision)?;
            if first.repeated {
                return Ok(first);
            }
            return session.write_lines(body, precision);
        }
        session.write_lines_once(key, body, precision)
    })
}

/// The words and members are `InfluxDB` 3's: its client libraries look for them.
fn answer(report: &WriteReport) -> Result<Response, ErrorResponse> {
    if report.rejected_total == 0 {
        return Ok(replayed(report));
    }
    let lines: Vec<Value> = report
        .rejected
        .iter()
        .map(|line| {
            json!({
                "original_line": line.line,
                "line_number": line.line_number,
                "error_message": line.reason,
            })
        })
        .collect();
    let refusal = ErrorResponse::bad_request("partial write of line protocol occurred")
        .member("data", Value::Array(lines))
        .member("rejected_total", json!(report.rejected_total))
        .member("rows_written", json!(report.rows));
    Err(refusal)
}

/// Success without a body, which says whether it was one before.
fn replayed(report: &WriteReport) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if report.repeated {
        let replayed = HeaderValue::from_static("true");
        let headers = response.headers_mut();
        headers.insert(idempotency::REPLAYED_HEADER, replayed);
    }
    response
}
