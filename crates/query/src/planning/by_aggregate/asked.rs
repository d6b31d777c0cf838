//! A grouped query on one table, as it can be compared with what an aggregate stores.
//!
//! Does: find its table, its conditions, and the range of times that these leave. Does not: know what is stored.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{Between, ScalarFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, LogicalPlan, Operator};
use nilometer_engine::TimeKind;

use arrow::datatypes::{DataType, TimeUnit};

use crate::function::TIME_BUCKET;
use crate::planning::incremental::evaluated;
use crate::tables::table::Table;
use crate::walk::ExprWalk;

const DAY_NS: i64 = 86_400_000_000_000;

/// A grouped query on one table.
pub(super) struct Asked<'a> {
    pub(super) node: &'a Aggregate,
    provider: Arc<dyn TableProvider>,
    /// Its conditions that do not bound the time alone, without qualifiers.
    pub(super) conditions: Vec<Expr>,
    /// The times that its other conditions leave: from the first up to, without, the last; the last time there is bounds nothing.
    pub(super) times: (i64, i64),
}

impl<'a> Asked<'a> {
    /// `None` = it is another node, or has a part that nothing stored answers.
    pub(super) fn of(node: &'a LogicalPlan, session: &SessionState) -> Option<Self> {
        let LogicalPlan::Aggregate(node) = node else {
            return None;
        };
        let (provider, filters) = spine(&node.input)?;
        let table = provider.downcast_ref::<Table>()?;
        let (time, kind) = table.table_schema().time();
        let (mut from, mut until) = (i64::MIN, i64::MAX);
        let mut conditions = Vec::new();
        for filter in &filters {
            let filter = unqualified(filter)?;
            match range(&filter, time, kind, session) {
                Some((first, end)) => {
                    from = from.max(first);
                    until = until.min(end);
                }
                None => conditions.push(comparable(&filter)?),
            }
        }
        Some(Self {
            node,
            provider,
            conditions,
            times: (from, until),
        })
    }

    pub(super) fn table(&self) -> &Table {
        self.provider
            .downcast_ref()
            .expect("it was one when this was made")
    }
}

/// The table below conditions and names for it, and the conditions; `None` = there is something else.
pub(super) fn spine(plan: &LogicalPlan) -> Option<(Arc<dyn TableProvider>, Vec<Expr>)> {
    let mut filters = Vec::new();
    let mut below = plan;
    loop {
        match below {
            LogicalPlan::Filter(it) => {
                filters.extend(split_conjunction(&it.predicate).into_iter().cloned());
                below = &it.input;
            }
            LogicalPlan::SubqueryAlias(it) => below = &it.input,
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source).ok()?;
                let is_plain = scan.fetch.is_none() && scan.filters.is_empty();
                let is_table = provider.downcast_ref::<Table>().is_some();
                return (is_plain && is_table).then_some((provider, filters));
            }
            _ => return None,
        }
    }
}

/// An expression that others are compared with: without qualifiers and names of its own; `None` = it has a part that may be
/// another each time.
pub(super) fn comparable(expr: &Expr) -> Option<Expr> {
    let is_other = expr.has(&mut |part| {
        Ok(matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::Placeholder(_)
                | Expr::ScalarVariable(..)
                | Expr::GroupingSet(_)
        ))
    });
    if is_other.unwrap_or(true) || expr.is_volatile() {
        return None;
    }
    unqualified(expr)
}

fn unqualified(expr: &Expr) -> Option<Expr> {
    let bare = expr.clone().replace_up(&mut |part| {
        Ok(match part {
            Expr::Column(Column { name, .. }) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(name)))
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    });
    bare.ok().map(|bare| bare.data)
}

/// The arguments of a `time_bucket` of the time.
pub(super) fn bucket_args<'a>(expr: &'a Expr, time: &str) -> Option<&'a [Expr]> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return None;
    };
    let is_time = args.get(1).is_some_and(|arg| is_column(arg, time));
    (func.name() == TIME_BUCKET && is_time).then_some(args)
}

fn is_column(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Column(column) if column.name == name)
}

/// The times from the first up to, without, the last that a condition on the time alone leaves.
fn range(expr: &Expr, time: &str, kind: TimeKind, session: &SessionState) -> Option<(i64, i64)> {
    let ns = |value: &Expr| time_ns(&evaluated(value, session)?, kind);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (op, value) = if is_column(left, time) {
                (*op, right)
            } else if is_column(right, time) {
                (op.swap()?, left)
            } else {
                return None;
            };
            let at = ns(value)?;
            let after = at.saturating_add(1);
            Some(match op {
                Operator::Eq => (at, after),
                Operator::Lt => (i64::MIN, at),
                Operator::LtEq => (i64::MIN, after),
                Operator::Gt => (after, i64::MAX),
                Operator::GtEq => (at, i64::MAX),
                _ => return None,
            })
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) if is_column(expr, time) => Some((ns(low)?, ns(high)?.saturating_add(1))),
        _ => None,
    }
}

/// A value that a time is compared with, in nanoseconds; `None` = it is of another type.
fn time_ns(value: &ScalarValue, kind: TimeKind) -> Option<i64> {
    match (kind, value.data_type()) {
        (TimeKind::TimestampTz, DataType::Timestamp(_, Some(_)))
        | (TimeKind::Timestamp, DataType::Timestamp(_, None)) => {
            let ns = value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None));
            match ns.ok()? {
                ScalarValue::TimestampNanosecond(Some(ns), _) => Some(ns),
                _ => None,
            }
        }
        (TimeKind::Date, DataType::Date32) => match value {
            ScalarValue::Date32(Some(days)) => i64::from(*days).checked_mul(DAY_NS),
            _ => None,
        },
        (TimeKind::Integer { unit_ns }, kind) if kind.is_integer() => {
            match value.cast_to(&DataType::Int64).ok()? {
                ScalarValue::Int64(Some(units)) => units.checked_mul(unit_ns.max(1)),
                _ => None,
            }
        }
        _ => None,
    }
}
