//! Whole stores in memory: one whose files were damaged anywhere, and one that any lines were written to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use nilometer_engine::disk::{Disk, DiskFile, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Engine, Error, NewRelation, Options, PhysicalType, RelationChange, RelationColumn, ScanRequest,
    SystemClock, Value,
};

use crate::lines::precision_of;

const DIR: &str = "/d";
const LINES: &[u8] = b"m,host=a,site=x v=1.5,n=1i,note=\"one\" 1000\n\
    m,host=b v=-0.0,n=-7i,note=\"two\",is=true 2000\n\
    m,host=a,site=x v=2.5 3000\n\
    wide,a=1,b=2,c=3 u=7u 1\n";

/// Its files, by path: flushed ones, and a log with rows of its own.
static STORE: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(make);

fn options() -> Options {
    Options {
        memory_bytes_max: 64 << 20,
        log_bytes_max: 1 << 20,
        ..Options::default()
    }
}

fn open(disk: &MemoryDisk) -> Result<Arc<Engine>, Error> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Engine::open(disk, Arc::new(SystemClock), Path::new(DIR), options()).map(Arc::new)
}

/// Every file that the store's folders have.
fn files(disk: &MemoryDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for folder in ["", "log", "segments", "quarantine"] {
        let dir = Path::new(DIR).join(folder);
        let mut names = disk.list(&dir).unwrap_or_default();
        names.sort();
        for name in names {
            let path = dir.join(name);
            if let Ok(file) = disk.open(&path) {
                all.push((path, read(file.as_ref())));
            }
        }
    }
    all
}

fn read(file: &dyn DiskFile) -> Vec<u8> {
    let size = file.size().unwrap_or(0);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at as u64) {
            Ok(got) if got > 0 => at += got,
            _ => break,
        }
    }
    bytes
}

fn make() -> Vec<(PathBuf, Vec<u8>)> {
    let disk = MemoryDisk::new();
    fill(&disk).expect("a store without faults takes four lines");
    files(&disk)
}

fn fill(disk: &MemoryDisk) -> Result<(), Error> {
    let engine = open(disk)?;
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(&engine), "d")?;
    let relation = NewRelation {
        columns: vec![RelationColumn {
            name: "id".to_owned(),
            kind: PhysicalType::I64,
            nullable: false,
        }],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation("d", "public", "r", &relation)?;
    if let Some(relation) = engine.snapshot().relation("d", "public", "r") {
        let rows = vec![vec![Value::I64(1)], vec![Value::I64(2)]];
        let insert = RelationChange::Insert(Arc::clone(relation.schema()), rows);
        engine.write_relations(&[insert])?;
    }
    let nanoseconds = precision_of(0);
    session.write_lines_once([9; 16], LINES, nanoseconds)?;
    // Hours with so many rows have rollups.
    let hours: String = (0..400)
        .map(|n| format!("m,host=hours v={n}.5,n={n}i {}\n", n * 20_000_000_000_i64))
        .collect::<Vec<_>>()
        .concat();
    session.write_lines(hours.as_bytes(), nanoseconds)?;
    engine.flush()?;
    session.write_lines(b"m,host=c v=4 4000\nm,host=a,site=x v=5 1000", nanoseconds)?;
    Ok(())
}

/// The store's files, for whoever needs seeds.
pub fn sample() -> &'static [(PathBuf, Vec<u8>)] {
    &STORE
}

/// Changes to a store's files, nine bytes each: which file, where (four bytes), and the four bytes that stand there then.
/// It opens, puts files aside or says what is wrong; what it opens as can be read and checked.
pub(crate) fn damaged(bytes: &[u8]) {
    let mut files = sample().to_vec();
    let (changes, _) = bytes.as_chunks::<9>();
    for [which, at @ .., a, b, c, d] in changes.iter().take(64) {
        let count = files.len().max(1);
        let Some((_, file)) = files.get_mut(usize::from(*which) % count) else {
            return;
        };
        let at = u32::from_le_bytes(*at) as usize % (file.len() + 1);
        for (at, byte) in (at..).zip([a, b, c, d]) {
            if let Some(place) = file.get_mut(at) {
                *place = *byte;
            }
        }
    }
    let disk = MemoryDisk::new();
    for (path, bytes) in &files {
        let file = disk.create(path).expect("the disk is empty");
        file.write_at(bytes, 0).expect("the disk has room");
    }
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let _ = Engine::verify(&shared, Path::new(DIR));
    let Ok(engine) = open(&disk) else { return };
    // A scan may meet the damage; it must not hide it behind a panic.
    let _ = read_all(&engine);
    let _ = engine.flush();
    let _ = engine.maintain();
    let _ = read_all(&engine);
}

fn read_all(engine: &Arc<Engine>) -> Result<usize, Error> {
    let snapshot = engine.snapshot();
    let mut rows = 0;
    for name in ["m", "wide"] {
        let Some(table) = snapshot.table("d", "public", name) else {
            continue;
        };
        let columns = table.arrow_schema().fields().len();
        let scan = snapshot.scan(&ScanRequest {
            table,
            projection: (0..columns).collect(),
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        })?;
        for morsel in 0..scan.morsels() {
            for batch in scan.read(morsel) {
                rows += batch?.num_rows();
            }
        }
    }
    Ok(rows)
}

/// Any body of line protocol, written: what the report says was written is there, also after the store was opened again.
pub(crate) fn lines(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    let disk = MemoryDisk::new();
    let count = |engine: &Arc<Engine>| {
        let snapshot = engine.snapshot();
        let mut rows = 0;
        for name in snapshot.tables("d", "public").unwrap_or_default() {
            let Some(table) = snapshot.table("d", "public", &name) else {
                continue;
            };
            let columns = table.arrow_schema().fields().len();
            let request = ScanRequest {
                table,
                projection: (0..columns).collect(),
                time: i64::MIN..=i64::MAX,
                tags: Vec::new(),
                limit: None,
            };
            let scan = snapshot.scan(&request).expect("nothing is damaged");
            for morsel in 0..scan.morsels() {
                let batches = scan.read(morsel);
                rows += batches
                    .map(|batch| batch.expect("nothing is damaged").num_rows() as u64)
                    .sum::<u64>();
            }
        }
        rows
    };
    let engine = open(&disk).expect("a new store opens");
    engine.create_database("d").expect("a new name");
    let mut session = Session::new(Arc::clone(&engine), "d").expect("it exists");
    let written = session.write_lines(body, precision_of(*first));
    let before = count(&engine);
    // Points of one series and time are one row; the others are all there.
    match written {
        Ok(report) => assert!(before <= report.rows && (before > 0) == (report.rows > 0)),
        Err(_) => assert_eq!(before, 0),
    }
    drop((session, engine));
    let engine = open(&disk).expect("what was written opens");
    assert_eq!(count(&engine), before, "after it was opened again");
    engine.flush().expect("the disk has room");
    assert_eq!(count(&engine), before, "after it was flushed");
}
