//! The native surface: `/api/v3/*`, `/health` and `/metrics`.
//!
//! Does: take lines, record batches and statements, answer rows in six formats, say how the server is. Does not: listen
//! (`nilometer-http` does), or know SQL; the program hands the language to the service.
//!
//! Start at [`Native`]. `lines.rs` and `arrow.rs` are for rows in, `query.rs` and `format` for rows out.

#[cfg(feature = "answers")]
mod ahead;
mod app;
mod arrow;
mod config;
#[cfg(feature = "answers")]
mod format;
mod health;
mod lines;
mod metrics;
#[cfg(feature = "answers")]
mod query;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use nilometer_http::{ErrorResponse, Http, Route, Routes, principal_of};

use app::App;

pub use config::NativeConfig;

/// The routes of the native surface.
#[derive(Debug, Default)]
pub struct Native {
    /// Settings.
    pub config: NativeConfig,
}

impl Routes for Native {
    fn routes(&self, http: &Arc<Http>) -> Vec<Route> {
        let app = Arc::new(App {
            http: Arc::clone(http),
            config: self.config.clone(),
        });
        let routes = [
            Route::new("/api/v3/write_lp").post(lines::write_lp),
            Route::new("/api/v3/write_arrow").post(arrow::write_arrow),
            Route::new("/api/v3/query_sql")
                .get(query::query_sql)
                .post(query::query_sql),
            Route::new("/api/v3/accept_clock").post(accept_clock),
            Route::new("/health").get(health::health).open(),
            Route::new("/metrics").get(metrics::metrics),
        ];
        let routes = routes.into_iter();
        routes
            .map(|route| route.with_state(Arc::clone(&app)))
            .collect()
    }
}

#[cfg(not(feature = "answers"))]
mod query {
    use super::{App, Arc, ErrorResponse, State, StatusCode};

    /// Says what to build instead.
    pub(super) async fn query_sql(
        State(app): State<Arc<App>>,
    ) -> Result<StatusCode, ErrorResponse> {
        app.service().language("sql")?;
        Ok(StatusCode::NOT_IMPLEMENTED)
    }
}

/// An administrator looked at the clock: what it says is right, although it jumped.
async fn accept_clock(
    State(app): State<Arc<App>>,
    head: Parts,
) -> Result<StatusCode, ErrorResponse> {
    principal_of(&head).check_admin()?;
    app.service().accept_clock();
    Ok(StatusCode::NO_CONTENT)
}
