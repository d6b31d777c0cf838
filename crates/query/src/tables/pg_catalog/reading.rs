//! Interface between the catalogue and the statement that reads it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use nilometer_engine::Snapshot;
use nilometer_service::{AdvisoryLocks, SessionNumbers, define};

use super::objects::{Catalogue, Reader};
use crate::error::Error;
use crate::statement::name::TableName;

/// A statement's snapshot, as who asks may see it.
#[async_trait]
pub(crate) trait Reading: std::fmt::Debug + Send + Sync {
    /// The names of a database.
    fn names_of_database(&self, database: &str) -> Arc<Catalogue>;

    /// Who asks.
    fn reader(&self) -> Reader;

    /// The moment that the statement sees.
    fn snapshot(&self) -> &Snapshot;

    /// The next number of a sequence, for good. Blocks.
    fn next_number(&self, sequence: &define::TableName) -> Result<i64, Error>;

    /// Sets the number that a sequence gave last, or that it gives next. Blocks.
    fn set_number(&self, sequence: &define::TableName, value: (i64, bool)) -> Result<(), Error>;

    /// What the session was given of sequences.
    fn numbers(&self) -> &SessionNumbers;

    /// The advisory locks of all sessions.
    fn advisory_locks(&self) -> &Arc<AdvisoryLocks>;

    /// A table or view.
    async fn provider(&self, name: &TableName) -> Option<Arc<dyn TableProvider>>;
}
