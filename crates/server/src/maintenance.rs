//! The thread that gives the engine its maintenance. The engine starts none of its own.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nilometer_engine::{Engine, Maintained};

use crate::error::Error;

/// Pause after a failed attempt: a full disk or a poisoned store does not get better by asking faster.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Maintenance {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Maintenance {
    pub(crate) fn start(engine: Arc<Engine>, tick: Duration) -> Result<Self, Error> {
        let (stop, stopped) = mpsc::sync_channel(1);
        let work = move || {
            let mut pause = Duration::ZERO;
            // A pause is a wait for the order to stop, which also comes when the sender is gone.
            while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                pause = match engine.maintain() {
                    Ok(Maintained::Idle) => tick,
                    Ok(done) => {
                        tracing::debug!(?done, "maintenance");
                        Duration::ZERO
                    }
                    Err(error) => {
                        tracing::warn!(%error, "maintenance failed");
                        PAUSE_AFTER_ERROR
                    }
                };
            }
        };
        let thread = Builder::new()
            .name("maintenance".to_owned())
            .spawn(work)
            .map_err(|source| Error::Threads {
                what: "maintenance",
                source,
            })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread after the job it is at. Blocks.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the maintenance thread had panicked");
        }
    }
}
