//! One template: a plan without a source, and the places of values in the scan's filters.
//!
//! Does: keep the optimized plan of a plain query that is no series query, and put other values into it. Does not: decide
//! whether that is the same plan (`slots.rs` does).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, TableSource};

use super::slots::{Asked, Slots, fill, scan_of};
use crate::walk::PlanWalk;

#[derive(Debug)]
pub(super) struct Template {
    slots: Slots,
    plan: LogicalPlan,
}

/// What a scan reads from that is not bound.
#[derive(Debug)]
struct Unbound(SchemaRef);

impl TableSource for Unbound {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

impl Template {
    /// The template of a plan with these places for values; `None` = it has other nodes than templates have.
    pub(super) fn of(slots: Slots, optimized: &LogicalPlan) -> Option<Self> {
        let source = scan_of(optimized)?.source.schema();
        let unbound: Arc<dyn TableSource> = Arc::new(Unbound(source));
        let plan = with_scan(optimized, &|scan| {
            let source = Arc::clone(&unbound);
            LogicalPlan::TableScan(TableScan {
                source,
                ..scan.clone()
            })
        })?;
        Some(Self { slots, plan })
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> Result<usize> {
        Ok(size_of::<Self>() + bytes_of(&self.plan)?)
    }

    /// The plan with other values; `None` = one of them is not understood.
    pub(super) fn bind(
        &self,
        values: &[Vec<String>],
        asked: &Asked<'_>,
        source: &Arc<dyn TableSource>,
    ) -> Option<LogicalPlan> {
        let mut filters = scan_of(&self.plan)?.filters.clone();
        let slots = self.slots.filters.iter().zip(&self.slots.places);
        for ((&at, (_, reading)), values) in slots.zip(values) {
            let filter = filters.get_mut(at)?;
            let mut left = values.iter().map(String::as_str);
            fill(filter, &mut left, (*reading, asked))?;
            if left.next().is_some() {
                return None;
            }
        }
        with_scan(&self.plan, &|scan| {
            LogicalPlan::TableScan(TableScan {
                source: Arc::clone(source),
                filters: filters.clone(),
                table_name: scan.table_name.clone(),
                projection: scan.projection.clone(),
                projected_schema: Arc::clone(&scan.projected_schema),
                fetch: scan.fetch,
                statistics_requests: scan.statistics_requests.clone(),
            })
        })
    }
}

/// The same plan over another scan.
fn with_scan(plan: &LogicalPlan, scan: &dyn Fn(&TableScan) -> LogicalPlan) -> Option<LogicalPlan> {
    let below = |input: &LogicalPlan| Some(Arc::new(with_scan(input, scan)?));
    Some(match plan {
        LogicalPlan::TableScan(old) => scan(old),
        LogicalPlan::Projection(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Projection(node)
        }
        LogicalPlan::Filter(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Filter(node)
        }
        LogicalPlan::Aggregate(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Aggregate(node)
        }
        LogicalPlan::Sort(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Sort(node)
        }
        LogicalPlan::Limit(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::Limit(node)
        }
        LogicalPlan::SubqueryAlias(node) => {
            let input = below(&node.input)?;
            let mut node = node.clone();
            node.input = input;
            LogicalPlan::SubqueryAlias(node)
        }
        _ => return None,
    })
}

/// Memory of a plan, about: its nodes, the columns that they have, and what its expressions are made of.
fn bytes_of(plan: &LogicalPlan) -> Result<usize> {
    let mut bytes = 0;
    plan.apply(|node| {
        bytes += size_of::<LogicalPlan>();
        for field in node.schema().fields() {
            bytes += field.size() + size_of::<Column>();
        }
        node.walk_expressions(&mut |expr| {
            expr.apply(|expr| {
                bytes += size_of::<Expr>();
                bytes += match expr {
                    Expr::Column(column) => column.name.len() + size_of::<Column>(),
                    Expr::Literal(value, _) => value.size(),
                    Expr::Alias(alias) => alias.name.len(),
                    _ => 0,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(bytes)
}
