//! The site of a store: where it is, and what it may take there.
//!
//! Does: hold folder, disk, clock, settings, memory, room on the disk and the caches of open files, for every part of the
//! engine. Does not: know what is in the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::{MemoryBudget, MemoryUse};
use crate::clock::Clock;
use crate::disk::{Disk, DiskLock};
use crate::engine::watch::space::Space;
use crate::error::Error;
use crate::index::BlockCache;
use crate::options::Options;
use crate::segment::{SegmentCache, SegmentFormat, SegmentWriter};

/// What writers remember of series texts has at most this part of the index's share: it can be looked up again.
const MEMO_PART: u64 = 4;

/// Where a store is, and what it may take there.
#[derive(Debug)]
pub(crate) struct Site {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    uuid: [u8; 16],
    options: Options,
    budget: MemoryBudget,
    space: Space,
    segment_cache: Arc<SegmentCache>,
    index_cache: Arc<BlockCache>,
    /// Held until the last reference is gone.
    _lock: Box<dyn DiskLock>,
}

impl Site {
    /// Of an open folder that nobody else has. Settings of single things are made to fit the memory for all.
    pub(in crate::engine) fn new(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        uuid: [u8; 16],
        mut options: Options,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let budget = MemoryBudget::new(options.memory_bytes_max);
        fit(&mut options, &budget);
        let segment_cache = SegmentCache::new(Arc::clone(&disk), budget.clone(), &options);
        Self {
            index_cache: Arc::new(BlockCache::new(options.index_cache_bytes_max, &budget)),
            segment_cache: Arc::new(segment_cache),
            space: Space::new(disk.as_ref(), dir, &options),
            dir: dir.to_owned(),
            disk,
            clock,
            uuid,
            options,
            budget,
            _lock: lock,
        }
    }

    pub(in crate::engine) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(in crate::engine) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    pub(in crate::engine) fn space(&self) -> &Space {
        &self.space
    }

    pub(in crate::engine) fn segment_cache(&self) -> &Arc<SegmentCache> {
        &self.segment_cache
    }

    pub(in crate::engine) fn index_cache(&self) -> &Arc<BlockCache> {
        &self.index_cache
    }

    /// Whether rows may be written now, as far as the disk's room goes.
    pub(in crate::engine) fn check_space(&self) -> Result<(), Error> {
        self.space
            .check(self.disk(), &self.dir, self.clock.monotonic_ms())
    }

    /// Whether a job that writes so many bytes may start.
    pub(in crate::engine) fn has_room_for(&self, bytes: u64) -> bool {
        self.space.has_room_for(self.disk(), &self.dir, bytes)
    }

    /// Starts a segment file, which must not exist.
    pub(in crate::engine) fn segment_writer(
        &self,
        path: &Path,
        file_id: u64,
    ) -> Result<SegmentWriter, Error> {
        let format = SegmentFormat::of(self.options.segment_format);
        SegmentWriter::create_of(format, self.disk(), path, self.uuid, file_id)
    }

    /// Starts a file of a device's pages, which must not exist.
    pub(in crate::engine) fn device_writer(
        &self,
        path: &Path,
        file_id: u64,
    ) -> Result<SegmentWriter, Error> {
        let format = SegmentFormat::LATEST;
        SegmentWriter::create_of(format, self.disk(), path, self.uuid, file_id)
    }

    /// Whether pages of devices are kept as they are: not by a store that is written in an earlier format.
    pub(in crate::engine) fn keeps_pages(&self) -> bool {
        SegmentFormat::of(self.options.segment_format) >= SegmentFormat::NOW
    }

    /// A file of this id can only be what an earlier, failed attempt of this life left.
    pub(in crate::engine) fn remove_leftover(&self, path: &Path) -> Result<(), Error> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Makes the limits of single things fit the budget that they are part of.
fn fit(options: &mut Options, budget: &MemoryBudget) {
    // A log larger than the head's share could not be replayed in one piece.
    options.log_bytes_max = options.log_bytes_max.min(budget.limit(MemoryUse::Head));
    let memo = budget.limit(MemoryUse::Index) / MEMO_PART;
    let memo = usize::try_from(memo).unwrap_or(usize::MAX);
    options.memo_bytes_max = options.memo_bytes_max.min(memo);
}
