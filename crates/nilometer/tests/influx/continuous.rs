//! Continuous queries. Texts of statements and errors are those of InfluxDB 1.6.7.

use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_service::{CancellationToken, ServiceOptions};
use serde_json::Value;

use crate::support::{HandClock, Server};

/// A Thursday at midnight, at which every bucket begins.
const START: i64 = 1_577_923_200;

fn server(disk: &MemoryDisk, clock: &Arc<HandClock>) -> Server {
    let clock = Arc::clone(clock);
    Server::at(disk.clone(), clock, ServiceOptions::default())
}

/// Sets the clock, and runs what is due then.
async fn at(server: &Server, clock: &HandClock, seconds: i64) -> usize {
    clock.set(START + seconds);
    server.service.run_due(&CancellationToken::new()).await
}

/// Writes a row of `m` at so many seconds.
async fn write(server: &Server, seconds: i64, value: i64) {
    let line = format!("m,host=a v={value} {}", START + seconds);
    let answer = server
        .send("POST", "/write?db=d&precision=s", &[], line)
        .await;
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Rows of a measurement, in seconds after the start.
async fn rows(server: &Server, measurement: &str) -> Vec<(i64, f64)> {
    let path = format!("/query?db=d&epoch=s&q=select+sum+from+{measurement}");
    let answer = server.send("POST", &path, &[], "").await;
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let rows = answer["results"][0]["series"][0]["values"].as_array();
    let rows = rows.cloned().unwrap_or_default();
    rows.iter()
        .map(|row| (row[0].as_i64().unwrap() - START, row[1].as_f64().unwrap()))
        .collect()
}

async fn make(server: &Server, resample: &str, into: &str, group: &str) {
    let statement = format!(
        "create continuous query {into} on d {resample} begin select sum(v) into {into} from m group by {group} end"
    );
    assert_eq!(server.result(&statement).await, "", "{statement}");
}

#[tokio::test]
async fn each_bucket_is_written_once_it_has_passed_and_only_once() {
    let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
    let server = server(&disk, &clock);
    clock.set(START);
    server.ask("create database d").await;
    make(&server, "", "minutes", "time(1m)").await;
    for (seconds, value) in [(1, 1), (59, 2), (61, 4)] {
        write(&server, seconds, value).await;
    }
    // The first look only says where it begins.
    assert_eq!(at(&server, &clock, 30).await, 1);
    assert_eq!(at(&server, &clock, 59).await, 0);
    assert_eq!(rows(&server, "minutes").await, []);
    assert_eq!(at(&server, &clock, 60).await, 1);
    assert_eq!(rows(&server, "minutes").await, [(0, 3.0)]);
    // What comes late is not looked at again, and no minute runs twice.
    write(&server, 2, 100).await;
    for seconds in [60, 90, 119] {
        assert_eq!(at(&server, &clock, seconds).await, 0, "{seconds}");
    }
    assert_eq!(at(&server, &clock, 121).await, 1);
    assert_eq!(rows(&server, "minutes").await, [(0, 3.0), (60, 4.0)]);
    let stats = server.result("show stats for 'cq'").await;
    assert!(
        stats.contains(r#""columns":["queryFail","queryOk"],"values":[[0,2]]"#),
        "{stats}"
    );
    let vars = server.send("GET", "/debug/vars", &[], "").await;
    let vars: Value = serde_json::from_slice(&vars.body).unwrap();
    assert_eq!(vars["cq"]["values"]["queryOk"], 2);
}

#[tokio::test]
async fn resampling_runs_more_often_and_looks_back() {
    let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
    let server = server(&disk, &clock);
    clock.set(START);
    server.ask("create database d").await;
    make(&server, "resample every 30s", "often", "time(1m)").await;
    make(&server, "resample for 3m", "back", "time(1m)").await;
    at(&server, &clock, 0).await;
    write(&server, 10, 1).await;
    // The bucket that has not passed yet is written too, and again.
    at(&server, &clock, 30).await;
    assert_eq!(rows(&server, "often").await, [(0, 1.0)]);
    write(&server, 40, 2).await;
    at(&server, &clock, 60).await;
    assert_eq!(rows(&server, "often").await, [(0, 3.0)]);
    assert_eq!(rows(&server, "back").await, [(0, 3.0)]);
    write(&server, 20, 4).await;
    at(&server, &clock, 120).await;
    assert_eq!(rows(&server, "often").await, [(0, 3.0)]);
    assert_eq!(rows(&server, "back").await, [(0, 7.0)]);
    write(&server, 20, 8).await;
    at(&server, &clock, 180).await;
    assert_eq!(rows(&server, "back").await, [(0, 11.0)]);
    // Three minutes back is as far as it looks.
    write(&server, 20, 16).await;
    at(&server, &clock, 240).await;
    assert_eq!(rows(&server, "back").await, [(0, 11.0)]);
}

#[tokio::test]
async fn they_outlive_the_process_and_leave_no_bucket_out_that_passed_meanwhile() {
    let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
    {
        let server = server(&disk, &clock);
        clock.set(START);
        server.ask("create database d").await;
        make(&server, "", "minutes", "time(1m)").await;
        write(&server, 10, 1).await;
        at(&server, &clock, 0).await;
        at(&server, &clock, 60).await;
        write(&server, 70, 2).await;
        write(&server, 130, 4).await;
        server.engine.close().unwrap();
    }
    let server = server(&disk, &clock);
    // The minute that ran before does not run again.
    assert_eq!(at(&server, &clock, 61).await, 0);
    assert_eq!(at(&server, &clock, 200).await, 1);
    let expected = [(0, 1.0), (60, 2.0), (120, 4.0)];
    assert_eq!(rows(&server, "minutes").await, expected);
    server.ask("drop continuous query minutes on d").await;
    assert_eq!(at(&server, &clock, 400).await, 0);
}

/// A server that was stopped or killed before it had looked at a new query began at its restart, and the buckets until then stayed
/// empty for ever.
#[tokio::test]
async fn one_that_the_server_has_not_looked_at_before_it_ended_leaves_no_bucket_out() {
    for is_closed in [true, false] {
        let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
        {
            let server = server(&disk, &clock);
            clock.set(START - 90);
            server.ask("create database d").await;
            write(&server, -100, 8).await;
            write(&server, -130, 16).await;
            make(&server, "", "minutes", "time(1m)").await;
            write(&server, -30, 1).await;
            write(&server, 70, 2).await;
            if is_closed {
                server.engine.close().unwrap();
            }
        }
        let server = server(&disk, &clock);
        assert_eq!(at(&server, &clock, 130).await, 1, "{is_closed}");
        // From the minute in which it was made.
        let expected = [(-120, 8.0), (-60, 1.0), (60, 2.0)];
        assert_eq!(rows(&server, "minutes").await, expected, "{is_closed}");
        assert_eq!(at(&server, &clock, 179).await, 0);
    }
}

#[tokio::test]
async fn one_that_fails_is_counted_and_runs_again_with_the_next_bucket() {
    let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
    let server = server(&disk, &clock);
    clock.set(START);
    server.ask("create database d").await;
    server.ask("create database e").await;
    let statement =
        "create continuous query c on d begin select sum(v) into e..x from m group by time(1m) end";
    assert_eq!(server.result(statement).await, "");
    server.ask("drop database e").await;
    write(&server, 10, 1).await;
    at(&server, &clock, 1).await;
    assert_eq!(at(&server, &clock, 60).await, 1);
    assert_eq!(at(&server, &clock, 61).await, 0);
    let stats = server.result("show stats for 'cq'").await;
    assert!(stats.contains("[[1,0]]"), "{stats}");
}

#[tokio::test]
async fn definitions_are_shown_as_they_are_kept() {
    let server = Server::filled().await;
    server.ask("create database e").await;
    for (statement, expected) in [
        (
            "create continuous query c on d begin select mean(v) into x from cpu group by time(1m) end",
            "",
        ),
        (
            "create continuous query c on d begin select mean(v) into x from cpu group by time(1m) end",
            "",
        ),
        (
            "create continuous query c on d begin select mean(v) into y from cpu group by time(1m) end",
            r#""error":"continuous query already exists""#,
        ),
        (
            "create continuous query C2 on d resample every 10s for 2m begin select mean(v) as m into e..y from cpu where host='a' group by time(1m), host fill(0) end",
            "",
        ),
        (
            "create continuous query c3 on nope begin select mean(v) into y from cpu group by time(1m) end",
            r#""error":"database not found: nope""#,
        ),
        (
            "create continuous query c4 on d begin select mean(v) into nope.autogen.y from cpu group by time(1m) end",
            r#""error":"database not found: nope""#,
        ),
        (
            "create continuous query c5 on d begin select mean(v) into d.nope.y from cpu group by time(1m) end",
            r#""error":"retention policy not found: d.nope""#,
        ),
        ("drop continuous query nope on d", ""),
        ("drop continuous query c on nope", ""),
    ] {
        assert_eq!(server.result(statement).await, expected, "{statement}");
    }
    let expected = r#""series":[{"name":"d","columns":["name","query"],"values":[["c","CREATE CONTINUOUS QUERY c ON d BEGIN SELECT mean(v) INTO d.autogen.x FROM d.autogen.cpu GROUP BY time(1m) END"],["C2","CREATE CONTINUOUS QUERY C2 ON d RESAMPLE EVERY 10s FOR 2m BEGIN SELECT mean(v) AS m INTO e.autogen.y FROM d.autogen.cpu WHERE host = 'a' GROUP BY time(1m), host fill(0) END"]]},{"name":"e","columns":["name","query"]}]"#;
    assert_eq!(server.result("show continuous queries").await, expected);
    server.ask("drop database d").await;
    let shown = server.result("show continuous queries").await;
    assert_eq!(
        shown,
        r#""series":[{"name":"e","columns":["name","query"]}]"#
    );
}
