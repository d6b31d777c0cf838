//! Addresses beside `/query` and `/write` that clients ask.

use serde_json::Value;

use crate::support::Server;

#[tokio::test]
async fn a_client_that_asks_whether_the_server_is_there_is_told_as_by_influxdb() {
    let server = Server::filled().await;
    for (method, path, status, body) in [
        ("GET", "/ping", 204, ""),
        ("HEAD", "/ping", 204, ""),
        ("GET", "/ping?verbose=false", 204, ""),
        ("GET", "/status", 204, ""),
        ("HEAD", "/status", 204, ""),
        (
            "POST",
            "/api/v2/query?org=o",
            403,
            "{\"error\":\"Flux query service disabled. Verify flux-enabled=true in the [http] section of the InfluxDB config.\"}\n",
        ),
    ] {
        let answer = server.send(method, path, &[], "").await;
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
        assert!(answer.header("x-influxdb-version").starts_with("1."));
        assert_eq!(answer.header("x-influxdb-build"), "OSS");
        assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    }
    let answer = server
        .send("GET", "/ping", &[("request-id", "mine")], "")
        .await;
    assert_eq!(answer.header("x-request-id"), "mine");
}

#[tokio::test]
async fn variables_have_one_object_for_each_statistic() {
    let server = Server::filled().await;
    let answer = server.send("GET", "/debug/vars", &[], "").await;
    let vars: Value = serde_json::from_slice(&answer.body).unwrap();
    let database = &vars["database:d"];
    assert_eq!(database["name"], "database");
    assert_eq!(database["tags"]["database"], "d");
    assert_eq!(database["values"]["numMeasurements"], 4);
    assert_eq!(database["values"]["numSeries"], 5);
    assert_eq!(vars["write"]["values"]["pointReq"], 5);
}

/// `system` and `httpd` were missing, which collectors and dashboards look at first.
#[tokio::test]
async fn variables_tell_the_time_and_count_requests() {
    let server = Server::filled().await;
    let vars = async || -> Value {
        let answer = server.send("GET", "/debug/vars", &[], "").await;
        serde_json::from_slice(&answer.body).unwrap()
    };
    let before = vars().await;
    server.send("GET", "/ping", &[], "").await;
    server.ask("show databases").await;
    server.send("POST", "/write?db=d", &[], "m v=1").await;
    server.send("POST", "/write?db=nope", &[], "m v=1").await;
    let after = vars().await;
    assert_eq!(after["httpd"]["name"], "httpd");
    let values = |vars: &Value, name: &str| vars["httpd"]["values"][name].as_u64().unwrap();
    for (name, more) in [
        ("pingReq", 1),
        ("queryReq", 1),
        ("writeReq", 2),
        ("statusReq", 0),
        ("clientError", 1),
        ("serverError", 0),
        // With the question before.
        ("req", 5),
    ] {
        assert_eq!(values(&after, name), values(&before, name) + more, "{name}");
    }
    assert_eq!(values(&after, "reqActive"), 1, "the question itself");
    let system = &after["system"];
    let time = |name: &str| {
        let text = system[name].as_str().unwrap();
        chrono::DateTime::parse_from_rfc3339(text).unwrap()
    };
    let uptime = (time("currentTime") - time("started")).num_seconds();
    assert_eq!(system["uptime"].as_i64(), Some(uptime));
}

/// Telegraf's input makes a field of each member of `memstats` that it knows, and 0 of those that are missing, so there is none.
#[tokio::test]
async fn variables_have_only_what_is_true_of_the_process() {
    let server = Server::filled().await;
    let answer = server.send("GET", "/debug/vars", &[], "").await;
    let vars: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(vars["runtime"]["name"], "runtime");
    assert_eq!(vars["runtime"]["values"]["NumGC"], 0);
    let resident = vars["runtime"]["values"]["Sys"].as_u64().unwrap();
    assert!(resident > 1 << 20, "{resident}");
    assert!(vars.get("memstats").is_none());
}
