//! A question that is known is written down.
//!
//! Does: make the shape of the series query, and say which of its columns are those of the plan. Does not: read.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use nilometer_engine::{Narrowing, TIME_COLUMN, TimeKind, shown_time_type};
use nilometer_series::{
    Aggregate, Binary, Column as SeriesColumn, Expr, Limit, Literal, MEAN_SCALE, Order, OrderBy,
    Rules, Selector, SeriesQuery, Shape, Source, TOP_ROWS_MAX, TableName, TagExpr, TimeRange, Type,
    Value,
};

use super::condition;
use super::group::Ends;
use super::view::{Column, View};
use crate::planning::recognised::{Output, Recognised, Shown, TableRead, limits};

impl View {
    /// The series query; `None` = a column of the plan is none of its own, or of another type.
    pub(super) fn finish(mut self, plan: &Schema) -> Option<Recognised> {
        if plan.fields().len() != self.columns.len() {
            return None;
        }
        let mut shape = Shape::of(Rules::Postgres, self.source());
        if self.below.is_none() {
            let (from, to) = condition::time_range(&self.time());
            shape.time = TimeRange { from, to };
        }
        let mut rows = self.rows.iter().cloned();
        shape.rows = rows
            .next()
            .map(|first| rows.fold(first, |all, one| Expr::binary(Binary::And, all, one)));
        let group = self.group();
        let tag_name = |tag: &usize| Some(self.names.tags.get(*tag)?.name.clone());
        shape.group = group.iter().map(tag_name).collect::<Option<_>>()?;
        let grouped = self.grouped.as_ref();
        shape.bucket = grouped.and_then(|grouped| grouped.bucket.clone());
        let ends = grouped.and_then(|grouped| grouped.ends);
        shape.limit_per_group = ends.map(|ends| limit(ends.skip, ends.rows));
        shape.order = self.shape_order(ends);
        shape.limit = self
            .limit
            .map(|of| limit(of.skip, of.rows.unwrap_or(i64::MAX as u64)));
        shape.with_ties = self.with_ties;
        let is_aggregate = grouped.is_some() && ends.is_none();
        let outputs = self.outputs(plan, &mut shape, &group, is_aggregate)?;
        shape.tags = all_of(self.tags.clone());
        // A tag may be called as the time is.
        SeriesQuery::new(shape.clone(), limits()).ok()?;
        let schema = Arc::new(plan.clone());
        if let Some(below) = self.below.take() {
            return Some(Recognised {
                shape,
                outputs,
                schema,
                ..*below
            });
        }
        let used = self.positions(&group);
        let narrowing = self.narrowing(is_aggregate);
        let limit = self
            .limit
            .filter(|_| self.streams() && self.rows.is_empty());
        let limit = limit.and_then(|limit| limit.rows?.checked_add(limit.skip));
        Some(Recognised {
            time: self.time(),
            tags: self.tags,
            holes: self.holes,
            chosen: self.chosen,
            table: TableRead {
                snapshot: Arc::clone(self.table.snapshot()),
                schema: Arc::clone(self.table.table_schema()),
                threads: self.table.threads(),
                name: self.table.name().clone(),
                narrowing,
                limit: limit.and_then(|rows| usize::try_from(rows).ok()),
                pushdown: self.pushdown,
                columns: used,
            },
            shape,
            outputs,
            schema,
        })
    }

    /// The table, or the question below.
    fn source(&self) -> Source {
        if let Some(below) = &self.below {
            return Source::Nested(Box::new(below.shape.clone()));
        }
        let name = self.table.name();
        Source::Tables(vec![TableName {
            database: name.database.clone(),
            schema: Some(name.schema.clone()),
            table: name.table.clone(),
        }])
    }

    /// The tags of the groups, or those that rows are ordered by.
    fn group(&self) -> Vec<usize> {
        let ordered = self.order.as_ref().map(|order| order.tags.as_slice());
        let mut group = ordered.unwrap_or_default().to_vec();
        if let Some(grouped) = &self.grouped {
            let others = grouped.tags.iter().filter(|tag| !group.contains(tag));
            let others: Vec<usize> = others.copied().collect();
            group.extend(others);
        }
        group
    }

    fn shape_order(&self, ends: Option<Ends>) -> Order {
        let ordered = self.order.as_ref().map(|order| Order {
            by: order.by,
            descending: order.descending,
        });
        let descending = ends.is_some_and(|ends| ends.descending);
        let by = if ends.is_some() {
            OrderBy::Group
        } else {
            OrderBy::Nothing
        };
        ordered.unwrap_or(Order { by, descending })
    }

    /// Adds the columns of the answer, and says where each column of the plan is among them.
    fn outputs(
        &self,
        plan: &Schema,
        shape: &mut Shape,
        group: &[usize],
        is_aggregate: bool,
    ) -> Option<Vec<Output>> {
        let shows_time = !is_aggregate || shape.bucket.is_some();
        let first = usize::from(shows_time);
        let mut taken: Vec<String> = shape.group.clone();
        taken.push(TIME_COLUMN.to_owned());
        let mut outputs = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter().zip(plan.fields()) {
            let (kind, shown) = self.kind(column)?;
            if kind != *field.data_type() {
                return None;
            }
            let mut add = |place: usize| outputs.push(Output { place, shown });
            let expr = match column {
                Column::Time if !is_aggregate => {
                    add(0);
                    continue;
                }
                // Its buckets are those that rows were put in.
                Column::Bucket(bucket) if shape.bucket.as_ref() == Some(bucket) => {
                    add(0);
                    continue;
                }
                Column::Tag(tag) => match group.iter().position(|of| of == tag) {
                    Some(place) => {
                        add(first + place);
                        continue;
                    }
                    None if is_aggregate => return None,
                    None => Expr::Tag(self.names.tags.get(*tag)?.name.clone()),
                },
                Column::Field(field) if !is_aggregate => {
                    Expr::Field(self.names.fields.get(*field)?.name.clone())
                }
                Column::Aggregate(expr) if is_aggregate || self.below.is_some() => expr.clone(),
                _ => return None,
            };
            let known = shape.columns.iter().position(|it| it.expr == expr);
            let place = known.unwrap_or_else(|| {
                let name = unique(field, &taken);
                taken.push(name.clone());
                shape.columns.push(SeriesColumn { name, expr });
                shape.columns.len() - 1
            });
            add(first + group.len() + place);
        }
        if is_aggregate && shape.columns.is_empty() && shape.bucket.is_none() {
            // Which groups there are is known when their rows are counted.
            let name = unique_name("rows", &taken);
            let expr = Expr::aggregate(Aggregate::Rows);
            shape.columns.push(SeriesColumn { name, expr });
        }
        Some(outputs)
    }

    /// The type of a column, and how its values become those.
    fn kind(&self, column: &Column) -> Option<(DataType, Shown)> {
        let as_stored = |kind: DataType| (kind, Shown::AsStored);
        let time = || match self.names.time {
            TimeKind::TimestampTz => as_stored(Type::Time.arrow()),
            kind => (shown_time_type(kind), Shown::Time(kind)),
        };
        Some(match column {
            Column::Time | Column::Bucket(_) => time(),
            Column::Tag(tag) if self.names.tags.get(*tag)?.is_integer => {
                (DataType::Int64, Shown::Integers)
            }
            Column::Tag(_) => as_stored(DataType::Dictionary(
                Box::new(DataType::Int32),
                Box::new(DataType::Utf8),
            )),
            Column::Field(field) => {
                let field = self.names.fields.get(*field)?;
                match field.shown {
                    Some(of) => (of.shown_type(), Shown::Type(of)),
                    None => as_stored(field.kind.arrow()),
                }
            }
            Column::Aggregate(expr) => match self.type_of(expr)? {
                Type::Time => time(),
                kind => as_stored(kind.arrow()),
            },
            Column::Number => return None,
        })
    }

    /// The type of an expression.
    pub(super) fn type_of(&self, expr: &Expr) -> Option<Type> {
        match expr {
            Expr::Time => Some(Type::Time),
            Expr::Field(name) => {
                let mut fields = self.names.fields.iter();
                fields
                    .find(|field| field.name == *name)
                    .map(|field| field.kind)
            }
            Expr::Binary(Binary::Divide, of, _) => self.type_of(of),
            Expr::Aggregate(aggregate) => match aggregate.as_ref() {
                Aggregate::Rows | Aggregate::Count(_) => Some(Type::Int),
                Aggregate::Mean(_) => Some(Type::Float),
                Aggregate::NumericSum(_) => Some(Type::Numeric(0)),
                Aggregate::NumericMean(_) => Some(Type::Numeric(MEAN_SCALE)),
                Aggregate::Sum(of)
                | Aggregate::Min(of)
                | Aggregate::Max(of)
                | Aggregate::Select { value: of, .. } => self.type_of(of),
                _ => None,
            },
            _ => None,
        }
    }

    /// Positions of the columns that are read, for EXPLAIN.
    fn positions(&self, group: &[usize]) -> Vec<usize> {
        let tags = self.schema().tags.len();
        let mut positions: Vec<usize> = Vec::new();
        let mut add = |position: usize| {
            if !positions.contains(&position) {
                positions.push(position);
            }
        };
        for column in &self.columns {
            match column {
                Column::Time | Column::Bucket(_) => add(0),
                Column::Tag(tag) => add(1 + tag),
                Column::Field(field) => add(1 + tags + field),
                Column::Aggregate(expr) => {
                    for (at, field) in self.schema().fields.iter().enumerate() {
                        if expr.names_field(&field.name) {
                            add(1 + tags + at);
                        }
                    }
                }
                Column::Number => {}
            }
        }
        for tag in group {
            add(1 + tag);
        }
        if self.order.is_some() {
            add(0);
        }
        positions.sort_unstable();
        positions
    }

    /// How the engine's scan is narrowed, for EXPLAIN.
    fn narrowing(&self, is_aggregate: bool) -> Narrowing {
        if !self.rows.is_empty() {
            return Narrowing::None;
        }
        if is_aggregate {
            return self.ends_of_series().unwrap_or(Narrowing::None);
        }
        if let Some(ends) = self.grouped.as_ref().and_then(|grouped| grouped.ends) {
            let rows = usize::try_from(ends.skip + ends.rows).unwrap_or(usize::MAX);
            let (first, last) = if ends.descending {
                (0, rows)
            } else {
                (rows, 0)
            };
            return Narrowing::Ends { first, last };
        }
        let (Some(order), Some(limit)) = (&self.order, self.limit) else {
            return Narrowing::None;
        };
        let rows = limit.rows.map(|rows| rows.saturating_add(limit.skip));
        match rows.filter(|rows| *rows > 0 && *rows <= TOP_ROWS_MAX) {
            Some(rows) if order.by == OrderBy::Time => Narrowing::Top {
                rows: usize::try_from(rows).unwrap_or(usize::MAX),
                newest: order.descending,
                ties: true,
            },
            _ => Narrowing::None,
        }
    }

    /// The ends of each series, where groups are asked for nothing else.
    fn ends_of_series(&self) -> Option<Narrowing> {
        let grouped = self.grouped.as_ref()?;
        if grouped.bucket.is_some() {
            return None;
        }
        let (mut first, mut last) = (0, 0);
        for column in &self.columns {
            let Column::Aggregate(Expr::Aggregate(aggregate)) = column else {
                continue;
            };
            match aggregate.as_ref() {
                Aggregate::Select {
                    selector: Selector::First,
                    ..
                }
                | Aggregate::Min(Expr::Time) => first = 1,
                Aggregate::Select { .. } | Aggregate::Max(Expr::Time) => last = 1,
                _ => return None,
            }
        }
        (first + last > 0).then_some(Narrowing::Ends { first, last })
    }
}

/// All of some conditions.
pub(crate) fn all_of(mut tags: Vec<TagExpr>) -> TagExpr {
    match tags.len() {
        0 => TagExpr::All,
        1 => tags.pop().unwrap_or(TagExpr::All),
        _ => TagExpr::And(tags),
    }
}

fn limit(skip: u64, rows: u64) -> Limit {
    let number =
        |number: u64| Literal::Value(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    Limit {
        rows: number(rows),
        skip: number(skip),
    }
}

/// The name of a column, which no other one of the answer has.
fn unique(field: &Field, taken: &[String]) -> String {
    unique_name(field.name(), taken)
}

fn unique_name(name: &str, taken: &[String]) -> String {
    if !taken.iter().any(|it| it == name) {
        return name.to_owned();
    }
    let mut numbered = (1..).map(|number| format!("{name}_{number}"));
    numbered
        .find(|name| !taken.contains(name))
        .unwrap_or_default()
}
