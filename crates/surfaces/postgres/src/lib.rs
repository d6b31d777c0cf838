//! The PostgreSQL surface: protocol 3 on a socket of its own, SQL in the words of its clients.
//!
//! Does: let clients in (TLS, SCRAM-SHA-256), take simple and extended queries and COPY, keep what a session sets, write rows as
//! text and binary, say errors by SQLSTATE. Does not: know SQL (the program hands the language to the service), or hold the
//! engine.
//!
//! Start at [`Postgres`]. `listener.rs` is the socket, `connection` the conversation, `execution.rs` a statement that runs, `wire`
//! the messages, `values` the types, `copy` COPY. docs/decisions/0015-postgresql-surface.md says why it is as it is.

#![expect(clippy::big_endian_bytes, reason = "the protocol is in network order")]

mod config;
mod connection;
mod copy;
mod execution;
mod listener;
mod rows;
mod settings;
mod shared;
mod sqlstate;
mod statement;
mod values;
mod wire;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_service::{CancellationToken, Error, Service, Surface};
use tokio::net::TcpListener;

pub use config::PostgresConfig;

/// The surface, on its socket.
#[derive(Debug)]
pub struct Postgres {
    /// Where clients come.
    pub listener: TcpListener,
    /// Settings.
    pub config: PostgresConfig,
}

impl Surface for Postgres {
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        listener::serve(self.listener, self.config, service, stop).boxed()
    }
}
