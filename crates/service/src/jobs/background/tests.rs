use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Clock, Options};

use super::*;
use crate::executor::Threads;

/// No job.
const NOTHING: [i64; 0] = [];
const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;

/// A clock that is set.
#[derive(Debug, Default)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

struct Store {
    disk: Arc<MemoryDisk>,
    clock: Arc<Hand>,
}

impl Store {
    fn new() -> Self {
        let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::default());
        Self { disk, clock }
    }

    fn open(&self) -> Arc<BackgroundJobs> {
        let engine = Engine::open(
            Arc::clone(&self.disk) as _,
            Arc::clone(&self.clock) as _,
            Path::new("/data"),
            Options::default(),
        );
        let engine = Arc::new(engine.unwrap());
        engine.create_database("d").unwrap();
        BackgroundJobs::new(engine, Threads::of_caller())
    }

    fn set(&self, now_ns: i64) {
        self.clock.0.store(now_ns, Ordering::Relaxed);
    }
}

fn hourly(kind: &str) -> NewJob {
    NewJob {
        kind: kind.to_owned(),
        database: "d".to_owned(),
        target: 7,
        config: "{}".to_owned(),
        schedule: JobSchedule::every(Span::of_ns(HOUR)),
        owner: "me".to_owned(),
    }
}

/// A kind that counts its runs, and fails when told to.
fn counting(jobs: &BackgroundJobs, fails: bool) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    jobs.register(
        "count",
        Arc::new(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            let reason = "told to".to_owned();
            let id = context.job.id;
            Box::pin(async move {
                if fails {
                    Err(JobError::Failed { id, reason }.into())
                } else {
                    Ok(JobEnd::Done)
                }
            })
        }),
    );
    count
}

async fn run(jobs: &Arc<BackgroundJobs>, id: i64) -> Result<(), Error> {
    jobs.run(id, CancellationToken::new()).await
}

#[tokio::test]
async fn a_job_is_due_at_once_and_then_by_its_schedule_also_after_a_restart() {
    let store = Store::new();
    store.set(HOUR);
    let jobs = store.open();
    let count = counting(&jobs, false);
    let id = jobs.add(&hourly("count")).unwrap();
    let unknown = jobs.add(&hourly("of a later version")).unwrap();
    assert_eq!((id, unknown), (1000, 1001));
    assert_eq!(jobs.due(HOUR), [id], "nobody knows what the other does");
    store.set(HOUR + SECOND);
    run(&jobs, id).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(jobs.due(2 * HOUR), NOTHING);
    jobs.engine.close().unwrap();
    drop(jobs);

    let jobs = store.open();
    counting(&jobs, false);
    assert_eq!(jobs.due(2 * HOUR), NOTHING);
    assert_eq!(jobs.due(2 * HOUR + SECOND), [id]);
    let statistics = job_statistics(&jobs.engine.snapshot(), id);
    assert_eq!(
        (statistics.runs, statistics.ok, statistics.failed),
        (1, 1, 0)
    );
    assert_eq!(statistics.finished_ns, Some(HOUR + SECOND));
    let error = run(&jobs, unknown).await.unwrap_err();
    assert!(error.to_string().contains("of a later version"), "{error}");
    jobs.delete(id).unwrap();
    assert_eq!(jobs.due(i64::MAX), NOTHING);
    assert_eq!(job_history(&jobs.engine.snapshot()), []);
    // Its number is not given again.
    jobs.delete(unknown).unwrap();
    assert_eq!(jobs.add(&hourly("count")).unwrap(), 1002);
    let error = jobs.delete(id).unwrap_err();
    assert!(error.to_string().contains("job 1000 not found"), "{error}");
}

#[tokio::test]
async fn a_job_that_fails_waits_longer_each_time_and_says_why() {
    let store = Store::new();
    let jobs = store.open();
    let count = counting(&jobs, true);
    let id = jobs.add(&hourly("count")).unwrap();
    let change = JobChange {
        retry_ns: Some(SECOND),
        retries_max: Some(2),
        ..JobChange::default()
    };
    jobs.alter(id, &change).unwrap();
    for (at, next) in [(0, 1), (1, 3)] {
        store.set(at * SECOND);
        let error = run(&jobs, id).await.unwrap_err();
        assert!(error.to_string().contains("told to"), "{error}");
        assert_eq!(jobs.due(next * SECOND - 1), NOTHING, "{at}");
        assert_eq!(jobs.due(next * SECOND), [id], "{at}");
    }
    run(&jobs, id).await.unwrap_err();
    assert_eq!(jobs.due(i64::MAX), NOTHING, "it may fail twice in a row");
    assert_eq!(count.load(Ordering::Relaxed), 3);
    let snapshot = jobs.engine.snapshot();
    assert_eq!(job_statistics(&snapshot, id).failures_in_a_row, 3);
    assert!(!find(&snapshot, id).unwrap().schedule.is_on);
    let history = job_history(&snapshot);
    let errors: Vec<(i64, bool)> = history
        .iter()
        .map(|record| (record.nth, record.run.error.is_some()))
        .collect();
    assert_eq!(errors, [(1, true), (2, true), (3, true)]);
}

#[tokio::test]
async fn a_job_never_runs_twice_at_a_time() {
    let store = Store::new();
    let jobs = store.open();
    let id = jobs.add(&hourly("slow")).unwrap();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let (started, has_started) = tokio::sync::oneshot::channel::<()>();
    let once = Mutex::new(Some((gone, started)));
    jobs.register(
        "slow",
        Arc::new(move |_| {
            let (gone, started) = once.lock().unwrap().take().expect("it runs once");
            Box::pin(async move {
                started.send(()).unwrap();
                gone.await.unwrap();
                Ok(JobEnd::Done)
            })
        }),
    );
    let first = tokio::spawn({
        let jobs = Arc::clone(&jobs);
        async move { run(&jobs, id).await }
    });
    has_started.await.unwrap();
    assert!(jobs.is_running(id));
    assert_eq!(jobs.due(i64::MAX), NOTHING);
    let error = run(&jobs, id).await.unwrap_err();
    assert!(error.to_string().contains("job 1000 is running"), "{error}");
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert!(!jobs.is_running(id));
    assert_eq!(jobs.due(i64::MAX), [id]);
}

#[tokio::test]
async fn a_job_that_takes_too_long_or_panics_has_failed_and_one_without_its_target_goes() {
    let store = Store::new();
    let jobs = store.open();
    jobs.register("hangs", Arc::new(|_| Box::pin(std::future::pending())));
    jobs.register(
        "breaks",
        Arc::new(|_| Box::pin(async { panic!("a planted panic") })),
    );
    jobs.register(
        "gone",
        Arc::new(|_| Box::pin(async { Ok(JobEnd::TargetGone) })),
    );
    let hangs = jobs.add(&hourly("hangs")).unwrap();
    let change = JobChange {
        runtime_ns_max: Some(1),
        ..JobChange::default()
    };
    jobs.alter(hangs, &change).unwrap();
    let error = run(&jobs, hangs).await.unwrap_err();
    assert!(error.to_string().contains("max_runtime"), "{error}");
    let breaks = jobs.add(&hourly("breaks")).unwrap();
    run(&jobs, breaks).await.unwrap_err();
    assert!(!jobs.is_running(breaks));
    let gone = jobs.add(&hourly("gone")).unwrap();
    run(&jobs, gone).await.unwrap();
    let snapshot = jobs.engine.snapshot();
    let left: Vec<i64> = super::jobs(&snapshot).iter().map(|job| job.id).collect();
    assert_eq!(left, [hangs, breaks]);
    for id in left {
        let statistics = job_statistics(&snapshot, id);
        assert_eq!((statistics.runs, statistics.failed), (1, 1), "{id}");
    }
}

#[tokio::test]
async fn a_job_goes_with_its_database() {
    let store = Store::new();
    let jobs = store.open();
    counting(&jobs, false);
    let id = jobs.add(&hourly("count")).unwrap();
    jobs.engine.rename_database("d", "e").unwrap();
    let snapshot = jobs.engine.snapshot();
    assert_eq!(find(&snapshot, id).unwrap().database, "e");
    assert_eq!(job_of(&snapshot, "e", "count", 7).unwrap().id, id);
    jobs.engine.drop_database("e").unwrap();
    jobs.engine.create_database("e").unwrap();
    assert_eq!(super::jobs(&jobs.engine.snapshot()), []);
}
