//! Promise: SELECTs that take long hold up nobody, and end when somebody ends them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::StreamExt;
use nilometer_engine::disk::{Disk, DiskFile, DiskLock, MemoryDisk};
use nilometer_engine::ingest;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_influxql::InfluxQl;
use nilometer_lineproto::Precision;
use nilometer_service::{
    Class, Error, LanguageContext, Outcome, Params, Principal, QueryOptions, Session, Set, Threads,
};
use tokio::sync::oneshot;

/// Long enough for a busy machine; nothing waits as long where all is well.
const PATIENCE: Duration = Duration::from_mins(1);

/// Reads of segments wait while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
    }

    fn set_closed(&self, is_closed: bool) {
        self.state.lock().unwrap().0 = is_closed;
        self.changed.notify_all();
    }

    /// Whether so many reads come to wait.
    fn fills(&self, count: usize) -> bool {
        let state = self.state.lock().unwrap();
        let wait = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.1 < count);
        !wait.unwrap().1.timed_out()
    }
}

#[derive(Debug)]
struct GatedDisk(MemoryDisk, Arc<Gate>);

#[derive(Debug)]
struct GatedFile(Arc<dyn DiskFile>, Option<Arc<Gate>>);

impl GatedDisk {
    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let is_segment = path.extension().is_some_and(|it| it == "seg");
        Arc::new(GatedFile(file, is_segment.then(|| Arc::clone(&self.1))))
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(path, self.0.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(path, self.0.open(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.0.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.total_bytes(path)
    }
}

impl DiskFile for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(gate) = &self.1 {
            gate.pass();
        }
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

/// 80,000 rows of a measurement in segments.
fn engine(gate: &Arc<Gate>) -> Arc<Engine> {
    let disk = GatedDisk(MemoryDisk::new(), Arc::clone(gate));
    let (clock, options) = (Arc::new(SystemClock), Options::default());
    let engine = Arc::new(Engine::open(Arc::new(disk), clock, Path::new("/d"), options).unwrap());
    engine.create_database("d").unwrap();
    let mut session = ingest::Session::new(Arc::clone(&engine), "d").unwrap();
    let mut body = String::new();
    for row in 0..80_000_u64 {
        let value = row.wrapping_mul(2_654_435_761) % 100_003;
        writeln!(body, "m v={value}.5 {}", row * 1_000_000_000).unwrap();
    }
    session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    engine.flush().unwrap();
    engine.settle().unwrap();
    engine
}

/// The answer of a statement on its way.
type Waiting = oneshot::Receiver<Result<Vec<Set>, Error>>;

/// Runs a statement on the threads for queries, to its end.
fn asked(language: &Arc<InfluxQl>, context: &LanguageContext, text: &'static str) -> Waiting {
    let (sender, receiver) = oneshot::channel();
    let language = Arc::clone(language);
    context.executor.spawn(Box::pin(async move {
        let session = Session::new("d", Principal::anyone());
        let answer = async {
            let outcome = session.run(&*language, text, &Params::default()).await?;
            let Outcome::Sets(mut sets) = outcome else {
                return Ok(Vec::new());
            };
            let mut all = Vec::new();
            while let Some(set) = sets.next().await {
                all.push(set?);
            }
            Ok(all)
        };
        let _ = sender.send(answer.await);
    }));
    receiver
}

async fn answer(receiver: Waiting) -> Result<Vec<Set>, Error> {
    tokio::time::timeout(PATIENCE, receiver)
        .await
        .expect("it is answered in time")
        .unwrap()
}

/// The measurement behind a gate, asked by one thread beside those for queries.
fn served() -> (Arc<Gate>, LanguageContext, Arc<InfluxQl>) {
    let gate = Arc::new(Gate::default());
    let options = QueryOptions {
        threads: 1,
        ..QueryOptions::default()
    };
    let context = LanguageContext::new(engine(&gate), Threads::start(1).unwrap(), options);
    let language = Arc::new(InfluxQl::new(&context));
    (gate, context, language)
}

/// Asks six statements of a disk that hangs. All of them read, and another one is answered beside them.
async fn held_up(
    gate: &Arc<Gate>,
    context: &LanguageContext,
    language: &Arc<InfluxQl>,
    statements: &[&'static str; 6],
) -> Vec<Waiting> {
    gate.set_closed(true);
    let waiting = statements
        .iter()
        .map(|text| asked(language, context, text))
        .collect();
    let held = Arc::clone(gate);
    let all_read = tokio::task::spawn_blocking(move || held.fills(6)).await;
    assert!(all_read.unwrap(), "each of them reads");
    let listed = answer(asked(language, context, "SHOW QUERIES")).await;
    assert_eq!(listed.unwrap()[0].rows.len(), 7);
    waiting
}

/// InfluxQL worked a SELECT out on a thread for queries, of which there are four on two cores. So four long ones held up all
/// others, `KILL QUERY` among them; and what should have told a SELECT that its time was over waited for the thread that the
/// SELECT had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_selects_hold_up_nobody_and_are_ended_by_their_number() {
    let (gate, context, language) = served();
    let long = [
        "SELECT median(v) FROM m",
        "SELECT mode(v) FROM m",
        "SELECT derivative(v) FROM m",
        "SELECT percentile(v, 50) FROM m",
        "SELECT mean(x) FROM (SELECT v * 2 AS x FROM m) GROUP BY time(1h)",
        "SELECT max(x) FROM (SELECT cumulative_sum(v) AS x FROM m)",
    ];
    // None of them is answered as it is read: those let others in between. All end well where nobody ends them.
    for text in long {
        let sets = answer(asked(&language, &context, text)).await.unwrap();
        assert!(sets.iter().any(|set| !set.rows.is_empty()), "{text}");
    }
    let waiting = held_up(&gate, &context, &language, &long).await;
    for statement in context.statements.list() {
        assert!(context.statements.kill(statement.id));
    }
    gate.set_closed(false);
    for (receiver, text) in waiting.into_iter().zip(long) {
        let error = answer(receiver).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "{text}: {error}");
        assert!(error.to_string().contains("KILL QUERY"), "{text}: {error}");
    }
    // A time that is over ends it as well, before its rows are read to the end.
    let short = QueryOptions {
        query_ms_max: 0,
        threads: 1,
        ..QueryOptions::default()
    };
    let context = LanguageContext::new(context.engine.clone(), Threads::start(1).unwrap(), short);
    let language = Arc::new(InfluxQl::new(&context));
    for text in long {
        let error = answer(asked(&language, &context, text)).await.unwrap_err();
        assert_eq!(error.class(), Class::Time, "{text}: {error}");
    }
}

/// What is answered as it is read was read on a thread for queries: where the disk hung, four such SELECTs held up all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selects_that_are_answered_as_they_are_read_wait_for_the_disk_alone() {
    let (gate, context, language) = served();
    let streaming = [
        "SELECT v FROM m",
        "SELECT v FROM m WHERE v > 10",
        "SELECT v FROM m ORDER BY time DESC",
        "SELECT v * 2 AS x FROM m",
        "SELECT mean(v) FROM m WHERE time < 80000s GROUP BY time(1s)",
        "SELECT x FROM (SELECT v AS x FROM m) WHERE x > 1",
    ];
    for text in streaming {
        let sets = answer(asked(&language, &context, text)).await.unwrap();
        let rows: usize = sets.iter().map(|set| set.rows.len()).sum();
        assert!(rows > 70_000, "{text}: {rows}");
    }
    let waiting = held_up(&gate, &context, &language, &streaming).await;
    // One is ended by its number, the others go on as if nothing had been.
    let ended = context.statements.list().first().unwrap().id;
    assert!(context.statements.kill(ended));
    gate.set_closed(false);
    let mut ends = 0;
    for (receiver, text) in waiting.into_iter().zip(streaming) {
        match answer(receiver).await {
            Ok(sets) => assert!(!sets.is_empty(), "{text}"),
            Err(error) => {
                assert_eq!(error.class(), Class::Conflict, "{text}: {error}");
                ends += 1;
            }
        }
    }
    assert_eq!(ends, 1);
}

/// Clients that take a row and then nothing more have no thread, however many they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_slowly_hold_up_nobody() {
    let (_gate, context, language) = served();
    let mut slow = Vec::new();
    for _ in 0..16 {
        let (said, first) = oneshot::channel();
        let (go_on, waits) = oneshot::channel::<()>();
        let (told, all) = oneshot::channel();
        let language = Arc::clone(&language);
        context.executor.spawn(Box::pin(async move {
            let session = Session::new("d", Principal::anyone());
            let none = Params::default();
            let asked = session.run(&*language, "SELECT v FROM m", &none).await;
            let Outcome::Sets(mut sets) = asked.unwrap() else {
                panic!("a SELECT answers series");
            };
            let mut rows = sets.next().await.unwrap().unwrap().rows.len();
            said.send(rows).unwrap();
            waits.await.unwrap();
            while let Some(set) = sets.next().await {
                rows += set.unwrap().rows.len();
            }
            told.send(rows).unwrap();
        }));
        let first = tokio::time::timeout(PATIENCE, first).await.unwrap();
        assert!((1..80_000).contains(&first.unwrap()));
        slow.push((go_on, all));
    }
    let count = "SELECT count(v) FROM m";
    let counted = answer(asked(&language, &context, count)).await.unwrap();
    assert_eq!(counted.len(), 1);
    let listed = answer(asked(&language, &context, "SHOW QUERIES")).await;
    assert_eq!(listed.unwrap()[0].rows.len(), 17);
    for (go_on, all) in slow {
        go_on.send(()).unwrap();
        let rows = tokio::time::timeout(PATIENCE, all).await.unwrap();
        assert_eq!(rows.unwrap(), 80_000);
    }
}
