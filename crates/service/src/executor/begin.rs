//! Tasks that begin where they are asked for: what is short is done there, without a switch of threads.
//!
//! Does: poll a task on the task of whoever waits for it, and give it to the executor's threads once it may take long; tell the work
//! of a task where it may go on. Does not: judge what is short: a task says itself where it may begin to take long, with
//! [`elsewhere`].

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;

use super::Executor;

thread_local! {
    /// What this thread polls: a task that was begun where it is waited for, and whether that wants to leave.
    static POLLED: Cell<Polled> = const { Cell::new(Polled::Other) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Polled {
    Other,
    Begun,
    Leaving,
}

/// The thread polls a task that was begun until this is dropped, also by a panic.
struct Polling {
    before: Polled,
}

impl Polling {
    fn enter() -> Self {
        Self {
            before: POLLED.replace(Polled::Begun),
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLED.set(self.before);
    }
}

/// A task that was begun by whoever waits for it. It is over for him when it has ended, or goes on elsewhere.
pub struct BegunTask {
    /// `None` = it is over. The mutex is never locked: it lets a connection be shared while it holds a task.
    task: Mutex<Option<BoxFuture<'static, ()>>>,
    is_here: bool,
    executor: Arc<dyn Executor>,
}

impl fmt::Debug for BegunTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BegunTask")
            .field("is_here", &self.is_here)
            .finish_non_exhaustive()
    }
}

impl BegunTask {
    /// A task that nobody has polled yet.
    pub fn new(
        executor: &Arc<dyn Executor>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            task: Mutex::new(Some(Box::pin(task))),
            is_here: true,
            executor: Arc::clone(executor),
        }
    }

    /// Lets it go on without whoever has begun it.
    pub fn leave(&mut self) {
        if let Some(task) = self.take() {
            self.executor.spawn(task);
        }
    }

    fn task(&mut self) -> &mut Option<BoxFuture<'static, ()>> {
        self.task.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.is_here = false;
        self.task().take()
    }

    /// Whether it has neither ended nor left.
    pub fn is_here(&self) -> bool {
        self.is_here
    }
}

impl Future for BegunTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(task) = self.task() else {
            return Poll::Ready(());
        };
        let (is_over, leaves) = {
            let _polling = Polling::enter();
            let is_over = task.as_mut().poll(context).is_ready();
            (is_over, POLLED.get() == Polled::Leaving)
        };
        if is_over {
            drop(self.take());
        } else if leaves {
            self.leave();
        } else {
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// Whether this thread polls a task where it was begun.
pub(crate) fn is_beginning() -> bool {
    POLLED.get() != Polled::Other
}

/// Comes back where work may take long: a task that is polled by whoever has begun it leaves his thread, any other goes on.
pub async fn elsewhere() {
    std::future::poll_fn(|_| {
        if is_beginning() {
            // Whoever polls it gives it to other threads, which ask again.
            POLLED.set(Polled::Leaving);
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread::{self, ThreadId};

    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::super::Threads;
    use super::*;

    async fn threads_of_steps(says_long: bool) -> Vec<ThreadId> {
        let threads = Threads::start(1).unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = oneshot::channel();
        let of_task = Arc::clone(&steps);
        let step = move || of_task.lock().unwrap().push(thread::current().id());
        BegunTask::new(&threads, async move {
            step();
            if says_long {
                elsewhere().await;
            }
            step();
            sender.send(()).unwrap();
        })
        .await;
        receiver.await.unwrap();
        steps.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn a_short_task_stays_where_it_was_begun_and_a_long_one_leaves() {
        let here = thread::current().id();
        assert_eq!(threads_of_steps(false).await, [here, here]);
        let steps = threads_of_steps(true).await;
        assert_eq!(steps[0], here);
        assert_ne!(steps[1], here);
        // Where nothing was begun, nothing leaves.
        elsewhere().await;
    }

    #[tokio::test]
    async fn a_task_that_waits_is_woken_where_it_was_begun_and_where_it_has_gone() {
        for leaves in [false, true] {
            let threads = Threads::start(1).unwrap();
            let (first, waits) = oneshot::channel::<u8>();
            let (sender, receiver) = oneshot::channel();
            let mut begun = BegunTask::new(&threads, async move {
                let _ = sender.send(waits.await);
            });
            assert!((&mut begun).now_or_never().is_none());
            assert!(begun.is_here());
            if leaves {
                begun.leave();
            }
            let send = async { first.send(7).unwrap() };
            tokio::join!(begun, send);
            assert_eq!(receiver.await.unwrap(), Ok(7));
        }
    }

    #[tokio::test]
    async fn a_panic_leaves_the_thread_as_it_was() {
        let threads = Threads::of_caller();
        let begun = BegunTask::new(&threads, async { panic!("planted") });
        let panicked = catch_unwind(AssertUnwindSafe(|| begun.now_or_never()));
        assert!(panicked.is_err());
        assert!(!is_beginning());
    }
}
