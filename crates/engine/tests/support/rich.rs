//! A store with a file of every kind, and what is in it, from arithmetic.
//!
//! Does: write rows that nothing overwrites (`cpu`, `small`), rows that later ones overwrite and deletes hide (`again`), a
//! relation, keys, a partition with rollups, a delete that rows in files still wait for, and rows that only the log has.
//! Does not: read anything back.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a failed unwrap is the report, and numbers are small"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::Disk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Clock, CompactionOptions, DeleteRequest, Engine, NewRelation, Options, RelationChange,
    RelationColumn, SystemClock, TagMatch, TagPredicate,
};
use nilometer_lineproto::Precision;

use crate::support::Answer;

/// 2026-01-01, midnight.
const START_NS: i64 = 1_767_225_600_000_000_000;
const STEP_NS: i64 = 10_000_000_000;
/// Rows of each host in one round.
const ROUND: i64 = 400;
/// Rows of each host that only the log has.
const LAST: i64 = 50;
const HOSTS: [&str; 3] = ["a", "b", "c"];

type Row = BTreeMap<String, String>;

/// What a store must answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// Every row that is there.
    pub(crate) now: Answer,
    /// Every row that was ever written, by table.
    pub(crate) ever: BTreeMap<String, BTreeSet<Row>>,
    /// Rows that were deleted, by table.
    pub(crate) deleted: BTreeMap<String, BTreeSet<Row>>,
}

pub(crate) fn options() -> Options {
    Options {
        flush_idle_ms: 0,
        memory_bytes_max: 64 << 20,
        compaction: CompactionOptions {
            partition_rows_min: 1000,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path, options: Options) -> Arc<Engine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Arc::new(Engine::open(Arc::clone(disk), clock, dir, options).unwrap())
}

impl Contents {
    fn add(&mut self, table: &str, row: Row) {
        let ever = self.ever.entry(table.to_owned()).or_default();
        ever.insert(row.clone());
        self.now.entry(table.to_owned()).or_default().push(row);
    }

    /// Takes back rows that a delete hides.
    fn delete(&mut self, table: &str, hides: impl Fn(&Row) -> bool) {
        let rows = self.now.entry(table.to_owned()).or_default();
        let deleted = self.deleted.entry(table.to_owned()).or_default();
        deleted.extend(rows.iter().filter(|row| hides(row)).cloned());
        rows.retain(|row| !hides(row));
    }

    /// As a scan returns it: by series in the order in which they came, and by time.
    fn sort(&mut self) {
        let key = |row: &Row| -> (String, i64) {
            let series = row.get("host").cloned().unwrap_or_default();
            let time = row.get("time").map_or(0, |time| time.parse().unwrap());
            (series, time)
        };
        for (table, rows) in &mut self.now {
            if table.ends_with(".places") {
                rows.sort();
            } else {
                rows.sort_by_key(key);
            }
        }
    }
}

fn row(cells: &[(&str, String)]) -> Row {
    let cells = cells.iter();
    cells
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

/// Lines of one round of `cpu`: floats that are decimals and some that are not, integers, text that is absent at times.
fn cpu(from: i64, rows: i64, contents: &mut Contents) -> String {
    let mut lines = String::new();
    for (at, host) in (0..).zip(HOSTS) {
        for n in from..from + rows {
            let time = START_NS + n * STEP_NS;
            let usage = if n % 97 == 0 {
                f64::from_bits(0x3ff0_0000_0000_0000 + n.cast_unsigned())
            } else {
                (n % 1000) as f64 / 8.0 + f64::from(at)
            };
            let count = n * 3 - i64::from(at);
            write!(lines, "cpu,host={host} usage={usage:?},count={count}i").unwrap();
            let mut cells = vec![
                ("time", time.to_string()),
                ("host", host.to_owned()),
                ("usage", format!("{usage:?}")),
                ("count", count.to_string()),
            ];
            if n % 5 == 0 {
                let note = format!("note {} of {host}", n % 40);
                write!(lines, ",note=\"{note}\"").unwrap();
                cells.push(("note", note));
            }
            writeln!(lines, " {time}").unwrap();
            contents.add("d.public.cpu", row(&cells));
        }
    }
    lines
}

/// Lines of a few rows of each of many series, which share blocks.
fn small(round: i64, contents: &mut Contents) -> String {
    let mut lines = String::new();
    for series in 0..40 {
        let host = format!("s{series:02}");
        let time = START_NS + round;
        let value = series * 100 + round;
        writeln!(lines, "small,host={host} v={value}i {time}").unwrap();
        let cells = [
            ("time", time.to_string()),
            ("host", host),
            ("v", value.to_string()),
        ];
        contents.add("d.public.small", row(&cells));
    }
    lines
}

/// The same ten keys in every round, with other values.
fn again(round: i64, contents: &mut Contents) -> String {
    contents.now.remove("d.public.again");
    let mut lines = String::new();
    for n in 0..10 {
        let (time, value) = (START_NS + n, round * 10 + n);
        writeln!(lines, "again,host=x v={value}i {time}").unwrap();
        let cells = [
            ("time", time.to_string()),
            ("host", "x".to_owned()),
            ("v", value.to_string()),
        ];
        contents.add("d.public.again", row(&cells));
    }
    lines
}

fn relation(engine: &Engine) {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let definition = NewRelation {
        columns: vec![
            column("id", PhysicalType::I64),
            column("place", PhysicalType::Text),
        ],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    let made = engine.create_relation("d", "public", "places", &definition);
    assert!(made.unwrap());
}

fn places(engine: &Arc<Engine>, from: i64, contents: &mut Contents) {
    let reader = engine.snapshot().relation("d", "public", "places").unwrap();
    let values = (from..from + 60).map(|id| vec![id.into(), format!("place {id}").as_str().into()]);
    let change = RelationChange::Insert(Arc::clone(reader.schema()), values.collect());
    engine.write_relations(&[change]).unwrap();
    for id in from..from + 60 {
        let cells = [("id", id.to_string()), ("place", format!("place {id}"))];
        contents.add("d.public.places", row(&cells));
    }
}

fn delete(engine: &Arc<Engine>, host: &str, from: i64, to: i64, contents: &mut Contents) {
    let table = engine.snapshot().table("d", "public", "cpu").unwrap();
    let tag = TagPredicate {
        column: 1,
        matches: TagMatch::OneOf(vec![Some(host.to_owned())]),
        negated: false,
    };
    let (from, to) = (START_NS + from * STEP_NS, START_NS + to * STEP_NS);
    let request = DeleteRequest {
        table,
        time: from..=to,
        tags: vec![tag],
    };
    engine.delete(&request).unwrap();
    contents.delete("d.public.cpu", |row| {
        let time: i64 = row["time"].parse().unwrap();
        row["host"] == host && (from..=to).contains(&time)
    });
}

/// Compares answers, and tells the first difference instead of everything.
pub(crate) fn assert_same(found: &Answer, expected: &Answer, when: &str) {
    assert!(
        found.keys().eq(expected.keys()),
        "{when}: {:?}",
        found.keys()
    );
    for ((table, found), expected) in found.iter().zip(expected.values()) {
        assert_eq!(found.len(), expected.len(), "{when}: rows of {table}");
        let mut pairs = found.iter().zip(expected);
        if let Some((found, expected)) = pairs.find(|(found, expected)| found != expected) {
            panic!("{when}: {table} has {found:?}, expected {expected:?}");
        }
    }
}

/// Makes the store; it is left as a kill would leave it.
pub(crate) fn make(disk: &Arc<dyn Disk>, dir: &Path, options: Options) -> Contents {
    let engine = open(disk, dir, options);
    engine.create_database("d").unwrap();
    let mut contents = Contents::default();
    relation(&engine);
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let mut key = 0;
    let mut send = |lines: String| {
        key += 1;
        let report = session.write_lines_once([key; 16], lines.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rejected, []);
    };
    for round in 0..2 {
        send(cpu(round * ROUND, ROUND, &mut contents));
        send(small(round, &mut contents));
        send(again(round, &mut contents));
        places(&engine, round * 100, &mut contents);
        engine.flush().unwrap();
    }
    // One partition of its own, with sums of hours, and a mixed rest.
    engine.settle().unwrap();
    delete(&engine, "a", 100, 199, &mut contents);
    send(cpu(2 * ROUND, ROUND, &mut contents));
    send(small(2, &mut contents));
    send(again(2, &mut contents));
    engine.flush().unwrap();
    // What follows is in the log only.
    delete(&engine, "b", 300, 349, &mut contents);
    send(cpu(3 * ROUND, LAST, &mut contents));
    send(small(3, &mut contents));
    places(&engine, 200, &mut contents);
    contents.sort();
    contents
}
