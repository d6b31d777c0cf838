//! `AS OF ACQUISITION`: what was known at a time, with a clock that the test moves, and values beside the statement. The clause
//! itself is in `sqltests/statements/acquisition.slt`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Clock, Engine, Options};
use nilometer_query::{Params, Sql, SqlOptions};
use nilometer_service::{Acquisitions, LanguageContext, Principal, Stamps, Threads};

use crate::support::rows;

const SECOND_NS: i64 = 1_000_000_000;

#[derive(Debug)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

struct World {
    clock: Arc<HandClock>,
    acquisitions: Arc<Acquisitions>,
    sql: Sql,
}

impl World {
    /// A store whose clock says so many seconds since 1970.
    async fn at(seconds: i64) -> Self {
        let clock = Arc::new(HandClock(AtomicI64::new(seconds * SECOND_NS)));
        let disk = Arc::new(MemoryDisk::default());
        let shown = Arc::clone(&clock) as Arc<dyn Clock>;
        let engine = Engine::open(disk, shown, Path::new("/data"), Options::default());
        let engine = Arc::new(engine.unwrap());
        engine.create_database("d").unwrap();
        let executor = Threads::of_caller();
        let context = LanguageContext::new(engine, executor, SqlOptions::default());
        let world = Self {
            clock,
            acquisitions: Arc::clone(&context.acquisitions),
            sql: Sql::among(&context).unwrap(),
        };
        world
            .done("CREATE TSTORAGE TABLE records AS (n int4be)")
            .await;
        world
    }

    async fn done(&self, sql: &str) {
        self.sql
            .query("d", sql)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
    }

    async fn ask(&self, sql: &str, params: &Params) -> Result<Vec<String>, String> {
        let answer = self.sql.query_with("d", sql, params).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(rows(&answer.collect().await.unwrap()))
    }

    /// What was known at a time, of seconds since 1970.
    async fn known(&self, seconds: i64) -> Result<Vec<String>, String> {
        let time = chrono_text(seconds);
        let sql = format!("SELECT n FROM records AS OF ACQUISITION '{time}' ORDER BY n");
        self.ask(&sql, &Params::new()).await
    }

    /// Writes a record with the stamp that it has.
    async fn write(&self, stamps: &Stamps, n: i64) {
        let acq = stamps.first;
        self.done(&format!(
            "INSERT INTO records (cid, mid, moid, cap, acq, n) VALUES (1, {n}, 0, '2020-01-01', to_timestamp({acq}::double precision / 1000000000), {n})"
        ))
        .await;
    }
}

fn chrono_text(seconds: i64) -> String {
    // Below a day, so that it needs no calendar.
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("1970-01-01T{hour:02}:{minute:02}:{second:02}Z")
}

/// The bill of a month is closed, read, and read again when records have come late: it is the same. A write that is on its way
/// when somebody asks is not complete, and the question is refused until it has ended.
#[tokio::test]
async fn what_was_known_stays_and_what_is_not_settled_is_refused() {
    let world = World::at(1_000).await;
    let first = world.acquisitions.begin(1).unwrap();
    world.write(&first, 1).await;
    first.store(|| Ok(())).unwrap();
    world.clock.0.store(2_000 * SECOND_NS, Ordering::Relaxed);
    assert_eq!(world.known(2_000).await.unwrap(), ["1"]);
    // It has its stamp, and is stored later.
    let late = world.acquisitions.begin(1).unwrap();
    world.clock.0.store(3_000 * SECOND_NS, Ordering::Relaxed);
    let refused = world.known(3_000).await.unwrap_err();
    assert!(
        refused.contains("is not complete yet")
            && refused.contains("ask for 1970-01-01T00:33:20+00:00 or earlier"),
        "{refused}"
    );
    assert_eq!(world.known(2_000).await.unwrap(), ["1"]);
    world.write(&late, 2).await;
    late.store(|| Ok(())).unwrap();
    assert_eq!(world.known(2_000).await.unwrap(), ["1"]);
    assert_eq!(world.known(3_000).await.unwrap(), ["1", "2"]);
    // The clock is set back: what was complete stays so, and nothing is stamped below it.
    world.clock.0.store(500 * SECOND_NS, Ordering::Relaxed);
    assert_eq!(world.known(3_000).await.unwrap(), ["1", "2"]);
    let next = world.acquisitions.begin(1).unwrap();
    assert!(next.first >= 3_000 * SECOND_NS);
    world.write(&next, 3).await;
    next.store(|| Ok(())).unwrap();
    assert_eq!(world.known(3_000).await.unwrap(), ["1", "2"]);
}

#[tokio::test]
async fn the_time_may_come_beside_the_statement() {
    let world = World::at(1_000).await;
    let stamps = world.acquisitions.begin(1).unwrap();
    world.write(&stamps, 1).await;
    stamps.store(|| Ok(())).unwrap();
    world.clock.0.store(2_000 * SECOND_NS, Ordering::Relaxed);
    let sql = "SELECT n FROM records AS OF ACQUISITION $1 AS r WHERE r.mid = $2";
    let asked = |time: &str| {
        let mut params = Params::new();
        params.push(time.to_owned()).push(1_i64);
        params
    };
    for (time, known) in [
        ("1970-01-01T00:16:40Z", vec![]),
        ("1970-01-01T00:16:41Z", vec!["1"]),
    ] {
        assert_eq!(world.ask(sql, &asked(time)).await.unwrap(), known, "{time}");
    }
    let refused = world.ask(sql, &asked("1970-01-01T01:00:00Z")).await;
    assert!(refused.unwrap_err().contains("is not complete yet"));
    // A time without an offset is in the session's zone: 02:16 in Berlin is 01:16 in UTC, which has not come.
    let berlin = world.sql.in_zone("Europe/Berlin").unwrap();
    for (time, is_known) in [
        ("1970-01-01 01:16:41", true),
        ("1970-01-01 02:16:41", false),
    ] {
        let answer = berlin.query_with("d", sql, &asked(time)).await;
        assert_eq!(answer.is_ok(), is_known, "{time}");
    }
}

#[tokio::test]
async fn who_may_not_read_the_records_may_not_read_what_they_were() {
    let world = World::at(1_000).await;
    let nobody = Principal::nobody();
    let sql = world.sql.asked_by(&nobody);
    let refused = sql.query("d", "SELECT n FROM records AS OF ACQUISITION '1970-01-01'");
    let refused = refused.await.unwrap_err().to_string();
    assert!(refused.contains("authentication credentials"), "{refused}");
}
