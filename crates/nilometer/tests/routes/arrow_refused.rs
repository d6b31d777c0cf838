//! `/api/v3/write_arrow` that is refused: it leaves no database, no table and no column behind.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use arrow::datatypes::{Field, Schema};
use arrow_ipc::writer::StreamWriter;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};

use crate::support::{Answer, Server, ServerConfig};

fn server() -> Server {
    let options = Options {
        batch_rows_max: 10,
        batch_columns_max: 8,
        batch_series_max: 4,
        table_tags_max: 3,
        ..Options::default()
    };
    let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, "/data".as_ref(), options).unwrap();
    Server::over(Arc::new(engine), ServerConfig::default())
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns
        .iter()
        .map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let values = columns.into_iter().map(|(_, values)| values);
    RecordBatch::try_new(schema, values.collect()).unwrap()
}

async fn send(server: &Server, parameters: &str, batch: &RecordBatch) -> Answer {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    let kind = ("content-type", "application/vnd.apache.arrow.stream");
    let path = format!("/api/v3/write_arrow?{parameters}");
    server
        .post(&path, &[kind], writer.into_inner().unwrap())
        .await
}

fn times(rows: i64) -> (&'static str, ArrayRef) {
    ("time", Arc::new(Int64Array::from_iter_values(0..rows)))
}

fn integers(name: &'static str, rows: i64) -> (&'static str, ArrayRef) {
    (name, Arc::new(Int64Array::from_iter_values(0..rows)))
}

fn texts(name: &'static str, values: Vec<String>) -> (&'static str, ArrayRef) {
    (name, Arc::new(StringArray::from(values)))
}

/// What is refused by the rows themselves or a limit, with words of the reason. All of it would make a table.
fn refused() -> Vec<(&'static str, RecordBatch, &'static str)> {
    let null_at_last: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let beyond: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2, i64::MAX]));
    let long = |bytes: usize| vec!["a".to_owned(), "x".repeat(bytes)];
    let hosts = |n: i64| (0..n).map(|n| format!("h{n}")).collect::<Vec<_>>();
    let wide = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let wide = wide.map(|name| integers(name, 1));
    let twice: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 7]));
    vec![
        (
            "",
            rows(vec![("time", null_at_last), integers("v", 3)]),
            "null",
        ),
        (
            "",
            rows(vec![("time", beyond), integers("v", 3)]),
            "outside",
        ),
        (
            "",
            rows(vec![times(2), texts("note", long((1 << 20) + 1))]),
            "1048577 bytes",
        ),
        (
            "&tags=note",
            rows(vec![
                times(2),
                texts("note", long(70_000)),
                integers("v", 2),
            ]),
            "its tags together",
        ),
        (
            "&tags=a,b,c,d",
            rows(
                [
                    vec![times(1)],
                    ["a", "b", "c", "d"].map(|name| integers(name, 1)).to_vec(),
                ]
                .concat(),
            ),
            "table-tags-max",
        ),
        (
            "",
            rows([vec![times(1)], wide.to_vec()].concat()),
            "batch-columns-max",
        ),
        (
            "",
            rows(vec![times(11), integers("v", 11)]),
            "batch-rows-max",
        ),
        (
            "&tags=host",
            rows(vec![times(5), texts("host", hosts(5)), integers("v", 5)]),
            "batch-series-max",
        ),
        (
            "",
            rows(vec![times(1), integers("v", 1), integers("v", 1)]),
            "v",
        ),
        (
            "&on_conflict=error",
            rows(vec![times(1), integers("v", 1)]),
            "no conflicts",
        ),
        (
            "&duplicates=unique",
            rows(vec![("time", twice), integers("v", 3)]),
            "earlier in the batch",
        ),
    ]
}

/// An attacker's refused streams left a table each behind, with the columns and the tags of what was refused.
#[tokio::test]
async fn a_refused_stream_leaves_no_table_behind() {
    for (parameters, batch, words) in refused() {
        // Where there is no database, and where there is one.
        for has_database in [false, true] {
            let server = server();
            if has_database {
                server.engine.create_database("d").unwrap();
            }
            let answer = send(&server, &format!("db=d&table=m{parameters}"), &batch).await;
            let said = answer.error();
            assert!(
                answer.status >= 400 && said.contains(words),
                "{words}: {said}"
            );
            let snapshot = server.engine.snapshot();
            assert_eq!(
                snapshot.databases().len(),
                usize::from(has_database),
                "{words}"
            );
            assert!(snapshot.table("d", "public", "m").is_none(), "{words}");
        }
    }
    let server = server();
    let batch = rows(vec![times(1), integers("v", 1)]);
    for parameters in [
        "db=d&table=m&schema=x".to_owned(),
        format!("db=d&table={}", "m".repeat(1025)),
    ] {
        let answer = send(&server, &parameters, &batch).await;
        assert!(answer.status >= 400, "{}", answer.text());
        assert!(
            server.engine.snapshot().databases().is_empty(),
            "{parameters}"
        );
    }
}

#[tokio::test]
async fn a_refused_stream_adds_no_column_to_a_table_that_is_there() {
    for (parameters, batch, words) in refused() {
        let server = server();
        let first = rows(vec![
            times(1),
            ("first", Arc::new(Float64Array::from(vec![0.5]))),
        ]);
        let answer = send(&server, "db=d&table=m", &first).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        // The kind of duplicates is that of the table, and of it a conflict cannot be said before.
        if parameters.contains("unique") {
            continue;
        }
        let path = format!("db=d&table=m&add_columns=true{parameters}");
        let answer = send(&server, &path, &batch).await;
        let said = answer.error();
        assert!(
            answer.status >= 400 && said.contains(words),
            "{words}: {said}"
        );
        let table = server.engine.snapshot().table("d", "public", "m").unwrap();
        assert_eq!((table.tags.len(), table.fields.len()), (0, 1), "{words}");
        assert_eq!(
            server.query("SELECT count(*) AS n FROM m", "csv").await,
            "n\n1\n"
        );
    }
}

/// What the look beforehand takes is written, as it was before there was one.
#[tokio::test]
async fn what_just_fits_makes_its_table_and_its_columns() {
    let server = server();
    let hosts: Vec<String> = (0..4).map(|n| format!("h{n}")).collect();
    let batch = rows(vec![times(4), texts("host", hosts), integers("v", 4)]);
    let unique = "db=d&table=m&tags=host&duplicates=unique";
    let answer = send(&server, unique, &batch).await;
    assert_eq!(
        (answer.status, answer.json()["rows_written"].as_i64()),
        (200, Some(4))
    );
    // The same series, and one column and one tag more.
    let hosts: Vec<String> = (0..4).map(|n| format!("h{n}")).collect();
    let empty = vec![String::new(); 4];
    let later: ArrayRef = Arc::new(Int64Array::from_iter_values(10..14));
    let batch = rows(vec![
        ("time", later),
        texts("host", hosts),
        texts("rack", empty),
        integers("w", 4),
    ]);
    let path = "db=d&table=m&tags=rack&add_columns=true";
    let answer = send(&server, path, &batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let sql = "SELECT count(*) AS n, count(w) AS w, count(DISTINCT host) AS hosts FROM m";
    assert_eq!(server.query(sql, "csv").await, "n,w,hosts\n8,4,4\n");
}
