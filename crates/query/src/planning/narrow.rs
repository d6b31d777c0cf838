//! Narrowed scans: the last rows of each series, or the rows at one end of time.
//!
//! Does: find `ORDER BY time LIMIT`, `first` and `last` (DISTINCT ON is made of them), and the first rows of each by
//! their number, above a scan whose filters are all the engine's, and ask the engine for less. Does not: change what is
//! above: that gets all rows that it would have chosen, and chooses them.
//!
//! It looks at the physical plan, so whichever language the statement was written in makes no difference.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use nilometer_engine::{ColumnSource, Narrowing};

use crate::operators::scan::SeriesScan;

/// Rows at an end of time that are looked for before the scan. Their keys are held in memory.
const TOP_ROWS_MAX: usize = 100_000;

/// Rows at the end of each series that are worth being looked for.
const END_ROWS_MAX: usize = 1000;

/// The rule that finds them.
#[derive(Debug)]
pub(crate) struct NarrowScans;

impl PhysicalOptimizerRule for NarrowScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| match narrowed(&plan)? {
            Some(narrowed) => Ok(Transformed::yes(narrowed)),
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "narrow_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same plan over a scan of less; `None` = it is none of those that need less.
fn narrowed(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let below = Below::of(sort.input());
        let narrowing = below.as_ref().and_then(|below| top(sort, below));
        return replace(plan, below, narrowing);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let below = Below::of(aggregate.input());
        let narrowing = below.as_ref().and_then(|below| ends(aggregate, below));
        return replace(plan, below, narrowing);
    }
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let window = filter.input();
    let (exprs, input) = if let Some(window) = window.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input())
    } else if let Some(window) = window.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return Ok(None);
    };
    let below = Below::of(input);
    let narrowing = below
        .as_ref()
        .and_then(|below| numbered(filter, exprs, input.schema().fields().len(), below));
    let Some(window) = replace(window, below, narrowing)? else {
        return Ok(None);
    };
    Ok(Some(with_child(plan, window)?))
}

/// A plan of one child above projections above a scan, with the scan narrowed.
fn replace(
    plan: &Arc<dyn ExecutionPlan>,
    below: Option<Below<'_>>,
    narrowing: Option<Narrowing>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (Some(below), Some(narrowing)) = (below, narrowing) else {
        return Ok(None);
    };
    let mut child: Arc<dyn ExecutionPlan> = Arc::new(below.scan.narrowed(narrowing)?);
    for projection in below.projections.iter().rev() {
        child = with_child(projection, child)?;
    }
    Ok(Some(with_child(plan, child)?))
}

fn with_child(
    plan: &Arc<dyn ExecutionPlan>,
    child: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![child], options)
}

/// A scan and the projections above it, from above.
struct Below<'a> {
    projections: Vec<&'a Arc<dyn ExecutionPlan>>,
    scan: &'a SeriesScan,
}

impl<'a> Below<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut plan = plan;
        let mut projections = Vec::new();
        while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            projections.push(plan);
            plan = projection.input();
        }
        let scan = plan.downcast_ref::<SeriesScan>()?;
        // Rows that a limit leaves are any, and those that conditions on fields leave are chosen above the scan.
        let is_whole = scan.request().limit.is_none() && *scan.narrowing() == Narrowing::None;
        is_whole.then_some(Self { projections, scan })
    }

    /// The column of the table that an expression over the uppermost projection is.
    fn source(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<ColumnSource> {
        let mut column = expr.downcast_ref::<Column>()?;
        for projection in &self.projections {
            let exprs = projection.downcast_ref::<ProjectionExec>()?.expr();
            column = exprs.get(column.index())?.expr.downcast_ref::<Column>()?;
        }
        let position = self.scan.table_position(column.index())?;
        self.scan.request().table.source(position)
    }

    fn is_time(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        matches!(self.source(expr), Some(ColumnSource::Time))
    }

    fn is_tag(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        matches!(self.source(expr), Some(ColumnSource::Tag(_)))
    }

    /// Whether an order among rows of one group is by time first, and if so whether it descends. What the group has in
    /// common orders nothing.
    fn descends(
        &self,
        order: &[PhysicalSortExpr],
        group: &[Arc<dyn PhysicalExpr>],
    ) -> Option<bool> {
        let mut order = order
            .iter()
            .skip_while(|it| group.iter().any(|key| key == &it.expr));
        let first = order.next()?;
        self.is_time(&first.expr)
            .then_some(first.options.descending)
    }
}

/// `ORDER BY time LIMIT n`.
fn top(sort: &SortExec, below: &Below<'_>) -> Option<Narrowing> {
    let rows = sort.fetch().filter(|rows| *rows <= TOP_ROWS_MAX)?;
    let newest = below.descends(sort.expr(), &[])?;
    Some(Narrowing::Top {
        rows,
        newest,
        ties: sort.expr().len() > 1,
    })
}

/// `first` and `last` by time, and the extremes of the time, of groups of series.
fn ends(aggregate: &AggregateExec, below: &Below<'_>) -> Option<Narrowing> {
    let reads_rows = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let groups = aggregate.group_expr();
    let is_plain = groups.is_true_no_grouping() || groups.is_single();
    if !reads_rows || !is_plain || aggregate.limit_options().is_some() {
        return None;
    }
    let group: Vec<Arc<dyn PhysicalExpr>> = groups
        .expr()
        .iter()
        .map(|(expr, _)| Arc::clone(expr))
        .collect();
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    if is_filtered || !group.iter().all(|expr| below.is_tag(expr)) {
        return None;
    }
    let (mut first, mut last) = (false, false);
    for function in aggregate.aggr_expr() {
        if wants_last(function, &group, below)? {
            last = true;
        } else {
            first = true;
        }
    }
    (first || last).then_some(Narrowing::Ends {
        first: usize::from(first),
        last: usize::from(last),
    })
}

/// Whether a function needs the last row of each series, or the first; `None` = neither is enough.
fn wants_last(
    function: &AggregateFunctionExpr,
    group: &[Arc<dyn PhysicalExpr>],
    below: &Below<'_>,
) -> Option<bool> {
    if function.is_distinct() || function.ignore_nulls() {
        return None;
    }
    let name = function.fun().name();
    match name {
        "first_value" | "last_value" => {
            let descends = below.descends(function.order_bys(), group)?;
            Some((name == "last_value") != descends)
        }
        "min" | "max" => {
            let arguments = function.expressions();
            let [argument] = arguments.as_slice() else {
                return None;
            };
            below.is_time(argument).then_some(name == "max")
        }
        _ => None,
    }
}

/// `row_number() OVER (PARTITION BY tags ORDER BY time) <= n`. `width` is how many columns come before the number.
fn numbered(
    filter: &FilterExec,
    exprs: &[Arc<dyn WindowExpr>],
    width: usize,
    below: &Below<'_>,
) -> Option<Narrowing> {
    let [expr] = exprs else {
        return None;
    };
    let window = expr.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = window.get_standard_func_expr().as_any();
    if function.downcast_ref::<WindowUDFExpr>()?.fun().name() != "row_number" {
        return None;
    }
    let group = expr.partition_by();
    if !group.iter().all(|expr| below.is_tag(expr)) {
        return None;
    }
    let descends = below.descends(expr.order_by(), group)?;
    let conjuncts = split_conjunction(filter.predicate());
    let bounds = conjuncts
        .into_iter()
        .filter_map(|it| upper_bound(it, width));
    let rows = bounds.min().filter(|rows| *rows <= END_ROWS_MAX)?;
    Some(if descends {
        Narrowing::Ends {
            first: 0,
            last: rows,
        }
    } else {
        Narrowing::Ends {
            first: rows,
            last: 0,
        }
    })
}

/// The largest number that a condition on the column `number` lets through.
fn upper_bound(condition: &Arc<dyn PhysicalExpr>, number: usize) -> Option<usize> {
    let condition = condition.downcast_ref::<BinaryExpr>()?;
    let column = condition.left().downcast_ref::<Column>()?;
    let literal = condition.right().downcast_ref::<Literal>()?;
    let ScalarValue::UInt64(Some(bound)) = *literal.value() else {
        return None;
    };
    if column.index() != number {
        return None;
    }
    let bound = match condition.op() {
        Operator::Eq | Operator::LtEq => bound,
        Operator::Lt => bound.saturating_sub(1),
        _ => return None,
    };
    usize::try_from(bound).ok().filter(|&bound| bound > 0)
}
