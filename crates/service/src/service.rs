//! The service: state of an open store that all surfaces share.
//!
//! Does: hold the engine, its maintenance, the executor, the languages by name with the statements that they run, turns of queries, turns and sessions of writes,
//! memory of bodies, users, counters. Does not: speak a protocol; a [`Surface`](crate::Surface) holds the service
//! and no engine.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nilometer_engine::{Engine, Metrics, Snapshot, Transaction};
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::counters::Counters;
use crate::error::Error;
use crate::executor::Executor;
use crate::jobs::background::BackgroundJobs;
use crate::jobs::maintenance::Maintenance;
use crate::language::{Language, LanguageContext};
use crate::limits::admission::{QueryAdmission, Turn, looks_after_others};
use crate::limits::body_memory::BodyMemory;
use crate::limits::statements::Statements;
use crate::options::ServiceOptions;
use crate::sabotage::Sabotage;
use crate::write::acquisition::Acquisitions;
use crate::write::sessions::Sessions;

/// Statements about other statements that run at once, and that wait.
const OWN_TURNS: usize = 2;
const OWN_WAITING: usize = 32;

/// An open store with everything that surfaces share.
#[derive(Debug)]
pub struct Service {
    engine: Arc<Engine>,
    access: Arc<Access>,
    statements: Arc<Statements>,
    languages: Vec<Arc<dyn Language>>,
    executor: Arc<dyn Executor>,
    query_admission: QueryAdmission,
    /// Of statements about the others: where all turns are taken, these are what is left to do about it.
    own_admission: QueryAdmission,
    writes: Arc<Semaphore>,
    sessions: Sessions,
    acquisitions: Arc<Acquisitions>,
    jobs: Arc<BackgroundJobs>,
    body_memory: BodyMemory,
    counters: Counters,
    /// Held by whoever runs what is due.
    scheduler: tokio::sync::Mutex<()>,
    options: ServiceOptions,
    /// Taken when it is stopped.
    maintenance: Mutex<Option<Maintenance>>,
}

impl Service {
    /// Over an engine, with whoever does the work and the languages that it is asked in, which `languages` makes of what
    /// they are to share. Without maintenance until [`Self::maintain`].
    pub fn new(
        engine: Arc<Engine>,
        executor: Arc<dyn Executor>,
        options: ServiceOptions,
        languages: impl FnOnce(&LanguageContext) -> Result<Vec<Arc<dyn Language>>, Error>,
    ) -> Result<Arc<Self>, Error> {
        let by = Arc::clone(&executor);
        let context = LanguageContext::new(Arc::clone(&engine), by, options.query.clone());
        let languages = languages(&context)?;
        // On a small machine the default is more than there is, and the other half is for what becomes of a body.
        let budget = usize::try_from(engine.budget().total()).unwrap_or(usize::MAX);
        let bodies_bytes_max = options.bodies_bytes_max.min(budget / 2);
        let writes_max = options.writes_max.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Arc::new(Self {
            access: Access::new(
                &context,
                (options.token.clone(), options.jwt.clone()),
                options.auth,
            ),
            statements: context.statements,
            executor,
            languages,
            query_admission: QueryAdmission::new(options.queries_max, options.queries_waiting_max),
            own_admission: QueryAdmission::new(OWN_TURNS, OWN_WAITING),
            writes: Arc::new(Semaphore::new(writes_max)),
            sessions: Sessions::new(Arc::clone(&engine)),
            acquisitions: context.acquisitions,
            jobs: context.jobs,
            body_memory: BodyMemory::new(bodies_bytes_max).within(engine.budget().machine()),
            counters: Counters::default(),
            scheduler: tokio::sync::Mutex::default(),
            maintenance: Mutex::default(),
            engine,
            options,
        }))
    }

    /// Starts the threads that turn rows in memory into files and merge files.
    pub fn maintain(&self) -> Result<(), Error> {
        let tick = Duration::from_millis(self.options.maintain_tick_ms.max(1));
        let started = Maintenance::start(&self.engine, tick)?;
        *self.maintenance() = Some(started);
        Ok(())
    }

    /// Stops maintenance, waiting no longer than `shutdown_ms_max` for what it is at, and writes what is in memory to a
    /// segment, so that the next start has nothing to read. Blocks.
    pub fn close(&self) -> Result<(), Error> {
        self.stop_maintenance();
        self.sessions.clear();
        if let Err(error) = self.acquisitions.close() {
            // The next start goes on from the bound that is kept, which is a little later.
            tracing::warn!(%error, "the last acquisition time could not be kept");
        }
        Ok(self.engine.close()?)
    }

    /// What it was opened with.
    pub fn options(&self) -> &ServiceOptions {
        &self.options
    }

    /// Who may enter, and what they may do.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// The language of this name.
    pub fn language(&self, name: &'static str) -> Result<&Arc<dyn Language>, Error> {
        let found = self.languages.iter().find(|it| it.name() == name);
        found.ok_or(Error::UnknownLanguage { name })
    }

    /// What runs now, in every language.
    pub fn statements(&self) -> &Arc<Statements> {
        &self.statements
    }

    /// Waits for a turn to run a query, or refuses if too many do already.
    pub async fn turn(&self) -> Result<Turn, Error> {
        self.query_admission.take().await
    }

    /// Waits for a turn to go on with what gave its turn back while its client had enough.
    pub async fn turn_again(&self) -> Result<Turn, Error> {
        self.query_admission.take_again().await
    }

    /// Waits for a turn to run a statement of this text. One that lists or ends others (`SHOW QUERIES`, `KILL QUERY 7`) has turns
    /// of its own.
    pub async fn turn_for(&self, text: &str) -> Result<Turn, Error> {
        if looks_after_others(text) {
            self.own_admission.take().await
        } else {
            self.turn().await
        }
    }

    /// Does the service's work.
    pub fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// Runs a task where computing is allowed.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(Box::pin(task));
    }

    /// The ingest sessions that wait for the next write.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// When the store takes records.
    pub fn acquisitions(&self) -> &Arc<Acquisitions> {
        &self.acquisitions
    }

    /// What runs by schedules of its own.
    pub fn jobs(&self) -> &Arc<BackgroundJobs> {
        &self.jobs
    }

    /// The memory that bodies of requests share.
    pub fn body_memory(&self) -> &BodyMemory {
        &self.body_memory
    }

    /// What was written and asked since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The store's own figures.
    pub fn store_metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    /// Begins a transaction; dropping it rolls it back.
    pub fn begin(&self) -> Result<Arc<Transaction>, Error> {
        Ok(self.engine.begin()?)
    }

    /// What is there now: names, rows, settings.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// The time by the store's clock, in nanoseconds since 1970.
    pub fn wall_ns(&self) -> i64 {
        self.engine.wall_ns()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        self.engine.dir()
    }

    /// Somebody looked at the clock: what it says is right, although it jumped.
    pub fn accept_clock(&self) {
        if let Some(pause) = self.engine.retention_pause() {
            tracing::warn!(
                ahead_seconds = pause.ahead_ns / 1_000_000_000,
                "the clock was accepted; retention goes on by it"
            );
        }
        if !self.has(Sabotage::ClockNotAccepted) {
            self.engine.accept_clock();
        }
    }

    /// The engine. Not for surfaces: one that is wrong about its protocol cannot harm the store.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether this bug is planted.
    #[doc(hidden)]
    pub fn has(&self, bug: Sabotage) -> bool {
        self.options.sabotage == Some(bug)
    }

    /// All languages.
    pub(crate) fn languages(&self) -> &[Arc<dyn Language>] {
        &self.languages
    }

    /// Held by whoever runs what is due.
    pub(crate) fn scheduler(&self) -> &tokio::sync::Mutex<()> {
        &self.scheduler
    }

    /// The turns of writes.
    pub(crate) fn writes(&self) -> &Arc<Semaphore> {
        &self.writes
    }

    fn stop_maintenance(&self) {
        // The guard goes first: nobody is to wait for it while threads end.
        let running = self.maintenance().take();
        if let Some(running) = running {
            running.stop(Duration::from_millis(self.options.shutdown_ms_max));
        }
    }

    fn maintenance(&self) -> std::sync::MutexGuard<'_, Option<Maintenance>> {
        self.maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop_maintenance();
        self.executor.stop();
    }
}
