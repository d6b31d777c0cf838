//! Sockets of surfaces that are not spoken over HTTP, and TLS for all of them.
//!
//! Does: accept connections, give each a place, let what runs end at a stop ([`serve`]); make TLS of a certificate and a key
//! ([`Tls`]). Does not: know a protocol.

mod sockets;
mod tls;

pub use sockets::{Came, Places, serve};
pub use tls::{PemFile, Tls, TlsError};
