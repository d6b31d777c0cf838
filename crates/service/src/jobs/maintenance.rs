//! Maintenance threads for the engine, which starts none of its own.
//!
//! There are two. One only flushes, so that a full head never waits for the end of a compaction, however long that
//! takes. The other does whatever is due, compaction above all; one at a time is enough, because a compaction writes
//! faster than clients do.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nilometer_engine::{Engine, Error as EngineError, Maintained};

use crate::error::Error;
use crate::jobs::heap_trim::HeapTrim;

/// Pause after a failed attempt: a full disk or a poisoned store does not get better by asking faster.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// Does one job if one of its kind is due.
type Work = fn(&Engine) -> Result<Maintained, EngineError>;

/// The threads by name. The prompt one, whose work is never long, also looks after the allocator.
const THREADS: [(&str, Work, bool); 2] = [
    ("flush", Engine::flush_if_due, true),
    ("maintenance", Engine::maintain, false),
];

/// Names what the scrub has found since the store was opened.
fn warn_of_damage(engine: &Engine) {
    for damage in engine.scrubbed().damage {
        tracing::warn!(
            file = %damage.path.display(),
            offset = damage.offset,
            reason = damage.reason,
            "the scrub found damage; make a backup, then see `nilometer check --repair`"
        );
    }
}

/// The running threads.
#[derive(Debug)]
pub struct Maintenance {
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    stop: SyncSender<()>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Maintenance {
    /// Starts them; each asks the engine so often whether there is work.
    pub fn start(engine: &Arc<Engine>, tick: Duration) -> Result<Self, Error> {
        let workers = THREADS
            .into_iter()
            .map(|(name, work, is_prompt)| {
                Worker::start(Arc::clone(engine), tick, name, work, is_prompt)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { workers })
    }

    /// Ends each thread after the job it is at. Blocks, at most so long; a compaction that takes longer is left to end
    /// with the process, which loses nothing but its work.
    pub fn stop(self, time_max: Duration) {
        let deadline = Instant::now() + time_max;
        let mut running = Vec::new();
        for worker in self.workers {
            drop(worker.stop);
            running.push((worker.ended, worker.thread));
        }
        for (ended, thread) in running {
            let left = deadline.saturating_duration_since(Instant::now());
            if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(
                    "maintenance did not end in time and is cut off; it begins anew after the next start (setting shutdown-ms-max)"
                );
            } else if thread.join().is_err() {
                tracing::error!("a maintenance thread had panicked");
            }
        }
    }
}

impl Worker {
    fn start(
        engine: Arc<Engine>,
        tick: Duration,
        name: &'static str,
        work: Work,
        is_prompt: bool,
    ) -> Result<Self, Error> {
        let (stop, stopped) = mpsc::sync_channel(1);
        let (ending, ended) = mpsc::sync_channel(1);
        let run = move || {
            let _ending: SyncSender<()> = ending;
            let mut pause = Duration::ZERO;
            let mut heap_trim = HeapTrim::new(engine.budget().total());
            // A pause is a wait for the order to stop, which also comes when the sender is gone.
            while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                pause = match work(&engine) {
                    Ok(Maintained::Idle) => tick,
                    Ok(done) => {
                        if let Maintained::Scrubbed { damage: 1.., .. } = done {
                            warn_of_damage(&engine);
                        }
                        tracing::debug!(?done, "{name}");
                        Duration::ZERO
                    }
                    Err(error) => {
                        tracing::warn!(%error, "{name} failed");
                        PAUSE_AFTER_ERROR
                    }
                };
                if is_prompt {
                    heap_trim.turn(Instant::now());
                }
            }
        };
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(|source| Error::Threads {
                what: "maintenance",
                source,
            })?;
        Ok(Self {
            stop,
            ended,
            thread,
        })
    }
}
