//! The operators that answer queries.
//!
//! Does: choose one, run it on the caller's threads, and give its rows as batches in the declared order. Does not: find
//! tables, series and columns (`input` does).

mod accumulate;
mod aggregate;
mod cells;
mod choice;
mod edges;
mod fill;
mod lanes;
mod parallel;
mod project;
mod rows;
mod slices;
mod sort;
mod steps;
mod stored;
mod stream;
mod top;

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_schema::SchemaRef;
use nilometer_engine::Snapshot;

use crate::context::{Charge, Context};
use crate::error::Error;
use crate::input::Nested;
use crate::query::{Operator, SeriesQuery};
use crate::value::{Rules, Type};
pub use accumulate::{MEAN_SCALE, numeric_mean};
use slices::SlicedStream;
use sort::Ordered;
use stream::RowStream;

/// What goes wrong where a bucket of a nested query begins before there are times.
pub const BUCKETS: &str = "the start of a bucket";

/// The answer, a batch at a time.
#[derive(Debug)]
pub struct Batches {
    schema: SchemaRef,
    context: Context,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Rows as they are read.
    Stream(Box<RowStream>),
    /// Rows in an order, a slice at a time.
    Sliced(Box<SlicedStream>),
    /// Rows that were sorted.
    Ordered(Box<Ordered>),
    /// Rows of groups, which are there.
    Ready(Box<Ready>),
    Done,
}

/// Rows of groups, and the memory that they take.
#[derive(Debug)]
struct Ready {
    batches: VecDeque<RecordBatch>,
    _charge: Charge,
}

impl Batches {
    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Upper bound of the rows that are read while the answer is; 0 = they were read before.
    pub fn rows_estimate(&self) -> u64 {
        match &self.state {
            State::Stream(stream) => stream.rows_estimate(),
            // Slices are for more rows than may be gathered.
            State::Sliced(_) => u64::MAX,
            State::Ordered(_) | State::Ready(_) | State::Done => 0,
        }
    }

    /// Parts that give the same rows together, for a caller who reads with so many threads of his own: only rows in no order
    /// can be parted, before the first of them is asked for.
    pub fn parts(self, parts: usize) -> Vec<Self> {
        let (schema, context) = (self.schema, self.context);
        let of = |state| Self {
            schema: SchemaRef::clone(&schema),
            context: context.clone(),
            state,
        };
        match self.state {
            State::Stream(stream) => {
                let parts = stream.parts(parts).into_iter();
                parts
                    .map(|part| of(State::Stream(Box::new(part))))
                    .collect()
            }
            state => vec![of(state)],
        }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.context.check()?;
        match &mut self.state {
            State::Stream(stream) => stream.advance(&self.context),
            State::Sliced(stream) => stream.advance(&self.context),
            State::Ordered(ordered) => Ok(ordered.advance()),
            State::Ready(ready) => Ok(ready.batches.pop_front()),
            State::Done => Ok(None),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.state, State::Done) {
            return None;
        }
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.state = State::Done;
        }
        next
    }
}

impl SeriesQuery {
    /// Answers it from a snapshot. Batches of at least one row come in the declared order; dropping them ends the query.
    pub fn run(&self, snapshot: &Snapshot, context: &Context) -> Result<Batches, Error> {
        context.watch.has_begun();
        run(self, snapshot, context, self.shape().shows_time())
    }
}

fn run(
    query: &SeriesQuery,
    snapshot: &Snapshot,
    context: &Context,
    shows_time: bool,
) -> Result<Batches, Error> {
    context.check()?;
    let (schema, state) = match query.operator() {
        Operator::Rows | Operator::Last => {
            rows::run(query, (snapshot, context), shows_time, &run_nested)?
        }
        Operator::TopN if !query.shape().is_aggregate() => {
            rows::run(query, (snapshot, context), shows_time, &run_nested)?
        }
        Operator::Choose => {
            let on = (snapshot, context);
            let (schema, batches, charge) = choice::run(query, on, shows_time, &run_nested)?;
            let ready = Ready {
                batches,
                _charge: charge,
            };
            (schema, State::Ready(Box::new(ready)))
        }
        Operator::Aggregate | Operator::TopN => {
            aggregate::run(query, (snapshot, context), shows_time, &run_nested)?
        }
    };
    Ok(Batches {
        schema,
        context: context.clone(),
        state,
    })
}

/// Runs a query in a query: its answer has the time of each row, whether it shows it or not.
fn run_nested(
    query: &SeriesQuery,
    snapshot: &Snapshot,
    context: &Context,
) -> Result<Nested, Error> {
    let mut charge = context.charge();
    let mut batches = Vec::new();
    let mut answer = run(query, snapshot, context, true)?;
    let schema = answer.schema();
    // A question that shows the times says what is wrong with them; one around it cannot.
    let has_buckets = query.shape().bucket.is_some() && query.shape().rules == Rules::Postgres;
    for batch in &mut answer {
        let batch = batch?;
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        if has_buckets && times.values().contains(&i64::MIN) {
            return Err(Error::OutOfRange {
                kind: Type::Time,
                operation: BUCKETS,
            });
        }
        charge.grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    let tags = query.shape().group.len();
    Ok(Nested::new(schema, batches, tags, charge))
}
