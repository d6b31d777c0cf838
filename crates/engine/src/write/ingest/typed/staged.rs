//! Rows that a transaction writes into files: the parts of a COPY that is larger than a batch.
//!
//! Does: convert a part and give its rows their series, as of any typed write, and stage it. Does not: write a file
//! (`engine/transaction/staged.rs`). Names of new series are made at once, and go again with the next look for series without rows if the
//! transaction does not commit.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::{Decided, OnConflict, Session, Target, decide, duplicates_name};
use crate::engine::{Transaction, looked_for};
use crate::error::Error;
use crate::schema::Duplicates;

impl Session {
    /// As [`Session::write_arrow`] within a transaction, but the rows stand in a file until that commits, and not in memory: so the
    /// rows of several calls may be more than a batch may have. The session is of no transaction. What was staged before
    /// counts as rows that are there.
    pub fn stage_arrow(
        &mut self,
        own: &Arc<Transaction>,
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<u64, Error> {
        loop {
            self.follow_changes()?;
            let table = self.target(&target)?;
            let duplicates = table.settings.duplicates;
            if duplicates != Duplicates::Unique && on_conflict != OnConflict::Replace {
                return Err(Error::NoConflicts {
                    table: table.name.clone(),
                    duplicates: duplicates_name(duplicates),
                });
            }
            let Some(read) = self.typed_rows(&table, rows)? else {
                continue;
            };
            let decided = match duplicates {
                Duplicates::Unique => decide(&self.engine, Some(own), &table, read, on_conflict)?,
                Duplicates::Last | Duplicates::Keep => Decided::all(read),
            };
            let written = decided.rows.rows() as u64;
            let looked = looked_for(&table, decided.looked);
            if own.stage(&table, decided.rows, looked, self.epoch)? {
                return Ok(written);
            }
        }
    }
}
