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
use crate::device;
use crate::influxql;
use crate::model::{NAMES, OpId, Tables};
use crate::plan::{Change, Encoding, Format, Question, Route, Write};

/// The table whose rows replace themselves.
pub(crate) const LAST: &str = "points";
/// The table that keeps duplicates.
pub(crate) const KEEP: &str = "kept";

/// The table whose rows are kept for a while only.
pub(crate) const BRIEF: &str = "brief";
/// The table of the other database.
pub(crate) const ASIDE: &str = "aside";
/// Partitions of that table are so wide at least.
pub(crate) const PARTITION_S: i64 = 60;
/// They are made wider while they are sparse, up to this.
pub(crate) const PARTITION_S_MAX: i64 = 512 * PARTITION_S;

/// The setting of that table, as a number of the model's; the names that definitions make come after it.
pub(crate) const RETENTION: OpId = NAMES;
/// So many columns, and so many tables, are made and dropped.
pub(crate) const OF_A_KIND: u32 = 3;

/// A column or table as a number of the model's.
pub(crate) fn column(nth: u32) -> OpId {
    NAMES + 1 + nth % OF_A_KIND
}

pub(crate) fn table(nth: u32) -> OpId {
    NAMES + 1 + OF_A_KIND + nth % OF_A_KIND
}

/// Every name that definitions make, with its number.
pub(crate) fn names() -> impl Iterator<Item = (String, OpId)> {
    let columns = (0..OF_A_KIND).map(|nth| (format!("x{nth}"), column(nth)));
    columns.chain((0..OF_A_KIND).map(|nth| (format!("t{nth}"), table(nth))))
}

/// What every run begins with.
pub(crate) const SETUP: [&str; 4] = [
    "CREATE DATABASE d",
    "CREATE TABLE points (time TIMESTAMPTZ, op TEXT TAG, n BIGINT, w BIGINT)",
    "CREATE TABLE kept (time TIMESTAMPTZ, op TEXT TAG, n BIGINT, w BIGINT) WITH (duplicates = 'keep')",
    "CREATE TABLE brief (time TIMESTAMPTZ, op TEXT TAG, n BIGINT, w BIGINT) WITH (duplicates = 'keep', retention = '1 day', partition_interval = '1 minute')",
];

/// 2023-11-14 as seconds since 1970; each row has a second of its own.
const DAY_S: i64 = 1_699_920_000;

/// Rows of a request have seconds of their own up to this many.
const ROWS_MAX: i64 = 10;

/// When the partition that a request's rows are in ends, in seconds since 1970; all of them are in one.
pub(crate) fn partition_ends_s(op: OpId) -> i64 {
    let first = DAY_S + second(op, 0);
    (first.div_euclid(PARTITION_S) + 1) * PARTITION_S
}

fn second(op: OpId, row: u32) -> i64 {
    i64::from(op) * ROWS_MAX + i64::from(row)
}

/// The second of a request's first row, since 1970.
pub(crate) fn first_second(op: OpId) -> i64 {
    DAY_S + second(op, 0)
}

/// The rows of a request as SQL finds them.
pub(crate) fn tag(op: OpId) -> String {
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
    let (_, unit_ns) = influxql::place_of(write);
    for row in 0..write.rows {
        let time = (DAY_S + second(write.op, row)) * (1_000_000_000 / unit_ns);
        for (table, has) in [
            (LAST, write.tables.last),
            (KEEP, write.tables.keep),
            (BRIEF, write.tables.brief),
            (ASIDE, write.tables.aside),
        ] {
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
    let Tables {
        last, brief, aside, ..
    } = write.tables;
    match (last, brief, aside) {
        (true, ..) => LAST,
        (_, true, _) => BRIEF,
        (_, _, true) => ASIDE,
        _ => KEEP,
    }
}

fn database_of(write: &Write) -> &'static str {
    if write.tables.aside { "e" } else { "d" }
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

/// A body as it is sent.
pub(crate) fn compressed(body: Vec<u8>, encoding: Encoding) -> Vec<u8> {
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

/// What a header says of it.
pub(crate) fn name_of_encoding(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => Some("gzip"),
        Encoding::Zstd => Some("zstd"),
    }
}

/// The body of a write, as it is sent.
pub(crate) fn body_of(write: &Write) -> Vec<u8> {
    match write.route {
        Route::Arrow(batches) => arrow_stream(write, batches),
        Route::Insert => posted(database_of(write), &insert(write), "json").into_bytes(),
        Route::Pages => compressed(device::page(write), write.encoding),
        _ => compressed(lines(write), write.encoding),
    }
}

/// The request of a write, with a body that a client feeds.
pub(crate) fn write_request(write: &Write, feed: &Arc<Feed>) -> Request<Body> {
    let database = database_of(write);
    let path = match write.route {
        Route::V1 => format!("/write?db={database}{}", influxql::place_of(write).0),
        Route::V2 if write.op.is_multiple_of(2) => {
            format!("/api/v2/write?bucket={database}/autogen")
        }
        Route::V2 => format!("/api/v2/write?bucket={database}&precision=ns"),
        Route::V3 => format!("/api/v3/write_lp?db={database}&precision=nanosecond"),
        Route::Arrow(_) => {
            let table = table_of(write);
            format!("/api/v3/write_arrow?db={database}&table={table}&tags=op")
        }
        Route::Insert => "/api/v3/query_sql".to_owned(),
        Route::Pages => device::path(write),
    };
    let mut request = Request::post(path);
    request = match write.route {
        Route::Arrow(_) => request.header("content-type", "application/vnd.apache.arrow.stream"),
        Route::Insert => request.header("content-type", "application/json"),
        _ => request,
    };
    if let Some(encoding) = name_of_encoding(write.encoding) {
        request = request.header("content-encoding", encoding);
    }
    if write.keyed && write.route != Route::Pages {
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

fn posted(database: &str, sql: &str, format: &str) -> String {
    json!({ "db": database, "q": sql, "format": format }).to_string()
}

/// A statement by POST.
pub(crate) fn statement(sql: &str, format: &str) -> Request<Body> {
    let request = Request::post("/api/v3/query_sql").header("content-type", "application/json");
    whole(request, posted("d", sql, format))
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

/// Somebody has looked at the clock, and it is right.
pub(crate) fn accept_clock() -> Request<Body> {
    whole(Request::post("/api/v3/accept_clock"), Body::empty())
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
        Change::Retain(0) => "ALTER TABLE brief SET (retention = 'forever')".to_owned(),
        Change::Retain(days) => format!("ALTER TABLE brief SET (retention = '{days} days')"),
        Change::Add(nth) => format!("ALTER TABLE kept ADD COLUMN x{} BIGINT", nth % OF_A_KIND),
        Change::Remove(nth) => format!("ALTER TABLE kept DROP COLUMN x{}", nth % OF_A_KIND),
        Change::Make(nth) => format!(
            "CREATE TABLE t{} (time TIMESTAMPTZ, op TEXT TAG, n BIGINT)",
            nth % OF_A_KIND
        ),
        Change::Unmake(nth) => format!("DROP TABLE t{}", nth % OF_A_KIND),
        Change::MakeAside => "CREATE DATABASE IF NOT EXISTS e".to_owned(),
        Change::DropAside => "DROP DATABASE IF EXISTS e".to_owned(),
    }
}

/// All that definitions have made, and the setting, as rows of the same columns.
const DEFINED: &str = "SELECT 'name' AS t, column_name AS op, CAST(0 AS BIGINT) AS n, CAST(0 AS BIGINT) AS w \
FROM system.columns WHERE database_name = 'd' AND table_name = 'kept' AND column_name LIKE 'x%' \
UNION ALL SELECT 'name', table_name, CAST(0 AS BIGINT), CAST(0 AS BIGINT) \
FROM system.tables WHERE database_name = 'd' AND table_name LIKE 't%' \
UNION ALL SELECT 'setting', 'retention', CAST(0 AS BIGINT), CAST(CASE WHEN retention IS NULL THEN 0 WHEN retention = '1 day' THEN 1 WHEN retention = '2 days' THEN 2 ELSE 99 END AS BIGINT) \
FROM system.tables WHERE database_name = 'd' AND table_name = 'brief'";

/// All rows of the first database's tables, or of all but the first while there is no first.
pub(crate) fn everything(has_last: bool) -> String {
    let kept =
        "SELECT 'kept' AS t, op, n, w FROM kept UNION ALL SELECT 'brief' AS t, op, n, w FROM brief";
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
        Question::Aside => "SELECT 'aside' AS t, op, n, w FROM e.public.aside".to_owned(),
        Question::Defined => DEFINED.to_owned(),
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
        Format::Parquet => "parquet",
        Format::Pretty => "pretty",
        Format::InfluxJson | Format::InfluxChunks | Format::InfluxCsv => "InfluxQL",
    }
}
