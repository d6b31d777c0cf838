//! What the catalogue asks of the statement that reads it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use nilometer_engine::Snapshot;

use super::objects::{Catalogue, Reader};
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

    /// A table or view.
    async fn provider(&self, name: &TableName) -> Option<Arc<dyn TableProvider>>;
}
