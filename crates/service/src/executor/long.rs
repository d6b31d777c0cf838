//! Long work of a task on its own thread.
//!
//! Does: give the other tasks of a thread to another one, where that can be done. Does not: move the work itself.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that is known to take long: another thread takes the other tasks over at once. It costs some ten microseconds.
/// A runtime of one thread, such as a simulation's, has nobody to take them, and they wait.
pub fn long<T>(work: impl FnOnce() -> T) -> T {
    if hands_over() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

/// Whether there is a thread that can take the other tasks of this one over.
pub(crate) fn hands_over() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::executor::Threads;

    /// Before, InfluxQL worked a SELECT out on a thread for queries as it was: some of them at once held up every other
    /// statement, `KILL QUERY` among them.
    #[tokio::test]
    async fn tasks_go_on_while_long_work_holds_every_thread() {
        let threads = Threads::start(1).unwrap();
        let mut held = Vec::new();
        let (begun, beginnings) = mpsc::sync_channel(16);
        for _ in 0..16 {
            let (release, wait) = mpsc::sync_channel::<()>(1);
            held.push(release);
            let begun = begun.clone();
            threads.spawn(Box::pin(async move {
                long(|| {
                    begun.send(()).unwrap();
                    wait.recv().unwrap_err()
                });
            }));
        }
        let all = threads.block(move || (0..16).try_for_each(|_| beginnings.recv()));
        all.await.unwrap().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        threads.spawn(Box::pin(async move {
            let _ = sender.send(6 * 7);
        }));
        assert_eq!(receiver.await, Ok(42));
        drop(held);
    }
}
