//! Maintenance: flushes, compactions, merges of index files, retention.

pub(in crate::engine) mod checkpoint;
pub(in crate::engine) mod compact;
pub(in crate::engine) mod convert;
pub(in crate::engine) mod expire;
pub(in crate::engine) mod flush;
pub(in crate::engine) mod gone_series;
pub(in crate::engine) mod index;
pub(in crate::engine) mod jobs;
mod kept_pages;
pub(in crate::engine) mod publish;
pub(in crate::engine) mod stage;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::engine::sequencer::Sequencer;
use crate::engine::site::Site;
use crate::manifest::{FileKind, Manifest};
use crate::ranked::{Locked, Mutex, Rank};
use crate::retention::Retention;
use jobs::JobList;

/// Everything that turns rows in memory into files, and files into others.
#[derive(Debug)]
pub(in crate::engine) struct Jobs {
    site: Arc<Site>,
    sequencer: Arc<Sequencer>,
    list: Mutex<JobList>,
    /// Held for one edit.
    manifest: Mutex<Manifest>,
    /// Held by whoever turns a head into a segment.
    flushing: Mutex<()>,
    /// Held by whoever merges or mends index files.
    indexing: Mutex<()>,
    /// Side files that the last flush replaced; the next one removes them.
    replaced: Mutex<Vec<(FileKind, u64)>>,
    retention: Mutex<Retention>,
    /// Pairs of segment files that were in no order when the store was opened.
    unordered: Vec<(u64, u64)>,
    /// Files of rows that transactions have staged: as long as there are some no series leaves the index.
    staged: AtomicUsize,
    /// Rows were put aside, with their files, that somebody may bring back.
    has_put_aside: bool,
}

impl Jobs {
    /// Over the files that the manifest lists.
    pub(in crate::engine) fn new(
        site: Arc<Site>,
        sequencer: Arc<Sequencer>,
        manifest: Manifest,
        unordered: Vec<(u64, u64)>,
        has_put_aside: bool,
    ) -> Self {
        let list = JobList {
            next_file_id: manifest.contents.next_file_id,
            ..JobList::default()
        };
        let (clock_ns, now_ms) = (manifest.contents.clock_ns, site.clock().monotonic_ms());
        Self {
            site,
            sequencer,
            list: Mutex::new(Rank::Jobs, list),
            manifest: Mutex::new(Rank::Manifest, manifest),
            flushing: Mutex::new(Rank::Flushing, ()),
            indexing: Mutex::new(Rank::Indexing, ()),
            replaced: Mutex::new(Rank::Replaced, Vec::new()),
            retention: Mutex::new(Rank::Retention, Retention::new(clock_ns, now_ms)),
            unordered,
            staged: AtomicUsize::new(0),
            has_put_aside,
        }
    }

    pub(in crate::engine) fn site(&self) -> &Site {
        &self.site
    }

    pub(in crate::engine) fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    pub(in crate::engine) fn list(&self) -> Locked<'_, JobList> {
        self.list.lock()
    }

    pub(in crate::engine) fn manifest(&self) -> Locked<'_, Manifest> {
        self.manifest.lock()
    }

    pub(in crate::engine) fn flushing(&self) -> Locked<'_, ()> {
        self.flushing.lock()
    }

    pub(in crate::engine) fn indexing(&self) -> Locked<'_, ()> {
        self.indexing.lock()
    }

    pub(in crate::engine) fn unordered(&self) -> &[(u64, u64)] {
        &self.unordered
    }
}
