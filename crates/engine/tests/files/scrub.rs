//! Promise: the scrub reads everything that a store has, finds damage in every kind of file before anybody asks for what is
//! damaged, keeps its place across restarts, and never takes for damage what the store itself changes meanwhile.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::rich::{self, assert_same};
use crate::support::everything;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Clock, DeleteRequest, Engine, Maintained, Options, ScrubStep};
use nilometer_lineproto::Precision;

const DIR: &str = "/d";
const DAY_S: i64 = 24 * 3600;

/// Wall and monotonic time, set by the test.
#[derive(Debug)]
struct Hands {
    seconds: AtomicI64,
}

impl Hands {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            seconds: AtomicI64::new(1_800_000_000),
        })
    }

    fn advance(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }
}

impl Clock for Hands {
    fn now_ns(&self) -> i64 {
        self.now() * 1_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        self.now().cast_unsigned() * 1000
    }
}

fn store() -> (Arc<dyn Disk>, rich::Contents) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let contents = rich::make(&disk, Path::new(DIR), rich::options());
    (disk, contents)
}

/// Reads to the end of the pass, a little at a time.
fn pass(engine: &Engine) -> u64 {
    let mut damage = 0;
    for _ in 0..100_000 {
        let step = engine.scrub_step(1000).unwrap();
        damage += step.damage;
        if step.is_end {
            return damage;
        }
    }
    panic!("a pass has no end");
}

/// All files of the store with their sizes, but for those that are no data.
fn files(disk: &Arc<dyn Disk>) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for dir in ["/d", "/d/log", "/d/segments"] {
        for name in disk.list(Path::new(dir)).unwrap() {
            let path = Path::new(dir).join(name);
            if path.extension().is_some() || path.ends_with("manifest") {
                let size = disk.open(&path).unwrap().size().unwrap();
                files.insert(path, size);
            }
        }
    }
    files
}

fn flip(disk: &Arc<dyn Disk>, path: &Path, at: u64) {
    let file = disk.open(path).unwrap();
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, at).unwrap(), 1);
    byte[0] ^= 0x10;
    assert_eq!(file.write_at(&byte, at).unwrap(), 1);
}

#[test]
fn a_pass_over_a_store_in_order_reads_all_of_it_and_finds_nothing() {
    let (disk, contents) = store();
    let engine = rich::open(&disk, Path::new(DIR), rich::options());
    let cache = engine.metrics().directory_cache_bytes;
    assert_eq!(pass(&engine), 0);
    let scrubbed = engine.scrubbed();
    assert_eq!((scrubbed.passes, &scrubbed.damage[..]), (1, &[][..]));
    let bytes: u64 = files(&disk)
        .iter()
        .filter(|(path, _)| path.starts_with("/d/segments"))
        .map(|(_, bytes)| bytes)
        .sum();
    // Headers, tails and footers of segments are read but not counted.
    assert!(
        scrubbed.bytes > bytes * 9 / 10,
        "{} of {bytes}",
        scrubbed.bytes
    );
    let metrics = engine.metrics();
    assert_eq!(metrics.scrubbed_bytes, scrubbed.bytes);
    assert!(metrics.scrub_last_pass_ns > 0 && metrics.scrub_damage == 0);
    assert_eq!(
        metrics.directory_cache_bytes, cache,
        "caches are left alone"
    );
    assert_same(&everything(&engine).unwrap(), &contents.now, "scrubbed");
}

fn read(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The header of a log file, and of the records in it that are in no segment and no later file a header's length and a
/// byte of the payload.
fn places_in_log(disk: &Arc<dyn Disk>, path: &Path, flushed: u64) -> Vec<u64> {
    let bytes = read(disk, path);
    let logs = files(disk)
        .into_keys()
        .filter(|it| it.starts_with("/d/log"));
    let next = logs.filter(|it| it.as_path() > path).min();
    let next_start = next.map_or(u64::MAX, |next| number(&read(disk, &next), 40));
    let mut places = vec![3, 40];
    for at in (512..bytes.len() - 50).step_by(8) {
        if bytes[at..].starts_with(b"NREC") {
            let lsn = number(&bytes, at + 8);
            if lsn > flushed && lsn < next_start {
                places.extend([at as u64 + 4, at as u64 + 43]);
            }
        }
    }
    places
}

/// The place of a byte that matters in a file of each kind.
fn places(disk: &Arc<dyn Disk>, path: &Path, size: u64, flushed: u64) -> Vec<u64> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("log") => places_in_log(disk, path, flushed),
        Some("seg") => vec![20, 80, size / 3, size / 2, size - 70, size - 10],
        Some("idx") => vec![20, 70, 150, size / 3, size / 2, size - 60, size - 10],
        Some(_) => vec![10, 70, size / 2, size - 2],
        None => vec![12, 68, size / 2, size - 1],
    }
}

#[test]
fn damage_in_any_kind_of_file_is_found_within_a_pass_that_no_query_helps() {
    let mut kinds = BTreeMap::new();
    let (disk, contents) = store();
    let engine = rich::open(&disk, Path::new(DIR), rich::options());
    let flushed = engine.metrics().flushed_lsn;
    drop(engine);
    let base: BTreeMap<PathBuf, u64> = files(&disk);
    for (path, size) in base {
        for at in places(&disk, &path, size, flushed) {
            let (disk, _) = store();
            let engine = rich::open(&disk, Path::new(DIR), rich::options());
            let Some(&now) = files(&disk).get(&path) else {
                continue;
            };
            // Files of keys have the time in them, and so not always the same size.
            let at = at.min(now - 1);
            flip(&disk, &path, at);
            let what = format!("{} at {at} of {now}", path.display());
            assert!(pass(&engine) > 0, "{what}");
            let damage = engine.scrubbed().damage;
            assert!(
                damage.iter().all(|it| it.path == path),
                "{what}: {damage:?}"
            );
            assert_eq!(engine.metrics().scrub_damage, damage.len() as u64);
            let kind = path.extension().map(|it| it.to_string_lossy().into_owned());
            *kinds.entry(kind).or_insert(0) += 1;
            after(&engine, &disk, &path, &contents, &what);
        }
    }
    assert!(
        kinds.len() == 7 && kinds.values().all(|&n| n >= 3),
        "{kinds:?}"
    );
}

/// What becomes of damage that the scrub has found.
fn after(
    engine: &Arc<Engine>,
    disk: &Arc<dyn Disk>,
    path: &Path,
    contents: &rich::Contents,
    what: &str,
) {
    let ending = path.extension().and_then(|it| it.to_str());
    match ending {
        Some("seg") => {
            let damaged = engine.damaged_segments();
            assert!(
                damaged.iter().any(|it| it.file == path),
                "{what}: {damaged:?}"
            );
        }
        Some("idx") => {
            while engine.maintain().unwrap() != Maintained::Idle {}
            assert_eq!(engine.mended_index_files().len(), 1, "{what}");
            assert_same(&everything(engine).unwrap(), &contents.now, what);
        }
        // What they hold is in memory still, and in files afterwards.
        Some("log") | None => {
            assert_same(&everything(engine).unwrap(), &contents.now, what);
            assert_eq!(pass(engine), 0, "{what}: it is as it should be now");
            let engine = reopened(disk);
            assert_same(&everything(&engine).unwrap(), &contents.now, what);
            assert_eq!(engine.quarantined(), [], "{what}");
        }
        Some(_) => assert_same(&everything(engine).unwrap(), &contents.now, what),
    }
}

/// What a kill leaves, opened: a copy, because the lock of the one that is open stays.
fn reopened(disk: &Arc<dyn Disk>) -> Arc<Engine> {
    let copy: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    for dir in ["/d", "/d/log", "/d/segments"] {
        copy.create_dir_all(Path::new(dir)).unwrap();
        for name in disk.list(Path::new(dir)).unwrap() {
            let path = Path::new(dir).join(&name);
            if name == "lock" || ["log", "segments"].contains(&name.as_str()) {
                continue;
            }
            let bytes = read(disk, &path);
            let file = copy.create(&path).unwrap();
            let mut at = 0;
            while at < bytes.len() {
                at += file.write_at(&bytes[at..], at as u64).unwrap();
            }
        }
    }
    rich::open(&copy, Path::new(DIR), rich::options())
}

#[test]
fn a_missing_file_is_damage_and_one_that_a_flush_or_a_compaction_replaced_is_not() {
    let (disk, _) = store();
    let engine = rich::open(&disk, Path::new(DIR), rich::options());
    let segment = files(&disk)
        .into_keys()
        .find(|it| it.extension().is_some_and(|it| it == "seg"));
    let segment = segment.unwrap();
    disk.remove(&segment).unwrap();
    assert_eq!(pass(&engine), 1);
    assert_eq!(engine.scrubbed().damage[0].path, segment);
    assert_eq!(engine.scrubbed().damage[0].reason, "the file is missing");
    // Known damage is not counted again.
    assert_eq!(pass(&engine), 0);
    assert_eq!(engine.scrubbed().damage.len(), 1);
}

#[test]
fn a_pass_while_the_store_is_written_compacted_and_emptied_has_no_false_alarm() {
    let (disk, _) = store();
    let options = Options {
        scrub_days: 0,
        log_bytes_max: 64 << 10,
        compaction: nilometer_engine::CompactionOptions {
            fan_in: 2,
            settle_ms: 0,
            ..rich::options().compaction
        },
        ..rich::options()
    };
    let engine = rich::open(&disk, Path::new(DIR), options);
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    for round in 0..600_i64 {
        let lines: Vec<String> = (0..40)
            .map(|n| format!("w{},host=h{n} v={round} {}\n", round % 3, round * 7 + n))
            .collect();
        let lines = lines.concat();
        let key = [u8::try_from(round % 251).unwrap(); 16];
        session
            .write_lines_once(key, lines.as_bytes(), Precision::Second)
            .unwrap();
        if round % 5 == 0 {
            engine.flush().unwrap();
        }
        if round % 40 == 39 {
            if let Some(table) = engine.snapshot().table("d", "public", "w1") {
                let request = DeleteRequest {
                    table,
                    time: 0..=i64::MAX - 1,
                    tags: Vec::new(),
                };
                engine.delete(&request).unwrap();
            }
            engine.drop_table("d", "public", "w2").unwrap();
        }
        for _ in 0..3 {
            engine.maintain().unwrap();
            let step = engine.scrub_step(700).unwrap();
            assert_eq!(step.damage, 0, "{:?}", engine.scrubbed().damage);
        }
    }
    assert!(engine.scrubbed().passes >= 3, "{:?}", engine.scrubbed());
}

#[test]
fn everything_is_read_once_in_the_days_that_the_setting_says_and_no_faster() {
    let (disk, _) = store();
    let hands = Hands::new();
    let open = |days: u32| {
        let clock: Arc<dyn Clock> = Arc::<Hands>::clone(&hands);
        let options = Options {
            scrub_days: days,
            ..rich::options()
        };
        Engine::open(Arc::clone(&disk), clock, Path::new(DIR), options).unwrap()
    };
    let settle = |engine: &Engine| while engine.maintain().unwrap() != Maintained::Idle {};
    // Open for an hour a day.
    for day in 0..21 {
        let engine = open(7);
        settle(&engine);
        hands.advance(3600);
        settle(&engine);
        let scrubbed = engine.scrubbed();
        let passed = scrubbed.last_pass_ns > 0;
        assert_eq!(passed, day >= 7, "day {day}: {scrubbed:?}");
        drop(engine);
        hands.advance(DAY_S - 3600);
    }
    let engine = open(0);
    hands.advance(100 * DAY_S);
    settle(&engine);
    assert_eq!(engine.scrubbed().bytes, 0, "never, if the setting says so");
}

#[test]
fn the_place_survives_a_restart() {
    let (disk, _) = store();
    let hands = Hands::new();
    let open = || {
        let clock: Arc<dyn Clock> = Arc::<Hands>::clone(&hands);
        Engine::open(Arc::clone(&disk), clock, Path::new(DIR), rich::options()).unwrap()
    };
    let (mut bytes, mut lives) = (0, 0);
    loop {
        let engine = open();
        lives += 1;
        let before = engine.scrubbed().pass_bytes;
        assert_eq!(
            before, bytes,
            "life {lives} goes on where the one before was"
        );
        let ScrubStep { is_end, .. } = engine.scrub_step(700).unwrap();
        if is_end {
            break;
        }
        bytes = engine.scrubbed().pass_bytes;
        assert!(bytes > before, "life {lives}");
        // A kill a minute later, as seldom as the place is written down.
        hands.advance(60);
        engine.scrub_step(1).unwrap();
        bytes = engine.scrubbed().pass_bytes;
    }
    assert!(lives > 5, "{lives} lives");
    // Without the file, or with one that does not read, a pass begins anew.
    flip(&disk, Path::new("/d/scrub"), 70);
    let engine = open();
    assert_eq!(engine.scrubbed().pass_bytes, 0);
    assert_eq!(pass(&engine), 0);
}
