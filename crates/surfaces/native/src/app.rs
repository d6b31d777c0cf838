//! State that the handlers of the native surface share.

use std::sync::Arc;

use nilometer_http::Http;
use nilometer_service::Service;

use crate::config::NativeConfig;

/// What handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) http: Arc<Http>,
    #[cfg_attr(
        not(feature = "answers"),
        expect(dead_code, reason = "its limits are those of answers")
    )]
    pub(crate) config: NativeConfig,
}

impl App {
    pub(crate) fn service(&self) -> &Arc<Service> {
        self.http.service()
    }
}
