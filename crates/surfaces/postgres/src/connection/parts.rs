//! Parts of a COPY that is larger than a batch.
//!
//! Does: decide when what has come is a part, have it staged in a transaction (in a file of it, or, of a table without time, in its
//! memory), its own if there is none, and commit that at the end. Does not: read data (`copying.rs`). Dropped before its end it leaves nothing.

use std::sync::Arc;

use arrow::array::RecordBatch;
use nilometer_service::{CopyTarget, Error, Language, Service, Session, Transaction};

use super::copying::Ended;
use crate::copy::rows_in::RowsIn;
use crate::sqlstate::Refused;

/// A part has at most this share of the memory of all bodies: it is there three times while it is staged.
const MEMORY_SHARE: usize = 8;

/// What has been staged of a COPY, and how more is.
pub(super) struct Parts {
    service: Arc<Service>,
    language: Arc<dyn Language>,
    session: Session,
    target: CopyTarget,
    /// From the first part on.
    transaction: Option<Arc<Transaction>>,
    rows_max: usize,
    bytes_max: usize,
}

impl Parts {
    pub(super) fn new(
        service: &Arc<Service>,
        language: &Arc<dyn Language>,
        session: Session,
        target: CopyTarget,
    ) -> Self {
        Self {
            rows_max: service.batch_rows_max(),
            bytes_max: service.options().bodies_bytes_max / MEMORY_SHARE,
            service: Arc::clone(service),
            language: Arc::clone(language),
            session,
            target,
            transaction: None,
        }
    }

    /// Whether parts have been staged.
    pub(super) fn has_some(&self) -> bool {
        self.transaction.is_some()
    }

    /// Stages what has come if that is as much as a part may have.
    pub(super) async fn stage_if_due(&mut self, rows: RowsIn) -> Result<RowsIn, Refused> {
        let is_due = rows.rows() >= self.rows_max || rows.bytes() > self.bytes_max;
        if !is_due {
            return Ok(rows);
        }
        self.stage(rows, false).await
    }

    async fn stage(&mut self, rows: RowsIn, is_last: bool) -> Result<RowsIn, Refused> {
        let from = rows.all_rows() - rows.rows();
        let taken = self.service.write(move |_| {
            let mut rows = rows;
            let part = if is_last { rows.finish() } else { rows.take() };
            Ok::<_, Ended>((part.map_err(Ended::Refused)?, rows))
        });
        let (part, rows) = taken.await.map_err(Ended::refused)?;
        let part = if self.target.is_completed(|name| rows.fills(name)) {
            let name = self.target.full_name();
            let completed = self.language.complete(name, part, &self.session).await;
            completed.map_err(|error| rows.at_stored(error.into(), from))?
        } else {
            part
        };
        let own = match (&self.transaction, self.target.transaction()) {
            (Some(own), _) | (None, Some(own)) => Arc::clone(own),
            (None, None) => self.service.begin()?,
        };
        self.transaction = Some(Arc::clone(&own));
        let mut done = 0;
        while done < part.num_rows() {
            let count = self.rows_max.clamp(1, part.num_rows() - done);
            let slice: RecordBatch = part.slice(done, count);
            let staged = self.stage_slice(&own, slice).await;
            let at = from + done;
            staged.map_err(|error: Error| rows.at_stored(error.into(), at))?;
            done += count;
        }
        Ok(rows)
    }

    /// Stages some rows, once nobody has a lock on theirs.
    async fn stage_slice(&self, own: &Arc<Transaction>, slice: RecordBatch) -> Result<(), Error> {
        loop {
            let (target, own, slice) = (self.target.clone(), Arc::clone(own), slice.clone());
            let staged = self
                .service
                .write(move |service| service.stage(&target, &own, &slice));
            let Err(error) = staged.await else {
                return Ok(());
            };
            let Some(wait) = error.row_wait() else {
                return Err(error);
            };
            tokio::select! {
                biased;
                () = self.session.cancelled.cancelled() => return Err(Error::Cancelled),
                () = wait.ended() => {}
            }
        }
    }

    /// Stages the rest, and commits unless somebody else does. Returns all rows.
    pub(super) async fn end(mut self, rows: RowsIn) -> Result<usize, Refused> {
        let rows = self.stage(rows, true).await?;
        if let (Some(own), None) = (self.transaction.take(), self.target.transaction()) {
            let committed = self
                .service
                .write(move |_| own.commit().map(drop).map_err(Error::from));
            committed.await?;
        }
        Ok(rows.all_rows())
    }
}
