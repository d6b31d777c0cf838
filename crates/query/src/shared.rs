//! State that all statements share, and the store as one of them finds it.
//!
//! Does: hold the engine, the limits, the registry of running statements and the session that statements copy; take a
//! snapshot. Does not: plan or run anything.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::execution::context::SessionState;
use nilometer_engine::{Engine, Snapshot, Transaction};
use nilometer_service::define::Sequences;
use nilometer_service::{
    Acquisitions, AdvisoryLocks, BackgroundJobs, Executor, Statements, WriteGroup,
};

use crate::SqlOptions;
use crate::planning::by_aggregate::Forms;

/// What all statements have in common.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: SqlOptions,
    /// See [`Self::session`]. Behind a `dyn`, for the reason that `tables::planned` gives.
    session: Arc<dyn Session>,
    pub(crate) statements: Arc<Statements>,
    pub(crate) executor: Arc<dyn Executor>,
    /// Small writes that wait for the disk together.
    pub(crate) writes: Arc<WriteGroup>,
    /// Numbers for rows that are about to be written.
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) advisory_locks: Arc<AdvisoryLocks>,
    /// Up to when the store has all records.
    pub(crate) acquisitions: Arc<Acquisitions>,
    /// What runs by schedules of its own.
    pub(crate) jobs: Arc<BackgroundJobs>,
    /// What continuous aggregates store, as other queries can use it.
    pub(crate) forms: Forms,
}

impl Shared {
    pub(crate) fn new(
        engine: Arc<Engine>,
        options: SqlOptions,
        session: SessionState,
        statements: Arc<Statements>,
        executor: Arc<dyn Executor>,
        (acquisitions, jobs): (Arc<Acquisitions>, Arc<BackgroundJobs>),
    ) -> Self {
        Self {
            engine,
            options,
            session: Arc::new(session),
            statements,
            executor,
            writes: Arc::default(),
            sequences: Arc::default(),
            advisory_locks: Arc::default(),
            acquisitions,
            jobs,
            forms: Forms::default(),
        }
    }

    /// Functions, rules and settings for plain queries; what differs between statements is put into a copy.
    pub(crate) fn session(&self) -> &SessionState {
        let session = self.session.as_any().downcast_ref();
        session.expect("new() puts a SessionState there")
    }
}

/// The store at the moment of one statement.
#[derive(Clone)]
pub(crate) struct StoreState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The acquisition time below which the snapshot has all records that will ever be stamped.
    pub(crate) complete_ns: i64,
}

impl StoreState {
    /// The newest, with what a transaction has written.
    pub(crate) fn newest(shared: &Arc<Shared>, transaction: Option<&Arc<Transaction>>) -> Self {
        // Before the snapshot: what is complete now is in it.
        let complete_ns = shared.acquisitions.known();
        let snapshot = match transaction {
            Some(transaction) => transaction.snapshot(),
            None => shared.engine.snapshot(),
        };
        Self {
            shared: Arc::clone(shared),
            snapshot: Arc::new(snapshot),
            complete_ns,
        }
    }
}

impl std::fmt::Debug for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreState").finish_non_exhaustive()
    }
}
