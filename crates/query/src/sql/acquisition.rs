//! Acquisition times, for statements that ask for one.

use std::sync::Arc;

use super::Sql;
use crate::error::Error;
use crate::execution::blocking;

impl Sql {
    /// Makes all acquisition times known up to now, for a statement that asks for one.
    pub(super) async fn complete_acquisitions(&self) -> Result<(), Error> {
        let acquisitions = Arc::clone(&self.shared().acquisitions);
        let complete = move || {
            let complete = acquisitions.complete();
            complete.map(drop).map_err(Error::of_service)
        };
        blocking(&self.shared().executor, complete).await
    }
}
