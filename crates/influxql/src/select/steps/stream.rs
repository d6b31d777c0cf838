//! Rows as they are read: what a SELECT answers that neither aggregates nor fills, calculations and queries inside included.
//!
//! Does: pass the batches of a series query on, cut where a series ends, and count them where LIMIT and OFFSET say so. Does not:
//! hold an answer.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};
use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::{Expr, Fill, Reference};
use nilometer_series::{
    self as series, Batches, Binary, Charge, Column, Context, Limit, SeriesQuery, Shape, Unary,
};
use nilometer_service::{Set, SetHead};

use crate::select::error::Error;
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::pushed::is_tag;
use crate::select::planned::types::kind_of_cast;
use crate::select::steps::buckets::plain;
use crate::select::steps::calculation::{Named, field, number};
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::output::time_type;
use crate::select::steps::read::{column_name, stored};
use crate::select::steps::symbols::Symbols;
use crate::select::steps::view::{Given, View};

/// An answer that is read as it is asked for.
#[derive(Debug)]
pub(crate) struct Stream {
    snapshot: Snapshot,
    context: Context,
    /// Questions that are still to be asked.
    rest: VecDeque<Part>,
    current: Option<(Part, Batches)>,
    ready: VecDeque<Set>,
    window: Window,
    #[expect(dead_code, reason = "it gives the memory back")]
    held: Option<Charge>,
}

/// Rows of a group, of which the answer is read as a whole: they are few, and the last ones come from memory.
const FEW_ROWS: u64 = 64;

/// LIMIT and OFFSET, which count the rows of each series.
#[derive(Debug, Default)]
struct Window {
    limit: u64,
    offset: u64,
    /// The series that is counted, and its rows so far.
    last: Option<Arc<SetHead>>,
    seen: u64,
}

impl Window {
    fn of(plan: &Plan) -> Self {
        Self {
            limit: plan.limit,
            offset: plan.offset,
            ..Self::default()
        }
    }

    fn end(&self) -> u64 {
        match self.limit {
            0 => u64::MAX,
            limit => self.offset.saturating_add(limit),
        }
    }

    /// What is shown of the next rows.
    fn cut(&mut self, mut set: Set) -> Option<Set> {
        if self.limit == 0 && self.offset == 0 {
            return Some(set);
        }
        if self.last.as_ref() != Some(&set.head) {
            (self.last, self.seen) = (Some(Arc::clone(&set.head)), 0);
        }
        let before = self.seen;
        self.seen += set.rows.len() as u64;
        let place = |at: u64| usize::try_from(at.saturating_sub(before)).unwrap_or(usize::MAX);
        let first = place(self.offset).min(set.rows.len());
        let end = place(self.end()).min(set.rows.len());
        set.rows = set.rows.start + first..set.rows.start + end.max(first);
        (!set.rows.is_empty()).then_some(set)
    }

    /// Whether no more rows of the series are shown.
    fn is_over(&self) -> bool {
        self.seen >= self.end()
    }
}

/// The question to one measurement.
#[derive(Debug, Clone)]
struct Part {
    name: Arc<str>,
    query: SeriesQuery,
    group: Vec<Arc<str>>,
    schema: Arc<Schema>,
    /// The column of the query for each of the answer; `None` = nothing is there.
    places: Vec<Option<usize>>,
    /// Columns of which one must have a value, or there is no row; `None` = there is one whatever they have.
    fields: Option<Vec<usize>>,
}

impl Stream {
    /// The stream of a plan; `None` = it has to be worked out as a whole.
    pub(crate) fn of(
        plan: &Plan,
        frame: &Frame,
        now_ns: i64,
        (snapshot, context): (&Snapshot, &Context),
    ) -> Result<Option<Self>, Error> {
        // A series query turns the time around, and not the groups.
        let has_order = plan.ascending || frame.group.is_empty();
        if !is_of_rows(plan) || !has_order {
            return Ok(None);
        }
        let is_limited = plan.limit > 0 || plan.offset > 0;
        let mut parts = Vec::new();
        match plan.inputs.as_slice() {
            [Input::Nested(_)] => {
                let given = Given {
                    now_ns,
                    buckets_max: context.limits.buckets,
                };
                match nested_part(plan, frame, given, context)? {
                    Some(part) => parts.push(part),
                    None => return Ok(None),
                }
            }
            // Rows of several measurements are limited together, as InfluxDB reads them.
            inputs if is_limited && inputs.len() > 1 => return Ok(None),
            inputs => {
                for input in inputs {
                    let Input::Table(table) = input else {
                        return Ok(None);
                    };
                    let first = match Window::of(plan).end() {
                        u64::MAX => First::All,
                        rows => First::WithValues(rows),
                    };
                    let Some(part) = part(plan, frame, table, (first, context))? else {
                        return Ok(None);
                    };
                    parts.extend(part);
                }
            }
        }
        parts.sort_by(|one, two| one.name.cmp(&two.name));
        if !plan.ascending {
            parts.reverse();
        }
        Ok(Some(Self {
            snapshot: snapshot.clone(),
            context: context.clone(),
            rest: parts.into(),
            current: None,
            ready: VecDeque::new(),
            window: Window::of(plan),
            held: None,
        }))
    }

    /// The few first rows of each group of a measurement, or the last; `None` = it has to be worked out in another way.
    pub(crate) fn few(
        plan: &Plan,
        frame: &Frame,
        (snapshot, context): (&Snapshot, &Context),
    ) -> Result<Option<Self>, Error> {
        let is_few = (1..=FEW_ROWS).contains(&plan.limit)
            && plan.offset == 0
            && frame.dimensions == frame.group;
        let ([Input::Table(table)], true) = (plan.inputs.as_slice(), is_few && is_of_rows(plan))
        else {
            return Ok(None);
        };
        let first = First::Any(plan.limit);
        let Some(Some(part)) = part(plan, frame, table, (first, context))? else {
            return Ok(None);
        };
        let mut held = Charge::new(&context.memory);
        let mut ready = VecDeque::new();
        for batch in part.query.run(snapshot, context)? {
            let batch = batch?;
            held.grow(batch.get_array_memory_size())?;
            if !part.cut(&batch, &mut ready) {
                // Rows without any of the fields, which do not count: others are to be read instead.
                return Ok(None);
            }
        }
        if !plan.ascending {
            let sets = ready.make_contiguous();
            let groups = sets.chunk_by(|one, two| one.head == two.head);
            ready = groups.rev().flatten().cloned().collect();
        }
        Ok(Some(Self::whole((ready, held), (snapshot, context))))
    }

    /// Sets that are there already.
    pub(crate) fn whole(
        (ready, held): (VecDeque<Set>, Charge),
        (snapshot, context): (&Snapshot, &Context),
    ) -> Self {
        Self {
            snapshot: snapshot.clone(),
            context: context.clone(),
            rest: VecDeque::new(),
            current: None,
            ready,
            window: Window::default(),
            held: Some(held),
        }
    }

    fn advance(&mut self) -> Result<Option<Set>, Error> {
        loop {
            while let Some(set) = self.ready.pop_front() {
                if let Some(shown) = self.window.cut(set) {
                    return Ok(Some(shown));
                }
            }
            let Some((part, batches)) = &mut self.current else {
                let Some(part) = self.rest.pop_front() else {
                    return Ok(None);
                };
                let batches = part.query.run(&self.snapshot, &self.context)?;
                self.current = Some((part, batches));
                continue;
            };
            // Without groups the measurement is one series.
            let is_over = part.group.is_empty() && self.window.last.is_some();
            let batch = if is_over && self.window.is_over() {
                None
            } else {
                batches.next()
            };
            match batch {
                Some(batch) => {
                    part.cut(&batch?, &mut self.ready);
                }
                None => self.current = None,
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Set, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_)) | None) {
            (self.current, self.rest) = (None, VecDeque::new());
        }
        next
    }
}

/// Whether an answer is of rows as they are, each by itself, with a name of which something is known.
fn is_of_rows(plan: &Plan) -> bool {
    let symbols = Symbols::of(plan);
    let mut names = symbols.references.iter();
    symbols.calls.is_empty()
        && matches!(plan.fill, Fill::Null)
        && names.any(|name| kind_of_cast(name.cast).is_some())
}

/// Which rows of each series are asked for.
#[derive(Debug, Clone, Copy)]
enum First {
    All,
    /// The first, whatever they have.
    Any(u64),
    /// The first that have a value.
    WithValues(u64),
}

/// The columns of a question, each once.
#[derive(Debug, Default)]
struct Columns(Vec<Column>);

impl Columns {
    fn add(&mut self, expr: series::Expr) -> usize {
        let known = self.0.iter().position(|column| column.expr == expr);
        known.unwrap_or_else(|| {
            let place = self.0.len();
            let name = column_name(place);
            self.0.push(Column { name, expr });
            place
        })
    }
}

/// The question to a measurement: none if nothing of it is asked for; `None` if it cannot be asked so.
#[expect(
    clippy::option_option,
    reason = "a measurement without the fields is no reason to work out the others as a whole"
)]
fn part(
    plan: &Plan,
    frame: &Frame,
    table: &Table,
    (first, context): (First, &Context),
) -> Result<Option<Option<Part>>, Error> {
    let (mut shape, rest) = wanted(plan, frame).shape(table);
    if !rest.is_empty() || (matches!(first, First::Any(_)) && shape.rows.is_some()) {
        return Ok(None);
    }
    let mut columns = Columns::default();
    let mut places = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        places.push(match &output.expr {
            Expr::Reference(name) => stored(name, table).map(|expr| columns.add(expr)),
            calculation => {
                let of = |named: Named<'_>| match named {
                    Named::Reference(name) => field(name, table),
                    Named::Call(_) => None,
                };
                let Some((expr, _)) = number(calculation, &of) else {
                    return Ok(None);
                };
                Some(columns.add(expr))
            }
        });
    }
    let symbols = Symbols::of(plan);
    let names = symbols
        .references
        .iter()
        .filter(|name| !is_tag(name, table));
    let present: Vec<series::Expr> = names.filter_map(|name| stored(name, table)).collect();
    if present.is_empty() {
        return Ok(Some(None));
    }
    if let First::Any(rows) | First::WithValues(rows) = first {
        let limit = Limit {
            rows: series::Value::Unsigned(rows).into(),
            skip: series::Value::Unsigned(0).into(),
        };
        // Without groups the rows are one series, and of its end not every series of the measurement has to be read.
        match first {
            First::Any(_) if shape.group.is_empty() => shape.limit = Some(limit),
            _ => shape.limit_per_group = Some(limit),
        }
    }
    if let First::WithValues(_) = first {
        let present = present.iter().cloned();
        let present = present.map(|of| series::Expr::Unary(Unary::IsNotNull, Box::new(of)));
        let any = series::Expr::joined(Binary::Or, present);
        shape.rows = match (shape.rows.take(), any) {
            (Some(rows), Some(any)) => Some(series::Expr::binary(Binary::And, rows, any)),
            (rows, any) => rows.or(any),
        };
    }
    let fields = present.into_iter().map(|of| columns.add(of)).collect();
    shape.columns = columns.0;
    let asked = Asked {
        name: Arc::clone(&table.name),
        shape,
        places,
        fields: Some(fields),
    };
    Ok(Some(Some(asked.part(plan, frame, context)?)))
}

/// The question for the rows of a query inside; `None` = they have to be made.
fn nested_part(
    plan: &Plan,
    frame: &Frame,
    given: Given,
    context: &Context,
) -> Result<Option<Part>, Error> {
    let references = plan.outputs.iter().map(|output| match &output.expr {
        Expr::Reference(name) => Some(name.clone()),
        _ => None,
    });
    let Some(references) = references.collect::<Option<Vec<Reference>>>() else {
        return Ok(None);
    };
    let view = View::inside(plan, frame, given);
    let shape = view
        .as_ref()
        .and_then(|view| view.rows(&references, plan, frame));
    let (Some(view), Some(shape)) = (view, shape) else {
        return Ok(None);
    };
    let asked = Asked {
        name: Arc::clone(&view.table.name),
        shape,
        places: (0..references.len()).map(Some).collect(),
        fields: None,
    };
    asked.part(plan, frame, context).map(Some)
}

/// What a part is made of.
struct Asked {
    name: Arc<str>,
    shape: Shape,
    places: Vec<Option<usize>>,
    fields: Option<Vec<usize>>,
}

impl Asked {
    fn part(self, plan: &Plan, frame: &Frame, context: &Context) -> Result<Part, Error> {
        let mut fields = vec![Field::new(&plan.time_name, time_type(plan), false)];
        let names = plan.outputs.iter().map(|output| &*output.name);
        fields.extend(names.map(|name| Field::new(name, arrow_schema::DataType::Float64, true)));
        Ok(Part {
            name: self.name,
            query: SeriesQuery::new(self.shape, context.limits)?,
            group: frame.group.iter().map(|tag| tag.as_str().into()).collect(),
            schema: Arc::new(Schema::new(fields)),
            places: self.places,
            fields: self.fields,
        })
    }
}

impl Part {
    /// The sets of a batch; `false` = not all of its rows are in them.
    fn cut(&self, batch: &RecordBatch, out: &mut VecDeque<Set>) -> bool {
        let all = batch.num_rows();
        let front = 1 + self.group.len();
        let column = |place: &usize| batch.columns().get(front + place);
        let fields = self.fields.as_ref();
        let fields = fields.map(|all| all.iter().filter_map(column).collect::<Vec<_>>());
        let batch = match fields {
            Some(fields) if fields.iter().all(|array| array.null_count() > 0) => {
                let present = (0..batch.num_rows())
                    .map(|row| Some(fields.iter().any(|array| array.is_valid(row))));
                let present: BooleanArray = present.collect();
                let Ok(kept) = arrow_select::filter::filter_record_batch(batch, &present) else {
                    return false;
                };
                kept
            }
            _ => batch.clone(),
        };
        let groups = group_tags(&batch, self.group.len());
        let shown = Arc::new(self.renamed(&batch));
        let mut rest = 0..batch.num_rows();
        while let Some(first) = rest.next() {
            let is_same = |row: &usize| groups.iter().all(|group| group.is_as_before(*row));
            let end = rest.clone().find(|row| !is_same(row)).unwrap_or(rest.end);
            rest.start = end;
            let tags = self.group.iter().zip(&groups);
            let tags = tags.map(|(name, group)| (Arc::clone(name), group.text(first).into()));
            let head = SetHead {
                name: Arc::clone(&self.name),
                tags: tags.collect(),
            };
            out.push_back(Set {
                head: Arc::new(head),
                batch: Arc::clone(&shown),
                rows: first..end,
            });
        }
        batch.num_rows() == all
    }

    /// The time and the columns of the answer.
    fn renamed(&self, batch: &RecordBatch) -> RecordBatch {
        let mut fields = Vec::with_capacity(self.places.len() + 1);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.places.len() + 1);
        let time = self.schema.field(0).clone();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        arrays.push(Arc::new(
            times.clone().with_data_type(time.data_type().clone()),
        ));
        fields.push(time);
        for (place, field) in self.places.iter().zip(self.schema.fields().iter().skip(1)) {
            let array = place.and_then(|place| batch.columns().get(1 + self.group.len() + place));
            let array: ArrayRef = match array {
                Some(array) => plain(Arc::clone(array), false),
                None => Arc::new(Float64Array::new_null(batch.num_rows())),
            };
            fields.push(Field::new(field.name(), array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .expect("the fields were made of the arrays, which have the same rows")
    }
}

/// The tags of a batch's groups, which come after the time.
pub(crate) fn group_tags(batch: &RecordBatch, count: usize) -> Vec<GroupTag<'_>> {
    let columns = batch.columns().iter().skip(1).take(count);
    let tags = columns.map(|column| {
        let words = column.as_dictionary_opt::<Int32Type>()?;
        Some((words.keys(), words.values().as_string_opt::<i32>()?))
    });
    tags.map(GroupTag).collect()
}

/// A tag of groups: which of its words a row has, and the words; `None` = it is absent everywhere.
pub(crate) struct GroupTag<'a>(Option<(&'a Int32Array, &'a StringArray)>);

impl GroupTag<'_> {
    /// Whether a row has what the one before has.
    pub(crate) fn is_as_before(&self, row: usize) -> bool {
        let Some((keys, _)) = self.0 else {
            return true;
        };
        let key = |row: usize| keys.is_valid(row).then(|| keys.value(row));
        row.checked_sub(1)
            .is_some_and(|before| key(before) == key(row))
    }

    /// Absent is empty.
    pub(crate) fn text(&self, row: usize) -> &str {
        let text = self.0.and_then(|(keys, words)| {
            let key = keys.is_valid(row).then(|| keys.value(row))?;
            Some(words.value(usize::try_from(key).ok()?))
        });
        text.unwrap_or_default()
    }
}
