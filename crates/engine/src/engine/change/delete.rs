//! Deletes by time and tags.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::Batch;
use crate::engine::sequencer::Sequencer;
use crate::error::Error;
use crate::predicate::TagPredicate;
use crate::record;
use crate::scan::find_series;
use crate::schema::{Lsn, TableSchema};
use crate::tombstone::{Deleted, Tombstone};

/// Which rows to delete: those in the time range of the series that every predicate keeps.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// The table.
    pub table: Arc<TableSchema>,
    /// First and last time in nanoseconds, both included.
    pub time: RangeInclusive<i64>,
    /// All of them must hold; none = every series of the table.
    pub tags: Vec<TagPredicate>,
}

impl Sequencer {
    /// Deletes every row of the request that was acknowledged before, and none that is written later. Durable and visible
    /// on return, at the LSN returned; `None` = no series matches, so nothing was written.
    /// `is_noted` = answers that aggregates have stored of the rows are wrong from then on.
    pub(in crate::engine) fn delete(
        &self,
        request: &DeleteRequest,
        is_noted: bool,
    ) -> Result<Option<Lsn>, Error> {
        if request.time.is_empty() {
            return Ok(None);
        }
        let mut batch = Batch {
            tombstones: vec![Tombstone {
                lsn: 0,
                table: request.table.id,
                what: Deleted::Range {
                    series: None,
                    time: request.time.clone(),
                },
            }],
            ..Batch::default()
        };
        let lsn = {
            let mut sequencer = self.lock_for(&batch);
            self.check_poisoned()?;
            if self.catalogue().table(request.table.id).is_none() {
                return Err(self.gone(&request.table));
            }
            self.log_definitions(&mut sequencer)?;
            // Under the sequencer, so that no series appears between this look and the delete's place in the order.
            if !request.tags.is_empty() {
                let layers = Arc::clone(self.catalogue().layers());
                let found = find_series(&layers, &request.table, &request.tags)?;
                if found.is_empty() {
                    return Ok(None);
                }
                for tombstone in &mut batch.tombstones {
                    tombstone.what = Deleted::Range {
                        series: Some(found.clone()),
                        time: request.time.clone(),
                    };
                }
            }
            if is_noted {
                self.note(&mut batch);
                self.apply_relations(sequencer.next_lsn, &batch.relations)?;
            }
            let payload =
                record::encode_batch(&batch).map_err(|what| what.at(self.site().dir(), 0))?;
            self.sequence(&mut sequencer, batch, payload)
        };
        self.log().sync(lsn)?;
        Ok(Some(lsn))
    }
}
