//! Buckets of aggregates as columns: the answer to a SELECT of nothing but aggregates that the series' engine calculates.
//!
//! Does: ask for all aggregates of a measurement at once, add the buckets without points, cut the columns where a series ends.
//! Does not: calculate, join or transform, which takes a value at a time (`calls`, `query`).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray, UInt32Array,
};
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::{Expr, Fill};
use nilometer_series::{Charge, Column, Context, SeriesQuery};
use nilometer_service::{Set, SetHead};

use crate::select::checked::condition::{TIME_MAX, TIME_MIN};
use crate::select::checked::window::Window;
use crate::select::error::Error;
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::output::time_type;
use crate::select::steps::read::column_name;
use crate::select::steps::stored::{Leaf, Source, bucket, field_of};
use crate::select::steps::stream::group_tags;

/// Sets that are there, and the memory that they hold.
pub(crate) type Held = (VecDeque<Set>, Charge);

/// Aggregates that have one value in a bucket, which is a column as it is.
const AGGREGATES: [&str; 9] = [
    "count", "sum", "mean", "min", "max", "first", "last", "spread", "median",
];

/// The question to a measurement.
struct Question<'a> {
    plan: &'a Plan,
    table: &'a Table,
    window: Window,
    /// Both included; `None` = only buckets with points are shown.
    filled: Option<(i64, i64)>,
    leaves: Vec<Leaf<'a>>,
    tags: &'a [String],
}

/// The answer of a plan; `None` = it has to be worked out a value at a time.
pub(crate) fn answer(
    plan: &Plan,
    frame: &Frame,
    (snapshot, context): (&Snapshot, &Context),
) -> Result<Option<Held>, Error> {
    let Some(question) = Question::of(plan, frame) else {
        return Ok(None);
    };
    let Some(query) = question.query(frame, context)? else {
        return Ok(None);
    };
    let buckets_max = context.limits.buckets;
    let buckets = question.buckets(frame.first_ns, frame.last_ns);
    if let Some(buckets) = buckets.filter(|buckets| *buckets > buckets_max) {
        return Err(Error::TooManyBuckets {
            buckets,
            buckets_max,
        });
    }
    let mut held = Charge::new(&context.memory);
    let mut batches = Vec::new();
    let mut schema = None;
    for batch in query.run(snapshot, context)? {
        let batch = batch?;
        held.grow(batch.get_array_memory_size())?;
        schema.get_or_insert_with(|| batch.schema());
        batches.push(batch);
    }
    let Some(schema) = schema else {
        return Ok(Some((VecDeque::new(), held)));
    };
    let batch = match batches.as_slice() {
        [batch] => batch.clone(),
        batches => {
            // They are there twice until the answer is made.
            let bytes = batches.iter().map(RecordBatch::get_array_memory_size);
            held.grow(bytes.sum())?;
            let whole = concat_batches(&schema, batches);
            whole.expect("the batches of a query are of one schema")
        }
    };
    let shown = question.shown(&batch);
    if let (Some(buckets), true) = (buckets, question.filled.is_some()) {
        for groups in shown.groups_with_points() {
            let all = buckets.saturating_mul(groups);
            if all > buckets_max {
                return Err(Error::TooManyBuckets {
                    buckets: all,
                    buckets_max,
                });
            }
        }
    }
    let rows = shown.rows();
    held.grow(rows.places.len() * size_of::<u64>() * (question.leaves.len() + 2))?;
    let sets = question.sets(&batch, &shown, &rows);
    Ok(Some((sets, held)))
}

impl<'a> Question<'a> {
    fn of(plan: &'a Plan, frame: &'a Frame) -> Option<Self> {
        let window = frame.window.filter(|window| window.zone.is_none())?;
        let filled = match frame.fill {
            Fill::None => None,
            Fill::Null if frame.first_ns > TIME_MIN && frame.last_ns < TIME_MAX => {
                Some((window.start(frame.first_ns), window.start(frame.last_ns)))
            }
            _ => return None,
        };
        let is_plain = plan.limit == 0
            && plan.offset == 0
            && frame.series == (0, 0)
            && frame.dimensions == frame.group
            && plan.ascending;
        let ([Input::Table(table)], true) = (plan.inputs.as_slice(), is_plain) else {
            return None;
        };
        let mut leaves = Vec::with_capacity(plan.outputs.len());
        for output in &plan.outputs {
            let Expr::Call(call) = &output.expr else {
                return None;
            };
            let leaf = Leaf {
                call,
                field: field_of(call)?,
                own_time: false,
                aux: &[],
            };
            let source = Source::Table(table);
            let is_known = call.arguments.len() == 1
                && AGGREGATES.contains(&call.name.as_str())
                && source.has(leaf.field)
                && source.answers(leaf, Some(window));
            leaves.push(is_known.then_some(leaf)?);
        }
        Some(Self {
            plan,
            table,
            window,
            filled,
            leaves,
            tags: &frame.group,
        })
    }

    /// `None` = not all of the condition can be asked for.
    fn query(&self, frame: &Frame, context: &Context) -> Result<Option<SeriesQuery>, Error> {
        let (mut shape, rest) = wanted(self.plan, frame).shape(self.table);
        if !rest.is_empty() {
            return Ok(None);
        }
        shape.bucket = Some(bucket(self.window));
        let mut columns = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            if let Some(of) = Source::Table(self.table).column(leaf.field) {
                leaf.columns(&of, Source::Table(self.table), &mut columns);
            }
        }
        let columns = columns.into_iter().enumerate().map(|(place, expr)| Column {
            name: column_name(place),
            expr,
        });
        shape.columns = columns.collect();
        Ok(Some(SeriesQuery::new(shape, context.limits)?))
    }

    /// Buckets of a range that has a start.
    fn buckets(&self, first_ns: i64, last_ns: i64) -> Option<u64> {
        if first_ns <= TIME_MIN {
            return None;
        }
        let start = self.window.start(first_ns);
        let end = match self.filled {
            Some((_, end)) => end,
            None => last_ns,
        };
        let length = i128::from(end) - i128::from(start);
        u64::try_from(length / i128::from(self.window.width) + 1).ok()
    }

    /// What is shown of each column of a batch, and which groups are in it.
    fn shown<'b>(&self, batch: &'b RecordBatch) -> Shown<'b> {
        let front = 1 + self.tags.len();
        let columns = batch.columns().iter().skip(front).zip(&self.leaves);
        let columns: Vec<(&ArrayRef, bool)> = columns
            .map(|(array, leaf)| (array, leaf.call.name == "count"))
            .collect();
        let tags = group_tags(batch, self.tags.len());
        let mut groups = Vec::new();
        let mut first = 0;
        for row in 1..=batch.num_rows() {
            let goes_on = row < batch.num_rows() && tags.iter().all(|tag| tag.is_as_before(row));
            if !goes_on {
                groups.push(Group::of(&columns, first..row));
                first = row;
            }
        }
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        Shown {
            times,
            columns,
            groups,
            filled: self.filled,
            width: self.window.width,
        }
    }

    fn sets(&self, batch: &RecordBatch, shown: &Shown<'_>, rows: &Rows) -> VecDeque<Set> {
        let zone = time_type(self.plan);
        let times = TimestampNanosecondArray::from(rows.times.clone());
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(times.with_data_type(zone.clone()))];
        let mut fields = vec![Field::new(&self.plan.time_name, zone, false)];
        let places = UInt32Array::from(rows.places.clone());
        let columns = shown.columns.iter().zip(&self.plan.outputs).enumerate();
        for (at, ((array, is_count), output)) in columns {
            let taken = take(*array, &places, None);
            let taken = taken.expect("every place is a row or none");
            let array = match (is_count, self.leaves.get(at)) {
                (true, _) => counted(&taken, at, shown, rows),
                (false, leaf) => plain(taken, leaf.is_some_and(Leaf::begins_at_zero)),
            };
            fields.push(Field::new(&*output.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let all = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let all = Arc::new(all.expect("the fields were made of the arrays, of the same rows"));
        let tags = group_tags(batch, self.tags.len());
        let names: Vec<Arc<str>> = self.tags.iter().map(|tag| tag.as_str().into()).collect();
        let sets = rows.sets.iter().filter_map(|(group, range)| {
            let row = shown.groups.get(*group)?.rows.start;
            let tags = names.iter().zip(&tags);
            let tags = tags.map(|(name, tag)| (Arc::clone(name), tag.text(row).into()));
            Some(Set {
                head: Arc::new(SetHead {
                    name: Arc::clone(&self.table.name),
                    tags: tags.collect(),
                }),
                batch: Arc::clone(&all),
                rows: range.clone(),
            })
        });
        sets.collect()
    }
}

impl Leaf<'_> {
    /// Of numbers of -0 it is 0.
    fn begins_at_zero(&self) -> bool {
        matches!(self.call.name.as_str(), "sum" | "mean")
    }
}

/// The buckets with rows that a query has answered.
struct Shown<'b> {
    times: &'b TimestampNanosecondArray,
    /// With whether it counts.
    columns: Vec<(&'b ArrayRef, bool)>,
    groups: Vec<Group>,
    filled: Option<(i64, i64)>,
    width: i64,
}

/// The rows of a group, and whether it has a point of each column.
struct Group {
    rows: std::ops::Range<usize>,
    has_points: Vec<bool>,
}

impl Group {
    fn of(columns: &[(&ArrayRef, bool)], rows: std::ops::Range<usize>) -> Self {
        let has_points = columns
            .iter()
            .map(|column| rows.clone().any(|row| is_point(*column, row)));
        Self {
            has_points: has_points.collect(),
            rows,
        }
    }
}

/// A count of nothing is none.
fn is_point((array, is_count): (&ArrayRef, bool), row: usize) -> bool {
    array.is_valid(row) && (!is_count || array.as_primitive::<Int64Type>().value(row) != 0)
}

/// Rows of an answer: their times, where their values are, and whose they are.
struct Rows {
    times: Vec<i64>,
    places: Vec<Option<u32>>,
    sets: Vec<(usize, std::ops::Range<usize>)>,
}

impl Shown<'_> {
    /// Of each column.
    fn groups_with_points(&self) -> impl Iterator<Item = u64> {
        (0..self.columns.len()).map(|column| {
            let groups = self.groups.iter();
            let with_points = groups.filter(|it| it.has_points.get(column) == Some(&true));
            with_points.count() as u64
        })
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows {
            times: Vec::new(),
            places: Vec::new(),
            sets: Vec::new(),
        };
        let with_points = self.groups.iter().enumerate();
        for (number, group) in with_points.filter(|(_, group)| group.has_points.contains(&true)) {
            let start = rows.times.len();
            let mut bucket = self.filled.map(|(first, _)| first);
            for row in group.rows.clone() {
                let is_shown = self.columns.iter().any(|column| is_point(*column, row));
                if !is_shown {
                    continue;
                }
                let time = self.times.value(row);
                while let Some(gap) = bucket.filter(|gap| *gap < time) {
                    rows.push(gap, None);
                    bucket = Some(gap.saturating_add(self.width));
                }
                rows.push(time, u32::try_from(row).ok());
                bucket = bucket.map(|_| time.saturating_add(self.width));
            }
            if let (Some(mut gap), Some((_, last))) = (bucket, self.filled) {
                while gap <= last {
                    rows.push(gap, None);
                    gap = gap.saturating_add(self.width);
                }
            }
            rows.sets.push((number, start..rows.times.len()));
        }
        rows
    }
}

impl Rows {
    fn push(&mut self, time: i64, place: Option<u32>) {
        self.times.push(time);
        self.places.push(place);
    }
}

/// Counts, of which those of buckets without points are 0 where they are filled and the group has others.
fn counted(taken: &ArrayRef, column: usize, shown: &Shown<'_>, rows: &Rows) -> ArrayRef {
    let counts = taken.as_primitive::<Int64Type>();
    let mut all: Vec<Option<i64>> = counts
        .iter()
        .map(|count| count.filter(|it| *it != 0))
        .collect();
    for (group, range) in &rows.sets {
        let has_points = shown.groups.get(*group).map(|group| &group.has_points);
        let has_points = has_points.is_some_and(|has| has.get(column) == Some(&true));
        if shown.filled.is_some() && has_points {
            for count in all.get_mut(range.clone()).unwrap_or_default() {
                count.get_or_insert(0);
            }
        }
    }
    Arc::new(Int64Array::from(all))
}

/// The values of a column as they are shown: NaN is none.
pub(crate) fn plain(array: ArrayRef, begins_at_zero: bool) -> ArrayRef {
    let Some(numbers) = array.as_primitive_opt::<Float64Type>() else {
        return array;
    };
    let is_changed = |number: &f64| number.is_nan() || (begins_at_zero && *number == 0.0);
    if !numbers.values().iter().any(is_changed) {
        return array;
    }
    let shown = numbers.iter().map(|number| {
        let number = number.filter(|number| !number.is_nan())?;
        Some(if begins_at_zero { number + 0.0 } else { number })
    });
    Arc::new(shown.collect::<Float64Array>())
}
