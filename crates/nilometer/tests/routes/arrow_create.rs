//! `/api/v3/write_arrow` to tables and columns that nobody has made: they are made as the columns of the stream say.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, DictionaryArray, Float32Array, Int16Array,
    Int64Array, NullArray, RecordBatch, StringArray, TimestampMillisecondArray, UInt8Array,
};
use arrow::datatypes::Int32Type;
use arrow_ipc::writer::StreamWriter;
use nilometer_engine::{ColumnKind, PhysicalType};

use crate::support::{Answer, Server};

const TYPE: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");

fn column(name: &str, values: impl arrow::array::Array + 'static) -> (String, ArrayRef) {
    (name.to_owned(), Arc::new(values))
}

fn rows(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    let columns = columns
        .into_iter()
        .map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

async fn send(server: &Server, parameters: &str, batch: &RecordBatch) -> Answer {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    let path = format!("/api/v3/write_arrow?{parameters}");
    server
        .post(&path, &[TYPE], writer.into_inner().unwrap())
        .await
}

fn hosts() -> DictionaryArray<Int32Type> {
    vec![Some("a"), None, Some("b")].into_iter().collect()
}

fn milliseconds() -> TimestampMillisecondArray {
    TimestampMillisecondArray::from(vec![1_000, 2_000, 3_000])
}

/// Names and kinds of the columns of a table.
fn kinds(server: &Server, table: &str) -> Vec<(String, ColumnKind)> {
    let found = server.engine.snapshot().table("d", "public", table);
    let found = found.unwrap_or_else(|| panic!("there is no table {table}"));
    let columns = found.tags.iter().chain(&found.fields);
    columns
        .map(|column| (column.name.clone(), column.kind))
        .collect()
}

#[tokio::test]
async fn a_table_is_made_with_the_types_of_the_stream_and_dictionaries_as_tags() {
    let server = Server::new();
    let batch = rows(vec![
        column("time", milliseconds()),
        column("host", hosts()),
        column("small", Int16Array::from(vec![Some(-3), None, Some(7)])),
        column("count", UInt8Array::from(vec![1, 2, 255])),
        column("load", Float32Array::from(vec![0.5, 1.5, -2.0])),
        column(
            "up",
            BooleanArray::from(vec![Some(true), None, Some(false)]),
        ),
        column("note", StringArray::from(vec![Some("x"), Some(""), None])),
        column("raw", BinaryArray::from(vec![&b"\x00"[..], b"", b"\xff"])),
    ]);
    let answer = send(&server, "db=d&table=m", &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["rows_written"], 3);
    let field = ColumnKind::Field;
    let want = [
        ("host", ColumnKind::Tag),
        ("small", field(PhysicalType::I64)),
        ("count", field(PhysicalType::U64)),
        ("load", field(PhysicalType::F64)),
        ("up", field(PhysicalType::Bool)),
        ("note", field(PhysicalType::Text)),
        ("raw", field(PhysicalType::Bytes)),
    ];
    assert_eq!(
        kinds(&server, "m"),
        want.map(|(name, kind)| (name.to_owned(), kind))
    );
    let sql = "SELECT time, host, small, count, load, up, note FROM m ORDER BY time";
    let text = server.query(sql, "jsonl").await;
    let want = [
        r#"{"time":"1970-01-01T00:00:01Z","host":"a","small":-3,"count":1,"load":0.5,"up":true,"note":"x"}"#,
        r#"{"time":"1970-01-01T00:00:02Z","host":null,"small":null,"count":2,"load":1.5,"up":null,"note":""}"#,
        r#"{"time":"1970-01-01T00:00:03Z","host":"b","small":7,"count":255,"load":-2.0,"up":false,"note":null}"#,
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), want);
}

#[tokio::test]
async fn tags_and_time_are_those_that_the_writer_names() {
    let server = Server::new();
    let batch = rows(vec![
        column("when", milliseconds()),
        column("host", StringArray::from(vec!["a", "a", "b"])),
        column("rack", Int64Array::from(vec![1, 2, 2])),
        column("kind", hosts()),
    ]);
    let answer = send(&server, "db=d&table=m&time=when&tags=host,rack", &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let want = [
        ("host", ColumnKind::Tag),
        ("rack", ColumnKind::Tag),
        ("kind", ColumnKind::Field(PhysicalType::Text)),
    ];
    assert_eq!(
        kinds(&server, "m"),
        want.map(|(name, kind)| (name.to_owned(), kind))
    );
    let sql = "SELECT host, rack, kind FROM m ORDER BY time";
    assert_eq!(
        server.query(sql, "csv").await,
        "host,rack,kind\na,1,a\na,2,\nb,2,b\n"
    );
    // No tag at all is a choice too.
    let answer = send(&server, "db=d&table=n&time=when&tags=", &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        kinds(&server, "n")
            .iter()
            .all(|(_, kind)| *kind != ColumnKind::Tag)
    );
}

#[tokio::test]
async fn a_table_that_is_there_gets_columns_only_on_demand() {
    let server = Server::new();
    let old = rows(vec![
        column("time", milliseconds()),
        column("v", Int64Array::from(vec![1, 2, 3])),
    ]);
    assert_eq!(send(&server, "db=d&table=m", &old).await.status, 200);
    let new = rows(vec![
        column("time", milliseconds()),
        column("host", StringArray::from(vec!["a", "b", "c"])),
        column("w", Int64Array::from(vec![4, 5, 6])),
    ]);
    let refused = send(&server, "db=d&table=m&tags=host", &new).await;
    assert_eq!(refused.status, 400);
    assert!(refused.error().contains("host"), "{}", refused.error());
    assert_eq!(kinds(&server, "m").len(), 1);
    let answer = send(&server, "db=d&table=m&tags=host&add_columns=true", &new).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let names: Vec<String> = kinds(&server, "m")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["host", "v", "w"]);
    assert_eq!(
        server.query("SELECT count(*) AS n FROM m", "csv").await,
        "n\n6\n"
    );
}

#[tokio::test]
async fn what_cannot_become_a_table_is_refused_by_column_and_nothing_is_made() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let time = || column("time", milliseconds());
    let v = || column("v", Int64Array::from(vec![1, 2, 3]));
    for (parameters, batch, words) in [
        (
            "db=d&table=m",
            rows(vec![
                time(),
                column("day", Date32Array::from(vec![1, 2, 3])),
            ]),
            ["\"day\"", "Date32"],
        ),
        (
            "db=d&table=m",
            rows(vec![time(), column("none", NullArray::new(3))]),
            ["\"none\"", "cast it"],
        ),
        ("db=d&table=m", rows(vec![v()]), ["\"time\"", "missing"]),
        (
            "db=d&table=m&tags=nope",
            rows(vec![time(), v()]),
            ["\"nope\"", "time, v"],
        ),
        (
            "db=d&table=m&tags=load",
            rows(vec![
                time(),
                column("load", Float32Array::from(vec![1.0, 2.0, 3.0])),
            ]),
            ["\"load\"", "tag"],
        ),
        (
            "db=d&table=m&time=when",
            rows(vec![time(), v()]),
            ["'when'", "time, v"],
        ),
        (
            "db=d&table=m&time=v",
            rows(vec![time(), v()]),
            ["'v'", "'time'"],
        ),
    ] {
        let answer = send(&server, parameters, &batch).await;
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
        for word in words {
            assert!(
                answer.error().contains(word),
                "no {word} in {}",
                answer.error()
            );
        }
        assert!(server.engine.snapshot().table("d", "public", "m").is_none());
    }
    // A relation has the name, or the schema is not there.
    let answer = send(&server, "db=d&table=m&schema=x", &rows(vec![time(), v()])).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
}

/// Rows for a database that had been dropped were answered 404, although who writes columns is promised that what is not
/// there is made: the server wrote with the session that it had kept of the database that was gone. A simulation met it
/// between two batches of one stream; the next request met it too.
#[tokio::test]
async fn a_database_that_was_dropped_is_made_anew_by_the_next_stream() {
    let server = Server::new();
    let batch = rows(vec![
        column("time", milliseconds()),
        column("v", Int64Array::from(vec![1, 2, 3])),
    ]);
    for _ in 0..3 {
        let answer = send(&server, "db=d&table=m", &batch).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            server.query("SELECT count(*) AS n FROM m", "csv").await,
            "n\n3\n"
        );
        server.engine.drop_database("d").unwrap();
    }
    // Who asks that nothing is made is told what is missing.
    let answer = send(&server, "db=d&table=m&create=false", &batch).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
}

/// Rows of several cities at one time, the city as plain text, became one row for each time.
#[tokio::test]
async fn texts_that_repeat_are_tags_of_a_new_table_unless_the_writer_says_otherwise() {
    let server = Server::new();
    let texts = |text: fn(i64) -> String| StringArray::from_iter_values((0..60).map(text));
    let batch = rows(vec![
        column("time", Int64Array::from_iter_values((0..60).map(|n| n / 3))),
        column("city", texts(|n| format!("city {}", n % 3))),
        column("note", texts(|n| format!("reading {n}"))),
        column("v", Int64Array::from_iter_values(0..60)),
    ]);
    for (parameters, table, is_tag, count) in [
        ("db=d&table=a", "a", true, 60),
        ("db=d&table=b&guess_tags=false", "b", false, 20),
        ("db=d&table=c&tags=", "c", false, 20),
        ("db=d&table=e&tags=&duplicates=keep", "e", false, 60),
    ] {
        let answer = send(&server, parameters, &batch).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let city = kinds(&server, table)
            .into_iter()
            .find(|(name, _)| name == "city");
        assert_eq!(
            city.map(|(_, kind)| kind == ColumnKind::Tag),
            Some(is_tag),
            "{table}"
        );
        let sql = format!("SELECT count(*) AS n FROM {table}");
        let text = server.query(&sql, "jsonl").await;
        assert_eq!(text.trim(), format!("{{\"n\":{count}}}"), "{table}");
        let merged = if table == "e" { 0 } else { 60 - count };
        assert_eq!(answer.json()["rows_merged"], merged, "{table}");
    }
    let answer = send(&server, "db=d&table=a&duplicates=keep", &batch).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.error().contains("ALTER TABLE"), "{}", answer.error());
    let answer = send(&server, "db=d&table=f&duplicates=some", &batch).await;
    assert_eq!(
        answer.error(),
        "invalid duplicates 'some': use last, keep or unique"
    );
}
