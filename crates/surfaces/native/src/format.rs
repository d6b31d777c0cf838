//! Result formats: negotiation, and writers that append batches to a buffer.
//!
//! None holds more than a part of an answer, except the table for people, which is limited. Tags come as dictionaries
//! and stay so up to here; Arrow streams carry them on.

mod binary;
mod text;

use std::fmt::Display;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use axum::http::{HeaderMap, header};

use binary::{Parquet, Stream};
use nilometer_http::ErrorResponse;
pub(crate) use text::Piece;
use text::Text;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// An array of objects.
    Json,
    /// An object a line.
    JsonLines,
    /// A header line, then a line a row.
    Csv,
    /// A table for people.
    Pretty,
    /// A stream of Arrow's IPC format.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// Names and media types; the first type of a format is what its answers say they are.
const FORMATS: [(Format, &str, &[&str]); 6] = [
    (
        Format::Json,
        "json",
        &["application/json", "*/*", "application/*"],
    ),
    (
        Format::JsonLines,
        "jsonl",
        &["application/jsonl", "application/x-ndjson"],
    ),
    (
        Format::Csv,
        "csv",
        &["text/csv; charset=utf-8", "text/csv", "application/csv"],
    ),
    (
        Format::Pretty,
        "pretty",
        &["text/plain; charset=utf-8", "text/plain", "text/*"],
    ),
    (
        Format::Arrow,
        "arrow",
        &["application/vnd.apache.arrow.stream"],
    ),
    (
        Format::Parquet,
        "parquet",
        &["application/vnd.apache.parquet"],
    ),
];

impl Format {
    /// What the parameter says, else what the client accepts, else JSON.
    pub(crate) fn of(parameter: Option<&str>, headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let Some(name) = parameter else {
            return Self::accepted(headers);
        };
        // Another name of InfluxDB 3.
        let name = if name == "json_lines" { "jsonl" } else { name };
        let known = FORMATS.iter().find(|(_, known, _)| *known == name);
        known.map(|(format, _, _)| *format).ok_or_else(|| {
            ErrorResponse::bad_request(format!(
                "unknown format '{name}': use json, jsonl, csv, arrow, parquet or pretty"
            ))
        })
    }

    /// The first that is known of what the client accepts. Weights are not looked at: clients list what they want first.
    fn accepted(headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let Some(accept) = headers.get(header::ACCEPT) else {
            return Ok(Self::Json);
        };
        let accept = accept.to_str().unwrap_or_default();
        if accept.trim().is_empty() {
            return Ok(Self::Json);
        }
        let mut kinds = accept
            .split(',')
            .map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let found = kinds.find_map(|kind| {
            FORMATS
                .iter()
                .find(|(_, _, types)| types.iter().any(|known| known.eq_ignore_ascii_case(kind)))
        });
        found.map(|(format, _, _)| *format).ok_or_else(|| {
            ErrorResponse::bad_request(format!(
                "no media type in Accept '{accept}' is supported: use application/json, application/jsonl, text/csv, text/plain, application/vnd.apache.arrow.stream or application/vnd.apache.parquet, or the parameter format=json, jsonl, csv, arrow, parquet or pretty"
            ))
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        let known = FORMATS.iter().find(|(format, _, _)| *format == self);
        known
            .and_then(|(_, _, types)| types.first())
            .copied()
            .unwrap_or("application/octet-stream")
    }
}

/// Writes one answer. Text shows times in the zone of the session; columns have them in UTC.
pub(crate) enum Writer {
    Text(Text),
    Stream(Box<Stream>),
    Parquet(Box<Parquet>),
}

impl Writer {
    pub(crate) fn new(
        format: Format,
        schema: SchemaRef,
        pretty_rows_max: usize,
        zone: Option<&str>,
    ) -> Result<Self, ErrorResponse> {
        Ok(match format {
            Format::Arrow => Self::Stream(Box::new(Stream::new(&schema)?)),
            Format::Parquet => Self::Parquet(Box::new(Parquet::new(schema)?)),
            Format::Json | Format::JsonLines | Format::Csv | Format::Pretty => {
                Self::Text(Text::new(format, schema, pretty_rows_max, zone))
            }
        })
    }

    /// Appends the rows of a batch to `out`, now or with a later batch.
    pub(crate) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorResponse> {
        match self {
            Self::Text(text) => text.batch(batch, out),
            Self::Stream(stream) => stream.batch(batch, out),
            Self::Parquet(parquet) => parquet.batch(batch, out),
        }
    }

    /// The rows of a batch as a piece of the answer that anybody may write, before the next batch or with it; `None` = what
    /// is written of them depends on those before.
    pub(crate) fn piece(&mut self, batch: &RecordBatch) -> Option<Piece> {
        match self {
            Self::Text(text) => text.piece(batch),
            Self::Stream(_) | Self::Parquet(_) => None,
        }
    }

    /// Bytes of rows that wait to be written with later ones.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Parquet(parquet) => parquet.held_bytes(),
            Self::Text(_) | Self::Stream(_) => 0,
        }
    }

    /// Appends what comes after the last row.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        match self {
            Self::Text(text) => text.finish(out),
            Self::Stream(stream) => stream.finish(out),
            Self::Parquet(parquet) => parquet.finish(out),
        }
    }
}

fn cannot(error: &impl Display) -> ErrorResponse {
    ErrorResponse::bad_request(format!(
        "the answer cannot be written in this format: {error}; cast the column to text"
    ))
}
