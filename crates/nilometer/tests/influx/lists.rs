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
        ("show series cardinality from cpu", one("cpu", 2)),
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
