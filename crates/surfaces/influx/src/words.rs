//! Errors in the words of `InfluxDB` 1.

use axum::http::StatusCode;
use nilometer_http::Words;

/// Clients look for a version that they know: the one whose surface this is.
pub(crate) const INFLUXDB_VERSION: &str = "1.12.0";

pub(crate) static WORDS: Words = Words {
    headers: &[
        ("x-influxdb-version", INFLUXDB_VERSION),
        ("x-influxdb-build", "OSS"),
    ],
    error_header: Some("x-influxdb-error"),
    names_request: false,
    say,
};

/// What clients act upon. They keep rows for a later attempt after 5xx only, and loaders slow down when a 500 says that a
/// cache is full or that time ran out; anything else ends them.
fn say(status: StatusCode, limit: Option<&'static str>) -> (StatusCode, &'static str) {
    match (status, limit) {
        (StatusCode::PAYLOAD_TOO_LARGE, _) => (status, "Request Entity Too Large: "),
        (StatusCode::SERVICE_UNAVAILABLE, Some("memory-bytes-max")) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "engine: cache maximum memory size exceeded: ",
        ),
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, Some(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "timeout: ")
        }
        _ => (status, ""),
    }
}
