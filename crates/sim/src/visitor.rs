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
use nilometer_engine::disk::{Disk, DiskFile, DiskLayer, FaultyDisk, FileLayer};

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
            nilometer_engine::as_another_thread(visit);
        }
    }
}

/// The disk with its door.
#[derive(Debug)]
pub(crate) struct VisitedDisk {
    pub(crate) disk: FaultyDisk,
    pub(crate) visitor: Visitor,
}

impl DiskLayer for VisitedDisk {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if path.extension().is_some_and(|ending| ending == "seg") {
            let visitor = self.visitor.clone();
            Arc::new(VisitedFile { file, visitor })
        } else {
            file
        }
    }
}

#[derive(Debug)]
struct VisitedFile {
    file: Arc<dyn DiskFile>,
    visitor: Visitor,
}

impl FileLayer for VisitedFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.visitor.knock(Door::Segment);
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.visitor.knock(Door::Segment);
        self.file.sync()
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
