//! `POST /api/v3/write_arrow`: record batches of an Arrow stream into a table, each of them one atomic batch.
//!
//! Does: write a batch as soon as it is there, and say in the end, well or not, how much was written. Does not: decide
//! what tables and columns become that are not there (the engine does), or take back what was written before an error.

mod messages;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::Schema;
use axum::extract::{RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_engine::ingest::{OnConflict, SeenKeys, TypedReport};
use nilometer_engine::{Duplicates, Error as EngineError, TIME_COLUMN};
use nilometer_http::body::Encoding;
use nilometer_http::{ErrorResponse, Parameters, idempotency, principal_of};
use nilometer_service::{RowTarget, Scope, Service, catch_panic};
use serde_json::{Value, json};

use crate::app::App;
use messages::Messages;

/// Keys of one stream that are remembered, to count rows that are merged with those of an earlier batch.
const SEEN_KEYS_MAX: usize = 1 << 18;

const CONTENT_TYPE: &str = "application/vnd.apache.arrow.stream";

pub(crate) async fn write_arrow(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let mut messages = Messages::new(body, &app.http);
    let mut written = Written::default();
    let outcome = match ArrowTarget::of(&app, &parameters, &head) {
        Ok(place) => write_stream(&app, &Arc::new(place), &mut messages, &mut written).await,
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = outcome {
        messages.discard(&head.headers).await;
        return Err(written
            .members()
            .into_iter()
            .fold(refusal, |refusal, (name, value)| {
                refusal.member(name, value)
            }));
    }
    let body: serde_json::Map<String, Value> = written
        .members()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let content_type = HeaderValue::from_static("application/json");
    let text = format!("{}\n", Value::Object(body));
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

/// Where rows go.
#[derive(Debug)]
struct ArrowTarget {
    rows: RowTarget,
    /// The column that has the times, if it is called otherwise.
    time: Option<String>,
    /// Names the stream; each of its batches has a name made of it.
    key: Option<[u8; 16]>,
}

impl ArrowTarget {
    fn of(app: &App, parameters: &Parameters, head: &Parts) -> Result<Self, ErrorResponse> {
        check_headers(&head.headers)?;
        let database = parameters.required("db")?.to_owned();
        let table = parameters.required("table")?.to_owned();
        let creates = parameters.flag("create", true)?;
        let adds_columns = parameters.flag("add_columns", false)?;
        let schema = parameters.get("schema").filter(|schema| !schema.is_empty());
        let wished = wished_duplicates(parameters)?;
        let known = duplicates(app, &database, schema, &table, creates)?;
        let duplicates = agreed_duplicates(&table, known, wished)?;
        let on_conflict = match (parameters.get("on_conflict"), duplicates) {
            (Some("error"), _) | (None, Duplicates::Unique) => OnConflict::Error,
            (Some("skip"), _) => OnConflict::Skip,
            (Some("replace") | None, _) => OnConflict::Replace,
            (Some(other), _) => {
                return Err(ErrorResponse::bad_request(format!(
                    "invalid on_conflict '{other}': use error, skip or replace"
                )));
            }
        };
        let key = idempotency::key_of(&head.headers, &database)?;
        let tags: Option<Vec<String>> = parameters.get("tags").map(|names| {
            let names = names.split(',').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        });
        let time = parameters.get("time").filter(|name| !name.is_empty());
        let guesses_tags =
            tags.is_none() && known.is_none() && parameters.flag("guess_tags", true)?;
        let schema = schema.map(str::to_owned);
        let scope = Scope { database, schema };
        Ok(Self {
            rows: RowTarget {
                principal: principal_of(head),
                scope,
                creates,
                table,
                tags,
                adds_columns,
                has_checked: false,
                guesses_tags,
                duplicates,
                on_conflict,
            },
            time: time.map(str::to_owned),
            key,
        })
    }
}

fn wished_duplicates(parameters: &Parameters) -> Result<Option<Duplicates>, ErrorResponse> {
    Ok(Some(match parameters.get("duplicates") {
        None | Some("") => return Ok(None),
        Some("last") => Duplicates::Last,
        Some("keep") => Duplicates::Keep,
        Some("unique") => Duplicates::Unique,
        Some(other) => {
            return Err(ErrorResponse::bad_request(format!(
                "invalid duplicates '{other}': use last, keep or unique"
            )));
        }
    }))
}

/// What counts: the table, or for one that is to be made the wish.
fn agreed_duplicates(
    table: &str,
    known: Option<Duplicates>,
    wished: Option<Duplicates>,
) -> Result<Duplicates, ErrorResponse> {
    match (known, wished) {
        (Some(known), Some(wished)) if known != wished => Err(ErrorResponse::bad_request(format!(
            "the table '{table}' is there with another kind of duplicates; leave duplicates out, or change the table first (ALTER TABLE ... SET (duplicates = ...))"
        ))),
        _ => Ok(known.or(wished).unwrap_or_default()),
    }
}

/// What the table does with duplicates; `None` = it will be made.
fn duplicates(
    app: &App,
    database: &str,
    schema: Option<&str>,
    table: &str,
    creates: bool,
) -> Result<Option<Duplicates>, ErrorResponse> {
    let snapshot = app.service().snapshot();
    let Some(default) = snapshot.default_schema(database) else {
        if creates {
            return Ok(None);
        }
        let name = database.to_owned();
        return Err(EngineError::UnknownDatabase { name }.into());
    };
    let schema = schema.unwrap_or(&default);
    match snapshot.table(database, schema, table) {
        Some(found) => Ok(Some(found.settings.duplicates)),
        None if creates => Ok(None),
        None => Err(ErrorResponse::new(
            StatusCode::NOT_FOUND,
            format!(
                "table not found: \"{database}.{schema}.{table}\"; make it and its columns first, or leave create=false out"
            ),
        )),
    }
}

fn check_headers(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(CONTENT_TYPE) {
        return Err(ErrorResponse::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("unknown Content-Type '{kind}': send {CONTENT_TYPE}"),
        ));
    }
    if Encoding::of(headers)? != Encoding::Identity {
        return Err(ErrorResponse::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "an Arrow stream is taken as it is: leave Content-Encoding out, and let the stream's writer compress its buffers with LZ4 or Zstandard",
        ));
    }
    Ok(())
}

/// What was written so far.
#[derive(Debug, Default)]
struct Written {
    batches: u64,
    rows: u64,
    skipped: u64,
    replaced: u64,
    merged: u64,
    repeated: u64,
}

impl Written {
    fn add(&mut self, report: &TypedReport) {
        self.batches += 1;
        self.rows += report.written;
        self.skipped += report.skipped;
        self.replaced += report.replaced;
        self.merged += report.merged;
        self.repeated += u64::from(report.repeated);
    }

    fn members(&self) -> [(&'static str, Value); 6] {
        [
            ("batches_written", json!(self.batches)),
            ("rows_written", json!(self.rows)),
            ("rows_skipped", json!(self.skipped)),
            ("rows_replaced", json!(self.replaced)),
            ("rows_merged", json!(self.merged)),
            ("batches_repeated", json!(self.repeated)),
        ]
    }
}

/// What goes on from message to message.
#[derive(Debug)]
struct StreamState {
    decoder: StreamDecoder,
    seen: SeenKeys,
}

async fn write_stream(
    app: &Arc<App>,
    place: &Arc<ArrowTarget>,
    messages: &mut Messages,
    written: &mut Written,
) -> Result<(), ErrorResponse> {
    let mut state = StreamState {
        decoder: StreamDecoder::new(),
        seen: SeenKeys::new(SEEN_KEYS_MAX),
    };
    while let Some(message) = messages.next().await? {
        let bytes = message.len();
        let (place, nth) = (Arc::clone(place), written.batches);
        let (back, reports) = write_message(app, place, state, message, nth).await?;
        state = back;
        for report in &reports {
            written.add(report);
        }
        app.service().counters().body_bytes.add(bytes as u64);
    }
    Ok(())
}

/// Decodes a message, and writes the batch that it is, if it is one. A batch without any buffer comes with the message
/// after it.
async fn write_message(
    app: &Arc<App>,
    place: Arc<ArrowTarget>,
    mut state: StreamState,
    message: Vec<u8>,
    nth: u64,
) -> Result<(StreamState, Vec<TypedReport>), ErrorResponse> {
    let work = move |service: &Service| {
        let mut buffer = Buffer::from(message);
        let mut reports = Vec::new();
        while !buffer.is_empty() {
            // The reader checks what it reads, but for some of what a schema can say it panics.
            let batch = match catch_panic(|| state.decoder.decode(&mut buffer)) {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Err(unreadable(&error)),
                None => return Err(unreadable(&"a message contradicts itself")),
            };
            if let Some(batch) = batch {
                let nth = nth + reports.len() as u64;
                reports.push(write_batch(service, &place, &batch, nth, &mut state.seen)?);
            }
        }
        Ok((state, reports))
    };
    app.service().write(work).await
}

fn unreadable(why: &dyn std::fmt::Display) -> ErrorResponse {
    ErrorResponse::bad_request(format!("the body is not an Arrow stream: {why}"))
}

fn write_batch(
    service: &Service,
    place: &ArrowTarget,
    batch: &RecordBatch,
    nth: u64,
    seen: &mut SeenKeys,
) -> Result<TypedReport, ErrorResponse> {
    let renamed = match &place.time {
        Some(time) => Some(with_time(batch, time)?),
        None => None,
    };
    let batch = renamed.as_ref().unwrap_or(batch);
    let key = place.key.map(|key| idempotency::key_of_part(key, nth));
    Ok(service.store_rows(&place.rows, batch, (nth, key), seen)?)
}

/// The same rows with the column of this name called as the time is called here.
fn with_time(batch: &RecordBatch, time: &str) -> Result<RecordBatch, ErrorResponse> {
    let schema = batch.schema_ref();
    let names = || {
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|column| column.name().as_str())
            .collect();
        names.join(", ")
    };
    if schema.index_of(time).is_err() {
        return Err(ErrorResponse::bad_request(format!(
            "there is no column '{time}' to take the times from; there are {}",
            names()
        )));
    }
    if time != TIME_COLUMN && schema.index_of(TIME_COLUMN).is_ok() {
        return Err(ErrorResponse::bad_request(format!(
            "the times are to come from '{time}', and there is another column '{TIME_COLUMN}'; rename it or leave it out"
        )));
    }
    let columns = schema.fields().iter().map(|column| {
        let column = column.as_ref().clone();
        if column.name() == time {
            column.with_name(TIME_COLUMN)
        } else {
            column
        }
    });
    let schema = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
    let columns = batch.columns().to_vec();
    RecordBatch::try_new(schema, columns).map_err(|error| unreadable(&error))
}
