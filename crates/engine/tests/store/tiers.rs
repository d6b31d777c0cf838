//! Cold partitions answer as hot ones do, whatever is written into them, and become hot again.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{Answer, everything};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Clock, CompactionOptions, DeleteRequest, Engine, Maintained, Options, ScanRequest,
    TableSettings, TagMatch, TagPredicate, Tier,
};
use nilometer_lineproto::Precision;

const DAY: i64 = 86_400_000_000_000;
const HOUR: i64 = DAY / 24;
/// 2026-01-01.
const START: i64 = 1_767_225_600_000_000_000;

#[derive(Debug)]
struct WallClock(AtomicI64);

impl Clock for WallClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

struct Store {
    disk: MemoryDisk,
    clock: Arc<WallClock>,
    engine: Arc<Engine>,
    /// Rows of `m`: by host and time its fields as text.
    model: BTreeMap<(String, i64), BTreeMap<String, String>>,
}

impl Store {
    fn new() -> Self {
        let disk = MemoryDisk::new();
        let clock = Arc::new(WallClock(AtomicI64::new(START + 3 * DAY)));
        let engine = Self::open(&disk, &clock);
        engine.create_database("d").unwrap();
        Self {
            disk,
            clock,
            engine,
            model: BTreeMap::new(),
        }
    }

    fn open(disk: &MemoryDisk, clock: &Arc<WallClock>) -> Arc<Engine> {
        let options = Options {
            flush_idle_ms: 0,
            scrub_days: 0,
            compaction: CompactionOptions {
                partition_rows_min: 1,
                widen_rows_max: 0,
                ..CompactionOptions::default()
            },
            ..Options::default()
        };
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
        Arc::new(Engine::open(disk, clock, Path::new("/d"), options).unwrap())
    }

    fn reopen(&mut self) {
        self.engine.close().unwrap();
        // Nobody else may have the folder.
        let other = Self::open(&MemoryDisk::new(), &self.clock);
        drop(std::mem::replace(&mut self.engine, other));
        self.engine = Self::open(&self.disk, &self.clock);
    }

    /// Rows of every kind, ten seconds apart, of some hours from START on; `seed` makes values other ones.
    fn write(&mut self, hours: std::ops::Range<i64>, step: i64, seed: i64) {
        let mut body = String::new();
        for host in ["a", "b", "c"] {
            let times =
                (hours.start * HOUR..hours.end * HOUR).step_by(usize::try_from(step).unwrap());
            for (n, time) in (0i64..).zip(times) {
                let time = START + time;
                let noise = (n * 7919 + seed * 104_729 + i64::from(host.as_bytes()[0]) * 31) % 101;
                let row = self.model.entry((host.to_owned(), time)).or_default();
                let mut fields = vec![
                    ("i", format!("{}", n * 3 + noise), "i"),
                    (
                        "f",
                        format!("{:?}", (noise as f64) / 8.0 + (n as f64) * 0.1),
                        "",
                    ),
                    ("u", format!("{}", u64::MAX - noise.unsigned_abs()), "u"),
                ];
                if n % 5 == 0 {
                    fields.push(("b", format!("{}", noise % 2 == 0), ""));
                }
                let list = fields
                    .iter()
                    .map(|(name, text, end)| format!("{name}={text}{end}"));
                let list: Vec<String> = list.collect();
                body.push_str(&format!(
                    "m,host={host} {},t=\"word {}\" {time}\n",
                    list.join(","),
                    noise % 7
                ));
                for (name, text, _) in fields {
                    row.insert(name.to_owned(), text);
                }
                row.insert("t".to_owned(), format!("word {}", noise % 7));
            }
        }
        let mut session = Session::new(Arc::clone(&self.engine), "d").unwrap();
        let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rejected, []);
        self.engine.flush().unwrap();
    }

    fn delete(&mut self, host: &str, from: i64, to: i64) {
        let table = self.engine.snapshot().table("d", "public", "m").unwrap();
        let request = DeleteRequest {
            table,
            time: START + from..=START + to,
            tags: vec![TagPredicate {
                column: 1,
                matches: TagMatch::OneOf(vec![Some(host.to_owned())]),
                negated: false,
            }],
        };
        self.engine.delete(&request).unwrap();
        self.model
            .retain(|(own, time), _| own != host || !(START + from..=START + to).contains(time));
    }

    fn cold_after(&self, ns: Option<i64>) {
        let settings = TableSettings {
            cold_after_ns: ns,
            ..self
                .engine
                .snapshot()
                .table("d", "public", "m")
                .unwrap()
                .settings
        };
        self.engine.set_table("d", "public", "m", settings).unwrap();
    }

    fn maintain(&self) {
        while self.engine.maintain().unwrap() != Maintained::Idle {}
    }

    /// By day since START: tiers of the files of its partition.
    fn tiers(&self) -> BTreeMap<i64, Vec<Tier>> {
        let mut tiers: BTreeMap<i64, Vec<Tier>> = BTreeMap::new();
        for segment in self.engine.snapshot().segments() {
            let Some((_, start, _)) = segment.partition else {
                panic!("a file of no partition");
            };
            tiers
                .entry((start - START) / DAY)
                .or_default()
                .push(segment.tier);
        }
        tiers
    }

    fn check(&self, when: &str) {
        let rows = self.model.iter().map(|((host, time), fields)| {
            let mut row = fields.clone();
            row.insert("host".to_owned(), host.clone());
            row.insert("time".to_owned(), time.to_string());
            row
        });
        let expected = Answer::from([("d.public.m".to_owned(), rows.collect())]);
        let found = everything(&self.engine).unwrap();
        assert!(found == expected, "{when}: answers differ");
        assert_eq!(self.engine.quarantined(), [], "{when}");
    }

    /// Integers and floats of a host in a few minutes, and what the model has.
    fn check_narrow(&self, host: &str, from: i64, to: i64, when: &str) {
        let snapshot = self.engine.snapshot();
        let table = snapshot.table("d", "public", "m").unwrap();
        let at = |name: &str| table.arrow_schema().index_of(name).unwrap();
        let request = ScanRequest {
            projection: vec![at("i"), at("f")],
            table: Arc::clone(&table),
            time: START + from..=START + to,
            tags: vec![TagPredicate {
                column: 1,
                matches: TagMatch::OneOf(vec![Some(host.to_owned())]),
                negated: false,
            }],
            limit: None,
        };
        let scan = snapshot.scan(&request).unwrap();
        let mut found = Vec::new();
        for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
            let batch = batch.unwrap();
            let integers = batch.column(0).as_primitive::<Int64Type>();
            let floats = batch.column(1).as_primitive::<Float64Type>();
            for (i, f) in integers.values().iter().zip(floats.values()) {
                found.push((i.to_string(), format!("{f:?}")));
            }
        }
        let wanted = self
            .model
            .iter()
            .filter(|((own, time), _)| own == host && (START + from..=START + to).contains(time));
        let wanted = wanted.map(|(_, fields)| (fields["i"].clone(), fields["f"].clone()));
        assert!(
            found.iter().cloned().eq(wanted),
            "{when}: {} rows of {host}",
            found.len()
        );
    }

    fn bytes(&self) -> u64 {
        self.engine.metrics().segment_bytes
    }
}

#[test]
fn partitions_go_cold_by_their_age_and_come_back() {
    let mut store = Store::new();
    store.write(0..72, 10_000_000_000, 1);
    store.engine.settle().unwrap();
    let hot = store.bytes();
    assert!(
        store
            .tiers()
            .values()
            .flatten()
            .all(|tier| *tier == Tier::Hot)
    );
    store.check("hot");
    // The first two days are more than a day old when the third has ended.
    store.cold_after(Some(DAY - HOUR));
    store.maintain();
    let [cold, warm] = [vec![Tier::Cold], vec![Tier::Hot]];
    let expected = BTreeMap::from([(0, cold.clone()), (1, cold.clone()), (2, warm.clone())]);
    assert_eq!(store.tiers(), expected);
    store.check("two days cold");
    assert!(store.bytes() < hot, "{} {hot}", store.bytes());
    store.reopen();
    store.check("opened again");
    // Time passes.
    store.clock.0.fetch_add(DAY, Ordering::Relaxed);
    store.maintain();
    let expected = BTreeMap::from([(0, cold.clone()), (1, cold.clone()), (2, cold.clone())]);
    assert_eq!(store.tiers(), expected);
    store.check("all cold");
    // Late rows between the others and over them, and deletes.
    store.write(5..9, 7_000_000_000, 2);
    store.write(30..31, 10_000_000_000, 3);
    store.delete("b", 6 * HOUR, 40 * HOUR);
    store.check("late rows and a delete over cold files");
    store.engine.settle().unwrap();
    store.check("settled");
    assert!(
        store
            .tiers()
            .values()
            .flatten()
            .all(|tier| *tier == Tier::Cold),
        "{:?}",
        store.tiers()
    );
    store.cold_after(None);
    store.maintain();
    assert!(
        store
            .tiers()
            .values()
            .flatten()
            .all(|tier| *tier == Tier::Cold)
    );
    store.cold_after(Some(i64::MAX));
    store.maintain();
    assert!(
        store
            .tiers()
            .values()
            .flatten()
            .all(|tier| *tier == Tier::Hot)
    );
    store.check("hot again");
}

#[test]
fn a_store_is_settled_for_a_tier_whatever_its_tables_say() {
    let mut store = Store::new();
    store.write(0..30, 10_000_000_000, 1);
    for (at, tier) in [Tier::Cold, Tier::Hot, Tier::Cold].into_iter().enumerate() {
        store.engine.settle_for(Some(tier)).unwrap();
        assert!(
            store.tiers().values().flatten().all(|it| *it == tier),
            "{:?}",
            store.tiers()
        );
        store.check(&format!("{at}: settled as {tier}"));
        let rewritten = store.engine.metrics().segment_bytes_written;
        store.engine.settle_for(Some(tier)).unwrap();
        store.maintain();
        let again = store.engine.metrics().segment_bytes_written;
        assert_eq!(again, rewritten, "what is so already is not written again");
    }
}

/// Pages of cold columns are kept decoded when few of them are read.
#[test]
fn what_is_read_again_of_a_cold_partition_is_the_same() {
    let mut store = Store::new();
    store.write(0..20, 10_000_000_000, 1);
    store.engine.settle_for(Some(Tier::Cold)).unwrap();
    let asked = [
        ("a", 3 * HOUR, 4 * HOUR),
        ("c", 17 * HOUR, 17 * HOUR + HOUR / 60),
        ("a", 3 * HOUR, 3 * HOUR + 1),
        ("b", 0, 2 * HOUR),
    ];
    let ask = |store: &Store, when: &str| {
        for (host, from, to) in asked {
            store.check_narrow(host, from, to, when);
        }
    };
    ask(&store, "at first");
    let misses = store.engine.metrics().directory_cache_misses;
    ask(&store, "again");
    assert_eq!(store.engine.metrics().directory_cache_misses, misses);
    store.write(3..4, 7_000_000_000, 5);
    store.delete("b", HOUR, 3 * HOUR);
    ask(&store, "under late rows and a delete");
    store.engine.settle_for(Some(Tier::Cold)).unwrap();
    ask(&store, "from another file");
    store.check("everything");
}
