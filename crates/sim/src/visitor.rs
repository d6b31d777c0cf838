//! Doors that let somebody in: while the store writes a segment, or between a writer's look at what is there and its
//! place in the order, another writer has its turn.
//!
//! Does: run what a plan has for that moment before a chosen call on a segment file, or when a writer asks how late it
//! is, in the same thread, so that a seed runs the same each time. Does not: knock where the store holds a lock that a
//! writer needs: segments are written without any, and a writer first asks for the time before it takes one.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::Clock;
use nilometer_engine::disk::{Disk, DiskFile, DiskLock, FaultyDisk};

use crate::world::PlannedClock;

type Visit = Box<dyn FnOnce() + Send>;

/// Where somebody comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Writes and syncs of segments.
    Segment,
    /// The clock that never jumps.
    Clock,
}

/// Who waits for a call.
#[derive(Default, Clone)]
pub(crate) struct Visitor {
    waiting: Arc<Mutex<Option<(Door, u64, Visit)>>>,
}

impl std::fmt::Debug for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Visitor")
    }
}

impl Visitor {
    /// Runs `visit` before the n-th call at a door from now on; `None` = nobody waits any more.
    pub(crate) fn wait(&self, waiting: Option<(Door, u64, Visit)>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
    }

    fn knock(&self, at: Door) {
        let visit = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.take() {
                Some((door, calls, visit)) if door != at || calls > 1 => {
                    *waiting = Some((door, calls - u64::from(door == at), visit));
                    None
                }
                other => other,
            }
        };
        if let Some((_, _, visit)) = visit {
            visit();
        }
    }
}

/// The disk with its door.
#[derive(Debug)]
pub(crate) struct VisitedDisk {
    pub(crate) disk: FaultyDisk,
    pub(crate) visitor: Visitor,
}

impl VisitedDisk {
    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if path.extension().is_some_and(|ending| ending == "seg") {
            let visitor = self.visitor.clone();
            Arc::new(VisitedFile { file, visitor })
        } else {
            file
        }
    }
}

impl Disk for VisitedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path).map(|file| self.file(path, file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.file(path, file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.total_bytes(path)
    }
}

#[derive(Debug)]
struct VisitedFile {
    file: Arc<dyn DiskFile>,
    visitor: Visitor,
}

impl DiskFile for VisitedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.visitor.knock(Door::Segment);
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.visitor.knock(Door::Segment);
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

/// The clock with its door.
#[derive(Debug)]
pub(crate) struct VisitedClock {
    pub(crate) clock: Arc<PlannedClock>,
    pub(crate) visitor: Visitor,
}

impl Clock for VisitedClock {
    fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    fn monotonic_ms(&self) -> u64 {
        self.visitor.knock(Door::Clock);
        self.clock.monotonic_ms()
    }
}
