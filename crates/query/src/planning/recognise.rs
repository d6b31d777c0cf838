//! Series queries in plans: what of an optimized plan is a question that `nilometer_series` answers.
//!
//! Does: say whether a plan, or the largest parts of it, are one series query each, with the columns that they have in the
//! plan; put the operator that runs it in their place. Does not: recognise what SQL answers otherwise than the series query
//! would: where it is not sure, it says no. Nor does it run anything (`operators::series` does).
//!
//! A plan is looked through from the scan upwards (`view.rs`): each node adds to what is known of the question, or ends the
//! attempt. What is known at the end is written down as a `Shape` (`finish.rs`).

mod condition;
mod finish;
mod group;
mod view;

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::prelude::SessionConfig;
use nilometer_engine::{Narrowing, ScanRequest, Snapshot, TableSchema};
use nilometer_series::{Shape, TagExpr};

use crate::operators::series::SeriesTable;
use crate::planning::filter::{FieldCondition, Pushdown};
use crate::statement::name::TableName;
pub(crate) use condition::time_range;
pub(crate) use finish::all_of;
use view::View;

/// Rows of an answer that is not in any order. More are read in pieces by the planner's scan, which holds none of them.
pub(crate) const STREAMED_ROWS_MAX: u64 = 1 << 20;

/// A plan that is one series query.
#[derive(Debug, Clone)]
pub(crate) struct Recognised {
    pub(crate) table: TableRead,
    pub(crate) shape: Shape,
    /// By column of the plan, its place among the query's columns.
    pub(crate) outputs: Vec<usize>,
    /// Columns of the plan.
    pub(crate) schema: SchemaRef,
    /// Times that the query is about, but for the filters that were left out.
    pub(crate) time: RangeInclusive<i64>,
    /// Its conditions on tags, all of which have to hold.
    pub(crate) tags: Vec<TagExpr>,
    /// Filters that were left out, and how many conditions on tags come before each.
    pub(crate) holes: Vec<(usize, usize)>,
    /// Whether the answer is rows in any order.
    pub(crate) streams: bool,
}

/// The table that is read, and what is read of it.
#[derive(Debug, Clone)]
pub(crate) struct TableRead {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) threads: usize,
    pub(crate) name: TableName,
    pub(crate) pushdown: Pushdown,
    /// Positions of its columns that the plan names.
    columns: Vec<usize>,
    narrowing: Narrowing,
    /// Rows after which the scan may stop.
    limit: Option<usize>,
}

impl TableRead {
    /// The scan that reads what the query needs, if all of it has to be read, and how it is narrowed.
    pub(crate) fn scan(&self) -> (ScanRequest, Narrowing) {
        let request = ScanRequest {
            table: Arc::clone(&self.schema),
            projection: self.columns.clone(),
            time: self.pushdown.time.clone(),
            tags: self.pushdown.tags.clone(),
            limit: self.limit,
        };
        let fields = &self.pushdown.fields;
        let narrowing = match &self.narrowing {
            Narrowing::None if !fields.is_empty() => {
                Narrowing::Fields(fields.iter().map(FieldCondition::predicate).collect())
            }
            narrowing => narrowing.clone(),
        };
        (request, narrowing)
    }

    /// Upper bound of the rows that are read.
    fn rows_estimate(&self) -> Result<u64> {
        let (request, narrowing) = self.scan();
        let scan = self.snapshot.scan_narrowed(&request, &narrowing);
        let scan = scan.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(scan.rows_estimate())
    }
}

/// A session in which nothing is recognised: for tests, which compare its answers with those of others.
#[derive(Debug)]
pub(crate) struct NoSeries;

/// The series query that a whole plan is. `left_out` = places of filters of the scan that are not part of it, because whoever
/// asks puts them in later.
pub(crate) fn whole(plan: &LogicalPlan, left_out: &[usize]) -> Result<Option<Recognised>> {
    let Some(view) = View::of(plan, left_out)? else {
        return Ok(None);
    };
    let Some(found) = view.finish(plan.schema().as_arrow()) else {
        return Ok(None);
    };
    // A filter that is put in later makes the rows fewer.
    if found.streams && left_out.is_empty() && found.table.rows_estimate()? > STREAMED_ROWS_MAX {
        return Ok(None);
    }
    Ok(Some(found))
}

/// The plan with the operator of series queries in the place of each largest part that is one.
pub(crate) fn replaced(plan: &LogicalPlan, config: &SessionConfig) -> Result<Option<LogicalPlan>> {
    if config.get_extension::<NoSeries>().is_some() || !reads_tables(plan)? {
        return Ok(None);
    }
    // Of a statement that is explained, the statement.
    let mut is_whole = true;
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
                let leaf = leaf(&node, found)?;
                Transformed::new(leaf, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(replaced.transformed.then_some(replaced.data))
}

/// Most plans of the system's tables and of relations have nothing to recognise.
fn reads_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= view::table_of(scan)?.is_some();
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

/// A scan of what the series query answers.
fn leaf(node: &LogicalPlan, found: Recognised) -> Result<LogicalPlan> {
    let name = found.table.schema.name.clone();
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
