//! State that the routes of all surfaces share: service, settings, metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use nilometer_service::Service;

use crate::config::HttpConfig;
use crate::metrics::Metrics;

/// A listener as its routes see it.
#[derive(Debug)]
pub struct Http {
    service: Arc<Service>,
    config: HttpConfig,
    metrics: Metrics,
    /// Whether only some names may be used for this server.
    pub(crate) asks_for_host: bool,
}

impl Http {
    /// Without a socket: it is asked directly.
    pub fn new(service: Arc<Service>, config: HttpConfig) -> Arc<Self> {
        Self::at(None, service, config)
    }

    /// `address` is where it listens; `None` = nowhere.
    pub(crate) fn at(
        address: Option<SocketAddr>,
        service: Arc<Service>,
        config: HttpConfig,
    ) -> Arc<Self> {
        // Elsewhere the names are not known, unless somebody lists them.
        let is_reached = |address: SocketAddr| {
            address.ip().to_canonical().is_loopback() || !config.hosts.is_empty()
        };
        let asks_for_host = !service.access().asks() && address.is_some_and(is_reached);
        Arc::new(Self {
            asks_for_host,
            metrics: Metrics::default(),
            service,
            config,
        })
    }

    /// What stands below all surfaces.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Settings of the listener.
    pub fn config(&self) -> &HttpConfig {
        &self.config
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
