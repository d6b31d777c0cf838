//! Limits that a request meets: each ends it with an error that names the setting, and leaves the server as it was.
//!
//! Those of bodies are in `write.rs`, those of heads in `access.rs`, those of connections in `serve.rs`, those of answers
//! in `query.rs`.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_service::QueryOptions as SqlOptions;

use crate::support::{Answer, Server, ServerConfig};

fn with(options: Options) -> Server {
    let disk = Arc::new(MemoryDisk::default());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/data"), options).unwrap();
    Server::over(Arc::new(engine), ServerConfig::default())
}

fn text(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().concat()
}

fn assert_names(answer: &Answer, status: u16, setting: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.error().contains(setting), "{}", answer.error());
}

async fn number(server: &Server, sql: &str) -> i64 {
    let rows = server.try_query(sql, "json").await.json();
    rows[0]["n"].as_i64().unwrap_or_else(|| panic!("{rows}"))
}

/// A statement that changes something.
async fn change(server: &Server, sql: &str) -> Answer {
    let body = serde_json::json!({ "db": "d", "q": sql }).to_string();
    let headers = [("content-type", "application/json")];
    server.post("/api/v3/query_sql", &headers, body).await
}

/// Counts what a database has of tables, and of columns beside the time.
const COLUMNS: &str = "SELECT count(*) AS n FROM information_schema.columns WHERE table_schema = 'public' AND column_name <> 'time'";

/// Counts its tables.
const TABLES: &str =
    "SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = 'public'";

#[tokio::test]
async fn a_write_of_too_many_columns_is_refused_however_they_come_and_again_and_again_the_same() {
    let options = || Options {
        batch_columns_max: 10,
        ..Options::default()
    };
    let fields = |n: usize| {
        let fields: Vec<String> = (0..n).map(|n| format!("f{n}={n}")).collect();
        format!("m {} 1", fields.join(","))
    };
    let tags = |n: usize| {
        let tags = text((0..n).map(|n| format!(",t{n}=x")));
        format!("m{tags} v=1 1")
    };
    let rows = |n: usize| text((0..n).map(|n| format!("m f{n}={n} {n}\n")));
    let tables = |n: usize| text((0..n).map(|n| format!("m{n} v={n} 1\n")));
    // One field is beside the tags.
    let bodies: [(&str, String, String); 4] = [
        ("fields", fields(10), fields(11)),
        ("tags", tags(9), tags(10)),
        ("a field a row", rows(10), rows(2_000)),
        ("tables", tables(10), tables(2_000)),
    ];
    for (what, few, many) in bodies {
        let server = with(options());
        for _ in 0..3 {
            assert_names(&server.write(many.clone()).await, 413, "batch-columns-max");
        }
        // A refused write left its database, its tables and as many columns behind as it might have.
        assert_eq!(server.engine.snapshot().databases(), Vec::<String>::new());
        server.engine.create_database("d").unwrap();
        assert_names(&server.write(many.clone()).await, 413, "batch-columns-max");
        let made = number(&server, COLUMNS).await;
        assert_eq!(made, 0, "{what}: {made} columns");
        assert_eq!(number(&server, TABLES).await, 0, "{what}");
        let answer = server.write(few).await;
        assert_eq!(answer.status, 204, "{what}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_typed_write_of_too_many_columns_is_refused() {
    let server = with(Options {
        batch_columns_max: 10,
        ..Options::default()
    });
    assert_eq!(server.write("m f0=1i 1").await.status, 204);
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let names: Vec<String> = (0..10).map(|n| format!("f{n}")).collect();
    let columns = names.iter().map(|name| (name.as_str(), Arc::clone(&one)));
    let batch = columns.chain([("time", Arc::clone(&one))]);
    let batch = RecordBatch::try_from_iter(batch).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let headers = [("content-type", "application/vnd.apache.arrow.stream")];
    let path = "/api/v3/write_arrow?db=d&table=m";
    let answer = server
        .post(path, &headers, writer.into_inner().unwrap())
        .await;
    assert_names(&answer, 413, "batch-columns-max");
}

#[tokio::test]
async fn a_write_that_makes_too_many_series_is_refused_and_known_ones_do_not_count() {
    let options = || Options {
        batch_series_max: 10,
        ..Options::default()
    };
    let lines =
        |hosts: std::ops::Range<u32>| text(hosts.map(|n| format!("m,host=h{n} v={n}i 1\n")));
    let server = with(options());
    let refused = server.write(lines(0..11)).await;
    assert_names(&refused, 413, "batch-series-max");
    assert_eq!(server.write(lines(0..10)).await.status, 204);
    assert_eq!(server.write(lines(0..20)).await.status, 204);
    assert_names(&server.write(lines(0..31)).await, 413, "batch-series-max");
    assert_eq!(number(&server, "SELECT count(*) AS n FROM m").await, 20);

    let hosts: Vec<String> = (100..111).map(|n| format!("h{n}")).collect();
    let times: ArrayRef = Arc::new(Int64Array::from(vec![1; 11]));
    let hosts: ArrayRef = Arc::new(StringArray::from(hosts));
    let columns = [("time", Arc::clone(&times)), ("host", hosts), ("v", times)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let send = async |batch: &RecordBatch| {
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        let headers = [("content-type", "application/vnd.apache.arrow.stream")];
        let path = "/api/v3/write_arrow?db=d&table=m";
        server
            .post(path, &headers, writer.into_inner().unwrap())
            .await
    };
    assert_names(&send(&batch).await, 413, "batch-series-max");
    assert_eq!(send(&batch.slice(0, 10)).await.status, 200);
}

#[tokio::test]
async fn a_small_body_that_would_become_gigabytes_is_refused_while_it_is_read() {
    // Twenty thousand rows of twenty thousand columns: three gigabytes of room for values that are not there.
    let lines = text((0..20_000).map(|n| format!("m f{n}=1 {n}\n")));
    assert!(lines.len() < 500_000);
    let server = with(Options {
        memory_bytes_max: 64 << 20,
        ..Options::default()
    });
    let answer = server.write(lines).await;
    assert_names(&answer, 503, "memory_bytes_max");
    // None of its columns was made, nor what they would be in.
    assert_eq!(server.engine.snapshot().databases(), Vec::<String>::new());
}

/// The story: the setting held for tables over time and not for relations, where 5,000 bytes were stored with a limit of 1,000.
#[tokio::test]
async fn a_value_of_a_relation_has_the_limit_of_the_setting() {
    let server = with(Options {
        value_bytes_max: 1_000,
        ..Options::default()
    });
    assert_eq!(server.write("m v=1 1").await.status, 204);
    let made = "CREATE TABLE r (k bigint PRIMARY KEY, v text)";
    assert_eq!(change(&server, made).await.status, 200);
    let short = format!("INSERT INTO r VALUES (1, '{}')", "x".repeat(1_000));
    assert_eq!(change(&server, &short).await.status, 200);
    let long = "x".repeat(1_001);
    for statement in [
        format!("INSERT INTO r VALUES (2, '{long}')"),
        format!("UPDATE r SET v = '{long}'"),
    ] {
        assert_names(&change(&server, &statement).await, 413, "value-bytes-max");
    }
    // What the store keeps for itself is not a user's value.
    let view = format!("CREATE VIEW w AS SELECT k, '{long}' AS t FROM r");
    assert_eq!(change(&server, &view).await.status, 200);
    assert_eq!(
        number(&server, "SELECT count(*) AS n FROM r WHERE v LIKE 'x%'").await,
        1
    );
}

#[tokio::test]
async fn a_write_over_its_time_says_so() {
    let server = Server::with(ServerConfig {
        write_ms_max: 0,
        ..ServerConfig::default()
    });
    // A short body is sometimes written before anybody looks at the time.
    let lines = text((0..100_000).map(|n| format!("m,host=h{n} v={n}i {n}\n")));
    let answer = server.write(lines).await;
    assert_names(&answer, 504, "write-ms-max");
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn statements_that_are_too_long_or_too_deep_name_their_settings() {
    let server = Server::with(ServerConfig {
        sql: SqlOptions {
            sql_bytes_max: 1_000,
            sql_operators_max: 20,
            gapfill_buckets_max: 3,
            ..SqlOptions::default()
        },
        ..ServerConfig::default()
    });
    assert_eq!(server.write("m v=1 1").await.status, 204);
    let long = format!("SELECT '{}'", "x".repeat(1_000));
    let deep = format!("SELECT {} AS n", vec!["1"; 30].join(" + "));
    let gaps = "SELECT time_bucket_gapfill('1 hour', time) AS t, avg(v) FROM m WHERE time >= '2024-01-01' AND time < '2024-01-02' GROUP BY t";
    for (sql, status, setting) in [
        (long.as_str(), 413, "sql-bytes-max"),
        (deep.as_str(), 400, "sql-operators-max"),
        (gaps, 400, "gapfill-buckets-max"),
    ] {
        assert_names(&server.try_query(sql, "json").await, status, setting);
    }
    assert_eq!(number(&server, "SELECT 1 + 1 AS n").await, 2);
}

#[tokio::test]
async fn a_query_over_its_memory_or_time_frees_all_that_it_had() {
    let held = |server: &Server| server.engine.metrics().memory_query_bytes;
    let lines = text((0..60_000).map(|n| format!("m v={n}i {n}\n")));
    let grouped = "SELECT v, count(*) FROM m GROUP BY v";
    let endless = "SELECT sum(a.v + b.v + c.v) AS s FROM m a, m b, m c";
    let options = SqlOptions::default;
    for (sql, options, status, setting) in [
        (
            grouped,
            SqlOptions {
                query_memory_bytes_max: 1 << 20,
                ..options()
            },
            413,
            "query-memory-bytes-max",
        ),
        (
            grouped,
            SqlOptions {
                queries_memory_bytes_max: 1 << 20,
                ..options()
            },
            503,
            "queries-memory-bytes-max",
        ),
        (
            endless,
            SqlOptions {
                query_ms_max: 50,
                ..options()
            },
            504,
            "query-ms-max",
        ),
    ] {
        let server = Server::with(ServerConfig {
            queries_max: 1,
            // A turn is given back a moment after the answer.
            queries_waiting_max: 1,
            sql: options,
            ..ServerConfig::default()
        });
        assert_eq!(server.write(lines.clone()).await.status, 204);
        for _ in 0..3 {
            assert_names(&server.try_query(sql, "json").await, status, setting);
            // Its tasks end by themselves once nobody asks them for more; a test that waits for ever has failed.
            while held(&server) > 0 {
                tokio::task::yield_now().await;
            }
        }
        let name = format!("nilometer_limits_hit_total{{setting=\"{setting}\"}} 3\n");
        let metrics = server.get("/metrics").await.text().to_owned();
        assert!(metrics.contains(&name), "no {name} in\n{metrics}");
        // The only turn is free again.
        assert_eq!(number(&server, "SELECT max(v) AS n FROM m").await, 59_999);
    }
}

/// The story: a question of 200 MiB of blanks was taken into memory, several times, to say that a statement may have one.
#[tokio::test]
async fn a_question_is_refused_before_it_is_as_large_as_rows_may_be() {
    let server = Server::with(ServerConfig {
        sql: SqlOptions {
            sql_bytes_max: 1_000,
            ..SqlOptions::default()
        },
        ..ServerConfig::default()
    });
    let question = |blanks: usize| {
        let sql = format!("SELECT 1 AS n{}", " ".repeat(blanks));
        serde_json::json!({ "db": "d", "q": sql, "format": "csv" }).to_string()
    };
    assert_eq!(server.write("m v=1 1").await.status, 204);
    let json = [("content-type", "application/json")];
    let ask = async |body: String| server.post("/api/v3/query_sql", &json, body).await;
    assert_eq!(ask(question(900)).await.text(), "n\n1\n");
    for blanks in [1_000, 11_000, 13_000, 3_000_000] {
        assert_names(&ask(question(blanks)).await, 413, "sql-bytes-max");
    }
}

/// A write that a limit refused left its table behind, with the columns that came before the one that was too many.
#[tokio::test]
async fn a_write_that_is_refused_defines_nothing() {
    let options = || Options {
        table_tags_max: 3,
        batch_columns_max: 6,
        batch_series_max: 4,
        batch_rows_max: 8,
        ..Options::default()
    };
    let server = with(options());
    let refused = server.write("new,a=1,b=1,c=1,d=1 v=1 1").await;
    assert_names(&refused, 413, "table-tags-max");
    let databases = || server.engine.snapshot().databases();
    assert_eq!(databases(), Vec::<String>::new());
    // What is there takes part in what is counted.
    assert_eq!(server.write("old,a=1,b=1 v=1 1").await.status, 204);
    let defined = async || {
        (
            number(&server, TABLES).await,
            number(&server, COLUMNS).await,
            number(
                &server,
                "SELECT count(*) AS n FROM system.series WHERE database_name = 'd'",
            )
            .await,
        )
    };
    let before = defined().await;
    assert_eq!((before.0, before.1), (1, 3));
    let rows = |n: usize| text((0..n).map(|n| format!("new v={n} {n}\n")));
    let series = |n: usize| text((0..n).map(|n| format!("new,h=h{n} v={n} {n}\n")));
    for (body, setting) in [
        (
            "new v=1 1\nnew,a=1,b=1,c=1,d=1 v=1 1".to_owned(),
            "table-tags-max",
        ),
        ("old,a=1,b=1,c=1,d=1 v=1 1".to_owned(), "table-tags-max"),
        (
            "old,a=2,b=2 w=1 1\nold,a=1,c=1 v=1 1\nold,d=1 v=1 1".to_owned(),
            "table-tags-max",
        ),
        (
            "new a=1,b=1,c=1 1\nold e=1,f=1,g=1,h=1 1".to_owned(),
            "batch-columns-max",
        ),
        (series(5), "batch-series-max"),
        (rows(9), "batch-rows-max"),
    ] {
        assert_names(&server.write(body.clone()).await, 413, setting);
        assert_eq!(defined().await, before, "{body}");
    }
    // The same up to the limits is taken, and has what it says.
    for body in [
        "new,a=1,b=1,c=1 v=1 1".to_owned(),
        "old,a=1,c=1 v=2,w=\"x\" 1".to_owned(),
        series(3).replace("new,h", "third,h"),
        "third,h=h0 v=7 8\nbad v=\nthird,h=h0 w=true 9\nthird,h=h1 w=1 9".to_owned(),
    ] {
        let answer = server.write(body.clone()).await;
        assert!(matches!(answer.status, 204 | 400), "{}", answer.text());
    }
    for (sql, want) in [
        ("SELECT a, b, c, v FROM new", "a,b,c,v\n1,1,1,1.0\n"),
        (
            "SELECT a, b, c, v, w FROM old ORDER BY v",
            "a,b,c,v,w\n1,1,,1.0,\n1,,1,2.0,x\n",
        ),
        (
            "SELECT h, v, w FROM third WHERE time >= to_timestamp_nanos(8) ORDER BY time",
            "h,v,w\nh0,7.0,\nh0,,true\n",
        ),
    ] {
        assert_eq!(server.query(sql, "csv").await, want, "{sql}");
    }
}
