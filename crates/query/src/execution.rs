//! Queries of running statements, planned and started.
//!
//! Does: give a plan the memory, the time and the batch size of its statement. Does not: answer (`answer.rs` does), or know
//! what a statement is for.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use nilometer_engine::Error as EngineError;
use nilometer_service::define::{self, Asked};
use nilometer_service::{Client, Executor, Running};

use crate::error::Error;
use crate::limits::attempt::Attempt;
use crate::limits::batch_size;
use crate::limits::cooperate::cooperate;
use crate::limits::memory::pool;
use crate::limits::plan_time;
use crate::limits::room;
use crate::limits::scope::Scope;
use crate::planning::query_planner::{PhysicalQuery, QueryPlanner};
use crate::shared::Shared;

/// Plans and starts queries.
pub(crate) struct Queries {
    pub(crate) shared: Arc<Shared>,
    pub(crate) planner: QueryPlanner,
    runtime: Arc<RuntimeEnv>,
}

impl Queries {
    pub(crate) fn new(
        shared: Arc<Shared>,
        planner: QueryPlanner,
        runtime: Arc<RuntimeEnv>,
    ) -> Self {
        Self {
            shared,
            planner,
            runtime,
        }
    }

    /// Plans and starts a logical plan in the memory of a running statement.
    pub(crate) async fn run(
        &self,
        session: &SessionState,
        plan: &LogicalPlan,
        running: &Running,
    ) -> Result<SendableRecordBatchStream, Error> {
        let memory = pool(running);
        let planning = self
            .planner
            .plan_logical(session, plan, &memory, |_, _, _| {});
        let query = plan_time::within(running, planning).await?;
        self.start(session, query, running)
    }

    /// Starts a query in the memory of a running statement.
    pub(crate) fn start(
        &self,
        session: &SessionState,
        query: PhysicalQuery,
        running: &Running,
    ) -> Result<SendableRecordBatchStream, Error> {
        let scope = Scope::of(running);
        let plan = room::hold(query.plan)?;
        let default = session.config().batch_size();
        let rows = batch_size::batch_rows(&plan, default)?;
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.runtime)
            .with_memory_pool(pool(running))
            .build_arc()?;
        if query.lists_functions {
            let plan = cooperate(batch_size::with_rows(plan, rows, default)?, &scope)?;
            let config = session.config().clone().with_batch_size(rows);
            let task = TaskContext::from(session)
                .with_session_config(config)
                .with_runtime(runtime);
            return Ok(scope.run(|| execute_stream(plan, Arc::new(task)))?);
        }
        let attempt = Attempt {
            plan,
            rows,
            session_id: session.session_id().to_owned(),
            config: session.config().clone(),
            runtime,
            scope,
        };
        attempt.start()
    }
}

/// The same for a change that may write the rows of a table anew: it ends soon after its statement has to.
pub(crate) async fn changing<T: Send + 'static>(
    (executor, running): (&Arc<dyn Executor>, &Running),
    client: Option<&Arc<Client>>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let asked = Asked {
        stop: running.stop().clone(),
        notices: client.map(|client| Arc::clone(&client.notices)),
    };
    let done = blocking(executor, move || define::asked_by(asked, work)).await;
    match done {
        Err(stopped @ Error::Engine(EngineError::RewriteStopped { .. })) => {
            Err(running.ended().map_or(stopped, Error::from))
        }
        done => done,
    }
}

/// Does what waits for the disk where waiting is allowed. It goes on to its end even if nobody waits for it any more.
pub(crate) async fn blocking<T: Send + 'static>(
    executor: &Arc<dyn Executor>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match executor.block(work).await {
        Ok(done) => done,
        Err(stopped) => Err(Error::internal(stopped.to_string())),
    }
}
