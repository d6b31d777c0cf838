//! Rows of fields as they are read: what a SELECT without calls, calculations and limits of series answers.
//!
//! Does: pass the batches of a series query on, cut where a series ends. Does not: hold an answer.

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
use nilometer_series::{self as series, Batches, Charge, Column, Context, Limit, SeriesQuery};
use nilometer_service::{Set, SetHead};

use crate::select::error::Error;
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::pushed::is_tag;
use crate::select::planned::types::kind_of_cast;
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::output::time_type;
use crate::select::steps::read::{column_name, stored};

/// An answer that is read as it is asked for.
#[derive(Debug)]
pub(crate) struct Stream {
    snapshot: Snapshot,
    context: Context,
    /// Questions that are still to be asked.
    rest: VecDeque<Part>,
    current: Option<(Part, Batches)>,
    ready: VecDeque<Set>,
    #[expect(dead_code, reason = "it gives the memory back")]
    held: Option<Charge>,
}

/// Rows of a group, of which the answer is read as a whole: they are few, and the last ones come from memory.
const FEW_ROWS: u64 = 64;

/// The question to one measurement.
#[derive(Debug, Clone)]
struct Part {
    table: Table,
    query: SeriesQuery,
    group: Vec<Arc<str>>,
    schema: Arc<Schema>,
    /// The column of the query for each of the answer; `None` = nothing is there.
    places: Vec<Option<usize>>,
    /// Columns of which one must have a value, or there is no row.
    fields: Vec<usize>,
}

fn references(plan: &Plan) -> Option<Vec<&Reference>> {
    let reference =
        |expr: &Expr| -> Option<()> { matches!(expr, Expr::Reference(_)).then_some(()) };
    plan.outputs
        .iter()
        .try_for_each(|output| reference(&output.expr))?;
    let all = plan.outputs.iter().filter_map(|output| match &output.expr {
        Expr::Reference(reference) => Some(reference),
        _ => None,
    });
    Some(all.collect())
}

impl Stream {
    /// The stream of a plan; `None` = it has to be worked out as a whole.
    pub(crate) fn of(
        plan: &Plan,
        frame: &Frame,
        (snapshot, context): (&Snapshot, &Context),
    ) -> Result<Option<Self>, Error> {
        let is_plain = matches!(plan.fill, Fill::Null)
            && plan.limit == 0
            && plan.offset == 0
            // A series query turns the time around, and not the groups.
            && (plan.ascending || frame.group.is_empty());
        let Some(references) = references(plan).filter(|_| is_plain) else {
            return Ok(None);
        };
        if references
            .iter()
            .all(|name| kind_of_cast(name.cast).is_none())
        {
            return Ok(None);
        }
        let mut parts = VecDeque::new();
        for input in &plan.inputs {
            let Input::Table(table) = input else {
                return Ok(None);
            };
            let Some(part) = part(plan, frame, table, (&references, context), None)? else {
                return Ok(None);
            };
            parts.push_back(part);
        }
        let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
        parts.sort_by(|one, two| one.table.name.cmp(&two.table.name));
        if !plan.ascending {
            parts.reverse();
        }
        Ok(Some(Self {
            snapshot: snapshot.clone(),
            context: context.clone(),
            rest: parts.into(),
            current: None,
            ready: VecDeque::new(),
            held: None,
        }))
    }

    /// The few first rows of each group of a measurement, or the last; `None` = it has to be worked out in another way.
    pub(crate) fn few(
        plan: &Plan,
        frame: &Frame,
        (snapshot, context): (&Snapshot, &Context),
    ) -> Result<Option<Self>, Error> {
        let is_few = matches!(plan.fill, Fill::Null)
            && (1..=FEW_ROWS).contains(&plan.limit)
            && plan.offset == 0
            && frame.dimensions == frame.group;
        let (Some(references), [Input::Table(table)]) =
            (references(plan).filter(|_| is_few), plan.inputs.as_slice())
        else {
            return Ok(None);
        };
        let limit = Some(plan.limit);
        let Some(Some(part)) = part(plan, frame, table, (&references, context), limit)? else {
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
            held: Some(held),
        }
    }

    fn advance(&mut self) -> Result<Option<Set>, Error> {
        loop {
            if let Some(set) = self.ready.pop_front() {
                return Ok(Some(set));
            }
            let Some((part, batches)) = &mut self.current else {
                let Some(part) = self.rest.pop_front() else {
                    return Ok(None);
                };
                let batches = part.query.run(&self.snapshot, &self.context)?;
                self.current = Some((part, batches));
                continue;
            };
            match batches.next() {
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

/// The question to a measurement: none if nothing of it is asked for; `None` if it cannot be asked so.
#[expect(
    clippy::option_option,
    reason = "a measurement without the fields is no reason to work out the others as a whole"
)]
fn part(
    plan: &Plan,
    frame: &Frame,
    table: &Table,
    (references, context): (&[&Reference], &Context),
    limit: Option<u64>,
) -> Result<Option<Option<Part>>, Error> {
    let (mut shape, rest) = wanted(plan, frame).shape(table);
    if !rest.is_empty() {
        return Ok(None);
    }
    if let Some(rows) = limit {
        if shape.rows.is_some() {
            return Ok(None);
        }
        shape.limit_per_group = Some(Limit {
            rows: series::Value::Unsigned(rows).into(),
            skip: series::Value::Unsigned(0).into(),
        });
    }
    let mut places = Vec::with_capacity(references.len());
    let mut fields = Vec::new();
    for name in references {
        let place = stored(name, table).map(|expr| {
            let place = shape.columns.len();
            if !is_tag(name, table) {
                fields.push(place);
            }
            shape.columns.push(Column {
                name: column_name(place),
                expr,
            });
            place
        });
        places.push(place);
    }
    if fields.is_empty() {
        return Ok(Some(None));
    }
    let query = SeriesQuery::new(shape, context.limits)?;
    let schema = Arc::new(Schema::new(vec![Field::new(
        &plan.time_name,
        time_type(plan),
        false,
    )]));
    let names: Vec<Field> = plan
        .outputs
        .iter()
        .map(|output| Field::new(&*output.name, arrow_schema::DataType::Float64, true))
        .collect();
    let schema = Schema::new(
        schema
            .fields()
            .iter()
            .map(|field| (**field).clone())
            .chain(names)
            .collect::<Vec<_>>(),
    );
    Ok(Some(Some(Part {
        table: table.clone(),
        query,
        group: frame.group.iter().map(|tag| tag.as_str().into()).collect(),
        schema: Arc::new(schema),
        places,
        fields,
    })))
}

impl Part {
    /// The sets of a batch; `false` = not all of its rows are in them.
    fn cut(&self, batch: &RecordBatch, out: &mut VecDeque<Set>) -> bool {
        let all = batch.num_rows();
        let front = 1 + self.group.len();
        let column = |place: usize| batch.columns().get(front + place);
        let fields: Vec<&ArrayRef> = self
            .fields
            .iter()
            .filter_map(|place| column(*place))
            .collect();
        let batch = if fields.iter().any(|array| array.null_count() == 0) {
            batch.clone()
        } else {
            let present = (0..batch.num_rows())
                .map(|row| Some(fields.iter().any(|array| array.is_valid(row))));
            let present: BooleanArray = present.collect();
            let Ok(kept) = arrow_select::filter::filter_record_batch(batch, &present) else {
                return false;
            };
            kept
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
                name: Arc::clone(&self.table.name),
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
                Some(array) => Arc::clone(array),
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
