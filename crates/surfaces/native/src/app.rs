//! What the handlers of the native surface share.

use std::sync::Arc;

use nilometer_http::Http;
use nilometer_service::Service;

use crate::config::NativeConfig;

/// The listener below, and settings.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) http: Arc<Http>,
    pub(crate) config: NativeConfig,
}

impl App {
    /// What stands below all surfaces.
    pub(crate) fn service(&self) -> &Arc<Service> {
        self.http.service()
    }
}
