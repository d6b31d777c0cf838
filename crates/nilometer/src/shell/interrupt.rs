//! Ctrl-C while a statement runs: it ends the statement and not the program.
//!
//! Does: listen for the signal, break off what waits for rows, on the server too. Does not: read keys; while a line is
//! typed, the editor of the line does.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use nilometer::{Database, RowStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::source::{Answer, Source, positioned, session};

/// The statement was ended by Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub(crate) struct Cancelled;

/// Whether Ctrl-C was pressed since the statement began. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pressed: Notify,
}

#[derive(Default)]
struct State {
    is_pressed: bool,
    /// Breaks the statement off that runs; `None` = none runs.
    break_off: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Takes the signal over from the system, which would end the program.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let pressed = interrupt.clone();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot listen for Ctrl-C")?;
        let guard = runtime.enter();
        let mut signals = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        drop(guard);
        std::thread::spawn(move || {
            runtime.block_on(async {
                while signals.recv().await.is_some() {
                    pressed.press();
                }
            });
        });
        Ok(interrupt)
    }

    /// Breaks off what runs. Between statements there is nothing to break off.
    fn press(&self) {
        let break_off = {
            let mut state = self.state();
            state.is_pressed = true;
            state.break_off.take()
        };
        if let Some(break_off) = break_off {
            break_off();
        }
        self.0.changed.notify_all();
        self.0.pressed.notify_one();
    }

    /// Begins a statement, which `break_off` can end. What was pressed before it does not concern it.
    pub(crate) fn begin(&self, break_off: impl FnOnce() + Send + 'static) {
        *self.state() = State {
            is_pressed: false,
            break_off: Some(Box::new(break_off)),
        };
    }

    /// Ends a statement; tells whether it was broken off.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state();
        state.break_off = None;
        state.is_pressed
    }

    /// The error of a statement that was broken off.
    pub(crate) fn check(&self) -> Result<(), Cancelled> {
        if self.state().is_pressed {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Waits this long, or until Ctrl-C.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Cancelled> {
        let begun = Instant::now();
        let mut state = self.state();
        loop {
            if state.is_pressed {
                return Err(Cancelled);
            }
            let Some(left) = time.checked_sub(begun.elapsed()).filter(|it| !it.is_zero()) else {
                return Ok(());
            };
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs a statement so that Ctrl-C ends it between [`Self::begin`] and [`Self::end`].
    pub(crate) fn query(
        &self,
        source: &Source,
        database: &str,
        zone: Option<&str>,
        statement: &str,
    ) -> anyhow::Result<Answer<'static>> {
        let store = match source {
            // Its connection is closed, which ends what waits here and there.
            Source::Server(_) => return source.query_in(database, zone, statement),
            Source::Store(store) => store,
        };
        let runtime = Builder::new_current_thread().build()?;
        let mut rows = self.or_cancelled(&runtime, begin(store, database, zone, statement))??;
        let (schema, interrupt) = (rows.schema(), self.clone());
        let batches =
            std::iter::from_fn(
                move || match interrupt.or_cancelled(&runtime, rows.next()) {
                    Ok(next) => next.map(|batch| batch.map_err(positioned)),
                    Err(cancelled) => Some(Err(cancelled.into())),
                },
            );
        Ok(Answer::new(schema, batches))
    }

    fn or_cancelled<T>(
        &self,
        runtime: &Runtime,
        work: impl Future<Output = T>,
    ) -> Result<T, Cancelled> {
        runtime.block_on(async {
            tokio::select! {
                biased;
                cancelled = self.cancelled() => Err(cancelled),
                done = work => Ok(done),
            }
        })
    }

    async fn cancelled(&self) -> Cancelled {
        loop {
            if let Err(cancelled) = self.check() {
                return cancelled;
            }
            // Who presses before this waits leaves word, so that none is missed.
            self.0.pressed.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn begin(
    store: &Database,
    database: &str,
    zone: Option<&str>,
    statement: &str,
) -> anyhow::Result<RowStream> {
    let mut session = session(store, database, zone).map_err(positioned)?;
    let rows = session.sql_async(statement).await;
    rows.map_err(positioned)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn ctrl_c_ends_what_waits_and_only_the_statement_that_runs() {
        let interrupt = Interrupt::default();
        let broken = Arc::new(AtomicBool::new(false));
        let begin = || {
            let broken = Arc::clone(&broken);
            interrupt.begin(move || broken.store(true, Ordering::Relaxed));
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        begin();
        let presser = interrupt.clone();
        let thread = std::thread::spawn(move || presser.press());
        let waited = interrupt.or_cancelled(&runtime, pending::<()>());
        assert_eq!(waited, Err(Cancelled));
        assert_eq!(interrupt.sleep(Duration::from_hours(1)), Err(Cancelled));
        thread.join().unwrap();
        assert!(interrupt.end());
        interrupt.press();
        assert!(broken.load(Ordering::Relaxed));
        begin();
        assert_eq!(interrupt.or_cancelled(&runtime, async { 7 }), Ok(7));
        assert_eq!(interrupt.sleep(Duration::ZERO), Ok(()));
        assert!(!interrupt.end());
    }
}
