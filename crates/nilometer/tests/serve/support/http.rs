//! The HTTP client of the tests: one request, one response, no retries, every status is an answer.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};
use ureq::Agent;

use super::WAIT_MAX;

/// Widest answer a test reads; the widest real one has about ten megabytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// One row of an answer in JSON, by column name.
pub(crate) type Row = Map<String, Value>;

/// Status and body of an answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("status {}: no JSON ({error}): {}", self.status, self.text())
        })
    }

    /// The sentence that says what was wrong, from the `error` of a JSON body.
    pub(crate) fn error(&self) -> String {
        match self.json().get("error") {
            Some(Value::String(error)) => error.clone(),
            _ => panic!("status {}: no \"error\" in {}", self.status, self.text()),
        }
    }
}

/// An agent that keeps connections and gives up after the longest wait of a test.
pub(super) fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(WAIT_MAX))
        .build()
        .into()
}

/// Asks for a page; the parameters are escaped here.
pub(super) fn get(
    agent: &Agent,
    url: &str,
    parameters: &[(&str, &str)],
) -> Result<Response, ureq::Error> {
    read(
        agent
            .get(url)
            .query_pairs(parameters.iter().copied())
            .call()?,
    )
}

/// Sends a body; the parameters are escaped here.
pub(super) fn post(
    agent: &Agent,
    url: &str,
    parameters: &[(&str, &str)],
    encoding: Option<&str>,
    body: &[u8],
) -> Result<Response, ureq::Error> {
    let mut request = agent.post(url).query_pairs(parameters.iter().copied());
    if let Some(encoding) = encoding {
        request = request.header("Content-Encoding", encoding);
    }
    read(request.send(body)?)
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Response, ureq::Error> {
    let status = response.status().as_u16();
    let body = response
        .body_mut()
        .with_config()
        .limit(ANSWER_BYTES_MAX)
        .read_to_vec()?;
    Ok(Response { status, body })
}

/// The bytes as a gzip stream.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}
