//! Context that a statement gives to a series query: threads, memory, a look at whether it has to end.
//!
//! Does: lend threads for as long as the query reads with several; charge the statement's memory; count what was read. Does
//! not: keep a thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use nilometer_engine::{AggregateSources, Scan};
use nilometer_series::{
    Context, MemoryAccount, MemoryFull, Reads, Step, Threads, Unlimited, Watch,
};
use nilometer_service::{
    Executor, OverMemory, QueryMemory, Stop, Threads as OwnThreads, TimedReads, TimedStep, Timings,
};

use crate::limits::scope::{self, Scope};
use crate::planning::recognised::limits;

/// The limit that a query's memory has met.
pub(super) type Over = Arc<Mutex<Option<OverMemory>>>;

/// What a query is run with, and where it says which limit it has met.
pub(super) fn context(
    threads: usize,
    scope: Option<&Scope>,
    observed: Arc<Observed>,
) -> (Context, Over) {
    let over = Over::default();
    let memory: Arc<dyn MemoryAccount> = match scope {
        Some(scope) => Arc::new(Account {
            memory: Arc::clone(&scope.memory),
            over: Arc::clone(&over),
        }),
        None => Arc::new(Unlimited::default()),
    };
    let executor = scope.map_or_else(OwnThreads::of_caller, |scope| {
        Arc::clone(scope.stop.executor())
    });
    let context = Context {
        threads: Arc::new(Lent {
            count: executor.threads(threads),
            executor,
            scope: scope.cloned(),
        }),
        memory,
        limits: limits(),
        watch: Arc::new(Watched {
            stop: scope.map(|scope| scope.stop.clone()),
            timings: scope.and_then(|scope| scope.timings.clone()),
            observed,
        }),
        ..Context::default()
    };
    (context, over)
}

/// Threads that are there while several read.
#[derive(Debug)]
struct Lent {
    count: usize,
    executor: Arc<dyn Executor>,
    scope: Option<Scope>,
}

impl Threads for Lent {
    fn count(&self) -> usize {
        self.count
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        // What the store keeps of what it reads is not the statement's, on whichever thread.
        let in_scope = |task: usize| match &self.scope {
            Some(scope) => scope.run(|| scope::aside(|| work(task))),
            None => work(task),
        };
        // Thousands of rows are read: whatever else this thread had to do, another one does.
        nilometer_service::long(|| {
            self.executor.run_together(tasks, &|task| match task {
                0 => work(0),
                task => in_scope(task),
            });
        });
    }
}

/// The statement's memory.
#[derive(Debug)]
struct Account {
    memory: Arc<QueryMemory>,
    over: Over,
}

impl MemoryAccount for Account {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.memory.try_take(bytes).map_err(|over| {
            let mut known = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some(over);
            MemoryFull {
                problem: over.to_string(),
            }
        })
    }

    fn release(&self, bytes: usize) {
        self.memory.give_back(bytes);
    }
}

/// Ends the query with its statement, and keeps what it says of its reading.
#[derive(Debug)]
struct Watched {
    stop: Option<Stop>,
    /// Where the statement's times are added up; `None` = nobody shows them.
    timings: Option<Arc<Timings>>,
    observed: Arc<Observed>,
}

impl Watch for Watched {
    fn has_to_end(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_due)
    }

    fn has_planned(&self, scan: &Scan) {
        self.observed.lock().scans.push(scan.clone());
    }

    fn has_aggregated(&self, used: &AggregateSources) {
        self.observed
            .lock()
            .aggregated
            .get_or_insert_default()
            .add(used);
    }

    fn now(&self) -> Option<Duration> {
        self.timings.as_ref().map(|timings| timings.now())
    }

    fn has_spent(&self, step: Step, time: Duration) {
        if let Some(timings) = &self.timings {
            timings.add(timed_step(step), time);
            let mut observed = self.observed.lock();
            match observed.times.iter_mut().find(|(known, _)| *known == step) {
                Some((_, known)) => *known += time,
                None => observed.times.push((step, time)),
            }
        }
    }

    fn has_read(&self, reads: &Reads) {
        let reads = TimedReads {
            rows: reads.rows,
            rows_skipped: reads.rows_skipped,
            blocks: reads.blocks,
            blocks_skipped: reads.blocks_skipped,
        };
        if let Some(timings) = &self.timings {
            timings.add_reads(&reads);
        }
        self.observed.lock().reads.add(&reads);
    }
}

fn timed_step(step: Step) -> TimedStep {
    match step {
        Step::Prune => TimedStep::Prune,
        Step::Decode => TimedStep::Decode,
        Step::Operate => TimedStep::Operate,
    }
}

/// What was read, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
pub(super) struct Observed(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    scans: Vec<Scan>,
    aggregated: Option<AggregateSources>,
    reads: TimedReads,
    times: Vec<(Step, Duration)>,
}

impl Observed {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_to(&self, metrics: &mut MetricsSet) {
        let mut add = |name: &'static str, number: u64| {
            let count = Count::new();
            count.add(usize::try_from(number).unwrap_or(usize::MAX));
            let value = MetricValue::Count {
                name: name.into(),
                count,
            };
            metrics.push(Arc::new(Metric::new(value, None)));
        };
        let seen = self.lock();
        add("rows_read", seen.reads.rows);
        add("rows_skipped", seen.reads.rows_skipped);
        if let Some(used) = &seen.aggregated {
            add("rollups_used", used.rollups);
            add("block_statistics_used", used.statistics);
            add("blocks_decoded", used.blocks);
            add("rows_decoded", used.rows);
        }
        for scan in &seen.scans {
            let report = scan.report();
            add("partitions", report.partitions);
            add("partitions_skipped", report.partitions_skipped);
            add("segments", report.segments);
            add("segments_skipped", report.segments_skipped);
            add("blocks_read", report.blocks_read);
            add("blocks_skipped", report.blocks_skipped);
            add("pages_read", report.pages_read);
            add("pages_skipped", report.pages_skipped);
            add("bytes_read", report.bytes_read);
            add("blocks_ruled_out", report.blocks_ruled_out);
            add("blocks_without_hit", report.blocks_without_hit);
            add("ends_from_statistics", report.ends_from_statistics);
            add("memory_rows", report.memory_rows);
        }
        for (step, spent) in &seen.times {
            let time = Time::new();
            time.add_duration(*spent);
            let name = match step {
                Step::Prune => "time_prune",
                Step::Decode => "time_decode",
                Step::Operate => "time_operate",
            };
            let value = MetricValue::Time {
                name: name.into(),
                time,
            };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
    }
}
