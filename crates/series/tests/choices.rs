//! Promise: what is chosen of many rows takes the memory of what is chosen; sets of values end where memory does; groups that a
//! limit leaves out are not read; what contradicts itself is refused.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, Scan, Snapshot, SystemClock};
use nilometer_lineproto::Precision;
use nilometer_series::{
    Aggregate, Bucket, Choice, Column, Context, Error, Expr, Fill, Limit, Limits, Literal,
    MemoryAccount, MemoryFull, Order, OrderBy, Rules, SeriesQuery, Shape, Source, TableName, Top,
    Watch,
};

/// A table `m` with the tag `host` and the field `load`: of so many hosts one row a second each, every value another one.
fn store(hosts: usize, rows_each: usize) -> Snapshot {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default());
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    let mut lines = String::new();
    for host in 0..hosts {
        for row in 0..rows_each {
            // Rising, so that each row is at the top for a while.
            let load = row * hosts + host;
            writeln!(lines, "m,host=h{host:03} load={load} {row}").unwrap();
        }
    }
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    session
        .write_lines(lines.as_bytes(), Precision::Second)
        .unwrap();
    engine.flush().unwrap();
    engine.settle().unwrap();
    engine.snapshot()
}

fn shape() -> Shape {
    let table = TableName {
        database: "d".to_owned(),
        schema: None,
        table: "m".to_owned(),
    };
    let mut shape = Shape::of(Rules::Influx, Source::Tables(vec![table]));
    shape.columns.push(Column {
        name: "load".to_owned(),
        expr: Expr::field("load"),
    });
    shape.order = Order {
        by: OrderBy::Group,
        descending: false,
    };
    shape
}

fn top(rows: i64, each: Vec<Expr>) -> Choice {
    Choice::Top(Top {
        by: Expr::field("load"),
        rows: Literal::from(rows),
        smallest: false,
        each,
    })
}

/// An account that ends somewhere, and knows how much was taken at most.
#[derive(Debug)]
struct Small {
    bytes_max: usize,
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl MemoryAccount for Small {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > self.bytes_max {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
            return Err(MemoryFull {
                problem: "raise query_bytes_max".to_owned(),
            });
        }
        self.most.fetch_max(taken, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Rows of the answer, and the most memory that it took.
fn ask(shape: Shape, snapshot: &Snapshot, bytes_max: usize) -> Result<(usize, usize), Error> {
    let memory = Arc::new(Small {
        bytes_max,
        taken: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let context = Context {
        memory: Arc::<Small>::clone(&memory),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape, Limits::default())?;
    let answer = query.run(snapshot, &context);
    let rows = answer.and_then(|batches| {
        let rows = batches.map(|batch| Ok(batch?.num_rows()));
        rows.sum::<Result<usize, Error>>()
    });
    assert_eq!(
        memory.taken.load(Ordering::Relaxed),
        0,
        "memory is given back"
    );
    Ok((rows?, memory.most.load(Ordering::Relaxed)))
}

#[test]
fn the_top_of_many_rows_takes_the_memory_of_few() {
    let snapshot = store(4, 20_000);
    let mut shape = shape();
    shape.choice = Some(top(5, Vec::new()));
    let (rows, five) = ask(shape.clone(), &snapshot, usize::MAX).unwrap();
    assert_eq!(rows, 5);
    // A row has its rank, time and value: 80,000 of them would be megabytes.
    assert!(five < 1 << 20, "{five}");
    shape.choice = Some(top(5, vec![Expr::tag("host")]));
    let (rows, each) = ask(shape.clone(), &snapshot, usize::MAX).unwrap();
    assert_eq!(rows, 4);
    assert!(each < 1 << 20, "{each}");
    // More than there are.
    shape.choice = Some(top(i64::MAX, Vec::new()));
    let (rows, all) = ask(shape.clone(), &snapshot, usize::MAX).unwrap();
    assert_eq!(rows, 80_000);
    assert!(all > 5 << 20, "{all}");
    let refused = ask(shape, &snapshot, 4 << 20);
    assert!(matches!(refused, Err(Error::Memory(_))), "{refused:?}");
}

#[test]
fn a_set_of_values_ends_where_memory_does() {
    let snapshot = store(4, 20_000);
    let mut shape = shape();
    shape.choice = Some(Choice::Distinct(Expr::field("load")));
    assert_eq!(ask(shape.clone(), &snapshot, usize::MAX).unwrap().0, 80_000);
    let refused = ask(shape, &snapshot, 2 << 20);
    assert!(matches!(refused, Err(Error::Memory(_))), "{refused:?}");
}

/// Who has seen the scans.
#[derive(Debug, Default)]
struct Planned(Mutex<Vec<Scan>>);

impl Watch for Planned {
    fn has_planned(&self, scan: &Scan) {
        self.0.lock().unwrap().push(scan.clone());
    }
}

#[test]
fn groups_that_a_limit_leaves_out_are_not_read() {
    let snapshot = store(100, 50);
    let mut shape = shape();
    shape.group = vec!["host".to_owned()];
    shape.limit_groups = Some(Limit {
        rows: Literal::from(3),
        skip: Literal::from(10),
    });
    let planned = Arc::new(Planned::default());
    let context = Context {
        watch: Arc::<Planned>::clone(&planned),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape, Limits::default()).unwrap();
    let batches = query.run(&snapshot, &context).unwrap();
    let rows = batches.map(|batch| batch.unwrap().num_rows());
    assert_eq!(rows.sum::<usize>(), 3 * 50);
    let scans = planned.0.lock().unwrap();
    let series: usize = scans.iter().map(Scan::series).sum();
    assert_eq!(series, 3);
}

#[test]
fn contradictions_of_choices_groups_and_fills_are_refused() {
    let refused = |change: &dyn Fn(&mut Shape), wanted: &str| {
        let mut shape = shape();
        change(&mut shape);
        let error = SeriesQuery::new(shape, Limits::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(wanted), "{text:?} has no {wanted:?}");
    };
    let sum = || Expr::aggregate(Aggregate::Sum(Expr::field("load")));
    refused(
        &|shape| {
            shape.choice = Some(top(1, Vec::new()));
            shape.columns[0].expr = sum();
        },
        "has an aggregate",
    );
    refused(
        &|shape| shape.choice = Some(top(-1, Vec::new())),
        "-1 is no number of rows",
    );
    refused(
        &|shape| {
            shape.choice = Some(top(1, Vec::new()));
            (shape.bucket, shape.fill) = (Some(Bucket::fixed(1)), Fill::Null);
        },
        "no buckets to fill",
    );
    refused(
        &|shape| shape.choice = Some(Choice::Distinct(Expr::field("other"))),
        "not the same for all rows with one value of other",
    );
    refused(
        &|shape| {
            shape.choice = Some(Choice::Distinct(Expr::field("load")));
            shape.order.by = OrderBy::Time;
        },
        "no time to be ordered by",
    );
    let filled = |shape: &mut Shape, fills: &[(&str, Fill)]| {
        shape.columns[0].expr = sum();
        (shape.bucket, shape.fill) = (Some(Bucket::fixed(1)), Fill::Previous);
        let fills = fills.iter();
        shape.fills = fills
            .map(|(name, fill)| ((*name).to_owned(), fill.clone()))
            .collect();
    };
    refused(
        &|shape| filled(shape, &[("cpu", Fill::Null)]),
        "has none of this name",
    );
    refused(
        &|shape| filled(shape, &[("load", Fill::Null), ("load", Fill::Linear)]),
        "in two ways",
    );
    refused(
        &|shape| filled(shape, &[("load", Fill::Absent)]),
        "fill all of them",
    );
}

#[test]
fn the_top_of_texts_is_refused_when_the_column_is_known() {
    let snapshot = store(1, 1);
    let mut shape = shape();
    shape.choice = Some(Choice::Top(Top {
        by: Expr::tag("host"),
        rows: Literal::from(1),
        smallest: true,
        each: Vec::new(),
    }));
    let error = ask(shape, &snapshot, usize::MAX).unwrap_err();
    assert_eq!(error.to_string(), "bottom 1 of host takes no text");
}
