//! Rows at an end of time, or at the ends of groups, below what chooses among them.
//!
//! `SELECT f + 1 FROM t ORDER BY time DESC LIMIT 10` is no series query, because it calculates, but the ten rows are one. So it is
//! with `last(f + 1, time)`, with orders that go on after the time, and with numbers of rows that are shown. What chooses stays,
//! and chooses again; it gets the rows at the end in place of all.
//!
//! Does: put a series query of those rows below a sort with a limit, below `first` and `last` by time and the extremes of the
//! time, and below a condition on `row_number()`, and below projections under these. Does not: look at what is calculated; a
//! value that cannot be calculated in a row that nobody chooses is no error.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Sort as Key, WindowFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Filter, Limit, LogicalPlan, SkipType, Sort, Union,
};
use nilometer_series::{OrderBy, TOP_ROWS_MAX};

use super::Leaves;
use super::group::{
    END_ROWS_MAX, call, ends_by, ignores_nulls, over_input, places, row_number, window_below,
};
use super::view::{Column, Limited, Ordered, View};
use crate::walk::ExprWalk;

/// The same plan over the rows at an end; `None` = it is none that chooses those, or all rows are needed.
pub(super) fn of_ends(plan: &LogicalPlan, leaves: &Leaves) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) => of_sort(sort, leaves),
        LogicalPlan::Limit(limit) => without_limit(limit, leaves),
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, leaves),
        LogicalPlan::Filter(filter) => of_numbered(filter, leaves),
        _ => Ok(None),
    }
}

/// Rows of a table, and the projections and names above them, from above.
struct Rows<'a> {
    above: Vec<&'a LogicalPlan>,
    plan: &'a LogicalPlan,
    leaves: &'a Leaves,
}

impl<'a> Rows<'a> {
    fn of(plan: &'a LogicalPlan, leaves: &'a Leaves) -> Result<Option<Self>> {
        let mut rows = Self {
            above: Vec::new(),
            plan,
            leaves,
        };
        loop {
            if rows.view()?.is_some() {
                return Ok(Some(rows));
            }
            rows.above.push(rows.plan);
            rows.plan = match rows.plan {
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                _ => return Ok(None),
            };
        }
    }

    /// What is known of the rows: that they are all that some conditions leave, in whichever order.
    fn view(&self) -> Result<Option<View>> {
        let view = View::of(self.plan, &[])?;
        let view = view.filter(|view| view.is_rows() && view.below.is_none());
        Ok(view.map(|mut view| {
            view.order = None;
            view
        }))
    }

    fn input(&self) -> &DFSchema {
        self.plan.schema()
    }

    /// An expression over what is uppermost, over the rows.
    fn over(&self, expr: &Expr) -> Option<Expr> {
        let mut above = self.above.iter();
        above.try_fold(expr.clone(), |expr, node| through(&expr, node))
    }

    fn all_over(&self, exprs: &[Expr]) -> Option<Vec<Expr>> {
        exprs.iter().map(|expr| self.over(expr)).collect()
    }

    fn keys_over(&self, keys: &[Key]) -> Option<Vec<Key>> {
        let keys = keys.iter().map(|key| {
            let expr = self.over(&key.expr)?;
            Some(Key {
                expr,
                ..key.clone()
            })
        });
        keys.collect()
    }

    /// The projections over a series query of some of the rows; `None` = it is none.
    fn over_leaf(&self, view: View) -> Result<Option<LogicalPlan>> {
        let Some(found) = view.finish(self.input().as_arrow()) else {
            return Ok(None);
        };
        let mut plan = self.leaves.leaf(self.plan, found)?;
        for node in self.above.iter().rev() {
            plan = node.with_new_exprs(node.expressions(), vec![plan])?;
        }
        Ok(Some(plan))
    }
}

/// An expression over the columns of a projection, over those that it projects; `None` = one of them is another value each time.
fn through(expr: &Expr, node: &LogicalPlan) -> Option<Expr> {
    let below = |at: usize| match node {
        LogicalPlan::Projection(projection) => {
            let expr = projection.expr.get(at)?;
            (!expr.is_volatile()).then(|| expr.clone().unalias())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let column = alias.input.schema().qualified_field(at);
            Some(Expr::Column(column.into()))
        }
        _ => None,
    };
    let mut is_known = true;
    let over = expr.clone().replace_up(&mut |part| {
        let Expr::Column(column) = &part else {
            return Ok(Transformed::no(part));
        };
        let at = node.schema().maybe_index_of_column(column);
        let Some(below) = at.and_then(below) else {
            is_known = false;
            return Ok(Transformed::no(part));
        };
        Ok(Transformed::yes(below))
    });
    over.ok().map(|over| over.data).filter(|_| is_known)
}

/// What is below a limit that the sort below has taken over: with half the rules it still stands there.
fn without_limit(limit: &Limit, leaves: &Leaves) -> Result<Option<LogicalPlan>> {
    let (SkipType::Literal(0), FetchType::Literal(Some(rows))) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return Ok(None);
    };
    let mut below = limit.input.as_ref();
    while let LogicalPlan::Projection(projection) = below {
        below = &projection.input;
    }
    let LogicalPlan::Sort(sort) = below else {
        return Ok(None);
    };
    if sort.fetch.is_none_or(|own| own > rows) {
        return Ok(None);
    }
    Ok(match limit.input.as_ref() {
        LogicalPlan::Sort(sort) => of_sort(sort, leaves)?,
        input => Some(input.clone()),
    })
}

/// `ORDER BY time LIMIT n`, whatever comes after the time.
fn of_sort(sort: &Sort, leaves: &Leaves) -> Result<Option<LogicalPlan>> {
    let Some(rows) = sort.fetch.filter(|rows| *rows as u64 <= TOP_ROWS_MAX) else {
        return Ok(None);
    };
    let Some(below) = Rows::of(&sort.input, leaves)? else {
        return Ok(None);
    };
    let Some(keys) = below.keys_over(&sort.expr) else {
        return Ok(None);
    };
    let (Some(exact), Some(tied)) = (below.view()?, below.view()?) else {
        return Ok(None);
    };
    // In an order that a series query has, nothing is left to be chosen.
    if let Some(view) = exact.sort(&keys, Some(rows), below.input()) {
        return below.over_leaf(view);
    }
    let Some(view) = with_ties(tied, &keys, rows, below.input()) else {
        return Ok(None);
    };
    let Some(input) = below.over_leaf(view)? else {
        return Ok(None);
    };
    let mut sort = sort.clone();
    sort.input = Arc::new(input);
    Ok(Some(LogicalPlan::Sort(sort)))
}

fn with_ties(mut view: View, keys: &[Key], rows: usize, input: &DFSchema) -> Option<View> {
    let first = keys.first()?;
    let is_time = view.column(&first.expr, input) == Some(&Column::Time);
    // Of days and numbers several times may be one.
    if !is_time || !view.has_clock() {
        return None;
    }
    view.order = Some(Ordered {
        by: OrderBy::Time,
        descending: !first.asc,
        tags: Vec::new(),
    });
    view.limit = Some(Limited {
        skip: 0,
        rows: Some(rows as u64),
    });
    view.with_ties = true;
    Some(view)
}

/// `first` and `last` by time, and the extremes of the time, of groups of series.
fn of_aggregate(aggregate: &Aggregate, leaves: &Leaves) -> Result<Option<LogicalPlan>> {
    let calls: Option<Vec<&AggregateFunction>> = aggregate.aggr_expr.iter().map(call).collect();
    let calls = calls.filter(|calls| !calls.is_empty() && calls.iter().all(|it| is_of_end(it)));
    let (Some(calls), Some(below)) = (calls, Rows::of(&aggregate.input, leaves)?) else {
        return Ok(None);
    };
    let Some(group) = below.all_over(&aggregate.group_expr) else {
        return Ok(None);
    };
    // The first rows, and the last.
    let mut ends: [Option<View>; 2] = [None, None];
    for call in calls {
        let (Some(order), Some(view)) = (order_of(call, &below), below.view()?) else {
            return Ok(None);
        };
        let view = end_of_groups(view, (&group, &order), below.input());
        let Some((view, descending)) = view else {
            return Ok(None);
        };
        if let Some(end) = ends.get_mut(usize::from(descending)) {
            end.get_or_insert(view);
        }
    }
    let mut inputs = Vec::new();
    for view in ends.into_iter().flatten() {
        let Some(input) = below.over_leaf(view)? else {
            return Ok(None);
        };
        inputs.push(Arc::new(input));
    }
    let input = match inputs.len() {
        1 => inputs.swap_remove(0),
        _ => Arc::new(LogicalPlan::Union(Union {
            inputs,
            schema: Arc::clone(aggregate.input.schema()),
        })),
    };
    let mut aggregate = aggregate.clone();
    aggregate.input = input;
    Ok(Some(LogicalPlan::Aggregate(aggregate)))
}

/// Whether a function may be one of a row at an end.
fn is_of_end(call: &AggregateFunction) -> bool {
    let params = &call.params;
    let is_known = matches!(
        call.func.name(),
        "first_value" | "last_value" | "min" | "max"
    );
    is_known && !params.distinct && params.filter.is_none() && !ignores_nulls(call)
}

/// The order in which the first row is the one that an aggregate is of.
fn order_of(call: &AggregateFunction, below: &Rows<'_>) -> Option<Vec<Key>> {
    let params = &call.params;
    let name = call.func.name();
    let mut keys = match (name, params.args.as_slice()) {
        ("first_value" | "last_value", _) => below.keys_over(&params.order_by)?,
        (_, [argument]) => vec![below.over(argument)?.sort(true, false)],
        _ => return None,
    };
    if matches!(name, "last_value" | "max") {
        for key in &mut keys {
            key.asc = !key.asc;
            key.nulls_first = !key.nulls_first;
        }
    }
    Some(keys)
}

/// The first row of each group in an order by time, or of all rows, and whether the order descends.
fn end_of_groups(
    view: View,
    (group, order): (&[Expr], &[Key]),
    input: &DFSchema,
) -> Option<(View, bool)> {
    if !group.is_empty() {
        let view = ends_by(view, (group, order), input)?;
        let descending = view.grouped.as_ref()?.ends?.descending;
        return Some((view, descending));
    }
    let [key] = order else {
        return None;
    };
    if view.column(&key.expr, input) != Some(&Column::Time) {
        return None;
    }
    let view = view.sort(std::slice::from_ref(key), Some(1), input)?;
    Some((view, !key.asc))
}

/// `row_number() OVER (PARTITION BY tags ORDER BY time) <= n`, where the number is shown, or more is said of it.
fn of_numbered(filter: &Filter, leaves: &Leaves) -> Result<Option<LogicalPlan>> {
    let Some((window, between)) = window_below(&filter.input) else {
        return Ok(None);
    };
    let [expr] = window.window_expr.as_slice() else {
        return Ok(None);
    };
    let Some(call) = row_number(expr) else {
        return Ok(None);
    };
    let bounds = split_conjunction(&filter.predicate).into_iter();
    let bounds = bounds.filter_map(|bound| {
        let bound = match between {
            Some(projection) => over_input(bound, projection)?,
            None => bound.clone(),
        };
        Some(places(&bound, window)?.1)
    });
    let rows = bounds
        .min()
        .filter(|rows| (1..=END_ROWS_MAX).contains(rows));
    let (Some(rows), Some(below)) = (rows, Rows::of(&window.input, leaves)?) else {
        return Ok(None);
    };
    let Some(view) = first_of_groups(call, rows, &below)? else {
        return Ok(None);
    };
    let Some(input) = below.over_leaf(view)? else {
        return Ok(None);
    };
    let mut window = window.clone();
    window.input = Arc::new(input);
    let mut plan = LogicalPlan::Window(window);
    if let Some(projection) = between {
        let mut projection = projection.clone();
        projection.input = Arc::new(plan);
        plan = LogicalPlan::Projection(projection);
    }
    let mut filter = filter.clone();
    filter.input = Arc::new(plan);
    Ok(Some(LogicalPlan::Filter(filter)))
}

fn first_of_groups(call: &WindowFunction, rows: u64, below: &Rows<'_>) -> Result<Option<View>> {
    let params = &call.params;
    let group = below.all_over(&params.partition_by);
    let (Some(group), Some(order)) = (group, below.keys_over(&params.order_by)) else {
        return Ok(None);
    };
    let Some(view) = below.view()? else {
        return Ok(None);
    };
    let view = ends_by(view, (&group, &order), below.input());
    Ok(view.and_then(|mut view| {
        view.grouped.as_mut()?.ends.as_mut()?.rows = rows;
        Some(view)
    }))
}
