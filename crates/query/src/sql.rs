//! The way in: one statement, one snapshot, one answer.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use nilometer_engine::{DEFAULT_SCHEMA, Engine, Snapshot};
use tokio::time::Instant;

use crate::aggregate::AggregateFromStatistics;
use crate::answer::Answer;
use crate::catalogue::Databases;
use crate::cooperate::cooperate;
use crate::error::Error;
use crate::memory::{QueryMemory, SharedMemory};
use crate::nearest::nearest;
use crate::parameter::Params;
use crate::{function, planner, statement};

/// Limits of queries. Each is named in the error that it causes.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Threads one query is spread over.
    pub threads: usize,
    /// Memory of one query.
    pub query_memory_bytes_max: usize,
    /// Memory of all queries together.
    pub queries_memory_bytes_max: usize,
    /// How long a query may run, from planning to its last batch.
    pub query_ms_max: u64,
    /// Length of a statement.
    pub sql_bytes_max: usize,
    /// Operators in one chain (`a OR b OR c` has two).
    pub sql_operators_max: usize,
    /// Buckets that `time_bucket_gapfill` makes of a range, for each group.
    pub gapfill_buckets_max: usize,
}

impl Default for SqlOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            query_memory_bytes_max: 512 << 20,
            queries_memory_bytes_max: 1 << 30,
            query_ms_max: 60_000,
            sql_bytes_max: 1 << 20,
            sql_operators_max: 1000,
            gapfill_buckets_max: 1_000_000,
        }
    }
}

/// SQL over an engine. Cheap to share; each query is on its own.
pub struct Sql {
    engine: Arc<Engine>,
    options: SqlOptions,
    /// Functions, rules and settings; what differs between queries is put into a copy.
    session: SessionState,
    runtime: Arc<RuntimeEnv>,
    memory: Arc<SharedMemory>,
}

impl std::fmt::Debug for Sql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Sql {
    /// Prepares what all queries have in common.
    pub fn new(engine: Arc<Engine>, options: SqlOptions) -> Result<Self, Error> {
        let runtime = RuntimeEnvBuilder::new()
            // A query over its memory ends with an error; it does not fill a disk that writes need.
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()?;
        let session = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config(&options))
            .with_runtime_env(Arc::clone(&runtime))
            .with_physical_optimizer_rules(physical_rules());
        let mut session = planner::extend(session, options.gapfill_buckets_max).build();
        function::register(&mut session)?;
        let memory = Arc::new(SharedMemory::new(
            options.queries_memory_bytes_max,
            engine.budget(),
        ));
        Ok(Self {
            engine,
            options,
            session,
            runtime,
            memory,
        })
    }

    /// Plans a statement on the newest snapshot and starts to run it. `database` is where names without one are
    /// looked up; others are reached as `database.schema.table`.
    pub async fn query(&self, database: &str, sql: &str) -> Result<Answer, Error> {
        self.query_with(database, sql, &Params::new()).await
    }

    /// As [`Self::query`], with values for the statement's placeholders.
    pub async fn query_with(
        &self,
        database: &str,
        sql: &str,
        params: &Params,
    ) -> Result<Answer, Error> {
        let started = Instant::now();
        let statement = statement::parse(
            sql,
            self.options.sql_bytes_max,
            self.options.sql_operators_max,
        )?;
        let snapshot = Arc::new(self.engine.snapshot());
        if snapshot.schemas(database).is_none() {
            return Err(nilometer_engine::Error::UnknownDatabase {
                name: database.to_owned(),
            }
            .into());
        }
        let session = self.session(database, Arc::clone(&snapshot));
        let plan = match session.statement_to_plan(statement.clone()).await {
            Ok(plan) => plan,
            Err(error) => {
                return Err(explain(
                    error.into(),
                    &session,
                    database,
                    &snapshot,
                    &statement,
                ));
            }
        };
        only_reading(&plan)?;
        let plan = params.fill(plan, sql)?;
        let plan = cooperate(session.create_physical_plan(&plan).await?)?;
        let memory = QueryMemory::new(
            self.options.query_memory_bytes_max,
            Arc::clone(&self.memory),
        );
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.runtime)
            .with_memory_pool(Arc::new(memory))
            .build_arc()?;
        let task = TaskContext::from(&session).with_runtime(runtime);
        let batches = execute_stream(plan, Arc::new(task))?;
        Ok(Answer::new(batches, started, &self.options))
    }

    fn session(&self, database: &str, snapshot: Arc<Snapshot>) -> SessionState {
        let mut session = self.session.clone();
        session.register_catalog_list(Arc::new(Databases::new(snapshot, self.options.threads)));
        database.clone_into(&mut session.config_mut().options_mut().catalog.default_catalog);
        // The time that now() means in this statement.
        session.mark_start_execution();
        session
    }
}

/// The planner's rules, and first ours: what it recognises is plainest before others have changed it.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(AggregateFromStatistics)];
    rules.extend(PhysicalOptimizer::new().rules);
    rules
}

fn config(options: &SqlOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false);
    let settings = config.options_mut();
    DEFAULT_SCHEMA.clone_into(&mut settings.catalog.default_schema);
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.sql_parser.dialect = datafusion::config::Dialect::Generic;
    settings.sql_parser.collect_spans = true;
    // A scan has as many partitions as its rows are worth; dealing a small one out to more threads only costs.
    settings.optimizer.enable_round_robin_repartition = false;
    // One text type everywhere: comparing tags with literals then needs no casts.
    settings.sql_parser.map_string_types_to_utf8view = false;
    config
}

/// Refuses what the statement's first word does not give away, such as `WITH ... INSERT`.
fn only_reading(plan: &LogicalPlan) -> Result<(), Error> {
    let statement = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => "CREATE TABLE",
        LogicalPlan::Ddl(_) => "DDL",
        LogicalPlan::Dml(DmlStatement { op, .. }) => {
            return Err(Error::Unsupported {
                statement: op.to_string(),
            });
        }
        LogicalPlan::Copy(_) => "COPY",
        LogicalPlan::Statement(_) => "SET",
        LogicalPlan::Explain(explain) => return only_reading(&explain.plan),
        LogicalPlan::Analyze(analyze) => return only_reading(&analyze.input),
        _ => return Ok(()),
    };
    Err(Error::Unsupported {
        statement: statement.to_owned(),
    })
}

/// Says which table is missing, where a table is; else leaves the error as it was.
fn explain(
    error: Error,
    session: &SessionState,
    database: &str,
    snapshot: &Snapshot,
    statement: &Statement,
) -> Error {
    if !matches!(error, Error::Plan { .. }) {
        return error;
    }
    let position = error.position();
    for reference in session
        .resolve_table_references(statement)
        .unwrap_or_default()
    {
        if let Some(missing) = missing(&reference, database, snapshot) {
            return match missing {
                Error::UnknownTable { name, nearest, .. } => Error::UnknownTable {
                    name,
                    nearest,
                    position,
                },
                other => other,
            };
        }
    }
    error
}

fn missing(reference: &TableReference, database: &str, snapshot: &Snapshot) -> Option<Error> {
    let resolved = reference.clone().resolve(database, DEFAULT_SCHEMA);
    let (database, schema, table) = (&*resolved.catalog, &*resolved.schema, &*resolved.table);
    if schema == "information_schema" || snapshot.table(database, schema, table).is_some() {
        return None;
    }
    if snapshot.schemas(database).is_none() {
        let name = database.to_owned();
        return Some(Error::Engine(nilometer_engine::Error::UnknownDatabase {
            name,
        }));
    }
    let nearest = nearest(table, snapshot.tables(database, schema).unwrap_or_default());
    Some(Error::UnknownTable {
        name: format!("{database}.{schema}.{table}"),
        nearest,
        position: None,
    })
}
