//! Calls about refresh policies of continuous aggregates, carried out.
//!
//! Does: find the aggregate, say how wide its buckets are. Does not: refresh one (`sql/refresh_job.rs` does), or say which policy
//! can work (`nilometer_service::define` does).

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_service::define::{self, Aggregate, NewRefreshPolicy, Path};
use nilometer_service::{
    BackgroundJobs, Error as ServiceError, JobChange, Principal, Scope, Span, jobs as jobs_of,
};

use crate::tables::aggregate::buckets::AggregateBuckets;

/// Makes a refresh policy, and says the number of its job; `None` = there is one already.
pub(super) fn add(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    scope: &Scope,
    (path, new): (&Path, NewRefreshPolicy),
) -> Result<Option<i64>, ServiceError> {
    let found = define::aggregate_to_change(engine, principal, scope, path.clone())?;
    define::add_refresh_policy(engine, jobs, principal, (&found, width(&found)), new)
}

/// Removes the refresh policy of an aggregate; a missing one may be no error.
pub(super) fn remove(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    scope: &Scope,
    (path, if_exists): (&Path, bool),
) -> Result<(), ServiceError> {
    let found = define::aggregate_to_change(engine, principal, scope, path.clone())?;
    define::remove_refresh_policy(engine, jobs, &found, if_exists).map(drop)
}

/// Checks what somebody changes of a job, if it refreshes an aggregate.
pub(super) fn check_change(
    engine: &Arc<Engine>,
    id: i64,
    change: &JobChange,
) -> Result<(), ServiceError> {
    let snapshot = engine.snapshot();
    let mut known = jobs_of(&snapshot).into_iter();
    let job = known.find(|job| job.id == id && job.kind == define::REFRESH_POLICY);
    let Some((job, found)) =
        job.and_then(|job| define::aggregate_of_job(&snapshot, &job).map(|found| (job, found)))
    else {
        return Ok(());
    };
    if change.config.is_none() && change.interval.is_none() {
        return Ok(());
    }
    let config = change.config.as_deref().unwrap_or(&job.config);
    let every = change.interval.unwrap_or(job.schedule.interval);
    let of = (&found, width(&found));
    define::check_refresh_policy(&snapshot, engine.wall_ns(), of, (config, every))
}

/// How wide a bucket is.
fn width(aggregate: &Aggregate) -> Span {
    AggregateBuckets::read(&aggregate.bucket).map_or_else(Span::default, |it| it.span())
}
