//! Our additions to the planner: rules, operators, and SQL syntax.
//!
//! Does not: plan anything that `DataFusion` plans already.

use std::pin::Pin;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, UserDefinedLogicalNode};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use crate::SqlOptions;
use crate::function::{BoundFunctions, Extract, JsonOperators, Spelled};
use crate::limits::patterns::BoundPatterns;
use crate::limits::plan_time::EndInTime;
use crate::operators::asof::{AsofJoin, AsofJoinExec, FindAsofJoins};
use crate::operators::first_rows::{self, FirstRows, FirstRowsExec, Keys};
use crate::operators::gapfill::{FillGaps, GapFill, GapFillExec};
use crate::planning::recognise;
use crate::semantics::casts::rounding::RoundCasts;
use crate::semantics::casts::typed::TypedCasts;
use crate::semantics::checked::filtered::FilterFirst;
use crate::semantics::checked::{self, CheckIntegers};
use crate::semantics::distinct_on::DistinctOnce;
use crate::semantics::float_key::{self, CompareFloats};
use crate::semantics::intervals::Intervals;
use crate::semantics::lateral::FirstOfEach;
use crate::semantics::logic::{
    DECORRELATE, KeepLists, MarkSubqueries, NullableSubqueries, SelectRows, SpellSubqueries,
};
use crate::semantics::numbers::ExactNumbers;
use crate::semantics::outer::OuterRows;
use crate::semantics::set_all::CountRows;
use crate::semantics::values::arrays::{ArrayOperators, TextAsArray};
use crate::semantics::values::bytea::{JoinBytes, TextAsBytes};
use crate::semantics::values::json_order::{JsonChoices, JsonKeys};
use crate::semantics::windows::WindowKeys;
use crate::tables::planned::Planned;

/// Adds rules, nodes and operators to a session that is being built.
pub(crate) fn extend(
    mut builder: SessionStateBuilder,
    options: &SqlOptions,
) -> SessionStateBuilder {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(CountRows));
    rules.insert(0, Arc::new(SpellSubqueries));
    // After it, so that a division that is checked is known as numeric.
    rules.insert(0, Arc::new(RoundCasts::new()));
    rules.insert(0, Arc::new(ExactNumbers));
    rules.insert(0, Arc::new(FirstOfEach));
    rules.insert(0, Arc::new(OuterRows));
    // Not before functions are known to be allowed: it puts one of its own around subqueries.
    rules.insert(0, Arc::new(NullableSubqueries));
    rules.insert(0, Arc::new(JsonChoices));
    rules.insert(0, Arc::new(BoundFunctions::new(options)));
    rules.insert(0, Arc::new(DistinctOnce));
    rules.insert(0, Arc::new(WindowKeys));
    rules.insert(0, Arc::new(TypedCasts));
    rules.insert(0, Arc::new(SelectRows));
    rules.push(Arc::new(FindAsofJoins));
    rules.push(Arc::new(FillGaps::new(options.gapfill_buckets_max)));
    rules.push(Arc::new(JsonKeys));
    rules.push(Arc::new(TextAsArray));
    rules.push(Arc::new(TextAsBytes::new()));
    rules.push(Arc::new(FilterFirst));
    rules.push(Arc::new(CheckIntegers));
    rules.push(Arc::new(CompareFloats));
    rules.push(Arc::new(BoundPatterns::new()));
    let rules = rules
        .into_iter()
        .flat_map(|rule| [rule, Arc::new(EndInTime) as Arc<_>])
        .collect();
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(Extract));
    planners.insert(0, Arc::new(Intervals));
    planners.insert(0, Arc::new(ArrayOperators::new()));
    planners.insert(0, Arc::new(JoinBytes::new()));
    planners.insert(0, Arc::new(JsonOperators::new()));
    // Before the library's, which knows these calls of text alone.
    planners.insert(0, Arc::new(Spelled::new()));
    builder
        .with_analyzer_rules(rules)
        .with_query_planner(Arc::new(TimeSeriesPlanner))
}

/// The planner's rules of the logical plan, with ours in place of those that go wrong.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = Optimizer::new().rules.into_iter();
    let keep_lists = KeepLists::default();
    let mut keep_lists = Some(keep_lists);
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = rules
        .map(
            |rule| match keep_lists.take_if(|ours| ours.name() == rule.name()) {
                Some(ours) => Arc::new(ours) as Arc<dyn OptimizerRule + Send + Sync>,
                None => rule,
            },
        )
        .collect();
    let place = rules.iter().position(|rule| rule.name() == DECORRELATE);
    rules.insert(place.unwrap_or(0), Arc::new(MarkSubqueries));
    rules
}

#[derive(Debug)]
struct TimeSeriesPlanner;

/// The signatures are those of `async fn`: see `tables::planned`.
impl datafusion::execution::context::QueryPlanner for TimeSeriesPlanner {
    fn create_physical_plan<'planner, 'plan, 'session, 'all>(
        &'planner self,
        plan: &'plan LogicalPlan,
        session: &'session dyn Session,
    ) -> Planned<'all>
    where
        'planner: 'all,
        'plan: 'all,
        'session: 'all,
        Self: 'all,
    {
        match settled(plan, session) {
            Ok(settled) => Box::pin(planned(settled, session)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

fn settled(plan: &LogicalPlan, session: &dyn Session) -> Result<LogicalPlan> {
    let with_series = recognise::replaced(plan, session.config())?;
    let plan = with_series.as_ref().unwrap_or(plan);
    let settled = checked::settle(float_key::settle(plan)?)?;
    first_rows::settle(settled.into_owned())
}

async fn planned(plan: LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Nodes)])
        .create_physical_plan(&plan, session)
        .await
}

/// Operators of our nodes.
struct Nodes;

impl ExtensionPlanner for Nodes {
    fn plan_extension<'nodes, 'planner, 'node, 'logical, 'of, 'physical, 'session, 'context, 'all>(
        &'nodes self,
        planner: &'planner dyn PhysicalPlanner,
        node: &'node dyn UserDefinedLogicalNode,
        logical_inputs: &'logical [&'of LogicalPlan],
        physical_inputs: &'physical [Arc<dyn ExecutionPlan>],
        session: &'session dyn Session,
        context: &'context PhysicalPlanningContext,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn ExecutionPlan>>>> + Send + 'all>>
    where
        'nodes: 'all,
        'planner: 'all,
        'node: 'all,
        'logical: 'all,
        'of: 'all,
        'physical: 'all,
        'session: 'all,
        'context: 'all,
        Self: 'all,
    {
        let done = operator(
            planner,
            node,
            logical_inputs,
            physical_inputs,
            session,
            context,
        );
        Box::pin(std::future::ready(done))
    }
}

fn operator(
    planner: &dyn PhysicalPlanner,
    node: &dyn UserDefinedLogicalNode,
    logical_inputs: &[&LogicalPlan],
    physical_inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
    context: &PhysicalPlanningContext,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema: Arc<Schema> = Arc::clone(node.schema().inner());
    let expr = |expr: &Expr, schema: &DFSchema| -> Result<Arc<dyn PhysicalExpr>> {
        planner.create_physical_expr(expr, schema, session, context)
    };
    if let (Some(fill), [input]) = (node.as_any().downcast_ref::<GapFill>(), physical_inputs) {
        let no_columns = DFSchema::empty();
        let exprs = fill
            .exprs()
            .iter()
            .map(|it| expr(it, &no_columns))
            .collect::<Result<_>>()?;
        let layout = fill.layout().clone();
        let fill = GapFillExec::new(Arc::clone(input), schema, exprs, layout)?;
        return Ok(Some(Arc::new(fill)));
    }
    if let (Some(first), [input], [input_plan]) = (
        node.as_any().downcast_ref::<FirstRows>(),
        physical_inputs,
        logical_inputs,
    ) {
        let keys = first_keys(first, |it| expr(it, input_plan.schema()))?;
        let first = FirstRowsExec::new(Arc::clone(input), schema, keys);
        return Ok(Some(Arc::new(first)));
    }
    if let (Some(join), [left, right], [left_plan, right_plan]) = (
        node.as_any().downcast_ref::<AsofJoin>(),
        physical_inputs,
        logical_inputs,
    ) {
        let side = |exprs: Vec<&Expr>, plan: &LogicalPlan| {
            exprs
                .into_iter()
                .map(|it| expr(it, plan.schema()))
                .collect::<Result<Vec<_>>>()
        };
        let join = AsofJoinExec::new(
            [Arc::clone(left), Arc::clone(right)],
            schema,
            [
                side(join.left_exprs(), left_plan)?,
                side(join.right_exprs(), right_plan)?,
            ],
            join.matching(),
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

fn first_keys(
    first: &FirstRows,
    of: impl Fn(&Expr) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<Keys> {
    let key = |key: &SortExpr| {
        let options = SortOptions {
            descending: !key.asc,
            nulls_first: key.nulls_first,
        };
        Ok(PhysicalSortExpr::new(of(&key.expr)?, options))
    };
    Ok(Keys {
        groups: first.groups().iter().map(&of).collect::<Result<_>>()?,
        values: first.values().iter().map(&of).collect::<Result<_>>()?,
        order: first.order().iter().map(key).collect::<Result<_>>()?,
    })
}
