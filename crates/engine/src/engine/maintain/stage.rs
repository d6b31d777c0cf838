//! Files of rows that are no part of the store yet: those of a COPY that is larger than a batch.
//!
//! Does: write rows as a segment that no edit lists, and remove it when nobody needs it. Does not: give it a place among the store's
//! files (`publish.rs` does). A file that a crash leaves is removed at open, as any that the manifest does not list.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::batch::TableRows;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::jobs::RowsWent;
use crate::error::Error;
use crate::layout::{segment_dir, segment_name};
use crate::schema::{Lsn, TableId, TableSettings};
use crate::segment::{Home, Segment, SegmentMeta, TableInput};

/// A table, rows of it, and those of them that became part of newer ones.
pub(in crate::engine) type RowsIn = (TableId, u64, u64);

/// As long as one is there no series leaves the index: rows that nobody sees yet may be of it.
pub(in crate::engine) struct Staging {
    jobs: Arc<Jobs>,
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").finish_non_exhaustive()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.jobs.staged.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A file of rows that no edit lists. Its LSNs are those of the transaction that wrote it.
#[derive(Debug)]
pub(in crate::engine) struct StagedSegment {
    pub(in crate::engine) segment: Arc<Segment>,
    /// Rows that went into it.
    pub(in crate::engine) rows: Vec<RowsIn>,
    /// Where its keys were looked for when they had to be free.
    pub(in crate::engine) looked: Option<Lsn>,
    /// First and last times of its rows, apart where much lies between.
    pub(in crate::engine) spans: Vec<(i64, i64)>,
    is_published: AtomicBool,
    staging: Staging,
}

impl StagedSegment {
    /// From here on the file is the store's.
    pub(in crate::engine) fn published(&self) {
        self.is_published.store(true, Ordering::Release);
    }

    /// The LSN that its transaction gave it.
    pub(in crate::engine) fn lsn(&self) -> Lsn {
        self.segment.meta.max_lsn
    }
}

impl Drop for StagedSegment {
    fn drop(&mut self) {
        let jobs = &self.staging.jobs;
        // Of a poisoned store nobody knows which files are its.
        if self.is_published.load(Ordering::Acquire) || jobs.sequencer.check_poisoned().is_err() {
            return;
        }
        let is_read = Arc::strong_count(&self.segment) > 1;
        let is_gone = !is_read && jobs.site.disk().remove(self.segment.path()).is_ok();
        let mut list = jobs.list();
        if !is_gone {
            // It goes with its last reader.
            list.removed.push(Arc::clone(&self.segment));
        }
        // Its series may have no other row.
        list.rows_went = RowsWent::Since;
    }
}

impl Jobs {
    /// Whether rows are staged.
    pub(in crate::engine) fn has_staged(&self) -> bool {
        self.staged.load(Ordering::Acquire) > 0
    }

    /// Says that rows are going to be staged.
    pub(in crate::engine) fn staging(self: &Arc<Self>) -> Staging {
        self.staged.fetch_add(1, Ordering::AcqRel);
        Staging {
            jobs: Arc::clone(self),
        }
    }

    /// Writes rows of tables as a file that no edit lists, durable but for its name.
    pub(in crate::engine) fn write_staged(
        &self,
        staging: Staging,
        tables: Vec<(TableRows, TableSettings)>,
        (lsn, looked): (Lsn, Option<Lsn>),
        spans: Vec<(i64, i64)>,
    ) -> Result<StagedSegment, Error> {
        let file_id = self.new_file_id();
        let path = segment_dir(self.site.dir()).join(segment_name(file_id));
        self.site.remove_leftover(&path)?;
        let written = self.write_unlisted(file_id, tables);
        let written = written.and_then(|(bytes, kept, rows)| {
            let meta = SegmentMeta {
                file_id,
                bytes,
                rows: kept,
                min_lsn: lsn,
                max_lsn: lsn,
                applied_lsn: lsn,
                home: Home::Mixed,
            };
            let (cache, uuid) = (self.site.segment_cache(), self.site.uuid());
            Ok((Segment::open(cache, path.clone(), uuid, meta)?, rows))
        });
        match written {
            Ok((segment, rows)) => Ok(StagedSegment {
                segment: Arc::new(segment),
                rows,
                looked,
                spans,
                is_published: AtomicBool::new(false),
                staging,
            }),
            Err(error) => {
                // No edit lists it; the next open would remove it too.
                drop(self.site.disk().remove(&path));
                Err(error)
            }
        }
    }

    /// Bytes of the file, its rows, and what went into it.
    fn write_unlisted(
        &self,
        file_id: u64,
        tables: Vec<(TableRows, TableSettings)>,
    ) -> Result<(u64, u64, Vec<RowsIn>), Error> {
        let path = segment_dir(self.site.dir()).join(segment_name(file_id));
        let mut writer = self
            .site
            .segment_writer(&path, file_id)?
            .with_window_rows_min(self.site.options().compaction.partition_rows_min);
        let mut counts = Vec::new();
        for (rows, settings) in tables {
            let (table, count) = (rows.table, rows.rows() as u64);
            let merged = writer.write_table(&TableInput { rows, settings })?;
            counts.push((table, count, merged));
        }
        let (bytes, rows) = writer.finish(true)?;
        Ok((bytes, rows, counts))
    }
}
