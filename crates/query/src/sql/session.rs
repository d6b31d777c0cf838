//! The planner's rules, functions and settings that statements share.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

use crate::SqlOptions;
use crate::error::Error;
use crate::function;
use crate::limits::plan_time;
use crate::planning::threads::ThreadsByRows;
use crate::planning::{planner, single_table};
use crate::semantics::outer::constants::NullSides;

/// What all statements plan with.
pub(super) fn session(
    options: &SqlOptions,
    runtime: &Arc<RuntimeEnv>,
    all_rules: bool,
) -> Result<SessionState, Error> {
    let mut config = config(options);
    let mut rules = physical_rules();
    if !all_rules {
        config.options_mut().optimizer.max_passes = single_table::PASSES;
        rules = single_table::physical_rules(rules);
    }
    let rules = ThreadsByRows::new(rules, config.options());
    let session = SessionStateBuilder::new()
        .with_default_features()
        // What a function of functions makes is bounded by nothing.
        .with_higher_order_functions(Vec::new())
        .with_config(config)
        .with_runtime_env(Arc::clone(runtime))
        .with_physical_optimizer_rules(vec![Arc::new(rules)]);
    let mut session = planner::extend(session, options);
    session = session.with_optimizer_rules(if all_rules {
        plan_time::between(planner::logical_rules())
    } else {
        single_table::logical_rules()
    });
    let mut session = session.build();
    function::register(&mut session)?;
    Ok(session)
}

/// Rules that hand conditions down by the names of their columns: below a join that puts out few of its columns they take
/// one side's for the other's (`DataFusion` 55.2). What they are for are scans that take conditions while a query runs,
/// and none of ours does.
const PUSHED_BY_NAME: [&str; 2] = ["FilterPushdown", "FilterPushdown(Post)"];

/// The planner's rules, and first ours.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = vec![Arc::new(NullSides)];
    rules.extend(PhysicalOptimizer::new().rules);
    rules.retain(|rule| !PUSHED_BY_NAME.contains(&rule.name()));
    rules
}

fn config(options: &SqlOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let settings = config.options_mut();
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.sql_parser.dialect = datafusion::config::Dialect::Generic;
    settings.sql_parser.collect_spans = true;
    // A scan has as many partitions as its rows are worth; dealing a small one out to more threads only costs.
    settings.optimizer.enable_round_robin_repartition = false;
    // It refuses what is right: a grouped `b IS FALSE` is never NULL, and the operator for it does not know.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // One text type everywhere: comparing tags with literals then needs no casts.
    settings.sql_parser.map_string_types_to_utf8view = false;
    config
}
