//! From a query to its physical plan, in one line: a template of its shape, else the rules for plain queries, else all rules.
//!
//! Does: choose the way, and teach the templates what a plain query of a new shape looks like. Does not: resolve names or
//! settle what a statement means (`plan.rs`), or start a plan.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::sql::parser::Statement as DfStatement;
use nilometer_engine::MemoryBudget;

use crate::error::Error;
use crate::operators::series::one_line;
use crate::operators::window;
use crate::planning::by_aggregate::{Answered, by_aggregates};
use crate::planning::enum_order;
use crate::planning::plan::{explain_by_text, plan_as_asked, read_times, reads_information_schema};
use crate::planning::recognise::NoSeries;
use crate::planning::single_table::is_plain;
use crate::planning::templates::{Asked, Bound, MayBe, Plans, Shape, Templates, now_of, resolved};
use crate::statement::Question;
use crate::statement::headings::Names;
use crate::statement::name::NameScope;
use crate::tables::catalogue::ReadContext;
use crate::tables::relation;

/// Plans queries.
pub(crate) struct QueryPlanner {
    /// What queries that are not plain are planned with.
    all_rules: SessionState,
    templates: Templates,
}

/// A query that can be started.
pub(crate) struct PhysicalQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// It lists tables, columns or functions as the standard has it.
    pub(crate) lists_functions: bool,
    /// What the columns of its answer are called, if not as in the plan.
    pub(crate) headings: Option<Names>,
}

/// A query whose shape has a template.
pub(crate) struct BoundTemplate {
    pub(crate) bound: Bound,
    pub(crate) headings: Option<Names>,
}

/// Whether a statement names nothing but tables and relations: what a view is may change while its tables stay.
fn names_tables(
    reading: &ReadContext,
    session: &SessionState,
    place: &NameScope,
    statement: &DfStatement,
) -> bool {
    let references = session.resolve_table_references(statement);
    let is_table = |reference: &TableReference| {
        let name = resolved(reference, place);
        let table = reading
            .snapshot
            .table(&name.database, &name.schema, &name.table);
        table.is_some() || relation::find(&reading.snapshot, &name).is_some()
    };
    references.is_ok_and(|references| references.iter().all(is_table))
}

impl QueryPlanner {
    pub(crate) fn new(all_rules: SessionState, budget: &MemoryBudget) -> Self {
        Self {
            all_rules,
            templates: Templates::new(budget),
        }
    }

    /// The first way: the template of its shape, if there is one.
    pub(crate) fn template(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        shape: &Shape,
    ) -> Option<BoundTemplate> {
        let (bound, headings) = self.templates.bound(reading, place, shape)?;
        Some(BoundTemplate { bound, headings })
    }

    /// The whole way, from a parsed query. `shape` = it may become a template.
    pub(crate) async fn plan(
        &self,
        reading: &ReadContext,
        session: &SessionState,
        place: &NameScope,
        question: Question,
        shape: Option<&Shape>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<PhysicalQuery, Error> {
        let Question {
            statement,
            headings,
        } = question;
        let asked = plan_as_asked(reading, session, place, &statement).await?;
        let plan = read_times(asked.clone(), &reading.zone, &statement)?;
        let ordered = enum_order::settled(&plan, || reading.enum_place(&place.database))?;
        let headings = headings.of(asked.schema());
        let is_ordered = ordered.is_some();
        let plan = ordered.unwrap_or(plan);
        let Answered { plan, is_of_now } = by_aggregates(reading, session, plan).await?;
        // What is stored is another thing with the next write, and what looks labels up does so in this statement's snapshot.
        let shape = shape.filter(|_| !is_of_now && !is_ordered);
        let shape = shape.filter(|_| names_tables(reading, session, place, &statement));
        let moment = Asked {
            zone: &reading.zone,
            now_ns: now_of(session.execution_props()),
            sums_numeric: reading.sums_numeric(),
        };
        let learn = |optimized: &LogicalPlan, physical: &Arc<dyn ExecutionPlan>, is_plain: bool| {
            if let Some(shape) = shape {
                let plans = Plans {
                    asked: &asked,
                    optimized,
                    physical,
                };
                let may_be = self.may_be(is_plain);
                self.templates
                    .learn((place, &moment), shape, plans, headings.as_ref(), may_be);
            }
        };
        let planned = self.plan_logical(session, &plan, memory, learn).await;
        let planned = planned.map_err(|error| explain_by_text(error, &statement))?;
        Ok(PhysicalQuery {
            headings,
            ..planned
        })
    }

    fn may_be(&self, is_plain: bool) -> MayBe {
        let config = self.all_rules.config();
        MayBe {
            series: config.get_extension::<NoSeries>().is_none(),
            rows: is_plain,
        }
    }

    /// The way of a logical plan; `learn` gets the optimized one, the physical one, and whether it is plain.
    pub(crate) async fn plan_logical(
        &self,
        session: &SessionState,
        plan: &LogicalPlan,
        memory: &Arc<dyn MemoryPool>,
        learn: impl FnOnce(&LogicalPlan, &Arc<dyn ExecutionPlan>, bool),
    ) -> Result<PhysicalQuery, Error> {
        let lists_functions = reads_information_schema(plan)?;
        let plan = if is_plain(plan)? {
            let optimized = session.optimize(plan)?;
            let planner = session.query_planner();
            let physical = planner.create_physical_plan(&optimized, session).await?;
            learn(&optimized, &physical, true);
            physical
        } else {
            let charged = window::charge(plan.clone(), memory)?;
            let session = self.with_all_rules(session);
            let optimized = session.optimize(&charged)?;
            let planner = session.query_planner();
            let physical = planner.create_physical_plan(&optimized, &session).await?;
            learn(&optimized, &physical, false);
            physical
        };
        Ok(PhysicalQuery {
            plan,
            lists_functions,
            headings: None,
        })
    }

    /// The same session for a query that is not plain: at the same time, with all rules.
    fn with_all_rules(&self, session: &SessionState) -> SessionState {
        let mut all = self.all_rules.clone();
        *all.execution_props_mut() = session.execution_props().clone();
        all
    }

    /// How a plain query is planned, how it would be with all rules, and how from the template of its shape, of which it
    /// makes one if there is none and it can be; `None` = it is not plain. For tests.
    pub(crate) async fn ways(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        question: Question,
        shape: Option<&Shape>,
    ) -> Result<Option<[String; 3]>, Error> {
        let session = reading.session(place);
        let Question {
            statement,
            headings,
        } = question;
        let asked = plan_as_asked(reading, &session, place, &statement).await?;
        let headings = headings.of(asked.schema());
        let shape = shape.filter(|_| names_tables(reading, &session, place, &statement));
        let plan = read_times(asked.clone(), &reading.zone, &statement)?;
        // What looks labels up has no template.
        let ordered = enum_order::settled(&plan, || reading.enum_place(&place.database))?;
        if ordered.is_some() || !is_plain(&plan)? {
            return Ok(None);
        }
        let all = self.with_all_rules(&session);
        // Of a series query, the query: what it would read is what the first of its shape would have read.
        let shown = |plan: Arc<dyn ExecutionPlan>| {
            let text = displayable(plan.as_ref()).indent(false).to_string();
            let lines = text.lines().map(|line| match line.split_once("; table=") {
                Some((query, _)) if query.contains("SeriesExec: ") => query,
                _ => line,
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let physical = session.create_physical_plan(&plan).await?;
        let fewer = shown(Arc::clone(&physical));
        let all = shown(all.create_physical_plan(&plan).await?);
        let mut by_template = fewer.clone();
        if let Some(shape) = shape {
            let mut bound = self.template(reading, place, shape);
            if bound.is_none() {
                let optimized = session.optimize(&plan)?;
                let may_be = self.may_be(true);
                let moment = Asked {
                    zone: &reading.zone,
                    now_ns: now_of(session.execution_props()),
                    sums_numeric: reading.sums_numeric(),
                };
                self.templates.learn(
                    (place, &moment),
                    shape,
                    Plans {
                        asked: &asked,
                        optimized: &optimized,
                        physical: &physical,
                    },
                    headings.as_ref(),
                    may_be,
                );
                bound = self.template(reading, place, shape);
            }
            match bound.map(|bound| bound.bound) {
                // Of a query that is not planned, the query.
                Some(Bound::Series(series)) => {
                    let query = one_line(&series.query);
                    if !fewer.contains(&query) {
                        by_template = query;
                    }
                }
                Some(Bound::Whole(plan)) => by_template = shown(plan),
                None => {}
            }
        }
        Ok(Some([fewer, all, by_template]))
    }

    /// Has every query planned afresh the next time.
    pub(crate) fn forget_templates(&self) {
        self.templates.clear();
    }

    /// Number of templates. For tests.
    pub(crate) fn templates(&self) -> usize {
        self.templates.len()
    }
}
