//! What all statements have in common, and the store as one of them finds it.
//!
//! Does: hold the engine, the limits, the registry of running statements and the session that statements copy; take a
//! snapshot. Does not: plan or run anything.

use std::sync::Arc;

use datafusion::execution::context::SessionState;
use nilometer_engine::{Engine, Snapshot, Transaction};
use nilometer_service::{Executor, Statements};

use crate::SqlOptions;

/// What all statements have in common.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: SqlOptions,
    /// Functions, rules and settings for plain queries; what differs between statements is put into a copy.
    pub(crate) session: SessionState,
    pub(crate) statements: Arc<Statements>,
    pub(crate) executor: Arc<dyn Executor>,
}

/// The store at the moment of one statement.
#[derive(Clone)]
pub(crate) struct StoreState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl StoreState {
    /// The newest, with what a transaction has written.
    pub(crate) fn newest(shared: &Arc<Shared>, transaction: Option<&Arc<Transaction>>) -> Self {
        let snapshot = match transaction {
            Some(transaction) => transaction.snapshot(),
            None => shared.engine.snapshot(),
        };
        Self {
            shared: Arc::clone(shared),
            snapshot: Arc::new(snapshot),
        }
    }
}

impl std::fmt::Debug for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreState").finish_non_exhaustive()
    }
}
