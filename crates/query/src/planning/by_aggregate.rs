//! Grouped queries on a raw table that a continuous aggregate of it can answer: stored answers where they are right, the query
//! elsewhere.
//!
//! Does: find the aggregates of a table that a query groups, choose the one with the widest buckets, put stored buckets and raw
//! rows together as one plan on one snapshot. Does not: ask for privileges: who may read the table was asked before; or say which
//! stored buckets are right (`tables/aggregate.rs` does).
//!
//! Next: docs/decisions/0026-continuous-aggregates.md.

mod asked;
mod form;
mod keys;
mod parts;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use nilometer_engine::{AggregateSource, TableSchema};
use nilometer_service::define::{self, Aggregate};

use crate::error::Error;
use crate::statement::name::{NameScope, TableName};
use crate::tables::aggregate::buckets::complement;
use crate::tables::aggregate::{Chain, divided, invalid};
use crate::tables::catalogue::ReadContext;
use crate::tables::table::Table;
use crate::walk::PlanWalk;
use asked::Asked;
pub(crate) use form::Forms;
use form::{Form, form_of};

/// The setting of a session that switches this off, as `TimescaleDB` calls it.
const SETTING: &str = "timescaledb.enable_cagg_rewrites";

/// An aggregate that may answer, with the ranges [start, end) of time in which its stored answers equal its query.
struct Candidate {
    aggregate: Aggregate,
    form: Arc<Form>,
    stored: Arc<TableSchema>,
    usable: Vec<(i64, i64)>,
}

/// What becomes of a plan.
pub(crate) struct Answered {
    pub(crate) plan: LogicalPlan,
    /// Whether it is so depends on what is stored now, and on the session.
    pub(crate) is_of_now: bool,
}

/// The plan with stored answers in place of what they answer.
pub(crate) async fn by_aggregates(
    reading: &ReadContext,
    session: &SessionState,
    plan: LogicalPlan,
) -> Result<Answered, Error> {
    let (mut all, is_on) = (Vec::new(), is_on(reading));
    let mut is_of_now = false;
    for (name, table) in grouped_tables(&plan)? {
        let known = define::aggregates_of_table(&reading.snapshot, &name.name());
        is_of_now |= !known.is_empty();
        for aggregate in known.into_iter().filter(|_| is_on) {
            if let Some(found) = candidate(reading, aggregate, &table).await? {
                all.push((name.shown(), found));
            }
        }
    }
    if all.is_empty() {
        return Ok(Answered { plan, is_of_now });
    }
    // The widest buckets are the fewest rows.
    all.sort_by_key(|(_, it)| std::cmp::Reverse(it.form.buckets.width_ns()));
    let replaced = plan.replace_up(&mut |node| {
        let Some(asked) = Asked::of(&node, session) else {
            return Ok(Transformed::no(node));
        };
        let name = asked.table().name().shown();
        let own = all.iter().filter(|(of, _)| *of == name);
        for (_, candidate) in own {
            if let Some(plan) = parts::answered(reading, session, &asked, candidate)? {
                return Ok(Transformed::yes(plan));
            }
        }
        drop(asked);
        Ok(Transformed::no(node))
    })?;
    Ok(Answered {
        plan: replaced.data,
        is_of_now,
    })
}

/// Whether a session wants it, and it may be: what a refresh stores is computed of rows.
fn is_on(reading: &ReadContext) -> bool {
    let client = reading.client.as_ref();
    let value = client.and_then(|client| client.settings.get(SETTING));
    let is_off = value.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        matches!(value.as_str(), "off" | "false" | "0" | "no")
    });
    reading.uses_aggregates && !is_off && !reading.is_computing()
}

/// The tables whose rows are grouped by something that could be a bucket.
fn grouped_tables(plan: &LogicalPlan) -> Result<Vec<(TableName, Arc<TableSchema>)>, Error> {
    let mut found: Vec<(TableName, Arc<TableSchema>)> = Vec::new();
    plan.walk(&mut |node| {
        if let LogicalPlan::Aggregate(node) = node
            && let Some((table, _)) = asked::spine(&node.input)
            && let Some(table) = table.downcast_ref::<Table>()
        {
            let name = table.name();
            if !found.iter().any(|(known, _)| known.shown() == name.shown()) {
                found.push((name.clone(), Arc::clone(table.table_schema())));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// An aggregate of a table as one that may answer; `None` = nothing of it can be used.
async fn candidate(
    reading: &ReadContext,
    aggregate: Aggregate,
    table: &TableSchema,
) -> Result<Option<Candidate>, Error> {
    let snapshot = &reading.snapshot;
    let name = &aggregate.name;
    let stored = snapshot.table(&name.database, &name.schema, &aggregate.stored);
    let sources = snapshot.aggregate_sources(aggregate.key());
    // Of one table, and that is the one: another one may have its name.
    let is_of_table = sources
        .iter()
        .eq([&AggregateSource::Times(table.kept_id())]);
    let Some(stored) = stored.filter(|_| is_of_table) else {
        return Ok(None);
    };
    let now_ns = reading.shared.engine.wall_ns();
    let chain = Chain::of(snapshot, &aggregate)?;
    let (_, valid) = divided(invalid(snapshot, &aggregate, now_ns)?);
    // Where the rows of the table, or the stored answers of them, may be gone, rows alone are what the query means.
    let from = chain.complete_from(snapshot, &aggregate, now_ns);
    let usable: Vec<(i64, i64)> = valid
        .into_iter()
        .map(|(start, end)| (start.max(from), end))
        .filter(|(start, end)| start < end)
        .collect();
    if usable.is_empty() {
        return Ok(None);
    }
    let Some(form) = form(reading, &aggregate).await else {
        return Ok(None);
    };
    Ok(Some(Candidate {
        aggregate,
        form,
        stored,
        usable,
    }))
}

/// What an aggregate stores, which is looked at once; `None` = its query has a part that others cannot use.
async fn form(reading: &ReadContext, aggregate: &Aggregate) -> Option<Arc<Form>> {
    let name = &aggregate.name;
    let query = define::view(&reading.snapshot, &name.database, &name.schema, &name.table)?;
    let forms = &reading.shared.forms;
    if let Some(known) = forms.get(aggregate.number, &query) {
        return known;
    }
    let place = NameScope {
        database: name.database.clone(),
        schema: name.schema.clone(),
    };
    let analysed = reading.analysed().in_utc();
    // What is wrong with it now may not be so the next time, and is told where the view is read.
    let plan = analysed
        .plan_query(&TableName::at(None, name.clone()), &query)
        .await
        .ok()?;
    let found = form_of(&plan, &analysed.session(&place)).map(Arc::new);
    forms.keep(aggregate.number, query, found.clone());
    found
}

/// What of a range [from, until) of times is in none of some ranges.
fn outside((from, until): (i64, i64), ranges: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let pieces = complement(ranges).into_iter();
    pieces
        .map(|(start, end)| (start.max(from), end.min(until)))
        .filter(|(start, end)| start < end)
        .collect()
}
