//! Promise: a data directory that a released version wrote opens and answers as it did then.
//!
//! This is the newest of the frozen stores, and the one that is made here: with `NILOMETER_GOLDEN_WRITE` set it is made
//! anew first. All of them are opened by `upgrade.rs`; `golden/README.md` says when one is added. What is expected is
//! written by hand (`WRITTEN`) or follows from the arithmetic that the rows came from (`support/rich.rs`).

#![expect(
    clippy::unwrap_used,
    clippy::big_endian_bytes,
    reason = "a failed unwrap is the report; payloads have numbers of both orders"
)]

mod pages;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Date32Array, Int64Array, RecordBatch, StringArray};

use crate::copy::copy;
use crate::rich::{self, assert_same};
use crate::support::{Answer, everything, hex, shown};
use nilometer_codec::Encoding;
use nilometer_engine::disk::{Disk, RealDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Check, ColumnKind, Declarations, Declared, DeclaredTable, DeclaredTime, Element, Engine,
    LogicalType, NewColumn, NewRelation, Options, PhysicalType, RelationChange, RelationColumn,
    SegmentReport, TableSettings, Tier, TimeKind, Value,
};
use nilometer_lineproto::Precision;

/// Database and lines of each write; the store is flushed after the first and the second.
const WRITES: [(&str, &str); 4] = [
    (
        "d",
        "weather,station=north,country=fi temp=-1.5,rain=0i,note=\"first snow\" 1000\n\
         weather,station=north,country=fi temp=-0.0 2000\n\
         weather,station=south temp=21.25,sunny=true 1000\n\
         meter,id=7 total=18446744073709551615u 86400000000000\n\
         meter,id=7 total=1u 1\n",
    ),
    (
        "d",
        "weather,station=north,country=fi note=\"overwritten\" 1000\n\
         weather,station=south temp=22.5,rain=-9223372036854775808i 1500\n\
         weather,station=\u{c5}land temp=1e300,note=\"a \\\"quoted\\\" word, \u{fc}ber\" -1000\n",
    ),
    (
        "d",
        "meter,id=8 total=2u 5\n\
         weather,station=south sunny=false 1000\n\
         wind speed=3.5 42\n",
    ),
    ("e", "wind speed=\"calm\" 43\n"),
];

/// What the lines above leave, by hand; the rest follows from arithmetic.
const WRITTEN: &str = include_str!("golden_store/by_hand.json");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/stores/18-device-pages")
}

fn open(dir: &Path) -> Arc<Engine> {
    Arc::new(Engine::open_dir(dir, Options::default()).unwrap())
}

/// Rows of `archive`, whose partition is cold, with values that stand outside of its pages.
const ARCHIVED: i64 = 1200;

fn archive(disk: &Arc<dyn Disk>, dir: &Path) -> Answer {
    let engine = rich::open(disk, dir, rich::options());
    engine.create_database("d").unwrap();
    let (mut lines, mut rows) = (String::new(), Vec::new());
    for n in 0..ARCHIVED {
        let (time, count) = (n * 10_000_000_000, n * n);
        let level = format!("{}.{:02}", n * 7919 % 31, n * 31 % 99 + 1);
        write!(lines, "archive level={level},count={count}i").unwrap();
        let mut row = BTreeMap::from([
            ("time".to_owned(), time.to_string()),
            ("count".to_owned(), count.to_string()),
            // As Rust writes floats: without zeros at their end.
            ("level".to_owned(), level.trim_end_matches('0').to_owned()),
        ]);
        if n % 400 == 0 {
            let report = format!("{n} of many, ").repeat(1500);
            write!(lines, ",report=\"{report}\"").unwrap();
            row.insert("report".to_owned(), report);
        }
        writeln!(lines, " {time}").unwrap();
        rows.push(row);
    }
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let report = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
    let settings = TableSettings {
        cold_after_ns: Some(86_400_000_000_000),
        ..TableSettings::default()
    };
    let set = engine.set_table("d", "public", "archive", settings);
    set.unwrap();
    engine.settle().unwrap();
    engine.close().unwrap();
    Answer::from([("d.public.archive".to_owned(), rows)])
}

/// Rows of `structures`, whose values have one length in a column.
const STRUCTURES: u16 = 300;

/// Bytes and text that stand in lanes.
fn structures(disk: &Arc<dyn Disk>, dir: &Path) -> Answer {
    let engine = rich::open(disk, dir, rich::options());
    let field = |name, kind| NewColumn {
        name,
        kind: ColumnKind::Field(kind),
    };
    let columns = [
        field("payload", PhysicalType::Bytes),
        field("label", PhysicalType::Text),
    ];
    let settings = TableSettings::default();
    let made = engine.create_table("d", "public", "structures", &columns, settings);
    assert!(made.unwrap());
    let (mut payloads, mut labels) = (Vec::new(), Vec::new());
    for n in 0..STRUCTURES {
        // Highest byte first, lowest byte first, a byte that is always the same, all bits of eight bytes.
        let mut payload = (i32::from(n % 7) - 3).to_be_bytes().to_vec();
        payload.extend((1000 + 2 * n).to_le_bytes());
        payload.push(b'#');
        let noise = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        payload.extend((noise ^ (noise >> 31)).to_be_bytes());
        payloads.push(payload);
        labels.push(format!("sensor {:03}, floor {}", n * 131 % 1000, n % 4));
    }
    let times: Vec<i64> = (0..i64::from(STRUCTURES)).collect();
    let bytes = payloads.iter().map(Vec::as_slice).collect();
    let texts = labels.iter().map(String::as_str).collect();
    let arrays: [(&str, ArrayRef); 3] = [
        ("time", Arc::new(Int64Array::from(times))),
        ("payload", Arc::new(BinaryArray::from_vec(bytes))),
        (
            "label",
            Arc::new(StringArray::from_iter_values::<&str, Vec<&str>>(texts)),
        ),
    ];
    let batch = RecordBatch::try_from_iter(arrays).unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let target = nilometer_engine::ingest::Target::table("structures");
    let replace = nilometer_engine::ingest::OnConflict::Replace;
    session.write_arrow(target, &batch, replace).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
    let rows = payloads.iter().zip(labels).enumerate();
    let rows = rows.map(|(time, (payload, label))| {
        BTreeMap::from([
            ("time".to_owned(), time.to_string()),
            ("payload".to_owned(), hex(payload)),
            ("label".to_owned(), label),
        ])
    });
    Answer::from([("d.public.structures".to_owned(), rows.collect())])
}

/// A flash page in a file. Returns its rows and those of the second page, which only the log has.
fn first_page(disk: &Arc<dyn Disk>, dir: &Path) -> Answer {
    let engine = rich::open(disk, dir, rich::options());
    pages::write(&engine, pages::SHIFTS[0]);
    engine.flush().unwrap();
    engine.close().unwrap();
    Answer::from([("d.public.climate".to_owned(), pages::rows())])
}

/// Columns of a store that have a page in lanes.
fn columns_in_lanes(dir: &Path) -> Vec<String> {
    let inspection = nilometer_engine::inspect::inspect(&RealDisk, dir).unwrap();
    let columns = inspection.tables.iter().flat_map(|table| &table.columns);
    let in_lanes = columns.filter(|column| {
        let mut encodings = column.encodings.iter();
        encodings.any(|used| used.encoding == Encoding::Transposed)
    });
    in_lanes.filter_map(|column| column.name.clone()).collect()
}

/// A value that a page of several values could not hold; the log has it.
fn largest(disk: &Arc<dyn Disk>, dir: &Path) -> Answer {
    let options = Options {
        value_bytes_max: 32 << 20,
        memory_bytes_max: 1 << 30,
        ..rich::options()
    };
    let engine = rich::open(disk, dir, options);
    let columns = [NewColumn {
        name: "report",
        kind: ColumnKind::Field(PhysicalType::Text),
    }];
    let settings = TableSettings::default();
    let made = engine.create_table("d", "public", "reports", &columns, settings);
    assert!(made.unwrap());
    let report = "0123456789abcdef".repeat((20 << 20) / 16);
    let arrays: [(&str, ArrayRef); 2] = [
        ("time", Arc::new(Int64Array::from(vec![7]))),
        ("report", Arc::new(StringArray::from(vec![report.as_str()]))),
    ];
    let rows = RecordBatch::try_from_iter(arrays).unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let target = nilometer_engine::ingest::Target::table("reports");
    let replace = nilometer_engine::ingest::OnConflict::Replace;
    session.write_arrow(target, &rows, replace).unwrap();
    let row = [("time", "7".to_owned()), ("report", shown(&report))];
    let row = row.map(|(name, value)| (name.to_owned(), value));
    Answer::from([("d.public.reports".to_owned(), vec![BTreeMap::from(row)])])
}

fn make(folder: &Path) {
    let dir = folder.join("data");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::create_dir_all(folder).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut expected = archive(&disk, &dir);
    expected.extend(structures(&disk, &dir));
    expected.extend(rich::make(&disk, &dir, rich::options()).now);
    expected.extend(first_page(&disk, &dir));
    let engine = rich::open(&disk, &dir, rich::options());
    declare(&engine);
    drop(engine);
    // Opening removes the files that the flush has replaced, whose headers nobody reads any more.
    let engine = rich::open(&disk, &dir, rich::options());
    // This one only the log has.
    let settings = TableSettings {
        cold_after_ns: Some(i64::MAX),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "cpu", settings).unwrap();
    for (database, lines) in WRITES {
        engine.create_database(database).unwrap();
        let mut session = Session::new(Arc::clone(&engine), database).unwrap();
        let report = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rejected, []);
    }
    rewrite(&engine, "e", "wind", "speed");
    expected.insert("d.public.notes".to_owned(), last_note(&engine));
    pages::write(&engine, pages::SHIFTS[1]);
    drop(engine);
    expected.extend(largest(&disk, &dir));
    let by_hand: Answer = serde_json::from_str(WRITTEN).unwrap();
    expected.extend(by_hand);
    let json = serde_json::to_string(&expected).unwrap();
    // A row a line, so that a difference can be read.
    let json = json.replace("},{", "},\n{").replace("],\"", "],\n\"");
    std::fs::write(folder.join("expected.json"), json + "\n").unwrap();
}

/// The number of the last row of `notes` that was deleted; no row has it again.
const LAST_NOTE: i64 = 4;

/// A relation without a key: two rows that are equal, one of nothing but nulls, and the last one, which goes again. The log has one more.
fn notes(engine: &Arc<Engine>) {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: true,
    };
    let new = NewRelation {
        columns: vec![
            column("word", PhysicalType::Text),
            column("weight", PhysicalType::F64),
        ],
        primary_key: Vec::new(),
        unique: Vec::new(),
    };
    assert!(
        engine
            .create_relation("d", "public", "notes", &new)
            .unwrap()
    );
    let reader = engine.snapshot().relation("d", "public", "notes").unwrap();
    let schema = reader.schema();
    let first = vec![
        note(Some("twice"), Some(0.5)),
        note(Some("twice"), Some(0.5)),
        note(None, None),
        note(Some("gone"), None),
    ];
    let gone = vec![vec![LAST_NOTE.into()]];
    for change in [
        RelationChange::Insert(Arc::clone(schema), first),
        RelationChange::Delete(Arc::clone(schema), gone),
    ] {
        engine.write_relations(&[change]).unwrap();
    }
}

fn note(word: Option<&str>, weight: Option<f64>) -> Vec<Value> {
    vec![word.into(), weight.into(), Value::Null]
}

/// Adds the one that only the log has. Returns all.
fn last_note(engine: &Arc<Engine>) -> Vec<BTreeMap<String, String>> {
    let reader = engine.snapshot().relation("d", "public", "notes").unwrap();
    let last = vec![note(Some("in the log"), Some(-2.0))];
    let last = RelationChange::Insert(Arc::clone(reader.schema()), last);
    engine.write_relations(&[last]).unwrap();
    let row = |cells: &[(&str, &str)]| {
        let cells = cells.iter();
        cells
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    vec![
        row(&[]),
        row(&[("weight", "-2.0"), ("word", "in the log")]),
        row(&[("weight", "0.5"), ("word", "twice")]),
        row(&[("weight", "0.5"), ("word", "twice")]),
    ]
}

fn check_notes(engine: &Arc<Engine>) {
    let reader = engine.snapshot().relation("d", "public", "notes").unwrap();
    let numbers = reader.rows().into_iter().map(|row| row[2].clone());
    let mut numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.sort();
    assert_eq!(numbers, ["1", "2", "3", "5"]);
}

/// Makes a field of a table with rows a tag: the table is another one that belongs to the same.
fn rewrite(engine: &Arc<Engine>, database: &str, table: &str, column: &str) {
    let columns = [column.to_owned()];
    let done = engine.rewrite_tags(database, "public", table, &columns, false, &|| false);
    done.unwrap();
}

fn declared() -> Declarations {
    let of = |of, position| Declared {
        of: Some(of),
        position: Some(position),
        ..Declared::default()
    };
    Declarations {
        table: DeclaredTable {
            time: Some(DeclaredTime {
                name: "day".to_owned(),
                kind: TimeKind::Date,
                column: Declared {
                    position: Some(2),
                    ..Declared::default()
                },
            }),
            checks: vec![Check {
                name: "positive".to_owned(),
                expression: "price > 0".to_owned(),
            }],
            comment: Some("what was sold".to_owned()),
            keys: vec![(0, "sold_pkey".to_owned())],
            has_empty_tags: true,
            kept_as: None,
            row_number: None,
        },
        columns: vec![
            of(LogicalType::Integer, 1),
            Declared {
                not_null: true,
                default: Some("0".to_owned()),
                comment: Some("each".to_owned()),
                ..of(
                    LogicalType::Numeric {
                        precision: 10,
                        scale: 2,
                    },
                    0,
                )
            },
            of(LogicalType::Varchar(20), 3),
            of(LogicalType::Array(Element::Integer), 4),
        ],
    }
}

/// A table and a relation with everything that can be declared: one in a definition file, one in the log.
fn declare(engine: &Arc<Engine>) {
    let columns = [
        ("cid", ColumnKind::Tag),
        ("price", ColumnKind::Field(PhysicalType::I64)),
        ("name", ColumnKind::Field(PhysicalType::Text)),
        ("sizes", ColumnKind::Field(PhysicalType::Text)),
    ];
    let columns = columns.map(|(name, kind)| NewColumn { name, kind });
    let settings = TableSettings::default();
    let made = engine.create_declared_table("d", "public", "sold", &columns, settings, &declared());
    assert!(made.unwrap());
    let arrays: [(&str, ArrayRef); 5] = [
        (
            "sizes",
            Arc::new(StringArray::from(vec!["{ 1, NULL}", "{}"])),
        ),
        ("price", Arc::new(StringArray::from(vec!["12.50", "1"]))),
        ("cid", Arc::new(Int64Array::from(vec![7, -8]))),
        ("day", Arc::new(Date32Array::from(vec![0, 1]))),
        ("name", Arc::new(StringArray::from(vec!["tea", "ink"]))),
    ];
    let rows = RecordBatch::try_from_iter(arrays).unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session.have_checked(true);
    let target = nilometer_engine::ingest::Target::table("sold");
    let replace = nilometer_engine::ingest::OnConflict::Replace;
    session.write_arrow(target, &rows, replace).unwrap();
    let new = NewRelation {
        columns: vec![RelationColumn {
            name: "id".to_owned(),
            kind: PhysicalType::I64,
            nullable: false,
        }],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    let declared = declared_relation(None);
    let made = engine.create_declared_relation("d", "public", "buyers", &new, declared);
    assert!(made.unwrap());
    let report = session.write_lines(b"moved kind=\"a\",v=1i 5", Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
    rewrite(engine, "d", "moved", "kind");
    notes(engine);
    engine.flush().unwrap();
    engine
        .declare_relation("d", "public", "buyers", |declared| {
            *declared = declared_relation(Some("who bought"));
        })
        .unwrap();
    engine
        .declare_column("d", "public", "sold", "name", |declared| {
            declared.comment = Some("in the log".to_owned());
        })
        .unwrap();
}

fn declared_relation(comment: Option<&str>) -> Declarations {
    Declarations {
        table: DeclaredTable {
            comment: comment.map(str::to_owned),
            keys: vec![(0, "buyers_pkey".to_owned())],
            ..DeclaredTable::default()
        },
        columns: vec![Declared {
            of: Some(LogicalType::SmallInt),
            ..Declared::default()
        }],
    }
}

fn check_declared(engine: &Arc<Engine>) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "sold").unwrap();
    let mut expected = declared();
    expected.columns[2].comment = Some("in the log".to_owned());
    assert_eq!(table.declared.as_deref(), Some(&expected.table));
    let columns = table.tags.iter().chain(&table.fields);
    let found: Vec<Declared> = columns
        .map(|column| column.declared.as_deref().cloned().unwrap_or_default())
        .collect();
    assert_eq!(found, expected.columns);
    // One in a definition file, one in the log at first.
    for (database, name, tag) in [("d", "moved", "kind"), ("e", "wind", "speed")] {
        let table = snapshot.table(database, "public", name).unwrap();
        assert!(table.kept_id() < table.id, "{name}");
        assert_eq!(table.tags[0].name, tag);
    }
    let reader = snapshot.relation("d", "public", "buyers").unwrap();
    let expected = declared_relation(Some("who bought"));
    assert_eq!(reader.schema().declared.as_deref(), Some(&expected));
}

#[test]
fn the_golden_store_answers_as_it_did() {
    if std::env::var_os("NILOMETER_GOLDEN_WRITE").is_some() {
        make(&folder());
    }
    let json = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let expected: Answer = serde_json::from_str(&json).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("data");
    copy(&folder().join("data"), &dir);
    let in_lanes = columns_in_lanes(&dir);
    for column in ["payload", "label"] {
        assert!(in_lanes.iter().any(|it| it == column), "{in_lanes:?}");
    }

    let engine = open(&dir);
    assert_same(
        &everything(&engine).unwrap(),
        &expected,
        "as it was written",
    );
    let metrics = engine.metrics();
    assert!(
        metrics.segments >= 2 && metrics.partitions > 0,
        "{metrics:?}"
    );
    assert!(metrics.tombstones > 0 && metrics.keys > 0 && metrics.relation_rows > 0);
    assert!(metrics.head_rows > 0, "the log has rows of its own");
    check_declared(&engine);
    check_notes(&engine);
    let segments = engine.snapshot().segments();
    let of_pages = |it: &&SegmentReport| it.format == pages::FORMAT;
    assert_eq!(segments.iter().filter(of_pages).count(), 1);
    let cold: Vec<u64> = segments
        .iter()
        .filter(|it| it.tier == Tier::Cold)
        .map(|it| it.rows)
        .collect();
    assert_eq!(cold, [ARCHIVED.unsigned_abs()]);
    let table = |name| engine.snapshot().table("d", "public", name).unwrap();
    let ages = ["archive", "cpu"].map(|name| table(name).settings.cold_after_ns);
    assert_eq!(ages, [Some(86_400_000_000_000), Some(i64::MAX)]);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&dir);
    check_declared(&engine);
    check_notes(&engine);
    assert_eq!(engine.metrics().head_rows, 0);
    let segments = engine.snapshot().segments();
    assert_eq!(segments.iter().filter(of_pages).count(), 2);
    assert_same(&everything(&engine).unwrap(), &expected, "all in segments");
}
