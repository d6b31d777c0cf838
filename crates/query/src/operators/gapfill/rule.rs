//! From a GROUP BY with `time_bucket_gapfill` to one by `time_bucket` under a [`GapFill`].
//!
//! A query with a GROUP BY is a projection, windows if it has some, HAVING, and the aggregation. The node goes between
//! HAVING and the windows: what HAVING refuses is a gap like any other, and windows see what was filled. Calls of
//! `locf` and `interpolate` above become columns of the node.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Cast, Expr, ExprSchemable, Extension, Filter, LogicalPlan, Projection, ScalarUDF,
    Window,
};
use datafusion::optimizer::AnalyzerRule;

use super::bounds::{Range, is_constant};
use super::{Bound, Fill, GapFill, Layout, Lookup};
use crate::function::{GAPFILL, INTERPOLATE, LOCF, TimeBucket, misplaced};
use crate::walk::{ExprWalk, PlanWalk};

/// The rule. It comes after the one that settles types.
#[derive(Debug)]
pub(crate) struct FillGaps {
    buckets_max: usize,
    time_bucket: Arc<ScalarUDF>,
}

impl FillGaps {
    pub(crate) fn new(buckets_max: usize) -> Self {
        Self {
            buckets_max,
            time_bucket: Arc::new(ScalarUDF::new_from_impl(TimeBucket::new())),
        }
    }
}

impl AnalyzerRule for FillGaps {
    fn name(&self) -> &'static str {
        "fill_gaps"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if first_call(&plan)?.is_none() {
            return Ok(plan);
        }
        let filled = plan.replace_up(&mut |node| {
            let node = match node {
                LogicalPlan::Projection(projection) if is_gap_filled(&projection.input) => {
                    self.fill(projection)?
                }
                other => other,
            };
            // Counts have become nullable, and everything above must know.
            node.recompute_schema().map(Transformed::yes)
        })?;
        match first_call(&filled.data)? {
            Some(name) => misplaced(&name),
            None => Ok(filled.data),
        }
    }
}

/// The name of a call that only this rule can give a meaning.
fn first_call(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.walk(&mut |node| {
        node.walk_expressions(&mut |expr| {
            expr.apply(|inner| {
                if let Some((name, _)) = call(inner) {
                    found = Some(name.to_owned());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn call(expr: &Expr) -> Option<(&str, &[Expr])> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if [GAPFILL, LOCF, INTERPOLATE].contains(&func.name()) =>
        {
            Some((func.name(), args))
        }
        _ => None,
    }
}

fn gapfill_arguments(group: &Expr) -> Option<&[Expr]> {
    match group {
        Expr::Alias(alias) => gapfill_arguments(&alias.expr),
        other => match call(other) {
            Some((GAPFILL, args)) => Some(args),
            _ => None,
        },
    }
}

fn is_gap_filled(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Window(window) => is_gap_filled(&window.input),
        LogicalPlan::Filter(filter) => is_gap_filled(&filter.input),
        LogicalPlan::Aggregate(aggregate) => aggregate
            .group_expr
            .iter()
            .any(|group| gapfill_arguments(group).is_some()),
        _ => false,
    }
}

fn has_window(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Window(_) => true,
        LogicalPlan::Filter(filter) => has_window(&filter.input),
        _ => false,
    }
}

/// Calls of `locf` and `interpolate`, each the column of its place.
#[derive(Default)]
struct Calls(Vec<Expr>);

impl Calls {
    /// Puts a column in place of each call, under the name that the expression had.
    fn replace_in(&mut self, expr: Expr) -> Result<Expr> {
        let name = NamePreserver::new_for_projection().save(&expr);
        let replaced = expr.replace_down(&mut |inner| match call(&inner) {
            Some((LOCF | INTERPOLATE, _)) => {
                let known = self.0.iter().position(|known| *known == inner);
                let place = known.unwrap_or(self.0.len());
                if known.is_none() {
                    self.0.push(inner);
                }
                let column = Expr::Column(Column::from_name(column_name(place)));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            _ => Ok(Transformed::no(inner)),
        })?;
        Ok(name.restore(replaced.data))
    }

    fn replace_in_all(&mut self, exprs: Vec<Expr>) -> Result<Vec<Expr>> {
        exprs
            .into_iter()
            .map(|expr| self.replace_in(expr))
            .collect()
    }
}

fn column_name(place: usize) -> String {
    format!("__filled_{place}")
}

impl FillGaps {
    fn fill(&self, projection: Projection) -> Result<LogicalPlan> {
        let mut calls = Calls::default();
        let exprs = calls.replace_in_all(projection.expr)?;
        let input = self.fill_below(Arc::unwrap_or_clone(projection.input), calls)?;
        Ok(LogicalPlan::Projection(Projection::try_new(
            exprs,
            Arc::new(input),
        )?))
    }

    fn fill_below(&self, plan: LogicalPlan, mut calls: Calls) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Window(window) => {
                let exprs = calls.replace_in_all(window.window_expr)?;
                let input = self.fill_below(Arc::unwrap_or_clone(window.input), calls)?;
                Ok(LogicalPlan::Window(Window::try_new(
                    exprs,
                    Arc::new(input),
                )?))
            }
            LogicalPlan::Filter(filter) if has_window(&filter.input) => {
                let predicate = calls.replace_in(filter.predicate)?.unalias();
                let input = self.fill_below(Arc::unwrap_or_clone(filter.input), calls)?;
                Ok(LogicalPlan::Filter(Filter::try_new(
                    predicate,
                    Arc::new(input),
                )?))
            }
            plan => {
                let mut parts = Parts::default();
                let grouped = self.group(plan, &mut parts)?;
                node(grouped, parts, calls.0, self.buckets_max)
            }
        }
    }

    /// Replaces the call in the GROUP BY, below HAVING.
    fn group(&self, plan: LogicalPlan, parts: &mut Parts) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Filter(filter) => {
                let input = self.group(Arc::unwrap_or_clone(filter.input), parts)?;
                let filter = Filter::try_new(filter.predicate, Arc::new(input))?;
                Ok(LogicalPlan::Filter(filter))
            }
            LogicalPlan::Aggregate(aggregate) => {
                let input = Arc::clone(&aggregate.input);
                let mut groups = aggregate.group_expr;
                parts.groups = groups.len();
                for (place, group) in groups.iter_mut().enumerate() {
                    let Some(args) = gapfill_arguments(group) else {
                        continue;
                    };
                    if !parts.exprs.is_empty() {
                        return plan_err!("multiple time_bucket_gapfill calls not allowed");
                    }
                    parts.bucket = place;
                    let call = parts.read(args, &input)?;
                    let bucketed = Expr::ScalarFunction(ScalarFunction::new_udf(
                        Arc::clone(&self.time_bucket),
                        call,
                    ));
                    let (relation, name) = group.qualified_name();
                    *group = bucketed.alias_qualified(relation, name);
                }
                let aggregate = Aggregate::try_new(input, groups, aggregate.aggr_expr)?;
                Ok(LogicalPlan::Aggregate(aggregate))
            }
            _ => internal_err!("gap filling without a GROUP BY"),
        }
    }
}

/// What the call in the GROUP BY says.
#[derive(Default)]
struct Parts {
    /// How many of the columns tell groups apart, the buckets among them.
    groups: usize,
    bucket: usize,
    exprs: Vec<Expr>,
    zone: Option<usize>,
    starts: Vec<Bound>,
    finishes: Vec<Bound>,
}

impl Parts {
    fn add(&mut self, expr: Expr) -> usize {
        self.exprs.push(expr);
        self.exprs.len() - 1
    }

    /// Reads the arguments; returns those of the `time_bucket` in its place.
    fn read(&mut self, args: &[Expr], input: &LogicalPlan) -> Result<Vec<Expr>> {
        let [width, time, rest @ ..] = args else {
            return internal_err!("time_bucket_gapfill without a time");
        };
        if !is_constant(width) {
            return plan_err!(
                "invalid time_bucket_gapfill argument: bucket_width must be a simple expression"
            );
        }
        let time_type = time.get_type(input.schema())?;
        let is_text = |expr: &Expr| {
            expr.get_type(input.schema())
                .is_ok_and(|kind| kind.is_string())
        };
        let (zone, rest) = match rest {
            [zone, rest @ ..] if is_text(zone) => (Some(zone), rest),
            // The place of the zone in the named form, which has all places.
            [_, rest @ ..] if rest.len() == 2 => (None, rest),
            rest => (None, rest),
        };
        self.add(width.clone());
        let mut call = vec![width.clone(), time.clone()];
        if let Some(zone) = zone.filter(|zone| !is_null(zone)) {
            self.zone = Some(self.add(zone.clone()));
            call.push(zone.clone());
        }
        let mut given = rest
            .iter()
            .map(|expr| Some(expr).filter(|expr| !is_null(expr)));
        let start = given.next().flatten();
        let finish = given.next().flatten();
        for (name, expr) in [("start", start), ("finish", finish)] {
            if expr.is_some_and(|expr| !is_constant(expr)) {
                return plan_err!(
                    "invalid time_bucket_gapfill argument: {name} must be a simple expression"
                );
            }
        }
        let range = match (start, finish, bare_column(time)) {
            (Some(_), Some(_), _) => Range::default(),
            (_, _, Some(column)) => Range::of(input, column),
            _ => {
                return plan_err!(
                    "invalid time_bucket_gapfill argument: ts needs to refer to a single column if no start or finish is supplied; specify start and finish as arguments"
                );
            }
        };
        let or = |given: Option<&Expr>, inferred: Vec<(Expr, bool)>| match given {
            Some(given) => vec![(given.clone(), false)],
            None => inferred,
        };
        for (expr, is_after) in or(start, range.starts) {
            let expr = self.add(as_time(expr, &time_type)?);
            self.starts.push(Bound { expr, is_after });
        }
        for (expr, is_after) in or(finish, range.finishes) {
            let expr = self.add(as_time(expr, &time_type)?);
            self.finishes.push(Bound { expr, is_after });
        }
        for (name, bounds) in [("start", &self.starts), ("finish", &self.finishes)] {
            if bounds.is_empty() {
                return plan_err!(
                    "missing time_bucket_gapfill argument: could not infer {name} from WHERE clause; specify start and finish as arguments or in the WHERE clause, such as time >= '2016-01-01' AND time < '2016-01-02'"
                );
            }
        }
        Ok(call)
    }
}

fn bare_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => bare_column(&alias.expr),
        Expr::Cast(cast) => bare_column(&cast.expr),
        _ => None,
    }
}

fn as_time(expr: Expr, time_type: &DataType) -> Result<Expr> {
    if expr.get_type(&DFSchema::empty())? == *time_type {
        return Ok(expr);
    }
    Ok(Expr::Cast(Cast::new(Box::new(expr), time_type.clone())))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Alias(alias) => is_null(&alias.expr),
        _ => false,
    }
}

/// The node over the grouped rows, with a column for each call.
fn node(
    grouped: LogicalPlan,
    mut parts: Parts,
    calls: Vec<Expr>,
    buckets_max: usize,
) -> Result<LogicalPlan> {
    let width = grouped.schema().fields().len();
    let mut columns: Vec<Fill> = (0..width)
        .map(|column| match column {
            column if column == parts.bucket => Fill::Bucket,
            column if column < parts.groups => Fill::Group,
            _ => Fill::Nothing,
        })
        .collect();
    let mut projected: Vec<Expr> = grouped
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    // The columns of calls first, since they are referred to by place; then what they look up.
    let (mut fills, mut looked_up) = (Vec::new(), Vec::new());
    for (place, expr) in calls.into_iter().enumerate() {
        let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
            return internal_err!("gap filling without a call");
        };
        if args.iter().any(contains_call) {
            return plan_err!(
                "multiple interpolate/locf function calls per resultset column not supported"
            );
        }
        let mut args = args.into_iter();
        let Some(value) = args.next() else {
            return internal_err!("{} without a value", func.name());
        };
        projected.push(value.alias(column_name(place)));
        fills.push((func.name() == LOCF, args.collect::<Vec<_>>()));
    }
    let first_looked_up = projected.len();
    for (is_locf, args) in fills {
        let mut lookups = [None, None];
        let arguments = if is_locf { 1 } else { 2 };
        for (lookup, expr) in lookups.iter_mut().zip(args.iter().take(arguments)) {
            if is_null(expr) {
                continue;
            }
            *lookup = Some(if is_constant(expr) && !is_correlated(expr)? {
                Lookup::Once(parts.add(expr.clone()))
            } else {
                let column = first_looked_up + looked_up.len();
                looked_up.push(expr.clone().alias(format!("__looked_up_{column}")));
                Lookup::Column(column)
            });
        }
        let [prev, next] = lookups;
        columns.push(if is_locf {
            let nulls_are_missing = flag(args.get(1))?;
            Fill::Locf {
                prev,
                nulls_are_missing,
            }
        } else {
            Fill::Interpolate { prev, next }
        });
    }
    columns.extend(looked_up.iter().map(|_| Fill::Nothing));
    let input = if columns.len() > width {
        projected.extend(looked_up);
        LogicalPlan::Projection(Projection::try_new(projected, Arc::new(grouped))?)
    } else {
        grouped
    };
    let layout = Layout {
        bucket: parts.bucket,
        columns,
        width: 0,
        zone: parts.zone,
        starts: parts.starts,
        finishes: parts.finishes,
        buckets_max,
    };
    let node = GapFill::new(Arc::new(input), parts.exprs, layout)?;
    Ok(LogicalPlan::Extension(Extension {
        node: Arc::new(node),
    }))
}

fn contains_call(expr: &Expr) -> bool {
    expr.has(&mut |inner| Ok(call(inner).is_some()))
        .unwrap_or(false)
}

/// Whether an expression holds a sub-select that depends on the row.
fn is_correlated(expr: &Expr) -> Result<bool> {
    expr.has(&mut |inner| {
        Ok(match inner {
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    })
}

fn flag(expr: Option<&Expr>) -> Result<bool> {
    match expr {
        None => Ok(false),
        Some(expr) if is_null(expr) => Ok(false),
        Some(Expr::Literal(ScalarValue::Boolean(Some(flag)), _)) => Ok(*flag),
        Some(_) => plan_err!("locf: treat_null_as_missing must be true or false"),
    }
}
