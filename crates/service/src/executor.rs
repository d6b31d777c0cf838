//! The executor: threads and the machine's clock, or a simulation's one thread and clock.
//!
//! Does: hand work that waits for the disk to tokio's blocking threads, and tasks to whoever runs them; in a simulation,
//! give both to the one thread that the simulation has, which takes them in an order of its own. Does not: run anything.
//!
//! A value of the thread and not an argument: only a simulation sets it, on its one thread, and every function between
//! a route and the disk would carry the argument for its sake.

use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;

/// Takes all work of its thread.
pub trait Executor: Debug + Send + Sync {
    /// Takes a task, to be polled by the same thread.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// A wait for so much time to pass.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// What time it is.
    fn now(&self) -> Instant;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Executor>>> = const { RefCell::new(None) };
}

/// An executor is given the work of this thread until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Installed(());

/// From here on this executor gets what this thread would give to others.
pub fn install(executor: Arc<dyn Executor>) -> Installed {
    CURRENT.set(Some(executor));
    Installed(())
}

impl Drop for Installed {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// The executor of this thread; `None` = threads do the work, and the machine's clock counts.
pub fn current() -> Option<Arc<dyn Executor>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What time it is for whoever has a deadline.
pub fn now() -> Instant {
    current().map_or_else(Instant::now, |executor| executor.now())
}

/// Does what waits for the disk where waiting is allowed. It goes on to its end even if nobody waits for it any more.
pub async fn block<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let Some(executor) = current() else {
        return tokio::task::spawn_blocking(work).await;
    };
    let (sender, receiver) = oneshot::channel();
    executor.spawn(Box::pin(async move {
        // Whoever does not wait any more does not need the outcome.
        let _ = sender.send(work());
    }));
    match receiver.await {
        Ok(done) => Ok(done),
        // The executor is gone, and whoever asks here goes with it.
        Err(_) => std::future::pending().await,
    }
}

/// What a future gives, if it does within a time.
pub async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let Some(executor) = current() else {
        return tokio::time::timeout(time, work).await.ok();
    };
    let mut work = std::pin::pin!(work);
    let mut over = executor.sleep(time);
    std::future::poll_fn(move |context| {
        if let std::task::Poll::Ready(done) = Pin::as_mut(&mut work).poll(context) {
            return std::task::Poll::Ready(Some(done));
        }
        over.poll_unpin(context).map(|()| None)
    })
    .await
}
