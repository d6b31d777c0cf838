//! `GET /health`: whether the store takes writes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let poisoned = app.service().store_metrics().poisoned;
    let (code, status, message) = match poisoned {
        None => (
            StatusCode::OK,
            "pass",
            "ready for queries and writes".to_owned(),
        ),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "fail",
            format!(
                "writes are refused after a failed disk operation ({reason}); check the disk, then restart"
            ),
        ),
    };
    let body = json!({
        "name": "nilometer",
        "status": status,
        "message": message,
        "version": env!("CARGO_PKG_VERSION"),
        "durability": "sync",
        "checks": [],
    });
    (
        code,
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )],
        format!("{body}\n"),
    )
        .into_response()
}
