//! Small writes that are made durable together.
//!
//! Does: have the first of them carried out by the task that asks for it, without another thread, where that was begun for its
//! connection; and those that come meanwhile by one thread: it puts them all into the log, one after the other, and tells each once a
//! single sync has made all durable. Does not: know what a write is, or take one that may wait for anything but the log: all the
//! others would wait with it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::executor::{Executor, Outcome, Stopped, hands_over, is_beginning, long};

/// Waits until what was put into the log is durable, and tells who waits.
type Acknowledge = Box<dyn FnOnce() + Send>;

/// Puts a write into the log.
type Put = Box<dyn FnOnce() -> Acknowledge + Send>;

/// Writes of a store that go to the disk together.
#[derive(Default)]
pub struct WriteGroup {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Somebody carries writes out, and will take what waits when he has.
    is_led: bool,
    waiting: Vec<Put>,
}

impl fmt::Debug for WriteGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_led, waiting) = {
            let state = self.lock();
            (state.is_led, state.waiting.len())
        };
        let mut shown = f.debug_struct("WriteGroup");
        shown.field("is_led", &is_led).field("waiting", &waiting);
        shown.finish()
    }
}

impl WriteGroup {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a write: `put` gives it its place in the log, and `acknowledge` waits until that is durable. It goes on to its end even if
    /// nobody waits for its outcome any more.
    pub fn write<P: Send + 'static, T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        executor: &Arc<dyn Executor>,
        put: impl FnOnce() -> Result<P, E> + Send + 'static,
        acknowledge: impl FnOnce(P) -> Result<T, E> + Send + 'static,
    ) -> BoxFuture<'static, Result<Result<T, E>, Stopped>> {
        let (sender, receiver) = oneshot::channel();
        let mut outcome = Outcome::to(sender);
        let put: Put = Box::new(move || {
            let put = put();
            Box::new(move || outcome.send(Ok(put.and_then(acknowledge))))
        });
        self.take(executor, put);
        Box::pin(async move { receiver.await.unwrap_or(Err(Stopped::Ended)) })
    }

    fn take(self: &Arc<Self>, executor: &Arc<dyn Executor>, put: Put) {
        {
            let mut state = self.lock();
            if state.is_led {
                state.waiting.push(put);
                return;
            }
            state.is_led = true;
        }
        let lead = Lead(Some(Arc::clone(self)));
        // Whoever has not begun a task here may be somewhere where a thread must not wait, such as a program's own task.
        if is_beginning() && hands_over() {
            long(|| carry_out(vec![put]));
            // Whoever came meanwhile is served by a thread of its own, so that this task can answer.
            if let Some(lead) = lead.unless_idle() {
                executor.spawn_blocking(Box::new(move || lead.serve()));
            }
        } else {
            executor.spawn_blocking(Box::new(move || {
                carry_out(vec![put]);
                lead.serve();
            }));
        }
    }
}

/// The right, and the duty, to carry out what waits. Dropped without having done so, as where a program stops, it lets those go who
/// wait.
struct Lead(Option<Arc<WriteGroup>>);

impl Lead {
    /// Gives the lead up if nobody waits.
    fn unless_idle(mut self) -> Option<Self> {
        let group = self.0.take()?;
        {
            let mut state = group.lock();
            if state.waiting.is_empty() {
                state.is_led = false;
                return None;
            }
        }
        Some(Self(Some(group)))
    }

    /// Carries out what waits, until nobody does.
    fn serve(self) {
        let mut lead = self;
        while let Some(led) = lead.unless_idle() {
            let waiting = led
                .0
                .as_ref()
                .map(|group| std::mem::take(&mut group.lock().waiting));
            carry_out(waiting.unwrap_or_default());
            lead = led;
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            let left = {
                let mut state = group.lock();
                state.is_led = false;
                std::mem::take(&mut state.waiting)
            };
            drop(left);
        }
    }
}

/// Puts writes into the log, and acknowledges them: the first that waits for the log makes all durable. A panic is that of one
/// write, which says so; the others are carried out.
fn carry_out(puts: Vec<Put>) {
    let mut acknowledging = Vec::with_capacity(puts.len());
    for put in puts {
        acknowledging.extend(catch_unwind(AssertUnwindSafe(put)));
    }
    for acknowledge in acknowledging {
        drop(catch_unwind(AssertUnwindSafe(acknowledge)));
    }
}

#[cfg(test)]
mod tests;
