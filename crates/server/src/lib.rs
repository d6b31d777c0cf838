//! The server: the only crate with sockets.
//!
//! Does: speak HTTP, hold every request to its limits, run writes on blocking threads and queries on a runtime of
//! their own, and tell what happens (logs, metrics, health). Does not: interpret line protocol or SQL, look after the
//! store (the service does), or decide what is durable; a write is answered when the engine says that it is.
//!
//! Start at [`serve`]. `http.rs` has the routes, `error.rs` the statuses.

mod access;
mod auth;
mod body;
mod config;
mod connections;
mod cors;
mod error;
mod format;
mod gzip;
mod hosts;
mod http;
mod idempotency;
mod metrics;
mod parameters;
mod query;
mod request;
mod serve;
mod stall_timeout;
mod tls;
mod write;

pub use config::{AccessLog, ServerConfig};
pub use cors::{NotAnOrigin, Origins};
pub use error::Error;
pub use hosts::{Hosts, NotAHost};
pub use http::{RouteInfo, router, routes};
pub use serve::{HttpSurface, check_bind, serve};
pub use tls::{PemFile, Tls};
