//! A plan carried out: rows of fields, or of calls, joined by time.
//!
//! Does: give a query in a query the range, groups and buckets of the one around it; read, join, limit and calculate.
//! Does not: work out calls (`calls`).

use std::sync::Arc;

use nilometer_influxql_syntax::ast::{Expr, Fill, Reference};
use nilometer_series::{Aggregate, Column, SeriesQuery, TimeRange};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::select::checked::condition::TIME_MIN;
use crate::select::error::Error;
use crate::select::functions::{is_selector, is_transform};
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::types::{kind_of, kind_of_cast};
use crate::select::run::Run;
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::join::{append, cast, fill_raw, joined};
use crate::select::steps::read::{Wanted, filter};
use crate::select::steps::symbols::Symbols;
use crate::select::steps::view::View;
use crate::select::values::eval::{Named, Node};
use crate::select::values::rows::{Rows, SetKey, Sets};
use crate::select::values::value::{Division, Value};

impl Run<'_> {
    /// The rows of a query, in order, with a column for each of its outputs.
    pub(crate) fn rows(&self, plan: &Plan, frame: &Frame) -> Result<Rows, Error> {
        let symbols = Symbols::of(plan);
        let rows = if symbols.calls.is_empty() {
            let mut rows = self.raw(plan, frame, &symbols)?;
            rows.limit(plan.limit, plan.offset);
            rows
        } else {
            self.called(plan, frame, &symbols)?
        };
        self.calculated(plan, &symbols, rows)
    }

    fn raw(&self, plan: &Plan, frame: &Frame, symbols: &Symbols) -> Result<Rows, Error> {
        // Names that nothing has.
        if symbols
            .references
            .iter()
            .all(|name| kind_of_cast(name.cast).is_none())
        {
            return Ok(Rows::of(symbols.references.len()));
        }
        let whole = frame.dimensions == frame.group && plan.inputs.len() == 1;
        if whole && plan.limit > 0 && matches!(plan.inputs.first(), Some(Input::Table(_))) {
            let first = Some(plan.limit.saturating_add(plan.offset));
            return self.gathered(plan, frame, &symbols.references, first);
        }
        if plan.limit > 0 && plan.reads_tables() {
            // InfluxDB reads so many rows of each series, and one more, before it puts them in order and counts.
            return self.first(
                plan,
                frame,
                &symbols.references,
                plan.limit.saturating_add(plan.offset).saturating_add(1),
            );
        }
        self.gathered(plan, frame, &symbols.references, None)
    }

    /// The first rows of each series of measurements, in order.
    fn first(
        &self,
        plan: &Plan,
        frame: &Frame,
        references: &[Reference],
        count: u64,
    ) -> Result<Rows, Error> {
        let mut group = frame.group.clone();
        for input in &plan.inputs {
            if let Input::Table(table) = input {
                let tags = table.schemas.iter().flat_map(|schema| &schema.tags);
                group.extend(tags.map(|tag| tag.name.clone()));
            }
        }
        group.sort_unstable();
        group.dedup();
        let whole = Frame {
            dimensions: group.clone(),
            group,
            ..frame.clone()
        };
        let mut rows = self.gathered(plan, &whole, references, Some(count))?;
        if plan.reads_tables() {
            rows.limit(count, 0);
        }
        rows.regroup(&frame.group);
        if !matches!(plan.inputs.as_slice(), [Input::Nested(_)]) {
            rows.sort(&frame.dimensions, plan.ascending);
        }
        Ok(rows)
    }

    /// The rows of all inputs that have a value in one of the fields, in order.
    pub(crate) fn gathered(
        &self,
        plan: &Plan,
        frame: &Frame,
        references: &[Reference],
        limit: Option<u64>,
    ) -> Result<Rows, Error> {
        let mut all: Option<Rows> = None;
        for input in &plan.inputs {
            let rows = match input {
                Input::Table(table) => {
                    let wanted = Wanted {
                        limit,
                        ..wanted(plan, frame)
                    };
                    let mut rows = self.read(table, references, wanted)?;
                    if let Some(chosen) = self.chosen(plan, frame, table)? {
                        let own = |key: &Arc<SetKey>| chosen.contains(&key.subset(&frame.counted));
                        let own: Vec<bool> = rows.sets.keys.iter().map(own).collect();
                        let own = |row: &usize| own.get(rows.set_of(*row) as usize) == Some(&true);
                        let kept: Vec<usize> = (0..rows.len()).filter(own).collect();
                        rows.keep(&kept);
                    }
                    rows
                }
                Input::Nested(inner) => self.nested(inner, plan, frame, references)?,
            };
            match &mut all {
                None => all = Some(rows),
                Some(all) => append(all, rows),
            }
        }
        let mut rows = all.unwrap_or_else(|| Rows::of(references.len()));
        // The rows of a lone query inside stay as it gave them.
        if !matches!(plan.inputs.as_slice(), [Input::Nested(_)]) {
            rows.sort(&frame.dimensions, plan.ascending);
        }
        Ok(rows)
    }

    /// The series that SLIMIT and SOFFSET leave of a measurement, whatever the time, where rows are read by more tags than these
    /// series have; `None` = all, or the series query counts them.
    pub(crate) fn chosen(
        &self,
        plan: &Plan,
        frame: &Frame,
        table: &Table,
    ) -> Result<Option<FxHashSet<SetKey>>, Error> {
        let (limit, offset) = frame.series;
        if (limit == 0 && offset == 0) || frame.counts_groups() {
            return Ok(None);
        }
        let (mut shape, _) = Wanted {
            ascending: true,
            group: &frame.counted,
            groups: frame.series,
            ..wanted(plan, frame)
        }
        .shape(table);
        shape.time = TimeRange::default();
        shape.rows = None;
        shape.columns = vec![Column {
            name: crate::select::steps::read::column_name(0),
            expr: nilometer_series::Expr::aggregate(Aggregate::Rows),
        }];
        let mut rows = Rows::of(0);
        let query = SeriesQuery::new(shape, self.context.limits)?;
        for batch in query.run(self.snapshot, self.context)? {
            crate::select::steps::read::add_groups(
                &mut rows,
                table,
                &frame.counted,
                &crate::select::steps::stored::with_time(&batch?),
            );
        }
        let keys = rows.sets.keys.iter();
        Ok(Some(keys.map(|key| key.copy()).collect()))
    }

    /// The rows of a query inside, under the condition of this one.
    fn nested(
        &self,
        inner: &Plan,
        plan: &Plan,
        frame: &Frame,
        references: &[Reference],
    ) -> Result<Rows, Error> {
        if let Some(rows) = self.viewed(plan, frame, references)? {
            return Ok(rows);
        }
        let answer = self.rows(inner, &frame.inner(inner, self.now_ns))?;
        let place = |name: &Reference| {
            let mut outputs = inner.outputs.iter();
            outputs.position(|output| *output.name == *name.name)
        };
        let mut names = references.to_vec();
        if let Some(condition) = &plan.condition {
            condition.walk(&mut |expr| {
                if let Expr::Reference(reference) = expr
                    // What has no column is another thing for a condition.
                    && !(names.contains(reference) && place(reference).is_some())
                {
                    names.push(reference.clone());
                }
            });
        }
        let mut rows = Rows {
            sets: answer.sets,
            set: answer.set,
            times: answer.times,
            columns: Vec::new(),
        };
        let mut columns: Vec<Option<Vec<Value>>> = answer.columns.into_iter().map(Some).collect();
        let mut taken: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, name) in names.iter().enumerate() {
            let column = match place(name) {
                Some(place) => {
                    let own = match taken.get(&place) {
                        Some(known) => rows.columns.get(*known).cloned(),
                        None => columns.get_mut(place).and_then(Option::take),
                    };
                    taken.entry(place).or_insert(rows.columns.len());
                    cast(own.unwrap_or_default(), kind_of_cast(name.cast))
                }
                // A condition sees all tags of the row, and an empty text of what is none; a field only those of the query inside.
                None if at < references.len() && !inner.group.contains(&name.name) => {
                    vec![Value::Null; rows.len()]
                }
                None => rows
                    .set
                    .iter()
                    .map(|set| {
                        let tag = rows.sets.key(*set).tag(&name.name);
                        tag.map_or_else(|| Value::Text("".into()), |tag| Value::Text(tag.clone()))
                    })
                    .collect(),
            };
            rows.columns.push(column);
        }
        if let Some(condition) = &plan.condition {
            filter(&mut rows, &names, std::slice::from_ref(condition), false)?;
        }
        rows.columns.truncate(references.len());
        rows.regroup(&frame.group);
        Ok(rows)
    }

    /// The rows of a query inside that a series query answers as columns; `None` = they have to be made.
    fn viewed(
        &self,
        plan: &Plan,
        frame: &Frame,
        references: &[Reference],
    ) -> Result<Option<Rows>, Error> {
        let view = View::within(self, plan, frame);
        let shape = view
            .as_ref()
            .and_then(|view| view.rows(references, plan, frame));
        let (Some(view), Some(shape)) = (view, shape) else {
            return Ok(None);
        };
        let places: Vec<Option<usize>> = (0..references.len()).map(Some).collect();
        let columns = (references.len(), places.as_slice());
        self.answer(view.table, shape, columns, &frame.group)
            .map(Some)
    }

    /// Rows of calls: the points of all of them, joined by group and time.
    fn called(&self, plan: &Plan, frame: &Frame, symbols: &Symbols) -> Result<Rows, Error> {
        // These make no bucket that has no point.
        let is_sparse = symbols.calls.iter().all(|(_, call)| {
            matches!(call.name.as_str(), "top" | "bottom" | "sample" | "distinct")
        });
        if let Some(window) = frame.window
            && frame.first_ns > TIME_MIN
            && !is_sparse
        {
            let length = i128::from(frame.last_ns) - i128::from(window.start(frame.first_ns));
            let buckets = u64::try_from(length / i128::from(window.width) + 1).unwrap_or(0);
            let buckets_max = self.context.limits.buckets;
            if buckets > buckets_max {
                return Err(Error::TooManyBuckets {
                    buckets,
                    buckets_max,
                });
            }
        }
        let mut sets = Sets::default();
        let selector = match symbols.calls.as_slice() {
            [(_, call)] => is_selector(&call.name),
            _ => false,
        };
        let aux = if symbols.calls.len() == 1 {
            symbols.references.as_slice()
        } else {
            &[]
        };
        let calls = self.calls(plan, frame, symbols, (aux, selector), &mut sets)?;
        let keep = matches!(plan.fill, Fill::Previous);
        let defaults = symbols.calls.iter().map(|(_, call)| {
            // A call of nothing that there is has no value, whatever fills the others.
            let Some(kind) = kind_of(&Expr::Call(call.clone())) else {
                return Value::Null;
            };
            match plan.fill {
                Fill::Integer(value) => Value::Integer(value).cast(kind),
                Fill::Float(value) => Value::Float(value).cast(kind),
                _ => Value::Null,
            }
        });
        let defaults: Vec<Value> = defaults.collect();
        let beside = symbols.references.iter().map(|name| match plan.fill {
            Fill::Integer(value) => filling(&Value::Integer(value), name),
            Fill::Float(value) => filling(&Value::Float(value), name),
            _ => Value::Null,
        });
        let beside: Vec<Value> = beside.collect();
        // Aggregates come bucket by bucket, whatever the times of the points that they chose.
        let streams = symbols.calls.iter().all(|(_, call)| {
            is_transform(&call.name) && matches!(call.arguments.first(), Some(Expr::Reference(_)))
        });
        let places = sets.places(&frame.dimensions);
        let key = |set: u32, time: i64| {
            let (some, all) = places.get(set as usize).copied().unwrap_or_default();
            // The buckets of a stream are those of the query around it, which may be in another time zone.
            let time = match frame.window {
                _ if streams => time,
                Some(window) => window.start(time),
                None => 0,
            };
            (some, time, all)
        };
        let mut rows = joined(
            calls,
            (&beside, &defaults),
            keep,
            (plan.ascending, &key, (plan.limit, plan.offset)),
        );
        rows.sets = sets;
        Ok(rows)
    }

    /// The columns of the answer, calculated of those of the symbols.
    fn calculated(&self, plan: &Plan, symbols: &Symbols, mut rows: Rows) -> Result<Rows, Error> {
        if symbols.calls.is_empty() {
            fill_raw(&mut rows, symbols, plan.fill);
        }
        let place = |named: Named<'_>| match named {
            Named::Reference(reference) => {
                symbols.references.iter().position(|name| name == reference)
            }
            Named::Call(Expr::Call(call)) => {
                let text = call.to_string();
                let place = symbols.calls.iter().position(|(known, _)| *known == text);
                place.map(|place| symbols.references.len() + place)
            }
            Named::Call(_) => None,
        };
        let mut columns = Vec::with_capacity(plan.outputs.len());
        let mut counts = vec![0_usize; rows.columns.len()];
        let nodes = plan
            .outputs
            .iter()
            .map(|output| Node::of(&output.expr, &place));
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        for node in &nodes {
            if let Node::Column(place) = node
                && let Some(count) = counts.get_mut(*place)
            {
                *count += 1;
            }
        }
        let are_columns = nodes
            .iter()
            .all(|node| matches!(node, Node::Column(_) | Node::Literal(_)));
        for node in &nodes {
            columns.push(match node {
                Node::Column(place) if are_columns && counts.get(*place) == Some(&1) => rows
                    .columns
                    .get_mut(*place)
                    .map(std::mem::take)
                    .unwrap_or_default(),
                node => (0..rows.len())
                    .map(|row| {
                        node.value(&|column| rows.value(column, row).clone(), Division::Float)
                    })
                    .collect(),
            });
        }
        for column in &mut columns {
            for value in column {
                if matches!(value, Value::Float(number) if number.is_nan()) {
                    *value = Value::Null;
                }
            }
        }
        let before = rows.bytes();
        rows.columns = columns;
        self.charge(rows.bytes().saturating_sub(before))?;
        Ok(rows)
    }
}

/// A number that fills a column beside a call; a text has none, and what nothing has takes it as it is.
fn filling(value: &Value, name: &Reference) -> Value {
    kind_of_cast(name.cast).map_or_else(|| value.clone(), |kind| value.cast(kind))
}
