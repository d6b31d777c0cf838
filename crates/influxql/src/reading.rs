//! SELECT as a statement of the service: what a series query is given, and what becomes of its series.
//!
//! Does: lend threads, memory and the way to be ended to a SELECT, hand its series to the answer or write them where INTO
//! says. Does not: plan (`select` does).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream;
use nilometer_engine::{Engine, Snapshot};
use nilometer_influxql_syntax::ast::Select;
use nilometer_influxql_syntax::format_clock;
use nilometer_series::{
    Context, Error as SeriesError, INLINE_ROWS, Limits, MemoryAccount, MemoryFull, Reads, Step,
    Threads, Watch,
};
use nilometer_service::{
    Class, Error as ServiceError, Executor, Laps, Outcome, QueryMemory, QueryOptions, Running,
    Session, SetStream, Stop, TimedReads, TimedStep, Timings, long,
};

use crate::into::{self, Target, Written};
use crate::select::{self, SelectContext, Sets};
use crate::statements::one_column;

/// Carries a SELECT out.
pub(crate) async fn run(
    engine: &Arc<Engine>,
    options: &QueryOptions,
    session: &Session,
    select: &Select,
    running: Running,
) -> Result<Outcome, ServiceError> {
    let snapshot = engine.snapshot();
    let (context, watched) = lent(options, &running);
    let asked = asked_of(engine, session, &snapshot, &context);
    let tags = into::tag_columns(select);
    // Tags of top() and bottom() are columns of an answer, and of what is written tags.
    let shown = (!tags.is_empty()).then(|| Select {
        target: None,
        ..select.clone()
    });
    let sets = match sets(shown.as_ref().unwrap_or(select), &asked, &watched) {
        Ok(sets) => sets,
        Err(error) => return Err(said(error, &running)),
    };
    let Some(target) = &select.target else {
        return answer(sets, running);
    };
    let target = Target::of(&snapshot, target, session, engine.wall_ns())?.with_tags(tags);
    let (engine, executor) = (Arc::clone(engine), Arc::clone(running.stop().executor()));
    // It goes on to its end even if nobody waits for it any more.
    let work = move || {
        let mut written = Written::into(&engine, &target)?;
        for set in sets {
            written.write(&set.map_err(|error| said(error, &running))?)?;
        }
        SetStream::of(running, vec![written.finish()?])
    };
    let done = executor.block(work).await;
    let sets = done.unwrap_or(Err(ServiceError::Panicked { what: "statement" }))?;
    Ok(Outcome::Sets(sets))
}

/// Says how a SELECT would be read.
pub(crate) fn explain(
    engine: &Arc<Engine>,
    options: &QueryOptions,
    session: &Session,
    select: &Select,
    running: Running,
) -> Result<Outcome, ServiceError> {
    let snapshot = engine.snapshot();
    let (context, _) = lent(options, &running);
    let asked = asked_of(engine, session, &snapshot, &context);
    match select::explain(select, &asked) {
        Ok(lines) => {
            let plan = one_column("QUERY PLAN", lines);
            Ok(Outcome::Sets(SetStream::of(running, vec![plan])?))
        }
        Err(error) => Err(said(error, &running)),
    }
}

/// Carries a SELECT out without its INTO and without its answer, and says how long that took.
pub(crate) fn analyze(
    engine: &Arc<Engine>,
    options: &QueryOptions,
    session: &Session,
    select: &Select,
    running: Running,
) -> Result<Outcome, ServiceError> {
    // Its own, whether or not its client is told of them.
    let timings = Timings::start(running.stop().executor());
    let running = running.timed(Some(&timings));
    let snapshot = engine.snapshot();
    let (context, watched) = lent(options, &running);
    let asked = asked_of(engine, session, &snapshot, &context);
    let begun = Instant::now();
    let plan = select::explain(select, &asked).map_err(|error| said(error, &running))?;
    let planned = begun.elapsed();
    let read = || {
        let (mut series, mut rows, mut last) = (0_u64, 0_usize, None);
        for set in sets(select, &asked, &watched)? {
            let set = set?;
            rows += set.rows.len();
            if last.as_ref() != Some(&set.head) {
                series += 1;
                last = Some(set.head);
            }
        }
        Ok((series, rows))
    };
    let (series, rows) = long(read).map_err(|error| said(error, &running))?;
    let executed = begun.elapsed();
    let shown = |time: Duration| format_clock(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
    let branch = "\u{251c}\u{2500}\u{2500} ";
    let end = "\u{2514}\u{2500}\u{2500} ";
    let mut lines = vec![
        ".".to_owned(),
        format!("{end}select"),
        format!(
            "    {branch}execution_time: {}",
            shown(executed.saturating_sub(planned))
        ),
        format!("    {branch}planning_time: {}", shown(planned)),
        format!("    {branch}total_time: {}", shown(executed)),
    ];
    for step in [TimedStep::Prune, TimedStep::Decode, TimedStep::Operate] {
        let time = shown(timings.spent(step));
        lines.push(format!("    {branch}{}_time: {time}", step.name()));
    }
    let reads = timings.reads().unwrap_or_default();
    lines.extend([
        format!("    {branch}rows_read: {}", reads.rows),
        format!("    {branch}rows_skipped: {}", reads.rows_skipped),
        format!("    {branch}blocks_read: {}", reads.blocks),
        format!("    {branch}blocks_skipped: {}", reads.blocks_skipped),
        format!("    {branch}series: {series}"),
        format!("    {branch}rows: {rows}"),
        format!("    {end}plan"),
    ]);
    lines.extend(plan.into_iter().map(|line| format!("        {line}")));
    let answer = one_column("EXPLAIN ANALYZE", lines);
    Ok(Outcome::Sets(SetStream::of(running, vec![answer])?))
}

/// What a SELECT is about, by its session and the clock.
fn asked_of<'a>(
    engine: &Engine,
    session: &'a Session,
    snapshot: &'a Snapshot,
    context: &'a Context,
) -> SelectContext<'a> {
    SelectContext {
        snapshot,
        database: &session.database,
        policy: session.schema.as_deref(),
        now_ns: engine.wall_ns(),
        context,
    }
}

/// What a series query is given.
fn lent(options: &QueryOptions, running: &Running) -> (Context, Arc<Watched>) {
    let watched = Arc::new(Watched {
        stop: running.stop().clone(),
        is_long: AtomicBool::new(false),
        is_wide: AtomicBool::new(false),
        planning: Mutex::new(running.timings().map(Laps::of)),
        timings: running.timings().cloned(),
    });
    let context = Context {
        threads: threads(options, running.stop().executor()),
        memory: Arc::new(Memory(Arc::clone(running.memory()))),
        cancel: Arc::default(),
        limits: Limits {
            buckets: options.gapfill_buckets_max as u64,
        },
        watch: Arc::<Watched>::clone(&watched),
    };
    (context, watched)
}

/// Works a SELECT out. One that turns out to read much begins anew, with the thread to itself.
fn sets(
    select: &Select,
    asked: &SelectContext<'_>,
    watched: &Watched,
) -> Result<Sets, select::Error> {
    match select::run(select, asked) {
        Err(select::Error::Series(SeriesError::Declined { .. })) => {
            watched.is_long.store(true, Ordering::Relaxed);
            long(|| select::run(select, asked))
        }
        sets => {
            // What is read later is read a batch at a time.
            watched.is_long.store(true, Ordering::Relaxed);
            sets
        }
    }
}

/// Hands series over as they are asked for.
fn answer(mut sets: Sets, running: Running) -> Result<Outcome, ServiceError> {
    let ended = running.stop().clone();
    let sets = std::iter::from_fn(move || {
        let set = sets.next()?;
        Some(set.map_err(|error| match error {
            // The list of statements knows who ended it.
            select::Error::Series(SeriesError::Cancelled) if ended.is_due() => {
                ServiceError::Cancelled
            }
            other => in_words(other),
        }))
    });
    Ok(Outcome::Sets(SetStream::running(
        running,
        stream::iter(sets),
    )?))
}

fn said(error: select::Error, running: &Running) -> ServiceError {
    match (&error, running.ended()) {
        (select::Error::Series(SeriesError::Cancelled), Some(ended)) => ended.into(),
        _ => in_words(error),
    }
}

fn in_words(error: select::Error) -> ServiceError {
    let (class, setting) = match &error {
        select::Error::UnknownDatabase { .. } | select::Error::UnknownPolicy { .. } => {
            (Class::NotFound, None)
        }
        select::Error::TooManyBuckets { .. }
        | select::Error::Series(SeriesError::TooManyBuckets { .. }) => {
            (Class::TooLarge, Some("gapfill-buckets-max"))
        }
        select::Error::Series(SeriesError::Memory(_)) => {
            (Class::TooLarge, Some("query-memory-bytes-max"))
        }
        _ => (Class::BadRequest, None),
    };
    match error {
        select::Error::Series(SeriesError::Engine(error)) => ServiceError::Engine(error),
        other => ServiceError::Statement {
            class,
            fault: None,
            setting,
            position: None,
            source: Box::new(other),
        },
    }
}

/// The memory of a statement, for its series query.
#[derive(Debug)]
struct Memory(Arc<QueryMemory>);

impl MemoryAccount for Memory {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.0.try_take(bytes).map_err(|over| MemoryFull {
            problem: over.to_string(),
        })
    }

    fn release(&self, bytes: usize) {
        self.0.give_back(bytes);
    }
}

/// Threads that work for one call and end with it: a series query lends them what is not theirs to keep.
#[derive(Debug)]
struct Scoped {
    count: usize,
    executor: Arc<dyn Executor>,
}

fn threads(options: &QueryOptions, executor: &Arc<dyn Executor>) -> Arc<dyn Threads> {
    Arc::new(Scoped {
        count: executor.threads(options.threads),
        executor: Arc::clone(executor),
    })
}

impl Threads for Scoped {
    fn count(&self) -> usize {
        self.count
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = self.count.min(tasks);
        if threads <= 1 {
            return (0..tasks).for_each(work);
        }
        let next = AtomicUsize::new(0);
        let drain = || {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return;
                }
                work(task);
            }
        };
        // Thousands of rows are read: whatever else this thread had to do, another one does.
        long(|| self.executor.run_together(threads, &|_| drain()));
    }
}

/// Ends a series query with its statement, and declines much reading on a thread that others wait for.
#[derive(Debug)]
struct Watched {
    stop: Stop,
    is_long: AtomicBool,
    /// Many rows are read a batch at a time, as the answer leaves.
    is_wide: AtomicBool,
    /// From the start of the SELECT; `None` = nobody wants to know, or it is over: a series query has begun.
    planning: Mutex<Option<Laps>>,
    timings: Option<Arc<Timings>>,
}

impl Watch for Watched {
    fn has_to_end(&self) -> bool {
        self.stop.is_due()
    }

    fn may_read(&self, rows: u64) -> bool {
        if rows < INLINE_ROWS {
            return true;
        }
        let is_long = self.is_long.load(Ordering::Relaxed);
        self.is_wide.fetch_or(is_long, Ordering::Relaxed);
        is_long
    }

    /// A disk that hangs holds up this statement, and not those that wait for its thread.
    fn reads(&self, work: &mut dyn FnMut()) {
        if self.is_wide.load(Ordering::Relaxed) {
            long(work);
        } else {
            work();
        }
    }

    fn has_begun(&self) {
        let planning = self.planning.lock();
        let planning = planning.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut planning) = planning {
            planning.end(TimedStep::Plan);
        }
    }

    fn now(&self) -> Option<Duration> {
        self.timings.as_ref().map(|timings| timings.now())
    }

    fn has_spent(&self, step: Step, time: Duration) {
        if let Some(timings) = &self.timings {
            timings.add(timed_step(step), time);
        }
    }

    fn has_read(&self, reads: &Reads) {
        if let Some(timings) = &self.timings {
            timings.add_reads(&TimedReads {
                rows: reads.rows,
                rows_skipped: reads.rows_skipped,
                blocks: reads.blocks,
                blocks_skipped: reads.blocks_skipped,
            });
        }
    }
}

fn timed_step(step: Step) -> TimedStep {
    match step {
        Step::Prune => TimedStep::Prune,
        Step::Decode => TimedStep::Decode,
        Step::Operate => TimedStep::Operate,
    }
}
