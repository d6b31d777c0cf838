//! Errors of requests, and the one table of their HTTP statuses.

use std::io;
use std::net::SocketAddr;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_engine::Error as EngineError;
use nilometer_service::{Class, Error as ServiceError};
use serde_json::{Map, Value, json};

/// An error that keeps the server from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is reachable from other machines, without TLS or without a token.
    #[error(
        "{address} is reachable from other machines and this server {lack}; set --tls-cert, --tls-key and --token-file, or bind to 127.0.0.1, or add --insecure if the network is trusted"
    )]
    Insecure {
        /// The address.
        address: SocketAddr,
        /// What it does without.
        lack: &'static str,
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
}

/// An answer other than success: a status and a sentence, and what goes with them.
#[derive(Debug, Clone)]
pub struct ErrorResponse {
    /// What HTTP says of it.
    pub status: StatusCode,
    /// The sentence.
    pub error: String,
    /// Further members of the JSON body.
    pub members: Map<String, Value>,
    /// The setting whose limit was reached.
    pub limit: Option<&'static str>,
    retry_after_s: Option<u32>,
    words: &'static Words,
    /// The body in another form than ours, and what that is.
    written: Option<Box<(&'static str, Vec<u8>)>>,
}

/// The words of a surface: how its clients know errors, and what else its answers carry.
#[derive(Debug)]
pub struct Words {
    /// Headers of every answer, names in small letters.
    pub headers: &'static [(&'static str, &'static str)],
    /// A header that repeats an error's text, its name in small letters.
    pub error_header: Option<&'static str>,
    /// Whether the body of an error names the request.
    pub names_request: bool,
    /// For the status of an error and the setting whose limit was reached: the status to send, and how the text begins.
    pub say: fn(StatusCode, Option<&'static str>) -> (StatusCode, &'static str),
}

/// Our own: statuses as they are, and the request's id in the body.
static OWN: Words = Words {
    headers: &[],
    error_header: None,
    names_request: true,
    say: |status, _| (status, ""),
};

impl Words {
    /// Our own.
    pub fn own() -> &'static Self {
        &OWN
    }
}

/// Bytes of an error's text in the header that repeats it, as in `InfluxDB` 1.
const ERROR_HEADER_BYTES_MAX: usize = 1024;

impl ErrorResponse {
    /// An error by its status.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            members: Map::new(),
            limit: None,
            retry_after_s: None,
            words: Words::own(),
            written: None,
        }
    }

    /// An error by what it means.
    pub fn of(class: Class, error: impl Into<String>) -> Self {
        Self::new(status_of(class), error)
    }

    /// The request is wrong as it stands.
    pub fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A limit: `what` it is about, with its value in it, and the setting that moves it.
    pub fn limit(status: StatusCode, what: impl std::fmt::Display, setting: &'static str) -> Self {
        Self {
            limit: Some(setting),
            ..Self::new(status, format!("{what} (setting {setting})"))
        }
    }

    /// A limit that may no longer be reached a moment later.
    pub fn busy(status: StatusCode, what: impl std::fmt::Display, setting: &'static str) -> Self {
        Self {
            retry_after_s: Some(1),
            ..Self::limit(status, what, setting)
        }
    }

    /// With another member of the body.
    #[must_use]
    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.to_owned(), value);
        self
    }

    /// Something in here broke; the log has the details.
    pub fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// The setting whose limit was reached.
    fn limit_hit(&self) -> Option<&'static str> {
        self.limit
    }

    /// The same in the words of a surface.
    #[must_use]
    pub fn in_words(mut self, words: &'static Words) -> Self {
        let (status, prefix) = (words.say)(self.status, self.limit);
        self.words = words;
        self.status = status;
        self.error.insert_str(0, prefix);
        self
    }

    /// With a body of another form, for clients that ask for one.
    #[must_use]
    pub fn written_as(mut self, media_type: &'static str, body: Vec<u8>) -> Self {
        self.written = Some(Box::new((media_type, body)));
        self
    }

    fn body(&self, request_id: Option<&str>) -> Vec<u8> {
        if let Some(written) = &self.written {
            return written.1.clone();
        }
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::String(self.error.clone()));
        body.extend(self.members.clone());
        if self.words.names_request
            && let Some(id) = request_id
        {
            body.insert("request_id".to_owned(), Value::String(id.to_owned()));
        }
        format!("{}\n", Value::Object(body)).into_bytes()
    }

    /// The response; a refusal that has not got its request's id yet travels with it until [`Self::name_request`].
    fn response(&self, request_id: Option<&str>) -> Response {
        let written = self.written.as_ref();
        let content_type = written.map_or("application/json", |written| written.0);
        let content_type = HeaderValue::from_static(content_type);
        let mut response = (
            self.status,
            [(header::CONTENT_TYPE, content_type)],
            self.body(request_id),
        )
            .into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(name) = self.words.error_header
            && let Some(text) = header_text(&self.error)
        {
            headers.insert(HeaderName::from_static(name), text);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            for challenge in CHALLENGES {
                headers.append(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static(challenge),
                );
            }
        }
        response
    }

    /// Puts the request's id into the body of a refusal, if the response is one, and tells what a log says of it.
    pub(crate) fn name_request(response: &mut Response, id: &str) -> Option<Refused> {
        let refusal = response.extensions_mut().remove::<Self>()?;
        let named = refusal.response(Some(id));
        // What outer layers have added meanwhile, such as Allow, stays.
        *response.body_mut() = named.into_body();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        Some(Refused {
            limit: refusal.limit_hit(),
            error: refusal.shown(),
        })
    }

    /// Why, for a line of the log: its beginning, and the first of the lines of a body that were refused.
    fn shown(&self) -> String {
        let rejected = self.members.get("data").and_then(Value::as_array);
        let first = rejected.and_then(|lines| lines.first());
        let reason = first.and_then(|line| line.get("error_message")?.as_str());
        let line = first.and_then(|line| line.get("line_number")?.as_u64());
        let text = match (line, reason) {
            (Some(line), Some(reason)) => format!("{} (line {line}: {reason})", self.error),
            _ => self.error.clone(),
        };
        let mut end = text.len().min(ERROR_LOGGED_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.get(..end).unwrap_or_default().to_owned()
    }
}

/// What a log says of a refusal.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The setting whose limit was reached.
    pub(crate) limit: Option<&'static str>,
    pub(crate) error: String,
}

/// Bytes of an error's text in a line of the log: the text may have a piece of the request in it.
const ERROR_LOGGED_BYTES_MAX: usize = 500;

/// The ways to show a token; old clients know the second only.
const CHALLENGES: [&str; 2] = ["Bearer realm=\"nilometer\"", "Basic realm=\"nilometer\""];

/// The start of a text as a header: one line, no control characters.
fn header_text(text: &str) -> Option<HeaderValue> {
    let one_line: String = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let mut end = one_line.len().min(ERROR_HEADER_BYTES_MAX);
    while !one_line.is_char_boundary(end) {
        end -= 1;
    }
    HeaderValue::from_str(one_line.get(..end)?).ok()
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let mut response = self.response(None);
        response.extensions_mut().insert(self);
        response
    }
}

/// The status of an error from below; what HTTP itself refuses has statuses that no other protocol knows.
///
/// What a later attempt may find otherwise is 503, which clients of `InfluxDB` keep their rows for; they throw them away
/// after a 4xx.
fn status_of(class: Class) -> StatusCode {
    match class {
        Class::BadRequest => StatusCode::BAD_REQUEST,
        Class::Unauthorized => StatusCode::UNAUTHORIZED,
        Class::Forbidden => StatusCode::FORBIDDEN,
        Class::NotFound => StatusCode::NOT_FOUND,
        Class::Conflict => StatusCode::CONFLICT,
        Class::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Class::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Class::Unsupported => StatusCode::NOT_IMPLEMENTED,
        Class::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Class::Time => StatusCode::GATEWAY_TIMEOUT,
        Class::Storage => StatusCode::INSUFFICIENT_STORAGE,
    }
}

impl From<EngineError> for ErrorResponse {
    fn from(error: EngineError) -> Self {
        ServiceError::from(error).into()
    }
}

impl From<ServiceError> for ErrorResponse {
    fn from(error: ServiceError) -> Self {
        if let ServiceError::Engine(EngineError::UnknownDatabase { name }) = &error
            && name.is_empty()
        {
            return Self::bad_request("missing query parameter 'db': this needs a database");
        }
        let position = error.position();
        let text = match position {
            Some(place) => format!("{error} (line {}, column {})", place.line, place.column),
            None => error.to_string(),
        };
        let refusal = Self {
            limit: error.setting(),
            retry_after_s: error.passes().then_some(1),
            ..Self::of(error.class(), text)
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
            let refusal = ErrorResponse::from(error);
            let waits = text.contains("memory_bytes_max");
            assert_eq!(refusal.retry_after_s.is_some(), waits, "{text}");
            assert_eq!(refusal.status.as_u16(), status, "{text}");
            assert_eq!(refusal.error, text);
        }
    }
}
