//! Flash pages that rows of a transaction come from.
//!
//! Does: keep them beside the rows until the end, and give them to the batch with the ids that its series have by then. Does not:
//! look at rows: a flush does, and keeps of a page what the rows still say.

use std::sync::Arc;

use super::{Transaction, Writes, open};
use crate::batch::Batch;
use crate::error::Error;
use crate::kept_page::KeptPage;

impl Transaction {
    /// Adds pages, of whose blocks the rows were added before.
    pub(crate) fn keep_pages(&self, pages: Vec<KeptPage>) -> Result<(), Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        let has_place = |page: &KeptPage| page.blocks.iter().any(Option::is_some);
        let pages = pages.into_iter().filter(has_place).map(Arc::new);
        let batch = Batch {
            pages: pages.collect(),
            ..Batch::default()
        };
        if batch.pages.is_empty() {
            return Ok(());
        }
        // Twice: a page stands here, and in the batch at the end.
        writes.grow(2 * batch.bytes())?;
        writes.lsn += 1;
        if Arc::strong_count(&writes.head) > 1 {
            // A savepoint or an open cursor has it, and must not see more.
            writes.head = Arc::new(writes.head.copied());
        }
        writes.head.insert(writes.lsn, batch, false);
        Ok(())
    }
}

impl Writes {
    /// The pages with the series of the store.
    pub(super) fn net_pages(&self, id_of: &impl Fn(u32) -> u32) -> Vec<Arc<KeptPage>> {
        let pages = self.head.pages().into_iter();
        pages
            .map(|page| Arc::new(page.with_series(id_of)))
            .collect()
    }
}
