//! What Grafana's data source for InfluxDB sends: its health check, what fills its lists, its panels; by GET and by POST. The
//! answers are those of InfluxDB 1.8 to the same rows.

use crate::support::{Server, encoded};

const ASKED: [(&str, &str); 18] = [
    (
        "SHOW measurements",
        r#""series":[{"name":"measurements","columns":["name"],"values":[["cpu"],["disk"],["mem"],["odd name"]]}]"#,
    ),
    (
        r#"SHOW FIELD KEYS FROM "cpu""#,
        r#""series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["n","integer"],["s","string"],["v","float"]]}]"#,
    ),
    (
        r#"SHOW FIELD KEYS FROM "autogen"."cpu""#,
        r#""series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["n","integer"],["s","string"],["v","float"]]}]"#,
    ),
    (
        r#"SHOW TAG KEYS FROM "autogen"."cpu""#,
        r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["host"],["region"]]}]"#,
    ),
    (
        r#"SHOW TAG KEYS FROM "cpu" WHERE "host" = 'a'"#,
        r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["host"],["region"]]}]"#,
    ),
    (
        "SHOW TAG KEYS",
        r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["host"],["region"]]},{"name":"mem","columns":["tagKey"],"values":[["host"]]},{"name":"odd name","columns":["tagKey"],"values":[["t=2"]]}]"#,
    ),
    (
        r#"SHOW TAG VALUES FROM "cpu" WITH KEY = "host" WHERE "region" = 'us'"#,
        r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}]"#,
    ),
    (
        r#"SHOW TAG VALUES FROM "cpu" WITH KEY = "host""#,
        r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","a"],["host","b"]]}]"#,
    ),
    (
        r#"SHOW TAG VALUES WITH KEY = "host""#,
        r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","a"],["host","b"]]},{"name":"mem","columns":["key","value"],"values":[["host","a"]]}]"#,
    ),
    (
        "SHOW MEASUREMENTS WITH MEASUREMENT =~ /(?i)C/ LIMIT 100",
        r#""series":[{"name":"measurements","columns":["name"],"values":[["cpu"]]}]"#,
    ),
    (
        "SHOW MEASUREMENTS LIMIT 100",
        r#""series":[{"name":"measurements","columns":["name"],"values":[["cpu"],["disk"],["mem"],["odd name"]]}]"#,
    ),
    (
        r#"SELECT mean("v") FROM "cpu" WHERE time >= 1000ms and time <= 3000ms GROUP BY time(500ms) fill(null)"#,
        r#""series":[{"name":"cpu","columns":["time","mean"],"values":[[1000,1],[1500,null],[2000,2],[2500,null],[3000,null]]}]"#,
    ),
    (
        r#"SELECT mean("v"::field) FROM "cpu" WHERE ("host"::tag = 'a' OR "host"::tag = 'b') AND time >= 1000ms and time <= 3000ms GROUP BY time(1s), "host"::tag fill(null)"#,
        r#""series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","mean"],"values":[[1000,1],[2000,null],[3000,null]]},{"name":"cpu","tags":{"host":"b"},"columns":["time","mean"],"values":[[1000,null],[2000,2],[3000,null]]}]"#,
    ),
    (
        r#"SELECT mean("v"), max("n") FROM "autogen"."cpu" WHERE ("host" =~ /^(a|b)$/) AND time >= 1000ms and time <= 3000ms GROUP BY time(1s), "host" fill(none) ORDER BY time DESC LIMIT 5 SLIMIT 1"#,
        r#""series":[{"name":"cpu","tags":{"host":"a"},"columns":["time","mean","max"],"values":[[1000,1,2]]}]"#,
    ),
    (
        r#"SELECT "v", "host"::tag FROM "cpu" WHERE time >= 1000ms and time <= 3000ms"#,
        r#""series":[{"name":"cpu","columns":["time","v","host"],"values":[[1000,1,"a"],[2000,2,"b"]]}]"#,
    ),
    (
        r#"SELECT derivative(mean("v"), 1s) FROM "cpu" WHERE time >= 0ms and time <= 3000ms GROUP BY time(1s) fill(previous)"#,
        r#""series":[{"name":"cpu","columns":["time","derivative"],"values":[[2000,1],[3000,0]]}]"#,
    ),
    (
        r#"SELECT "s" FROM "cpu" WHERE time >= 1000ms and time <= 3000ms ORDER BY time DESC LIMIT 1"#,
        r#""series":[{"name":"cpu","columns":["time","s"],"values":[[2000,"x"]]}]"#,
    ),
    (
        r#"SELECT distinct("v") FROM "cpu" WHERE time >= 1000ms and time <= 3000ms"#,
        r#""series":[{"name":"cpu","columns":["time","distinct"],"values":[[1000,1],[1000,2]]}]"#,
    ),
];

#[tokio::test]
async fn the_data_source_is_answered_as_there() {
    let server = Server::filled().await;
    for (statement, expected) in ASKED {
        let query = format!("db=d&epoch=ms&q={}", encoded(statement));
        let expected = match expected {
            "" => String::new(),
            series => format!(",{series}"),
        };
        let expected = format!("{{\"results\":[{{\"statement_id\":0{expected}}}]}}\n");
        let path = format!("/query?{query}");
        let got = server.send("GET", &path, &[], "").await;
        assert_eq!(
            (got.status, got.text()),
            (200, expected.as_str()),
            "{statement}"
        );
        // The browser's mode, and its POST: parameters in the address, the statement in a form.
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let form = format!("q={}", encoded(statement));
        let posted = server
            .send("POST", "/query?db=d&epoch=ms", &[kind], form)
            .await;
        assert_eq!(
            (posted.status, posted.text()),
            (200, expected.as_str()),
            "{statement}"
        );
    }
}

/// Its columns of limits are those of 1.12.
#[tokio::test]
async fn retention_policies_are_listed_for_its_query_editor() {
    let server = Server::filled().await;
    let path = format!(
        "/query?db=d&epoch=ms&q={}",
        encoded("SHOW RETENTION POLICIES on \"d\"")
    );
    let got = server.send("GET", &path, &[], "").await;
    assert_eq!(
        got.text().trim_end(),
        r#"{"results":[{"statement_id":0,"series":[{"columns":["name","duration","shardGroupDuration","replicaN","futureWriteLimit","pastWriteLimit","default"],"values":[["autogen","0s","168h0m0s",1,"0s","0s",true]]}]}]}"#
    );
}
