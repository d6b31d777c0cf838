//! The loader: sends the batches of a file to a database and times it.
//!
//! Does: N threads, each with a connection of its own, take batches in file order from a queue that one more thread
//! keeps filled. Does not: change, compress or look into the text.
//!
//! The clock starts when the first request is sent, after the database was reached, and stops when every batch is
//! acknowledged. Then the rows are counted with a query, as a time of its own: rows that were acknowledged but cannot be
//! read do not count as loaded, and the load fails.
//!
//! A load can be paced, so that rows arrive at a known rate while something else is measured, and ended from outside.
//!
//! Next: `worker` for one thread's life, `report` for what comes out.

mod report;
mod store;
mod target;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use report::grouped;
pub use report::{LatencyMs, LoadReport, Visible};
pub use store::{StoreChange, StoreFigures};

use crate::batch_file::Header;
use crate::source::{Batch, Source};
use crate::{Error, Result};
use target::Target;
use worker::{Event, Queue, Totals, Worker};

/// Longest sleep of a paced load before it looks whether it was stopped.
const STOP_POLL: Duration = Duration::from_millis(20);

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
    /// Send no faster than this; none = as fast as the database takes it.
    pub rows_per_second: Option<f64>,
    /// Somebody else sets this to end the load after the batches under way.
    pub stop: Arc<AtomicBool>,
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
            rows_per_second: None,
            stop: Arc::new(AtomicBool::new(false)),
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
    if options
        .rows_per_second
        .is_some_and(|rate| !(rate > 0.0 && rate.is_finite()))
    {
        return Err(Error::Spec {
            what: "a rate is a number of rows a second above 0".to_owned(),
        });
    }
    let target = Target::reach(options, tables)?;
    let rows_before = target.count_rows()?.unwrap_or(0);
    let durability = target.durability();
    let store_before = StoreFigures::of(&target);
    let run = send_all(options, source, &target, &mut progress)?;
    let expected = Expected::new(rows_before, run.rows, header.as_ref());
    let visible = target.await_rows(&expected)?;
    let mut report = LoadReport::new(options, header.as_ref(), durability, &run, visible);
    report.store = store_before
        .and_then(|before| StoreChange::follow(before, &target, options, report.values));
    Ok(report)
}

/// How many rows a query has to count after the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    before: u64,
    acknowledged: u64,
    min: u64,
    max: u64,
}

impl Expected {
    fn new(before: u64, acknowledged: u64, header: Option<&Header>) -> Self {
        let replaced = header.map_or(0, |header| header.replaced);
        let is_whole = header.is_some_and(|header| header.rows == acknowledged);
        let (min, max) = if before > 0 {
            // Points may have replaced points that were there, and somebody else may write too.
            (before.max(acknowledged.saturating_sub(replaced)), u64::MAX)
        } else if is_whole {
            let rows = acknowledged.saturating_sub(replaced);
            (rows, rows)
        } else {
            // Of a part, nobody knows how many of its lines replace another.
            (acknowledged.saturating_sub(replaced), acknowledged)
        };
        Self {
            before,
            acknowledged,
            min,
            max,
        }
    }
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
        stop_asked: Arc::clone(&options.stop),
        deadline: options
            .time_max
            .and_then(|limit| Instant::now().checked_add(limit)),
    };
    let read_ahead = ReadAhead {
        source,
        rows_max: options.rows_max,
        rows_per_second: options.rows_per_second,
        batches: batch_sender,
        spares,
    };
    let mut run = Run::default();
    let mut failure = None;
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_ahead.run(&queue));
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
    rows_per_second: Option<f64>,
    batches: mpsc::SyncSender<Batch>,
    /// Buffers of batches that were sent.
    spares: mpsc::Receiver<Vec<u8>>,
}

impl ReadAhead {
    /// Keeps the queue filled until the file, the rows asked for, or the workers' interest end. The queue is closed by
    /// taking `self`: that is how the workers learn that nothing follows.
    fn run(mut self, queue: &Queue) -> (Result<()>, Duration) {
        let result = self.fill(queue);
        if result.is_err() {
            queue.stop.store(true, Ordering::Relaxed);
        }
        (result, worker::thread_cpu())
    }

    fn fill(&mut self, queue: &Queue) -> Result<()> {
        let mut rows_left = self.rows_max.unwrap_or(u64::MAX);
        let (begin, mut rows_sent) = (Instant::now(), 0_u64);
        while rows_left > 0 && !queue.is_stopped() {
            let Some(batch) = self.source.next_batch(self.spares.try_recv().ok())? else {
                break;
            };
            rows_left = rows_left.saturating_sub(u64::from(batch.rows));
            if let Some(rate) = self.rows_per_second {
                await_turn(queue, begin, rows_sent as f64 / rate);
            }
            rows_sent += u64::from(batch.rows);
            if self.batches.send(batch).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Waits until so many seconds after the beginning, or until the load is stopped.
fn await_turn(queue: &Queue, begin: Instant, seconds: f64) {
    let turn = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    while !queue.is_stopped() {
        let Some(rest) = turn
            .checked_sub(begin.elapsed())
            .filter(|rest| !rest.is_zero())
        else {
            return;
        };
        thread::sleep(rest.min(STOP_POLL));
    }
}

#[cfg(test)]
mod tests {
    use super::Expected;
    use crate::batch_file::Header;
    use crate::workload::{Spec, Workload};

    fn bounds(before: u64, acknowledged: u64, header: Option<&Header>) -> (u64, u64) {
        let expected = Expected::new(before, acknowledged, header);
        (expected.min, expected.max)
    }

    #[test]
    fn rows_that_replace_others_are_not_expected_twice() {
        let spec = Spec {
            workload: Workload::Iot,
            hosts: 2,
            start_ns: 0,
            end_ns: 100,
            interval_ns: 10,
            seed: 1,
        };
        let header = Header {
            rows: 30,
            replaced: 4,
            ..Header::of(&spec, 10).unwrap()
        };
        assert_eq!(
            bounds(0, 30, None),
            (30, 30),
            "plain text replaces nothing that we know of"
        );
        assert_eq!(bounds(0, 30, Some(&header)), (26, 26), "the whole file");
        assert_eq!(bounds(0, 20, Some(&header)), (16, 20), "a part of it");
        assert_eq!(bounds(0, 0, Some(&header)), (0, 0), "nothing of it");
        assert_eq!(
            bounds(50, 30, Some(&header)),
            (50, u64::MAX),
            "beside other rows"
        );
        assert_eq!(bounds(26, 30, Some(&header)), (26, u64::MAX), "once more");
    }
}
