//! The HTTP listener, below the surfaces that are spoken over it.
//!
//! Does: accept, encrypt, read requests and hold them to their limits, ask for the token, pack answers, log and count, map
//! classes of errors to statuses. Does not: know a route; surfaces give theirs ([`Routes`]), and the program mounts them.
//!
//! Start at [`HttpSurface`]. `routes.rs` is what a surface implements, `request.rs` the layers around every request,
//! `error.rs` the table of statuses.

mod admit;
mod answer;
pub mod body;
mod config;
mod error;
mod http;
pub mod idempotency;
mod listener;
mod metrics;
mod parameters;
mod request;
mod routes;

pub use admit::cors::{NotAnOrigin, Origins, may_only_read};
pub use admit::hosts::{Hosts, NotAHost};
pub use answer::chunks::{Chunk, Chunks};
pub use answer::timing::with_timings;
pub use config::{AccessLog, HttpConfig};
pub use error::{Error, ErrorResponse, Words};
pub use http::Http;
pub use listener::{HttpSurface, check_bind};
pub use metrics::{BUCKETS_US, ByRequest, Latency, Metrics};
pub use parameters::Parameters;
pub use request::principal_of;
pub use routes::{Route, RouteInfo, Routes, router};
