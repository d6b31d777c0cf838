//! Encoders of answers: JSON, CSV and `MessagePack`, as `InfluxDB` 1 writes them.
//!
//! Does: choose one for a client, append the parts of an answer to a buffer as they come. Does not: decide what is sent
//! when (`query/send.rs` does), or hold an answer, except `MessagePack`, which says how much follows before it follows.

mod cells;
mod csv;
mod json;
mod json_rows;
mod msgpack;
mod number;
mod text;
mod time;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use axum::http::{HeaderMap, header};
use nilometer_service::SetHead;

use self::csv::Csv;
use self::json::Json;
use self::msgpack::MessagePack;
pub(crate) use self::time::{Times, rfc3339};

/// What the server says about a statement beside its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) level: &'static str,
    pub(crate) text: String,
}

/// How the answer of a statement ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResultEnd<'a> {
    /// More of it follows in the next document.
    pub(crate) is_partial: bool,
    /// Why there is no more.
    pub(crate) error: Option<&'a str>,
}

/// Writes one document. The calls nest: a document has results, a result has series, a series has rows.
pub(crate) trait Encode: Send + Sync {
    /// Begins a document of so many results.
    fn begin(&mut self, results: usize, out: &mut Vec<u8>);
    /// Begins the result of a statement.
    fn begin_result(&mut self, statement: usize, messages: &[Message], out: &mut Vec<u8>);
    /// Begins a series.
    fn begin_series(&mut self, head: &SetHead, columns: &SchemaRef, out: &mut Vec<u8>);
    /// Appends rows of the series, which are some of a batch.
    fn rows(&mut self, batch: &Arc<RecordBatch>, rows: Range<usize>, out: &mut Vec<u8>);
    /// Ends the series; `is_partial` = its rows go on in the next document.
    fn end_series(&mut self, is_partial: bool, out: &mut Vec<u8>);
    /// What was written since the result began is not there any more.
    fn take_back_result(&mut self);
    /// Ends the result, and a series that has not ended.
    fn end_result(&mut self, end: ResultEnd<'_>, out: &mut Vec<u8>);
    /// Ends the document.
    fn end(&mut self, out: &mut Vec<u8>);
    /// Whether what is written may change until its result ends, so that it cannot leave before.
    fn holds_results(&self) -> bool {
        false
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// What its answers say they are.
    pub(crate) media_type: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Csv,
    MessagePack,
}

/// Media types; the first is for whoever accepts none of them.
const FORMS: [Form; 4] = [
    form("application/json", Kind::Json),
    form("application/csv", Kind::Csv),
    form("text/csv", Kind::Csv),
    form("application/x-msgpack", Kind::MessagePack),
];

const fn form(media_type: &'static str, kind: Kind) -> Form {
    Form { media_type, kind }
}

impl Form {
    /// What a client accepts, the best first by its weights; JSON for one that accepts nothing that is known.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let mut accepted: Vec<(f32, &str)> = texts
            .flat_map(|text| text.split(','))
            .map(weighed)
            .collect();
        // Stable: of the same weight, the first.
        accepted.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let [json, ..] = FORMS;
        let found = accepted.iter().find_map(|(_, kind)| {
            let mut forms = FORMS.iter();
            forms.find(|form| matches(kind, form.media_type))
        });
        found.copied().unwrap_or(json)
    }

    /// An encoder. `is_pretty` = for people, where that makes a difference.
    pub(crate) fn encoder(self, times: Times, is_pretty: bool) -> Box<dyn Encode> {
        match self.kind {
            Kind::Json => Box::new(Json::new(times, is_pretty)),
            Kind::Csv => Box::new(Csv::new(times)),
            Kind::MessagePack => Box::new(MessagePack::new(times)),
        }
    }

    /// A document that is nothing but an error.
    pub(crate) fn error(self, text: &str, is_pretty: bool) -> Vec<u8> {
        match self.kind {
            Kind::Json => json::error(text, is_pretty),
            Kind::Csv => csv::error(text),
            Kind::MessagePack => msgpack::error(text),
        }
    }
}

/// A media range and its weight.
fn weighed(range: &str) -> (f32, &str) {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q="));
    (weight.map_or(1.0, |q| q.parse().unwrap_or(1.0)), kind)
}

fn matches(range: &str, media_type: &str) -> bool {
    let parts = |text: &str| {
        let (kind, subtype) = text.split_once('/').unwrap_or((text, ""));
        (kind.to_ascii_lowercase(), subtype.to_ascii_lowercase())
    };
    let ((kind, subtype), (known_kind, known_subtype)) = (parts(range), parts(media_type));
    (kind == "*" || kind == known_kind) && (subtype == "*" || subtype == known_subtype)
}

#[cfg(test)]
mod tests;
