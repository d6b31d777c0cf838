//! Series queries in plans: what of an optimized plan is a question that `nilometer_series` answers.
//!
//! Does: say whether a plan, or the largest parts of it, are one series query each, with the columns that they have in the
//! plan; put the operator that runs it in their place. Does not: recognise what SQL answers otherwise than the series query
//! would: where it is not sure, it says no. Nor does it run anything (`operators::series` does).
//!
//! A plan is looked through from the scan upwards (`view.rs`): each node adds to what is known of the question, or ends the
//! attempt. What is known at the end is written down as a `Shape` (`finish.rs`).

mod buckets;
mod calculated;
mod chosen;
mod condition;
mod ends;
mod finish;
mod group;
mod joined;
mod nested;
mod view;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::prelude::SessionConfig;

use crate::operators::series::SeriesTable;
use crate::planning::recognised::Recognised;
use crate::walk::PlanWalk;
pub(crate) use condition::time_range;
pub(crate) use finish::all_of;
use view::View;

/// A session in which nothing is recognised: for tests, which compare its answers with those of others.
#[derive(Debug)]
pub(crate) struct NoSeries;

/// The series query that a whole plan is. `left_out` = places of filters of the scan that are not part of it, because whoever
/// asks puts them in later.
pub(crate) fn whole(plan: &LogicalPlan, left_out: &[usize]) -> Result<Option<Recognised>> {
    let Some(view) = View::of(plan, left_out)? else {
        return Ok(None);
    };
    Ok(view.finish(plan.schema().as_arrow()))
}

/// The plan with the operator of series queries in the place of each largest part that is one.
pub(crate) fn replaced(plan: &LogicalPlan, config: &SessionConfig) -> Result<Option<LogicalPlan>> {
    if config.get_extension::<NoSeries>().is_some() || !reads_tables(plan)? {
        return Ok(None);
    }
    // Of a statement that is explained, the statement.
    let mut is_whole = true;
    let leaves = Leaves::default();
    let replaced = plan.clone().transform_down_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
            return Ok(Transformed::no(node));
        }
        let found = if std::mem::replace(&mut is_whole, false) {
            whole(&node, &[])?
        } else {
            part(&node)?
        };
        Ok(match found {
            Some(found) => {
                let leaf = leaves.leaf(&node, found)?;
                Transformed::new(leaf, true, TreeNodeRecursion::Jump)
            }
            None => match joined::series_first(&node)? {
                Some(first) => Transformed::yes(first),
                None => match buckets::within(&node)? {
                    Some(finest) => Transformed::yes(finest),
                    None => match ends::of_ends(&node, &leaves)? {
                        Some(of_ends) => Transformed::yes(of_ends),
                        None => Transformed::no(node),
                    },
                },
            },
        })
    })?;
    Ok(replaced.transformed.then_some(replaced.data))
}

/// Most plans of the system's tables and of relations have nothing to recognise.
fn reads_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= view::table_of(scan).is_some();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The series query that a part of a plan is, if answering it so saves something: rows as they are the planner's scan reads as
/// well, with a partition for each thread.
fn part(plan: &LogicalPlan) -> Result<Option<Recognised>> {
    match View::of(plan, &[])? {
        Some(view) if !view.streams() && !view.sorts_all() => {
            Ok(view.finish(plan.schema().as_arrow()))
        }
        _ => Ok(None),
    }
}

/// The series queries that were put into a plan so far.
#[derive(Debug, Default)]
struct Leaves(Cell<usize>);

impl Leaves {
    /// A scan of what the series query answers. Two scans of one name and one schema are equal to the library, whatever they read,
    /// and of equal subqueries it runs one: so the scan has its number among those of the plan in its name.
    fn leaf(&self, node: &LogicalPlan, found: Recognised) -> Result<LogicalPlan> {
        let nth = self.0.replace(self.0.get() + 1);
        let name = match nth {
            0 => found.table.schema.name.clone(),
            nth => format!("{} {}", found.table.schema.name, nth + 1),
        };
        Ok(LogicalPlan::TableScan(TableScan {
            table_name: name.into(),
            source: provider_as_source(Arc::new(SeriesTable::new(found)?)),
            projection: None,
            projected_schema: Arc::clone(node.schema()),
            filters: Vec::new(),
            fetch: None,
            statistics_requests: std::collections::BTreeSet::new(),
        }))
    }
}
