//! `SHOW SHARDS`, `SHOW SHARD GROUPS` and `DROP SHARD` over partitions that are there.

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Options, SystemClock};
use nilometer_service::ServiceOptions;
use serde_json::Value;

use crate::support::Server;

/// 2020-01-01 and 2021-01-01, in seconds (`date -u -d 2020-01-01 +%s`).
const FIRST: u64 = 1_577_836_800;
const SECOND: u64 = 1_609_459_200;

/// Partitions as small as they come.
fn server(disk: &MemoryDisk) -> Server {
    let mut store = Options::default();
    store.compaction.partition_rows_min = 1;
    let clock = Arc::new(SystemClock);
    Server::over(disk.clone(), clock, &store, ServiceOptions::default())
}

async fn filled(disk: &MemoryDisk) -> Server {
    let server = server(disk);
    for statement in [
        "create database d",
        "create database e",
        "create retention policy p on d duration inf replication 1",
    ] {
        assert_eq!(server.result(statement).await, "", "{statement}");
    }
    let both = format!("cpu,host=a v=1 {FIRST}\ncpu,host=a v=2 {SECOND}\n");
    let more = format!("{both}mem free=3 {FIRST}\n");
    for (place, lines) in [("d", &more), ("d&rp=p", &both), ("e", &both)] {
        let path = format!("/write?precision=s&db={place}");
        let written = server.send("POST", &path, &[], lines.clone()).await;
        assert_eq!(written.status, 204, "{}", written.text());
    }
    server.engine.settle().unwrap();
    server
}

/// Rows of an answer, by the name of their series.
async fn rows(server: &Server, statement: &str) -> Vec<(String, Vec<Value>)> {
    let answer: Value = serde_json::from_str(&server.ask(statement).await).unwrap();
    let series = answer["results"][0]["series"].as_array().unwrap().clone();
    let rows = series.iter().flat_map(|series| {
        let name = series["name"].as_str().unwrap().to_owned();
        let rows = series["values"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .map(move |row| (name.clone(), row.as_array().unwrap().clone()))
    });
    rows.collect()
}

/// The shard of a database and policy that a day is in, with its number.
async fn shard(server: &Server, database: &str, policy: &str, day: &str) -> Option<u64> {
    let shards = rows(server, "show shards").await;
    let mut own = shards.into_iter().filter(|(name, row)| {
        let text = |at: usize| row[at].as_str().unwrap();
        let is_in = text(4) <= day && day < text(5);
        name == database && text(1) == database && text(2) == policy && is_in
    });
    let found = own.next().map(|(_, row)| row[0].as_u64().unwrap());
    assert!(own.next().is_none(), "two shards of {policy} at {day}");
    found
}

async fn values(server: &Server, from: &str) -> String {
    server.result(&format!("select * from {from}")).await
}

/// What `DROP SHARD` has left in each place.
async fn check(server: &Server) {
    let cpu = |values: &str| {
        format!(r#""series":[{{"name":"cpu","columns":["time","host","v"],"values":[{values}]}}]"#)
    };
    let (first, second) = (
        r#"["2020-01-01T00:00:00Z","a",1]"#,
        r#"["2021-01-01T00:00:00Z","a",2]"#,
    );
    assert_eq!(values(server, "d.autogen.cpu").await, cpu(second));
    assert_eq!(values(server, "d.autogen.mem").await, "");
    let both = cpu(&format!("{first},{second}"));
    assert_eq!(values(server, "d.p.cpu").await, both);
    assert_eq!(values(server, "e..cpu").await, both);
}

#[tokio::test]
async fn a_shard_that_is_dropped_takes_its_rows_and_no_others_also_after_a_restart() {
    let disk = MemoryDisk::default();
    let server = filled(&disk).await;
    let head = r#""columns":["id","database","retention_policy","shard_group","start_time","end_time","expiry_time","owners"]"#;
    let shown = server.result("show shards").await;
    assert!(shown.contains(head), "{shown}");
    let groups = rows(&server, "show shard groups").await;
    let (first, second) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
    let mut all = Vec::new();
    for (database, policy) in [("d", "autogen"), ("d", "p"), ("e", "autogen")] {
        for day in [first, second] {
            let id = shard(&server, database, policy, day).await;
            let id = id.unwrap_or_else(|| panic!("no shard of {database}.{policy} at {day}"));
            assert!(groups.iter().any(|(_, row)| row[0] == id), "{groups:?}");
            assert!(!all.contains(&id), "two shards have one number");
            all.push(id);
        }
    }
    let Some(&dropped) = all.first() else { return };
    let statement = format!("drop shard {dropped}");
    assert_eq!(server.result(&statement).await, "");
    check(&server).await;
    // The files go with the next merge.
    server.engine.settle().unwrap();
    check(&server).await;
    assert_eq!(shard(&server, "d", "autogen", first).await, None);
    assert_eq!(
        shard(&server, "d", "autogen", second).await,
        all.get(1).copied(),
        "the others keep their numbers"
    );
    drop(server);
    let server = self::server(&disk);
    check(&server).await;
    assert_eq!(shard(&server, "d", "autogen", first).await, None);
    assert_eq!(
        shard(&server, "e", "autogen", second).await,
        all.get(5).copied()
    );
    // A second time there is none, which is no error.
    assert_eq!(server.result(&statement).await, "");
    check(&server).await;
}

/// Telegraf counts shards (`n_shards`) and reads `diskBytes` of each: numbers and places are those of `SHOW SHARDS`, and the
/// bytes are those of the files of partitions.
#[tokio::test]
async fn variables_have_each_shard_with_what_it_takes_on_disk() {
    let disk = MemoryDisk::default();
    let server = filled(&disk).await;
    let answer = server.send("GET", "/debug/vars", &[], "").await;
    let vars: Value = serde_json::from_slice(&answer.body).unwrap();
    let mut found = Vec::new();
    let mut bytes = 0;
    for (key, shard) in vars.as_object().unwrap() {
        let Some(number) = key.strip_prefix("shard:") else {
            continue;
        };
        assert_eq!(shard["name"], "shard");
        assert_eq!(shard["tags"]["id"], number);
        let tag = |name: &str| shard["tags"][name].as_str().unwrap().to_owned();
        let id: u64 = number.parse().unwrap();
        found.push((tag("database"), tag("retentionPolicy"), id));
        let own = shard["values"]["diskBytes"].as_u64().unwrap();
        assert!(own > 0, "{shard}");
        bytes += own;
    }
    let shown = rows(&server, "show shards").await;
    let mut wanted: Vec<(String, String, u64)> = shown
        .iter()
        .map(|(_, row)| {
            let text = |at: usize| row[at].as_str().unwrap().to_owned();
            (text(1), text(2), row[0].as_u64().unwrap())
        })
        .collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    assert_eq!(found.len(), 6);
    // Other files have no partition.
    let segments = server.engine.snapshot().segments().into_iter();
    let parts = segments.filter(|segment| segment.partition.is_some());
    assert_eq!(bytes, parts.map(|segment| segment.bytes).sum::<u64>());
    let folder = Path::new("/data/segments");
    let files = disk.list(folder).unwrap().into_iter();
    let sizes = files.map(|name| disk.open(&folder.join(name)).unwrap().size().unwrap());
    assert!(bytes <= sizes.sum::<u64>());
}
