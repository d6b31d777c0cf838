//! Promise: flash pages that rows come from are in a file byte for byte after a flush, as long as the rows are what the pages say; what
//! a reader sees is what it would see of the rows alone, whatever was written, deleted or overwritten before and after, through power
//! cuts too.
//!
//! What is expected is kept by the tests: a map of rows in which a later value takes the place of an earlier one.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::{FlashPages, Missing, OnConflict, PageBlock, Session, Target};
use nilometer_engine::{
    AggregateRequest, AggregateSum, AggregateValue, CompactionOptions, DeleteRequest, Duplicates,
    Engine, Error, Options, SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

use crate::device_page::{Block, Field, device_page};
use crate::support::everything;
use crate::typed_store::batch;

/// The format of files of pages.
const DEVICE_FORMAT: u16 = 5;

const MS: i64 = 1_000_000;

/// Field by name, of each sensor and time in milliseconds.
type Model = BTreeMap<(String, i64), BTreeMap<String, String>>;

fn open(disk: Arc<dyn Disk>) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in: 3,
            partition_rows_min: 50,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

fn memory(disk: &MemoryDisk) -> Arc<Engine> {
    open(Arc::new(disk.clone()))
}

fn faulty(disk: &FaultyDisk) -> Arc<Engine> {
    open(Arc::new(disk.clone()))
}

fn block(sensor: &str, times: impl IntoIterator<Item = i64>, salt: i64) -> Block {
    let times: Vec<i64> = times.into_iter().collect();
    let level = times.iter().map(|time| (time * 7 + salt) as f64 / 4.0);
    let count = times.iter().map(|time| time * salt % 1000);
    Block {
        key: format!("climate,sensor={sensor}"),
        fields: vec![
            ("level", Field::Floats(level.collect())),
            ("count", Field::Integers(count.collect())),
        ],
        times,
    }
}

fn array(field: &Field) -> ArrayRef {
    match field {
        Field::Floats(values) => Arc::new(Float64Array::from(values.clone())),
        Field::Integers(values) => Arc::new(Int64Array::from(values.clone())),
    }
}

fn sensor_of(block: &Block) -> &str {
    block.key.split_once("sensor=").unwrap().1
}

/// Writes the rows of pages as the server does, a table's rows of a block at once.
fn push(engine: &Arc<Engine>, pages: &[(Vec<u8>, Vec<Block>)]) -> Result<(), Error> {
    let session = || Session::new(Arc::clone(engine), "d");
    let own = engine.begin()?;
    let mut flash = FlashPages::default();
    for (at, (bytes, blocks)) in pages.iter().enumerate() {
        flash.push(bytes, 0, blocks.len());
        for (nth, block) in blocks.iter().enumerate() {
            let times = block.times.iter().map(|time| time * MS);
            let rows = block.times.len();
            let mut columns: Vec<(&str, ArrayRef)> = vec![
                ("time", Arc::new(times.collect::<Int64Array>())),
                (
                    "sensor",
                    Arc::new(StringArray::from(vec![sensor_of(block); rows])),
                ),
            ];
            columns.extend(
                block
                    .fields
                    .iter()
                    .map(|(name, field)| (*name, array(field))),
            );
            let rows = batch(columns);
            let to = || Target::table("climate");
            let tags = ["sensor".to_owned()];
            let missing = Missing {
                tags: Some(&tags),
                adds_columns: true,
                ..Missing::default()
            };
            session()?.make_missing_for(to(), &rows, missing, OnConflict::Replace)?;
            let from = PageBlock {
                page: at,
                block: nth,
                first_row: 0,
                fields: block.fields.iter().map(|it| it.0.to_owned()).collect(),
            };
            let mut within = session()?.within(&own);
            within.write_arrow_of_pages(to(), &rows, &[from], &mut flash)?;
        }
    }
    session()?.within(&own).keep_pages(flash)?;
    own.commit().map(drop)
}

fn page(sequence: u64, blocks: Vec<Block>) -> (Vec<u8>, Vec<Block>) {
    (device_page(sequence, &blocks), blocks)
}

fn note(model: &mut Model, blocks: &[Block]) {
    for block in blocks {
        for (at, time) in block.times.iter().enumerate() {
            let row = model
                .entry((sensor_of(block).to_owned(), *time))
                .or_default();
            for (name, field) in &block.fields {
                let text = match field {
                    Field::Floats(values) => format!("{:?}", values[at]),
                    Field::Integers(values) => values[at].to_string(),
                };
                row.insert((*name).to_owned(), text);
            }
        }
    }
}

fn rows(engine: &Arc<Engine>) -> Model {
    let mut all = everything(engine).unwrap();
    let rows = all.remove("d.public.climate").unwrap_or_default();
    let count = rows.len();
    let rows: Model = rows
        .into_iter()
        .map(|mut row| {
            let time: i64 = row.remove("time").unwrap().parse().unwrap();
            ((row.remove("sensor").unwrap(), time / MS), row)
        })
        .collect();
    assert_eq!(rows.len(), count, "a row is there twice");
    rows
}

/// Count, least and greatest level and the sum of counts of each hour and sensor, by the engine and by the model.
fn check_sums(engine: &Arc<Engine>, model: &Model, context: &str) {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table("d", "public", "climate") else {
        return;
    };
    let place = |name: &str| table.arrow_schema().index_of(name).unwrap();
    let fields = vec![place("level"), place("count")];
    let hour = 3_600_000;
    let answer = snapshot.aggregate(&AggregateRequest {
        table: Arc::clone(&table),
        fields,
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        bucket_ns: Some(hour * MS),
    });
    let none = (0, f64::MAX, f64::MIN, 0);
    let mut wanted: BTreeMap<i64, (u64, f64, f64, i128)> = BTreeMap::new();
    for ((_, time), row) in model {
        let bucket = time.div_euclid(hour) * hour * MS;
        let sums = wanted.entry(bucket).or_insert(none);
        if let Some(level) = row.get("level") {
            let level: f64 = level.parse().unwrap();
            sums.0 += 1;
            sums.1 = sums.1.min(level);
            sums.2 = sums.2.max(level);
        }
        if let Some(count) = row.get("count") {
            sums.3 += count.parse::<i128>().unwrap();
        }
    }
    let mut found: BTreeMap<i64, (u64, f64, f64, i128)> = BTreeMap::new();
    for row in answer.unwrap().read_all().unwrap().rows {
        let sums = found.entry(row.bucket).or_insert(none);
        if let Some(level) = &row.fields[0] {
            let (AggregateValue::Float(min), AggregateValue::Float(max)) = (&level.min, &level.max)
            else {
                panic!("{level:?}");
            };
            sums.0 += level.count;
            sums.1 = sums.1.min(*min);
            sums.2 = sums.2.max(*max);
        }
        if let Some(count) = &row.fields[1] {
            let Some(AggregateSum::Int(sum)) = count.sum else {
                panic!("{count:?}");
            };
            sums.3 += sum;
        }
    }
    assert_eq!(found, wanted, "{context}");
}

fn device_files(engine: &Arc<Engine>) -> usize {
    let segments = engine.snapshot().segments();
    segments
        .iter()
        .filter(|it| it.format == DEVICE_FORMAT)
        .count()
}

fn bytes_of(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut all = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    let mut at = 0;
    while at < all.len() {
        at += file.read_at(&mut all[at..], at as u64).unwrap();
    }
    all
}

/// Segments of a folder that have these bytes in them.
fn files_in(disk: &dyn Disk, dir: &Path, bytes: &[u8]) -> Vec<String> {
    let mut names = disk.list(dir).unwrap();
    names.retain(|name| {
        let is_segment = Path::new(name).extension().is_some_and(|it| it == "seg");
        let has = || bytes_of(disk, &dir.join(name));
        is_segment && has().windows(bytes.len()).any(|it| it == bytes)
    });
    names
}

/// How many of the store's segments have these bytes in them.
fn files_with(disk: &dyn Disk, bytes: &[u8]) -> usize {
    files_in(disk, Path::new("/d/segments"), bytes).len()
}

#[test]
fn pages_are_in_a_file_byte_for_byte_until_they_are_compacted() {
    let disk = MemoryDisk::new();
    let engine = memory(&disk);
    engine.create_database("d").unwrap();
    let mut model = Model::new();
    let pages: Vec<_> = (0..40_i64)
        .map(|at| {
            let times = |step: i64| (0..100).map(move |row| (at * 100 + row) * step);
            let blocks = vec![block("a", times(10_000), 3), block("b", times(7_000), 5)];
            page(at.cast_unsigned() + 1, blocks)
        })
        .collect();
    for several in pages.chunks(8) {
        push(&engine, several).unwrap();
        for (_, blocks) in several {
            note(&mut model, blocks);
        }
    }
    assert_eq!(rows(&engine), model);
    check_sums(&engine, &model, "in memory");
    drop(engine);
    // From the log.
    let engine = memory(&disk);
    assert_eq!(rows(&engine), model);
    engine.flush().unwrap();
    assert_eq!(device_files(&engine), 1);
    // Nothing but the pages: no row stands in another file.
    assert_eq!(engine.snapshot().segments().len(), 1);
    let check_bytes = |times: usize| {
        for (bytes, _) in &pages {
            assert_eq!(files_with(&disk, bytes), times);
        }
    };
    check_bytes(1);
    assert_eq!(rows(&engine), model);
    check_sums(&engine, &model, "as pages");
    engine.close().unwrap();
    drop(engine);
    assert_eq!(
        Engine::verify(&(Arc::new(disk.clone()) as Arc<dyn Disk>), Path::new("/d"))
            .unwrap()
            .damage,
        []
    );
    let engine = memory(&disk);
    check_bytes(1);
    assert_eq!(rows(&engine), model);
    engine.settle().unwrap();
    assert_eq!(device_files(&engine), 0);
    check_bytes(0);
    assert_eq!(rows(&engine), model);
    check_sums(&engine, &model, "settled");
}

/// Statistics and rollups answer: a sum over blocks reads none of their pages.
#[test]
fn sums_over_pages_read_no_page() {
    let disk = MemoryDisk::new();
    let engine = memory(&disk);
    engine.create_database("d").unwrap();
    for at in 0..4_i64 {
        let times = (0..200).map(|row| (at * 200 + row) * 1_000);
        push(
            &engine,
            &[page(at.cast_unsigned() + 1, vec![block("a", times, 3)])],
        )
        .unwrap();
    }
    engine.flush().unwrap();
    assert_eq!(device_files(&engine), 1);
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "climate").unwrap();
    let fields = vec![table.arrow_schema().index_of("level").unwrap()];
    let answer = snapshot.aggregate(&AggregateRequest {
        table,
        fields,
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        bucket_ns: None,
    });
    let all = answer.unwrap().read_all().unwrap();
    assert_eq!(all.rows[0].fields[0].as_ref().unwrap().count, 800);
    assert_eq!(all.used.blocks, 0, "{:?}", all.used);
}

/// Something that happens beside a page.
type Change<'a> = &'a dyn Fn(&Arc<Engine>, &mut Model);

#[test]
fn rows_that_pages_do_not_say_stay_rows() {
    let cases: [(&str, usize, Change<'_>); 5] = [
        ("nothing else", 1, &|_, _| {}),
        ("a row of another sensor", 1, &|engine, model| {
            line(engine, model, "b", 5, "level", "1.5");
        }),
        ("an overwritten value", 0, &|engine, model| {
            line(engine, model, "a", 5, "level", "1.5");
        }),
        ("a row between", 0, &|engine, model| {
            line(engine, model, "a", 6, "level", "2.5");
        }),
        ("a deleted row", 0, &|engine, model| {
            delete(engine, model, 5, 5);
        }),
    ];
    for (what, files, change) in cases {
        for before in [false, true] {
            let disk = MemoryDisk::new();
            let engine = memory(&disk);
            engine.create_database("d").unwrap();
            let mut model = Model::new();
            let (bytes, blocks) = page(1, vec![block("a", [1, 5, 9], 3)]);
            line(&engine, &mut model, "z", 1, "level", "0.5");
            if before {
                change(&engine, &mut model);
            }
            push(&engine, &[(bytes.clone(), blocks.clone())]).unwrap();
            note(&mut model, &blocks);
            if !before {
                change(&engine, &mut model);
            }
            let context = format!("{what}, before: {before}");
            assert_eq!(rows(&engine), model, "{context}");
            engine.flush().unwrap();
            assert_eq!(rows(&engine), model, "{context}");
            // A delete before the page came does not touch it.
            let files = if what == "a deleted row" && before {
                1
            } else {
                files
            };
            assert_eq!(device_files(&engine), files, "{context}");
            assert_eq!(files_with(&disk, &bytes), files, "{context}");
            check_sums(&engine, &model, &context);
            drop(engine);
            assert_eq!(rows(&memory(&disk)), model, "{context}");
        }
    }
}

fn line(
    engine: &Arc<Engine>,
    model: &mut Model,
    sensor: &str,
    time: i64,
    field: &str,
    value: &str,
) {
    let text = format!("climate,sensor={sensor} {field}={value} {}", time * MS);
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(text.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
    let row = model.entry((sensor.to_owned(), time)).or_default();
    row.insert(field.to_owned(), value.trim_end_matches('i').to_owned());
}

fn delete(engine: &Arc<Engine>, model: &mut Model, first: i64, last: i64) {
    let Some(table) = engine.snapshot().table("d", "public", "climate") else {
        return;
    };
    engine
        .delete(&DeleteRequest {
            table,
            tags: Vec::new(),
            time: first * MS..=last * MS,
        })
        .unwrap();
    model.retain(|(_, time), _| !(first..=last).contains(time));
}

/// Tables whose rows each count, or whose keys are looked up, get rows.
#[test]
fn tables_with_a_rule_of_their_own_get_rows() {
    for duplicates in [Duplicates::Keep, Duplicates::Unique] {
        let disk = MemoryDisk::new();
        let engine = memory(&disk);
        engine.create_database("d").unwrap();
        let mut model = Model::new();
        line(&engine, &mut model, "a", 100, "level", "0.5");
        let settings = TableSettings {
            duplicates,
            ..TableSettings::default()
        };
        engine
            .set_table("d", "public", "climate", settings)
            .unwrap();
        let (bytes, blocks) = page(1, vec![block("a", [1, 5, 9], 3)]);
        push(&engine, &[(bytes, blocks.clone())]).unwrap();
        note(&mut model, &blocks);
        engine.flush().unwrap();
        assert_eq!(device_files(&engine), 0);
        assert_eq!(rows(&engine), model, "{duplicates:?}");
    }
}

/// Draws of a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn time(&mut self) -> i64 {
        self.below(600).cast_signed() * 30_000
    }
}

/// Pages of two sensors, single rows, deletes, flushes, compactions and new starts in any order.
#[test]
fn whatever_is_written_around_pages_readers_see_what_rows_alone_would_show() {
    let mut with_pages = 0;
    for seed in 1..=24_u64 {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let disk = MemoryDisk::new();
        let mut engine = memory(&disk);
        engine.create_database("d").unwrap();
        let mut model = Model::new();
        line(&engine, &mut model, "z", 0, "level", "0.5");
        line(&engine, &mut model, "z", 1, "count", "1i");
        for step in 0..25_u64 {
            let context = format!("seed {seed}, step {step}");
            match draw.below(10) {
                0..=3 => {
                    let mut pages = Vec::new();
                    for at in 0..=draw.below(3) {
                        let mut blocks = Vec::new();
                        for sensor in ["a", "b"] {
                            let start = draw.time();
                            let gap = 1_000 * (1 + draw.below(60)).cast_signed();
                            let count = 1 + draw.below(40).cast_signed();
                            let times = (0..count).map(|row| start + row * gap);
                            let salt = draw.below(900).cast_signed();
                            let mut block = block(sensor, times, salt);
                            if draw.below(4) == 0 {
                                block.fields.remove(0);
                            }
                            blocks.push(block);
                        }
                        pages.push(page(step * 10 + at + 1, blocks));
                    }
                    push(&engine, &pages).unwrap();
                    for (_, blocks) in &pages {
                        note(&mut model, blocks);
                    }
                }
                4 => line(&engine, &mut model, "a", draw.time(), "level", "0.25"),
                5 => line(&engine, &mut model, "b", draw.time(), "count", "7i"),
                6 => {
                    let first = draw.time();
                    let last = first + draw.below(900_000).cast_signed();
                    delete(&engine, &mut model, first, last);
                }
                7 => engine.flush().unwrap(),
                8 if draw.below(3) == 0 => engine.settle().unwrap(),
                8 => while engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {},
                _ => {
                    drop(engine);
                    engine = memory(&disk);
                }
            }
            with_pages += device_files(&engine);
            assert_eq!(rows(&engine), model, "{context}");
            check_sums(&engine, &model, &context);
        }
    }
    assert!(with_pages > 40, "{with_pages}");
}

/// A store with a first row, and what becomes of pages that are pushed and flushed.
fn run(plan: CrashPlan) -> (FaultyDisk, [bool; 2]) {
    let disk = FaultyDisk::new(11, CrashPlan::default());
    let engine = faulty(&disk);
    engine.create_database("d").unwrap();
    line(&engine, &mut Model::new(), "a", 1, "level", "0.5");
    disk.set_plan(plan);
    let pushed = push(&engine, &[page(1, flashed())]).is_ok();
    let flushed = pushed && engine.flush().is_ok();
    (disk, [pushed, flushed])
}

fn flashed() -> Vec<Block> {
    vec![
        block("a", (2..60).map(|at| at * 1000), 3),
        block("b", (2..60).map(|at| at * 500), 5),
    ]
}

/// The power goes at each call of the disk, from the push to the end of the flush: the rows are there or not, and if the push was
/// acknowledged the next flush has the page byte for byte.
#[test]
fn after_a_power_cut_all_rows_of_a_page_are_there_or_none_and_its_bytes_too() {
    let (disk, done) = run(CrashPlan::default());
    assert_eq!(done, [true, true]);
    let (bytes, blocks) = page(1, flashed());
    let mut without = Model::new();
    without.insert(
        ("a".to_owned(), 1),
        BTreeMap::from([("level".to_owned(), "0.5".to_owned())]),
    );
    let mut with = without.clone();
    note(&mut with, &blocks);
    let mut outcomes = [0, 0];
    for crash_at in 1..=disk.calls() + 1 {
        let (disk, [acknowledged, _]) = run(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        for seed in 0..4 {
            let after = disk.after_power_cut(seed, CrashPlan::default());
            let engine = faulty(&after);
            let context = format!("crash at {crash_at}, seed {seed}");
            let found = rows(&engine);
            let there = found == with;
            assert!(there || found == without, "{context}: {found:?}");
            assert!(there || !acknowledged, "{context}: it was acknowledged");
            outcomes[usize::from(there)] += 1;
            engine.flush().unwrap();
            assert_eq!(files_with(&after, &bytes), usize::from(there), "{context}");
            assert_eq!(rows(&engine), found, "{context}");
            engine.settle().unwrap();
            drop(engine);
            let engine = faulty(&after);
            assert_eq!(rows(&engine), found, "{context}");
            assert_eq!(files_with(&after, &bytes), 0, "{context}");
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// A store with a file of three pages, and one page that only the log has.
fn stored(disk: &MemoryDisk) -> (Arc<Engine>, Model, Vec<Vec<u8>>) {
    let engine = memory(disk);
    engine.create_database("d").unwrap();
    let mut model = Model::new();
    let mut all = Vec::new();
    for at in 0..4_i64 {
        let times = |step: i64| (0..50).map(move |row| (at * 50 + row) * step);
        let (bytes, blocks) = page(
            at.cast_unsigned() + 1,
            vec![block("a", times(9_000), 3), block("b", times(4_000), 5)],
        );
        push(&engine, &[(bytes.clone(), blocks.clone())]).unwrap();
        note(&mut model, &blocks);
        all.push(bytes);
        if at == 2 {
            engine.flush().unwrap();
        }
    }
    assert_eq!(device_files(&engine), 1);
    (engine, model, all)
}

#[test]
fn a_backup_has_the_pages() {
    let disk = MemoryDisk::new();
    let (engine, model, pages) = stored(&disk);
    engine.backup(Path::new("/b")).unwrap();
    drop(engine);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    Engine::restore(&disk, Path::new("/b"), Path::new("/r")).unwrap();
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(
        Arc::clone(&disk),
        clock,
        Path::new("/r"),
        Options::default(),
    );
    let engine = Arc::new(engine.unwrap());
    assert_eq!(rows(&engine), model);
    engine.flush().unwrap();
    let files = |bytes: &[u8]| files_in(disk.as_ref(), Path::new("/r/segments"), bytes).len();
    for page in &pages {
        assert_eq!(files(page), 1);
    }
    assert_eq!(device_files(&engine), 2);
}

/// A flipped bit in a page is found by a check and by a reader of its rows, not by one of others; a repair loses the rows of the page.
#[test]
fn a_damaged_page_costs_its_rows_and_no_others() {
    let disk = MemoryDisk::new();
    let (engine, model, pages) = stored(&disk);
    engine.close().unwrap();
    drop(engine);
    let dir = Path::new("/d/segments");
    let [name] = &files_in(&disk, dir, &pages[1])[..] else {
        panic!("one file has the page");
    };
    let file = disk.open(&dir.join(name)).unwrap();
    let all = bytes_of(&disk, &dir.join(name));
    let start = all.windows(pages[1].len()).position(|it| it == pages[1]);
    // A byte of its head that no reader of rows needs: its sequence.
    let at = start.unwrap() + 17;
    file.write_at(&[all[at] ^ 4], at as u64).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let verified = Engine::verify(&shared, Path::new("/d")).unwrap();
    assert!(!verified.damage.is_empty());
    let engine = memory(&disk);
    let error = everything(&engine).unwrap_err().to_string();
    assert!(error.contains(name), "{error}");
    drop(engine);
    let clock = Arc::new(SystemClock);
    let repaired = Engine::repair(&shared, clock, Path::new("/d"), Options::default()).unwrap();
    assert_eq!(repaired.left, []);
    let lost = model.iter().filter(|((sensor, time), _)| {
        let step = if sensor == "a" { 9_000 } else { 4_000 };
        (50..100).contains(&(time / step))
    });
    let lost: Vec<_> = lost.map(|(key, _)| key.clone()).collect();
    assert_eq!(lost.len(), 100);
    let mut left = model.clone();
    left.retain(|key, _| !lost.contains(key));
    let engine = memory(&disk);
    assert_eq!(rows(&engine), left);
    engine.settle().unwrap();
    assert_eq!(rows(&engine), left);
}

#[test]
fn pages_of_a_dropped_table_or_a_transaction_that_ended_leave_no_file() {
    let disk = MemoryDisk::new();
    let (engine, model, pages) = stored(&disk);
    let own = engine.begin().unwrap();
    let mut flash = FlashPages::default();
    flash.push(&pages[0], 0, 2);
    let mut within = Session::new(Arc::clone(&engine), "d").unwrap().within(&own);
    within.keep_pages(flash).unwrap();
    own.rollback();
    drop((own, within));
    assert_eq!(rows(&engine), model);
    engine.drop_table("d", "public", "climate").unwrap();
    engine.flush().unwrap();
    engine.settle().unwrap();
    for page in &pages {
        assert_eq!(files_with(&disk, page), 0);
    }
    drop(engine);
    assert_eq!(memory(&disk).snapshot().segments().len(), 0);
}

/// The second page is of earlier times than the first, and stands behind it in the file: reading a series in the order of time
/// subtracted a later place from an earlier one.
#[test]
fn pages_that_come_in_another_order_than_their_times_are_read() {
    let disk = MemoryDisk::new();
    let engine = memory(&disk);
    engine.create_database("d").unwrap();
    let mut model = Model::new();
    for (sequence, start) in [(1, 5_000_000), (2, 0), (3, 9_000_000), (4, 2_000_000)] {
        let times = (0..80).map(|row| start + row * 1_000);
        let blocks = vec![block("a", times.clone(), 3), block("b", times, 5)];
        push(&engine, &[page(sequence, blocks.clone())]).unwrap();
        note(&mut model, &blocks);
    }
    engine.flush().unwrap();
    assert_eq!(device_files(&engine), 1);
    assert_eq!(rows(&engine), model);
    check_sums(&engine, &model, "in another order");
}
