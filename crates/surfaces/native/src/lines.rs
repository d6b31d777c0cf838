//! `POST /api/v3/write_lp`: line protocol in, 204 when every row is durable and visible.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use nilometer_engine::ingest::WriteReport;
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Parameters, idempotency, principal_of};
use nilometer_lineproto::Precision;
use nilometer_service::{LineTarget, Scope};
use serde_json::{Value, json};

use crate::app::App;

pub(crate) async fn write_lp(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let target = target_of(&parameters, &head);
    // The body is read even if the parameters are wrong: a client that is still sending would not see the answer.
    let largest = Largest::of_rows(&app.http);
    let received = receive(&head.headers, body, &app.http, largest).await?;
    let written = app.service().write_lines(target?, || received.inflate());
    answer(&written.await?)
}

/// What the parameters of `InfluxDB` 3 ask for.
fn target_of(parameters: &Parameters, head: &Parts) -> Result<LineTarget, ErrorResponse> {
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
    let key = idempotency::key_of(&head.headers, &scope.database)?;
    Ok(LineTarget {
        principal: principal_of(head),
        scope,
        creates: true,
        precision,
        key,
        keeps_policy: false,
    })
}

/// The words and members are `InfluxDB` 3's: its client libraries look for them.
fn answer(report: &WriteReport) -> Result<Response, ErrorResponse> {
    if report.rejected_total == 0 {
        return Ok(idempotency::answer(report.repeated));
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
