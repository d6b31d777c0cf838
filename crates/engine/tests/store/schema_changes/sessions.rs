//! Writers meet a change at any moment, and write to what is there now.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::WriteReport;
use nilometer_engine::{Clock, Engine, Error};
use nilometer_lineproto::Precision;

use super::{F64, lines, open, open_with, rows, session};

#[test]
fn a_session_follows_every_change() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let mut writer = session(&engine, "d");
    let body = "m,host=a v=1i 10";
    lines(&mut writer, body);
    engine.rename_table("d", "public", "m", "old").unwrap();
    lines(&mut writer, body);
    engine.rename_column("d", "public", "m", "v", "w").unwrap();
    lines(&mut writer, body);
    engine.change_type("d", "public", "m", "v", F64).unwrap();
    let report = lines(&mut writer, body);
    assert_eq!((report.rows, report.rejected_total), (0, 1));
    lines(&mut writer, "m,host=a v=2.5 10");
    engine.drop_column("d", "public", "m", "host").unwrap();
    lines(&mut writer, "m,host=a v=3.5 10");
    let expected = [
        "d.public.m time=10 v=2.5 w=1",
        "d.public.m host=a time=10 v=3.5",
        "d.public.old host=a time=10 v=1",
    ];
    assert_eq!(rows(&engine), expected);
    drop(writer);
    drop(engine);
    assert_eq!(rows(&open(&disk)), expected);
}

#[test]
fn a_session_of_a_database_that_is_gone_says_so() {
    let engine = open(&MemoryDisk::new());
    engine.create_database("d").unwrap();
    let mut writer = session(&engine, "d");
    lines(&mut writer, "m v=1 10");
    engine.rename_database("d", "e").unwrap();
    let refused = writer.write_lines(b"m v=2 20", Precision::Nanosecond);
    assert!(matches!(refused, Err(Error::UnknownDatabase { name }) if name == "d"));
    assert_eq!(rows(&engine), ["e.public.m time=10 v=1.0"]);
    engine.create_database("d").unwrap();
    lines(&mut writer, "m v=2 20");
    let expected = ["d.public.m time=20 v=2.0", "e.public.m time=10 v=1.0"];
    assert_eq!(rows(&engine), expected);
}

/// A clock that does something to the store when it is asked: a session asks it after it has looked at the
/// catalogue's epoch and before it has built its batch.
struct Meddler {
    engine: OnceLock<Weak<Engine>>,
    deed: Mutex<Option<Deed>>,
}

type Deed = Box<dyn FnOnce(&Engine) + Send>;

impl std::fmt::Debug for Meddler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddler")
    }
}

impl Clock for Meddler {
    fn now_ns(&self) -> i64 {
        let deed = self.deed.lock().unwrap().take();
        if let (Some(deed), Some(engine)) = (deed, self.engine.get().and_then(Weak::upgrade)) {
            deed(&engine);
        }
        0
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

impl Meddler {
    fn arm(&self, deed: impl FnOnce(&Engine) + Send + 'static) {
        *self.deed.lock().unwrap() = Some(Box::new(deed));
    }
}

/// A store with a database, and its clock.
fn meddled() -> (Arc<Engine>, Arc<Meddler>) {
    let clock = Arc::new(Meddler {
        engine: OnceLock::new(),
        deed: Mutex::new(None),
    });
    let engine = open_with(&MemoryDisk::new(), clock.clone(), None);
    clock.engine.set(Arc::downgrade(&engine)).unwrap();
    engine.create_database("d").unwrap();
    (engine, clock)
}

/// Writes `first` with a session, then `second`, while `deed` is done between its look at the epoch and its batch.
fn meddle(
    first: &str,
    second: &str,
    deed: impl FnOnce(&Engine) + Send + 'static,
) -> (Arc<Engine>, Result<WriteReport, Error>) {
    let (engine, clock) = meddled();
    let mut writer = session(&engine, "d");
    lines(&mut writer, first);
    clock.arm(deed);
    let result = writer.write_lines(second.as_bytes(), Precision::Nanosecond);
    assert!(clock.deed.lock().unwrap().is_none(), "the deed was done");
    (engine, result)
}

#[test]
fn a_batch_that_a_change_overtakes_is_built_again() {
    let drop_table = |engine: &Engine| engine.drop_table("d", "public", "m").unwrap();
    let (engine, result) = meddle("m,host=a v=1i 10", "m,host=a v=2i 20", drop_table);
    assert_eq!(result.unwrap().rows, 1);
    assert_eq!(rows(&engine), ["d.public.m host=a time=20 v=2"]);

    // The series is known and the field is not: it must not be defined in the table that is gone.
    let (engine, result) = meddle("m,host=a v=1i 10", "m,host=a w=2i 20", drop_table);
    assert_eq!(result.unwrap().rows, 1);
    assert_eq!(rows(&engine), ["d.public.m host=a time=20 w=2"]);

    let (engine, result) = meddle("m v=1i 10", "m v=2i 20\nm v=2.5 30", |engine| {
        engine.change_type("d", "public", "m", "v", F64).unwrap();
    });
    let report = result.unwrap();
    assert_eq!((report.rows, report.rejected_total), (1, 1));
    assert_eq!(report.rejected[0].line_number, 1);
    let expected = ["d.public.m time=10 v=1.0", "d.public.m time=30 v=2.5"];
    assert_eq!(rows(&engine), expected);

    let (engine, result) = meddle("m v=1 10", "m v=2 20", |engine| {
        engine.rename_column("d", "public", "m", "v", "w").unwrap();
    });
    assert_eq!(result.unwrap().rows, 1);
    let expected = ["d.public.m time=10 w=1.0", "d.public.m time=20 v=2.0"];
    assert_eq!(rows(&engine), expected);
}

#[test]
fn a_batch_with_a_key_is_built_again_too() {
    let (engine, clock) = meddled();
    let mut writer = session(&engine, "d");
    lines(&mut writer, "m,host=a v=1i 10");
    // The table is known and the field is not, so that nothing is left of the body the first time.
    clock.arm(|engine| engine.drop_table("d", "public", "m").unwrap());
    let body = b"m,host=a w=2i 20";
    let report = writer.write_lines_once([7; 16], body, Precision::Nanosecond);
    assert!(clock.deed.lock().unwrap().is_none(), "the deed was done");
    assert_eq!(report.unwrap().rows, 1);
    let report = writer.write_lines_once([7; 16], body, Precision::Nanosecond);
    assert!(report.unwrap().repeated);
    assert_eq!(rows(&engine), ["d.public.m host=a time=20 w=2"]);
}

#[test]
fn a_batch_whose_database_goes_meanwhile_is_refused_as_a_whole() {
    for second in ["m v=2 20", "new,host=a v=2 20", "m w=2 20"] {
        let (engine, result) = meddle("m v=1 10", second, |engine| {
            engine.drop_database("d").unwrap();
        });
        assert!(
            matches!(result, Err(Error::UnknownDatabase { .. })),
            "{second}"
        );
        assert_eq!(rows(&engine), [""; 0]);
    }
}
