//! The executor: who does work, and what time it is. Threads and the machine's clock, or a simulation's one thread and clock.
//!
//! Does: say what whoever stands on a service may ask of it: tasks that compute, work that waits for the disk, threads for
//! one call, waits. Does not: run anything; [`Threads`] does, on tokio.
//!
//! One is handed to a [`Service`](crate::Service), which gives it to its languages. The threads of a store's own jobs are
//! not its: a simulation calls the engine's jobs itself.

mod begin;
mod catch_panic;
mod long;
mod threads;

use std::fmt::Debug;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use begin::is_beginning;
pub use begin::{BegunTask, elsewhere};
pub use catch_panic::catch_panic;
pub(crate) use long::hands_over;
pub use long::long;
pub use threads::Threads;

/// Does all work of a service.
pub trait Executor: Debug + Send + Sync {
    /// Takes a task that computes, such as a query.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// Takes work that waits for the disk. It goes on to its end.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>);
    /// How many threads one call may have that would like so many.
    fn threads(&self, wanted: usize) -> usize;
    /// Does the work of each number below `count`, on the calling thread and others, and returns when all is done.
    fn run_together(&self, count: usize, work: &(dyn Fn(usize) + Sync));
    /// A wait for so much time to pass.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// What time it is for whoever has a deadline.
    fn now(&self) -> Instant;
    /// Ends the tasks, whatever they are at, and waits for none.
    fn stop(&self);
}

/// Why work has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// It panicked; the log says where.
    #[error("the work panicked; the log says where")]
    Panicked,
    /// It was not begun any more.
    #[error("the program is stopping")]
    Ended,
}

impl dyn Executor {
    /// Does what waits for the disk where waiting is allowed. It begins at once, whether the outcome is waited for yet or not, and goes on to its
    /// end even if nobody waits for it any more.
    pub fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Stopped>> {
        let (sender, receiver) = oneshot::channel();
        let mut outcome = Outcome::to(sender);
        self.spawn_blocking(Box::new(move || outcome.send(Ok(work()))));
        Box::pin(async move { receiver.await.unwrap_or(Err(Stopped::Ended)) })
    }

    /// What a future gives, if it does within a time.
    pub async fn within<T>(&self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let mut over = self.sleep(time);
        std::future::poll_fn(move |context| {
            if let Poll::Ready(done) = Pin::as_mut(&mut work).poll(context) {
                return Poll::Ready(Some(done));
            }
            over.poll_unpin(context).map(|()| None)
        })
        .await
    }
}

/// Where the outcome of work goes; dropped without one, it says why.
pub(crate) struct Outcome<T>(Option<oneshot::Sender<Result<T, Stopped>>>);

impl<T> Outcome<T> {
    pub(crate) fn to(sender: oneshot::Sender<Result<T, Stopped>>) -> Self {
        Self(Some(sender))
    }

    pub(crate) fn send(&mut self, outcome: Result<T, Stopped>) {
        if let Some(sender) = self.0.take() {
            // Whoever does not wait any more does not need it.
            let _ = sender.send(outcome);
        }
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        self.send(Err(if std::thread::panicking() {
            Stopped::Panicked
        } else {
            Stopped::Ended
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn work_that_panics_or_is_not_begun_says_so() {
        let threads = Threads::start(1).unwrap();
        assert_eq!(threads.block(|| 6 * 7).await, Ok(42));
        let panicked = threads.block(|| assert_eq!(1, 2, "planted")).await;
        assert_eq!(panicked, Err(Stopped::Panicked));
        let (sender, receiver) = oneshot::channel::<()>();
        threads.stop();
        threads.spawn(Box::pin(async move {
            let _ = sender.send(());
        }));
        receiver.await.unwrap_err();
    }

    #[tokio::test]
    async fn a_future_that_does_not_end_in_its_time_has_no_outcome() {
        let threads = Threads::of_caller();
        let never = std::future::pending::<()>();
        assert_eq!(threads.within(Duration::ZERO, never).await, None);
        let hour = Duration::from_hours(1);
        assert_eq!(threads.within(hour, async { 1 }).await, Some(1));
    }

    #[test]
    fn every_part_of_a_call_is_done_once() {
        let parts: [AtomicUsize; 5] = Default::default();
        Threads::of_caller().run_together(5, &|part| {
            parts[part].fetch_add(1, Ordering::Relaxed);
        });
        assert!(parts.iter().all(|it| it.load(Ordering::Relaxed) == 1));
    }
}
