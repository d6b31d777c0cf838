//! Threads that wait for a group of records to be on stable storage.
//!
//! Does: wake each of them once, when its records are there, and one of the others to lead the next group. Does not: hold a mutex
//! while they wait, or wake those for whom nothing has changed: of thirty writers, half are of the next group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};

use crate::schema::Lsn;

const ASLEEP: u8 = 0;
const DURABLE: u8 = 1;
const AGAIN: u8 = 2;

/// A thread that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    thread: Thread,
    state: AtomicU8,
}

impl Waiter {
    /// Waits to be woken, and says whether the records are durable; if not, look again: nobody leads, or the log takes no more.
    pub(super) fn wait(&self) -> bool {
        loop {
            match self.state.load(Ordering::Acquire) {
                // Parking may end by itself.
                ASLEEP => thread::park(),
                state => return state == DURABLE,
            }
        }
    }
}

/// Those who wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<(Lsn, Arc<Waiter>)>);

impl Waiting {
    /// Joins them.
    pub(super) fn join(&mut self, lsn: Lsn) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            thread: thread::current(),
            state: AtomicU8::new(ASLEEP),
        });
        self.0.push((lsn, Arc::clone(&waiter)));
        waiter
    }

    /// Those whose records are durable now, and one more, who is to lead.
    pub(super) fn served(&mut self, durable: Lsn) -> Woken {
        let (served, mut left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(lsn, _)| *lsn <= durable);
        let mut woken: Vec<_> = served
            .into_iter()
            .map(|(_, waiter)| (waiter, DURABLE))
            .collect();
        if !left.is_empty() {
            let (_, leader) = left.remove(0);
            woken.push((leader, AGAIN));
        }
        self.0 = left;
        Woken(woken)
    }

    /// All, because the log takes no more records.
    pub(super) fn all(&mut self) -> Woken {
        let all = std::mem::take(&mut self.0).into_iter();
        Woken(all.map(|(_, waiter)| (waiter, AGAIN)).collect())
    }
}

/// Threads that are woken when this is dropped, which is to be done without a mutex.
#[derive(Debug)]
#[must_use]
pub(super) struct Woken(Vec<(Arc<Waiter>, u8)>);

impl Drop for Woken {
    fn drop(&mut self) {
        // The last first: who leads the next group has the most to do.
        for (waiter, state) in self.0.drain(..).rev() {
            waiter.state.store(state, Ordering::Release);
            waiter.thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use super::super::{Log, LogOptions};
    use super::*;
    use crate::disk::{Disk, DiskFile, DiskLayer, FileLayer, MemoryDisk};
    use crate::error::Error;

    const WRITERS: u64 = 8;
    const EACH: u64 = 200;

    /// A disk whose syncs give others their turn, and fail from a number on.
    #[derive(Debug, Clone)]
    struct Disks {
        below: MemoryDisk,
        syncs: Arc<AtomicUsize>,
        fails_from: usize,
    }

    #[derive(Debug)]
    struct File(Arc<dyn DiskFile>, Disks);

    impl DiskLayer for Disks {
        fn below(&self) -> &dyn Disk {
            &self.below
        }

        fn file(&self, _: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
            Arc::new(File(file, self.clone()))
        }
    }

    impl FileLayer for File {
        fn below(&self) -> &dyn DiskFile {
            &*self.0
        }

        fn sync(&self) -> io::Result<()> {
            thread::yield_now();
            if self.1.syncs.fetch_add(1, Ordering::Relaxed) >= self.1.fails_from {
                return Err(io::Error::other("planted"));
            }
            self.0.sync()
        }
    }

    fn log(fails_from: usize) -> (Log, Disks) {
        let disk = Disks {
            below: MemoryDisk::new(),
            syncs: Arc::default(),
            fails_from,
        };
        let options = LogOptions {
            file_bytes: 1 << 20,
            free_files_max: 2,
            sabotage: None,
        };
        let visit = &mut |_, _: &[u8]| Ok(());
        let opened = Log::open(
            Arc::new(disk.clone()),
            "/log".into(),
            [1; 16],
            0,
            options,
            visit,
        );
        (opened.unwrap().0, disk)
    }

    /// Writers that each append and wait; how many were told that it is durable, and that the log takes no more.
    fn write(log: &Log) -> (u64, u64) {
        let (next, durable, refused) = (Mutex::new(0), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|threads| {
            for _ in 0..WRITERS {
                threads.spawn(|| {
                    for _ in 0..EACH {
                        let lsn = {
                            let mut next = next.lock().unwrap();
                            *next += 1;
                            log.append(*next, vec![7; 40]);
                            *next
                        };
                        match log.sync(lsn) {
                            Ok(()) => {
                                assert!(log.durable() >= lsn);
                                durable.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Error::Poisoned { .. }) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        (durable.into_inner(), refused.into_inner())
    }

    /// A writer that nobody wakes would wait for ever, whoever leads.
    #[test]
    fn writers_that_wait_for_each_other_are_all_served() {
        let (log, _) = log(usize::MAX);
        assert_eq!(write(&log), (WRITERS * EACH, 0));
        assert_eq!(log.durable(), WRITERS * EACH);
    }

    /// After a sync that failed nobody waits for ever, and nobody is told that a later record is durable.
    #[test]
    fn writers_that_wait_are_told_that_the_log_is_poisoned() {
        let (log, _) = log(30);
        let (durable, refused) = write(&log);
        assert_eq!(durable + refused, WRITERS * EACH);
        assert!(refused > 0);
        assert!(log.durable() < WRITERS * EACH);
        assert!(log.poisoned().is_some());
    }
}
