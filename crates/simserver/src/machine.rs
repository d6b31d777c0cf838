//! One thread that does everything, in an order that dice choose, and a clock that stands still until it is told to move.
//!
//! Does: hold all tasks of a life (requests, queries, what blocks), poll one that is ready, wake whoever waited for a time
//! that has come. Does not: know what the tasks are about. Tokio is there for what operators of a plan spawn by
//! themselves, which takes its turn, first come, first served, between two polls; its timers are never waited for.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use nilometer_engine::Clock;
use nilometer_service::Executor;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::time::Instant;

/// Where every run's wall clock begins: some day of 2023.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
/// Turns that tokio's own tasks get before nothing is said to be left; what a plan spawns needs a few.
const IDLE_TURNS: usize = 8;

/// A run takes seconds.
const AHEAD: Duration = Duration::from_hours(24);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time that a plan moves.
#[derive(Debug, Default)]
pub(crate) struct PlannedClock {
    passed_ms: AtomicU64,
    /// By how much the wall clock is ahead of what has passed.
    jumped_ms: AtomicU64,
}

impl PlannedClock {
    /// Puts the wall clock ahead, and no other.
    pub(crate) fn jump(&self, ms: u64) {
        self.jumped_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for PlannedClock {
    fn now_ns(&self) -> i64 {
        let ms = self.monotonic_ms() + self.jumped_ms.load(Ordering::Relaxed);
        let passed = i64::try_from(ms).unwrap_or(0);
        BEGIN_NS + passed * 1_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::Relaxed)
    }
}

/// What the server gives its work to.
pub(crate) struct Place {
    /// So far ahead that no timer of tokio's ever rings.
    begin: Instant,
    clock: Arc<PlannedClock>,
    came: Mutex<Vec<BoxFuture<'static, ()>>>,
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

/// The executor as the server sees it.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Place>);

impl Executor for Shared {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        lock(&self.0.came).push(task);
    }

    /// When it is its turn, as any task.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { work() }));
    }

    fn threads(&self, _: usize) -> usize {
        1
    }

    fn run_together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    /// The machine's own end is that of its tasks.
    fn stop(&self) {}

    fn now(&self) -> Instant {
        self.0.begin + Duration::from_millis(self.0.clock.monotonic_ms())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Box::pin(Sleep {
            place: Arc::clone(&self.0),
            until_ms: self.0.clock.monotonic_ms().saturating_add(ms),
        })
    }
}

struct Sleep {
    place: Arc<Place>,
    until_ms: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.place.clock.monotonic_ms() >= self.until_ms {
            return Poll::Ready(());
        }
        lock(&self.place.waiting).push((self.until_ms, context.waker().clone()));
        Poll::Pending
    }
}

struct Task {
    future: BoxFuture<'static, ()>,
    ready: Arc<Ready>,
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tasks of a life.
pub(crate) struct Machine {
    place: Arc<Place>,
    tasks: BTreeMap<u64, Task>,
    last: u64,
    polls: u64,
}

impl Machine {
    pub(crate) fn new(clock: Arc<PlannedClock>) -> Self {
        let place = Place {
            begin: Instant::now() + AHEAD,
            clock,
            came: Mutex::default(),
            waiting: Mutex::default(),
        };
        Self {
            place: Arc::new(place),
            tasks: BTreeMap::new(),
            last: 0,
            polls: 0,
        }
    }

    /// What the server is to be given.
    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Shared(Arc::clone(&self.place)))
    }

    /// Polls since the start of the run.
    pub(crate) fn polls(&self) -> u64 {
        self.polls
    }

    /// Takes a task; the number is for [`Self::cancel`].
    pub(crate) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) -> u64 {
        self.add(Box::pin(task))
    }

    fn add(&mut self, future: BoxFuture<'static, ()>) -> u64 {
        self.last += 1;
        let ready = Arc::new(Ready(AtomicBool::new(true)));
        self.tasks.insert(self.last, Task { future, ready });
        self.last
    }

    /// Drops a task where it is.
    pub(crate) fn cancel(&mut self, task: u64) {
        self.tasks.remove(&task);
    }

    /// The end of a process: whatever ran does not go on.
    pub(crate) fn kill(&mut self) {
        self.tasks.clear();
        // A task that goes may have left another.
        while !lock(&self.place.came).is_empty() {
            let left = std::mem::take(&mut *lock(&self.place.came));
            drop(left);
        }
        lock(&self.place.waiting).clear();
    }

    /// Lets time pass, on both clocks.
    pub(crate) fn advance(&mut self, ms: u64) {
        let now = self.place.clock.passed_ms.fetch_add(ms, Ordering::Relaxed) + ms;
        let mut waiting = lock(&self.place.waiting);
        let (over, rest) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|(until_ms, _)| *until_ms <= now);
        *waiting = rest;
        drop(waiting);
        for (_, waker) in over {
            waker.wake();
        }
    }

    fn admit(&mut self) {
        let came = std::mem::take(&mut *lock(&self.place.came));
        for task in came {
            self.add(task);
        }
    }

    fn ready(&mut self) -> Vec<u64> {
        self.admit();
        let tasks = self.tasks.iter();
        let ready = tasks.filter(|(_, task)| task.ready.0.load(Ordering::Relaxed));
        ready.map(|(id, _)| *id).collect()
    }

    /// Polls one task that is ready; false = none is, and none will be by itself.
    pub(crate) async fn turn(&mut self, dice: &mut Xoshiro256PlusPlus) -> bool {
        let mut ready = self.ready();
        for _ in 0..IDLE_TURNS {
            if !ready.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
            ready = self.ready();
        }
        if ready.is_empty() {
            return false;
        }
        let nth = dice.random_range(0..ready.len());
        let id = ready.get(nth).copied().unwrap_or_default();
        if let Some(task) = self.tasks.get_mut(&id) {
            task.ready.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(&task.ready));
            self.polls += 1;
            let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                self.tasks.remove(&id);
            }
        }
        // Gives tokio's own tasks a turn, and this one a new budget.
        tokio::task::yield_now().await;
        true
    }
}
