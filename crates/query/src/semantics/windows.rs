//! Keys of windows that `DataFusion` (55.2) goes wrong about.
//!
//! Does: calculate conditions such as `PARTITION BY v <= 0`, and what holds one (`CASE WHEN v > 2 ...`), below the window, because
//! the library finds no order for them and refuses its own plan; cast integers that a `RANGE` with an offset is counted from to numbers that do not overflow, because
//! the library took the rows from NULL on for the neighbours of the largest integer. Does not: change what a window answers, or
//! what its columns are called.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Sort, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window, WindowFrameBound,
    WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// Columns of conditions, while the window reads them.
const KEY: &str = "__window_key_";

/// The largest number of digits: of no fewer, a sum would have more than its parts, and be of another type.
const EXACT: DataType = DataType::Decimal128(38, 0);

/// The rule. It comes before types are settled, so that offsets become numbers of the same type.
#[derive(Debug)]
pub(crate) struct WindowKeys;

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &'static str {
        "window_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_windows = false;
        plan.walk(&mut |node| {
            has_windows |= matches!(node, LogicalPlan::Window(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !has_windows {
            return Ok(plan);
        }
        plan.replace_up(&mut |node| match node {
            LogicalPlan::Window(window) => with_keys(window),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn with_keys(window: Window) -> Result<Transformed<LogicalPlan>> {
    let node = LogicalPlan::Window(window);
    let names = NamePreserver::new(&node);
    let LogicalPlan::Window(window) = node else {
        return Ok(Transformed::no(node));
    };
    let input = window.input.schema();
    // All windows of a node share their order, and the library counts on that.
    let mut is_counted = false;
    for expr in &window.window_expr {
        is_counted |= expr.has(&mut |part| Ok(counts_from_key(part)))?;
    }
    let mut keys: Vec<Expr> = Vec::new();
    let mut is_changed = false;
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in &window.window_expr {
        let name = names.save(expr);
        let expr = expr.clone().replace_up(&mut |mut part| {
            let Expr::WindowFunction(function) = &mut part else {
                return Ok(Transformed::no(part));
            };
            let exact = is_counted && widen(&mut function.params, input);
            let placed = place(&mut function.params, input, &mut keys)?;
            Ok(Transformed::new_transformed(part, exact || placed))
        })?;
        is_changed |= expr.transformed;
        exprs.push(name.restore(expr.data));
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    if keys.is_empty() {
        let node = Window::try_new(exprs, window.input)?;
        return Ok(Transformed::yes(LogicalPlan::Window(node)));
    }
    let columns = input.columns().into_iter().map(Expr::Column);
    let numbered = keys.into_iter().enumerate();
    let columns = columns.chain(numbered.map(|(number, key)| key.alias(key_name(number))));
    let below = LogicalPlanBuilder::from(window.input.as_ref().clone()).project(columns)?;
    let node = below.window(exprs)?;
    let columns = window.schema.columns().into_iter().map(Expr::Column);
    Ok(Transformed::yes(node.project(columns)?.build()?))
}

fn key_name(number: usize) -> String {
    format!("{KEY}{number}")
}

/// Whether a frame has an offset from the value of its key.
fn counts_from_key(expr: &Expr) -> bool {
    let Expr::WindowFunction(function) = expr else {
        return false;
    };
    let frame = &function.params.window_frame;
    let counts = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !offset.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range
        && (counts(&frame.start_bound) || counts(&frame.end_bound))
}

/// An integer that offsets are counted from, as a number that has more digits.
fn widen(params: &mut WindowFunctionParams, input: &DFSchema) -> bool {
    let [Sort { expr, .. }] = params.order_by.as_mut_slice() else {
        return false;
    };
    if !expr.get_type(input).is_ok_and(|kind| kind.is_integer()) {
        return false;
    }
    *expr = cast(std::mem::take(expr), EXACT);
    true
}

/// Whether the value of an expression follows from a condition in it.
fn holds_condition(expr: &Expr, input: &DFSchema) -> Result<bool> {
    let is_boolean = |part: &Expr| {
        part.get_type(input)
            .is_ok_and(|kind| kind == DataType::Boolean)
    };
    expr.has(&mut |part| Ok(matches!(part, Expr::Case(_)) || is_boolean(part)))
}

/// Columns in place of what holds conditions.
fn place(
    params: &mut WindowFunctionParams,
    input: &DFSchema,
    keys: &mut Vec<Expr>,
) -> Result<bool> {
    let mut is_changed = false;
    let orders = params.order_by.iter_mut().map(|sort| &mut sort.expr);
    for expr in params.partition_by.iter_mut().chain(orders) {
        if matches!(expr, Expr::Column(_) | Expr::Literal(..)) || !holds_condition(expr, input)? {
            continue;
        }
        let known = keys.iter().position(|key| key == expr);
        let number = known.unwrap_or(keys.len());
        let column = Expr::Column(Column::from_name(key_name(number)));
        let key = std::mem::replace(expr, column);
        if known.is_none() {
            keys.push(key);
        }
        is_changed = true;
    }
    Ok(is_changed)
}
