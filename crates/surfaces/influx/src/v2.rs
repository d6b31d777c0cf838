//! Addresses of version 2 that version 1 has too: `/api/v2/query`, `/api/v2/delete`; `buckets.rs` has `/api/v2/buckets`.
//!
//! Does: refuse Flux in the words of a server that has it switched off, delete by a predicate. Does not: write
//! (`write.rs` does), or know organizations: there are none.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Http, Parameters, principal_of};
use nilometer_service::define::schema_of_policy;
use nilometer_service::{CancellationToken, Class, Outcome, Params, Session};
use serde_json::Value;

use crate::predicate;
use crate::words::WORDS;

/// Flux is not spoken here.
pub(crate) async fn query() -> ErrorResponse {
    ErrorResponse::new(
        StatusCode::FORBIDDEN,
        "Flux query service disabled. Verify flux-enabled=true in the [http] section of the InfluxDB config.",
    )
    .in_words(&WORDS)
}

pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    match delete_rows(&http, &parameters, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.in_words(&WORDS).into_response(),
    }
}

async fn delete_rows(
    http: &Arc<Http>,
    parameters: &Parameters,
    request: Request,
) -> Result<(), ErrorResponse> {
    let (head, body) = request.into_parts();
    let received = receive(&head.headers, body, http, Largest::of_rows(http)).await?;
    let inflated = received.inflate()?;
    let bucket = parameters.get("bucket").unwrap_or_default();
    if bucket.is_empty() {
        return Err(ErrorResponse::new(
            StatusCode::NOT_FOUND,
            "bucket name \"\" is missing a slash; not in \"database/retention-policy\" format",
        ));
    }
    let (database, policy) = bucket.split_once('/').unwrap_or((bucket, ""));
    let snapshot = http.service().snapshot();
    let is_known = policy.is_empty() || schema_of_policy(&snapshot, database, policy).is_some();
    if snapshot.default_schema(database).is_some() && !is_known {
        return Err(ErrorResponse::new(
            StatusCode::NOT_FOUND,
            format!("delete - retention policy not found in {database:?}: {policy:?}"),
        ));
    }
    let body: Value = serde_json::from_slice(inflated.as_ref()).map_err(|error| {
        ErrorResponse::bad_request(format!("delete: the body is no JSON object: {error}"))
    })?;
    let member = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let statement = predicate::delete(member("start"), member("stop"), member("predicate"))
        .map_err(|why| ErrorResponse::bad_request(format!("delete: {why}")))?;
    let session = Session {
        principal: principal_of(&head),
        schema: (!policy.is_empty()).then(|| policy.to_owned()),
        database: database.to_owned(),
        is_read_only: false,
        zone: None,
        cancelled: CancellationToken::new(),
        client: None,
        transaction: None,
        timings: None,
    };
    let language = http.service().language("influxql")?;
    let outcome = session.run(&**language, &statement, &Params::new()).await?;
    match outcome {
        Outcome::Done { .. } => Ok(()),
        Outcome::Rows(_) | Outcome::Sets(_) => Err(ErrorResponse::of(
            Class::Internal,
            "the delete answered rows",
        )),
    }
}
