//! `(SELECT ...)` as a value that speaks of the outer row.
//!
//! One without a table is what it selects. One over an aggregate of all its rows may select the outer row's columns too. And where
//! its rows are found otherwise than by equality, the outer rows are numbered and joined with them, and each number is a group.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, Window,
    WindowFrame, WindowFunctionDefinition, lit,
};

use super::{FOUND, INNER, beside, has_subquery, only, replaced, selected};
use crate::semantics::lateral::key;
use crate::walk::ExprWalk;

/// The subquery, if an expression is one that speaks of the outer row.
pub(super) fn outer_scalar(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => Some(subquery),
        _ => None,
    }
}

/// The node with such subqueries placed beside the outer row, as far as they can be.
pub(super) fn placed(node: LogicalPlan, tables: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut is_asked = false;
    for expr in node.expressions() {
        is_asked |= expr.has(&mut |part| Ok(outer_scalar(part).is_some()))?;
    }
    let [input] = node.inputs()[..] else {
        return Ok(Transformed::no(node));
    };
    if !is_asked {
        return Ok(Transformed::no(node));
    }
    let columns = input.schema().columns();
    let mut input = input.clone();
    let may_join = matches!(
        node,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_)
    );
    let mut is_joined = false;
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let placed = expr.replace_down(&mut |part| {
            let Some(asked) = outer_scalar(&part) else {
                return Ok(Transformed::no(part));
            };
            let first = first_of(asked)?;
            let only = match &first {
                Some(_) => None,
                None => only::counted(asked)?,
            };
            let subquery = first.as_ref().or(only.as_ref()).unwrap_or(asked);
            if let Some(value) = selected_beside(subquery, input.schema())? {
                return Ok(Transformed::yes(value));
            }
            if may_join
                && let Some(rows) = Rows::of(&subquery.subquery)?
                && let Some((plan, values)) = rows.join(input.clone(), *tables + 1)?
                && let [value] = values.as_slice()
            {
                *tables += 1;
                input = plan;
                is_joined = true;
                let value = value.clone();
                return Ok(Transformed::yes(match only {
                    Some(_) => only::value(value),
                    None => value,
                }));
            }
            Ok(match (first, only) {
                (Some(first), _) => Transformed::yes(Expr::ScalarSubquery(first)),
                (None, Some(only)) => Transformed::yes(only::value(Expr::ScalarSubquery(only))),
                (None, None) => Transformed::no(part),
            })
        })?;
        exprs.push(name.restore(placed.data));
    }
    let is_filter = matches!(node, LogicalPlan::Filter(_));
    let mut node = node.with_new_exprs(exprs, vec![input])?;
    if is_filter && is_joined {
        let columns = columns.into_iter().map(Expr::Column);
        node = LogicalPlanBuilder::from(node).project(columns)?.build()?;
    }
    Ok(Transformed::yes(node))
}

/// What is selected, beside the outer row: all of it without a table, and otherwise around aggregates, of which there is
/// always one row.
fn selected_beside(subquery: &Subquery, outer: &DFSchema) -> Result<Option<Expr>> {
    let Some((exprs, input)) = selected(&subquery.subquery)? else {
        return Ok(None);
    };
    let [expr] = exprs.as_slice() else {
        return Ok(None);
    };
    match input {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
            let value = beside(expr.clone(), outer)?;
            Ok((!value.contains_outer()).then_some(value))
        }
        LogicalPlan::Aggregate(aggregate)
            if aggregate.group_expr.is_empty() && expr.contains_outer() =>
        {
            let value = beside(expr.clone(), outer)?;
            if value.contains_outer() {
                return Ok(None);
            }
            // Outer columns may be called as inner ones are, so that the inner ones are replaced where they still are alone.
            let value = replaced(expr.clone(), &aggregate.schema, |_, column| {
                let one = LogicalPlanBuilder::from(input.clone())
                    .project(vec![Expr::Column(column.clone())])?
                    .build()?;
                Ok(Expr::ScalarSubquery(Subquery {
                    outer_ref_columns: one.all_out_ref_exprs(),
                    subquery: Arc::new(one),
                    spans: subquery.spans.clone(),
                }))
            })?;
            Ok(Some(beside(value, outer)?))
        }
        _ => Ok(None),
    }
}

/// The subquery of one row, `ORDER BY ... LIMIT 1`, as one over an aggregate, which is NULL for no row as the subquery is.
fn first_of(subquery: &Subquery) -> Result<Option<Subquery>> {
    let LogicalPlan::Limit(limit) = subquery.subquery.as_ref() else {
        return Ok(None);
    };
    let (Ok(SkipType::Literal(0)), Ok(FetchType::Literal(Some(1)))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return Ok(None);
    };
    // A sort by what is not selected has a projection above it that takes the column away again.
    let (above, sorted) = match selected(&limit.input)? {
        Some((exprs, plan @ LogicalPlan::Sort(_))) => (Some(exprs), plan),
        _ => (None, limit.input.as_ref()),
    };
    let (mut order_by, plan) = match sorted {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), sort.input.as_ref()),
        plan => (Vec::new(), plan),
    };
    let Some((exprs, rows)) = selected(plan)? else {
        return Ok(None);
    };
    let below = |expr: Expr| {
        replaced(expr, plan.schema(), |place, column| {
            let expr = exprs.get(place).cloned();
            Ok(expr.unwrap_or_else(|| Expr::Column(column.clone())))
        })
    };
    for key in &mut order_by {
        key.expr = below(key.expr.clone())?;
    }
    let value = match above.as_deref() {
        None => exprs.first().cloned(),
        Some([value]) => Some(below(value.clone())?),
        Some(_) => None,
    };
    let Some(value) = value.filter(|_| matches!(rows, LogicalPlan::Filter(_))) else {
        return Ok(None);
    };
    let first =
        AggregateFunction::new_udf(first_value_udaf(), vec![value], false, None, order_by, None);
    let first = Expr::AggregateFunction(first).alias(INNER);
    let rows = Aggregate::try_new(Arc::new(rows.clone()), Vec::new(), vec![first])?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(rows))
        .project(vec![Expr::Column(Column::from_name(INNER))])?
        .build()?;
    Ok(Some(Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: subquery.spans.clone(),
    }))
}

/// The rows that an aggregate of a subquery is over.
pub(super) struct Rows {
    /// What is selected over the aggregate.
    values: Vec<Expr>,
    aggregate: Aggregate,
    conditions: Vec<Expr>,
    plan: LogicalPlan,
}

impl Rows {
    /// `None` = they are of another form, or the planner joins them itself.
    pub(super) fn of(subquery: &LogicalPlan) -> Result<Option<Self>> {
        let Some((values, LogicalPlan::Aggregate(aggregate))) = selected(subquery)? else {
            return Ok(None);
        };
        let mut plan = aggregate.input.as_ref();
        let mut conditions = Vec::new();
        while let LogicalPlan::Filter(filter) = plan {
            conditions.extend(split_conjunction_owned(filter.predicate.clone()));
            plan = filter.input.as_ref();
        }
        let has_outer = |expr: &Expr| expr.contains_outer();
        let is_known = conditions
            .iter()
            .all(|condition| !has_outer(condition) || key(condition).is_some())
            && !aggregate.aggr_expr.iter().any(has_outer);
        let mut has_more = false;
        for expr in conditions.iter().chain(&aggregate.aggr_expr) {
            has_more |= has_subquery(expr)?;
        }
        let is_ours = !is_known
            && !has_more
            && plan.all_out_ref_exprs().is_empty()
            && aggregate.group_expr.is_empty();
        Ok(is_ours.then(|| Self {
            values,
            aggregate: aggregate.clone(),
            conditions,
            plan: plan.clone(),
        }))
    }

    /// The outer rows, each with its aggregates, and what is selected over them. `None` = it speaks of rows further out, too.
    pub(super) fn join(
        self,
        outer: LogicalPlan,
        number: usize,
    ) -> Result<Option<(LogicalPlan, Vec<Expr>)>> {
        let table = TableReference::bare(format!("{INNER}_{number}"));
        let schema = Arc::clone(outer.schema());
        let inner = |name: String| Expr::Column(Column::new(Some(table.clone()), name));
        let named = |place: usize| format!("c{place}");
        let joined = |expr: Expr| {
            let expr = replaced(expr, self.plan.schema(), |place, _| Ok(inner(named(place))))?;
            beside(expr, &schema)
        };
        let mut conditions = Vec::new();
        for condition in self.conditions.iter().cloned() {
            conditions.push(joined(condition)?);
        }
        let row = format!("{INNER}_{number}_row");
        let mut aggregates = Vec::new();
        for column in schema.columns() {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let value = first_value(Expr::Column(column), Vec::new());
            aggregates.push(value.alias_qualified(relation, name));
        }
        let result_of = |place: usize| format!("{INNER}_{number}_{place}");
        for (place, expr) in self.aggregate.aggr_expr.iter().enumerate() {
            let Expr::AggregateFunction(mut call) = joined(expr.clone().unalias())? else {
                return Ok(None);
            };
            let found = inner(FOUND.to_owned());
            let filter = call.params.filter.take();
            call.params.filter = Some(Box::new(match filter {
                Some(filter) => filter.and(found),
                None => found,
            }));
            aggregates.push(Expr::AggregateFunction(call).alias(result_of(place)));
        }
        let mut values = Vec::new();
        for value in self.values {
            let value = replaced(value, &self.aggregate.schema, |place, _| {
                Ok(Expr::Column(Column::from_name(result_of(place))))
            })?;
            values.push(beside(value, &schema)?);
        }
        let mut exprs = conditions.iter().chain(&aggregates).chain(&values);
        if exprs.any(Expr::contains_outer) {
            return Ok(None);
        }
        let columns = self.plan.schema().columns().into_iter().enumerate();
        let mut rows: Vec<Expr> = columns
            .map(|(place, column)| Expr::Column(column).alias(named(place)))
            .collect();
        rows.push(lit(true).alias(FOUND));
        let rows = LogicalPlanBuilder::from(self.plan)
            .project(rows)?
            .alias(table)?
            .build()?;
        let numbered = Window::try_new(vec![row_number(&row)], Arc::new(outer))?;
        let plan = LogicalPlanBuilder::from(LogicalPlan::Window(numbered))
            .join_on(rows, JoinType::Left, conditions)?
            .build()?;
        let groups = vec![Expr::Column(Column::from_name(row))];
        let plan = Aggregate::try_new(Arc::new(plan), groups, aggregates)?;
        Ok(Some((LogicalPlan::Aggregate(plan), values)))
    }
}

/// The number of each row, in any order.
fn row_number(name: &str) -> Expr {
    let number = Expr::WindowFunction(Box::new(WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        params: WindowFunctionParams {
            args: Vec::new(),
            partition_by: Vec::new(),
            order_by: Vec::new(),
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    }));
    number.alias(name)
}
