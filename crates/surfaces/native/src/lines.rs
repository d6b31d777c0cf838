//! `POST /api/v3/write_lp`: line protocol in, 204 when every row is durable and visible.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use nilometer_engine::ingest::WriteReport;
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Parameters, idempotency, principal_of};
use nilometer_lineproto::Precision;
use nilometer_service::define::schema_of_policy;
use nilometer_service::{LineTarget, Place, Principal, Privilege, Scope};
use serde_json::{Value, json};

use crate::app::App;

pub(crate) async fn write_lp(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let target = target_of(&app, &parameters, &head);
    // The body is read even if the parameters are wrong: a client that is still sending would not see the answer.
    let largest = Largest::of_rows(&app.http);
    let received = receive(&head.headers, body, &app.http, largest).await?;
    let written = app.service().write_lines(target?, || received.inflate());
    answer(&written.await?)
}

/// What the parameters of `InfluxDB` 3 ask for.
fn target_of(
    app: &App,
    parameters: &Parameters,
    head: &Parts,
) -> Result<LineTarget, ErrorResponse> {
    let principal = principal_of(head);
    let mut scope = Scope::of_database(parameters.required("db")?);
    let named = parameters.get("schema").filter(|name| !name.is_empty());
    if let Some(name) = named {
        scope.schema = Some(schema_named(app, &principal, &scope.database, name)?);
    }
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
        principal,
        scope,
        creates: named.is_none(),
        precision,
        key,
        keeps_policy: false,
    })
}

/// A schema that a write names, also by its name as a retention policy. It is not made, and neither is its database.
fn schema_named(
    app: &App,
    principal: &Principal,
    database: &str,
    name: &str,
) -> Result<String, ErrorResponse> {
    let snapshot = app.service().snapshot();
    if let Some(schema) = schema_of_policy(&snapshot, database, name) {
        return Ok(schema);
    }
    // Who may not write there does not learn what is not there.
    principal.check(Privilege::Write, Place::database(database))?;
    let said = if snapshot.default_schema(database).is_none() {
        format!("there is no database {database}; create it first, or leave schema out")
    } else {
        format!(
            "there is no schema {name} in database {database}; create it first, or leave schema out"
        )
    };
    Err(ErrorResponse::new(StatusCode::NOT_FOUND, said))
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
