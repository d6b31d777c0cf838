//! The server: the only crate with sockets.
//!
//! Does: speak HTTP, hold every request to its limits, run writes on blocking threads and queries on a runtime of
//! their own, drive the engine's maintenance, and tell what happens (logs, metrics, health). Does not: interpret line
//! protocol or SQL, or decide what is durable; a write is answered when the engine says that it is.
//!
//! Start at [`serve`]. `http.rs` has the routes, `error.rs` the statuses.

mod access;
mod ask;
mod auth;
mod body;
mod caught;
mod config;
mod connections;
mod cors;
mod error;
mod format;
mod give_back;
mod gzip;
mod hosts;
mod http;
mod idempotency;
mod maintenance;
mod metrics;
mod opening;
mod parameters;
mod patient;
mod query;
mod request;
mod runtime;
mod sabotage;
mod serve;
mod sessions;
mod tls;
mod write;

pub use ask::{Asked, ask};
pub use auth::Token;
pub use config::{AccessLog, ServerConfig};
pub use cors::{NotAnOrigin, Origins};
pub use error::Error;
pub use give_back::use_few_arenas;
pub use hosts::{Hosts, NotAHost};
pub use http::{RouteInfo, router, routes};
pub use maintenance::Maintenance;
pub use opening::open_store;
#[doc(hidden)]
pub use sabotage::Sabotage;
pub use serve::{check_bind, serve};
pub use tls::{PemFile, Tls};
