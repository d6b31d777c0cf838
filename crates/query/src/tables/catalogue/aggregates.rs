//! Continuous aggregates while names are looked up: what their queries read, and the plan that takes their place.
//!
//! Does: hand what is read to the aggregates around it, restrict their source to some buckets, choose between stored answers and
//! the query. Does not: know which buckets are right (`tables/aggregate.rs` does).

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::logical_expr::LogicalPlan;
use nilometer_service::define::Aggregate;

use super::ReadContext;
use crate::error::Error;
use crate::statement::name::TableName;
use crate::tables::aggregate::{
    Meant, Parts, Ranges, Reads, Restriction, divided, invalid, restricted, together,
};
use crate::tables::table::Table;

impl ReadContext {
    /// The same, for who wants to know what a query reads.
    pub(crate) fn noting(&self, reads: &Reads) -> Self {
        Self {
            reads: vec![reads.clone()],
            ..self.clone()
        }
    }

    /// The same, for who only looks at continuous aggregates.
    pub(crate) fn analysed(&self) -> Self {
        Self {
            meant: Meant::Columns,
            ..self.clone()
        }
    }

    /// The same, for who computes what a continuous aggregate shall store.
    pub(crate) fn computing(&self, view: String, ranges: Ranges) -> Self {
        Self {
            meant: Meant::Query(Arc::new((view, ranges))),
            ..self.clone()
        }
    }

    /// Whether this is for a refresh, which alone writes stored answers.
    pub(crate) fn is_computing(&self) -> bool {
        matches!(self.meant, Meant::Query(_))
    }

    /// A view in the query of a continuous aggregate that is about to be made: `CREATE OR REPLACE` would change what the
    /// aggregate means, and no row of it would say so.
    pub(super) fn refuse_view(&self, name: &TableName) {
        let message = "the query of a continuous aggregate cannot read a view, whose definition may change without a row that changes; write the tables of the view".to_owned();
        self.complain(name, message);
    }

    /// Stored answers of the buckets where they are right, and the query for all others.
    pub(super) async fn plan_aggregate(
        &self,
        name: &TableName,
        query: &str,
        aggregate: &Aggregate,
    ) -> std::result::Result<LogicalPlan, Error> {
        let (database, schema) = (&name.database, &name.schema);
        let stored = self.snapshot.table(database, schema, &aggregate.stored);
        let stored = stored.ok_or_else(|| Error::internal("its stored answers are gone"))?;
        let (time, kind) = stored.time();
        let reads = Reads::of(&aggregate.source);
        let inside = |ranges: Option<Ranges>| {
            let outer = self.reads.iter().map(|it| it.inside(aggregate));
            Self {
                reads: outer.chain([reads.clone()]).collect(),
                restriction: ranges.map(|ranges| {
                    let source = aggregate.source.shown();
                    Arc::new(Restriction {
                        source,
                        ranges,
                        kind,
                    })
                }),
                meant: Meant::Answer,
                ..self.clone()
            }
        };
        if let Meant::Query(computing) = &self.meant
            && computing.0 == name.shown()
        {
            let ranges = computing.1.clone();
            return inside(Some(ranges)).plan_query(name, query).await;
        }
        for reads in &self.reads {
            reads.stored(aggregate, stored.id);
        }
        let whole = inside(None).plan_query(name, query).await?;
        let invalid = if aggregate.is_stored_only {
            Vec::new()
        } else if self.snapshot.aggregate_sources(aggregate.key()) == reads.found() {
            invalid(&self.snapshot, aggregate, self.shared.engine.wall_ns())?
        } else {
            // Another table or relation has the name of one that it was made of.
            vec![(i64::MIN, i64::MAX)]
        };
        let (invalid, valid) = divided(invalid);
        if valid.is_empty() {
            return Ok(whole);
        }
        let parts = Parts {
            time: time.to_owned(),
            kind,
            columns: Arc::clone(whole.schema().inner()),
            stored: Arc::new(Table::new(
                Arc::clone(&self.snapshot),
                Arc::clone(&stored),
                TableName {
                    table: aggregate.stored.clone(),
                    ..name.clone()
                },
                self.shared.options.threads,
            )),
        };
        let mut plans = vec![parts.stored(&valid)?];
        for ranges in invalid {
            plans.push(inside(Some(ranges)).plan_query(name, query).await?);
        }
        Ok(together(plans)?)
    }

    /// A table or continuous aggregate, with some of its buckets if it is what the restriction is about.
    pub(super) fn restrict(
        &self,
        name: &TableName,
        table: Arc<dyn TableProvider>,
        time: &str,
    ) -> Option<Arc<dyn TableProvider>> {
        let restriction = self.restriction.as_ref();
        let Some(restriction) = restriction.filter(|it| it.source == name.shown()) else {
            return Some(table);
        };
        match restricted(&table, restriction, time) {
            Ok(plan) => Some(Arc::new(ViewTable::new(plan, None))),
            Err(error) => {
                self.complain(name, error.to_string());
                None
            }
        }
    }
}
