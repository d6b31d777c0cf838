//! Requests to `/query`: parameters of the address, of a form, or of a form in parts.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures::stream;
use multer::Multipart;
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Http, Parameters};
use nilometer_service::{Param, Params};
use serde_json::Value;

use crate::encode::Times;

/// Rows of a chunk unless the client says otherwise.
const CHUNK_ROWS: usize = 10_000;

/// The parameters that a form may have.
const NAMES: [&str; 11] = [
    "q",
    "db",
    "rp",
    "epoch",
    "time_format",
    "chunked",
    "chunk_size",
    "params",
    "async",
    "u",
    "p",
];

/// What is asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) database: String,
    /// A retention policy; empty = the default one.
    pub(super) policy: String,
    pub(super) parameters: Params,
    pub(super) times: Times,
    /// Rows of a chunk; `None` = the answer is one document.
    pub(super) chunk_rows: Option<usize>,
    pub(super) is_pretty: bool,
    pub(super) is_async: bool,
}

/// Only the address says this, and only in one word.
pub(super) fn is_pretty(query: &str) -> bool {
    Parameters::parse(query.as_bytes()).get("pretty") == Some("true")
}

/// Reads a request.
pub(super) async fn read(
    http: &Http,
    headers: &HeaderMap,
    query: &str,
    body: Body,
) -> Result<Asked, ErrorResponse> {
    let mut parameters = Parameters::parse(query.as_bytes());
    let received = receive(headers, body, http, largest(http)).await?;
    if !received.is_empty() {
        let inflated = received.inflate()?;
        posted(headers, inflated.as_ref(), &mut parameters).await?;
    }
    let text = |name: &str| parameters.get(name).unwrap_or_default();
    // Places in errors are those in the text without blanks around it, as there.
    let question = text("q").trim();
    if question.is_empty() {
        return Err(ErrorResponse::bad_request(
            "missing required parameter \"q\"",
        ));
    }
    let length_max = http.service().options().query.sql_bytes_max;
    if question.len() > length_max {
        let what = format!("the query is longer than {length_max} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(ErrorResponse::limit(status, what, "sql-bytes-max"));
    }
    let times = match text("time_format") {
        "rfc3339" => Times::Text,
        "" | "epoch" => Times::of_epoch(text("epoch")),
        _ => {
            return Err(ErrorResponse::bad_request(
                "Time format must be one of the following: rfc3339,epoch",
            ));
        }
    };
    let rows = text("chunk_size").parse().ok().filter(|&rows| rows > 0);
    Ok(Asked {
        text: question.to_owned(),
        database: text("db").to_owned(),
        policy: text("rp").to_owned(),
        parameters: values_of(text("params"))?,
        times,
        chunk_rows: (text("chunked") == "true").then(|| rows.unwrap_or(CHUNK_ROWS)),
        is_pretty: is_pretty(query),
        is_async: text("async") == "true",
    })
}

/// Of a question: a statement, written as a form, and as much again for values.
fn largest(http: &Http) -> Largest {
    let bytes = http.service().options().query.sql_bytes_max;
    Largest {
        bytes: bytes.saturating_mul(12).min(http.config().body_bytes_max),
        setting: "sql-bytes-max",
        advice: "a question is statements and values for them; write rows to /write",
    }
}

/// Takes parameters from a posted body. What is no form is not looked at, as there.
async fn posted(
    headers: &HeaderMap,
    body: &[u8],
    parameters: &mut Parameters,
) -> Result<(), ErrorResponse> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let name = kind.split(';').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let form = Parameters::parse(body);
        for name in NAMES {
            if let Some(value) = form.get(name) {
                parameters.push(name, value.to_owned());
            }
        }
    } else if name.eq_ignore_ascii_case("multipart/form-data") {
        for (name, value) in parts(kind, body).await? {
            if NAMES.contains(&name.as_str()) {
                parameters.push(&name, value);
            }
        }
    }
    Ok(())
}

/// The parts of a form by name; a file is a part like any other.
async fn parts(kind: &str, body: &[u8]) -> Result<BTreeMap<String, String>, ErrorResponse> {
    let wrong = |error: multer::Error| {
        ErrorResponse::bad_request(format!("the form in parts cannot be read: {error}"))
    };
    let boundary = multer::parse_boundary(kind).map_err(wrong)?;
    let body = Bytes::copy_from_slice(body);
    let body = stream::iter([Ok::<_, std::convert::Infallible>(body)]);
    let mut form = Multipart::new(body, boundary);
    let mut parts = BTreeMap::new();
    while let Some(part) = form.next_field().await.map_err(wrong)? {
        let name = part.name().unwrap_or_default().to_owned();
        parts.insert(name, part.text().await.map_err(wrong)?);
    }
    Ok(parts)
}

/// The values of `$name`: an object of texts, numbers, booleans, or objects that name their kind.
fn values_of(text: &str) -> Result<Params, ErrorResponse> {
    let mut params = Params::new();
    if text.is_empty() {
        return Ok(params);
    }
    let wrong =
        |why: String| ErrorResponse::bad_request(format!("error parsing query parameters: {why}"));
    let values: BTreeMap<String, Value> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    for (name, value) in values {
        let value = value_of(value).map_err(|why| wrong(format!("{name}: {why}")))?;
        params.set(name, value);
    }
    Ok(params)
}

fn value_of(value: Value) -> Result<Param, &'static str> {
    match value {
        Value::Null => Ok(Param::Null),
        Value::Bool(value) => Ok(value.into()),
        Value::String(value) => Ok(value.into()),
        // A number is a float if it is written as one.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Ok(value.into()),
            (None, Some(value)) => Ok(value.into()),
            (None, None) => Err("the number is too large"),
        },
        Value::Object(members) => {
            let mut members = members.into_iter();
            match (members.next(), members.next()) {
                (Some((kind, value)), None) => {
                    let value = Box::new(value_of(value)?);
                    Ok(Param::Of { kind, value })
                }
                _ => Err("an object names one kind and its value"),
            }
        }
        Value::Array(_) => Err("a list is no value"),
    }
}
