//! SHOW. The answers are those of InfluxDB 1.6.7 to the same rows and statements, but for columns that 1.12 has more.

use crate::support::Server;

#[tokio::test]
async fn lists_of_names_are_those_of_influxdb() {
    let server = Server::filled().await;
    for (statement, expected) in [
        (
            "show databases",
            r#""series":[{"name":"databases","columns":["name"],"values":[["d"]]}]"#,
        ),
        (
            "SHOW measurements",
            r#""series":[{"name":"measurements","columns":["name"],"values":[["cpu"],["disk"],["mem"],["odd name"]]}]"#,
        ),
        (
            "SHOW MEASUREMENTS WITH MEASUREMENT =~ /(?i)C.*|m/ LIMIT 100",
            r#""series":[{"name":"measurements","columns":["name"],"values":[["cpu"],["mem"],["odd name"]]}]"#,
        ),
        (
            "show measurements where host='a' limit 1 offset 1",
            r#""series":[{"name":"measurements","columns":["name"],"values":[["mem"]]}]"#,
        ),
        ("show measurements where host != 'a'", ""),
        (
            "show measurements where time > 0",
            r#""error":"SHOW MEASUREMENTS doesn't support time in WHERE clause""#,
        ),
        ("show measurements on nowhere", ""),
        (
            "show tag keys",
            r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["host"],["region"]]},{"name":"mem","columns":["tagKey"],"values":[["host"]]},{"name":"odd name","columns":["tagKey"],"values":[["t=2"]]}]"#,
        ),
        (
            "SHOW TAG KEYS FROM \"autogen\".\"cpu\" LIMIT 1 OFFSET 1",
            r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["region"]]}]"#,
        ),
        ("show tag keys where host = 'nobody'", ""),
        ("show tag keys where time > now()", ""),
        (
            "show tag values with key in (host, region)",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","a"],["host","b"],["region","eu"],["region","us"]]},{"name":"mem","columns":["key","value"],"values":[["host","a"]]}]"#,
        ),
        (
            "SHOW TAG VALUES FROM \"cpu\" WITH KEY = \"host\" WHERE \"region\" = 'us'",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}]"#,
        ),
        (
            "show tag values with key !~ /h.*|t/",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["region","eu"],["region","us"]]}]"#,
        ),
        (
            "show tag values from cpu with key = host where time < '1970-01-02' limit 1 offset 1",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}]"#,
        ),
        (
            "show series",
            r#""series":[{"columns":["key"],"values":[["cpu,host=a,region=eu"],["cpu,host=b,region=us"],["disk"],["mem,host=a"],["odd\\ name,t\\=2=x\\ y"]]}]"#,
        ),
        (
            "show series where (host = 'a' or region = 'us') and host !~ /b/",
            r#""series":[{"columns":["key"],"values":[["cpu,host=a,region=eu"],["mem,host=a"]]}]"#,
        ),
        (
            "show series where host = '' limit 1",
            r#""series":[{"columns":["key"],"values":[["disk"]]}]"#,
        ),
        (
            "show series where v > 1",
            r#""error":"invalid tag comparison operator""#,
        ),
        (
            "show series on nowhere",
            r#""error":"database not found: nowhere""#,
        ),
        (
            "SHOW FIELD KEYS FROM \"cpu\", mem LIMIT 2",
            r#""series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["n","integer"],["s","string"]]},{"name":"mem","columns":["fieldKey","fieldType"],"values":[["free","integer"],["ok","boolean"]]}]"#,
        ),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
}

#[tokio::test]
async fn cardinalities_are_one_number_or_one_of_each_measurement() {
    let server = Server::filled().await;
    let one = |name: &str, count: u32| {
        format!(r#"{{"name":"{name}","columns":["count"],"values":[[{count}]]}}"#)
    };
    let estimate =
        |count: u32| format!(r#"{{"columns":["cardinality estimation"],"values":[[{count}]]}}"#);
    for (statement, expected) in [
        ("show series cardinality", estimate(5)),
        ("show measurement cardinality", estimate(4)),
        (
            "show series exact cardinality",
            [
                one("cpu", 2),
                one("disk", 1),
                one("mem", 1),
                one("odd name", 1),
            ]
            .join(","),
        ),
        (
            "show series cardinality from cpu",
            one("cpu", 2).replace("count", "cardinality estimation"),
        ),
        (
            "show measurement exact cardinality",
            r#"{"columns":["count"],"values":[[4]]}"#.to_owned(),
        ),
        (
            "show tag key cardinality",
            [one("cpu", 2), one("mem", 1), one("odd name", 1)].join(","),
        ),
        (
            "show tag values exact cardinality with key = host",
            [one("cpu", 2), one("mem", 1)].join(","),
        ),
        ("show field key exact cardinality from cpu", one("cpu", 3)),
    ] {
        let expected = format!("\"series\":[{expected}]");
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
    assert_eq!(
        server.result("show series cardinality on nowhere").await,
        format!("\"series\":[{}]", estimate(0))
    );
}

/// TSBS looks at the first series of the answer without asking whether there is one.
#[tokio::test]
async fn databases_are_a_table_even_if_there_is_none() {
    let server = Server::new();
    assert_eq!(
        server.ask("show databases").await,
        r#"{"results":[{"statement_id":0,"series":[{"name":"databases","columns":["name"]}]}]}"#
    );
}

#[tokio::test]
async fn what_there_is_none_of_is_an_empty_list_and_not_an_error() {
    let server = Server::filled().await;
    for (statement, expected) in [
        ("show users", r#""series":[{"columns":["user","admin"]}]"#),
        ("show subscriptions", ""),
        (
            "show continuous queries",
            r#""series":[{"name":"d","columns":["name","query"]}]"#,
        ),
        ("show grants for x", r#""error":"user not found""#),
        (
            "show shard groups",
            r#""series":[{"name":"shard groups","columns":["id","database","retention_policy","start_time","end_time","expiry_time"]}]"#,
        ),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
    let queries = server.result("show queries").await;
    assert!(
        queries.contains(r#"["qid","query","database","duration","status","user"]"#)
            && queries.contains(r#""SHOW QUERIES","d","#),
        "{queries}"
    );
}

/// Found by InfluxDB 1.8's own server tests: `value` in a condition of SHOW TAG VALUES is the column of the answer, the number
/// of measurements goes by series, and that of series has the name of an estimate. Answers are those of InfluxDB 1.12.
#[tokio::test]
async fn conditions_on_values_and_counts_by_series() {
    let server = Server::filled().await;
    for (statement, expected) in [
        (
            "show tag values with key = host where value = 'b'",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}]"#,
        ),
        ("show tag values with key = host where value = 'c'", ""),
        ("show tag values with key = host where value = 5000", ""),
        (
            "show tag values with key in (host, region) where value != 'a' and value =~ /b|e/ and region = 'eu'",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["region","eu"]]}]"#,
        ),
        (
            "show measurement cardinality where host !~ /a/",
            r#""series":[{"columns":["count"],"values":[[3]]}]"#,
        ),
        (
            "show series cardinality from /cpu|mem/",
            r#""series":[{"name":"cpu","columns":["cardinality estimation"],"values":[[2]]},{"name":"mem","columns":["cardinality estimation"],"values":[[1]]}]"#,
        ),
        (
            "show series exact cardinality from mem",
            r#""series":[{"name":"mem","columns":["count"],"values":[[1]]}]"#,
        ),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
}

/// Fields, counts and series of a time were listed over all retention policies; there they are those of the policy before the
/// measurement, or of the default one, and Grafana asks for the fields of one. Answers are those of InfluxDB 1.8.
#[tokio::test]
async fn fields_and_counts_are_of_one_policy() {
    let server = Server::filled().await;
    server
        .ask("create retention policy r2 on d duration inf replication 1")
        .await;
    let lines = "cpu,dc=z z=1i 1\nother,q=1 w=1 1";
    let answer = server.send("POST", "/write?db=d&rp=r2", &[], lines).await;
    assert_eq!(answer.status, 204);
    for (statement, expected) in [
        (
            "show field keys from r2.cpu",
            r#""series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["z","integer"]]}]"#,
        ),
        (
            "show field keys from r2.cpu, autogen.disk",
            r#""series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["n","integer"],["s","string"],["v","float"],["z","integer"]]},{"name":"disk","columns":["fieldKey","fieldType"],"values":[["total","float"]]}]"#,
        ),
        (
            "show field keys from nope.cpu",
            r#""error":"retention policy not found: nope""#,
        ),
        ("show field keys from other", ""),
        (
            "show series from r2./c.*|o.*/ where time > 0",
            r#""series":[{"columns":["key"],"values":[["cpu,dc=z"],["other,q=1"]]}]"#,
        ),
        (
            "show series from other",
            r#""series":[{"columns":["key"],"values":[["other,q=1"]]}]"#,
        ),
        (
            "show series exact cardinality from cpu",
            r#""series":[{"name":"cpu","columns":["count"],"values":[[2]]}]"#,
        ),
        (
            "show series exact cardinality from r2.cpu",
            r#""series":[{"name":"cpu","columns":["count"],"values":[[1]]}]"#,
        ),
        (
            "show measurement exact cardinality",
            r#""series":[{"columns":["count"],"values":[[4]]}]"#,
        ),
        ("show tag values exact cardinality with key = dc", ""),
        (
            "show tag values with key = dc",
            r#""series":[{"name":"cpu","columns":["key","value"],"values":[["dc","z"]]}]"#,
        ),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
}

/// Expected are the answers of `InfluxDB` 1.6.7 to the same rows and statements. A value that two tags have was counted twice, a
/// condition did not choose the measurements whose fields are counted, and `OFFSET` left what it should not.
#[tokio::test]
#[expect(
    clippy::too_many_lines,
    reason = "a list of statements with their answers"
)]
async fn cardinalities_by_tags_are_those_of_influxdb() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let lines = "cpu,host=a,region=eu u=1,n=1i 1\n\
        cpu,host=a,region=us u=1,n=1i 1\n\
        cpu,host=b,region=eu u=1 1\n\
        cpu,host=c u=1 1\n\
        cpu,region=a u=1 1\n\
        mem,host=a f=1,g=2,h=\"x\" 1\n\
        mem,host=b f=1 1\n\
        disk u=2 1\n\
        log,app=web,host=eu t=\"x\" 1\n";
    let written = server.send("POST", "/write?db=d", &[], lines).await;
    assert_eq!(written.status, 204, "{}", written.text());
    let of = |name: &str, tags: &str, count: u32| {
        let name = match name {
            "" => String::new(),
            name => format!(r#""name":"{name}","#),
        };
        format!(r#"{{{name}"tags":{{{tags}}},"columns":["count"],"values":[[{count}]]}}"#)
    };
    let host =
        |name: &str, value: &str, count: u32| of(name, &format!(r#""host":"{value}""#), count);
    let region =
        |name: &str, value: &str, count: u32| of(name, &format!(r#""region":"{value}""#), count);
    let plain = |name: &str, count: u32| {
        format!(r#"{{"name":"{name}","columns":["count"],"values":[[{count}]]}}"#)
    };
    for (statement, expected) in [
        (
            "series cardinality group by host",
            vec![
                host("cpu", "", 1),
                host("cpu", "a", 2),
                host("cpu", "b", 1),
                host("cpu", "c", 1),
                host("disk", "", 1),
                host("log", "eu", 1),
                host("mem", "a", 1),
                host("mem", "b", 1),
            ],
        ),
        (
            "series exact cardinality from cpu, mem where region = 'eu' group by host",
            vec![host("cpu", "a", 1), host("cpu", "b", 1)],
        ),
        (
            "series exact cardinality from cpu where host = 'a' group by *",
            vec![
                of("cpu", r#""host":"a","region":"eu""#, 1),
                of("cpu", r#""host":"a","region":"us""#, 1),
            ],
        ),
        (
            "series cardinality from log group by region, /^a/",
            vec![of("log", r#""app":"web","region":"""#, 1)],
        ),
        (
            "measurement cardinality group by host",
            vec![
                host("", "", 2),
                host("", "a", 2),
                host("", "b", 2),
                host("", "c", 1),
                host("", "eu", 1),
            ],
        ),
        (
            "tag key cardinality group by host",
            vec![
                host("cpu", "", 1),
                host("cpu", "a", 2),
                host("cpu", "b", 2),
                host("cpu", "c", 1),
                host("log", "eu", 2),
                host("mem", "a", 1),
                host("mem", "b", 1),
            ],
        ),
        (
            "tag values cardinality with key = host group by region",
            vec![
                region("cpu", "", 1),
                region("cpu", "eu", 2),
                region("cpu", "us", 1),
                region("log", "", 1),
                region("mem", "", 2),
            ],
        ),
        (
            "tag values exact cardinality with key in (host, region)",
            vec![plain("cpu", 5), plain("log", 1), plain("mem", 2)],
        ),
        (
            "field key cardinality where host = 'a' group by region",
            vec![
                region("cpu", "eu", 2),
                region("cpu", "us", 2),
                region("mem", "", 3),
            ],
        ),
        (
            "field key exact cardinality where region = 'eu'",
            vec![plain("cpu", 2)],
        ),
        (
            "series cardinality from log group by nope limit 1",
            vec![of("log", r#""nope":"""#, 1)],
        ),
    ] {
        let expected = format!("\"series\":[{}]", expected.join(","));
        let statement = format!("show {statement}");
        assert_eq!(server.result(&statement).await, expected, "{statement}");
    }
    for statement in [
        "series cardinality group by host offset 1",
        "series cardinality offset 1",
        "measurement exact cardinality limit 1 offset 1",
        "field key cardinality offset 1",
        "tag values cardinality with key = host offset 1",
    ] {
        let statement = format!("show {statement}");
        assert_eq!(server.result(&statement).await, "", "{statement}");
    }
    for (dimension, why) in [
        ("5", "only time and tag dimensions allowed"),
        (
            "time(1m)",
            "not supported: GROUP BY time() in a cardinality",
        ),
    ] {
        let statement = format!("show series cardinality group by {dimension}");
        let expected = format!("\"error\":\"{why}\"");
        assert_eq!(server.result(&statement).await, expected);
    }
}

/// Shapes and texts are those of the statement executor of `InfluxDB` 1.12 (`coordinator/statement_executor.go`).
#[tokio::test]
async fn measurements_are_listed_by_database_and_policy() {
    let server = Server::filled().await;
    for statement in [
        "create database a",
        "create retention policy p on d duration inf replication 1",
    ] {
        assert_eq!(server.result(statement).await, "");
    }
    for (place, lines) in [("a", "x v=1 1"), ("d&rp=p", "cpu,host=a v=1 1\nnew v=1 1")] {
        let path = format!("/write?db={place}");
        let written = server.send("POST", &path, &[], lines).await;
        assert_eq!(written.status, 204, "{}", written.text());
    }
    let table = |rows: &[(&str, &str, &str)]| {
        let row = |(name, database, policy): &(&str, &str, &str)| {
            format!("[\"{name}\",\"{database}\",\"{policy}\"]")
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        format!(
            r#""series":[{{"name":"measurements","columns":["name","database","retention policy"],"values":[{}]}}]"#,
            rows.join(",")
        )
    };
    let first = [
        ("cpu", "d", "autogen"),
        ("disk", "d", "autogen"),
        ("mem", "d", "autogen"),
        ("odd name", "d", "autogen"),
    ];
    let second = [("cpu", "d", "p"), ("new", "d", "p")];
    let other = [("x", "a", "autogen")];
    for (rest, expected) in [
        ("*.*", table(&[&first[..], &second, &other].concat())),
        ("d.*", table(&[&first[..], &second].concat())),
        ("d.p", table(&second)),
        ("d.autogen", table(&first)),
        ("*.* limit 2 offset 3", table(&[first[3], second[0]])),
        ("*.* where host = 'a'", table(&[first[0], first[2], second[0]])),
        ("*.* with measurement =~ /^[nx]/", table(&[second[1], other[0]])),
        ("d.nope", String::new()),
        ("nope.p", String::new()),
        ("nope.*", r#""error":"unknown database nope""#.to_owned()),
        (
            "*",
            r#""error":"query 'SHOW MEASUREMENTS ON *' not supported. use 'ON *.*' or specify a database""#.to_owned(),
        ),
        (
            "*.p",
            r#""error":"query 'SHOW MEASUREMENTS ON *.rp' not supported. use 'ON *.*' or specify a database""#.to_owned(),
        ),
    ] {
        let statement = format!("show measurements on {rest}");
        assert_eq!(server.result(&statement).await, expected, "{statement}");
    }
}

/// A series that two policies have was counted twice, where `SHOW SERIES` lists it once. InfluxDB 1.6.7 counts two here.
#[tokio::test]
async fn a_series_of_two_policies_is_one() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let made = "create retention policy r2 on d duration inf replication 1";
    assert_eq!(server.result(made).await, "");
    for (path, lines) in [
        ("/write?db=d", "m,h=a f=1 1"),
        ("/write?db=d&rp=r2", "m,h=a f=1 1\nm,h=b f=1 1"),
    ] {
        assert_eq!(server.send("POST", path, &[], lines).await.status, 204);
    }
    for (statement, expected) in [
        (
            "show series cardinality",
            r#""series":[{"columns":["cardinality estimation"],"values":[[2]]}]"#,
        ),
        (
            "show series",
            r#""series":[{"columns":["key"],"values":[["m,h=a"],["m,h=b"]]}]"#,
        ),
        (
            "show series exact cardinality from r2.m",
            r#""series":[{"name":"m","columns":["count"],"values":[[2]]}]"#,
        ),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
}
