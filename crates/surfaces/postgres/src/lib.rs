//! The PostgreSQL surface: protocol 3 on a socket of its own, SQL in the words of its clients.
//!
//! Does: let clients in (TLS, SCRAM-SHA-256), take simple and extended queries and COPY, keep what a session sets, write rows as
//! text and binary, say errors by SQLSTATE. Does not: know SQL (the program hands the language to the service), or hold the
//! engine.
//!
//! Start at [`Postgres`]. `listener.rs` is the socket, `connection` the conversation, `execution.rs` a statement that runs, `wire`
//! the messages, `values` the types, `copy` COPY. docs/decisions/0015-postgresql-surface.md says why it is as it is.

mod connection;
mod copy;
mod execution;
mod listener;
mod rows;
mod settings;
mod sqlstate;
mod statement;
mod values;
mod wire;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_http::Tls;
use nilometer_service::{CancellationToken, Error, Service, Surface};
use tokio::net::TcpListener;

/// The language of its statements.
const LANGUAGE: &str = "sql";

/// Settings of the surface. An error that a limit causes names the setting: the field's name with `pg-` before it and hyphens.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    /// Certificate and key; `None` = nothing is encrypted.
    pub tls: Option<Tls>,
    /// Connections at one time; others are refused.
    pub connections_max: usize,
    /// How long a client may take to begin.
    pub startup_ms_max: u64,
    /// Bytes of one message of a client.
    pub message_bytes_max: usize,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            tls: None,
            connections_max: 1024,
            startup_ms_max: 30_000,
            message_bytes_max: 64 << 20,
        }
    }
}

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
        listener::serve(*self, service, stop).boxed()
    }
}
