//! Typed rows that are put into the log and acknowledged later, together with those of others.
//!
//! Does: write a batch as `typed.rs` does, up to its place in head and log. Does not: wait for the disk (whoever acknowledges does).

use arrow_array::RecordBatch;

use super::{OnConflict, Request, Session, Target};
use crate::engine::Sequenced;
use crate::error::Error;
use crate::schema::Duplicates;

impl Session {
    /// As [`Self::write_arrow`], but the rows are durable and visible only once what is returned is acknowledged
    /// ([`crate::Engine::acknowledge`]); before that nobody may hear of them. Not for a table whose rows have keys of their own: what is
    /// in the way of a row may have to be read. `None` = it is such a table, or the session is part of a transaction.
    pub fn sequence_arrow(
        &mut self,
        target: Target<'_>,
        rows: &RecordBatch,
    ) -> Result<Option<Sequenced>, Error> {
        self.follow_changes()?;
        let is_unique = self.target(&target)?.settings.duplicates == Duplicates::Unique;
        if is_unique || self.transaction.is_some() {
            return Ok(None);
        }
        let request = Request {
            target,
            rows,
            on_conflict: OnConflict::Replace,
            key: None,
        };
        self.waits = false;
        let written = self.write_typed(&request, None);
        self.waits = true;
        let written = written?;
        Ok(Some(Sequenced {
            lsn: written.lsn,
            rows: written.written,
        }))
    }
}
