//! The operator `Choose`: some rows, or values, of each group and bucket.
//!
//! Does: read rows on several threads, hold what is chosen of each group and bucket, and make the answer of it in its order.
//! Does not: say which rows are chosen (`best`, `distinct`).

mod best;
mod distinct;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use nilometer_engine::{Narrowing, Snapshot};
use rustc_hash::FxHashMap;

use super::cells::within_limits;
use super::edges::Edges;
use super::parallel;
use super::project::Projection;
use crate::context::{BATCH_ROWS, Charge, Context, Step};
use crate::error::Error;
use crate::input::{Chunk, Inputs, RunNested};
use crate::long::{self, Asks};
use crate::query::{Choice, OrderBy, SeriesQuery};

/// What is chosen of one group and bucket.
trait Cell: Default + Send {
    /// Takes in what another thread has chosen.
    fn join(&mut self, other: Self, context: &Context) -> Result<(), Error>;
}

/// What is chosen of each group and bucket that has rows.
#[derive(Debug)]
struct Chosen<T> {
    places: FxHashMap<(u32, i64), usize>,
    /// With their groups and starts, in the order of their first rows.
    cells: Vec<((u32, i64), T)>,
    /// `u64::MAX` = as many as there are groups.
    buckets_max: u64,
    /// Rows that were looked at.
    rows: u64,
    charge: Charge,
}

impl<T: Cell> Chosen<T> {
    fn new(query: &SeriesQuery, context: &Context) -> Self {
        let has_buckets = query.shape().bucket.is_some();
        Self {
            places: FxHashMap::default(),
            cells: Vec::new(),
            buckets_max: if has_buckets {
                context.limits.buckets
            } else {
                u64::MAX
            },
            rows: 0,
            charge: context.charge(),
        }
    }

    /// The place of a group and bucket.
    fn place(&mut self, key: (u32, i64)) -> Result<usize, Error> {
        let new = self.cells.len();
        if let Some((last, _)) = self.cells.last()
            && *last == key
        {
            return Ok(new - 1);
        }
        if let Some(known) = self.places.get(&key) {
            return Ok(*known);
        }
        if new as u64 >= self.buckets_max {
            return Err(Error::TooManyBuckets {
                buckets: new as u64 + 1,
                buckets_max: self.buckets_max,
            });
        }
        // Both lists double.
        self.charge
            .grow(2 * (size_of::<((u32, i64), T)>() + size_of::<((u32, i64), usize)>()))?;
        self.places.insert(key, new);
        self.cells.push((key, T::default()));
        Ok(new)
    }

    /// The rows of a chunk, by the place of their group and bucket.
    fn runs(
        &mut self,
        edges: &Edges<'_>,
        chunk: &Chunk,
    ) -> Result<Vec<(usize, Range<usize>)>, Error> {
        let mut runs = Vec::new();
        for (key, rows) in edges.runs(&chunk.groups, &chunk.times) {
            runs.push((self.place(key)?, rows));
        }
        Ok(runs)
    }

    fn join(&mut self, other: Self, context: &Context) -> Result<(), Error> {
        let mut asks = Asks::of(context);
        self.charge.absorb(other.charge);
        for (key, theirs) in other.cells {
            asks.rows(1)?;
            let place = self.place(key)?;
            if let Some((_, mine)) = self.cells.get_mut(place) {
                mine.join(theirs, context)?;
            }
        }
        Ok(())
    }
}

/// Has all rows of a query looked at, by several threads, and joins what they have chosen.
fn collect<T: Cell>(
    (query, inputs): (&SeriesQuery, &Inputs),
    (snapshot, context): (&Snapshot, &Context),
    add: impl Fn(&mut Chosen<T>, &Edges<'_>, Chunk) -> Result<(), Error> + Sync,
) -> Result<Chosen<T>, Error> {
    let range = (query.bound.first_ns, query.bound.last_ns);
    let pruning = context.timed(Step::Prune);
    let extent = inputs.extent(snapshot, range)?;
    drop(pruning);
    // Where the rows are not those of tables, they may be anywhere.
    let range = match (extent, inputs.tables()) {
        (Some(extent), Some(_)) => extent,
        (None, Some(_)) => (0, -1),
        (_, None) => range,
    };
    let edges = Edges::new(query.shape().bucket.as_ref(), only_start(query));
    let parts = parallel::chunks(
        inputs,
        (snapshot, context),
        (range, &Narrowing::None),
        || Ok(Chosen::new(query, context)),
        |chosen, chunk| {
            let rows = chunk.rows() as u64;
            add(chosen, &edges, chunk)?;
            chosen.rows += rows;
            Ok(())
        },
    )?;
    let _timed = context.timed(Step::Operate);
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_else(|| Chosen::new(query, context));
    for part in parts {
        whole.join(part, context)?;
    }
    Ok(whole)
}

/// When the one bucket of a query without buckets starts.
fn only_start(query: &SeriesQuery) -> i64 {
    let bound = &query.bound;
    if bound.has_first { bound.first_ns } else { 0 }
}

/// The place of a row or value in an answer: its group, its time, and what tells those of one time apart.
type Key = (u32, i64, (u64, u64));

/// The places of those rows that are within the limits, in the order of the answer.
fn in_order(keys: &[Key], query: &SeriesQuery, context: &Context) -> Result<Vec<u32>, Error> {
    let order = query.shape().order;
    let places: Vec<u32> = (0..).take(keys.len()).collect();
    let key = |at: &u32| keys.get(*at as usize).copied().unwrap_or_default();
    let places = long::sorted(places, context, |one, other| {
        let (one, other) = (key(one), key(other));
        let by_group = one.0.cmp(&other.0);
        let (by_time, by_place) = (one.1.cmp(&other.1), one.2.cmp(&other.2));
        let (by_time, by_place) = if order.descending {
            (by_time.reverse(), by_place.reverse())
        } else {
            (by_time, by_place)
        };
        match order.by {
            OrderBy::Time => by_time.then(by_group).then(by_place),
            OrderBy::Group | OrderBy::Nothing => by_group.then(by_time).then(by_place),
        }
    })?;
    let groups: Vec<(u32, i64)> = keys.iter().map(|key| (key.0, key.1)).collect();
    within_limits(places, &groups, query, context)
}

/// The columns and batches of an answer, and the memory that they take.
pub(super) type Answer = (SchemaRef, VecDeque<RecordBatch>, Charge);

/// The answer: a chunk of rows at a time, which `chunk` makes of their places.
fn answer(
    order: &[u32],
    (inputs, projection): (&Inputs, &Projection),
    context: &Context,
    chunk: impl Fn(&[u32]) -> Chunk,
) -> Result<Answer, Error> {
    let mut charge = context.charge();
    let mut batches = VecDeque::new();
    for part in order.chunks(BATCH_ROWS) {
        context.check()?;
        let batch = projection.batch(&chunk(part), &inputs.groups)?;
        charge.grow(batch.get_array_memory_size())?;
        batches.push_back(batch);
    }
    Ok((Arc::clone(&projection.schema), batches, charge))
}

pub(super) fn run(
    query: &SeriesQuery,
    on: (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<Answer, Error> {
    match &query.shape().choice {
        Some(Choice::Top(top)) => best::run((query, top), on, shows_time, run_nested),
        Some(Choice::Distinct(of)) => distinct::run((query, of), on, shows_time, run_nested),
        None => Err(Error::contradiction("nothing is chosen")),
    }
}
