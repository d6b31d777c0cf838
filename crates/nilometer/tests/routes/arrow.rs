//! `/api/v3/write_arrow`: a batch is kept whole or not at all, and the answer says which were.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use axum::body::{Body, Bytes};
use futures::stream;
use nilometer_engine::{ColumnKind, Duplicates, NewColumn, TableSettings};
use serde_json::json;

use crate::support::{Answer, Server, ServerConfig};

const PATH: &str = "/api/v3/write_arrow?db=d&table=m";
const TYPE: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");
const SUMS: &str = "SELECT count(*) AS n, sum(v) AS s FROM m";

fn with(config: ServerConfig, duplicates: Duplicates) -> Server {
    let server = Server::with(config);
    let field = |name, values| NewColumn {
        name,
        kind: ColumnKind::Field(values),
    };
    let columns = [
        NewColumn {
            name: "host",
            kind: ColumnKind::Tag,
        },
        field("v", nilometer_engine::PhysicalType::I64),
        field("f", nilometer_engine::PhysicalType::F64),
    ];
    let settings = TableSettings {
        duplicates,
        ..TableSettings::default()
    };
    server.engine.create_database("d").unwrap();
    server
        .engine
        .create_table("d", "public", "m", &columns, settings)
        .unwrap();
    server
}

fn server() -> Server {
    with(ServerConfig::default(), Duplicates::Last)
}

/// Rows at these times, each with its time as value.
fn batch(times: std::ops::Range<i64>) -> RecordBatch {
    let hosts: DictionaryArray<Int32Type> = times
        .clone()
        .map(|time| if time % 2 == 0 { "even" } else { "odd" })
        .collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("host", Arc::new(hosts)),
        (
            "time",
            Arc::new(TimestampNanosecondArray::from_iter_values(times.clone())),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter_values(
                times.clone().map(|time| time as f64),
            )),
        ),
        ("v", Arc::new(Int64Array::from_iter_values(times))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn stream_of(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .unwrap();
    let schema = batches[0].schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

async fn send(server: &Server, path: &str, body: impl Into<Body>) -> Answer {
    server.post(path, &[TYPE], body).await
}

fn written(answer: &Answer) -> (u16, i64, i64) {
    let body = answer.json();
    let number = |name: &str| {
        body[name]
            .as_i64()
            .unwrap_or_else(|| panic!("no {name} in {body}"))
    };
    (
        answer.status,
        number("batches_written"),
        number("rows_written"),
    )
}

async fn sums(server: &Server) -> (i64, i64) {
    let rows = server.try_query(SUMS, "json").await.json();
    (
        rows[0]["n"].as_i64().unwrap(),
        rows[0]["s"].as_i64().unwrap_or(0),
    )
}

#[tokio::test]
async fn batches_are_written_whatever_compresses_them_and_however_they_arrive() {
    let batches = [batch(0..10), batch(10..11), batch(11..500)];
    for compression in [
        None,
        Some(CompressionType::LZ4_FRAME),
        Some(CompressionType::ZSTD),
    ] {
        let bytes = stream_of(&batches, compression);
        for chunk_bytes in [7, 1000, bytes.len()] {
            let server = server();
            let chunks: Vec<_> = bytes
                .chunks(chunk_bytes)
                .map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)))
                .collect();
            let body = Body::from_stream(stream::iter(chunks));
            let answer = send(&server, PATH, body).await;
            assert_eq!(written(&answer), (200, 3, 500), "{}", answer.text());
            assert_eq!(sums(&server).await, (500, 500 * 499 / 2));
            let hosts = "SELECT host, count(*) AS n FROM m GROUP BY host ORDER BY host";
            let hosts = server.query(hosts, "csv").await;
            assert_eq!(hosts, "host,n\neven,250\nodd,250\n");
        }
    }
}

#[tokio::test]
async fn a_stream_read_from_here_can_be_written_here() {
    let server = server();
    let lines: Vec<String> = (0..20_000)
        .map(|n| format!("source,host=h{} v={n}i,f=0.5 {n}", n % 7))
        .collect();
    assert_eq!(server.write(lines.join("\n")).await.status, 204);
    let stream = server.try_query("SELECT * FROM source", "arrow").await;
    let answer = send(&server, PATH, stream.body).await;
    assert_eq!((written(&answer).0, written(&answer).2), (200, 20_000));
    assert_eq!(sums(&server).await, (20_000, 20_000 * 19_999 / 2));
}

#[tokio::test]
async fn an_error_says_how_much_was_written_before_it() {
    let server = server();
    let times = TimestampNanosecondArray::from(vec![Some(100), None]);
    let good = batch(0..10);
    let mut columns = batch(0..2).columns().to_vec();
    columns[1] = Arc::new(times);
    let fields = good
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect::<Vec<_>>();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let good = RecordBatch::try_new(Arc::clone(&schema), good.columns().to_vec()).unwrap();
    let bad = RecordBatch::try_new(schema, columns).unwrap();
    let bytes = stream_of(&[good.clone(), bad, good], None);
    let answer = send(&server, PATH, bytes).await;
    assert_eq!(written(&answer), (400, 1, 10));
    assert!(
        answer.error().contains("row 2") && answer.error().contains("time"),
        "{}",
        answer.error()
    );
    assert_eq!(sums(&server).await, (10, 45));
}

#[tokio::test]
async fn a_stream_cut_anywhere_keeps_whole_batches_and_says_which() {
    let bytes = stream_of(&[batch(0..3), batch(3..6), batch(6..9)], None);
    for cut in 0..bytes.len() {
        let server = server();
        let answer = send(&server, PATH, bytes[..cut].to_vec()).await;
        assert!(
            matches!(answer.status, 200 | 400),
            "cut at {cut}: {}",
            answer.text()
        );
        let (_, batches, rows) = written(&answer);
        assert_eq!(rows, batches * 3, "cut at {cut}");
        assert_eq!(sums(&server).await.0, rows, "cut at {cut}");
    }
}

#[tokio::test]
async fn whatever_bytes_come_nothing_breaks() {
    let server = server();
    for compression in [None, Some(CompressionType::ZSTD)] {
        let bytes = stream_of(&[batch(0..3), batch(3..6)], compression);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let answer = send(&server, PATH, bytes).await;
                assert!(answer.status < 500, "byte {at} ^ {flip}: {}", answer.text());
            }
        }
    }
    for bytes in [
        vec![],
        vec![0xff; 64],
        vec![0; 64],
        b"m v=1 1\n".repeat(100),
    ] {
        let answer = send(&server, PATH, bytes).await;
        assert!(answer.status < 500, "{}", answer.text());
    }
    // It still works.
    let answer = send(&server, PATH, stream_of(&[batch(0..3)], None)).await;
    assert_eq!(written(&answer), (200, 1, 3));
}

#[tokio::test]
async fn messages_that_say_they_are_huge_are_refused_before_anything_is_made_so_large() {
    let config = ServerConfig {
        body_bytes_max: 64 << 10,
        ..ServerConfig::default()
    };
    let server = with(config, Duplicates::Last);
    // The stream may be longer than a body, its messages may not.
    let many: Vec<RecordBatch> = (0..20).map(|n| batch(n * 1000..(n + 1) * 1000)).collect();
    let bytes = stream_of(&many, None);
    assert!(bytes.len() > 128 << 10);
    let answer = send(&server, PATH, bytes).await;
    assert_eq!(written(&answer), (200, 20, 20_000), "{}", answer.text());
    let answer = send(
        &server,
        PATH,
        stream_of(&[batch(0..10), batch(0..10_000)], None),
    )
    .await;
    assert_eq!(written(&answer), (413, 1, 10));
    assert!(
        answer.error().contains("body-bytes-max"),
        "{}",
        answer.error()
    );
    // A compressed buffer that says it becomes an exabyte.
    let bytes = stream_of(&[batch(0..1000)], Some(CompressionType::ZSTD));
    let length = 8000i64.to_le_bytes();
    let at = bytes.windows(8).position(|part| part == length).unwrap();
    let mut bomb = bytes.clone();
    bomb[at..at + 8].copy_from_slice(&(1i64 << 60).to_le_bytes());
    let answer = send(&server, PATH, bomb).await;
    assert_eq!(written(&answer), (413, 0, 0));
    assert!(
        answer.error().contains("body-bytes-max"),
        "{}",
        answer.error()
    );
    // A head and a body of four gigabytes.
    let mut head = vec![0xff; 8];
    head[4..].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    assert_eq!(send(&server, PATH, head).await.status, 413);
}

#[tokio::test]
async fn conflicts_of_a_unique_table_are_refused_skipped_or_replaced_as_asked() {
    let server = with(ServerConfig::default(), Duplicates::Unique);
    let bytes = |times| stream_of(&[batch(times)], None);
    assert_eq!(
        written(&send(&server, PATH, bytes(0..10)).await),
        (200, 1, 10)
    );
    let answer = send(&server, PATH, bytes(5..15)).await;
    assert_eq!(written(&answer), (409, 0, 0));
    let skip = format!("{PATH}&on_conflict=skip");
    let answer = send(&server, &skip, bytes(5..15)).await;
    assert_eq!(
        (written(&answer), &answer.json()["rows_skipped"]),
        ((200, 1, 5), &json!(5))
    );
    let replace = format!("{PATH}&on_conflict=replace");
    let answer = send(&server, &replace, bytes(10..20)).await;
    assert_eq!(
        (written(&answer), &answer.json()["rows_replaced"]),
        ((200, 1, 10), &json!(5))
    );
    assert_eq!(sums(&server).await, (20, 190));
    let answer = send(&server, &format!("{PATH}&on_conflict=maybe"), bytes(0..1)).await;
    assert_eq!(
        (answer.status, answer.error()),
        (
            400,
            "invalid on_conflict 'maybe': use error, skip or replace".to_owned()
        )
    );
}

#[tokio::test]
async fn a_stream_that_is_sent_again_under_its_key_is_written_once() {
    let server = with(ServerConfig::default(), Duplicates::Keep);
    let whole = stream_of(&[batch(0..5), batch(5..10)], None);
    let first = stream_of(&[batch(0..5)], None);
    for (body, repeated) in [(first, 0), (whole.clone(), 1), (whole, 2)] {
        let headers = [TYPE, ("idempotency-key", "stream-1")];
        let answer = server.post(PATH, &headers, body).await;
        assert_eq!(
            answer.json()["batches_repeated"],
            repeated,
            "{}",
            answer.text()
        );
    }
    assert_eq!(sums(&server).await, (10, 45));
}

#[tokio::test]
async fn wrong_requests_say_what_would_be_right() {
    let server = server();
    let body = || stream_of(&[batch(0..3)], None);
    for (path, status, error) in [
        (
            "/api/v3/write_arrow?table=m",
            400,
            "missing query parameter 'db'",
        ),
        (
            "/api/v3/write_arrow?db=d",
            400,
            "missing query parameter 'table'",
        ),
        (
            "/api/v3/write_arrow?db=x&table=m&create=false",
            404,
            "database not found: \"x\"",
        ),
        (
            "/api/v3/write_arrow?db=d&table=x&create=false",
            404,
            "table not found: \"d.public.x\"; make it and its columns first, or leave create=false out",
        ),
        (
            "/api/v3/write_arrow?db=d&table=m&schema=x&create=false",
            404,
            "table not found: \"d.x.m\"; make it and its columns first, or leave create=false out",
        ),
    ] {
        let answer = send(&server, path, body()).await;
        assert_eq!(
            (answer.status, answer.error()),
            (status, error.to_owned()),
            "{path}"
        );
        assert_eq!(written(&answer).1, 0);
    }
    let answer = server
        .post(PATH, &[("content-type", "text/csv")], body())
        .await;
    assert_eq!(answer.status, 415);
    assert!(answer.error().contains(TYPE.1), "{}", answer.error());
    let answer = server
        .post(PATH, &[TYPE, ("content-encoding", "gzip")], body())
        .await;
    assert_eq!(answer.status, 415);
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let unknown =
        RecordBatch::try_from_iter([("time", Arc::clone(&other)), ("nope", other)]).unwrap();
    let answer = send(&server, PATH, stream_of(&[unknown], None)).await;
    assert_eq!(written(&answer), (400, 0, 0));
    assert!(answer.error().contains("nope"), "{}", answer.error());
    assert_eq!(sums(&server).await.0, 0);
}

/// The story: a flipped bit moved a buffer out of its message, and the library that reads it panicked. A stream with any
/// one bit flipped is refused or taken, and every batch is there as a whole or not at all.
#[tokio::test]
async fn any_flipped_bit_of_a_stream_is_refused_or_taken() {
    let server = server();
    for compression in [None, Some(CompressionType::LZ4_FRAME)] {
        let stream = stream_of(&[batch(0..4), batch(4..9)], compression);
        for at in 0..stream.len() {
            for bit in [0, 3, 6, 7] {
                let mut changed = stream.clone();
                changed[at] ^= 1 << bit;
                let answer = send(&server, PATH, changed).await;
                assert!(
                    matches!(answer.status, 200 | 204 | 400 | 413),
                    "bit {bit} of byte {at}: {} {}",
                    answer.status,
                    answer.text()
                );
            }
        }
    }
}

/// A stream whose rows merged was answered as if all of them were there.
#[tokio::test]
async fn rows_that_merge_are_counted_within_a_batch_and_across_those_of_a_stream() {
    let server = server();
    let merged = |answer: &Answer| (written(answer), answer.json()["rows_merged"].clone());
    let twice =
        arrow::compute::concat_batches(&batch(0..1).schema(), &[batch(0..10), batch(5..10)])
            .unwrap();
    let answer = send(&server, PATH, stream_of(std::slice::from_ref(&twice), None)).await;
    assert_eq!(merged(&answer), ((200, 1, 15), json!(5)));
    // The table has all of these rows; the stream gives seven of them twice.
    let stream = stream_of(&[batch(0..10), batch(8..20), twice], None);
    let answer = send(&server, PATH, stream).await;
    assert_eq!(merged(&answer), ((200, 3, 37), json!(2 + 15)));
    assert_eq!(sums(&server).await, (20, 190));
    server.engine.flush().unwrap();
    let page = server.get("/metrics").await.text().to_owned();
    // 52 rows came and 20 are left.
    assert!(
        page.contains("\nnilometer_rows_merged_total 32\n"),
        "{page}"
    );
    // What keeps duplicates merges nothing.
    let server = with(ServerConfig::default(), Duplicates::Keep);
    let answer = send(
        &server,
        PATH,
        stream_of(&[batch(0..10), batch(0..10)], None),
    )
    .await;
    assert_eq!(merged(&answer), ((200, 2, 20), json!(0)));
}
