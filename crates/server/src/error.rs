//! What can go wrong, and the one place that chooses an HTTP status for it.

use std::io;
use std::net::SocketAddr;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_engine::Error as EngineError;
use nilometer_query::Error as QueryError;
use serde_json::{Map, Value, json};

/// An error that keeps the server from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is reachable from other machines, and there is no authentication yet.
    #[error(
        "{address} is reachable from other machines and this server asks nobody who they are; bind to 127.0.0.1, or add --insecure if the network is trusted"
    )]
    Insecure {
        /// The address.
        address: SocketAddr,
    },
    /// The system refused something about the listening socket.
    #[error("cannot {op} the listening socket: {source}")]
    Listener {
        /// What was tried.
        op: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The system refused threads.
    #[error("cannot start threads for {what}: {source}")]
    Threads {
        /// What they are for.
        what: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An answer broke off on its way.
    #[error("the answer broke off: {source}")]
    Answer {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The query engine does not start.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The store could not be closed in an orderly way.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// An answer other than success: a status and a sentence, and what goes with them.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: String,
    /// Further members of the JSON body.
    pub(crate) members: Map<String, Value>,
    /// The setting whose limit was reached.
    pub(crate) limit: Option<&'static str>,
    retry_after_s: Option<u32>,
}

/// Travels with a response so that the metrics know which limit it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitHit(pub(crate) &'static str);

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            members: Map::new(),
            limit: None,
            retry_after_s: None,
        }
    }

    /// The request is wrong as it stands.
    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A limit: `what` it is about, with its value in it, and the setting that moves it.
    pub(crate) fn limit(
        status: StatusCode,
        what: impl std::fmt::Display,
        setting: &'static str,
    ) -> Self {
        Self {
            limit: Some(setting),
            ..Self::new(status, format!("{what} (setting {setting})"))
        }
    }

    /// A limit that may no longer be reached a moment later.
    pub(crate) fn busy(
        status: StatusCode,
        what: impl std::fmt::Display,
        setting: &'static str,
    ) -> Self {
        Self {
            retry_after_s: Some(1),
            ..Self::limit(status, what, setting)
        }
    }

    pub(crate) fn member(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }

    /// Something in here broke; the log has the details.
    pub(crate) fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::String(self.error));
        body.extend(self.members);
        let text = format!("{}\n", Value::Object(body));
        let mut response = (
            self.status,
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )],
            text,
        )
            .into_response();
        if let Some(seconds) = self.retry_after_s {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(setting) = self.limit {
            response.extensions_mut().insert(LimitHit(setting));
        }
        response
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        // What a later attempt may find otherwise is 503 with a time, which clients of InfluxDB keep their rows for; they
        // throw them away after a 4xx.
        let (status, limit) = match &error {
            EngineError::UnknownDatabase { .. }
            | EngineError::NotFound { .. }
            | EngineError::TableDropped { .. }
            | EngineError::RelationDropped { .. } => (StatusCode::NOT_FOUND, None),
            EngineError::ExistsAlready { .. }
            | EngineError::DefaultSchemaInUse { .. }
            | EngineError::RelationKey { .. }
            | EngineError::RowConflict { .. }
            | EngineError::ChangedMeanwhile { .. }
            | EngineError::Lossy { .. } => (StatusCode::CONFLICT, None),
            EngineError::InvalidName { .. }
            | EngineError::InvalidSetting { .. }
            | EngineError::RelationDefinition { .. }
            | EngineError::RelationRow { .. }
            | EngineError::TypedColumn { .. }
            | EngineError::TypedRow { .. }
            | EngineError::NoConflicts { .. }
            | EngineError::NotAField { .. } => (StatusCode::BAD_REQUEST, None),
            EngineError::Limit { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Some("engine")),
            EngineError::Poisoned { .. } => (StatusCode::SERVICE_UNAVAILABLE, None),
            EngineError::Memory { .. } => {
                return Self {
                    limit: Some("memory-bytes-max"),
                    retry_after_s: Some(1),
                    ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
                };
            }
            EngineError::DiskFull { .. } => {
                (StatusCode::INSUFFICIENT_STORAGE, Some("disk-reserve-bytes"))
            }
            EngineError::Io { source, .. } if is_disk_full(source) => {
                (StatusCode::INSUFFICIENT_STORAGE, None)
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        Self {
            limit,
            ..Self::new(status, error.to_string())
        }
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let position = error.position();
        let text = match position {
            Some(place) => format!("{error} (line {}, column {})", place.line, place.column),
            None => error.to_string(),
        };
        let (status, limit) = match error {
            QueryError::Engine(engine) => return engine.into(),
            QueryError::Syntax { .. }
            | QueryError::Unsupported { .. }
            | QueryError::UnknownTable { .. }
            | QueryError::UnknownColumn { .. }
            | QueryError::UnknownName { .. }
            | QueryError::Parameter { .. }
            | QueryError::View { .. }
            | QueryError::Plan { .. }
            | QueryError::Execution { .. } => (StatusCode::BAD_REQUEST, None),
            QueryError::ReadOnly => (StatusCode::FORBIDDEN, None),
            QueryError::Killed { .. } => (StatusCode::CONFLICT, None),
            QueryError::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Some("sql-bytes-max")),
            QueryError::TooDeep { .. } => (StatusCode::BAD_REQUEST, Some("sql-operators-max")),
            QueryError::Memory(nilometer_query::OverMemory::Query { .. }) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                Some("query-memory-bytes-max"),
            ),
            QueryError::Memory(nilometer_query::OverMemory::Budget { .. }) => {
                (StatusCode::SERVICE_UNAVAILABLE, Some("memory-bytes-max"))
            }
            QueryError::Memory(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                Some("queries-memory-bytes-max"),
            ),
            QueryError::Time { .. } => (StatusCode::GATEWAY_TIMEOUT, Some("query-ms-max")),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let refusal = Self {
            limit,
            ..Self::new(status, text)
        };
        match position {
            Some(position) => refusal
                .member("line", json!(position.line))
                .member("column", json!(position.column)),
            None => refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_error_has_the_status_that_tells_the_client_what_to_do() {
        let io = |kind| EngineError::Io {
            op: "write",
            path: "x".into(),
            source: io::Error::from(kind),
        };
        let poisoned = EngineError::Poisoned {
            reason: "sync failed".into(),
        };
        let unknown = EngineError::UnknownDatabase { name: "d".into() };
        let limit = EngineError::Limit {
            what: "points",
            limit: 1,
            needed: 2,
            remedy: "split",
        };
        let memory = EngineError::Memory {
            usage: "index",
            limit: 1,
            needed: 2,
            total: 3,
            remedy: "write fewer series",
        };
        let full = EngineError::DiskFull {
            free: 1,
            reserve: 2,
            path: "x".into(),
        };
        let dropped = EngineError::TableDropped { table: "t".into() };
        for (error, status) in [
            (io(io::ErrorKind::StorageFull), 507),
            (io(io::ErrorKind::Other), 500),
            (poisoned, 503),
            (memory, 503),
            (full, 507),
            (dropped, 404),
            (unknown, 404),
            (limit, 413),
        ] {
            let text = error.to_string();
            let refusal = Refusal::from(error);
            let waits = text.contains("memory_bytes_max");
            assert_eq!(refusal.retry_after_s.is_some(), waits, "{text}");
            assert_eq!(refusal.status.as_u16(), status, "{text}");
            assert_eq!(refusal.error, text);
        }
    }
}
