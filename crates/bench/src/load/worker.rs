//! One sending thread: takes a batch, sends it, waits for the answer, tells.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::target::Target;
use crate::http::{Connection, Reply, shown};
use crate::source::{Batch, Body};
use crate::{Error, Result};

/// How often one batch is sent again when the server asks for time.
const RETRIES_MAX: u32 = 10;
/// Longest pause before a batch is sent again, whatever the server asks for.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What the threads share.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) batches: Mutex<mpsc::Receiver<Batch>>,
    /// Somebody failed: take no more.
    pub(super) stop: AtomicBool,
    /// Whoever began the load asks for its end.
    pub(super) stop_asked: Arc<AtomicBool>,
    /// Take no batch after this time.
    pub(super) deadline: Option<Instant>,
}

impl Queue {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.stop_asked.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<Batch> {
        let is_late = || {
            self.deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
        };
        // A thread that panicked while it waited here left the receiver as it was.
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if is_late() {
            self.stop.store(true, Ordering::Relaxed);
        }
        // Stopped threads go on taking batches to throw them away: the reader may wait for a place in the queue.
        loop {
            let batch = batches.recv().ok()?;
            if !self.is_stopped() {
                return Some(batch);
            }
        }
    }
}

/// What a worker tells the calling thread.
#[derive(Debug)]
pub(super) enum Event {
    Stored {
        rows: u32,
        text_bytes: u64,
        latency: Duration,
    },
    Failed(Error),
}

/// What a worker did in its life.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) retries: u64,
    pub(super) connections: u64,
    pub(super) cpu: Duration,
    pub(super) first_sent: Option<Instant>,
    pub(super) last_stored: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Worker<'a> {
    queue: &'a Queue,
    connection: Connection,
    spares: mpsc::SyncSender<Vec<u8>>,
    events: mpsc::SyncSender<Event>,
    totals: Totals,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        target: &Target,
        queue: &'a Queue,
        spares: mpsc::SyncSender<Vec<u8>>,
        events: mpsc::SyncSender<Event>,
    ) -> Self {
        Self {
            queue,
            connection: target.connection(),
            spares,
            events,
            totals: Totals::default(),
        }
    }

    pub(super) fn run(mut self) -> Totals {
        while let Some(batch) = self.queue.next() {
            let event = match self.store(&batch) {
                Ok(event) => event,
                Err(e) => {
                    self.queue.stop.store(true, Ordering::Relaxed);
                    Event::Failed(e)
                }
            };
            // The receivers outlive the workers, except after a panic, which says enough.
            let _ = self.events.send(event);
            if let Body::InMemory(text) = batch.body {
                // More spare buffers than are read ahead would only take memory.
                let _ = self.spares.try_send(text);
            }
        }
        self.totals.connections = self.connection.opened;
        self.totals.cpu = thread_cpu();
        self.totals
    }

    /// Sends a batch until it is stored or refused for good.
    fn store(&mut self, batch: &Batch) -> Result<Event> {
        let mut retries_left = RETRIES_MAX;
        loop {
            let sent = Instant::now();
            self.totals.first_sent.get_or_insert(sent);
            let reply = self
                .connection
                .post(&batch.body)
                .map_err(|source| Error::Connection {
                    batch: batch.number,
                    source,
                })?;
            let stored = Instant::now();
            match reply {
                Reply {
                    status: 200 | 204, ..
                } => {
                    self.totals.last_stored = Some(stored);
                    let (rows, text_bytes) = (batch.rows, batch.body.bytes());
                    return Ok(Event::Stored {
                        rows,
                        text_bytes,
                        latency: stored - sent,
                    });
                }
                Reply {
                    status: 429 | 503,
                    retry_after: Some(pause),
                    ..
                } if retries_left > 0 && !self.queue.is_stopped() => {
                    retries_left -= 1;
                    self.totals.retries += 1;
                    thread::sleep(pause.min(PAUSE_MAX));
                }
                Reply { status, body, .. } => {
                    return Err(Error::Refused {
                        batch: batch.number,
                        status,
                        body: shown(&body),
                    });
                }
            }
        }
    }
}

/// Processor time of the calling thread so far.
pub(super) fn thread_cpu() -> Duration {
    // The thread's own clock, not the process's: the demo runs a server in the same process.
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
