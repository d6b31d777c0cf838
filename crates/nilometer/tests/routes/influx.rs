//! `/write` and `/api/v2/write`: codes and texts that clients of InfluxDB 1 and 2 act upon.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};
use serde_json::json;

use crate::support::{Answer, Server, ServerConfig, gzip, zstd};

const COUNT: &str = "SELECT count(*) AS n FROM m";

fn server() -> Server {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    server
}

async fn v1(server: &Server, query: &str, body: impl Into<Body>) -> Answer {
    server.post(&format!("/write?{query}"), &[], body).await
}

#[tokio::test]
async fn both_generations_store_in_every_encoding_and_unit() {
    let server = server();
    for (path, time) in [
        ("/write?db=d", "60000000000000"),
        ("/write?db=d&precision=", "60000000000000"),
        ("/write?db=d&precision=n", "60000000000000"),
        ("/write?db=d&precision=ns&rp=autogen", "60000000000000"),
        ("/write?db=d&precision=u&rp=public", "60000000000"),
        (
            "/write?db=d&precision=ms&consistency=all&u=x&p=y",
            "60000000",
        ),
        ("/write?db=d&precision=s", "60000"),
        ("/write?db=d&precision=m", "1000"),
        ("/write?db=d&precision=h&rp=", "16"),
        ("/api/v2/write?bucket=d", "60000000000000"),
        (
            "/api/v2/write?bucket=d/&org=o&precision=ns",
            "60000000000000",
        ),
        ("/api/v2/write?bucket=d/autogen&precision=us", "60000000000"),
        ("/api/v2/write?bucket=d&precision=ms", "60000000"),
        ("/api/v2/write?org=o&bucket=d&precision=s", "60000"),
    ] {
        for (encoding, line) in [
            ("identity", format!("m,path={} v=1 {time}", path.len())),
            ("gzip", format!("m,e=gzip v=1 {time}")),
            ("zstd", format!("m,e=zstd v=1 {time}")),
        ] {
            let body = match encoding {
                "gzip" => gzip(line.as_bytes()),
                "zstd" => zstd(line.as_bytes()),
                _ => line.into_bytes(),
            };
            let answer = server
                .post(path, &[("content-encoding", encoding)], body)
                .await;
            assert_eq!(answer.status, 204, "{path} {encoding}: {}", answer.text());
            assert!(answer.body.is_empty());
            assert_eq!(answer.header("x-influxdb-build"), "OSS");
            assert!(answer.header("x-influxdb-version").starts_with("1."));
            assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
        }
    }
    let times = server
        .query("SELECT DISTINCT time FROM m ORDER BY time", "csv")
        .await;
    assert_eq!(times, "time\n1970-01-01T16:00:00Z\n1970-01-01T16:40:00Z\n");
}

#[tokio::test]
async fn refusals_have_version_1s_codes_and_texts_and_store_nothing() {
    let server = server();
    for (path, status, error) in [
        ("/write", 400, "database is required"),
        ("/write?db=", 400, "database is required"),
        ("/write?db=x", 404, "database not found: \"x\""),
        ("/write?db=x&rp=y", 404, "database not found: \"x\""),
        ("/write?db=d&rp=y", 500, "retention policy not found: y"),
        (
            "/write?db=d&precision=us",
            400,
            "invalid precision \"us\" (use n, u, ms, s, m or h)",
        ),
        (
            "/write?db=d&consistency=most",
            400,
            "invalid consistency level",
        ),
        (
            "/api/v2/write",
            404,
            "bucket name \"\" is missing a slash; not in \"database/retention-policy\" format",
        ),
        (
            "/api/v2/write?bucket=/a",
            404,
            "bucket name \"/a\" is in db/rp form but has an empty database",
        ),
        ("/api/v2/write?bucket=x", 404, "database not found: \"x\""),
        (
            "/api/v2/write?bucket=d/y",
            500,
            "retention policy not found: y",
        ),
        (
            "/api/v2/write?bucket=d&precision=m",
            400,
            "invalid precision \"m\" (use ns, us, ms or s)",
        ),
    ] {
        let answer = server.post(path, &[], "m v=1 1").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        // Nothing but the error: some clients compare the body.
        assert_eq!(answer.json(), json!({ "error": error }), "{path}");
        assert!(answer.text().ends_with("}\n"));
        assert_eq!(answer.header("x-influxdb-error"), error, "{path}");
    }
    assert_eq!(server.try_query(COUNT, "json").await.status, 400);
    assert_eq!(server.engine.snapshot().databases(), ["d"]);
}

#[tokio::test]
async fn lines_that_do_not_parse_are_quoted_and_the_others_are_kept() {
    let server = server();
    for body in ["", "\n\n", "# comment"] {
        assert_eq!(v1(&server, "db=d", body).await.status, 204, "{body:?}");
    }
    let answer = v1(&server, "db=d", "m v=\nm v=1x 3").await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.error(),
        "unable to parse 'm v=': missing field value\nunable to parse 'm v=1x 3': invalid number"
    );
    let answer = v1(&server, "db=d", "m v=1 1\nm v=\nm v=2 2").await;
    assert_eq!(
        (answer.status, answer.error()),
        (
            400,
            "partial write: unable to parse 'm v=': missing field value dropped=0 for database: d"
                .to_owned()
        )
    );
    let answer = v1(&server, "db=d&rp=autogen", "m v=3 3\nm v=").await;
    assert_eq!(
        answer.error(),
        "partial write: unable to parse 'm v=': missing field value dropped=0 for database: d for retention policy: autogen"
    );
    assert_eq!(server.query(COUNT, "jsonl").await, "{\"n\":3}\n");
    let many: Vec<String> = (0..150).map(|n| format!("m,n={n}")).collect();
    let answer = v1(&server, "db=d", many.join("\n")).await;
    assert_eq!(answer.error().lines().count(), 101);
    assert!(answer.error().ends_with("\nand 50 more lines"));
    assert!(answer.header("x-influxdb-error").len() == 1024);
}

#[tokio::test]
async fn lines_that_clash_with_their_table_are_counted_and_the_others_are_kept() {
    let server = server();
    assert_eq!(v1(&server, "db=d", "m v=1 1").await.status, 204);
    for (body, error) in [
        (
            "m v=2 2\nm v=1i 3\nm v=true 4",
            "partial write: field type conflict: input field \"v\" on measurement \"m\" is type integer, already exists as type float dropped=2",
        ),
        // A clash hides what does not parse.
        (
            "m v=\nm v=1i 3",
            "partial write: field type conflict: input field \"v\" on measurement \"m\" is type integer, already exists as type float dropped=1",
        ),
        (
            "m,time=x v=1 5",
            "partial write: invalid tag key: input tag \"time\" on measurement \"m\" is invalid dropped=1",
        ),
        (
            "m v=6,time=7 6",
            "partial write: invalid field name: input field \"time\" on measurement \"m\" is invalid dropped=0",
        ),
        (
            "m time=7 7",
            "partial write: invalid field name: input field \"time\" on measurement \"m\" is invalid dropped=1",
        ),
    ] {
        let answer = v1(&server, "db=d", body).await;
        let whole = format!("{error} for database: d for retention policy: autogen");
        assert_eq!((answer.status, answer.error()), (400, whole), "{body}");
    }
    assert_eq!(server.query(COUNT, "jsonl").await, "{\"n\":3}\n");
}

#[tokio::test]
async fn a_retention_policy_is_a_schema() {
    let server = server();
    server.engine.create_schema("d", "year").unwrap();
    assert_eq!(v1(&server, "db=d", "m v=1i 1").await.status, 204);
    assert_eq!(v1(&server, "db=d&rp=year", "m v=20i 1").await.status, 204);
    let answer = server.post("/api/v2/write?bucket=d/year", &[], "m v=300i 2");
    assert_eq!(answer.await.status, 204);
    let sum = |from: &'static str| format!("SELECT sum(v) AS s FROM {from}");
    assert_eq!(server.query(&sum("m"), "jsonl").await, "{\"s\":1}\n");
    assert_eq!(server.query(&sum("year.m"), "jsonl").await, "{\"s\":320}\n");
    // The default schema is a pointer, and no name means what it points to.
    server.engine.set_default_schema("d", "year").unwrap();
    assert_eq!(v1(&server, "db=d", "m v=4000i 3").await.status, 204);
    assert_eq!(
        server.query(&sum("year.m"), "jsonl").await,
        "{\"s\":4320}\n"
    );
}

#[tokio::test]
async fn limits_are_said_in_words_that_loaders_slow_down_on() {
    let server = Server::with(ServerConfig {
        body_bytes_max: 20,
        ..ServerConfig::default()
    });
    server.engine.create_database("d").unwrap();
    let answer = v1(&server, "db=d", "m v=1 123456789012345678").await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.error().starts_with("Request Entity Too Large")
            && answer.error().contains("body-bytes-max"),
        "{}",
        answer.error()
    );
    let server = Server::with(ServerConfig {
        bodies_bytes_max: 64 << 10,
        ..ServerConfig::default()
    });
    server.engine.create_database("d").unwrap();
    let answer = v1(&server, "db=d", "m v=1 1\n".repeat(20_000)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (500, "1"));
    assert!(
        answer.error().starts_with("timeout: ") && answer.error().contains("bodies-bytes-max"),
        "{}",
        answer.error()
    );
    let options = Options {
        memory_bytes_max: 8 << 20,
        ..Options::default()
    };
    let disk = Arc::new(MemoryDisk::default());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/data"), options).unwrap();
    engine.create_database("d").unwrap();
    let server = Server::over(Arc::new(engine), ServerConfig::default());
    let lines: Vec<String> = (0..200_000).map(|n| format!("m v={n}i {n}\n")).collect();
    let answer = v1(&server, "db=d", lines.concat()).await;
    assert_eq!(answer.status, 500);
    assert!(
        answer
            .error()
            .starts_with("engine: cache maximum memory size exceeded: ")
            && answer.error().contains("memory_bytes_max"),
        "{}",
        answer.error()
    );
    assert_eq!(v1(&server, "db=d", "m v=1i 1").await.status, 204);
}

#[tokio::test]
async fn a_database_that_was_dropped_is_not_written_by_a_session_that_knew_it() {
    let server = server();
    for n in 0..3 {
        assert_eq!(v1(&server, "db=d", format!("m v=1i {n}")).await.status, 204);
    }
    server.engine.drop_database("d").unwrap();
    let answer = v1(&server, "db=d", "m v=1i 9").await;
    assert_eq!(
        (answer.status, answer.error()),
        (404, "database not found: \"d\"".to_owned())
    );
    // The third generation makes it again at the first write.
    assert_eq!(server.write("m v=5i 9").await.status, 204);
    assert_eq!(v1(&server, "db=d", "m v=6i 10").await.status, 204);
    assert_eq!(server.query(COUNT, "jsonl").await, "{\"n\":2}\n");
}

#[tokio::test]
async fn ping_is_what_clients_of_influxdb_look_for() {
    let server = Server::new();
    for path in [
        "/ping",
        "/ping?verbose=false",
        "/ping?verbose=0",
        "/ping?verbose=",
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{path}");
        assert_eq!(answer.header("x-influxdb-build"), "OSS");
        assert!(answer.header("x-influxdb-version").starts_with("1."));
    }
    let answer = server.get("/ping?verbose=true").await;
    assert_eq!(answer.status, 200);
    // As there: the version that the header says.
    assert_eq!(
        answer.json(),
        json!({"version": answer.header("x-influxdb-version")})
    );
    let request = Request::head("/ping").body(Body::empty()).unwrap();
    assert_eq!(server.send(request).await.status, 204);
}
