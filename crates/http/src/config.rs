//! Every limit of the listener, with its default; what surfaces of all protocols share is in `ServiceOptions`. An error that a limit causes names the setting: the field's name with
//! hyphens.

use nilometer_listener::Tls;

use crate::admit::cors::Origins;
use crate::admit::hosts::Hosts;

/// The level of a log line for a request that went well; others are at info or above whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    /// Every request is a line of an ordinary log.
    Info,
    /// Only who asks for details sees them.
    Debug,
}

/// Settings of the listener.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Listen on addresses that other machines reach, although nobody is asked who they are.
    pub insecure: bool,
    /// Certificate and key; `None` = plain HTTP.
    pub tls: Option<Tls>,
    /// Pages of which other servers a browser may let call this one.
    pub cors_origins: Origins,
    /// Names, beside those of this machine itself, under which a server may be asked that asks nobody for a token.
    pub hosts: Hosts,
    /// At which level requests that went well are logged.
    pub access_log: AccessLog,
    /// Bytes of a request's path and query.
    pub url_bytes_max: usize,
    /// Bytes of a request's header names and values together.
    pub header_bytes_max: usize,
    /// Bytes of a request body after inflation.
    pub body_bytes_max: usize,
    /// Bytes of a compressed request body as it is sent.
    pub body_compressed_bytes_max: usize,
    /// How many times larger than what was sent a body may become by inflation.
    pub body_ratio_max: usize,
    /// How long a client may take to send a body.
    pub body_read_ms_max: u64,
    /// How long a client may take to send the head of a request, counted from the end of the one before.
    pub header_read_ms_max: u64,
    /// Connections at one time; others wait to be accepted.
    pub connections_max: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            insecure: false,
            tls: None,
            cors_origins: Origins::default(),
            hosts: Hosts::default(),
            access_log: AccessLog::Debug,
            url_bytes_max: 32 << 10,
            header_bytes_max: 32 << 10,
            body_bytes_max: 256 << 20,
            body_compressed_bytes_max: 32 << 20,
            body_ratio_max: 100,
            body_read_ms_max: 60_000,
            header_read_ms_max: 30_000,
            connections_max: 1024,
        }
    }
}
