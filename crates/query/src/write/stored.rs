//! The last step of a statement that writes: its rows go to the disk, few ones together with those of other statements.
//!
//! Does: choose between the group of small writes, which takes no thread of its own for each, and a thread that may wait. Does not:
//! know what is written.

use std::sync::Arc;

use nilometer_engine::Sequenced;

use super::writing::Writing;
use crate::error::Error;
use crate::execution::blocking;

/// Rows of a write that others may have to wait for: some ten microseconds.
const TOGETHER_ROWS_MAX: usize = 64;

/// What a statement writes.
pub(super) trait Stored: Send + Sync + 'static {
    /// How many rows or keys that is.
    fn rows(&self) -> usize;
    /// Puts it into the log, without waiting for the disk; `None` = it is not known to be short, and nothing was done.
    fn put(&self) -> Result<Option<Sequenced>, Error>;
    /// Does all of it. Returns how many rows are there because of it.
    fn write(&self) -> Result<u64, Error>;
    /// How many that is, if it was put.
    fn written(&self, put: Sequenced) -> u64;
}

impl Writing<'_> {
    /// Writes what a statement writes, durably when this returns. It goes on to its end even if nobody waits for it any more.
    pub(super) async fn store(&self, stored: impl Stored) -> Result<u64, Error> {
        let stored = Arc::new(stored);
        let shared = &self.queries.shared;
        let is_small = stored.rows() <= TOGETHER_ROWS_MAX
            && self.writer.transaction.is_none()
            && !shared.engine.holds_up_writers();
        if is_small {
            let (engine, putting, of) = (
                Arc::clone(&shared.engine),
                Arc::clone(&stored),
                Arc::clone(&stored),
            );
            let acknowledge = move |put: Option<Sequenced>| {
                let Some(put) = put else { return Ok(None) };
                engine.acknowledge(put)?;
                Ok(Some(of.written(put)))
            };
            let put = move || putting.put();
            let written = shared.writes.write(&shared.executor, put, acknowledge);
            let written = written
                .await
                .map_err(|stopped| Error::internal(stopped.to_string()))?;
            if let Some(rows) = written? {
                return Ok(rows);
            }
        }
        blocking(&shared.executor, move || stored.write()).await
    }
}
