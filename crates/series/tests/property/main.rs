//! Promise: a series query is answered as going over all rows by hand would answer it, whatever state the rows are in.
//!
//! Exact but for sums of floats, which may be off by 1e-12 of the sum of magnitudes. `PROPTEST_CASES` asks for more cases.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is the report, and the numbers are small"
)]

mod data;
mod dice;
mod model;
mod questions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use nilometer_engine::{AggregateSources, Snapshot};
use nilometer_series::{
    Context, Error, Limits, MemoryAccount, MemoryFull, Operator, OrderBy, SeriesQuery, Shape,
    Threads, Unlimited, Watch,
};
use proptest::prelude::*;

use data::{State, World};
use dice::Dice;
use model::{Answer, Cell, Refused, Val};

/// Questions that are asked of one store.
const QUESTIONS: usize = 12;

/// Two threads, whatever there is to do.
#[derive(Debug)]
struct Two;

impl Threads for Two {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for task in 0..tasks {
                scope.spawn(move || work(task));
            }
        });
    }
}

/// An account that is never full, for answers in slices of few rows.
#[derive(Debug, Default)]
struct InSlices {
    all: Unlimited,
    rows: u64,
}

impl MemoryAccount for InSlices {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.all.charge(bytes)
    }

    fn release(&self, bytes: usize) {
        self.all.release(bytes);
    }

    fn slice_rows(&self) -> u64 {
        self.rows
    }
}

/// What of several series was read together, of whoever looks on.
#[derive(Debug, Default)]
struct Shared {
    blocks: AtomicU64,
    /// Of rows that were looked at.
    read: AtomicU64,
}

impl Watch for Shared {
    fn has_aggregated(&self, used: &AggregateSources) {
        self.blocks.fetch_add(used.shared, Ordering::Relaxed);
        if used.shared > 0 {
            self.read.fetch_add(used.rows, Ordering::Relaxed);
        }
    }
}

fn cell(column: &ArrayRef, row: usize) -> Val {
    if column.is_null(row) {
        return Val::Null;
    }
    match column.data_type() {
        DataType::Boolean => Val::Bool(column.as_boolean().value(row)),
        DataType::Int64 => Val::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Val::Uint(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Val::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Val::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Timestamp(..) => {
            Val::Time(column.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Dictionary(..) => {
            let tags = column.as_dictionary::<Int32Type>();
            let key = usize::try_from(tags.keys().value(row)).unwrap();
            Val::Text(tags.values().as_string::<i32>().value(key).to_owned())
        }
        DataType::List(_) => {
            let counts = column.as_list::<i32>().value(row);
            Val::Counts(counts.as_primitive::<Int64Type>().values().to_vec())
        }
        other => panic!("{other}"),
    }
}

fn rows_of(batches: &[RecordBatch]) -> Vec<Vec<Val>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|it| cell(it, row)).collect());
        }
    }
    rows
}

fn is_same(found: &Val, expected: &Cell) -> bool {
    match (found, &expected.value) {
        (Val::Float(one), Val::Float(other)) => {
            one.to_bits() == other.to_bits()
                || (one.is_nan() && other.is_nan())
                || (expected.off > 0.0 && (one - other).abs() <= expected.off)
        }
        (one, other) => one == other,
    }
}

fn run(shape: &Shape, snapshot: &Snapshot, slice_rows: u64) -> Result<Vec<Vec<Val>>, Error> {
    let memory = Arc::new(InSlices {
        rows: slice_rows,
        ..InSlices::default()
    });
    let context = Context {
        threads: Arc::new(Two),
        memory: Arc::<InSlices>::clone(&memory),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape.clone(), Limits::default())?;
    let batches = query.run(snapshot, &context)?;
    let schema = batches.schema();
    // Rows in no order may be read by several.
    let parts = batches.parts(if slice_rows < 400 { 3 } else { 1 });
    let batches = parts.into_iter().flatten();
    let batches = batches.collect::<Result<Vec<_>, Error>>()?;
    for batch in &batches {
        assert_eq!(batch.schema(), schema);
        assert!(batch.num_rows() > 0, "an empty batch");
    }
    assert_eq!(memory.all.taken(), 0, "memory is given back");
    Ok(rows_of(&batches))
}

fn is_limited(shape: &Shape) -> bool {
    shape.limit.is_some() || shape.limit_per_group.is_some()
}

fn check(seed: u64, shape: &Shape, snapshot: &Snapshot, expected: Result<Answer, Refused>) {
    let what = format!("seed {seed}\n{shape}\n{shape:?}");
    let slice_rows = [8, 50, 400, 1 << 20];
    let found = run(shape, snapshot, slice_rows[(seed % 4) as usize]);
    let (mut found, mut expected) = match (found, expected) {
        (Ok(found), Ok(expected)) => (found, expected.rows),
        (Err(Error::DivisionByZero | Error::OutOfRange { .. }), Err(_)) => return,
        // Whether a row that a limit leaves out is calculated before is nobody's business.
        (Err(Error::DivisionByZero | Error::OutOfRange { .. }), Ok(_)) | (Ok(_), Err(_))
            if is_limited(shape) =>
        {
            return;
        }
        (found, expected) => panic!("{what}\n{found:?}\n{expected:?}"),
    };
    assert_eq!(
        found.len(),
        expected.len(),
        "{what}\n{found:?}\n{expected:?}"
    );
    if shape.order.by == OrderBy::Nothing && !shape.is_aggregate() {
        found.sort_by_key(|row| format!("{row:?}"));
        expected.sort_by_key(|row| {
            let values: Vec<&Val> = row.iter().map(|cell| &cell.value).collect();
            format!("{values:?}")
        });
    }
    for (at, (row, wanted)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(row.len(), wanted.len(), "{what}");
        let same = row
            .iter()
            .zip(wanted)
            .all(|(one, other)| is_same(one, other));
        assert!(same, "{what}\nrow {at}\n{row:?}\n{wanted:?}");
    }
}

fn ask(seed: u64) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    let snapshot = world.engine.snapshot();
    for _ in 0..QUESTIONS {
        let shape = questions::question(&mut dice);
        check(seed, &shape, &snapshot, world.tables.answer(&shape));
    }
}

/// The same questions again and again while the store changes: what was kept for the first answers is not what counts now,
/// nor is it what a snapshot from before sees.
fn ask_again(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let shapes = (0..QUESTIONS / 2).map(|_| questions::question(&mut dice));
    let shapes: Vec<Shape> = shapes.collect();
    let mut before = None;
    for _ in 0..3 {
        let snapshot = world.engine.snapshot();
        let mut answers = Vec::new();
        for shape in &shapes {
            check(seed, shape, &snapshot, world.tables.answer(shape));
            answers.push(
                run(shape, &snapshot, 100)
                    .ok()
                    .map(|rows| format!("{rows:?}")),
            );
        }
        if let Some((snapshot, answers)) = before.replace((snapshot, answers)) {
            for (shape, answer) in shapes.iter().zip(answers) {
                let again = run(shape, &snapshot, 100)
                    .ok()
                    .map(|rows| format!("{rows:?}"));
                // Whether a row that a limit leaves out is calculated depends on how rows are read: it may fail, or not.
                let is_refused = again.is_none() || answer.is_none();
                if !(is_refused && is_limited(shape)) {
                    assert_eq!(again, answer, "seed {seed}\n{shape}");
                }
            }
        }
        for _ in 0..=dice.below(2) {
            world.change(&mut dice);
        }
    }
}

/// Stores of a run: of twelve questions each, ten thousand questions where the code is optimised, unless there is a wish.
fn stores() -> u32 {
    let wish = std::env::var("PROPTEST_CASES").ok();
    let wish: Option<u32> = wish.and_then(|cases| cases.parse().ok());
    wish.unwrap_or(if cfg!(debug_assertions) { 64 } else { 840 })
}

proptest! {
    // The seed is printed, and means another question once the questions change.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: stores(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn answers_are_those_of_going_over_all_rows(seed in any::<u64>()) {
        ask(seed);
    }

    #[test]
    fn a_question_that_is_repeated_has_the_answer_of_its_moment(seed in any::<u64>()) {
        ask_again(seed);
    }
}

/// Clauses and aggregates, as the text of a question has them. None of the recogniser of SQL makes those of `NEVER` in
/// `crates/query/tests/sql/series.rs`, so that this is all that compares them.
const CLAUSES: [&str; 21] = [
    "choose top ",
    "choose bottom ",
    "one for each ",
    "choose distinct ",
    "limit groups ",
    "per group",
    "fill null",
    "fill previous",
    "fill linear",
    "fills by column",
    "previous(",
    "next(",
    "median(",
    "percentile",
    "mode(",
    "stddev(",
    "spread(",
    "histogram(",
    "count(distinct ",
    "rules influx",
    "from (",
];

/// The property says nothing of an operator, a clause or a state that is never met, nor of answers without rows.
#[test]
fn the_questions_reach_every_operator_and_find_rows() {
    let mut found = [0; 5];
    let mut clauses = [0; CLAUSES.len()];
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    // Questions for which blocks of several series were read as wholes, those of deleted and of late rows among them, and those
    // for which some of their rows were read.
    let mut shared = [0; 4];
    for seed in 0..120 {
        let mut dice = Dice::new(seed);
        let world = World::new(&mut dice);
        let snapshot = world.engine.snapshot();
        for state in world.states() {
            *states.entry(state).or_default() += 1;
        }
        for _ in 0..QUESTIONS {
            let shape = questions::question(&mut dice);
            let Ok(answer) = world.tables.answer(&shape) else {
                continue;
            };
            if answer.rows.is_empty() {
                continue;
            }
            let mut text = shape.to_string();
            if !shape.fills.is_empty() {
                text.push_str("; fills by column");
            }
            for (clause, times) in CLAUSES.iter().zip(&mut clauses) {
                *times += usize::from(text.contains(clause));
            }
            let query = SeriesQuery::new(shape, Limits::default()).unwrap();
            let place = match query.operator() {
                Operator::Rows => 0,
                Operator::Last => 1,
                Operator::TopN => 2,
                Operator::Aggregate => 3,
                Operator::Choose => 4,
            };
            found[place] += 1;
            let watch = Arc::new(Shared::default());
            let context = Context {
                watch: Arc::<Shared>::clone(&watch),
                ..Context::default()
            };
            let Ok(batches) = query.run(&snapshot, &context) else {
                continue;
            };
            drop(batches);
            let counted = |count: &AtomicU64| count.load(Ordering::Relaxed) > 0;
            let is_shared = counted(&watch.blocks);
            let has = |state| world.states().contains(&state);
            let kinds = [
                true,
                has(State::Deleted),
                has(State::Late),
                counted(&watch.read),
            ];
            for (times, is_of) in shared.iter_mut().zip(kinds) {
                *times += usize::from(is_shared && is_of);
            }
        }
    }
    assert!(shared.iter().all(|times| *times >= 5), "{shared:?}");
    assert!(found.iter().all(|times| *times >= 10), "{found:?}");
    for (clause, times) in CLAUSES.iter().zip(clauses) {
        assert!(times >= 3, "{clause:?}: {times} times");
    }
    for state in State::ALL {
        let times = states.get(&state).copied().unwrap_or(0);
        assert!(times >= 5, "{state:?}: {times} stores of 120");
    }
}
