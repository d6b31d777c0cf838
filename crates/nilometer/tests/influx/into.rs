//! `SELECT ... INTO`: tags and fields of one name, and where rows go. What is expected is what InfluxDB 1.6.7 answers.

use crate::support::Server;

/// The rows of a measurement of the database `d` by all its tags, with times as numbers.
async fn rows(server: &Server, measurement: &str) -> String {
    let statement = format!("select * from {measurement} group by *");
    let path = format!(
        "/query?db=d&epoch=ns&q={}",
        crate::support::encoded(&statement)
    );
    let answer = server.send("POST", &path, &[], "").await;
    answer.text().trim_end().to_owned()
}

async fn sources() -> Server {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines = "src,host=a v=1 1000\nsrc,host=b v=2 1000\nsrc,host=c v=3 1000";
    let answer = server.send("POST", "/write?db=d", &[], lines).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    server
}

/// The usual mistake is to copy without `GROUP BY *`, which makes a field of the tag; then to delete and copy again. The second
/// copy took the tag for that field: three series became one row, and the answer said that three were written.
#[tokio::test]
async fn a_copy_keeps_its_tags_where_the_target_has_a_field_of_that_name() {
    let server = sources().await;
    for statement in [
        "select * into bak from src",
        "delete from bak",
        "select * into bak from src group by *",
    ] {
        let answer = server.result(statement).await;
        assert!(!answer.contains("error"), "{statement}: {answer}");
    }
    let found = rows(&server, "bak").await;
    for host in [
        r#""tags":{"host":"a"},"columns":["time","host","v"],"values":[[1000,null,1]]"#,
        r#""tags":{"host":"b"},"columns":["time","host","v"],"values":[[1000,null,2]]"#,
        r#""tags":{"host":"c"},"columns":["time","host","v"],"values":[[1000,null,3]]"#,
    ] {
        assert!(found.contains(host), "{found}");
    }
    let series = server.result("show series from bak").await;
    assert!(
        series.ends_with(r#""values":[["bak,host=a"],["bak,host=b"],["bak,host=c"]]}]"#),
        "{series}"
    );
    // A delete takes such a name for the field, which it does not look at: it deleted by the tag.
    for what in ["delete", "drop series"] {
        let refused = server
            .result(&format!("{what} from bak where host = 'a'"))
            .await;
        assert_eq!(
            refused,
            r#""error":"fields not supported in WHERE clause during deletion""#
        );
    }
    server.ask("delete from bak where host::tag = 'a'").await;
    let series = server.result("show series from bak").await;
    assert!(
        series.ends_with(r#""values":[["bak,host=b"],["bak,host=c"]]}]"#),
        "{series}"
    );
}

/// The reverse wrote the field as a tag, and so into series that were others' rows.
#[tokio::test]
async fn a_field_stays_one_where_the_target_has_a_tag_of_that_name() {
    let server = sources().await;
    for statement in [
        "select v into t from src group by *",
        "select * into t from src where host = 'c'",
        // A number is no text, and a tag and a field of one name may come together.
        "select v as host into u from src group by host",
        "select v into w from src group by host",
        "select v as host into w from src where host = 'b'",
    ] {
        let answer = server.result(statement).await;
        assert!(!answer.contains("error"), "{statement}: {answer}");
    }
    let found = rows(&server, "t").await;
    let of_nobody = r#""tags":{"host":""},"columns":["time","host","v"],"values":[[1000,"c",3]]"#;
    assert!(found.contains(of_nobody), "{found}");
    let of_c = r#""tags":{"host":"c"},"columns":["time","host","v"],"values":[[1000,null,3]]"#;
    assert!(found.contains(of_c), "{found}");
    let found = rows(&server, "u").await;
    let of_b = r#""tags":{"host":"b"},"columns":["time","host"],"values":[[1000,2]]"#;
    assert!(found.contains(of_b), "{found}");
    let found = rows(&server, "w").await;
    let of_nobody = r#""tags":{"host":""},"columns":["time","host","v"],"values":[[1000,2,null]]"#;
    assert!(found.contains(of_nobody), "{found}");
}

/// A field whose name is that under which SQL shows another one went into that other one.
#[tokio::test]
async fn a_field_is_found_by_its_own_name() {
    let server = sources().await;
    for statement in [
        "select v as host into t from src group by host",
        "select v as host_1 into t from src group by host",
    ] {
        let answer = server.result(statement).await;
        assert!(!answer.contains("error"), "{statement}: {answer}");
    }
    let found = rows(&server, "t").await;
    let of_b = r#""tags":{"host":"b"},"columns":["time","host","host_1"],"values":[[1000,2,2]]"#;
    assert!(found.contains(of_b), "{found}");
}

/// `rp` says where names without a policy are, and the target stood in the default policy all the same.
#[tokio::test]
async fn the_policy_of_the_request_is_that_of_the_target_and_of_lists() {
    let server = sources().await;
    server
        .ask("create retention policy two on d duration inf replication 1")
        .await;
    let answer = server
        .send("POST", "/write?db=d&rp=two", &[], "m v=1,w=1 1000")
        .await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let ask = async |statement: &str| {
        let path = format!(
            "/query?db=d&rp=two&q={}",
            crate::support::encoded(statement)
        );
        let answer = server.send("POST", &path, &[], "").await;
        answer.text().trim_end().to_owned()
    };
    let written = ask("select v into copy from m").await;
    assert!(
        written.contains(r#"[["1970-01-01T00:00:00Z",1]]"#),
        "{written}"
    );
    assert_eq!(server.result("select * from copy").await, "");
    let copied = server.result("select v from two.copy").await;
    assert!(copied.contains(r#""name":"copy""#), "{copied}");
    let fields = ask("show field keys from m").await;
    assert!(fields.contains(r#"["w","float"]"#), "{fields}");
    let made = ask(
        "create continuous query c on d begin select count(v) into n from m group by time(1h) end",
    )
    .await;
    assert!(!made.contains("error"), "{made}");
    let shown = server.result("show continuous queries").await;
    assert!(shown.contains("INTO d.two.n FROM d.two.m"), "{shown}");
}

/// Each series that was written was made durable by itself: a copy of thousands of series took a sync of the log for each.
#[tokio::test]
async fn series_are_written_together() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines: Vec<String> = (0..300)
        .map(|host| match host % 3 {
            0 => format!("src,host=h{host} v={host},w=1i {host}"),
            1 => format!("src,host=h{host},rack=r{host} v={host} {host}"),
            _ => format!("src v={host},x=\"x{host}\" {host}"),
        })
        .collect();
    let answer = server.send("POST", "/write?db=d", &[], lines.join("\n"));
    assert_eq!(answer.await.status, 204);
    let before = server.engine.metrics().batches_written;
    let copied = server
        .result("select * into copy from src group by *")
        .await;
    assert!(copied.contains("300]"), "{copied}");
    assert_eq!(server.engine.metrics().batches_written - before, 1);
    let renamed = rows(&server, "copy").await.replace("\"copy\"", "\"src\"");
    assert_eq!(renamed, rows(&server, "src").await);
}

/// Series of several measurements that have a row in common: of each field the value of the last one stays. The answers are those
/// of InfluxDB 1.6.7.
#[tokio::test]
async fn rows_that_are_written_together_replace_each_other() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines = "a,host=x v=1,w=5 1\na,host=y v=2 1\nb,host=x v=3 1\nb,host=z v=4,u=7 2\nc v=1i 5";
    let answer = server.send("POST", "/write?db=d", &[], lines).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    for (statement, written, measurement, expected) in [
        (
            "select v into m9 from a, b",
            4,
            "m9",
            r#""series":[{"name":"m9","columns":["time","v"],"values":[[1,3],[2,4]]}]"#,
        ),
        (
            "select v, w into m12 from a, b where time > 0 group by host",
            4,
            "m12",
            r#""series":[{"name":"m12","tags":{"host":"x"},"columns":["time","v","w"],"values":[[1,3,5]]},{"name":"m12","tags":{"host":"y"},"columns":["time","v","w"],"values":[[1,2,null]]},{"name":"m12","tags":{"host":"z"},"columns":["time","v","w"],"values":[[2,4,null]]}]"#,
        ),
        (
            "select v into m11 from a, c",
            3,
            "m11",
            r#""series":[{"name":"m11","columns":["time","v"],"values":[[1,2],[5,1]]}]"#,
        ),
    ] {
        let answer = server.result(statement).await;
        assert!(answer.contains(&format!(",{written}]")), "{answer}");
        let shown = rows(&server, measurement).await;
        let whole = format!(r#"{{"results":[{{"statement_id":0,{expected}}}]}}"#);
        assert_eq!(shown, whole, "{statement}");
    }
}

/// A field of another type refused the whole batch, in words of Arrow: a continuous query lost the buckets of all series. What is
/// kept is what InfluxDB 1.6.7 keeps; the end of the text is that of 1.12.
#[tokio::test]
async fn points_of_another_type_are_left_out_and_counted() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines = "a f=1,s=\"x\" 1\na f=2 2\na s=\"y\" 3\nb f=\"text\" 9";
    assert_eq!(
        server.send("POST", "/write?db=d", &[], lines).await.status,
        204
    );
    assert_eq!(
        server.result("select f, s into b from a").await,
        r#""error":"partial write: field type conflict: input field \"f\" on measurement \"b\" is type float, already exists as type string dropped=2 for database: d for retention policy: autogen""#
    );
    assert_eq!(
        rows(&server, "b").await,
        r#"{"results":[{"statement_id":0,"series":[{"name":"b","columns":["time","f","s"],"values":[[3,null,"y"],[9,"text",null]]}]}]}"#
    );
}

/// A row that is left out once gave its other, new fields their types and made tags; InfluxDB 1.6.7 keeps the text of the second
/// statement.
#[tokio::test]
async fn a_row_that_is_left_out_makes_no_field() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines = "a f=1 1\na,host=x f=2,n=7i 2\nb f=\"text\" 9\nb g=1 10\nc n=\"text\" 3";
    assert_eq!(
        server.send("POST", "/write?db=d", &[], lines).await.status,
        204
    );
    let answer = server
        .result("select f, n, g into b from a group by host")
        .await;
    assert!(answer.contains("type string dropped=2"), "{answer}");
    let answer = server.result("select n into b from c").await;
    assert!(answer.contains(",1]"), "{answer}");
    assert_eq!(
        rows(&server, "b").await,
        r#"{"results":[{"statement_id":0,"series":[{"name":"b","columns":["time","f","g","n"],"values":[[3,null,null,"text"],[9,"text",null,null],[10,null,1,null]]}]}]}"#
    );
}
