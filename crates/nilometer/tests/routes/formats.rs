//! `/api/v3/query_sql` in columns: Arrow streams and Parquet files, read back by their own readers.

use std::io::Cursor;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use arrow_ipc::reader::StreamReader;
use axum::body::{Body, Bytes};
use axum::http::Request;
use http_body_util::BodyExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::support::Server;

const ARROW: &str = "application/vnd.apache.arrow.stream";
const PARQUET: &str = "application/vnd.apache.parquet";
const ALL: &str = "SELECT time, host, f, i, s FROM m ORDER BY time";

async fn server() -> Server {
    let server = Server::new();
    let lines = "m,host=a f=1.5,i=-9007199254740993i,s=\"x\" 1\nm,host=b f=2 2\nm i=7i 3";
    assert_eq!(server.write(lines).await.status, 204);
    server
}

fn from_stream(bytes: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    reader.map(Result::unwrap).collect()
}

fn from_parquet(bytes: &[u8]) -> (usize, Vec<RecordBatch>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(bytes)).unwrap();
    let groups = builder.metadata().num_row_groups();
    (
        groups,
        builder.build().unwrap().map(Result::unwrap).collect(),
    )
}

/// What was written, whatever way it came back.
fn check(batches: &[RecordBatch]) {
    let schema = batches[0].schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["time", "host", "f", "i", "s"]);
    let all = arrow::compute::concat_batches(&schema, batches).unwrap();
    let times = all.column(0).as_primitive::<TimestampNanosecondType>();
    assert_eq!(times.values(), &[1, 2, 3]);
    let hosts = arrow::compute::cast(all.column(1), &DataType::Utf8).unwrap();
    let hosts: Vec<Option<&str>> = hosts.as_string::<i32>().iter().collect();
    assert_eq!(hosts, [Some("a"), Some("b"), None]);
    let floats: Vec<Option<f64>> = all.column(2).as_primitive::<Float64Type>().iter().collect();
    assert_eq!(floats, [Some(1.5), Some(2.0), None]);
    let integers: Vec<Option<i64>> = all.column(3).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(integers, [Some(-9_007_199_254_740_993), None, Some(7)]);
    let texts = arrow::compute::cast(all.column(4), &DataType::Utf8).unwrap();
    assert_eq!(texts.as_string::<i32>().value(0), "x");
    assert_eq!(texts.null_count(), 2);
}

#[tokio::test]
async fn an_arrow_stream_has_the_rows_and_tags_as_dictionaries() {
    let answer = server().await.try_query(ALL, "arrow").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, ARROW));
    let batches = from_stream(&answer.body);
    check(&batches);
    assert!(
        matches!(batches[0].column(1).data_type(), DataType::Dictionary(..)),
        "{}",
        batches[0].schema()
    );
}

#[tokio::test]
async fn a_parquet_file_has_the_rows() {
    let answer = server().await.try_query(ALL, "parquet").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, PARQUET)
    );
    let (_, batches) = from_parquet(&answer.body);
    check(&batches);
}

#[tokio::test]
async fn answers_without_rows_still_have_their_columns() {
    let server = server().await;
    let sql = "SELECT f, host FROM m WHERE f < 0";
    let answer = server.try_query(sql, "arrow").await;
    let reader = StreamReader::try_new(Cursor::new(answer.body), None).unwrap();
    assert_eq!(reader.schema().field(0).name(), "f");
    assert_eq!(reader.count(), 0);
    let answer = server.try_query(sql, "parquet").await;
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(answer.body)).unwrap();
    assert_eq!(builder.schema().field(1).name(), "host");
    assert_eq!(builder.metadata().file_metadata().num_rows(), 0);
}

#[tokio::test]
async fn large_answers_leave_in_parts_and_are_whole() {
    const ROWS: i64 = 300_000;
    let server = Server::new();
    for part in 0..3 {
        let from = part * ROWS / 3;
        let lines: Vec<String> = (from..from + ROWS / 3)
            .map(|n| {
                format!(
                    "m,host=h{} v={n}i,w={} {n}",
                    n % 100,
                    n.wrapping_mul(7919) % 1000
                )
            })
            .collect();
        assert_eq!(server.write(lines.join("\n")).await.status, 204);
    }
    for format in ["arrow", "parquet"] {
        let path = format!("/api/v3/query_sql?db=d&format={format}&q=SELECT+*+FROM+m");
        let request = Request::get(path).body(Body::empty()).unwrap();
        let mut body = server.respond(request).await.into_body();
        let mut bytes = Vec::new();
        let mut chunks = 0;
        while let Some(frame) = body.frame().await {
            let chunk = frame.unwrap().into_data().unwrap();
            // A row group and the chunk before it; a whole answer would be larger.
            assert!(
                chunk.len() <= 10 << 20,
                "{format}: {} bytes at once",
                chunk.len()
            );
            bytes.extend_from_slice(&chunk);
            chunks += 1;
        }
        assert!(chunks > 1, "{format}: one chunk");
        let batches = if format == "arrow" {
            from_stream(&bytes)
        } else {
            let (groups, batches) = from_parquet(&bytes);
            assert!(groups > 1, "one row group");
            batches
        };
        let rows: i64 = batches
            .iter()
            .map(|batch| i64::try_from(batch.num_rows()).unwrap())
            .sum();
        let sum: i64 = batches
            .iter()
            .flat_map(|batch| {
                let values = batch.column_by_name("v").unwrap();
                values.as_primitive::<Int64Type>().values().to_vec()
            })
            .sum();
        assert_eq!((rows, sum), (ROWS, ROWS * (ROWS - 1) / 2), "{format}");
    }
}

#[tokio::test]
async fn accept_chooses_formats_in_columns_too() {
    let server = server().await;
    for (accept, content_type) in [
        (ARROW, ARROW),
        (PARQUET, PARQUET),
        (
            "application/x-unknown, application/vnd.apache.parquet;q=0.1",
            PARQUET,
        ),
    ] {
        let headers = [("accept", accept)];
        let answer = server
            .post("/api/v3/query_sql?db=d&q=SELECT+1", &headers, "")
            .await;
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
    }
    // The parameter is stronger.
    let answer = server
        .post(
            "/api/v3/query_sql?db=d&q=SELECT+1+AS+n&format=csv",
            &[("accept", ARROW)],
            "",
        )
        .await;
    assert_eq!(answer.text(), "n\n1\n");
}

#[tokio::test]
async fn an_error_before_the_first_bytes_is_json_whatever_was_asked_for() {
    let server = server().await;
    for format in ["arrow", "parquet"] {
        let answer = server.try_query("SELECT x FROM m", format).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, "application/json")
        );
        assert!(answer.error().contains('x'));
    }
}
