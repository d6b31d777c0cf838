//! Promise: of two values for one key the newer one stays, whatever maintenance makes of the files, at sizes at which many
//! files have rows of one flush. A plain model of the rows is compared after every step.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use crate::support;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    CompactionOptions, DeleteRequest, Duplicates, Engine, Maintained, Options, SystemClock,
    TableSettings, TagMatch, TagPredicate,
};
use nilometer_lineproto::Precision;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

const TABLES: [(&str, Duplicates); 3] = [
    ("last", Duplicates::Last),
    ("kept", Duplicates::Keep),
    ("sole", Duplicates::Unique),
];

/// Numbers that only look random; the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn signed(&mut self, limit: usize) -> i64 {
        i64::try_from(self.below(limit)).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// By table, then by host and time: rows of two fields, of which either may be missing.
type Fields = (Option<i64>, Option<i64>);
type Model = BTreeMap<&'static str, BTreeMap<(String, i64), Vec<Fields>>>;

fn open(disk: &MemoryDisk, fan_in: usize, widen_rows_max: u64) -> Arc<Engine> {
    let options = Options {
        flush_rows: 200,
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in,
            partition_rows_min: 4,
            widen_rows_max,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

fn begin(engine: &Arc<Engine>, interval: i64) {
    engine.create_database("d").unwrap();
    for (table, _) in TABLES {
        engine
            .create_table("d", "public", table, &[], TableSettings::default())
            .unwrap();
        set_interval(engine, table, interval);
    }
}

fn set_interval(engine: &Arc<Engine>, table: &str, interval: i64) {
    let (_, duplicates) = TABLES.into_iter().find(|(name, _)| *name == table).unwrap();
    let settings = TableSettings {
        duplicates,
        partition_interval_ns: interval,
        ..TableSettings::default()
    };
    engine.set_table("d", "public", table, settings).unwrap();
}

fn write(engine: &Arc<Engine>, rows: &[(&'static str, String, i64, Fields)], model: &mut Model) {
    let mut body = String::new();
    for (table, host, time, (i, j)) in rows {
        let fields = [("i", i), ("j", j)];
        let fields = fields.iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(format!("{name}={value}i"))
        });
        let fields: Vec<String> = fields.collect();
        writeln!(body, "{table},h={host} {} {time}", fields.join(",")).unwrap();
        let key = (host.clone(), *time);
        let own = model.entry(table).or_default().entry(key).or_default();
        match (*table, own.last_mut()) {
            ("last", Some(row)) => *row = (i.or(row.0), j.or(row.1)),
            ("sole", Some(row)) => *row = (*i, *j),
            _ => own.push((*i, *j)),
        }
    }
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    assert_eq!(report.rejected, []);
}

fn delete(
    engine: &Arc<Engine>,
    table: &str,
    host: &str,
    (from, to): (i64, i64),
    model: &mut Model,
) {
    let schema = engine.snapshot().table("d", "public", table).unwrap();
    let Ok(column) = schema.arrow_schema().index_of("h") else {
        return;
    };
    let tags = TagPredicate {
        column,
        matches: TagMatch::OneOf(vec![Some(host.to_owned())]),
        negated: false,
    };
    engine
        .delete(&DeleteRequest {
            table: schema,
            time: from..=to,
            tags: vec![tags],
        })
        .unwrap();
    if let Some(rows) = model.get_mut(table) {
        rows.retain(|(other, time), _| other != host || !(from..=to).contains(time));
    }
}

fn same(engine: &Arc<Engine>, model: &Model, when: &str) {
    let mut found = support::everything(engine).unwrap();
    for (table, _) in TABLES {
        let mut found = found
            .remove(&format!("d.public.{table}"))
            .unwrap_or_default();
        found.sort();
        let mut expected = Vec::new();
        for ((host, time), rows) in model.get(table).into_iter().flatten() {
            for (i, j) in rows {
                let mut row = BTreeMap::from([
                    ("h".to_owned(), host.clone()),
                    ("time".to_owned(), time.to_string()),
                ]);
                row.extend(i.map(|i| ("i".to_owned(), i.to_string())));
                row.extend(j.map(|j| ("j".to_owned(), j.to_string())));
                expected.push(row);
            }
        }
        expected.sort();
        let numbers = (found.len(), expected.len());
        let wrong = expected.iter().zip(&found).find(|(a, b)| a != b);
        assert_eq!(wrong, None, "{when}: {table}: {numbers:?} rows");
        assert_eq!(found.len(), expected.len(), "{when}: {table}");
    }
}

/// Overwritten values came back: seven hours were files of their own, two generations of values over all of them became
/// seven files each of one last LSN, and when the hours became one partition, a compaction took sixteen files of the
/// twenty-one. What it wrote counted as newer than the files of the last generation that it had left out.
#[test]
fn a_value_that_was_overwritten_does_not_come_back_when_partitions_become_one() {
    for fan_in in [2, 3, 8] {
        let disk = MemoryDisk::new();
        let engine = open(&disk, fan_in, 1000);
        begin(&engine, HOUR);
        let mut model = Model::new();
        let rows = |generation: i64, hour: i64| {
            let of_hour = (0..40).map(move |at| {
                let value = (Some(generation), None);
                (
                    "last",
                    "a".to_owned(),
                    hour * HOUR + at * 60 * SECOND,
                    value,
                )
            });
            of_hour.collect::<Vec<_>>()
        };
        for hour in 0..7 {
            write(&engine, &rows(1, hour), &mut model);
            engine.settle().unwrap();
            same(&engine, &model, &format!("fan in {fan_in}, hour {hour}"));
        }
        for generation in 2..6 {
            let all: Vec<_> = (0..7).flat_map(|hour| rows(generation, hour)).collect();
            write(&engine, &all, &mut model);
            engine.flush().unwrap();
            let when = format!("fan in {fan_in}, generation {generation}");
            same(&engine, &model, &format!("{when}, flushed"));
            while engine.maintain().unwrap() != Maintained::Idle {
                same(&engine, &model, &format!("{when}, maintained"));
            }
            if generation % 2 == 1 {
                engine.settle().unwrap();
                same(&engine, &model, &format!("{when}, settled"));
            }
        }
    }
}

#[test]
fn answers_stay_the_same_at_sizes_at_which_files_tie() {
    for seed in 1..=40_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let fan_in = numbers.pick(&[2, 2, 3]);
        let widen_rows_max = numbers.pick(&[50, 400, 2000]);
        let disk = MemoryDisk::new();
        let mut engine = open(&disk, fan_in, widen_rows_max);
        begin(&engine, numbers.pick(&[HOUR, DAY]));
        let mut model = Model::new();
        let mut value = 0;
        for step in 0..70 {
            let when = format!("seed {seed}, step {step}");
            let (table, _) = numbers.pick(&TABLES);
            let first = numbers.signed(8);
            let days = if numbers.below(3) == 0 {
                first..first + 1
            } else {
                numbers.signed(3)..8 - numbers.signed(3)
            };
            let what = match numbers.below(20) {
                0..=9 => {
                    let others = numbers.below(3);
                    let every = 1 + numbers.below(3);
                    let mut rows = Vec::new();
                    for day in days {
                        for at in (0..10).step_by(every) {
                            value += 1;
                            let fields = match numbers.below(4) {
                                0 => (None, Some(value)),
                                1 => (Some(value), Some(value)),
                                _ => (Some(value), None),
                            };
                            let host = format!("h{}", numbers.below(3));
                            let time = day * DAY + at * 1000 * SECOND;
                            rows.push((table, host.clone(), time, fields));
                            if others == 0 {
                                let all = TABLES.iter().filter(|(other, _)| *other != table);
                                rows.extend(
                                    all.map(|(other, _)| (*other, host.clone(), time, fields)),
                                );
                            }
                        }
                    }
                    write(&engine, &rows, &mut model);
                    "write"
                }
                10 | 11 => {
                    engine.flush().unwrap();
                    "flush"
                }
                12..=14 => {
                    while engine.maintain().unwrap() != Maintained::Idle {
                        same(&engine, &model, &when);
                    }
                    "maintain"
                }
                15 => {
                    engine.settle().unwrap();
                    "settle"
                }
                16 => {
                    let host = format!("h{}", numbers.below(3));
                    let from = numbers.signed(8) * DAY + numbers.signed(10) * 1000 * SECOND;
                    let to = from + numbers.pick(&[0, HOUR, DAY, 3 * DAY]);
                    delete(&engine, table, &host, (from, to), &mut model);
                    "delete"
                }
                17 | 18 => {
                    let intervals = [1, SECOND, 60 * SECOND, HOUR, DAY, DAY, 60 * DAY];
                    set_interval(&engine, table, numbers.pick(&intervals));
                    "interval"
                }
                _ => {
                    engine.close().unwrap();
                    drop(engine);
                    engine = open(&disk, fan_in, widen_rows_max);
                    "stop"
                }
            };
            same(&engine, &model, &format!("{when}, {what}"));
        }
        engine.settle().unwrap();
        same(&engine, &model, &format!("seed {seed}, settled"));
        drop(engine);
        let engine = open(&disk, fan_in, widen_rows_max);
        same(&engine, &model, &format!("seed {seed}, reopened"));
        assert_eq!(engine.metrics().refused_edits, 0, "seed {seed}");
    }
}
