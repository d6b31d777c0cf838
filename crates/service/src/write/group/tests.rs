//! Promises of the group of small writes, with a log of the test's own.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::executor::{BegunTask, Threads};

/// A log: what was put, how much of it is durable, how many syncs that took, and the position from which syncs fail.
#[derive(Debug, Default)]
struct Log {
    put: Mutex<Vec<usize>>,
    durable: AtomicUsize,
    syncs: AtomicUsize,
    fails_from: Option<usize>,
}

impl Log {
    fn put(&self, write: usize) -> usize {
        let mut put = self.put.lock().unwrap();
        put.push(write);
        put.len()
    }

    fn sync(&self, position: usize) -> Result<(), String> {
        if self.durable.load(Ordering::SeqCst) >= position {
            return Ok(());
        }
        let all = self.put.lock().unwrap().len();
        if self.fails_from.is_some_and(|from| all >= from) {
            return Err("the disk is gone".to_owned());
        }
        std::thread::yield_now();
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.durable.fetch_max(all, Ordering::SeqCst);
        Ok(())
    }
}

type Told = Result<Result<usize, String>, Stopped>;

fn write(
    group: &Arc<WriteGroup>,
    executor: &Arc<dyn Executor>,
    log: &Arc<Log>,
    nth: usize,
) -> BoxFuture<'static, Told> {
    let (of_put, of_sync) = (Arc::clone(log), Arc::clone(log));
    group.write(
        executor,
        move || Ok(of_put.put(nth)),
        move |position| {
            of_sync.sync(position)?;
            Ok(position)
        },
    )
}

/// The same as a task that is begun on this thread.
async fn begun(
    group: &Arc<WriteGroup>,
    executor: &Arc<dyn Executor>,
    log: &Arc<Log>,
    nth: usize,
) -> Told {
    let (sender, receiver) = oneshot::channel();
    let (group, log, by) = (Arc::clone(group), Arc::clone(log), Arc::clone(executor));
    let begun = BegunTask::new(executor, async move {
        let told = write(&group, &by, &log, nth).await;
        sender.send(told).unwrap();
    });
    begun.await;
    receiver.await.unwrap()
}

/// Writers that each write again and again on threads of their own runtime.
fn all_written(log: &Arc<Log>, writers: usize, each: usize) -> Vec<Told> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap();
    let (group, executor) = (Arc::new(WriteGroup::default()), Threads::of_caller());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (group, executor, log) =
                    (Arc::clone(&group), Arc::clone(&executor), Arc::clone(log));
                tokio::spawn(async move {
                    let mut told = Vec::new();
                    for nth in 0..each {
                        // Every other one leads where it is, if nobody does.
                        let nth = writer * each + nth;
                        told.push(if writer % 2 == 0 {
                            write(&group, &executor, &log, nth).await
                        } else {
                            begun(&group, &executor, &log, nth).await
                        });
                        if let Some(Ok(Ok(position))) = told.last() {
                            assert!(log.durable.load(Ordering::SeqCst) >= *position);
                        }
                    }
                    told
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        all
    })
}

/// A write that nobody takes over would wait for ever, whoever leads.
#[test]
fn each_of_many_writers_is_told_once_its_write_is_durable() {
    let log = Arc::new(Log::default());
    let told = all_written(&log, 8, 200);
    let mut positions: Vec<usize> = told.into_iter().map(|it| it.unwrap().unwrap()).collect();
    positions.sort_unstable();
    assert_eq!(positions, (1..=1600).collect::<Vec<_>>());
}

/// After a sync that failed nobody waits for ever, and nobody hears that his write is there.
#[test]
fn writers_are_told_that_the_disk_is_gone() {
    let log = Arc::new(Log {
        fails_from: Some(700),
        ..Log::default()
    });
    let told = all_written(&log, 8, 200);
    assert_eq!(told.len(), 1600);
    let durable = log.durable.load(Ordering::SeqCst);
    assert!(durable < 700);
    let mut refused = 0;
    for it in told {
        match it.unwrap() {
            Ok(position) => assert!(position <= durable),
            Err(why) => {
                assert_eq!(why, "the disk is gone");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1600 - durable);
}

/// An executor that keeps what it is to do until the test lets it, or drops it.
#[derive(Debug)]
struct Later(Kept, Arc<dyn Executor>);

#[derive(Default)]
struct Kept(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Later {
    fn new() -> Arc<Self> {
        Arc::new(Self(Kept::default(), Threads::of_caller()))
    }

    fn kept(&self) -> Vec<Box<dyn FnOnce() + Send>> {
        std::mem::take(&mut self.0.0.lock().unwrap())
    }

    fn run(&self) -> usize {
        let kept = self.kept();
        let count = kept.len();
        for work in kept {
            work();
        }
        count
    }
}

impl Executor for Later {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.1.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.0.lock().unwrap().push(work);
    }

    fn threads(&self, wanted: usize) -> usize {
        wanted
    }

    fn run_together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.1.run_together(count, work);
    }

    fn sleep(&self, time: std::time::Duration) -> BoxFuture<'static, ()> {
        self.1.sleep(time)
    }

    fn now(&self) -> tokio::time::Instant {
        self.1.now()
    }

    fn stop(&self) {}
}

#[tokio::test]
async fn those_who_come_while_one_writes_are_put_in_order_and_synced_once() {
    let (group, later, log) = (
        Arc::new(WriteGroup::default()),
        Later::new(),
        Arc::new(Log::default()),
    );
    let executor: Arc<dyn Executor> = Arc::clone(&later) as Arc<dyn Executor>;
    let waiting: Vec<_> = (0..5)
        .map(|nth| write(&group, &executor, &log, nth))
        .collect();
    // One thread is asked for, whoever comes meanwhile; nobody who does not wait any more is left out.
    assert_eq!(later.run(), 1);
    assert_eq!(*log.put.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(log.syncs.load(Ordering::SeqCst), 2);
    for (nth, it) in waiting.into_iter().enumerate() {
        assert_eq!(it.await, Ok(Ok(nth + 1)));
    }
    drop(write(&group, &executor, &log, 5));
    assert_eq!(later.run(), 1);
    assert_eq!(log.durable.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn a_write_that_fails_or_panics_among_others_is_told_so_and_they_are_written() {
    let (group, later, log) = (
        Arc::new(WriteGroup::default()),
        Later::new(),
        Arc::new(Log::default()),
    );
    let executor: Arc<dyn Executor> = Arc::clone(&later) as Arc<dyn Executor>;
    let first = write(&group, &executor, &log, 0);
    let refused = group.write(
        &executor,
        || Err::<usize, _>("its key is there".to_owned()),
        Ok,
    );
    let panics = group.write(
        &executor,
        || -> Result<usize, String> { panic!("planted") },
        Ok,
    );
    let panics_later = group.write(
        &executor,
        || Ok::<usize, String>(1),
        |_| -> Result<usize, String> { panic!("planted") },
    );
    let last = write(&group, &executor, &log, 1);
    later.run();
    assert_eq!(first.await, Ok(Ok(1)));
    assert_eq!(refused.await, Ok(Err("its key is there".to_owned())));
    assert_eq!(panics.await, Err(Stopped::Panicked));
    assert_eq!(panics_later.await, Err(Stopped::Panicked));
    assert_eq!(last.await, Ok(Ok(2)));
}

#[tokio::test]
async fn where_the_program_stops_nobody_waits_for_ever() {
    let (group, later, log) = (
        Arc::new(WriteGroup::default()),
        Later::new(),
        Arc::new(Log::default()),
    );
    let executor: Arc<dyn Executor> = Arc::clone(&later) as Arc<dyn Executor>;
    let waiting: Vec<_> = (0..3)
        .map(|nth| write(&group, &executor, &log, nth))
        .collect();
    drop(later.kept());
    for it in waiting {
        assert_eq!(it.await, Err(Stopped::Ended));
    }
    assert!(log.put.lock().unwrap().is_empty());
    let next = write(&group, &executor, &log, 3);
    later.run();
    assert_eq!(next.await, Ok(Ok(1)));
}
