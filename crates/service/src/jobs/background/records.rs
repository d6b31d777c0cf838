//! Records of jobs, as rows of relations of the store's own: what they are, how their runs ended, and the last of these.
//!
//! Does: read and write them, in the log and the backups. Does not: run a job.

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationSchema, Snapshot, Value,
};

use super::timing::{JobSchedule, Span};
use crate::access::{internal_relation, internal_rows};
use crate::define::own_relations::{JOB_HISTORY, JOB_STATISTICS, JOBS};

/// The id of the first job, as in `TimescaleDB`: those below are its own.
const FIRST_ID: i64 = 1000;
/// Runs that are kept of each job.
const RUNS_KEPT: i64 = 100;

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: i64,
    /// What it does: the name of a kind.
    pub kind: String,
    /// The database of what it works on.
    pub database: String,
    /// The id of what it works on, such as a table's; 0 = nothing in particular.
    pub target: i64,
    /// What its kind wants to know, as JSON.
    pub config: String,
    /// When it runs.
    pub schedule: JobSchedule,
    /// Who made it.
    pub owner: String,
    /// When it was made, in nanoseconds since 1970.
    pub made_ns: i64,
    database_id: i64,
}

/// A job that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// What it does: the name of a kind.
    pub kind: String,
    /// The database of what it works on.
    pub database: String,
    /// The id of what it works on; 0 = nothing in particular.
    pub target: i64,
    /// What its kind wants to know, as JSON.
    pub config: String,
    /// When it runs.
    pub schedule: JobSchedule,
    /// Who makes it.
    pub owner: String,
}

/// What changes of a job; `None` = it stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobChange {
    /// As [`JobSchedule::interval`].
    pub interval: Option<Span>,
    /// As [`JobSchedule::runtime_ns_max`].
    pub runtime_ns_max: Option<i64>,
    /// As [`JobSchedule::retries_max`].
    pub retries_max: Option<i64>,
    /// As [`JobSchedule::retry_ns`].
    pub retry_ns: Option<i64>,
    /// As [`JobSchedule::is_on`].
    pub is_on: Option<bool>,
    /// As [`JobSchedule::initial_ns`].
    pub initial_ns: Option<i64>,
    /// When it runs next.
    pub next_start_ns: Option<i64>,
    /// As [`Job::config`].
    pub config: Option<String>,
}

impl JobChange {
    pub(super) fn apply(&self, job: &mut Job) {
        let schedule = &mut job.schedule;
        schedule.interval = self.interval.unwrap_or(schedule.interval);
        schedule.runtime_ns_max = self.runtime_ns_max.unwrap_or(schedule.runtime_ns_max);
        schedule.retries_max = self.retries_max.unwrap_or(schedule.retries_max);
        schedule.retry_ns = self.retry_ns.unwrap_or(schedule.retry_ns);
        schedule.is_on = self.is_on.unwrap_or(schedule.is_on);
        schedule.initial_ns = self.initial_ns.or(schedule.initial_ns);
        if let Some(config) = &self.config {
            job.config.clone_from(config);
        }
    }
}

/// How the runs of a job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobStatistics {
    /// Runs that were begun.
    pub runs: i64,
    /// Those that ended well.
    pub ok: i64,
    /// Those that failed; what is in none of the two was cut off, or is under way.
    pub failed: i64,
    /// Failures since the last that ended well.
    pub failures_in_a_row: i64,
    /// Start of the last run.
    pub started_ns: Option<i64>,
    /// Its end.
    pub finished_ns: Option<i64>,
    /// End of the last that ended well.
    pub ok_ns: Option<i64>,
    /// When it is due again.
    pub next_start_ns: Option<i64>,
    /// How long all runs took together.
    pub took_ns: i64,
}

/// A run that came to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    /// When it began.
    pub started_ns: i64,
    /// When it ended.
    pub finished_ns: i64,
    /// What went wrong; `None` = nothing.
    pub error: Option<String>,
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Of which job.
    pub job: i64,
    /// Which of its runs, counted from 1.
    pub nth: i64,
    /// The run.
    pub run: JobRun,
}

/// All jobs of databases that are there, by id.
pub(super) fn all(snapshot: &Snapshot) -> Vec<Job> {
    let databases: Vec<(i64, String)> = snapshot
        .databases()
        .into_iter()
        .filter_map(|name| Some((i64::from(snapshot.database_id(&name)?.0), name)))
        .collect();
    let mut jobs: Vec<Job> = internal_rows(snapshot, JOBS)
        .iter()
        .filter_map(|row| {
            let database_id = integer(row, 2);
            let mut databases = databases.iter();
            let (_, database) = databases.find(|(id, _)| *id == database_id)?;
            Some(job_of(row, database, database_id))
        })
        .collect();
    jobs.sort_by_key(|job| job.id);
    jobs
}

fn job_of(row: &[Value], database: &str, database_id: i64) -> Job {
    Job {
        id: integer(row, 0),
        kind: text(row, 1),
        database: database.to_owned(),
        database_id,
        target: integer(row, 3),
        config: text(row, 4),
        owner: text(row, 5),
        made_ns: integer(row, 6),
        schedule: JobSchedule {
            interval: Span {
                months: i32::try_from(integer(row, 7)).unwrap_or(0),
                ns: integer(row, 8),
            },
            initial_ns: time(row, 9),
            runtime_ns_max: integer(row, 10),
            retries_max: integer(row, 11),
            retry_ns: integer(row, 12),
            is_on: integer(row, 13) != 0,
        },
    }
}

/// Keeps a new job, and says its number.
pub(super) fn add(engine: &Arc<Engine>, new: &NewJob) -> Result<i64, EngineError> {
    let jobs = relation(engine, JOBS)?;
    let snapshot = engine.snapshot();
    let Some(database_id) = snapshot.database_id(&new.database) else {
        return Err(EngineError::UnknownDatabase {
            name: new.database.clone(),
        });
    };
    let kept = internal_rows(&snapshot, JOBS);
    let noted = internal_rows(&snapshot, JOB_STATISTICS);
    let last = kept.iter().chain(&noted).map(|row| integer(row, 0)).max();
    let job = Job {
        id: last.map_or(FIRST_ID, |last| last.max(FIRST_ID - 1) + 1),
        kind: new.kind.clone(),
        database: new.database.clone(),
        database_id: i64::from(database_id.0),
        target: new.target,
        config: new.config.clone(),
        schedule: new.schedule,
        owner: new.owner.clone(),
        made_ns: engine.wall_ns(),
    };
    engine.write_relations(&[RelationChange::Insert(jobs, vec![row_of(&job)])])?;
    Ok(job.id)
}

/// Keeps a job in the place of what it was.
pub(super) fn keep(engine: &Arc<Engine>, job: &Job) -> Result<(), EngineError> {
    let jobs = relation(engine, JOBS)?;
    engine.write_relations(&[RelationChange::Replace(jobs, vec![row_of(job)])])?;
    Ok(())
}

fn row_of(job: &Job) -> Vec<Value> {
    let schedule = &job.schedule;
    vec![
        Value::I64(job.id),
        Value::from(job.kind.as_str()),
        Value::I64(job.database_id),
        Value::I64(job.target),
        Value::from(job.config.as_str()),
        Value::from(job.owner.as_str()),
        Value::I64(job.made_ns),
        Value::I64(i64::from(schedule.interval.months)),
        Value::I64(schedule.interval.ns),
        of_time(schedule.initial_ns),
        Value::I64(schedule.runtime_ns_max),
        Value::I64(schedule.retries_max),
        Value::I64(schedule.retry_ns),
        Value::I64(i64::from(schedule.is_on)),
    ]
}

/// Forgets a job and how it ran. That it was there stays, so that its number is not given again.
pub(super) fn forget(engine: &Arc<Engine>, id: i64) -> Result<(), EngineError> {
    let (jobs, history) = (relation(engine, JOBS)?, relation(engine, JOB_HISTORY)?);
    let statistics = relation(engine, JOB_STATISTICS)?;
    let runs = internal_rows(&engine.snapshot(), JOB_HISTORY);
    let runs = runs.iter().filter(|row| integer(row, 0) == id);
    let keys: Vec<Vec<Value>> = runs
        .map(|row| row.iter().take(2).cloned().collect())
        .collect();
    let mut changes = vec![
        RelationChange::Delete(jobs, vec![vec![Value::I64(id)]]),
        RelationChange::Replace(
            statistics,
            vec![row_of_statistics(id, &JobStatistics::default())],
        ),
    ];
    if !keys.is_empty() {
        changes.push(RelationChange::Delete(history, keys));
    }
    engine.write_relations(&changes)?;
    Ok(())
}

/// How the runs of a job ended.
pub(super) fn statistics(snapshot: &Snapshot, id: i64) -> JobStatistics {
    let rows = internal_rows(snapshot, JOB_STATISTICS);
    let row = rows.iter().find(|row| integer(row, 0) == id);
    row.map_or_else(JobStatistics::default, |row| JobStatistics {
        runs: integer(row, 1),
        ok: integer(row, 2),
        failed: integer(row, 3),
        failures_in_a_row: integer(row, 4),
        started_ns: time(row, 5),
        finished_ns: time(row, 6),
        ok_ns: time(row, 7),
        next_start_ns: time(row, 8),
        took_ns: integer(row, 9),
    })
}

fn row_of_statistics(id: i64, own: &JobStatistics) -> Vec<Value> {
    vec![
        Value::I64(id),
        Value::I64(own.runs),
        Value::I64(own.ok),
        Value::I64(own.failed),
        Value::I64(own.failures_in_a_row),
        of_time(own.started_ns),
        of_time(own.finished_ns),
        of_time(own.ok_ns),
        of_time(own.next_start_ns),
        Value::I64(own.took_ns),
    ]
}

/// Keeps statistics, and a run that came to its end.
pub(super) fn note(
    engine: &Arc<Engine>,
    id: i64,
    statistics: &JobStatistics,
    run: Option<&JobRun>,
) -> Result<(), EngineError> {
    let kept = relation(engine, JOB_STATISTICS)?;
    let mut changes = vec![RelationChange::Replace(
        kept,
        vec![row_of_statistics(id, statistics)],
    )];
    if let Some(run) = run {
        let history = relation(engine, JOB_HISTORY)?;
        changes.push(RelationChange::Replace(
            Arc::clone(&history),
            vec![vec![
                Value::I64(id),
                Value::I64(statistics.runs),
                Value::I64(run.started_ns),
                Value::I64(run.finished_ns),
                Value::from(run.error.as_deref().unwrap_or_default()),
            ]],
        ));
        let oldest = statistics.runs - RUNS_KEPT;
        if oldest > 0 {
            let key = vec![Value::I64(id), Value::I64(oldest)];
            changes.push(RelationChange::Delete(history, vec![key]));
        }
    }
    engine.write_relations(&changes)?;
    Ok(())
}

/// Notes that a run begins.
pub(super) fn start(engine: &Arc<Engine>, id: i64, started_ns: i64) -> Result<(), EngineError> {
    let mut own = statistics(&engine.snapshot(), id);
    own.runs += 1;
    own.started_ns = Some(started_ns);
    note(engine, id, &own, None)
}

/// Notes how a run ended, and when the job is due again. A job that was deleted meanwhile does not come back.
pub(super) fn end(engine: &Arc<Engine>, id: i64, run: &JobRun) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let mut known = all(&snapshot).into_iter();
    let Some(mut job) = known.find(|job| job.id == id) else {
        return Ok(());
    };
    let mut own = statistics(&snapshot, id);
    own.finished_ns = Some(run.finished_ns);
    let took_ns = run.finished_ns.saturating_sub(run.started_ns).max(0);
    own.took_ns = own.took_ns.saturating_add(took_ns);
    if run.error.is_none() {
        own.ok += 1;
        own.failures_in_a_row = 0;
        own.ok_ns = Some(run.finished_ns);
        own.next_start_ns = Some(job.schedule.next_after(run.finished_ns));
    } else {
        own.failed += 1;
        own.failures_in_a_row += 1;
        let next = job
            .schedule
            .next_after_failures(run.finished_ns, own.failures_in_a_row);
        own.next_start_ns = Some(next.unwrap_or(i64::MAX));
        if next.is_none() {
            job.schedule.is_on = false;
            keep(engine, &job)?;
        }
    }
    note(engine, id, &own, Some(run))
}

/// The last runs of all jobs, oldest first.
pub(super) fn history(snapshot: &Snapshot) -> Vec<JobRecord> {
    let rows = internal_rows(snapshot, JOB_HISTORY);
    let mut records: Vec<JobRecord> = rows
        .iter()
        .map(|row| JobRecord {
            job: integer(row, 0),
            nth: integer(row, 1),
            run: JobRun {
                started_ns: integer(row, 2),
                finished_ns: integer(row, 3),
                error: Some(text(row, 4)).filter(|error| !error.is_empty()),
            },
        })
        .collect();
    records.sort_by_key(|record| (record.run.finished_ns, record.job, record.nth));
    records
}

/// A time that may be missing, as it is kept: `i64::MIN` is none that a clock shows.
fn of_time(time_ns: Option<i64>) -> Value {
    Value::I64(time_ns.unwrap_or(i64::MIN))
}

fn time(row: &[Value], column: usize) -> Option<i64> {
    Some(integer(row, column)).filter(|time_ns| *time_ns != i64::MIN)
}

fn text(row: &[Value], column: usize) -> String {
    match row.get(column) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn integer(row: &[Value], column: usize) -> i64 {
    match row.get(column) {
        Some(Value::I64(value)) => *value,
        _ => 0,
    }
}

/// The columns of a relation, those of its key first.
fn columns_of(name: &str) -> (&'static [(&'static str, PhysicalType)], usize) {
    use PhysicalType::{I64, Text};
    match name {
        JOBS => (
            &[
                ("id", I64),
                ("kind", Text),
                ("database_id", I64),
                ("target", I64),
                ("config", Text),
                ("owner", Text),
                ("made_ns", I64),
                ("interval_months", I64),
                ("interval_ns", I64),
                ("initial_ns", I64),
                ("runtime_ns_max", I64),
                ("retries_max", I64),
                ("retry_ns", I64),
                ("is_on", I64),
            ],
            1,
        ),
        JOB_STATISTICS => (
            &[
                ("id", I64),
                ("runs", I64),
                ("ok", I64),
                ("failed", I64),
                ("failures_in_a_row", I64),
                ("started_ns", I64),
                ("finished_ns", I64),
                ("ok_ns", I64),
                ("next_start_ns", I64),
                ("took_ns", I64),
            ],
            1,
        ),
        _ => (
            &[
                ("id", I64),
                ("nth", I64),
                ("started_ns", I64),
                ("finished_ns", I64),
                ("error", Text),
            ],
            2,
        ),
    }
}

fn relation(engine: &Arc<Engine>, name: &str) -> Result<Arc<RelationSchema>, EngineError> {
    let (columns, key) = columns_of(name);
    let column = |&(name, kind): &(&str, PhysicalType)| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let key = columns.iter().take(key);
    let new = NewRelation {
        columns: columns.iter().map(column).collect(),
        primary_key: key.map(|(name, _)| (*name).to_owned()).collect(),
        unique: Vec::new(),
    };
    internal_relation(engine, name, &new)
}
