//! A field of another type keeps every value, or keeps its type.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, DiskFile, DiskLayer, FileLayer, MemoryDisk};
use nilometer_engine::inspect::{ColumnRole, inspect};
use nilometer_engine::{ColumnKind, Engine, Options, SystemClock};

use super::{F64, I64, TEXT, everywhere, lines, open, rows, scan_all, session, table, write};

#[test]
fn a_retyped_field_keeps_its_values_among_new_ones() {
    everywhere(
        |engine| {
            write(engine, "m,host=a v=1i,b=true,u=7u,t=5i 10");
            write(engine, "m,host=a v=-3i,t=6i 20");
        },
        |engine| {
            for (field, to) in [("v", F64), ("b", I64), ("u", I64), ("t", TEXT)] {
                engine.change_type("d", "public", "m", field, to).unwrap();
            }
        },
        |engine| {
            write(engine, "m,host=a v=2.5,b=2i,u=-1i 15\nm,host=a t=\"x\" 20");
            let report = lines(&mut session(engine, "d"), "m,host=a v=1i 30");
            assert_eq!(
                report.rejected[0].reason,
                "field type conflict: input field \"v\" on measurement \"m\" is type integer, already exists as type float"
            );
        },
        |engine, told| {
            let expected = [
                "d.public.m b=1 host=a t=5 time=10 u=7 v=1.0",
                "d.public.m b=2 host=a time=15 u=-1 v=2.5",
                "d.public.m host=a t=x time=20 v=-3.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

#[test]
fn a_field_may_be_retyped_again_and_back() {
    everywhere(
        |engine| write(engine, "m v=1i 10"),
        |engine| {
            engine.change_type("d", "public", "m", "v", F64).unwrap();
            write(engine, "m v=2 20");
            engine.change_type("d", "public", "m", "v", TEXT).unwrap();
            write(engine, "m v=\"3\" 30");
            engine.change_type("d", "public", "m", "v", I64).unwrap();
        },
        |engine| write(engine, "m v=4i 40\nm v=5i 10"),
        |engine, told| {
            let expected = [
                "d.public.m time=10 v=5",
                "d.public.m time=20 v=2",
                "d.public.m time=30 v=3",
                "d.public.m time=40 v=4",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

#[test]
fn a_type_that_a_value_does_not_fit_is_refused_with_the_value() {
    let refused = |body: &str, to: PhysicalType, said: &str| {
        everywhere(
            |engine| write(engine, body),
            |engine| {
                let refusal = engine.change_type("d", "public", "m", "v", to);
                assert_eq!(refusal.unwrap_err().to_string(), said);
            },
            |_| {},
            |engine, told| {
                let before = table(engine, "m").fields[0].kind;
                assert_ne!(before, ColumnKind::Field(to), "{told}");
                assert_eq!(rows(engine).len(), body.lines().count(), "{told}");
            },
        );
    };
    let remedy =
        "would not stay what it is; delete or overwrite such values first, or write to a new field";
    refused(
        "m v=1i 10\nm v=9007199254740993i 20\nm v=9007199254740995i 30",
        F64,
        &format!(
            "cannot change \"v\" of table \"m\" from integer to float: 9007199254740993 at time 20 {remedy}"
        ),
    );
    refused(
        "m v=\"12\" 10\nm v=\"twelve\" 20",
        I64,
        &format!(
            "cannot change \"v\" of table \"m\" from string to integer: \"twelve\" at time 20 {remedy}"
        ),
    );
    refused(
        "m v=0.5 7",
        PhysicalType::U64,
        &format!(
            "cannot change \"v\" of table \"m\" from float to unsigned: 0.5 at time 7 {remedy}"
        ),
    );
}

#[test]
fn a_value_that_was_overwritten_does_not_stand_in_the_way() {
    everywhere(
        |engine| write(engine, "m v=\"twelve\" 10"),
        |engine| {
            write(engine, "m v=\"12\" 10");
            engine.change_type("d", "public", "m", "v", I64).unwrap();
        },
        |_| {},
        |engine, told| assert_eq!(rows(engine), ["d.public.m time=10 v=12"], "{told}"),
    );
}

#[test]
fn a_snapshot_of_before_a_change_of_type_reads_what_it_saw() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=\"twelve\" 10");
    let snapshot = engine.snapshot();
    let request = scan_all(table(&engine, "m"));
    write(&engine, "m v=\"12\" 10");
    engine.change_type("d", "public", "m", "v", I64).unwrap();
    write(&engine, "m v=13i 20");
    let scan = snapshot.scan(&request).unwrap();
    let batch = scan.read(0).next().unwrap().unwrap();
    assert_eq!(batch.num_rows(), 1);
    let text = batch.column(1).as_string::<i32>();
    assert_eq!(text.value(0), "twelve");
}

#[test]
fn writers_lose_nothing_while_a_field_changes_its_type() {
    const ROWS: usize = 400;
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=0i 0");
    let written = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = session(&engine, "d");
            for n in 1..=ROWS {
                // Whichever type the field has when the batch is sequenced.
                while lines(&mut writer, &format!("m v={n}i {n}")).rows == 0
                    && lines(&mut writer, &format!("m v={n} {n}")).rows == 0
                {}
                written.store(n, Ordering::Release);
            }
        });
        for to in [F64, I64].into_iter().cycle() {
            engine.change_type("d", "public", "m", "v", to).unwrap();
            if written.load(Ordering::Acquire) == ROWS {
                break;
            }
        }
    });
    engine.change_type("d", "public", "m", "v", I64).unwrap();
    let expected: Vec<String> = (0..=ROWS)
        .map(|n| format!("d.public.m time={n} v={n}"))
        .collect();
    assert_eq!(rows(&engine), expected);
    engine.flush().unwrap();
    assert_eq!(rows(&engine), expected);
}

#[test]
fn compaction_rewrites_full_blocks_as_the_new_type_and_leaves_dropped_fields_out() {
    const ROWS: usize = 3000;
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    let body = |suffix: &str, from: usize| {
        let times = from..from + ROWS;
        let points = times.map(|n| format!("m,host=a v={n}{suffix},w={n} {n}\n"));
        points.collect::<String>()
    };
    write(&engine, &body("i", 0));
    engine.flush().unwrap();
    engine.change_type("d", "public", "m", "v", F64).unwrap();
    engine.drop_column("d", "public", "m", "w").unwrap();
    let stored = || {
        let mut kinds = Vec::new();
        for table in inspect(&disk, Path::new("/d")).unwrap().tables {
            let fields = table.columns.into_iter();
            let fields = fields.filter(|column| matches!(column.role, ColumnRole::Field(_)));
            kinds.extend(fields.map(|column| column.kind));
        }
        kinds
    };
    assert_eq!(stored(), [I64, F64], "pages stay as they are");
    write(&engine, &body(".0", ROWS).replace("w=", "x="));
    engine.flush().unwrap();
    engine.settle().unwrap();
    assert_eq!(stored(), [F64, F64], "v and x");
    let all = rows(&engine);
    assert_eq!(all.len(), 2 * ROWS);
    for (n, row) in all.iter().enumerate() {
        let x = if n < ROWS {
            String::new()
        } else {
            format!(" x={n}.0")
        };
        assert_eq!(row, &format!("d.public.m host=a time={n} v={n}.0{x}"));
    }
}

/// A disk that does something to the store once a segment is read.
#[derive(Clone, Default)]
struct Meddling {
    disk: MemoryDisk,
    deed: Arc<Mutex<Option<Deed>>>,
}

type Deed = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
struct MeddlingFile {
    file: Arc<dyn DiskFile>,
    meddling: Meddling,
}

impl std::fmt::Debug for Meddling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddling")
    }
}

impl DiskLayer for Meddling {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path)?;
        if path.extension().is_none_or(|ending| ending != "seg") {
            return Ok(file);
        }
        let meddling = self.clone();
        Ok(Arc::new(MeddlingFile { file, meddling }))
    }
}

impl FileLayer for MeddlingFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let deed = self.meddling.deed.lock().unwrap().take();
        if let Some(deed) = deed {
            deed();
        }
        self.file.read_at(buf, offset)
    }
}

#[test]
fn a_value_that_comes_while_the_others_are_read_is_looked_at_too() {
    for flushed in [false, true] {
        let disk = Meddling::default();
        let opened: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock = Arc::new(SystemClock);
        let engine = Engine::open(opened, clock, Path::new("/d"), Options::default());
        let engine = Arc::new(engine.unwrap());
        write(&engine, "m v=1i 10");
        engine.flush().unwrap();
        let writer = Arc::clone(&engine);
        *disk.deed.lock().unwrap() = Some(Box::new(move || {
            write(&writer, "m v=9007199254740993i 20");
            if flushed {
                writer.flush().unwrap();
            }
        }));
        let refusal = engine.change_type("d", "public", "m", "v", F64);
        assert!(disk.deed.lock().unwrap().is_none(), "the deed was done");
        let said = refusal.unwrap_err().to_string();
        assert!(said.contains("9007199254740993 at time 20"), "{said}");
        assert_eq!(table(&engine, "m").fields[0].kind, ColumnKind::Field(I64));
    }
}
