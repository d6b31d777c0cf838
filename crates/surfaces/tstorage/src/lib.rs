//! The TStorage surface: GET, `GET_ACQ`, PUT and PUTA on a socket of its own, over rows of an ordinary table.
//!
//! Does: read and write records as TStorage's clients send and expect them, stream them in both directions, make the table,
//! say errors by status. Does not: ask who comes, because the protocol has no login: every client is the user that the settings
//! name; nor keep anything that SQL and `InfluxQL` cannot read.
//!
//! Start at [`Tstorage`]. `listener.rs` is the socket, `connection.rs` the requests, `wire.rs` their bytes; `put.rs` and `chunk.rs`
//! are for records in, `get.rs` and `reader.rs` for records out, `table.rs` for the table, `payload.rs` for numbers
//! in payloads.
//! docs/decisions/0021-tstorage-surface.md says why it is as it is.

#![expect(
    clippy::similar_names,
    reason = "cid, mid and moid are the protocol's words for the parts of a key"
)]

mod chunk;
mod config;
mod connection;
mod encoder;
mod error;
mod get;
mod incoming;
mod listener;
mod metrics;
mod payload;
mod put;
mod reader;
mod table;
mod wire;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_service::{CancellationToken, Error, Service, Surface};
use tokio::net::TcpListener;

pub use config::{PAYLOAD_BYTES_MAX, TableName, TstorageConfig};

/// The surface, on its socket.
#[derive(Debug)]
pub struct Tstorage {
    /// Where clients come.
    pub listener: TcpListener,
    /// Settings.
    pub config: TstorageConfig,
}

impl Surface for Tstorage {
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        listener::serve(self.listener, self.config, service, stop).boxed()
    }
}
