//! Locks with ranks: every lock of the engine, in the one order in which a thread may take them.
//!
//! Does: list the locks ([`Rank`]), and where the order is checked (the engine's own tests, the simulation, builds with debug
//! assertions) panic when a thread takes one while it holds one of
//! the same or a later rank, whether or not that would have met another thread. Does not: cost anything in other builds, or
//! order two stores: a thread holds locks of one at a time.
//!
//! Nobody panics while holding one of these locks with half-made state behind it: what is changed under them is changed in
//! one assignment. So a poisoned lock is still good.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{
    Condvar, Mutex as StdMutex, MutexGuard, PoisonError, RwLock as StdRwLock, RwLockReadGuard,
    RwLockWriteGuard, TryLockError,
};

/// Every lock, the outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// What a transaction has written: held by one of its statements, or by its end.
    Transaction,
    /// Who has which row of a relation.
    RowLocks,
    /// Of a backup: there is one at a time.
    Backup,
    /// Of a step of the scrub, while it reads.
    Scrub,
    /// Of whoever merges or mends index files.
    Indexing,
    /// Of whoever turns a head into a segment.
    Flushing,
    /// Series texts that writers know: held for some lines of a body.
    Memo,
    /// Which files are the store: held for one edit.
    Manifest,
    /// What maintenance does and has left to do.
    Jobs,
    /// The order of batches: held from a batch's check to its place, and by a change of names to its end.
    Sequencer,
    /// Tables that are written anew.
    Rewrites,
    /// Aggregates whose sources are written to.
    Invalidations,
    /// Names, and where series are.
    Catalogue,
    /// Rows of relations.
    Relations,
    /// What a snapshot reads together.
    State,
    /// Keys of batches that may be sent again.
    Keys,
    /// What retention has seen of the clock.
    Retention,
    /// Side files that the last flush replaced.
    Replaced,
    /// Index files that were put aside.
    Mended,
    /// What the scrub has found.
    Scrubbed,
    /// LSNs that somebody still reads relations at.
    Pins,
    /// Who writes the log, and what is durable.
    LogGroup,
    /// The log's files: held while they are written.
    LogFiles,
    /// Records that no group has taken.
    LogQueue,
    /// Records that wait to be decoded while a store is opened.
    Replay,
    /// Series in memory, of one generation; the older one is taken first.
    Series,
    /// Which series have a tag's values.
    Postings,
    /// Deletes of a head.
    HeadTombstones,
    /// Flash pages of a head.
    HeadPages,
    /// Rows of a head.
    HeadTables,
    /// Blocks of index files in memory.
    IndexBlocks,
    /// Segment files that are open.
    SegmentFiles,
    /// Parts of segments in memory.
    SegmentParts,
    /// What these have of the memory budget.
    SegmentCharge,
    /// Files of a disk in memory.
    Disk,
    /// Bytes of one of them.
    DiskFile,
}

impl Rank {
    /// Whether a thread may take a lock of this rank while it holds one of `held`.
    #[cfg(any(test, debug_assertions, feature = "lock-order"))]
    fn may_follow(self, held: Self) -> bool {
        // Two generations are read together, in the order of their age.
        held < self || (held == self && self == Self::Series)
    }
}

/// A mutex with its rank.
pub(crate) struct Mutex<T> {
    rank: Rank,
    inner: StdMutex<T>,
}

/// A lock for many readers or one writer, with its rank.
pub(crate) struct RwLock<T> {
    rank: Rank,
    inner: StdRwLock<T>,
}

/// What a lock gives access to, until it is dropped.
pub(crate) struct Guard<G> {
    inner: G,
    held: Held,
}

/// What a [`Mutex`] gives.
pub(crate) type Locked<'a, T> = Guard<MutexGuard<'a, T>>;
/// What an [`RwLock`] gives a reader.
pub(crate) type Read<'a, T> = Guard<RwLockReadGuard<'a, T>>;
/// What an [`RwLock`] gives a writer.
pub(crate) type Write<'a, T> = Guard<RwLockWriteGuard<'a, T>>;

impl<T> Mutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        let inner = StdMutex::new(value);
        Self { rank, inner }
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let held = Held::take(self.rank);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }

    /// `None` = somebody has it. Whoever does not wait may ask in any order.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let held = Held::note(self.rank);
        Some(Guard { inner, held })
    }
}

impl<T> RwLock<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        let inner = StdRwLock::new(value);
        Self { rank, inner }
    }

    pub(crate) fn read(&self) -> Read<'_, T> {
        let held = Held::take(self.rank);
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }

    pub(crate) fn write(&self) -> Write<'_, T> {
        let held = Held::take(self.rank);
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }
}

/// Gives a mutex back until `condition` is notified. Its rank counts as held meanwhile: whoever waits takes nothing else.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: Locked<'a, T>) -> Locked<'a, T> {
    let Guard { inner, held } = guard;
    let inner = condition
        .wait(inner)
        .unwrap_or_else(PoisonError::into_inner);
    Guard { inner, held }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.inner
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.inner
    }
}

impl<G: fmt::Debug> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.rank)?;
        self.inner.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.rank)?;
        self.inner.fmt(f)
    }
}

/// Runs `work` as if it were on a thread of its own: locks that this thread holds do not count in it. For a simulation that has
/// another client come while a call waits for the disk, all on one thread.
#[cfg(any(test, feature = "lock-order"))]
pub fn as_another_thread<T>(work: impl FnOnce() -> T) -> T {
    checked::apart(work)
}

#[cfg(any(test, debug_assertions, feature = "lock-order"))]
use checked::Held;
#[cfg(not(any(test, debug_assertions, feature = "lock-order")))]
use unchecked::Held;

#[cfg(any(test, debug_assertions, feature = "lock-order"))]
mod checked {
    use std::cell::RefCell;

    use crate::ranked::Rank;

    thread_local! {
        /// Ranks of the locks that this thread holds.
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// See [`super::as_another_thread`].
    #[cfg(any(test, feature = "lock-order"))]
    pub(super) fn apart<T>(work: impl FnOnce() -> T) -> T {
        /// Gives back what was held, after a panic too.
        struct Back(Vec<Rank>);

        impl Drop for Back {
            fn drop(&mut self) {
                HELD.set(std::mem::take(&mut self.0));
            }
        }

        let _back = Back(HELD.take());
        work()
    }

    /// That the thread holds a lock of this rank.
    pub(super) struct Held(Rank);

    impl Held {
        /// Checks the order, and notes the lock.
        pub(super) fn take(rank: Rank) -> Self {
            let out_of_order = HELD.with_borrow(|held| {
                let mut held = held.iter().copied();
                held.find(|&held| !rank.may_follow(held))
            });
            // A second panic would end the process and hide the first one.
            if let Some(held) = out_of_order
                && !std::thread::panicking()
            {
                panic!("the lock {rank:?} is taken after {held:?}, against the order of ranks");
            }
            Self::note(rank)
        }

        pub(super) fn note(rank: Rank) -> Self {
            HELD.with_borrow_mut(|held| held.push(rank));
            Self(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                // Mostly the last one.
                if let Some(at) = held.iter().rposition(|rank| *rank == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(not(any(test, debug_assertions, feature = "lock-order")))]
mod unchecked {
    use crate::ranked::Rank;

    pub(super) struct Held;

    impl Held {
        #[inline]
        pub(super) fn take(_rank: Rank) -> Self {
            Self
        }

        #[inline]
        pub(super) fn note(_rank: Rank) -> Self {
            Self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics(work: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn a_wrong_order_panics_though_nobody_else_is_there() {
        let manifest = Mutex::new(Rank::Manifest, ());
        let catalogue = RwLock::new(Rank::Catalogue, ());
        let state = Mutex::new(Rank::State, ());
        drop((manifest.lock(), catalogue.read(), state.lock()));
        assert!(panics(|| drop((state.lock(), manifest.lock()))));
        assert!(panics(|| drop((state.lock(), catalogue.read()))));
        assert!(panics(|| drop((state.lock(), catalogue.write()))));
        // Two readers of one thread stand still when a writer comes between them.
        assert!(panics(|| drop((catalogue.read(), catalogue.read()))));
        // The panics have left nothing behind.
        drop((manifest.lock(), catalogue.write(), state.lock()));
    }

    #[test]
    fn what_another_thread_holds_does_not_count() {
        let state = Mutex::new(Rank::State, ());
        let manifest = Mutex::new(Rank::Manifest, ());
        let held = state.lock();
        as_another_thread(|| drop(manifest.lock()));
        assert!(panics(|| as_another_thread(|| {
            drop((manifest.lock(), state.try_lock(), manifest.lock()));
        })));
        // It holds what it held.
        assert!(panics(|| drop(manifest.lock())));
        drop(held);
        drop(manifest.lock());
    }

    #[test]
    fn locks_may_be_given_back_in_any_order() {
        let manifest = Mutex::new(Rank::Manifest, ());
        let state = Mutex::new(Rank::State, ());
        let keys = Mutex::new(Rank::Keys, ());
        let outer = manifest.lock();
        let inner = state.lock();
        drop(outer);
        assert!(panics(|| drop(manifest.lock())));
        drop(inner);
        drop(manifest.lock());
        // Who does not wait stands in nobody's way, but what follows is checked.
        let inner = keys.lock();
        let tried = manifest.try_lock();
        assert!(tried.is_some());
        drop(inner);
        drop(state.lock());
        drop(tried);
    }

    #[test]
    fn a_panic_under_a_lock_leaves_it_usable() {
        let state = Mutex::new(Rank::State, 1);
        assert!(panics(|| {
            let _held = state.lock();
            panic!("on purpose");
        }));
        *state.lock() += 1;
        assert_eq!(*state.lock(), 2);
    }

    #[test]
    fn whoever_waits_has_the_lock_again_after_it() {
        let (queue, changed) = (Mutex::new(Rank::Replay, 0), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *queue.lock() = 7;
                changed.notify_all();
            });
            let mut seen = queue.lock();
            while *seen == 0 {
                seen = wait(&changed, seen);
            }
            assert_eq!(*seen, 7);
        });
    }

    #[test]
    #[cfg(not(any(test, debug_assertions, feature = "lock-order")))]
    fn a_rank_costs_nothing_to_hold() {
        assert_eq!(
            size_of::<Locked<'_, u64>>(),
            size_of::<MutexGuard<'_, u64>>()
        );
    }
}
