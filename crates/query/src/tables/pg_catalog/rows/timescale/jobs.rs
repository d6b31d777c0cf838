//! Rows of jobs, how they ran, and their last runs.

use datafusion::common::Result;
use nilometer_engine::Snapshot;
use nilometer_service::define::{Policy, routine_by_number, span_text};
use nilometer_service::{self as service, Job, JobStatistics, Span, USER_ACTION};

use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::objects::{Catalogue, Object, Of};

/// The schema that procedures of policies have there.
const PROCEDURES: &str = "_timescaledb_functions";

/// Adds the rows of a table of jobs of this database.
pub(super) fn fill(
    table: &str,
    (catalogue, snapshot): (&Catalogue, &Snapshot),
    (sees_all, user): (bool, &str),
    sink: &mut Sink,
) -> Result<()> {
    let jobs: Vec<Job> = service::jobs(snapshot)
        .into_iter()
        .filter(|job| job.database == catalogue.database)
        .filter(|job| sees_all || job.owner == user || target(catalogue, job).is_some())
        .collect();
    if table == "job_history" {
        return history(snapshot, &jobs, sink);
    }
    for job in &jobs {
        let object = target(catalogue, job);
        let action = Action::of(snapshot, job);
        let statistics = service::job_statistics(snapshot, job.id);
        if table == "jobs" {
            listed(catalogue, (job, &action), object, &statistics, sink)?;
        } else {
            ran(catalogue, job, object, &statistics, sink)?;
        }
    }
    Ok(())
}

/// The table that a job works on, if its reader may see it.
fn target<'a>(catalogue: &'a Catalogue, job: &Job) -> Option<&'a Object> {
    if job.kind == USER_ACTION {
        return None;
    }
    let mut objects = catalogue.objects.iter();
    objects.find(
        |object| matches!(&object.of, Of::Series(table) if i64::from(table.kept_id().0) == job.target),
    )
}

/// The procedure that a job runs.
struct Action {
    schema: String,
    name: String,
}

impl Action {
    fn of(snapshot: &Snapshot, job: &Job) -> Self {
        let own = (job.kind == USER_ACTION)
            .then(|| routine_by_number(snapshot, &job.database, job.target))
            .flatten();
        match own {
            Some(routine) => Self {
                schema: routine.name.schema,
                name: routine.name.table,
            },
            None => Self {
                schema: PROCEDURES.to_owned(),
                name: job.kind.clone(),
            },
        }
    }
}

/// The configuration of a job; a procedure may have none.
fn config(job: &Job) -> Cell {
    Some(job.config.as_str()).filter(|it| !it.is_empty()).into()
}

/// What a job is called.
fn name_of(job: &Job) -> String {
    let known = Policy::ALL.into_iter().find(|it| it.kind() == job.kind);
    let name = match known {
        Some(Policy::Retention) => "Retention Policy",
        Some(Policy::Compression) => "Columnstore Policy",
        Some(Policy::Reorder) => "Reorder Policy",
        None if job.kind == "policy_refresh_continuous_aggregate" => {
            "Refresh Continuous Aggregate Policy"
        }
        None if job.kind == USER_ACTION => "User-Defined Action",
        None => job.kind.as_str(),
    };
    format!("{name} [{}]", job.id)
}

fn next_ns(job: &Job, statistics: &JobStatistics) -> Option<i64> {
    let noted = statistics.next_start_ns.or(job.schedule.initial_ns);
    let next = noted.unwrap_or(job.made_ns);
    (job.schedule.is_on && next < i64::MAX).then_some(next)
}

fn listed(
    catalogue: &Catalogue,
    (job, action): (&Job, &Action),
    object: Option<&Object>,
    statistics: &JobStatistics,
    sink: &mut Sink,
) -> Result<()> {
    let schedule = &job.schedule;
    let of_ns = |ns| span_text(Span::of_ns(ns));
    sink.row(|column| match column {
        "job_id" => job.id.into(),
        "application_name" => name_of(job).into(),
        "schedule_interval" => span_text(schedule.interval).into(),
        "max_runtime" => of_ns(schedule.runtime_ns_max).into(),
        "max_retries" => schedule.retries_max.into(),
        "retry_period" => of_ns(schedule.retry_ns).into(),
        "proc_schema" => action.schema.as_str().into(),
        "proc_name" => action.name.as_str().into(),
        "owner" => job.owner.as_str().into(),
        "scheduled" => schedule.is_on.into(),
        "fixed_schedule" => schedule.initial_ns.is_some().into(),
        "config" => config(job),
        "next_start" => next_ns(job, statistics).into(),
        "initial_start" => schedule.initial_ns.into(),
        "hypertable_schema" => object.map(|it| catalogue.schema_of(it)).into(),
        "hypertable_name" => object.map(|it| it.name.as_str()).into(),
        _ => Cell::Null,
    })
}

fn ran(
    catalogue: &Catalogue,
    job: &Job,
    object: Option<&Object>,
    own: &JobStatistics,
    sink: &mut Sink,
) -> Result<()> {
    let is_over = own.finished_ns >= own.started_ns;
    let took = own.finished_ns.zip(own.started_ns);
    let took = took
        .filter(|_| is_over)
        .map(|(end, start)| end.saturating_sub(start));
    sink.row(|column| match column {
        "job_id" => job.id.into(),
        "hypertable_schema" => object.map(|it| catalogue.schema_of(it)).into(),
        "hypertable_name" => object.map(|it| it.name.as_str()).into(),
        "last_run_started_at" => own.started_ns.into(),
        "last_successful_finish" => own.ok_ns.into(),
        "last_run_status" if own.started_ns.is_some() => match own.failures_in_a_row {
            0 => "Success".into(),
            _ => "Failed".into(),
        },
        "job_status" => match (job.schedule.is_on, own.started_ns.is_some() && !is_over) {
            (_, true) => "Running".into(),
            (true, _) => "Scheduled".into(),
            (false, _) => "Paused".into(),
        },
        "last_run_duration" => took.map(|ns| span_text(Span::of_ns(ns))).into(),
        "next_start" => next_ns(job, own).into(),
        "total_runs" => own.runs.into(),
        "total_successes" => own.ok.into(),
        "total_failures" => own.failed.into(),
        _ => Cell::Null,
    })
}

fn history(snapshot: &Snapshot, jobs: &[Job], sink: &mut Sink) -> Result<()> {
    for (nth, record) in (1i64..).zip(service::job_history(snapshot)) {
        let Some(job) = jobs.iter().find(|job| job.id == record.job) else {
            continue;
        };
        let action = Action::of(snapshot, job);
        sink.row(|column| match column {
            "id" => nth.into(),
            "job_id" => record.job.into(),
            "succeeded" => record.run.error.is_none().into(),
            "proc_schema" => action.schema.as_str().into(),
            "proc_name" => action.name.as_str().into(),
            "start_time" => record.run.started_ns.into(),
            "finish_time" => record.run.finished_ns.into(),
            "config" => config(job),
            "err_message" => record.run.error.as_deref().into(),
            _ => Cell::Null,
        })?;
    }
    Ok(())
}
