//! `/query`: parameters, forms, chunks, errors. What is expected is what InfluxDB 1.6.7 answers.

use nilometer_service::{QueryOptions, ServiceOptions};

use crate::support::{Server, encoded};

const KEYS: &str = "show tag values from cpu with key in (host, region)";

#[tokio::test]
async fn parameters_come_in_the_address_a_form_or_a_form_in_parts() {
    let server = Server::filled().await;
    let whole = server.ask(KEYS).await;
    let get = format!("/query?db=d&q={}", encoded(KEYS));
    let form = format!("db=d&q={}", encoded(KEYS));
    let parts = format!(
        "--B\r\ncontent-disposition: form-data; name=\"q\"; filename=\"q.txt\"\r\n\r\n{KEYS}\r\n--B\r\n\
         content-disposition: form-data; name=\"db\"\r\n\r\nd\r\n--B--\r\n"
    );
    for (method, path, kind, body) in [
        ("GET", get.as_str(), "", ""),
        ("POST", &get, "text/plain", ""),
        ("POST", "/query", "application/x-www-form-urlencoded", &form),
        // What the body says counts before the address.
        (
            "POST",
            "/query?db=x",
            "application/x-www-form-urlencoded; charset=utf-8",
            &form,
        ),
        (
            "POST",
            "/query?u=me&p=secret",
            "multipart/form-data; boundary=B",
            &parts,
        ),
    ] {
        let answer = server
            .send(method, path, &[("content-type", kind)], body.to_owned())
            .await;
        assert_eq!(
            (answer.status, answer.text().trim_end()),
            (200, whole.as_str()),
            "{kind}"
        );
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

/// The survival ledger deleted rows and asked for CSV: the delete was carried out and answered with 500, because a document
/// of CSV without series is empty, and an answer of which nothing leaves was taken for one that had broken off.
#[tokio::test]
async fn csv_without_rows_is_an_empty_answer() {
    let server = Server::filled().await;
    for statement in [
        "select v from nothing",
        "delete from cpu where host = 'nobody'",
        "drop measurement nothing",
        "show series from nothing; show series from nothing",
    ] {
        for more in ["", "&chunked=true"] {
            let path = format!("/query?db=d{more}&q={}", encoded(statement));
            let headers = [("accept", "application/csv")];
            let answer = server.send("POST", &path, &headers, "").await;
            assert_eq!((answer.status, answer.text()), (200, ""), "{statement}");
        }
    }
}

/// Python's package `influxdb`, with `gzip=True`, says of each of its requests that the body is compressed, also where it
/// sends none: every question was refused, because nothing is no gzip.
#[tokio::test]
async fn a_body_that_is_not_there_needs_no_decompression() {
    let server = Server::filled().await;
    let whole = server.ask(KEYS).await;
    let path = format!("/query?db=d&q={}", encoded(KEYS));
    for method in ["GET", "POST"] {
        let headers = [("content-encoding", "gzip")];
        let answer = server.send(method, &path, &headers, "").await;
        assert_eq!(answer.text().trim_end(), whole, "{method}");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_read_is_refused_before_anything_runs() {
    let server = Server::filled().await;
    for (query, error) in [
        ("", "missing required parameter \"q\""),
        ("q=", "missing required parameter \"q\""),
        // Blanks were answered with nothing at all.
        ("q=+%0A+", "missing required parameter \"q\""),
        (
            "q=++selec",
            "error parsing query: found selec, expected SELECT, DELETE, SHOW, CREATE, DROP, EXPLAIN, GRANT, REVOKE, ALTER, SET, KILL at line 1, char 1",
        ),
        (
            "q=create+database+x;+selec",
            "error parsing query: found selec, expected SELECT, DELETE, SHOW, CREATE, DROP, EXPLAIN, GRANT, REVOKE, ALTER, SET, KILL at line 1, char 20",
        ),
        (
            "q=select+*+from+%3C",
            "error parsing query: found <, expected identifier at line 1, char 15",
        ),
        (
            "q=show+databases&time_format=iso",
            "Time format must be one of the following: rfc3339,epoch",
        ),
    ] {
        for method in ["GET", "POST"] {
            let answer = server
                .send(method, &format!("/query?{query}"), &[], "")
                .await;
            assert_eq!(answer.status, 400, "{query}: {}", answer.text());
            assert_eq!(answer.header("x-influxdb-error"), error);
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(body["error"], error, "{query}");
            assert!(
                !answer.text().contains('<'),
                "Go escapes it: {}",
                answer.text()
            );
        }
    }
    assert!(!server.ask("show databases").await.contains("\"x\""));
    let params = "/query?q=show+databases&params=%7B";
    let answer = server.send("GET", params, &[], "").await;
    assert!(
        answer.text().contains("error parsing query parameters"),
        "{}",
        answer.text()
    );
    let csv = server
        .send("GET", "/query?q=selec", &[("accept", "text/csv")], "")
        .await;
    assert!(
        csv.text()
            .starts_with("error\n\"error parsing query: found selec"),
        "{}",
        csv.text()
    );
    assert_eq!(csv.header("content-type"), "text/csv");
}

#[tokio::test]
async fn a_statement_that_fails_has_its_error_in_its_result_and_ends_those_after_it() {
    let server = Server::filled().await;
    assert_eq!(
        server
            .ask("show measurements limit 1; show series on x; create database y; show databases")
            .await,
        concat!(
            r#"{"results":[{"statement_id":0,"series":[{"name":"measurements","columns":["name"],"values":[["cpu"]]}]},"#,
            r#"{"statement_id":1,"error":"database not found: x"},{"statement_id":2,"error":"not executed"},"#,
            r#"{"statement_id":3,"error":"not executed"}]}"#
        )
    );
    assert_eq!(server.ask(";").await, "{}");
}

#[tokio::test]
async fn who_changes_something_by_get_is_warned() {
    let server = Server::new();
    let ask = async |method: &str, statement: &str| {
        let path = format!("/query?q={}", encoded(statement));
        server.send(method, &path, &[], "").await.text().to_owned()
    };
    assert_eq!(
        ask("GET", "create database d").await,
        concat!(
            r#"{"results":[{"statement_id":0,"messages":[{"level":"warning","text":"deprecated use of 'CREATE DATABASE d' "#,
            r#"in a read only context, please use a POST request instead"}]}]}"#,
            "\n"
        )
    );
    assert_eq!(
        ask("POST", "create database d").await,
        "{\"results\":[{\"statement_id\":0}]}\n"
    );
    assert!(!ask("GET", "show databases").await.contains("messages"));
    assert!(
        !ask("GET", "drop user x").await.contains("messages"),
        "an error has none"
    );
}

/// `/query` did what HEAD asked, and what a link or a picture on the page of another server asked: `/api/v3/query_sql` had
/// been mended, this route had not.
#[tokio::test]
async fn nothing_is_changed_by_head_or_by_a_page_of_another_server() {
    let server = Server::filled().await;
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let picture = [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    let before = server
        .ask("show databases; show measurements; select * from cpu")
        .await;
    for statement in [
        "drop database d",
        "create database e",
        "drop measurement cpu",
        "delete from cpu",
        "select * into other from cpu",
        "create user u with password 'p'",
        "create retention policy p on d duration 1d replication 1",
    ] {
        let path = format!("/query?db=d&q={}", encoded(statement));
        for (method, headers) in [("HEAD", &[][..]), ("GET", &link), ("GET", &picture)] {
            let answer = server.send(method, &path, headers, "").await;
            assert_eq!(answer.status, 200, "{method} {statement}");
            if method == "GET" {
                let said = answer.text();
                assert!(
                    said.contains("may only read") && said.contains("POST"),
                    "{said}"
                );
            }
        }
        let after = server
            .ask("show databases; show measurements; select * from cpu")
            .await;
        assert_eq!(after, before, "{statement}");
    }
    // What reads is answered, and who types the address, or whose program it is, may write.
    let path = format!("/query?db=d&q={}", encoded("select v from cpu"));
    assert!(
        server
            .send("GET", &path, &link, "")
            .await
            .text()
            .contains("values")
    );
    for (database, headers) in [
        ("f", &[][..]),
        ("g", &[("sec-fetch-site", "none")]),
        ("h", &[("sec-fetch-site", "same-origin")]),
    ] {
        let path = format!(
            "/query?q={}",
            encoded(&format!("create database {database}"))
        );
        let said = server
            .send("GET", &path, headers, "")
            .await
            .text()
            .to_owned();
        assert!(said.contains("deprecated"), "{said}");
        assert!(
            server
                .ask("show databases")
                .await
                .contains(&format!("[\"{database}\"]"))
        );
    }
}

#[tokio::test]
async fn a_chunk_is_a_document_and_says_whether_more_follows() {
    let server = Server::filled().await;
    let path = format!(
        "/query?db=d&chunked=true&chunk_size=1&q={}",
        encoded("show tag values with key in (host); show databases")
    );
    let answer = server.send("POST", &path, &[], "").await;
    assert_eq!(
        answer.text(),
        concat!(
            r#"{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["key","value"],"values":[["host","a"]],"partial":true}],"partial":true}]}"#,
            "\n",
            r#"{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}],"partial":true}]}"#,
            "\n",
            r#"{"results":[{"statement_id":0,"series":[{"name":"mem","columns":["key","value"],"values":[["host","a"]]}]}]}"#,
            "\n",
            r#"{"results":[{"statement_id":1,"series":[{"name":"databases","columns":["name"],"values":[["d"]]}]}]}"#,
            "\n",
        )
    );
}

#[tokio::test]
async fn an_answer_nobody_waits_for_is_204_and_the_statement_runs() {
    let server = Server::new();
    let answer = server
        .send("POST", "/query?async=true&q=create+database+later", &[], "")
        .await;
    assert_eq!((answer.status, answer.text()), (204, ""));
    for _ in 0..10_000 {
        if server.engine.snapshot().default_schema("later").is_some() {
            return;
        }
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    panic!("the database was not made");
}

#[tokio::test]
async fn a_statement_over_its_memory_says_so_in_its_result() {
    let options = ServiceOptions {
        query: QueryOptions {
            query_memory_bytes_max: 1000,
            ..QueryOptions::default()
        },
        ..ServiceOptions::default()
    };
    let server = Server::with(options);
    server.engine.create_database("d").unwrap();
    let lines: Vec<String> = (0..200)
        .map(|n| format!("m,host=host_{n} v=1 {n}"))
        .collect();
    let written = server
        .send("POST", "/write?db=d", &[], lines.join("\n"))
        .await;
    assert_eq!(written.status, 204, "{}", written.text());
    let answer = server.ask("show series; show databases").await;
    assert!(answer.contains("query-memory-bytes-max"), "{answer}");
    assert!(
        answer.ends_with(r#"{"statement_id":1,"error":"not executed"}]}"#),
        "{answer}"
    );
    // What it had is given back.
    assert!(server.ask("show measurements").await.contains("[\"m\"]"));
    assert_eq!(server.service.counters().queries_running.get(), 0);
}

#[tokio::test]
async fn a_long_answer_leaves_in_pieces_and_is_whole() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines: Vec<String> = (0..40_000)
        .map(|n| format!("m,host=host_{n:05} v=1 {n}"))
        .collect();
    let written = server
        .send("POST", "/write?db=d", &[], lines.join("\n"))
        .await;
    assert_eq!(written.status, 204, "{}", written.text());
    let answer = server.ask("show series").await;
    assert!(answer.len() > 600_000);
    let document: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let values = document["results"][0]["series"][0]["values"]
        .as_array()
        .unwrap();
    assert_eq!(values.len(), 40_000);
    assert_eq!(values[39_999][0], "m,host=host_39999");
    for (accept, first) in [
        ("application/json", &b"{\"results\""[..]),
        ("application/csv", b"name,tags,key"),
        ("application/x-msgpack", b"\x81\xa7results"),
    ] {
        let headers = [("accept", accept), ("accept-encoding", "gzip")];
        let path = format!("/query?db=d&q={}", encoded("show series"));
        let packed = server.send("GET", &path, &headers, "").await;
        assert_eq!(packed.header("content-encoding"), "gzip", "{accept}");
        let mut whole = Vec::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(packed.body.as_slice());
        std::io::Read::read_to_end(&mut decoder, &mut whole).unwrap();
        assert!(whole.starts_with(first), "{accept}");
        assert!(
            whole.len() > 600_000 && packed.body.len() < whole.len() / 4,
            "{accept}"
        );
        let headers = [("accept", accept), ("accept-encoding", "zstd")];
        let packed = server.send("GET", &path, &headers, "").await;
        assert_eq!(packed.header("content-encoding"), "zstd", "{accept}");
        assert!(packed.body.len() < whole.len() / 4, "{accept}");
        assert!(
            zstd::decode_all(packed.body.as_slice()).unwrap() == whole,
            "{accept}"
        );
    }
}

#[tokio::test]
async fn a_select_answers_its_series_in_every_form() {
    let server = Server::filled().await;
    let columns = r#""name":"cpu","columns":["time","host","v"]"#;
    for (parameters, times) in [
        (
            "",
            [r#""1970-01-01T00:00:01Z""#, r#""1970-01-01T00:00:02Z""#],
        ),
        ("&epoch=ms", ["1000", "2000"]),
        ("&epoch=s", ["1", "2"]),
        (
            "&epoch=ms&time_format=rfc3339",
            [r#""1970-01-01T00:00:01Z""#, r#""1970-01-01T00:00:02Z""#],
        ),
    ] {
        let [first, second] = times;
        let path = format!(
            "/query?db=d{parameters}&q={}",
            encoded("select host, v from cpu")
        );
        let answer = server.send("GET", &path, &[], "").await;
        assert_eq!(
            answer.text(),
            format!(
                r#"{{"results":[{{"statement_id":0,"series":[{{{columns},"values":[[{first},"a",1],[{second},"b",2]]}}]}}]}}{}"#,
                "\n"
            )
        );
    }
    let path = format!(
        "/query?db=d&q={}",
        encoded("select v from cpu group by host")
    );
    let csv = server
        .send("GET", &path, &[("accept", "application/csv")], "")
        .await;
    assert_eq!(
        csv.text(),
        "name,tags,time,v\ncpu,host=a,1000000000,1\ncpu,host=b,2000000000,2\n"
    );
}

#[tokio::test]
async fn parameters_stand_for_values_in_a_statement() {
    let server = Server::filled().await;
    let statement = "select v from cpu where host = $host and v < $most and time < $until";
    let params = r#"{"host":"b","most":2.5,"until":3000000000}"#;
    let path = format!(
        "/query?db=d&q={}&params={}",
        encoded(statement),
        encoded(params)
    );
    let answer = server.send("POST", &path, &[], "").await;
    assert!(
        answer
            .text()
            .contains(r#""values":[["1970-01-01T00:00:02Z",2]]"#),
        "{}",
        answer.text()
    );
    let params = r#"{"host":{"regex":"a"},"wide":{"duration":"1m"},"what":{"identifier":"v"}}"#;
    let statement =
        "select max($what) from cpu where host =~ $host and time < 1m group by time($wide)";
    let path = format!(
        "/query?db=d&q={}&params={}",
        encoded(statement),
        encoded(params)
    );
    let answer = server.send("POST", &path, &[], "").await;
    assert!(
        answer
            .text()
            .contains(r#""values":[["1970-01-01T00:00:00Z",1]]"#),
        "{}",
        answer.text()
    );
    let missing = format!(
        "/query?db=d&q={}",
        encoded("select v from cpu where v = $nobody")
    );
    let answer = server.send("POST", &missing, &[], "").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer
            .text()
            .contains("error parsing query: missing parameter: nobody"),
        "{}",
        answer.text()
    );
}

/// InfluxDB 1.6.7 answered the same to the same statement.
#[tokio::test]
async fn select_into_writes_rows_and_says_how_many() {
    let server = Server::filled().await;
    let written = |rows: u32| {
        format!(
            r#""series":[{{"name":"result","columns":["time","written"],"values":[["1970-01-01T00:00:00Z",{rows}]]}}]"#
        )
    };
    assert_eq!(
        server
            .result("select v into copy from cpu group by *")
            .await,
        written(2)
    );
    let copy = server.result("select * from copy").await;
    assert_eq!(
        copy,
        r#""series":[{"name":"copy","columns":["time","host","region","v"],"values":[["1970-01-01T00:00:01Z","a","eu",1],["1970-01-01T00:00:02Z","b","us",2]]}]"#
    );
    let keys = server.result("show tag keys from copy").await;
    assert!(keys.contains("host") && keys.contains("region"), "{keys}");
    // A tag that is selected and not grouped by is a field.
    assert_eq!(
        server.result("select host, v into flat from cpu").await,
        written(2)
    );
    assert_eq!(server.result("show tag keys from flat").await, "");
    assert!(
        server
            .result("show field keys from flat")
            .await
            .contains(r#"["host","string"]"#)
    );
    // Each to its own name, in another policy.
    server
        .ask("create retention policy other on d duration inf replication 1")
        .await;
    let all = "select * into other.:MEASUREMENT from /cpu|disk/ group by *";
    assert_eq!(server.result(all).await, written(3));
    let moved = server.result("select total from other.disk").await;
    assert!(moved.contains("[[\"1970-01-01T00:00:04Z\",9]]"), "{moved}");
    let unknown = server.result("select v into nowhere..copy from cpu").await;
    assert_eq!(unknown, r#""error":"database not found: nowhere""#);
    let path = format!("/query?db=d&q={}", encoded("select v into again from cpu"));
    let warned = server.send("GET", &path, &[], "").await;
    assert!(
        warned.text().contains("deprecated use of 'SELECT v INTO"),
        "{}",
        warned.text()
    );
}

/// A tag that no series has is the empty text also beside a condition on a field; it was nothing, which is neither equal nor
/// unequal. Found by InfluxDB 1.8's own server tests.
#[tokio::test]
async fn a_tag_that_nobody_has_is_empty_beside_fields() {
    let server = Server::filled().await;
    for (condition, rows) in [
        ("nope != 'x' or v > 5", 2),
        ("nope = '' or v > 5", 2),
        ("nope = 'x' or v > 1", 1),
        ("(nope !~ /x/ or v > 5) and host = 'a'", 1),
    ] {
        let statement = format!("select count(v) from cpu where {condition}");
        let said = server.result(&statement).await;
        assert!(
            said.contains(&format!("[\"1970-01-01T00:00:00Z\",{rows}]")),
            "{condition}: {said}"
        );
    }
}

/// Sketches travel as texts, so a statement may count what another one has stored.
#[tokio::test]
async fn distinct_values_are_estimated_by_sketches() {
    let server = Server::filled().await;
    for (statement, expected) in [
        (
            "select count_hll(sum_hll(v)) from cpu",
            r#""series":[{"name":"cpu","columns":["time","count_hll"],"values":[["1970-01-01T00:00:00Z",2]]}]"#,
        ),
        (
            "select count_hll(sum_hll(v)) as seen from cpu where time < 10s group by time(5s), host fill(none)",
            r#""series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","seen"],"values":[["1970-01-01T00:00:00Z",1]]},{"name":"cpu","tags":{"host":"b"},"columns":["time","seen"],"values":[["1970-01-01T00:00:00Z",1]]}]"#,
        ),
        (
            "select count_hll(x) from (select sum_hll(s) as x from cpu)",
            r#""series":[{"name":"cpu","columns":["time","count_hll"],"values":[["1970-01-01T00:00:00Z",1]]}]"#,
        ),
        (
            "select count_hll(v, s) from cpu",
            r#""error":"invalid number of arguments for count_hll, expected 1, got 2""#,
        ),
        (
            "select sum_hll() from cpu",
            r#""error":"invalid number of arguments for sum_hll, expected 1, got 0""#,
        ),
    ] {
        let said = server.result(statement).await;
        assert_eq!(said, expected, "{statement}");
    }
}

/// Only answers of SQL said where their time went.
#[tokio::test]
async fn an_answer_says_where_its_time_went() {
    let server = Server::filled().await;
    let all = "turn, parse, plan, read, prune, decode, operate, encode, rows, blocks";
    for (statements, rest, parts, rows) in [
        ("select v from cpu", "", all, "2 read, 0 skipped"),
        (
            "select v from cpu",
            "&chunked=true",
            all,
            "2 read, 0 skipped",
        ),
        (
            "select mean(v) from cpu where time < 10s group by host",
            "",
            all,
            "2 read, 0 skipped",
        ),
        // Steps of all statements are added up.
        (
            "select v from cpu; show databases; select n from cpu",
            "",
            all,
            "4 read, 0 skipped",
        ),
        ("show databases", "", "turn, parse, read, encode", ""),
    ] {
        let path = format!("/query?db=d&q={}{rest}", encoded(statements));
        let answer = server.send("GET", &path, &[], "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let timing = answer.header("server-timing");
        // A description has a comma, too.
        let parts_found = timing.split(", ").filter_map(|part| part.split_once(';'));
        let found: Vec<&str> = parts_found.map(|(name, _)| name).collect();
        assert_eq!(found.join(", "), parts, "{statements}: {timing}");
        let said = format!("rows;desc=\"{rows}\"");
        assert!(
            rows.is_empty() || timing.contains(&said),
            "{statements}: {timing}"
        );
    }
}
