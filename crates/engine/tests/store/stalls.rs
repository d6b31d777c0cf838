//! Promise: nobody who writes waits for a maintenance that waits for the disk.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::gate::{Call, GateDisk};
use crate::support::{Answer, everything};
use nilometer_engine::disk::Disk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_lineproto::Precision;

/// Longer than anything takes here that does not wait for the gate.
const STUCK: Duration = Duration::from_mins(2);

fn open(disk: &GateDisk, dir: &str) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options {
        flush_idle_ms: 0,
        index_cache_bytes_max: 0,
        memory_bytes_max: 64 << 20,
        ..Options::default()
    };
    let clock = Arc::new(SystemClock);
    Arc::new(Engine::open(disk, clock, Path::new(dir), options).unwrap())
}

fn write(engine: &Arc<Engine>, body: &str) {
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

/// Runs `work` while a call at the gate waits; the gate opens when it is done, or when it has been stuck for long.
fn while_the_gate_is_closed(disk: &GateDisk, work: impl FnOnce() + Send) {
    disk.until_somebody_waits();
    let (done, is_done) = sync_channel(1);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            work();
            done.send(()).unwrap();
        });
        let outcome = is_done.recv_timeout(STUCK);
        disk.open();
        outcome
    });
    assert!(outcome.is_ok(), "it waited for the gate");
}

/// A backup to a slow disk linked ten thousand files while it held the list of files: flushes waited for that, and when
/// the head was full everybody who wrote waited for the flush.
#[test]
fn writers_flushes_and_compactions_go_on_while_a_backup_links_files() {
    let disk = GateDisk::default();
    let engine = open(&disk, "/store");
    for time in 0..4 {
        write(
            &engine,
            &format!("m,host=a v={time} {time}\nm,host=b{time} v=1 {time}"),
        );
        engine.flush().unwrap();
    }
    // In the log's end.
    write(&engine, "n v=1 1");
    let before = everything(&engine).unwrap();
    disk.close(Call::Link, "");
    let report = std::thread::scope(|scope| {
        let backup = scope.spawn(|| engine.backup(Path::new("/backup")).unwrap());
        while_the_gate_is_closed(&disk, || {
            for time in 10..14 {
                // New names too, so that files of definitions are replaced and would be removed.
                write(
                    &engine,
                    &format!("m,host=c{time} f{time}=1 {time}\nt{time} v=1 1"),
                );
                engine.flush().unwrap();
            }
            engine.settle().unwrap();
        });
        backup.join().unwrap()
    });
    assert!(report.files_added > 4, "{report:?}");
    // What was compacted away meanwhile goes now.
    engine.settle().unwrap();
    assert_eq!(everything(&engine).unwrap()["d.public.m"].len(), 12);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Engine::restore(&shared, Path::new("/backup"), Path::new("/copy")).unwrap();
    let copy = everything(&open(&disk, "/copy")).unwrap();
    assert_eq!(copy, before);
    drop(engine);
    let kept = |answer: &Answer| answer["d.public.m"].len();
    assert_eq!(kept(&everything(&open(&disk, "/store")).unwrap()), 12);
}

/// An index file was damaged, and while it was written again everybody who wrote waited for the disk to take the list of
/// files: the mend held the order of batches before it asked for the list, against the order of locks.
#[test]
fn writers_go_on_while_a_mended_index_file_is_listed() {
    let disk = GateDisk::default();
    let mut body = String::new();
    // So many that blocks of their dictionary are there once only.
    for n in 0..1500 {
        writeln!(body, "m,host=h{n:05},rack=r{} v={n}i 1", n % 50).unwrap();
    }
    let engine = open(&disk, "/store");
    write(&engine, &body);
    engine.close().unwrap();
    drop(engine);
    let names = disk.list(Path::new("/store/segments")).unwrap();
    let name = names.iter().find(|name| name.ends_with("idx")).unwrap();
    let path = Path::new("/store/segments").join(name);
    let file = Disk::open(&disk, &path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    // In the middle of a block of hosts, so that some series are lost.
    let text = bytes.windows(6).position(|it| it == b"h01024").unwrap();
    let at = text + 9;
    file.write_at(&[bytes[at] ^ 8], at as u64).unwrap();
    let engine = open(&disk, "/store");
    disk.close(Call::Write, "manifest");
    std::thread::scope(|scope| {
        let mend = scope.spawn(|| engine.mend_index_files().unwrap());
        while_the_gate_is_closed(&disk, || write(&engine, "n v=1 1\nm,host=new v=7i 2"));
        assert_eq!(mend.join().unwrap(), 1);
    });
    let told = engine.mended_index_files();
    assert!(told[0].series.unwrap() > 0, "{told:?}");
    let found = everything(&engine).unwrap();
    assert_eq!(found["d.public.n"].len(), 1);
    let new = found["d.public.m"]
        .iter()
        .filter(|row| row["host"] == "new");
    assert_eq!(new.count(), 1);
    // Whose series were lost gets new ones.
    write(&engine, &body);
    let hosts = everything(&engine).unwrap()["d.public.m"].len();
    assert_eq!(hosts, 1501);
}
