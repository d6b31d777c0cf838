//! Context of a query, from its caller: threads, memory, a way to be ended, and limits.
//!
//! Does: say what the caller has to offer; charge memory and give it back. Does not: own a thread or a byte.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nilometer_engine::{AggregateSources, Scan};

use crate::error::Error;

/// Buckets of one answer. A million of them fill some hundred megabytes before they are encoded.
const BUCKETS_MAX: u64 = 1_000_000;

/// Fewer rows than these are read on the calling thread: waking another takes longer than the work.
pub const INLINE_ROWS: u64 = 32_768;

/// Rows of a batch that an operator makes.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Threads of the caller.
pub trait Threads: Debug + Send + Sync {
    /// How many work at once, at least 1.
    fn count(&self) -> usize;
    /// Calls `work` with every number below `tasks`, several at once, and returns when all calls have.
    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync));
}

/// A step of a query whose time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finding series, segments and blocks.
    Prune,
    /// Reading rows, and what is stored of them.
    Decode,
    /// What becomes of rows: conditions, sums, sorts, columns of the answer.
    Operate,
}

/// How much was read, and how much did not have to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows that statistics and rollups stood for.
    pub rows_skipped: u64,
    /// Blocks that were decoded.
    pub blocks: u64,
    /// Blocks that statistics stood for, or ruled out.
    pub blocks_skipped: u64,
}

/// Whoever looks on while a query runs.
pub trait Watch: Debug + Send + Sync {
    /// Whether the query has to end. Asked before each unit and batch.
    fn has_to_end(&self) -> bool {
        false
    }

    /// So many rows, about, are to be read next. False ends the query with [`Error::Declined`] before it reads one of them.
    fn may_read(&self, _rows: u64) -> bool {
        true
    }

    /// A batch is about to be read, for which the disk may have to be waited for: does this work, and nothing else.
    fn reads(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// A scan is about to be read; what it says of itself changes while it is.
    fn has_planned(&self, _scan: &Scan) {}

    /// A part of an aggregation was read: this much of it was known without rows, or was not.
    fn has_aggregated(&self, _used: &AggregateSources) {}

    /// A query begins to run: what came before was planning.
    fn has_begun(&self) {}

    /// What time it is by the caller's clock, since whenever it likes; `None` = nobody wants to know where the time goes,
    /// and no time is taken.
    fn now(&self) -> Option<Duration> {
        None
    }

    /// So much time went into a step, on one thread. Said once for each batch or unit, and not for each row.
    fn has_spent(&self, _step: Step, _time: Duration) {}

    /// So much was read since the last time.
    fn has_read(&self, _reads: &Reads) {}
}

/// Time that is taken of a step until this is dropped; time of other steps in between can be left out.
#[derive(Debug)]
#[must_use]
pub(crate) struct Timed<'a> {
    watch: &'a dyn Watch,
    step: Step,
    since: Option<Duration>,
    /// What belongs to another step.
    others: Duration,
}

impl Timed<'_> {
    /// Does work of another step.
    pub(crate) fn other<T>(&mut self, step: Step, work: impl FnOnce() -> T) -> T {
        let before = self.since.and_then(|_| self.watch.now());
        let done = work();
        if let (Some(before), Some(now)) = (before, before.and_then(|_| self.watch.now())) {
            let took = now.saturating_sub(before);
            self.others += took;
            self.watch.has_spent(step, took);
        }
        done
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if let (Some(since), Some(now)) = (self.since, self.since.and_then(|_| self.watch.now())) {
            let took = now.saturating_sub(since).saturating_sub(self.others);
            self.watch.has_spent(self.step, took);
        }
    }
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// The calling thread alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inline;

impl Threads for Inline {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(work);
    }
}

/// There is no memory left for a query. The text names the setting that can be raised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct MemoryFull {
    /// What to tell the user.
    pub problem: String,
}

/// Rows of an ordered answer that are sorted at once, about, unless the account says otherwise.
const SLICE_ROWS: u64 = 256 * 1024;

/// Memory of the caller.
pub trait MemoryAccount: Debug + Send + Sync {
    /// Takes bytes, or says why not.
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull>;
    /// Gives bytes back.
    fn release(&self, bytes: usize);
    /// Rows of an ordered answer that are sorted at once, about: of an answer with more, a slice after another is read.
    fn slice_rows(&self) -> u64 {
        SLICE_ROWS
    }
}

/// An account that is never full, and knows how much is taken.
#[derive(Debug, Default)]
pub struct Unlimited {
    taken: AtomicUsize,
}

impl Unlimited {
    /// Bytes that are charged now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl MemoryAccount for Unlimited {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory that is charged until it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<dyn MemoryAccount>,
    bytes: usize,
}

impl Charge {
    /// Of nothing yet.
    pub fn new(account: &Arc<dyn MemoryAccount>) -> Self {
        Self {
            account: Arc::clone(account),
            bytes: 0,
        }
    }

    /// Takes more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        if bytes > 0 {
            self.account.charge(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Takes or gives back until it is this much.
    pub fn resize(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.account.release(self.bytes - bytes);
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back some of it.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.account.release(bytes);
        self.bytes -= bytes;
    }

    /// Takes over what another one has charged.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.release(self.bytes);
        }
    }
}

/// How much a query may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Buckets of all groups together.
    pub buckets: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            buckets: BUCKETS_MAX,
        }
    }
}

/// What a query is given. Clones share threads, memory and the flag.
#[derive(Debug, Clone)]
pub struct Context {
    /// Threads to read with.
    pub threads: Arc<dyn Threads>,
    /// Memory to charge, before it is taken.
    pub memory: Arc<dyn MemoryAccount>,
    /// Set to true, it ends the query at the next batch.
    pub cancel: Arc<AtomicBool>,
    /// How much it may make.
    pub limits: Limits,
    /// Who looks on.
    pub watch: Arc<dyn Watch>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            threads: Arc::new(Inline),
            memory: Arc::new(Unlimited::default()),
            cancel: Arc::default(),
            limits: Limits::default(),
            watch: Arc::new(Unwatched),
        }
    }
}

impl Context {
    /// Whether the query may go on. Whoever works on what queries answer asks as they do.
    pub fn check(&self) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) || self.watch.has_to_end() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    /// Reads a batch, in the way of whoever looks on.
    pub(crate) fn reading<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let (mut read, mut done) = (Some(read), None);
        self.watch
            .reads(&mut || done = read.take().map(|read| read()));
        done
    }

    /// Takes the time of a step until what is returned is dropped.
    pub(crate) fn timed(&self, step: Step) -> Timed<'_> {
        Timed {
            watch: &*self.watch,
            step,
            since: self.watch.now(),
            others: Duration::ZERO,
        }
    }

    pub(crate) fn charge(&self) -> Charge {
        Charge::new(&self.memory)
    }

    /// Threads that are worth waking for so many rows in so many parts.
    pub(crate) fn workers(&self, rows: u64, parts: usize) -> Result<usize, Error> {
        if !self.watch.may_read(rows) {
            return Err(Error::Declined { rows });
        }
        if rows < INLINE_ROWS {
            return Ok(1);
        }
        Ok(self.threads.count().clamp(1, parts.max(1)))
    }
}
