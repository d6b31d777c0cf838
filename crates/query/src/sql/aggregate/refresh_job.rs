//! The job of a refresh policy: it refreshes the window that its configuration says.
//!
//! Does: say what jobs of the kind do, wait while somebody else refreshes the same aggregate. Does not: know when a job is due
//! (`nilometer_service` does), or which policy can work (`nilometer_service::define` does).

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use nilometer_engine::{Error as EngineError, Snapshot, TimeKind};
use nilometer_service::define::{self, Aggregate};
use nilometer_service::{Error as ServiceError, JobContext, JobEnd, JobError, Principal};
use tokio_util::sync::CancellationToken;

use super::Window;
use crate::error::Error;
use crate::execution::Queries;
use crate::semantics::zone::Zone;
use crate::sql::Sql;

/// Pause before an aggregate is tried again that somebody else refreshes.
const BUSY_PAUSE: Duration = Duration::from_millis(250);
/// So often it is tried: for ten minutes.
const BUSY_MAX: u32 = 2_400;

/// Says what the jobs of refresh policies do. They do not hold the queries, which hold the jobs.
pub(in crate::sql) fn register(queries: &Arc<Queries>) {
    let weak = Arc::downgrade(queries);
    let function = move |context: JobContext| run(weak.clone(), context).boxed();
    let jobs = &queries.shared.jobs;
    jobs.register(define::REFRESH_POLICY, Arc::new(function));
}

async fn run(queries: Weak<Queries>, context: JobContext) -> Result<JobEnd, ServiceError> {
    let Some(queries) = queries.upgrade() else {
        return Err(failed(&context, "the store is being closed".to_owned()));
    };
    let sql = Sql::of_store(queries, context.cancelled.clone());
    let mut tries = 0;
    loop {
        match sql.refresh_by(&context).await {
            Ok(end) => return Ok(end),
            Err(Error::Engine(EngineError::RefreshRunning)) if tries < BUSY_MAX => {
                tries += 1;
                let pause = context.executor.sleep(BUSY_PAUSE);
                if context.cancelled.run_until_cancelled(pause).await.is_none() {
                    return Ok(JobEnd::Done);
                }
            }
            Err(error) => return Err(failed(&context, error.to_string())),
        }
    }
}

fn failed(context: &JobContext, reason: String) -> ServiceError {
    let id = context.job.id;
    JobError::Failed { id, reason }.into()
}

impl Sql {
    /// For the store itself, until it is cancelled.
    pub(in crate::sql) fn of_store(queries: Arc<Queries>, cancelled: CancellationToken) -> Self {
        Self {
            queries,
            read_only: false,
            caller: cancelled,
            zone: Zone::default(),
            principal: Principal::anyone(),
            asker: None,
            schema: None,
            client: None,
            transaction: None,
            timings: None,
            uses_aggregates: true,
        }
    }

    /// Refreshes what a job is about.
    async fn refresh_by(&self, context: &JobContext) -> Result<JobEnd, Error> {
        let snapshot = context.engine.snapshot();
        let Some(aggregate) = define::aggregate_of_job(&snapshot, &context.job) else {
            return Ok(JobEnd::TargetGone);
        };
        let name = &aggregate.name;
        let stored = snapshot.table(&name.database, &name.schema, &aggregate.stored);
        let Some(stored) = stored else {
            return Ok(JobEnd::TargetGone);
        };
        let kind = stored.time().1;
        let window = define::refresh_window(&context.job, kind);
        let window = window.map_err(|reason| Error::Plan {
            message: format!("{reason}; set one with alter_job, or make the policy anew"),
            position: None,
        })?;
        let now_ns = match kind {
            TimeKind::Integer { unit_ns } => self
                .integer_now(&snapshot, &aggregate)
                .await?
                .saturating_mul(unit_ns.max(1)),
            _ => context.engine.wall_ns(),
        };
        let (from, until) = window.at(now_ns, kind);
        if from.zip(until).is_some_and(|(from, until)| from >= until) {
            return Ok(JobEnd::Done);
        }
        let window = Window {
            from,
            until,
            is_forced: false,
        };
        self.refresh(&aggregate, window).await?;
        Ok(JobEnd::Done)
    }

    /// What is now in the hypertable below an aggregate, whose time is an integer.
    async fn integer_now(&self, snapshot: &Snapshot, aggregate: &Aggregate) -> Result<i64, Error> {
        let below = define::tables_below(snapshot, aggregate).pop();
        let function = below
            .as_ref()
            .and_then(|(name, table)| define::integer_now_of(snapshot, name, table.kept_id()));
        let Some(function) = function else {
            let table = below.map_or_else(String::new, |(name, _)| name.table);
            return Err(Error::of_name(
                define::DefineError::NoIntegerNow { table },
                None,
            ));
        };
        self.value_of(&function).await
    }
}
