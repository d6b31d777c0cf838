//! Promise: where the extremes that are known already are beyond those of a block, its rows are not read; and the answer is that
//! of reading them, whatever late rows and deletes say.
//!
//! Story: `max` of five minutes over a thousand hosts decoded a page of each host, most of which could not hold a maximum.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap is the report, and the numbers are small"
)]

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateSources, DeleteRequest, Engine, Options, SystemClock, TagPredicate,
};
use nilometer_lineproto::Precision;
use nilometer_series::{
    Aggregate, Bucket, Column, Context, Expr, Limits, Order, OrderBy, Rules, SeriesQuery, Shape,
    Source, TableName, Watch,
};

const SECOND: i64 = 1_000_000_000;
const HOSTS: i64 = 200;
/// One row a second: a block of a host is full, and another has begun.
const ROWS: i64 = 1500;
/// What is asked: ten minutes that begin and end within a minute and within a block.
const FROM: i64 = 310;
const TO: i64 = 910;

#[derive(Debug, Default)]
struct Used(Mutex<AggregateSources>);

impl Watch for Used {
    fn has_aggregated(&self, used: &AggregateSources) {
        self.0.lock().unwrap().add(used);
    }
}

fn value(host: i64, row: i64) -> i64 {
    // The second host is above all others, and below them where it is negative.
    match host {
        1 => 1000 + row % 7,
        2 => -1000 - row % 5,
        _ => (host * 37 + row * 11) % 101,
    }
}

fn store() -> Arc<Engine> {
    let disk = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default());
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    let mut lines = String::new();
    for host in 0..HOSTS {
        for row in 0..ROWS {
            writeln!(
                lines,
                "m,host=h{host:03} v={}i {}",
                value(host, row),
                row * SECOND
            )
            .unwrap();
        }
    }
    write(&engine, &lines);
    engine.flush().unwrap();
    engine.settle().unwrap();
    engine
}

fn write(engine: &Arc<Engine>, lines: &str) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_lines(lines.as_bytes(), Precision::Nanosecond)
        .unwrap();
}

/// The extremes of each minute, and how many rows were looked at.
fn ask(engine: &Arc<Engine>, of: fn(Expr) -> Aggregate) -> (Vec<i64>, u64) {
    let table = TableName {
        database: "d".to_owned(),
        schema: None,
        table: "m".to_owned(),
    };
    let mut shape = Shape::of(Rules::Postgres, Source::Tables(vec![table]));
    shape.time.from = Some((FROM * SECOND).into());
    shape.time.to = Some((TO * SECOND).into());
    shape.bucket = Some(Bucket::fixed(60 * SECOND));
    shape.columns.push(Column {
        name: "extreme".to_owned(),
        expr: Expr::aggregate(of(Expr::field("v"))),
    });
    shape.order = Order {
        by: OrderBy::Time,
        descending: false,
    };
    let used = Arc::new(Used::default());
    let context = Context {
        watch: Arc::<Used>::clone(&used),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape, Limits::default()).unwrap();
    let batches = query.run(&engine.snapshot(), &context).unwrap();
    let values = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        batch
            .column(1)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    });
    let values = values.collect();
    let rows = used.0.lock().unwrap().rows;
    (values, rows)
}

/// What going over all rows says.
fn expected(of: fn(i64, i64) -> i64, value: impl Fn(i64, i64) -> Option<i64>) -> Vec<i64> {
    let minutes = FROM / 60..=(TO - 1) / 60;
    let best = minutes.map(|minute| {
        let rows = (minute * 60).max(FROM)..(minute * 60 + 60).min(TO);
        let all = rows.flat_map(|row| (0..HOSTS).map(move |host| (host, row)));
        all.filter_map(|(host, row)| value(host, row))
            .reduce(of)
            .unwrap()
    });
    best.collect()
}

#[test]
fn blocks_that_hold_no_extreme_are_not_read() {
    let engine = store();
    let plain = |host, row| Some(value(host, row));
    for (of, best) in [
        (
            Aggregate::Max as fn(Expr) -> Aggregate,
            i64::max as fn(i64, i64) -> i64,
        ),
        (Aggregate::Min, i64::min),
    ] {
        let (found, rows) = ask(&engine, of);
        assert_eq!(found, expected(best, plain));
        let all = u64::try_from(HOSTS * (TO - FROM)).unwrap();
        assert!(rows < all / 4, "{rows} of {all} rows were read");
    }
}

#[test]
fn late_rows_and_deletes_count() {
    let engine = store();
    // Of a host that would not be looked at, above all others; and of one that is, below what it was.
    write(
        &engine,
        "m,host=h150 v=5000i 400000000000\nm,host=h001 v=3i 500000000000",
    );
    let changed = |host, row| match (host, row) {
        (150, 400) => Some(5000),
        (1, 500) => Some(3),
        _ => Some(value(host, row)),
    };
    assert_eq!(ask(&engine, Aggregate::Max).0, expected(i64::max, changed));
    // Without the host that all maxima were of.
    engine
        .delete(&DeleteRequest {
            table: engine.snapshot().table("d", "public", "m").unwrap(),
            time: 600 * SECOND..=i64::MAX,
            tags: vec![TagPredicate::one_of(1, vec![Some("h001".to_owned())])],
        })
        .unwrap();
    let fewer = |host, row| changed(host, row).filter(|_| host != 1 || row < 600);
    assert_eq!(ask(&engine, Aggregate::Max).0, expected(i64::max, fewer));
}
