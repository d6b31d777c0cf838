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
    address: Option<SocketAddr>,
    started_ns: i64,
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
            address,
            started_ns: service.wall_ns(),
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

    /// Where it listens; `None` = nowhere.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Since when, by the store's clock.
    pub fn started_ns(&self) -> i64 {
        self.started_ns
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
