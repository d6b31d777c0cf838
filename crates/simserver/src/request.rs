//! From a step to the request that a client would send.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_ipc::writer::StreamWriter;
use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use serde_json::json;

use crate::client::Feed;
use crate::model::OpId;
use crate::plan::{Change, Encoding, Format, Question, Route, Write};

/// The table whose rows replace themselves.
pub(crate) const LAST: &str = "points";
/// The table that keeps duplicates.
pub(crate) const KEEP: &str = "kept";

/// What every run begins with.
pub(crate) const SETUP: [&str; 3] = [
    "CREATE DATABASE d",
    "CREATE TABLE points (time TIMESTAMPTZ, op TEXT TAG, n BIGINT, w BIGINT)",
    "CREATE TABLE kept (time TIMESTAMPTZ, op TEXT TAG, n BIGINT, w BIGINT) WITH (duplicates = 'keep')",
];

/// 2023-11-14 as seconds since 1970; each row has a second of its own.
const DAY_S: i64 = 1_699_920_000;

/// Rows of a request have seconds of their own up to this many.
const ROWS_MAX: i64 = 10;

fn second(op: OpId, row: u32) -> i64 {
    i64::from(op) * ROWS_MAX + i64::from(row)
}

/// The rows of a request as SQL finds them.
fn tag(op: OpId) -> String {
    format!("op{op}")
}

/// The request that a tag names.
pub(crate) fn op_of(tag: &str) -> Option<OpId> {
    tag.strip_prefix("op")?.parse().ok()
}

fn lines(write: &Write) -> Vec<u8> {
    let mut text = String::new();
    // Padding first: what breaks off then breaks off within the rows, or right behind them.
    let mut noise = u64::from(write.op) + 1;
    for _ in 0..write.padding / 64 {
        text.push('#');
        for _ in 0..62 {
            // Knuth's MMIX; what repeats itself would be small however long it is.
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(char::from(b'a' + u8::try_from(noise >> 60).unwrap_or(0)));
        }
        text.push('\n');
    }
    let op = tag(write.op);
    for row in 0..write.rows {
        let time = (DAY_S + second(write.op, row)) * 1_000_000_000;
        for (table, has) in [(LAST, write.tables.last), (KEEP, write.tables.keep)] {
            if has {
                writeln!(text, "{table},op={op} n={row}i,w=0i {time}")
                    .expect("a string takes any text");
            }
        }
        if row < write.bad_lines {
            text.push_str("points,op=bad n=\n");
        }
    }
    text.into_bytes()
}

fn table_of(write: &Write) -> &'static str {
    if write.tables.last { LAST } else { KEEP }
}

fn batch(op: OpId, rows: u32) -> RecordBatch {
    let times = (0..rows).map(|row| (DAY_S + second(op, row)) * 1_000_000_000);
    let columns: [(&str, ArrayRef); 4] = [
        (
            "time",
            Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")),
        ),
        (
            "op",
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| tag(op)))),
        ),
        (
            "n",
            Arc::new(Int64Array::from_iter_values((0..rows).map(i64::from))),
        ),
        (
            "w",
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| 0))),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn arrow_stream(write: &Write, batches: u32) -> Vec<u8> {
    let schema = batch(write.op, 0).schema();
    let mut writer =
        StreamWriter::try_new(Vec::new(), &schema).expect("a vector takes what is written");
    for nth in 0..batches {
        writer
            .write(&batch(write.op + nth, write.rows))
            .expect("a vector takes what is written");
    }
    writer.into_inner().expect("a vector takes what is written")
}

fn insert(write: &Write) -> String {
    let rows: Vec<String> = (0..write.rows)
        .map(|row| {
            let second = second(write.op, row);
            let (hour, minute) = (second / 3600, second / 60 % 60);
            format!(
                "('2023-11-14T{hour:02}:{minute:02}:{:02}Z', '{}', {row}, 0)",
                second % 60,
                tag(write.op)
            )
        })
        .collect();
    format!(
        "INSERT INTO {} (time, op, n, w) VALUES {}",
        table_of(write),
        rows.join(", ")
    )
}

fn compressed(body: Vec<u8>, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Identity => body,
        Encoding::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder
                .write_all(&body)
                .expect("a vector takes what is written");
            encoder.finish().expect("a vector takes what is written")
        }
        Encoding::Zstd => zstd::encode_all(body.as_slice(), 1).expect("bytes can be compressed"),
    }
}

/// The body of a write, as it is sent.
pub(crate) fn body_of(write: &Write) -> Vec<u8> {
    match write.route {
        Route::Arrow(batches) => arrow_stream(write, batches),
        Route::Insert => posted(&insert(write), "json").into_bytes(),
        _ => compressed(lines(write), write.encoding),
    }
}

/// The request of a write, with a body that a client feeds.
pub(crate) fn write_request(write: &Write, feed: &Arc<Feed>) -> Request<Body> {
    let path = match write.route {
        Route::V1 => "/write?db=d&precision=n".to_owned(),
        Route::V2 => "/api/v2/write?bucket=d&precision=ns".to_owned(),
        Route::V3 => "/api/v3/write_lp?db=d&precision=nanosecond".to_owned(),
        Route::Arrow(_) => {
            let table = table_of(write);
            format!("/api/v3/write_arrow?db=d&table={table}&tags=op")
        }
        Route::Insert => "/api/v3/query_sql".to_owned(),
    };
    let mut request = Request::post(path);
    request = match write.route {
        Route::Arrow(_) => request.header("content-type", "application/vnd.apache.arrow.stream"),
        Route::Insert => request.header("content-type", "application/json"),
        _ => request,
    };
    request = match write.encoding {
        Encoding::Identity => request,
        Encoding::Gzip => request.header("content-encoding", "gzip"),
        Encoding::Zstd => request.header("content-encoding", "zstd"),
    };
    if write.keyed {
        request = request.header("idempotency-key", format!("request-{}", write.op));
    }
    whole(request, feed.body())
}

fn whole(request: Builder, body: impl Into<Body>) -> Request<Body> {
    request
        // The server would choose one at random, and say it in its errors.
        .header("x-request-id", "simulated")
        .body(body.into())
        .expect("constant paths and headers make a request")
}

fn posted(sql: &str, format: &str) -> String {
    json!({ "db": "d", "q": sql, "format": format }).to_string()
}

/// A statement by POST.
pub(crate) fn statement(sql: &str, format: &str) -> Request<Body> {
    let request = Request::post("/api/v3/query_sql").header("content-type", "application/json");
    whole(request, posted(sql, format))
}

/// A statement by GET, which only reads.
pub(crate) fn question(sql: &str, format: &str) -> Request<Body> {
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("db", "d")
        .append_pair("q", sql)
        .append_pair("format", format)
        .finish();
    whole(
        Request::get(format!("/api/v3/query_sql?{form}")),
        Body::empty(),
    )
}

/// The text of a change.
pub(crate) fn change(change: Change) -> String {
    match change {
        Change::Update(op, version) => {
            format!("UPDATE points SET w = {version} WHERE op = '{}'", tag(op))
        }
        Change::DeleteLast(op) => format!("DELETE FROM points WHERE op = '{}'", tag(op)),
        Change::DeleteKept(op) => format!("DELETE FROM kept WHERE op = '{}'", tag(op)),
        Change::Drop => "DROP TABLE points".to_owned(),
    }
}

/// All rows of both tables, or of the second while there is no first.
pub(crate) fn everything(has_last: bool) -> String {
    let kept = "SELECT 'kept' AS t, op, n, w FROM kept";
    if has_last {
        format!("SELECT 'points' AS t, op, n, w FROM points UNION ALL {kept}")
    } else {
        kept.to_owned()
    }
}

/// The text of a question.
pub(crate) fn text_of(question: Question) -> String {
    match question {
        Question::All => everything(true),
        Question::Sorted => format!("{} ORDER BY t, op, n", everything(true)),
        Question::Long => "SELECT count(*) AS n FROM kept a, kept b".to_owned(),
    }
}

/// The name of a format.
pub(crate) fn name_of(format: Format) -> &'static str {
    match format {
        Format::Csv => "csv",
        Format::JsonLines => "jsonl",
        Format::Json => "json",
        Format::Arrow => "arrow",
    }
}
