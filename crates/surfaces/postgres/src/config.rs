//! Settings of the surface.

use nilometer_listener::Tls;

/// The language of its statements.
pub(crate) const LANGUAGE: &str = "sql";

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
