//! Writes to retention policies. Texts are those of InfluxDB 1.12.3 (`coordinator/points_writer.go`).

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Maintained, Options};
use nilometer_service::ServiceOptions;

use crate::support::{HandClock, Server, encoded};

/// 2023-11-14T22:13:20Z
const NOW: i64 = 1_700_000_000;

async fn server() -> Server {
    let clock = Arc::new(HandClock::default());
    clock.set(NOW);
    let server = Server::at(MemoryDisk::default(), clock, ServiceOptions::default());
    server
        .ask("create database d with duration 2h replication 1 name short")
        .await;
    server
}

async fn write(server: &Server, body: &str) -> (u16, String) {
    let answer = server
        .send("POST", "/write?db=d&precision=s", &[], body.to_owned())
        .await;
    (answer.status, answer.text().trim_end().to_owned())
}

/// Points that retention would remove at once were kept until its next pass, and the writer was told that all was well.
#[tokio::test]
async fn points_beyond_the_retention_policy_are_dropped_and_counted() {
    let server = server().await;
    let body = format!(
        "m,b=2,a=1 v=1 {}\nm v=2 {}\nold v=3 1\nm v=4 {}\nm v=5 5",
        NOW,
        NOW - 7200,
        NOW - 7201
    );
    let (status, text) = write(&server, &body).await;
    let expected = "{\"error\":\"partial write: dropped 3 points outside retention policy of duration 2h0m0s - \
        oldest point old at 1970-01-01T00:00:01Z dropped because it violates a Retention Policy Lower Bound at 2023-11-14T20:13:20Z, \
        newest point m at 2023-11-14T20:13:19Z dropped because it violates a Retention Policy Lower Bound at 2023-11-14T20:13:20Z \
        dropped=3 for database: d for retention policy: short\"}";
    assert_eq!((status, text.as_str()), (400, expected));
    let counted = server.result("select count(v) from m").await;
    assert!(
        counted.contains("[\"1970-01-01T00:00:00Z\",2]"),
        "{counted}"
    );
    // A point that is dropped makes no measurement and no type.
    let shown = server.result("show measurements").await;
    assert!(!shown.contains("old"), "{shown}");
    assert_eq!(write(&server, "old v=1i").await.0, 204);
}

#[tokio::test]
async fn one_that_clashes_with_its_table_is_told_first_and_one_that_is_no_line_last() {
    let server = server().await;
    assert_eq!(write(&server, "m v=1").await.0, 204);
    let (status, text) = write(&server, "m v=1i\nm v=1 1").await;
    assert_eq!(status, 400);
    assert!(text.contains("field type conflict"), "{text}");
    assert!(text.contains("dropped=1 for"), "{text}");
    let (status, text) = write(&server, "m v=\nm v=1 1").await;
    assert_eq!(status, 400);
    assert!(text.contains("dropped 1 points outside"), "{text}");
}

#[tokio::test]
async fn limits_of_writes_hold_in_both_directions() {
    let server = server().await;
    let altered = server
        .result("alter retention policy short on d future limit 10m past limit 30m")
        .await;
    assert_eq!(altered, "");
    let body = format!("m v=1 {}\nm v=2 {}\nm v=3 {}", NOW, NOW - 1801, NOW + 601);
    let (status, text) = write(&server, &body).await;
    let expected = "{\"error\":\"partial write: dropped 0 points outside retention policy of duration 2h0m0s and 2 points outside write window (-30m0s to 10m0s) - \
        oldest point m at 2023-11-14T21:43:19Z dropped because it violates a Write Window Lower Bound at 2023-11-14T21:43:20Z, \
        newest point m at 2023-11-14T22:23:21Z dropped because it violates a Write Window Upper Bound at 2023-11-14T22:23:20Z \
        dropped=2 for database: d for retention policy: short\"}";
    assert_eq!((status, text.as_str()), (400, expected));
}

/// INTO and continuous queries wrote rows that retention removed with its next pass, and said that all of them were there.
#[tokio::test]
async fn select_into_drops_what_its_target_does_not_keep_and_says_so() {
    let server = server().await;
    server
        .ask("create retention policy long on d duration inf replication 1")
        .await;
    let body = format!("m v=1 {}\nm v=2 {}\nm v=3 {}", NOW, NOW - 7201, 5);
    let answer = server
        .send("POST", "/write?db=d&rp=long&precision=s", &[], body)
        .await;
    assert_eq!(answer.status, 204);
    let said = server
        .result("select v into d.short.copy from d.long.m")
        .await;
    assert_eq!(
        said,
        r#""error":"partial write: dropped 2 points outside retention policy of duration 2h0m0s dropped=2 for database: d for retention policy: short""#
    );
    let kept = server.result("select v from copy").await;
    assert!(
        kept.contains(r#""values":[["2023-11-14T22:13:20Z",1]]"#),
        "{kept}"
    );
    let all = server
        .result("select v into d.long.copy from d.long.m")
        .await;
    assert!(all.contains(r#"["1970-01-01T00:00:00Z",3]"#), "{all}");
}

/// Once another policy was the default, `autogen` meant that one: rows written to `autogen` before could not be read, nor
/// those that went there since, also not by continuous queries, while writes, lists and privileges knew better.
#[tokio::test]
async fn autogen_is_autogen_when_another_policy_is_the_default() {
    let server = Server::new();
    server.engine.create_database("d").unwrap();
    let to = async |policy: &str, line: String| {
        let path = format!("/write?db=d&rp={policy}");
        let answer = server.send("POST", &path, &[], line).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
    };
    to("", "pre v=1 1000".to_owned()).await;
    server
        .ask("create retention policy one on d duration inf replication 1 default")
        .await;
    to("autogen", "old v=2 2000".to_owned()).await;
    to("", "new v=3 3000".to_owned()).await;
    for (statement, value) in [
        ("select v from autogen.pre", Some(1)),
        ("select v from d.autogen.old", Some(2)),
        ("select v from \"autogen\".\"old\"", Some(2)),
        (
            "select max(v) from autogen./o|pre/ where time > 1000",
            Some(2),
        ),
        (
            "select max(x) from (select v as x from autogen.old)",
            Some(2),
        ),
        ("select v from new", Some(3)),
        ("select v from autogen.new", None),
        ("select v from old", None),
    ] {
        let answer = server.result(statement).await;
        match value {
            Some(value) => assert!(
                answer.ends_with(&format!(",{value}]]}}]")),
                "{statement}: {answer}"
            ),
            None => assert_eq!(answer, "", "{statement}"),
        }
    }
    for (statement, from) in [
        ("select v into autogen.copy from new", "autogen.copy"),
        ("select v into one.moved from autogen.old", "one.moved"),
    ] {
        let written = server.result(statement).await;
        assert!(written.contains("\",1]]"), "{statement}: {written}");
        let answer = server.result(&format!("select v from {from}")).await;
        assert!(answer.contains("\"values\""), "{from}: {answer}");
    }
    server
        .ask("alter retention policy autogen on d default")
        .await;
    let answer = server.result("select v from pre").await;
    assert!(answer.contains("\"values\""), "{answer}");
    assert_eq!(server.result("select v from new").await, "");
}

/// `DELETE FROM two.m` deleted the rows of `m` in every policy.
#[tokio::test]
async fn a_delete_that_names_a_policy_is_refused_and_deletes_nothing() {
    let server = Server::filled().await;
    server
        .ask("create retention policy two on d duration inf replication 1")
        .await;
    for (from, part) in [
        ("two.cpu", "retention policy"),
        ("d.two.cpu", "retention policy"),
        ("two./cpu/", "retention policy"),
        ("mem, two.cpu", "retention policy"),
        ("d..cpu", "database"),
    ] {
        for what in ["delete", "drop series"] {
            let path = format!("/query?db=d&q={}", encoded(&format!("{what} from {from}")));
            let answer = server.send("POST", &path, &[], "").await;
            let expected = format!(
                "{{\"error\":\"error parsing query: {part} not supported at line 1, char 1\"}}"
            );
            assert_eq!(
                (answer.status, answer.text().trim_end()),
                (400, expected.as_str()),
                "{what} {from}"
            );
        }
    }
    let counted = server.result("select count(v) from cpu").await;
    assert!(counted.ends_with(",2]]}]"), "{counted}");
}

/// What a policy does not keep any more goes with its files and leaves the lists; other policies keep what they have.
#[tokio::test]
async fn a_policy_that_ends_unlinks_partitions_and_forgets_their_series() {
    let (disk, clock) = (MemoryDisk::default(), Arc::new(HandClock::default()));
    clock.set(NOW);
    let mut store = Options {
        flush_idle_ms: 0,
        ..Options::default()
    };
    store.compaction.partition_rows_min = 1;
    store.compaction.widen_rows_max = 0;
    let service = ServiceOptions::default();
    let server = Server::over(disk.clone(), Arc::clone(&clock) as _, &store, service);
    for statement in [
        "create database d with duration 3d replication 1 name short",
        "create retention policy long on d duration inf replication 1",
    ] {
        assert_eq!(server.result(statement).await, "", "{statement}");
    }
    let before = NOW - 2 * 86_400;
    let body = format!("m,host=old v=1 {before}\nm,host=new v=2 {NOW}");
    assert_eq!(write(&server, &body).await.0, 204);
    let path = "/write?db=d&rp=long&precision=s";
    let kept = format!("kept,host=old v=3 {before}");
    assert_eq!(server.send("POST", path, &[], kept).await.status, 204);
    server.engine.settle().unwrap();
    let partitions = server.engine.metrics().partitions;
    assert_eq!(partitions, 3);
    clock.set(NOW + 2 * 86_400);
    while server.engine.maintain().unwrap() != Maintained::Idle {}
    assert_eq!(server.engine.metrics().partitions, partitions - 1);
    let files = disk.list(Path::new("/data/segments")).unwrap();
    let is_segment = |name: &&String| Path::new(name).extension().is_some_and(|it| it == "seg");
    let segments = files.iter().filter(is_segment).count();
    assert_eq!(segments as u64, server.engine.metrics().segments);
    assert_eq!(
        server.result("show series").await,
        r#""series":[{"columns":["key"],"values":[["kept,host=old"],["m,host=new"]]}]"#
    );
    let values = server
        .result("show tag values from m with key = host")
        .await;
    assert!(!values.contains("old"), "{values}");
    let count = server.result("select count(v) from m").await;
    assert!(count.contains(",1]]"), "{count}");
    let kept = server.result("select v from long.kept").await;
    assert!(kept.contains(",3]]"), "{kept}");
}
