//! Aggregates over a join of series with what their tags stand for: the series are aggregated by the tag before they are joined.
//!
//! `SELECT t.fleet, avg(r.velocity) FROM tags t JOIN readings r ON r.tags_id = t.id GROUP BY t.fleet` joins every reading with its truck.
//! Each truck's readings can be added up first, by a series query; what is joined then is a row a truck.
//!
//! Does: count, sum, average and extremes of columns of either side, in groups of columns of the other. Does not: anything where
//! the series' own part is not recognised, sums of integers (their types grow), DISTINCT, FILTER.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, NullEquality, Result};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
    cast, lit, when,
};

use super::group::call;
use super::{part, reads_tables};
use crate::walk::PlanWalk;

/// The same plan with the series aggregated first; `None` = it is no such plan, or the series' part is no series query.
pub(super) fn series_first(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(None);
    };
    let Some(joined) = Joined::of(aggregate) else {
        return Ok(None);
    };
    for side in joined.sides() {
        if let Some(first) = side.aggregated(aggregate, &joined)? {
            return Ok(Some(first));
        }
    }
    Ok(None)
}

/// An inner join below an aggregate.
struct Joined<'a> {
    join: &'a Join,
    /// Between the two.
    projection: Option<&'a Projection>,
    left: &'a Column,
    right: &'a Column,
}

/// The side that has the series, and the other one.
struct Side<'a> {
    series: &'a LogicalPlan,
    key: &'a Column,
    other: &'a LogicalPlan,
    other_key: &'a Column,
}

/// A column, and whose it is.
enum Of {
    Series(Column, DataType),
    Other(Column, DataType),
}

impl<'a> Joined<'a> {
    fn of(aggregate: &'a Aggregate) -> Option<Self> {
        let (projection, below) = match aggregate.input.as_ref() {
            LogicalPlan::Projection(projection) => (Some(projection), projection.input.as_ref()),
            input => (None, input),
        };
        let LogicalPlan::Join(join) = below else {
            return None;
        };
        let [(Expr::Column(left), Expr::Column(right))] = join.on.as_slice() else {
            return None;
        };
        let is_plain = join.join_type == JoinType::Inner
            && join.filter.is_none()
            && join.null_equality == NullEquality::NullEqualsNothing
            && !aggregate.group_expr.is_empty();
        is_plain.then_some(Self {
            join,
            projection,
            left,
            right,
        })
    }

    fn sides(&self) -> [Side<'a>; 2] {
        let (left, right) = (self.join.left.as_ref(), self.join.right.as_ref());
        [
            (right, self.right, left, self.left),
            (left, self.left, right, self.right),
        ]
        .map(|(series, key, other, other_key)| Side {
            series,
            key,
            other,
            other_key,
        })
    }

    /// The column of the join that an expression over the aggregate's input is.
    fn column(&self, expr: &Expr) -> Option<Column> {
        let Expr::Column(column) = expr else {
            return None;
        };
        let Some(projection) = self.projection else {
            return Some(column.clone());
        };
        let at = projection.schema.maybe_index_of_column(column)?;
        match projection.expr.get(at)?.clone().unalias() {
            Expr::Column(column) => Some(column),
            _ => None,
        }
    }
}

impl Side<'_> {
    fn aggregated(
        &self,
        aggregate: &Aggregate,
        joined: &Joined<'_>,
    ) -> Result<Option<LogicalPlan>> {
        // One that has a row a tag already gains nothing, and would be begun again for ever.
        if self.is_by_key() {
            return Ok(None);
        }
        let Some(made) = self.made(aggregate, joined) else {
            return Ok(None);
        };
        let mut input = LogicalPlanBuilder::from(self.series.clone());
        // What the other side leaves of the tags is worth knowing if reading that side twice is cheap, and says the same twice.
        if is_filtered_relation(self.other)? {
            let keys = (vec![self.key.clone()], vec![self.other_key.clone()]);
            input = input.join(self.other.clone(), JoinType::LeftSemi, keys, None)?;
        }
        let partial = input.build()?;
        let partial = Aggregate::try_new(
            Arc::new(partial),
            vec![Expr::Column(self.key.clone())],
            made.partial.clone(),
        )?;
        let partial = LogicalPlan::Aggregate(partial);
        if part(&partial)?.is_none() {
            return Ok(None);
        }
        let partials: Vec<Expr> = (1..partial.schema().fields().len())
            .map(|at| Expr::Column(Column::from(partial.schema().qualified_field(at))))
            .collect();
        let keys = (vec![self.other_key.clone()], vec![self.key.clone()]);
        // A name that both sides have is a reason to leave all as it was.
        let Ok(join) =
            LogicalPlanBuilder::from(self.other.clone()).join(partial, JoinType::Inner, keys, None)
        else {
            return Ok(None);
        };
        let Ok(join) = join.build() else {
            return Ok(None);
        };
        let of_columns: Vec<Vec<Expr>> = made.finals.iter().map(|it| it.calls(&partials)).collect();
        let calls: Vec<Expr> = of_columns.iter().flatten().cloned().collect();
        let outer = Aggregate::try_new(Arc::new(join), made.groups, calls)?;
        let columns = shown(aggregate, &outer, &made.finals, &of_columns);
        let outer = LogicalPlan::Aggregate(outer);
        Ok(Some(LogicalPlan::Projection(Projection::try_new(
            columns,
            Arc::new(outer),
        )?)))
    }

    /// Whether the series' side is grouped by the key alone.
    fn is_by_key(&self) -> bool {
        let LogicalPlan::Aggregate(aggregate) = rows_of(self.series) else {
            return false;
        };
        aggregate.group_expr.len() == 1
    }

    /// Whose a column is.
    fn of(&self, expr: &Expr, joined: &Joined<'_>) -> Option<Of> {
        let column = joined.column(expr)?;
        let kind = |schema: &DFSchema| {
            let at = schema.maybe_index_of_column(&column)?;
            Some(schema.field(at).data_type().clone())
        };
        if let Some(kind) = kind(self.other.schema()) {
            return Some(Of::Other(column, kind));
        }
        let kind = kind(self.series.schema())?;
        Some(Of::Series(column, kind))
    }

    /// What is made of the series, and of that.
    fn made(&self, aggregate: &Aggregate, joined: &Joined<'_>) -> Option<Made> {
        let mut groups = Vec::with_capacity(aggregate.group_expr.len());
        for group in &aggregate.group_expr {
            match self.of(group, joined)? {
                Of::Other(column, _) => groups.push(Expr::Column(column)),
                Of::Series(..) => return None,
            }
        }
        let mut made = Made {
            groups,
            partial: Vec::new(),
            finals: Vec::with_capacity(aggregate.aggr_expr.len()),
        };
        for expr in &aggregate.aggr_expr {
            let made_of = self.call(call(expr)?, joined, &mut made)?;
            made.finals.push(made_of);
        }
        // A count of rows, so that there is something to be made.
        if made.partial.is_empty() {
            made.partial(count_udaf(), lit(1_i64));
        }
        Some(made)
    }

    fn call(
        &self,
        call: &AggregateFunction,
        joined: &Joined<'_>,
        made: &mut Made,
    ) -> Option<Final> {
        let params = &call.params;
        let is_plain = !params.distinct
            && params.filter.is_none()
            && params.order_by.is_empty()
            && params.null_treatment.is_none();
        let ([argument], true) = (params.args.as_slice(), is_plain) else {
            return None;
        };
        let name = call.func.name();
        if let Expr::Literal(value, _) = argument {
            let counts = name == "count" && !value.is_null();
            return counts.then(|| Final::Counts(made.partial(count_udaf(), lit(1_i64))));
        }
        Some(match (self.of(argument, joined)?, name) {
            (Of::Series(column, _), "count") => {
                Final::Counts(made.partial(count_udaf(), Expr::Column(column)))
            }
            (Of::Series(column, _), "min" | "max") => {
                let func = Arc::clone(&call.func);
                let partial = made.partial(Arc::clone(&func), Expr::Column(column));
                Final::Extreme(func, partial)
            }
            (Of::Series(column, DataType::Float64), "sum") => {
                Final::Sums(made.partial(sum_udaf(), Expr::Column(column)))
            }
            (Of::Series(column, DataType::Float64), "avg") => {
                let column = Expr::Column(column);
                let sums = made.partial(sum_udaf(), column.clone());
                Final::Mean(sums, made.partial(count_udaf(), column))
            }
            (Of::Other(column, _), "min" | "max") => {
                Final::Other(Arc::clone(&call.func), Expr::Column(column))
            }
            (Of::Other(column, DataType::Float64), "avg") => {
                let rows = made.partial(count_udaf(), lit(1_i64));
                Final::Weighted(Expr::Column(column), rows)
            }
            _ => return None,
        })
    }
}

/// The rows of a side, below their names.
fn rows_of(mut plan: &LogicalPlan) -> &LogicalPlan {
    loop {
        plan = match plan {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(projection) => &projection.input,
            plan => return plan,
        };
    }
}

/// Whether a plan is filtered rows of one relation, without anything that another reading would answer otherwise.
fn is_filtered_relation(plan: &LogicalPlan) -> Result<bool> {
    let is_filtered = match rows_of(plan) {
        LogicalPlan::Filter(_) => true,
        // Those that the relation answers itself.
        LogicalPlan::TableScan(scan) => !scan.filters.is_empty(),
        _ => false,
    };
    if !is_filtered || reads_tables(plan)? {
        return Ok(false);
    }
    let mut is_same = true;
    plan.walk(&mut |node| {
        is_same &= match node {
            LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => {
                !node.expressions().iter().any(Expr::is_volatile)
            }
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_same)
}

/// What becomes of an aggregate.
struct Made {
    groups: Vec<Expr>,
    /// Aggregates of the series.
    partial: Vec<Expr>,
    finals: Vec<Final>,
}

impl Made {
    /// The place of an aggregate of the series.
    fn partial(&mut self, func: Arc<AggregateUDF>, argument: Expr) -> usize {
        let expr = aggregate(func, argument);
        let known = self.partial.iter().position(|it| *it == expr);
        known.unwrap_or_else(|| {
            self.partial.push(expr);
            self.partial.len() - 1
        })
    }
}

/// How a column of the aggregate is made of aggregates of the series, by their places.
enum Final {
    Counts(usize),
    Sums(usize),
    /// Of sums and counts.
    Mean(usize, usize),
    Extreme(Arc<AggregateUDF>, usize),
    /// Of a column of the other side, in which joined rows repeat nothing that it sees.
    Other(Arc<AggregateUDF>, Expr),
    /// The mean of a column of the other side, and how many rows each of its rows meets.
    Weighted(Expr, usize),
}

impl Final {
    /// The aggregates over the joined rows.
    fn calls(&self, partials: &[Expr]) -> Vec<Expr> {
        let partial = |at: usize| partials.get(at).cloned().unwrap_or_else(|| lit(0_i64));
        match self {
            Self::Counts(at) | Self::Sums(at) => vec![aggregate(sum_udaf(), partial(*at))],
            Self::Mean(sums, counts) => vec![
                aggregate(sum_udaf(), partial(*sums)),
                aggregate(sum_udaf(), partial(*counts)),
            ],
            Self::Extreme(func, at) => vec![aggregate(Arc::clone(func), partial(*at))],
            Self::Other(func, column) => vec![aggregate(Arc::clone(func), column.clone())],
            Self::Weighted(column, rows) => {
                let weighted = column.clone() * cast(partial(*rows), DataType::Float64);
                let counted = when(column.clone().is_null(), lit(0_i64)).otherwise(partial(*rows));
                let counted = counted.unwrap_or_else(|_| partial(*rows));
                vec![
                    aggregate(sum_udaf(), weighted),
                    aggregate(sum_udaf(), counted),
                ]
            }
        }
    }

    /// The column, of these aggregates.
    fn shown(&self, calls: &[Expr]) -> Expr {
        let at = |at: usize| calls.get(at).cloned().unwrap_or_else(|| lit(0_i64));
        match self {
            // Never NULL, as a count is.
            Self::Counts(_) => when(at(0).is_not_null(), at(0))
                .otherwise(lit(0_i64))
                .unwrap_or_else(|_| at(0)),
            Self::Sums(_) | Self::Extreme(..) | Self::Other(..) => at(0),
            Self::Mean(..) | Self::Weighted(..) => {
                at(0) / nullif(cast(at(1), DataType::Float64), lit(0.0))
            }
        }
    }
}

fn aggregate(func: Arc<AggregateUDF>, argument: Expr) -> Expr {
    let call = AggregateFunction::new_udf(func, vec![argument], false, None, Vec::new(), None);
    Expr::AggregateFunction(call)
}

/// The columns of the aggregate that was, under their names.
fn shown(was: &Aggregate, outer: &Aggregate, finals: &[Final], calls: &[Vec<Expr>]) -> Vec<Expr> {
    let groups = was.group_expr.len();
    let mut at = groups;
    let outer_column = |at: usize| Expr::Column(Column::from(outer.schema.qualified_field(at)));
    let mut columns = Vec::with_capacity(was.schema.fields().len());
    for (place, (qualifier, field)) in was.schema.iter().enumerate() {
        let expr = match place.checked_sub(groups) {
            None => outer_column(place),
            Some(of) => {
                let own = calls.get(of).map_or(0, Vec::len);
                let own: Vec<Expr> = (at..at + own).map(outer_column).collect();
                at += own.len();
                finals
                    .get(of)
                    .map_or_else(|| lit(0_i64), |of| of.shown(&own))
            }
        };
        columns.push(expr.alias_qualified(qualifier.cloned(), field.name()));
    }
    columns
}
