//! `LATERAL` that selects the outer row's columns: `(SELECT a.v + 1 AS y)`, `(VALUES (a.v), (a.w)) AS x(y)`, `(SELECT b.w - a.v ...)`,
//! `(SELECT unnest(a.list) AS x)`.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, TableReference, UnnestOptions};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Subquery, SubqueryAlias, Unnest,
    Values, cast, lit, when,
};

use super::values::Rows;
use super::{FOUND, INNER, beside, has_subquery, replaced, selected};

/// The join with the outer row's columns selected above it; `None` = it is another join, or one that needs nothing.
pub(super) fn joined(join: &Join, tables: &mut usize) -> Result<Option<LogicalPlan>> {
    let is_unconditional = join.on.is_empty()
        && join
            .filter
            .as_ref()
            .is_none_or(|filter| *filter == lit(true));
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || !is_unconditional {
        return Ok(None);
    }
    let right = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => input.as_ref(),
        plan => plan,
    };
    let LogicalPlan::Subquery(subquery) = right else {
        return Ok(None);
    };
    let (exprs, input) = match (selected(&subquery.subquery)?, subquery.subquery.as_ref()) {
        (Some(selected), _) => selected,
        (None, plan @ LogicalPlan::Values(values)) => {
            let columns = values.schema.columns().into_iter();
            (columns.map(Expr::Column).collect(), plan)
        }
        (None, _) => return Ok(None),
    };
    for expr in &exprs {
        if has_subquery(expr)? {
            return Ok(None);
        }
    }
    if let Some(rows) = Rows::of(&subquery.subquery)? {
        *tables += 1;
        let joined = rows.join(join.left.as_ref().clone(), *tables)?;
        return joined
            .map(|(plan, values)| above(join, plan, values))
            .transpose();
    }
    match input {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
            above(join, join.left.as_ref().clone(), exprs).map(Some)
        }
        LogicalPlan::Values(values) => rows(join, values, exprs).map(Some),
        LogicalPlan::Unnest(unnest) if join.join_type == JoinType::Inner => {
            unnested(join, unnest, exprs)
        }
        input if exprs.iter().any(Expr::contains_outer) => {
            selected_above(join, subquery, input, exprs).map(Some)
        }
        _ => Ok(None),
    }
}

/// What the join puts out, from a plan that has its left columns and those that `right` speaks of.
fn above(join: &Join, plan: LogicalPlan, right: Vec<Expr>) -> Result<LogicalPlan> {
    let width = join.left.schema().fields().len();
    let left = join.left.schema();
    let mut exprs: Vec<Expr> = left.columns().into_iter().map(Expr::Column).collect();
    let columns = join.schema.columns().into_iter().skip(width);
    for (expr, column) in right.into_iter().zip(columns) {
        exprs.push(beside(expr, left)?.alias_qualified(column.relation, column.name));
    }
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

/// The rows of `VALUES` as lists beside the outer row, taken apart.
fn rows(join: &Join, values: &Values, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    let left = join.left.schema();
    // What is taken apart is of no table.
    let inner = |place: usize| Column::from_name(format!("{INNER}_c{place}"));
    let mut lists: Vec<Expr> = left.columns().into_iter().map(Expr::Column).collect();
    let mut columns = Vec::new();
    for (place, field) in values.schema.fields().iter().enumerate() {
        let cells = values.values.iter().filter_map(|row| row.get(place));
        let cells = cells
            .map(|cell| Ok(cast(beside(cell.clone(), left)?, field.data_type().clone())))
            .collect::<Result<_>>()?;
        let column = inner(place);
        lists.push(make_array(cells).alias(&column.name));
        columns.push(column);
    }
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(lists)?
        .unnest_columns_with_options(columns, UnnestOptions::new())?
        .build()?;
    let exprs = exprs
        .into_iter()
        .map(|expr| {
            replaced(expr, &values.schema, |place, _| {
                Ok(Expr::Column(inner(place)))
            })
        })
        .collect::<Result<_>>()?;
    above(join, plan, exprs)
}

/// The rows of arrays of the outer row beside it; `None` = the arrays come from a table.
fn unnested(join: &Join, unnest: &Unnest, exprs: Vec<Expr>) -> Result<Option<LogicalPlan>> {
    let left = join.left.schema();
    let Some((lists, LogicalPlan::EmptyRelation(empty))) = selected(&unnest.input)? else {
        return Ok(None);
    };
    if !empty.produce_one_row {
        return Ok(None);
    }
    let mut columns: Vec<Expr> = left.columns().into_iter().map(Expr::Column).collect();
    for (list, column) in lists.into_iter().zip(unnest.input.schema().columns()) {
        if has_subquery(&list)? {
            return Ok(None);
        }
        columns.push(beside(list, left)?.alias_qualified(column.relation, column.name));
    }
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(columns)?
        .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
        .build()?;
    above(join, plan, exprs).map(Some)
}

/// The join with the inner columns as they are, and above it what was selected.
fn selected_above(
    join: &Join,
    subquery: &Subquery,
    input: &LogicalPlan,
    exprs: Vec<Expr>,
) -> Result<LogicalPlan> {
    let table = TableReference::bare(INNER);
    let name = |place: usize| format!("c{place}");
    let columns = input.schema().columns().into_iter().enumerate();
    let mut inner: Vec<Expr> = columns
        .map(|(place, column)| Expr::Column(column).alias(name(place)))
        .collect();
    inner.push(lit(true).alias(FOUND));
    let inner = LogicalPlanBuilder::from(input.clone())
        .project(inner)?
        .build()?;
    let outer_ref_columns = inner.all_out_ref_exprs();
    let inner = if outer_ref_columns.is_empty() {
        inner
    } else {
        LogicalPlan::Subquery(Subquery {
            subquery: Arc::new(inner),
            outer_ref_columns,
            spans: subquery.spans.clone(),
        })
    };
    let inner = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(inner), table.clone())?);
    let plan = Join::try_new(
        Arc::clone(&join.left),
        Arc::new(inner),
        Vec::new(),
        join.filter.clone(),
        join.join_type,
        JoinConstraint::On,
        join.null_equality,
        false,
    )?;
    let found = || Expr::Column(Column::new(Some(INNER), FOUND));
    let exprs = exprs
        .into_iter()
        .map(|expr| {
            let expr = replaced(expr, input.schema(), |place, _| {
                Ok(Expr::Column(Column::new(Some(table.clone()), name(place))))
            })?;
            match join.join_type {
                JoinType::Left => when(found(), expr).end(),
                _ => Ok(expr),
            }
        })
        .collect::<Result<_>>()?;
    above(join, LogicalPlan::Join(plan), exprs)
}
