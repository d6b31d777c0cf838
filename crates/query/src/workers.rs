//! Who does the work that the asking thread does not do itself, and who says that time has passed.
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
pub trait Workers: Debug + Send + Sync {
    /// Takes a task, to be polled by the same thread.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// A wait for so much time to pass.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// What time it is.
    fn now(&self) -> Instant;
}

thread_local! {
    static EMPLOYED: RefCell<Option<Arc<dyn Workers>>> = const { RefCell::new(None) };
}

/// Workers are given the work of this thread until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Employed(());

/// From here on these workers get what this thread would give to others.
pub fn employ(workers: Arc<dyn Workers>) -> Employed {
    EMPLOYED.set(Some(workers));
    Employed(())
}

impl Drop for Employed {
    fn drop(&mut self) {
        EMPLOYED.set(None);
    }
}

/// The workers of this thread; `None` = threads do the work, and the machine's clock counts.
pub fn employed() -> Option<Arc<dyn Workers>> {
    EMPLOYED.with_borrow(Clone::clone)
}

/// What time it is for whoever has a deadline.
pub fn now() -> Instant {
    employed().map_or_else(Instant::now, |workers| workers.now())
}

/// Does what waits for the disk where waiting is allowed. It goes on to its end even if nobody waits for it any more.
pub async fn block<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let Some(workers) = employed() else {
        return tokio::task::spawn_blocking(work).await;
    };
    let (sender, receiver) = oneshot::channel();
    workers.spawn(Box::pin(async move {
        // Whoever does not wait any more does not need the outcome.
        let _ = sender.send(work());
    }));
    match receiver.await {
        Ok(done) => Ok(done),
        // The workers are gone, and whoever asks here goes with them.
        Err(_) => std::future::pending().await,
    }
}

/// What a future gives, if it does within a time.
pub async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let Some(workers) = employed() else {
        return tokio::time::timeout(time, work).await.ok();
    };
    let mut work = std::pin::pin!(work);
    let mut over = workers.sleep(time);
    std::future::poll_fn(move |context| {
        if let std::task::Poll::Ready(done) = Pin::as_mut(&mut work).poll(context) {
            return std::task::Poll::Ready(Some(done));
        }
        over.poll_unpin(context).map(|()| None)
    })
    .await
}
