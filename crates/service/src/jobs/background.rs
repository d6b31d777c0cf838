//! Background jobs: work of a kind that runs by a schedule of its own, kept with the store.
//!
//! Does: know the kinds of jobs and what each does, run one at a time of each, note how it ended and when it is due again, later
//! after each failure. Does not: know what a kind does, or look at the clock by itself (`scheduler.rs` does).
//!
//! A kind is registered once, by whoever carries it out ([`BackgroundJobs::register`]); a job is a row with its kind, the id of
//! what it works on, and a configuration that its kind understands (`records.rs`).

mod error;
mod records;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_engine::{Engine, Snapshot};
use tokio_util::sync::CancellationToken;

pub use error::JobError;
pub use records::{Job, JobChange, JobRecord, JobRun, JobStatistics, NewJob};
pub use timing::{JobSchedule, Span};

use crate::define::Routine;
use crate::error::Error;
use crate::executor::Executor;

/// What a run of a job is given.
#[derive(Clone)]
pub struct JobContext {
    /// The job.
    pub job: Job,
    /// The store.
    pub engine: Arc<Engine>,
    /// Who does what waits for the disk.
    pub executor: Arc<dyn Executor>,
    /// Says what is now where a time is an integer; `None` = no language does.
    pub clock: Option<IntegerClock>,
    /// It ends soon after this is cancelled.
    pub cancelled: CancellationToken,
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// It has done what there was to do.
    Done,
    /// What it worked on is not there any more: the job goes too.
    TargetGone,
}

/// What a kind of job does. It runs where computing is allowed; what waits for the disk goes through the executor.
pub type JobFunction =
    Arc<dyn Fn(JobContext) -> BoxFuture<'static, Result<JobEnd, Error>> + Send + Sync>;

/// Asks a function of the store what is now, where a time is an integer.
pub type IntegerClock =
    Arc<dyn Fn(Routine) -> BoxFuture<'static, Result<i64, Error>> + Send + Sync>;

/// The kind of jobs that run a procedure of somebody's. What they work on is its number.
pub const USER_ACTION: &str = "user_defined_action";

/// The jobs of a store, shared by all of its languages.
pub struct BackgroundJobs {
    engine: Arc<Engine>,
    executor: Arc<dyn Executor>,
    kinds: Mutex<BTreeMap<&'static str, JobFunction>>,
    clock: Mutex<Option<IntegerClock>>,
    running: Mutex<BTreeSet<i64>>,
    /// Held while rows are changed by what was read of them.
    changes: Mutex<()>,
}

impl fmt::Debug for BackgroundJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundJobs")
            .field("running", &*self.running())
            .finish_non_exhaustive()
    }
}

impl BackgroundJobs {
    /// Those of a store, none of whose kinds is known yet.
    pub fn new(engine: Arc<Engine>, executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            executor,
            kinds: Mutex::default(),
            clock: Mutex::default(),
            running: Mutex::default(),
            changes: Mutex::default(),
        })
    }

    /// Says what jobs of a kind do. Those of a kind that nobody knows stay, and do not run.
    pub fn register(&self, kind: &'static str, function: JobFunction) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.insert(kind, function);
    }

    /// Says who asks functions what is now, where a time is an integer.
    pub fn set_integer_clock(&self, clock: IntegerClock) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
    }

    /// As [`JobContext::clock`].
    fn integer_clock(&self) -> Option<IntegerClock> {
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.clone()
    }

    /// Keeps a new job; durable when this returns. Blocks. What it is called, and whether it may be, its kind decides.
    pub fn add(&self, new: &NewJob) -> Result<i64, Error> {
        let _alone = self.alone();
        Ok(records::add(&self.engine, new)?)
    }

    /// Changes a job; durable when this returns. Blocks.
    pub fn alter(&self, id: i64, change: &JobChange) -> Result<Job, Error> {
        let _alone = self.alone();
        let mut job = find(&self.engine.snapshot(), id)?;
        if let Some(config) = &change.config
            && !serde_json::from_str::<serde_json::Value>(config).is_ok_and(|it| it.is_object())
        {
            return Err(JobError::Config { id }.into());
        }
        change.apply(&mut job);
        records::keep(&self.engine, &job)?;
        if let Some(next_ns) = change.next_start_ns {
            let mut statistics = records::statistics(&self.engine.snapshot(), id);
            statistics.next_start_ns = Some(next_ns);
            records::note(&self.engine, id, &statistics, None)?;
        }
        Ok(job)
    }

    /// Forgets a job and its history; a run that is under way comes to its end. Blocks.
    pub fn delete(&self, id: i64) -> Result<(), Error> {
        let _alone = self.alone();
        find(&self.engine.snapshot(), id)?;
        Ok(records::forget(&self.engine, id)?)
    }

    /// Whether a job is running.
    pub fn is_running(&self, id: i64) -> bool {
        self.running().contains(&id)
    }

    /// Jobs that are due, those that have waited longest first.
    pub fn due(&self, now_ns: i64) -> Vec<i64> {
        let snapshot = self.engine.snapshot();
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = records::all(&snapshot).into_iter();
        let jobs = jobs.filter(|job| job.schedule.is_on && kinds.contains_key(job.kind.as_str()));
        let mut due: Vec<(i64, i64)> = jobs
            .map(|job| (self.next_start_ns(&snapshot, &job), job.id))
            .filter(|(next_ns, id)| *next_ns <= now_ns && !self.is_running(*id))
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// When a job runs next, in nanoseconds since 1970.
    pub fn next_start_ns(&self, snapshot: &Snapshot, job: &Job) -> i64 {
        let noted = records::statistics(snapshot, job.id).next_start_ns;
        noted.or(job.schedule.initial_ns).unwrap_or(job.made_ns)
    }

    /// Runs a job now, whether or not it is due, and notes how it ended. One that runs already is an error, and so is what goes
    /// wrong.
    pub async fn run(self: &Arc<Self>, id: i64, cancelled: CancellationToken) -> Result<(), Error> {
        let job = find(&self.engine.snapshot(), id)?;
        let _claim = Claim::of(self, id)?;
        let function = {
            let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.get(job.kind.as_str()).map(Arc::clone)
        };
        let Some(function) = function else {
            return Err(JobError::UnknownKind { id, kind: job.kind }.into());
        };
        let started_ns = self.engine.wall_ns();
        self.noted(move |engine| records::start(engine, id, started_ns))
            .await?;
        let context = JobContext {
            job: job.clone(),
            engine: Arc::clone(&self.engine),
            executor: Arc::clone(&self.executor),
            clock: self.integer_clock(),
            cancelled: cancelled.child_token(),
        };
        let stop = context.cancelled.clone();
        let work = AssertUnwindSafe(function(context)).catch_unwind();
        let ended = match job.schedule.runtime_ns_max {
            0 => Some(work.await),
            max => {
                let max = Duration::from_nanos(max.unsigned_abs());
                self.executor.within(max, work).await
            }
        };
        let outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(Error::Panicked { what: "job" }),
            None => {
                stop.cancel();
                Err(JobError::TooLong { id }.into())
            }
        };
        if cancelled.is_cancelled() {
            // The server stops, or whoever asked for it does not want it any more: it stays as due as it was.
            return outcome.map(|_| ());
        }
        let finished_ns = self.engine.wall_ns();
        let end = match &outcome {
            Ok(end) => Ok(*end),
            Err(error) => Err(error.to_string()),
        };
        if end == Ok(JobEnd::TargetGone) {
            self.noted(move |engine| records::forget(engine, id))
                .await?;
            return Ok(());
        }
        let error = end.err();
        let run = JobRun {
            started_ns,
            finished_ns,
            error,
        };
        self.noted(move |engine| records::end(engine, id, &run))
            .await?;
        outcome.map(|_| ())
    }

    /// Writes what is to be remembered of a job, where waiting for the disk is allowed.
    async fn noted(
        self: &Arc<Self>,
        note: impl FnOnce(&Arc<Engine>) -> Result<(), nilometer_engine::Error> + Send + 'static,
    ) -> Result<(), Error> {
        let jobs = Arc::clone(self);
        let noted = move || {
            let _alone = jobs.alone();
            note(&jobs.engine)
        };
        match self.executor.block(noted).await {
            Ok(noted) => Ok(noted?),
            Err(_) => Err(Error::Panicked { what: "job" }),
        }
    }

    fn alone(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeSet<i64>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All jobs of databases that are there, by id.
pub fn jobs(snapshot: &Snapshot) -> Vec<Job> {
    records::all(snapshot)
}

/// How the runs of a job ended.
pub fn job_statistics(snapshot: &Snapshot, id: i64) -> JobStatistics {
    records::statistics(snapshot, id)
}

/// The last runs of all jobs, oldest first.
pub fn job_history(snapshot: &Snapshot) -> Vec<JobRecord> {
    records::history(snapshot)
}

/// The job of a kind that works on something; `None` = there is none.
pub fn job_of(snapshot: &Snapshot, database: &str, kind: &str, target: i64) -> Option<Job> {
    let mut all = records::all(snapshot).into_iter();
    all.find(|job| job.database == database && job.kind == kind && job.target == target)
}

fn find(snapshot: &Snapshot, id: i64) -> Result<Job, Error> {
    let mut all = records::all(snapshot).into_iter();
    all.find(|job| job.id == id)
        .ok_or(JobError::Unknown { id }.into())
}

/// A job that nobody else runs, until this is dropped.
struct Claim<'a> {
    jobs: &'a BackgroundJobs,
    id: i64,
}

impl<'a> Claim<'a> {
    fn of(jobs: &'a BackgroundJobs, id: i64) -> Result<Self, Error> {
        if !jobs.running().insert(id) {
            return Err(JobError::Runs { id }.into());
        }
        Ok(Self { jobs, id })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.jobs.running().remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
