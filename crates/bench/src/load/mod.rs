//! The loader: sends the batches of a file to a database and times it.
//!
//! Does: N threads, each with a connection of its own, take batches in file order from a queue that one more thread
//! keeps filled. Does not: change, compress or look into the text.
//!
//! The clock starts when the first request is sent, after the database was reached, and stops when every batch is
//! acknowledged. Then the rows are counted with a query, as a time of its own: rows that were acknowledged but cannot be
//! read do not count as loaded, and the load fails.
//!
//! Next: `worker` for one thread's life, `report` for what comes out.

mod report;
mod store;
mod target;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use report::grouped;
pub use report::{LatencyMs, LoadReport, Visible};
pub use store::{StoreChange, StoreFigures};

use crate::source::{Batch, Source};
use crate::{Error, Result};
use target::Target;
use worker::{Event, Queue, Totals, Worker};

/// Unit of the timestamps in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Nanoseconds, which is what this crate generates.
    #[default]
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Precision {
    /// As it stands in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }
}

/// What to load, where, and how.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Where the database listens, as in `http://127.0.0.1:8086`.
    pub url: String,
    /// Name of the database to write to.
    pub database: String,
    /// A batch file or plain line protocol.
    pub file: PathBuf,
    /// Threads that send; each waits for the answer to a batch before it sends its next.
    pub workers: u32,
    /// Rows of a batch, for plain line protocol. A batch file has its own.
    pub batch_rows: u32,
    /// Unit of the timestamps in the text.
    pub precision: Precision,
    /// Stop after the batch that reaches this many rows.
    pub rows_max: Option<u64>,
    /// Send no new batch after this time.
    pub time_max: Option<Duration>,
    /// The tables whose rows are counted, for plain line protocol. A batch file names its own.
    pub tables: Vec<String>,
    /// How long to wait for a database that does not answer yet.
    pub reach_wait: Duration,
    /// How long acknowledged rows may stay out of sight. Nilometer's are there at once; other databases take their time,
    /// which is then part of the report.
    pub visible_wait: Duration,
    /// How long to wait at most after the load until the store has settled; zero = not at all.
    pub settle_wait: Duration,
    /// A store has settled when nothing of it has changed for this long. The default is more than the time without
    /// writes after which a server compacts what is left (`settle-ms`).
    pub settle_quiet: Duration,
}

impl LoadOptions {
    /// Two workers, batches of 10,000 rows, nanoseconds, table `cpu`, no limits, no wait for the store to settle.
    pub fn new(
        url: impl Into<String>,
        database: impl Into<String>,
        file: impl Into<PathBuf>,
    ) -> Self {
        Self {
            url: url.into(),
            database: database.into(),
            file: file.into(),
            workers: 2,
            batch_rows: 10_000,
            precision: Precision::Nanoseconds,
            rows_max: None,
            time_max: None,
            tables: vec!["cpu".to_owned()],
            reach_wait: Duration::from_secs(10),
            visible_wait: Duration::from_mins(1),
            settle_wait: Duration::ZERO,
            settle_quiet: Duration::from_secs(15),
        }
    }
}

/// Loads a file. `progress` hears, on the calling thread, how many rows are acknowledged.
pub fn load(options: &LoadOptions, mut progress: impl FnMut(u64)) -> Result<LoadReport> {
    if options.workers == 0 {
        return Err(Error::Spec {
            what: "0 workers send nothing; give 1 or more".to_owned(),
        });
    }
    let source = Source::open(&options.file, options.batch_rows)?;
    let header = source.header().cloned();
    let tables: Vec<String> = match &header {
        Some(header) => header
            .workload
            .tables()
            .iter()
            .map(|table| (*table).to_owned())
            .collect(),
        None => options.tables.clone(),
    };
    let target = Target::reach(options, tables)?;
    let rows_before = target.count_rows()?.unwrap_or(0);
    let durability = target.durability();
    let store_before = StoreFigures::of(&target);
    let run = send_all(options, source, &target, &mut progress)?;
    let visible = target.await_rows(rows_before, run.rows)?;
    let mut report = LoadReport::new(options, header.as_ref(), durability, &run, visible);
    report.store = store_before
        .and_then(|before| StoreChange::follow(before, &target, options, report.values));
    Ok(report)
}

/// What all workers did together.
#[derive(Debug, Default)]
struct Run {
    rows: u64,
    text_bytes: u64,
    latencies: Vec<Duration>,
    retries: u64,
    connections: u64,
    cpu: Duration,
    /// First request sent to last batch acknowledged.
    elapsed: Duration,
}

fn send_all(
    options: &LoadOptions,
    source: Source,
    target: &Target,
    progress: &mut impl FnMut(u64),
) -> Result<Run> {
    // Two batches a worker are read ahead: one to take at once, one in the making.
    let ahead = options.workers as usize * 2;
    let (batch_sender, batches) = mpsc::sync_channel(ahead);
    let (spare_sender, spares) = mpsc::sync_channel(ahead);
    let (event_sender, events) = mpsc::sync_channel(ahead);
    let queue = Queue {
        batches: Mutex::new(batches),
        stop: AtomicBool::new(false),
        deadline: options
            .time_max
            .and_then(|limit| Instant::now().checked_add(limit)),
    };
    let read_ahead = ReadAhead {
        source,
        rows_max: options.rows_max,
        batches: batch_sender,
        spares,
    };
    let mut run = Run::default();
    let mut failure = None;
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_ahead.run(&queue.stop));
        let workers: Vec<_> = (0..options.workers)
            .map(|_| {
                let worker =
                    Worker::new(target, &queue, spare_sender.clone(), event_sender.clone());
                scope.spawn(move || worker.run())
            })
            .collect();
        // Only the workers hold senders now, so the loop ends when the last of them does.
        drop((spare_sender, event_sender));
        for event in events {
            match event {
                Event::Stored {
                    rows,
                    text_bytes,
                    latency,
                } => {
                    run.rows += u64::from(rows);
                    run.text_bytes += text_bytes;
                    run.latencies.push(latency);
                    progress(run.rows);
                }
                // The first failure is the cause; those that follow are its consequences.
                Event::Failed(e) => failure = failure.take().or(Some(e)),
            }
        }
        let totals: Vec<Totals> = workers
            .into_iter()
            .map(|worker| worker.join().expect("workers send their errors"))
            .collect();
        run.gather(&totals);
        let (read, cpu) = reader.join().expect("the reader returns its errors");
        run.cpu += cpu;
        failure = failure.take().or(read.err());
    });
    failure.map_or(Ok(run), Err)
}

impl Run {
    fn gather(&mut self, totals: &[Totals]) {
        for one in totals {
            self.retries += one.retries;
            self.connections += one.connections;
            self.cpu += one.cpu;
        }
        let first = totals.iter().filter_map(|one| one.first_sent).min();
        let last = totals.iter().filter_map(|one| one.last_stored).max();
        self.elapsed = first
            .zip(last)
            .map_or(Duration::ZERO, |(first, last)| last - first);
    }
}

/// The thread that reads the file.
struct ReadAhead {
    source: Source,
    rows_max: Option<u64>,
    batches: mpsc::SyncSender<Batch>,
    /// Buffers of batches that were sent.
    spares: mpsc::Receiver<Vec<u8>>,
}

impl ReadAhead {
    /// Keeps the queue filled until the file, the rows asked for, or the workers' interest end. The queue is closed by
    /// taking `self`: that is how the workers learn that nothing follows.
    fn run(mut self, stop: &AtomicBool) -> (Result<()>, Duration) {
        let result = self.fill(stop);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        (result, worker::thread_cpu())
    }

    fn fill(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut rows_left = self.rows_max.unwrap_or(u64::MAX);
        while rows_left > 0 && !stop.load(Ordering::Relaxed) {
            let Some(batch) = self.source.next_batch(self.spares.try_recv().ok())? else {
                break;
            };
            rows_left = rows_left.saturating_sub(u64::from(batch.rows));
            if self.batches.send(batch).is_err() {
                break;
            }
        }
        Ok(())
    }
}
