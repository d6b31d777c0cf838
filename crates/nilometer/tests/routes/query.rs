//! `/api/v3/query_sql`: the ways to ask, the formats of answers, and refusals.

use crate::support::{Server, ServerConfig};
use nilometer_service::QueryOptions as SqlOptions;
use serde_json::json;

async fn server() -> Server {
    let server = Server::new();
    let lines = "m,host=a f=1.5,i=-9007199254740993i,u=18446744073709551615u,b=true,s=\"x, \\\"y\\\"\" 1451606400000000000\n\
                 m,host=b f=2 1451606400123456789\n\
                 m f=3e20 -1000000";
    assert_eq!(server.write(lines).await.status, 204);
    server
}

const ALL: &str = "SELECT time, host, f, i, u, b, s FROM m ORDER BY time";

#[tokio::test]
async fn json_has_times_in_utc_whole_integers_and_explicit_nulls() {
    let expected = "[{\"time\":\"1969-12-31T23:59:59.999Z\",\"host\":null,\"f\":3.0e20,\"i\":null,\"u\":null,\"b\":null,\"s\":null},\n\
        {\"time\":\"2016-01-01T00:00:00Z\",\"host\":\"a\",\"f\":1.5,\"i\":-9007199254740993,\"u\":18446744073709551615,\"b\":true,\"s\":\"x, \\\"y\\\"\"},\n\
        {\"time\":\"2016-01-01T00:00:00.123456789Z\",\"host\":\"b\",\"f\":2.0,\"i\":null,\"u\":null,\"b\":null,\"s\":null}]\n";
    assert_eq!(server().await.query(ALL, "json").await, expected);
}

#[tokio::test]
async fn an_answer_says_where_its_time_went() {
    let server = server().await;
    let all = "turn, parse, plan, read, prune, decode, operate, encode, rows, blocks";
    for (sql, parts, rows) in [
        (ALL, all, "3 read, 0 skipped"),
        (
            "SELECT host, max(f) FROM m GROUP BY host",
            all,
            "3 read, 0 skipped",
        ),
        // The store leaves out what does not meet it.
        ("SELECT f FROM m WHERE f < 0", all, "0 read, 0 skipped"),
        ("SELECT 1 AS one", "turn, parse, plan, read, encode", ""),
    ] {
        let address = format!(
            "/api/v3/query_sql?db=d&q={}",
            sql.replace(' ', "%20").replace('<', "%3C")
        );
        // A statement like one that ran before has no plan, and its steps are the same.
        for _ in 0..2 {
            let answer = server.get(&address).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let timing = answer.header("server-timing");
            let found: Vec<&str> = timing
                .split(", ")
                // A description has a comma, too.
                .filter_map(|part| part.split_once(';'))
                .map(|(name, value)| {
                    if let Some(took) = value.strip_prefix("dur=") {
                        assert!(took.parse::<f64>().unwrap() >= 0.0, "{timing}");
                    }
                    name
                })
                .collect();
            assert_eq!(found.join(", "), parts, "{sql}: {timing}");
            let said = format!("rows;desc=\"{rows}\"");
            assert!(rows.is_empty() || timing.contains(&said), "{sql}: {timing}");
        }
    }
    let wrong = server
        .get("/api/v3/query_sql?db=d&q=SELECT%20nothing")
        .await;
    assert_eq!((wrong.status, wrong.header("server-timing")), (400, ""));
}

#[tokio::test]
async fn jsonl_is_a_row_a_line_and_no_rows_are_nothing() {
    let server = server().await;
    assert_eq!(
        server
            .query("SELECT f FROM m ORDER BY f LIMIT 2", "jsonl")
            .await,
        "{\"f\":1.5}\n{\"f\":2.0}\n"
    );
    assert_eq!(
        server.query("SELECT f FROM m WHERE f < 0", "jsonl").await,
        ""
    );
    assert_eq!(
        server.query("SELECT f FROM m WHERE f < 0", "json").await,
        "[]\n"
    );
    assert_eq!(
        server
            .query("SELECT f, host FROM m WHERE f < 0", "csv")
            .await,
        "f,host\n"
    );
}

#[tokio::test]
async fn csv_has_one_header_quotes_what_needs_it_and_leaves_nulls_empty() {
    let expected = "time,host,f,i,u,b,s\n\
        1969-12-31T23:59:59.999Z,,3e20,,,,\n\
        2016-01-01T00:00:00Z,a,1.5,-9007199254740993,18446744073709551615,true,\"x, \"\"y\"\"\"\n\
        2016-01-01T00:00:00.123456789Z,b,2.0,,,,\n";
    assert_eq!(server().await.query(ALL, "csv").await, expected);
}

#[tokio::test]
async fn pretty_is_a_table() {
    let expected =
        "+------+-----+\n| host | f   |\n+------+-----+\n| a    | 1.5 |\n+------+-----+\n";
    assert_eq!(
        server()
            .await
            .query("SELECT host, f FROM m WHERE host = 'a'", "pretty")
            .await,
        expected
    );
}

#[tokio::test]
async fn numbers_that_json_does_not_have_are_null() {
    let text = server()
        .await
        .query(
            "SELECT f / 0 AS inf, -f / 0 AS ninf, (f - f) / 0 AS nan FROM m LIMIT 1",
            "json",
        )
        .await;
    assert_eq!(text, "[{\"inf\":null,\"ninf\":null,\"nan\":null}]\n");
}

#[tokio::test]
async fn the_question_may_come_in_the_address_in_json_or_in_a_form() {
    let server = server().await;
    let rows = json!([{"n": 3}]);
    let sql = "SELECT count(*) AS n FROM m";
    let path = "/api/v3/query_sql";
    let in_json = json!({"db": "d", "q": sql, "format": "json"}).to_string();
    let answer = server
        .post(path, &[("content-type", "application/json")], in_json)
        .await;
    assert_eq!(answer.json(), rows);
    let form = "db=d&q=SELECT+count(*)+AS+n+FROM+m";
    let answer = server
        .post(
            path,
            &[("content-type", "application/x-www-form-urlencoded")],
            form,
        )
        .await;
    assert_eq!(answer.json(), rows);
    let answer = server
        .post(
            "/api/v3/query_sql?db=d&q=SELECT%20count(*)%20AS%20n%20FROM%20m",
            &[],
            "",
        )
        .await;
    assert_eq!(answer.json(), rows);
    let answer = server
        .post(path, &[("content-type", "application/json")], "{\"db\": 1}")
        .await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn the_format_follows_the_parameter_then_accept_then_json() {
    let server = server().await;
    for (accept, content_type) in [
        ("text/csv", "text/csv; charset=utf-8"),
        ("application/jsonl", "application/jsonl"),
        ("image/png, application/json;q=0.5", "application/json"),
        ("*/*", "application/json"),
        ("text/plain", "text/plain; charset=utf-8"),
    ] {
        let body = json!({"db": "d", "q": "SELECT 1"}).to_string();
        let answer = server
            .post("/api/v3/query_sql", &[("accept", accept)], body)
            .await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, content_type),
            "{accept}"
        );
    }
    let answer = server.try_query("SELECT 1", "xml").await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.error(),
        "unknown format 'xml': use json, jsonl, csv, arrow, parquet or pretty"
    );
    let body = json!({"db": "d", "q": "SELECT 1"}).to_string();
    let answer = server
        .post("/api/v3/query_sql", &[("accept", "image/png")], body)
        .await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .error()
            .contains("format=json, jsonl, csv, arrow, parquet or pretty"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn refusals_have_a_status_a_sentence_and_a_place() {
    let server = server().await;
    for (sql, status, words, place) in [
        (
            "SELECT *\nFROM n",
            400,
            "did you mean \"m\"?",
            json!([2, 6]),
        ),
        ("SELECT g FROM m", 400, "did you mean", json!([1, 8])),
        ("SELEC 1", 400, "syntax error", json!([1, 1])),
        (
            "DROP TABLE m",
            403,
            "send it with POST",
            json!([null, null]),
        ),
        ("SELECT 1 / 0", 400, "ivi", json!([null, null])),
        (
            "SELECT * FROM x.public.m",
            400,
            "database not found: \"x\"",
            json!([1, 15]),
        ),
    ] {
        let answer = server.try_query(sql, "json").await;
        let body = answer.json();
        assert_eq!(answer.status, status, "{sql}: {body}");
        assert!(answer.error().contains(words), "{sql}: {body}");
        assert_eq!(
            json!([body["line"], body["column"]]),
            place,
            "{sql}: {body}"
        );
        assert_eq!(answer.header("content-type"), "application/json");
    }
    let answer = server.get("/api/v3/query_sql?db=x&q=SELECT%201").await;
    assert_eq!(
        (answer.status, answer.error()),
        (404, "database not found: \"x\"".to_owned())
    );
    let answer = server.get("/api/v3/query_sql?db=d").await;
    assert_eq!(
        (answer.status, answer.error()),
        (400, "missing query parameter 'q'".to_owned())
    );
}

#[tokio::test]
async fn limits_of_queries_have_their_status_and_name() {
    let all = SqlOptions::default().query_memory_bytes_max;
    let lines: Vec<String> = (0..60_000).map(|n| format!("m v={n}i {n}")).collect();
    for (memory, sql, format, setting) in [
        // Less than as many groups take.
        (
            1 << 20,
            "SELECT v, count(*) FROM m GROUP BY v",
            "json",
            "query-memory-bytes-max",
        ),
        (all, "SELECT v FROM m", "json", "answer-rows-max"),
        (
            all,
            "SELECT v FROM m LIMIT 20",
            "pretty",
            "answer-pretty-rows-max",
        ),
    ] {
        let server = Server::with(ServerConfig {
            answer_rows_max: 1000,
            answer_pretty_rows_max: 10,
            sql: SqlOptions {
                query_memory_bytes_max: memory,
                ..SqlOptions::default()
            },
            ..ServerConfig::default()
        });
        assert_eq!(server.write(lines.join("\n")).await.status, 204);
        let answer = server.try_query(sql, format).await;
        assert_eq!(answer.status, 413, "{sql}: {}", answer.text());
        assert!(answer.error().contains(setting), "{}", answer.error());
    }
    let sql = SqlOptions {
        query_ms_max: 0,
        ..SqlOptions::default()
    };
    let server = Server::with(ServerConfig {
        sql,
        ..ServerConfig::default()
    });
    assert_eq!(server.write("m v=1 1").await.status, 204);
    let answer = server.try_query("SELECT count(*) FROM m", "json").await;
    assert_eq!(answer.status, 504);
    assert!(
        answer.error().contains("query-ms-max"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn a_large_answer_streams_and_is_whole() {
    let server = Server::new();
    let lines: Vec<String> = (0..100_000)
        .map(|n| format!("m,host=h{} v={n}i {n}", n % 10))
        .collect();
    assert_eq!(server.write(lines.join("\n")).await.status, 204);
    let answer = server.try_query("SELECT v FROM m", "json").await;
    assert_eq!(
        answer.header("content-length"),
        "",
        "an answer of several chunks has no length"
    );
    let mut values: Vec<i64> = answer
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["v"].as_i64().unwrap())
        .collect();
    values.sort_unstable();
    assert!(values.iter().copied().eq(0..100_000));
    let csv = server.query("SELECT v FROM m", "csv").await;
    assert_eq!(csv.lines().count(), 100_001);
    assert_eq!(csv.lines().filter(|line| *line == "v").count(), 1);
}

#[tokio::test]
async fn a_queue_of_queries_has_an_end() {
    let config = ServerConfig {
        queries_max: 1,
        queries_waiting_max: 0,
        ..ServerConfig::default()
    };
    let server = Server::with(config);
    assert_eq!(server.write("m v=1i 1").await.status, 204);
    let asked = (0..20).map(|_| server.try_query("SELECT sum(v) FROM m", "json"));
    let statuses: Vec<u16> = futures::future::join_all(asked)
        .await
        .iter()
        .map(|answer| answer.status)
        .collect();
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 429)),
        "{statuses:?}"
    );
    assert!(
        statuses.contains(&200) && statuses.contains(&429),
        "{statuses:?}"
    );
    assert_eq!(
        server
            .try_query("SELECT sum(v) FROM m", "json")
            .await
            .status,
        200,
        "the turn was not given back"
    );
}

#[tokio::test]
async fn what_changes_something_needs_post() {
    // A browser's history, a proxy and a crawler repeat a GET as they like.
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1i 1").await.status, 204);
    for statement in [
        "DELETE+FROM+m",
        "DROP+TABLE+m",
        "INSERT+INTO+m+(time,v)+VALUES+(now(),1)",
    ] {
        let path = format!("/api/v3/query_sql?db=d&q={statement}");
        let answer = server.get(&path).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(answer.error().contains("POST"), "{}", answer.error());
    }
    let body = json!({"db": "d", "q": "DELETE FROM m"}).to_string();
    let answer = server.post("/api/v3/query_sql", &[], body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        server.query("SELECT count(*) AS n FROM m", "jsonl").await,
        "{\"n\":0}\n"
    );
}

/// `to_timestamp_seconds(9223372036854775807)` was answered with a text in JSON that had quotes inside, and no JSON reader took it.
#[tokio::test]
async fn times_that_no_text_has_are_refused_and_what_is_answered_is_json() {
    let server = server().await;
    for call in [
        "to_timestamp_seconds(9223372036854775807)",
        "to_timestamp_millis(9223372036854775807)",
        "to_timestamp_micros(-9223372036854775807)",
    ] {
        let sql = format!("SELECT {call} AS t");
        let answer = server.try_query(&sql, "json").await;
        assert_eq!(answer.status, 400, "{sql}: {}", answer.text());
        assert!(
            answer.error().contains("outside of the years"),
            "{sql}: {}",
            answer.error()
        );
    }
    for expr in [
        "arrow_cast(9223372036854775807, 'Timestamp(Second, None)')",
        "arrow_cast(9223372036854775807, 'Timestamp(Millisecond, None)')",
        "arrow_cast(-9223372036854775807, 'Timestamp(Microsecond, None)')",
        "make_array(arrow_cast(9223372036854775807, 'Timestamp(Second, None)'))",
        "struct(arrow_cast(-9223372036854775807, 'Timestamp(Second, None)'))",
        "arrow_cast(2147483647, 'Date32')",
        "arrow_cast(-9223372036854775807, 'Date64')",
        "arrow_cast(arrow_cast(86400, 'Int32'), 'Time32(Second)')",
        "arrow_cast(-1, 'Time64(Nanosecond)')",
        "arrow_cast(9223372036854775807, 'Duration(Second)')",
    ] {
        for format in ["json", "jsonl", "csv", "pretty"] {
            let sql = format!("SELECT {expr} AS t");
            let answer = server.try_query(&sql, format).await;
            assert_eq!(answer.status, 400, "{sql}: {}", answer.text());
            assert!(
                answer.error().contains("\"t\""),
                "{sql}: {}",
                answer.error()
            );
        }
    }
    for (expr, expected) in [
        (
            "to_timestamp_seconds(253402300799)",
            json!("9999-12-31T23:59:59Z"),
        ),
        (
            "to_timestamp_nanos(-9223372036854775807)",
            json!("1677-09-21T00:12:43.145224193Z"),
        ),
        (
            "to_timestamp_nanos(9223372036854775807)",
            json!("2262-04-11T23:47:16.854775807Z"),
        ),
        ("arrow_cast(-719528, 'Date32')", json!("0000-01-01")),
        ("interval '178956970 years'", json!("2147483640 mons")),
        ("'NaN'::float8", json!(null)),
        ("'-Infinity'::real", json!(null)),
        ("make_array('Infinity'::float8)", json!([null])),
        ("'\u{1}\"'", json!("\u{1}\"")),
    ] {
        let answer = server
            .try_query(&format!("SELECT {expr} AS t"), "json")
            .await;
        assert_eq!(answer.status, 200, "{expr}: {}", answer.text());
        assert_eq!(answer.json(), json!([{"t": expected}]), "{expr}");
    }
}

/// Two columns of one name were one key of JSON twice, of which readers keep either.
#[tokio::test]
async fn every_format_has_the_same_names_and_none_twice() {
    let server = server().await;
    let sql = "SELECT a.f, b.f, count(*), 1, 1 FROM m a JOIN m b ON a.time = b.time AND a.f = 2.0 GROUP BY 1, 2";
    assert_eq!(
        server.query(sql, "json").await,
        "[{\"f\":2.0,\"f_1\":2.0,\"count\":1,\"?column?\":1,\"?column?_1\":1}]\n"
    );
    assert_eq!(
        server.query(sql, "csv").await,
        "f,f_1,count,?column?,?column?_1\n2.0,2.0,1,1,1\n"
    );
    let answer = server.try_query(sql, "arrow").await;
    let reader = arrow_ipc::reader::StreamReader::try_new(answer.body.as_slice(), None).unwrap();
    let schema = reader.schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|it| it.name().as_str())
        .collect();
    assert_eq!(names, ["f", "f_1", "count", "?column?", "?column?_1"]);
    let table = server.query("SELECT count(*) FROM m", "pretty").await;
    assert_eq!(
        table,
        "+-------+\n| count |\n+-------+\n| 3     |\n+-------+\n"
    );
}

/// A time zone is a parameter of each request: it is where times without an offset are, and what text shows.
#[tokio::test]
async fn a_request_may_be_in_a_time_zone() {
    let server = server().await;
    let path = "/api/v3/query_sql?db=d&timezone=Asia/Kolkata&q=SELECT+time,f+FROM+m+WHERE+time+%3D+%272016-01-01+05:30%27";
    for (format, expected) in [
        (
            "json",
            "[{\"time\":\"2016-01-01T05:30:00+05:30\",\"f\":1.5}]\n",
        ),
        (
            "jsonl",
            "{\"time\":\"2016-01-01T05:30:00+05:30\",\"f\":1.5}\n",
        ),
        ("csv", "time,f\n2016-01-01T05:30:00+05:30,1.5\n"),
    ] {
        let answer = server.get(&format!("{path}&format={format}")).await;
        assert_eq!((answer.status, answer.text()), (200, expected));
    }
    let pretty = server.get(&format!("{path}&format=pretty")).await;
    assert!(
        pretty.text().contains("| 2016-01-01T05:30:00+05:30 |"),
        "{}",
        pretty.text()
    );
    let form =
        "db=d&timezone=%2B05%3A30&q=SELECT+'2016-01-01+05%3A30'::timestamptz+AS+t&format=csv";
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let answer = server.post("/api/v3/query_sql", &[kind], form).await;
    assert_eq!(answer.text(), "t\n2016-01-01T05:30:00+05:30\n");
    let body = json!({"db": "d", "timezone": "Asia/Kolkata", "q": "DELETE FROM m WHERE time = '2016-01-01 05:30'"});
    let kind = ("content-type", "application/json");
    let answer = server
        .post("/api/v3/query_sql", &[kind], body.to_string())
        .await;
    assert_eq!(answer.json(), json!([{"rows": 1}]));
    let wrong = server
        .get("/api/v3/query_sql?db=d&timezone=Mars&q=SELECT+1")
        .await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.error().contains("\"Mars\""), "{}", wrong.error());
    // Columns keep when they are and not how it is shown.
    let answer = server.get(&path.replace("q=", "format=arrow&q=")).await;
    let reader = arrow_ipc::reader::StreamReader::try_new(answer.body.as_slice(), None).unwrap();
    let kind = reader.schema().field(0).data_type().clone();
    assert!(kind.to_string().contains("UTC"), "{kind}");
}

/// A program built without SQL has the same routes, and says what it lacks before it looks at a statement.
#[tokio::test]
async fn a_build_without_sql_says_so_and_takes_lines_all_the_same() {
    let server = Server::without_sql();
    assert_eq!(server.write("m v=1 1").await.status, 204);
    for answer in [
        server.try_query("SELECT v FROM m", "json").await,
        server.post("/api/v3/query_sql", &[], "no question").await,
    ] {
        assert_eq!(answer.status, 501, "{}", answer.text());
        assert!(
            answer.error().contains("built without the language 'sql'"),
            "{}",
            answer.error()
        );
    }
    assert_eq!(server.get("/health").await.status, 200);
    let metrics = server.get("/metrics").await;
    assert!(metrics.text().contains("nilometer_rows_written_total 1\n"));
}
