//! Aggregates that the series' engine calculates.
//!
//! Does: ask for all aggregates of one range at once, by group and bucket, of a measurement or of a query inside.
//! Does not: fill, or transform (`calls`).

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use nilometer_influxql_syntax::ast::{Call, Expr, Reference};
use nilometer_series::{
    self as series, Aggregate, Bucket, Column, Limit, OrderBy, Selector, SeriesQuery, Shift, Width,
};

use crate::select::checked::window::Window;
use crate::select::error::Error;
use crate::select::planned::plan::Table;
use crate::select::planned::types::kind_of_cast;
use crate::select::run::Run;
use crate::select::steps::choices::is_choice;
use crate::select::steps::read::{Wanted, add_groups, add_values, column_name, stored};
use crate::select::steps::view::View;
use crate::select::values::points::{Point, Points};
use crate::select::values::rows::{Rows, Sets};
use crate::select::values::value::{Kind, Value};

/// An aggregate of a field, and what else is wanted of the row that it chooses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf<'a> {
    pub(crate) call: &'a Call,
    pub(crate) field: &'a Reference,
    /// The time of the chosen point is wanted, not that of the bucket.
    pub(crate) own_time: bool,
    pub(crate) aux: &'a [Reference],
}

impl Leaf<'_> {
    fn selector(&self) -> Option<Selector> {
        Some(match self.call.name.as_str() {
            "first" => Selector::First,
            "last" => Selector::Last,
            "min" => Selector::Min,
            "max" => Selector::Max,
            _ => return None,
        })
    }

    /// Whether the engine knows this aggregate of a field of this type.
    fn is_known(&self, kind: Kind) -> bool {
        let chooses = self.own_time || !self.aux.is_empty();
        match self.call.name.as_str() {
            "count" | "first" | "last" if kind == Kind::Boolean => self.call.name == "count",
            "first" | "last" | "count" => kind != Kind::Tag,
            "min" | "max" | "top" | "bottom" => kind.is_number(),
            "sum" | "mean" | "spread" | "stddev" | "median" => kind.is_number() && !chooses,
            "distinct" => kind != Kind::Tag && !chooses,
            _ => false,
        }
    }

    pub(crate) fn columns(
        &self,
        of: &series::Expr,
        source: Source<'_>,
        out: &mut Vec<series::Expr>,
    ) {
        let aggregate = |aggregate| series::Expr::aggregate(aggregate);
        let plain = of.clone();
        out.push(aggregate(match self.call.name.as_str() {
            "count" => Aggregate::Count(plain),
            "sum" => Aggregate::Sum(plain),
            "mean" => Aggregate::Mean(plain),
            "spread" => Aggregate::Spread(plain),
            "stddev" => Aggregate::Stddev(plain),
            "median" => Aggregate::Median(plain),
            "first" => Aggregate::First(plain),
            "last" => Aggregate::Last(plain),
            "min" => Aggregate::Min(plain),
            _ => Aggregate::Max(plain),
        }));
        if self.call.name == "stddev" {
            // Tells a bucket with one value from one without.
            out.push(aggregate(Aggregate::Count(of.clone())));
        }
        let Some(selector) = self.selector() else {
            return;
        };
        let select = |value| {
            aggregate(Aggregate::Select {
                selector,
                by: of.clone(),
                value,
            })
        };
        if self.own_time {
            out.push(select(series::Expr::Time));
        }
        for name in self.aux {
            let nothing = || series::Expr::literal(series::Value::Null);
            out.push(select(source.column(name).unwrap_or_else(nothing)));
        }
    }
}

/// Where the values of aggregates are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Table(&'a Table),
    /// In a query inside.
    View(&'a View<'a>),
}

impl<'a> Source<'a> {
    pub(crate) fn table(self) -> &'a Table {
        match self {
            Self::Table(table) => table,
            Self::View(view) => view.table,
        }
    }

    pub(crate) fn column(self, name: &Reference) -> Option<series::Expr> {
        match self {
            Self::Table(table) => stored(name, table),
            Self::View(view) => view.column(name).map(|(expr, _)| expr),
        }
    }

    /// Whether it has such a field. A query inside has all that are asked of it.
    pub(crate) fn has(self, field: &Reference) -> bool {
        match self {
            Self::Table(table) => table.has_field(&field.name),
            Self::View(_) => true,
        }
    }

    /// Whether the engine can answer all of this.
    pub(crate) fn answers(self, leaf: Leaf<'_>, window: Option<Window>) -> bool {
        match self {
            Self::Table(table) => is_stored(leaf, table, window),
            Self::View(view) => {
                let zoned = window.is_some_and(|window| window.zone.is_some());
                let chooses = leaf.own_time || !leaf.aux.is_empty();
                let is_known = view.column(leaf.field).is_some();
                is_known && !zoned && !chooses && view.answers(leaf.call, leaf.field)
            }
        }
    }
}

/// Whether the engine can answer all of this.
pub(crate) fn is_stored(leaf: Leaf<'_>, table: &Table, window: Option<Window>) -> bool {
    let kind = kind_of_cast(leaf.field.cast);
    let own = table
        .schemas
        .iter()
        .filter_map(|schema| crate::select::planned::names::field_kind(schema, &leaf.field.name));
    let is_same = own.clone().all(|own| Some(own) == kind) && own.count() > 0;
    let aux = leaf.aux.iter().all(|name| stored(name, table).is_some());
    let zoned = window.is_some_and(|window| window.zone.is_some());
    !zoned && aux && is_same && kind.is_some_and(|kind| leaf.is_known(kind))
}

impl Run<'_> {
    /// Points of several aggregates of one measurement, of all buckets or of the first that have rows; `None` = not all of its
    /// condition can be asked for.
    pub(crate) fn stored(
        &self,
        source: Source<'_>,
        leaves: &[Leaf<'_>],
        wanted: Wanted<'_>,
        (window, first): (Option<Window>, Option<u64>),
        sets: &mut Sets,
    ) -> Result<Option<Vec<Points>>, Error> {
        let table = source.table();
        if let [leaf] = leaves
            && is_choice(&leaf.call.name)
        {
            return self.chosen_points(table, *leaf, wanted, window, sets);
        }
        let (mut shape, rest) = match source {
            Source::Table(_) => wanted.shape(table),
            Source::View(view) => {
                let mut shape = view.grouped(wanted.group);
                shape.order.descending = !wanted.ascending;
                (shape, Vec::new())
            }
        };
        if let Some(buckets) = first {
            shape.order.by = OrderBy::Time;
            shape.limit = Some(Limit {
                rows: series::Value::Unsigned(buckets).into(),
                skip: series::Value::Unsigned(0).into(),
            });
        }
        if !rest.is_empty() {
            return Ok(None);
        }
        shape.bucket = window.map(bucket);
        let mut columns = Vec::new();
        let mut starts = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            starts.push(columns.len());
            if let Some(of) = source.column(leaf.field) {
                leaf.columns(&of, source, &mut columns);
            }
        }
        shape.columns = columns
            .into_iter()
            .enumerate()
            .map(|(place, expr)| Column {
                name: column_name(place),
                expr,
            })
            .collect();
        let query = SeriesQuery::new(shape, self.context.limits)?;
        let rows = self.grouped(&query, table, wanted, window.is_some())?;
        let numbers: Vec<u32> = rows
            .sets
            .keys
            .iter()
            .map(|key| sets.number(key.subset(wanted.group)))
            .collect();
        let points = leaves.iter().zip(&starts);
        Ok(Some(
            points
                .map(|(leaf, start)| of_leaf(*leaf, *start, &rows, &numbers))
                .collect(),
        ))
    }

    /// The rows that a query answers, with their groups. Those without a time in front get the start of what is wanted.
    pub(super) fn grouped(
        &self,
        query: &SeriesQuery,
        table: &Table,
        wanted: Wanted<'_>,
        has_time: bool,
    ) -> Result<Rows, Error> {
        let before = usize::from(has_time) + wanted.group.len();
        let mut rows = Rows::of(query.shape().columns.len());
        for batch in query.run(self.snapshot, self.context)? {
            let batch = batch?;
            let bytes = rows.bytes();
            if has_time {
                let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
                rows.times.extend_from_slice(times.values());
                add_groups(&mut rows, table, wanted.group, &batch);
            } else {
                let times = std::iter::repeat_n(wanted.start(), batch.num_rows());
                rows.times.extend(times);
                add_groups(&mut rows, table, wanted.group, &with_time(&batch));
            }
            let own = batch.columns().iter().skip(before);
            for (column, array) in rows.columns.iter_mut().zip(own) {
                add_values(array, column);
            }
            self.charge(rows.bytes() - bytes)?;
        }
        Ok(rows)
    }
}

/// The buckets of a window that is in no time zone.
pub(crate) fn bucket(window: Window) -> Bucket {
    Bucket {
        width: Width::Fixed(window.width),
        origin_ns: 0,
        offset: Shift {
            months: 0,
            fixed_ns: window.offset,
        },
        zone: None,
    }
}

/// The batch with a column in front, so that its groups stand where those of rows do.
pub(crate) fn with_time(batch: &arrow_array::RecordBatch) -> arrow_array::RecordBatch {
    use std::sync::Arc;
    let rows = i64::try_from(batch.num_rows()).unwrap_or_default();
    let front: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from_iter_values(0..rows));
    let mut fields = vec![Arc::new(arrow_schema::Field::new(
        "\u{1}",
        front.data_type().clone(),
        true,
    ))];
    fields.extend(batch.schema().fields().iter().cloned());
    let mut columns = vec![front];
    columns.extend(batch.columns().iter().cloned());
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    arrow_array::RecordBatch::try_new(schema, columns).unwrap_or_else(|_| batch.clone())
}

fn of_leaf(leaf: Leaf<'_>, start: usize, rows: &Rows, numbers: &[u32]) -> Points {
    let aux = start + 1 + usize::from(leaf.own_time);
    let is_count = leaf.call.name == "count";
    let tags = leaf
        .aux
        .iter()
        .map(|name| kind_of_cast(name.cast) == Some(Kind::Tag));
    let tags: Vec<bool> = tags.collect();
    let mut points = Points::default();
    let mut last = None;
    for row in 0..rows.len() {
        let value = rows.value(start, row);
        // A bucket that only other aggregates have values in.
        let is_one = leaf.call.name == "stddev" && *rows.value(start + 1, row) == Value::Integer(1);
        let is_absent = value.is_null() && !is_one;
        if is_absent || (is_count && *value == Value::Integer(0)) {
            continue;
        }
        let value = match value {
            Value::Null => Value::Float(f64::NAN),
            // A sum begins at 0, which numbers of -0 leave as it is.
            Value::Float(sum) if matches!(leaf.call.name.as_str(), "sum" | "mean") => {
                Value::Float(sum + 0.0)
            }
            other => other.clone(),
        };
        let time = match rows.value(start + 1, row) {
            Value::Integer(own) if leaf.own_time => *own,
            _ => rows.time_of(row),
        };
        let point = Point {
            time,
            value,
            aux: (0..leaf.aux.len())
                .map(|place| match rows.value(aux + place, row) {
                    // No tag is empty: this one is absent.
                    Value::Text(text) if text.is_empty() && tags.get(place) == Some(&true) => {
                        Value::Null
                    }
                    value => value.clone(),
                })
                .collect(),
        };
        let set = rows.set_of(row);
        if last != Some(set) {
            last = Some(set);
            let number = numbers.get(set as usize).copied().unwrap_or_default();
            points.groups.push((number, Vec::new()));
        }
        if let Some((_, own)) = points.groups.last_mut() {
            own.push(point);
        }
    }
    points
}

/// The field of a call, if it has one as it is.
pub(crate) fn field_of(call: &Call) -> Option<&Reference> {
    match call.arguments.first() {
        Some(Expr::Reference(reference)) => Some(reference),
        _ => None,
    }
}
