//! Counters of reading.
//!
//! Does: add up, for all clones of a scan. Does not: say what planning left out (`report.rs` works that out).

use std::sync::atomic::{AtomicU64, Ordering};

/// What reading has done so far, of all clones of a scan.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) blocks: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) pages_skipped: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) blocks_ruled_out: AtomicU64,
    pub(super) blocks_without_hit: AtomicU64,
    pub(super) ends_from_statistics: AtomicU64,
}

/// What one cursor reads of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupRead {
    pub(super) blocks: u64,
    pub(super) pages: u64,
    pub(super) pages_skipped: u64,
    pub(super) bytes: u64,
    pub(super) blocks_ruled_out: u64,
    pub(super) blocks_without_hit: u64,
}

impl Counters {
    /// Blocks that were read, and those that were ruled out.
    pub(super) fn blocks_so_far(&self) -> (u64, u64) {
        let read = self.blocks.load(Ordering::Relaxed);
        (read, self.blocks_ruled_out.load(Ordering::Relaxed))
    }

    pub(super) fn add_ends(&self, rows: usize) {
        self.ends_from_statistics
            .fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(super) fn add(&self, read: GroupRead) {
        self.blocks.fetch_add(read.blocks, Ordering::Relaxed);
        self.pages.fetch_add(read.pages, Ordering::Relaxed);
        self.pages_skipped
            .fetch_add(read.pages_skipped, Ordering::Relaxed);
        self.bytes.fetch_add(read.bytes, Ordering::Relaxed);
        self.blocks_ruled_out
            .fetch_add(read.blocks_ruled_out, Ordering::Relaxed);
        self.blocks_without_hit
            .fetch_add(read.blocks_without_hit, Ordering::Relaxed);
    }
}
