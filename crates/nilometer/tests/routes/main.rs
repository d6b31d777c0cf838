//! What the server promises, route by route: one binary, because linking the planner takes longer than all tests.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

mod access;
mod arrow;
mod arrow_create;
mod arrow_refused;
mod cancel;
mod cors;
mod example_surface;
mod formats;
mod http;
mod influx;
mod limits;
mod metrics;
mod packed;
mod parameters;
mod query;
mod roles;
mod serve;
mod sockets;
mod strangers;
mod support;
mod users;
mod write;
