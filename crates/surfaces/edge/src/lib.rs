//! The surface of microcontrollers: `POST /api/edge/v1/pages` takes the flash pages of a device.
//!
//! Does: check a request's signature and pages, decode each page once, hand rows to the service together with how far the device
//! has come, answer that. Does not: know how pages lie in the flash, or in a file.
//!
//! Start at [`Edge`]. `request.rs` has the parameters, `body.rs` the pages of a body one after another, `page.rs` one page,
//! `rows.rs` the rows that come of it. Next: docs/format/device-sync.md.

mod body;
mod config;
mod page;
mod request;
mod rows;
mod sync;

use std::sync::Arc;

use nilometer_http::{Http, Route, Routes};

pub use config::EdgeConfig;
pub use request::{SIGNATURE_HEADER, signed_head};

/// Where devices send their pages.
pub const PATH: &str = "/api/edge/v1/pages";

/// The routes of the surface.
#[derive(Debug, Default)]
pub struct Edge {
    /// Settings.
    pub config: EdgeConfig,
}

impl Routes for Edge {
    fn routes(&self, http: &Arc<Http>) -> Vec<Route> {
        for metric in &sync::METRICS {
            http.service().counters().counter(metric);
        }
        let app = Arc::new(sync::App {
            http: Arc::clone(http),
            config: self.config.clone(),
        });
        let route = Route::new(PATH).post(sync::pages);
        let route = match self.config.secret {
            Some(_) => route.signed(),
            None => route,
        };
        vec![route.with_state(app)]
    }
}
