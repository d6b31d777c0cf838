//! The `InfluxDB` surface: what clients of its versions 1 and 2 write to, in the words of version 1.
//!
//! Does: take line protocol at `/write` and `/api/v2/write`, answer `/ping`, say errors as those clients know them. Does not:
//! listen (`nilometer-http` does), or answer queries.

mod words;
mod write;

use std::sync::Arc;

use axum::extract::RawQuery;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_http::{Http, Parameters, Route, Routes};
use serde_json::json;

use words::WORDS;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-nilometer-version");

/// The routes of the `InfluxDB` surface.
#[derive(Debug, Default)]
pub struct Influx;

impl Routes for Influx {
    fn routes(&self, http: &Arc<Http>) -> Vec<Route> {
        let routes = [
            Route::new("/api/v2/write").post(write::write_v2),
            Route::new("/write").post(write::write_v1),
            Route::new("/ping").get(ping).open(),
        ];
        let routes = routes.into_iter().map(|route| route.words(&WORDS));
        routes
            .map(|route| route.with_state(Arc::clone(http)))
            .collect()
    }
}

/// As `InfluxDB` 1 has it: nothing, or with `verbose` the version.
async fn ping(RawQuery(query): RawQuery) -> Response {
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let mut response = match parameters.get("verbose") {
        None | Some("" | "0" | "false") => StatusCode::NO_CONTENT.into_response(),
        Some(_) => (
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )],
            format!("{}\n", json!({ "version": VERSION })),
        )
            .into_response(),
    };
    let version = HeaderValue::from_static(VERSION);
    response.headers_mut().insert(VERSION_HEADER, version);
    response
}
