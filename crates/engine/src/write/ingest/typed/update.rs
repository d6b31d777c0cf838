//! UPDATE: rows that were read go and others come, in one batch.
//!
//! Does: convert the new rows, and check what a `unique` table forbids among them. Does not: check the old ones
//! (`engine/change/rows.rs` does).

use arrow_array::RecordBatch;

use super::{TypedReport, conflict_of, key_at};
use crate::batch::TableRows;
use crate::engine::{Key, Refused, RowChange, RowKey, Written};
use crate::error::Error;
use crate::ingest::Session;
use crate::order::sorted_order;
use crate::schema::{Duplicates, SeriesId, TableSchema};
use crate::snapshot::Snapshot;

impl Session {
    /// Takes rows that `snapshot` has shown away and writes others, as one batch: durable and visible on return, all of it
    /// or nothing, also when times or tags change. The new rows are whole: a column that `rows` lacks is null in them.
    ///
    /// Error if one of the old rows was written or deleted since the snapshot: nothing is lost silently, take a new one and
    /// read again. Error as well if a new row of a `unique` table has the series and time of a row that is there and does
    /// not go. In a `last` table such rows merge, in a `keep` table both stay.
    pub fn update_rows(
        &mut self,
        snapshot: &Snapshot,
        table: &TableSchema,
        gone: &[RowKey],
        rows: &RecordBatch,
    ) -> Result<TypedReport, Error> {
        loop {
            self.follow_changes()?;
            if let Some(report) = self.try_update(snapshot, table, gone, rows)? {
                return Ok(report);
            }
        }
    }

    fn tags_shown(&self, table: &TableSchema, series: SeriesId) -> String {
        match &self.transaction {
            Some(own) => own.shown_tags(table, series),
            None => self.engine.shown_tags(table, series),
        }
    }

    /// `None` = what it was built on changed meanwhile, and nothing was written.
    fn try_update(
        &mut self,
        snapshot: &Snapshot,
        table: &TableSchema,
        gone: &[RowKey],
        batch: &RecordBatch,
    ) -> Result<Option<TypedReport>, Error> {
        let table = self.engine.current(table)?;
        let Some(rows) = self.typed_rows(&table, batch)? else {
            return Ok(None);
        };
        let (unwanted, first_rows) = if table.settings.duplicates == Duplicates::Unique {
            match new_keys(&rows) {
                Ok(found) => found,
                Err(row) => {
                    let (series, time) = key_at(&rows, row);
                    let tags = self.tags_shown(&table, SeriesId(series));
                    return Err(conflict_of(&table, tags, time, row, true));
                }
            }
        } else {
            (Vec::new(), Vec::new())
        };
        let written = rows.rows() as u64;
        let change = RowChange {
            snapshot,
            table: &table,
            gone,
            new: Some(rows),
            unwanted: &unwanted,
        };
        let changed = match &self.transaction {
            Some(own) => own.change_rows(change).map(|()| Some(Written::default())),
            None => self.engine.change_rows(change, self.epoch),
        };
        match changed {
            Ok(None) => Ok(None),
            Ok(Some(done)) => Ok(Some(TypedReport {
                written,
                replaced: gone.len() as u64,
                lsn: done.lsn,
                ..TypedReport::default()
            })),
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::Unwanted(at)) => {
                let row = first_rows.get(at).copied().unwrap_or(0);
                let (series, time) = unwanted.get(at).copied().unwrap_or_default();
                let tags = self.tags_shown(&table, SeriesId(series));
                Err(conflict_of(&table, tags, time, row, false))
            }
        }
    }
}

/// The keys of rows, ascending, and whose they are; the error is a row whose key an earlier one has.
fn new_keys(rows: &TableRows) -> Result<(Vec<Key>, Vec<u32>), u32> {
    let order = sorted_order(&rows.series, &rows.times);
    let keys: Vec<Key> = order.iter().map(|&row| key_at(rows, row)).collect();
    let twice = keys.windows(2).zip(order.iter().skip(1));
    let mut twice = twice.filter(|(pair, _)| pair.first() == pair.last());
    match twice.next() {
        Some((_, row)) => Err(*row),
        None => Ok((keys, order)),
    }
}
