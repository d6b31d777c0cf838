//! Promise: a damaged store says so and names the file, or answers as before, or puts the file aside, lists it, and answers
//! without exactly its rows; never a panic, never another answer.
//!
//! One store is written on the real disk. Then each of its files is damaged, byte by byte, and the store is opened and
//! read whole. Where the mark beside the log is lost, and only there, damage to the end of the log may go unnoticed: what
//! stands after the last intact record looks as if a power cut had torn it; see `docs/format/log.md`. Then exactly those
//! records are gone, and no other.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

mod log;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Answer, everything};
use nilometer_codec::{PhysicalType, crc32c};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateRequest, DeleteRequest, Engine, Error, NewRelation, OnDamage, Options, Quarantined,
    RelationChange, RelationColumn, SystemClock,
};
use nilometer_lineproto::Precision;

/// Where every header has its format, its cipher and, by kind of file, its checksum.
const FORMAT_AT: usize = 8;
const CIPHER_AT: usize = 10;
const CHECKSUM_AT: [(&str, usize); 8] = [
    ("manifest", 32),
    (".seg", 40),
    (".idx", 40),
    (".def", 48),
    (".log", 48),
    (MARK, 48),
    (".key", 48),
    (".rel", 48),
];
const REPLACED: [&str; 3] = [".key", ".rel", ".def"];
const LOG_HEADER_BYTES: usize = 52;
/// The file beside the log that says how far it was durable.
const MARK: &str = "log/durable";

/// A store at rest: its files by their path inside the data directory.
struct Store {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// What it answers after each LSN of the live log.
    answers: BTreeMap<u64, Answer>,
    /// What it answers without the rows of a file that can be put aside.
    without: BTreeMap<PathBuf, Answer>,
    /// The last LSN that is in segments.
    flushed: u64,
}

/// What a store that opened says.
#[derive(Debug)]
struct Opened {
    answer: Answer,
    quarantined: Vec<Quarantined>,
}

/// Small log files, so that a few batches fill several.
fn options() -> Options {
    Options {
        log_bytes_max: 32 << 10,
        flush_idle_ms: 0,
        ..Options::default()
    }
}

/// Writes a body and a row of a relation, under a key.
fn write(engine: &Arc<Engine>, body: &str) -> u64 {
    engine.create_database("d").unwrap();
    let column = |name: &str, kind, nullable| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable,
    };
    let new = NewRelation {
        columns: vec![
            column("id", PhysicalType::U64, false),
            column("note", PhysicalType::Text, true),
        ],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    let before = engine.snapshot();
    let relation = before.relation("d", "public", "r").unwrap();
    let row = vec![(before.lsn() % 5).into(), body.get(..20).into()];
    let change = RelationChange::Replace(Arc::clone(relation.schema()), vec![row]);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&before.lsn().to_le_bytes());
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report =
        session.write_lines_with(body.as_bytes(), Precision::Nanosecond, &[change], Some(key));
    let report = report.unwrap();
    assert_eq!(report.rejected, []);
    report.lsn
}

/// Rows of three tables: a series with blocks of its own, small ones that share, all types, nulls, overwritten rows.
fn body(round: i64) -> String {
    use std::fmt::Write as _;
    let mut lines = String::new();
    for at in 0..150 {
        let time = round * 100 + at;
        writeln!(lines, "cpu,host=a usage={}.25,n={at}i {time}", at * round).unwrap();
    }
    for host in 0..8 {
        let time = round * 7 + host;
        writeln!(
            lines,
            "disk,host=h{host},rack=r{round} used={host}u,ok={},note=\"round {round}, {host}\" {time}",
            host % 2 == 0,
        )
        .unwrap();
        writeln!(lines, "disk,host=h{host} free={host}.5 {time}").unwrap();
    }
    writeln!(lines, "round{round} v=1 1").unwrap();
    lines
}

/// A store with rounds 1 and 2 in a segment each and those up to `rounds` in the log.
fn build(rounds: i64) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::open_dir(dir.path(), options()).unwrap());
    let mut flushed = 0;
    // By flush: the first id of a series that it does not have.
    let mut next_series = Vec::new();
    for round in 1..=2 {
        flushed = write(&engine, &body(round));
        engine.flush().unwrap();
        next_series.push(engine.metrics().series + 1);
    }
    let mut answers = BTreeMap::from([(flushed, answer_of(&engine).unwrap())]);
    for round in 3..=rounds {
        let lsn = write(&engine, &body(round));
        answers.insert(lsn, answer_of(&engine).unwrap());
    }
    // Once more, now without new names: definitions and their batch are one group, and damage to the newest group cannot
    // be told from a torn end.
    let lsn = write(&engine, &body(rounds));
    answers.insert(lsn, answer_of(&engine).unwrap());
    assert_eq!(engine.metrics().segments, 2);
    drop(engine);
    let mut store = Store {
        files: read_files(dir.path(), Path::new("")),
        answers,
        without: BTreeMap::new(),
        flushed,
    };
    let segments: Vec<PathBuf> = store.names(".seg").into_iter().cloned().collect();
    for (path, round) in segments.into_iter().zip(1..) {
        let answer = answer_without(store.answer(), round, rounds);
        store.without.insert(path, answer);
    }
    let keys: Vec<PathBuf> = store.names(".key").into_iter().cloned().collect();
    for path in keys {
        store.without.insert(path, store.answer().clone());
    }
    let mut first = 1;
    for (path, (round, next)) in store
        .names(".idx")
        .into_iter()
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
        .zip((1..).zip(next_series))
    {
        let answer = answer_without_series(store.answer(), round, first..next);
        store.without.insert(path, answer);
        first = next;
    }
    store
}

/// An answer without the rows of series that came in a round and have these ids.
fn answer_without_series(whole: &Answer, round: i64, ids: Range<u64>) -> Answer {
    let mut answer = whole.clone();
    let own = format!("r{round}");
    for (table, rows) in &mut answer {
        rows.retain(|row| match table.strip_prefix("aggregates of ") {
            Some(_) => {
                let id = row["key"].strip_prefix("(SeriesId(").unwrap();
                let id = id.split_once(')').unwrap().0.parse().unwrap();
                !ids.contains(&id)
            }
            None if table == "d.public.disk" => match row.get("rack") {
                Some(rack) => *rack != own,
                None => round != 1,
            },
            None if table == "d.public.cpu" => round != 1,
            None => *table != format!("d.public.round{round}"),
        });
    }
    answer.retain(|_, rows| !rows.is_empty());
    answer
}

/// Whether an answer is the whole one but for some rows, and has no other.
fn is_part_of(answer: &Answer, whole: &Answer) -> bool {
    answer.iter().all(|(table, rows)| {
        let all = whole.get(table).map(Vec::as_slice).unwrap_or_default();
        rows.iter().all(|row| all.contains(row))
    })
}

/// What the store of [`build`] answers if the rows of a round, and only they, were never written: a store in which the
/// first rounds have given everything the same ids, were deleted, and all but that one are written again.
fn answer_without(whole: &Answer, skipped: i64, rounds: i64) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::open_dir(dir.path(), options()).unwrap());
    for round in 1..=2 {
        write(&engine, &body(round));
    }
    let snapshot = engine.snapshot();
    for name in snapshot.tables("d", "public").unwrap() {
        let request = DeleteRequest {
            table: snapshot.table("d", "public", &name).unwrap(),
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
        };
        engine.delete(&request).unwrap();
    }
    for round in (1..=rounds)
        .filter(|round| *round != skipped)
        .chain([rounds])
    {
        write(&engine, &body(round));
    }
    let mut answer = answer_of(&engine).unwrap();
    // Relations have files of their own.
    answer.insert("d.public.r".to_owned(), whole["d.public.r"].clone());
    answer
}

fn read_files(root: &Path, inside: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(inside)).unwrap() {
        let entry = entry.unwrap();
        let path = inside.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files.extend(read_files(root, &path));
        } else if path != Path::new("lock") {
            files.insert(path, std::fs::read(entry.path()).unwrap());
        }
    }
    files
}

const ROOT: &str = "/d";

fn put(disk: &MemoryDisk, path: &Path, bytes: &[u8]) {
    let path = Path::new(ROOT).join(path);
    drop(disk.remove(&path));
    let file = disk.create(&path).unwrap();
    assert_eq!(file.write_at(bytes, 0).unwrap(), bytes.len());
}

/// Every row, and aggregates of every table, which come from other parts of segments.
fn answer_of(engine: &Arc<Engine>) -> Result<Answer, Error> {
    let mut answer = everything(engine)?;
    let snapshot = engine.snapshot();
    for name in snapshot.tables("d", "public").unwrap_or_default() {
        let table = snapshot.table("d", "public", &name).expect("it is listed");
        let tags = table.tags.len();
        let mut rows = Vec::new();
        for bucket_ns in [None, Some(3_600_000_000_000)] {
            let aggregation = snapshot.aggregate(&AggregateRequest {
                table: Arc::clone(&table),
                fields: (1 + tags..=tags + table.fields.len()).collect(),
                time: i64::MIN..=i64::MAX,
                tags: Vec::new(),
                bucket_ns,
            })?;
            // What of it came from where is another matter: a store that was opened again has its rows elsewhere.
            rows.extend(aggregation.read_all()?.rows);
        }
        // Tables without rows and fields without values are no difference.
        let shown = rows.iter().map(|row| {
            let names = table.fields.iter().map(|field| field.name.clone());
            let fields = names.zip(&row.fields).filter(|(_, known)| known.is_some());
            let mut shown: BTreeMap<String, String> = fields
                .map(|(name, known)| (name, format!("{known:?}")))
                .collect();
            let key = (row.series, row.bucket, row.rows);
            shown.insert("key".to_owned(), format!("{key:?}"));
            shown
        });
        let shown: Vec<_> = shown.collect();
        if !shown.is_empty() {
            answer.insert(format!("aggregates of {name}"), shown);
        }
    }
    Ok(answer)
}

/// Opens the store and reads all of it.
fn read_store(disk: &MemoryDisk, options: Options) -> Result<Opened, Error> {
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        Path::new(ROOT),
        options,
    )?;
    let engine = Arc::new(engine);
    Ok(Opened {
        answer: answer_of(&engine)?,
        quarantined: engine.quarantined().to_vec(),
    })
}

fn read_file(disk: &MemoryDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

impl Store {
    fn names(&self, ending: &str) -> Vec<&PathBuf> {
        let is_one = |path: &&PathBuf| path.to_str().is_some_and(|name| name.ends_with(ending));
        let mut names: Vec<&PathBuf> = self.files.keys().filter(is_one).collect();
        if REPLACED.contains(&ending) {
            // Each flush replaced the one before, which stays for a while and is read by nobody.
            names.drain(..names.len() - 1);
        }
        names
    }

    /// Files that an open reads.
    fn read_names(&self) -> Vec<&PathBuf> {
        let endings = CHECKSUM_AT.iter();
        endings.flat_map(|(ending, _)| self.names(ending)).collect()
    }

    fn answer(&self) -> &Answer {
        self.answers.values().next_back().expect("there is one")
    }

    /// What the store answers when the log ends with `lsn`.
    fn answer_at(&self, lsn: u64) -> &Answer {
        let lsn = lsn.max(self.flushed);
        let (_, answer) = self.answers.range(..=lsn).next_back().expect("flushed");
        answer
    }

    /// The store on a disk of its own, with one file replaced or, with `None`, removed.
    fn disk_with(&self, path: &Path, bytes: Option<&[u8]>) -> MemoryDisk {
        let disk = MemoryDisk::new();
        for (other, kept) in &self.files {
            if other != path {
                put(&disk, other, kept);
            }
        }
        if let Some(bytes) = bytes {
            put(&disk, path, bytes);
        }
        disk
    }

    /// What becomes of the store with one file replaced, if nothing may be put aside. After an error the file is put
    /// back: nothing else may have suffered.
    fn outcome(&self, path: &Path, bytes: Option<&[u8]>, what: &str) -> Result<Answer, Error> {
        let disk = self.disk_with(path, bytes);
        let refusing = Options {
            on_damage: OnDamage::Refuse,
            ..options()
        };
        let outcome = read_store(&disk, refusing);
        if outcome.is_err() {
            put(&disk, path, &self.files[path]);
            let again = read_store(&disk, options());
            let again = again.unwrap_or_else(|error| panic!("{what}, then undone: {error}"));
            assert!(
                again.answer == *self.answer(),
                "{what}, then undone: other rows"
            );
        }
        outcome.map(|opened| {
            assert_eq!(opened.quarantined, [], "{what}");
            opened.answer
        })
    }

    /// Checks that the damage is reported with the file's name, or makes no difference; and that a store that may put
    /// files aside opens exactly when only that file is damaged, and answers without it.
    fn assert_named_or_harmless(&self, path: &Path, bytes: Option<&[u8]>, what: &str) {
        match self.outcome(path, bytes, what) {
            Ok(answer) => assert!(answer == *self.answer(), "{what}: another answer"),
            Err(error) => {
                let name = Path::new(ROOT).join(path);
                let text = error.to_string();
                assert!(text.contains(name.to_str().unwrap()), "{what}: {text}");
                self.assert_put_aside(path, bytes, &text, what);
            }
        }
    }

    /// Whether a store that has put a file aside answers as it must.
    fn is_right_without(&self, path: &Path, answer: &Answer, aside: &Quarantined) -> bool {
        match aside.series {
            // Of an index file what reads is there, as a whole or but for some series.
            Some(0) => *answer == *self.answer(),
            Some(_) => is_part_of(answer, self.answer()),
            None => *answer == self.without[path],
        }
    }

    fn assert_put_aside(&self, path: &Path, bytes: Option<&[u8]>, refusal: &str, what: &str) {
        let disk = self.disk_with(path, bytes);
        let opened = match read_store(&disk, options()) {
            Ok(opened) => opened,
            // Damage inside a segment shows when it is read; what nothing can do without is never put aside.
            Err(error) => return assert_eq!(error.to_string(), refusal, "{what}"),
        };
        let name = Path::new(ROOT).join(path);
        let [aside] = opened.quarantined.as_slice() else {
            panic!("{what}: {:?}", opened.quarantined);
        };
        let is_right = self.is_right_without(path, &opened.answer, aside);
        assert!(is_right, "{what}: other rows are missing");
        assert_eq!(aside.file, name, "{what}");
        let is_named = refusal.contains(&aside.reason) || bytes.is_none();
        assert!(is_named, "{what}: {refusal}, {aside:?}");
        if let Some(bytes) = bytes {
            let kept = aside.kept.as_ref().unwrap();
            assert!(read_file(&disk, kept) == *bytes, "{what}: not kept");
            assert!(refusal.contains(&format!("byte {}:", aside.offset)));
        } else {
            assert_eq!(aside.kept, None, "{what}");
        }
        // It stays so, and even a store that is told to refuse opens now: nothing that it needs is damaged. Tried now and
        // then, because each open costs the same again.
        if !what.ends_with('0') && bytes.is_some() {
            return;
        }
        let refusing = Options {
            on_damage: OnDamage::Refuse,
            ..options()
        };
        let again = read_store(&disk, refusing).unwrap();
        assert!(again.answer == opened.answer, "{what}: not the same again");
        assert_eq!(again.quarantined, opened.quarantined, "{what}");
    }
}

/// Copies of `bytes` that are damaged at `at`: a flipped bit, zeros, the end cut off; with the bytes concerned.
fn damaged(bytes: &[u8], at: usize) -> Vec<(&'static str, Range<usize>, Vec<u8>)> {
    let mut flipped = bytes.to_vec();
    flipped[at] ^= 1 << (at % 8);
    let mut zeroed = bytes.to_vec();
    // Short and long stretches in turn.
    let end = (at + [8, 100, 5000][at % 3]).min(bytes.len());
    zeroed[at..end].fill(0);
    vec![
        ("flipped", at..at + 1, flipped),
        ("zeroed", at..end, zeroed),
        ("cut", at..bytes.len(), bytes[..at].to_vec()),
    ]
}

/// Tries every byte of each file whose name ends so.
fn assert_damage_is_named_or_harmless(store: &Store, ending: &str) {
    let names = store.names(ending);
    assert!(!names.is_empty(), "no {ending} in {:?}", store.files.keys());
    for path in names {
        let bytes = &store.files[path];
        for at in 0..bytes.len() {
            for (how, _, damaged) in damaged(bytes, at) {
                let what = format!("{} {how} at {at}", path.display());
                store.assert_named_or_harmless(path, Some(&damaged), &what);
            }
        }
        let what = format!("{} removed", path.display());
        let removed = store.outcome(path, None, &what);
        let error = removed.expect_err(&what).to_string();
        store.assert_put_aside(path, None, &error, &what);
    }
}

#[test]
fn damage_to_a_segment_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), ".seg");
}

#[test]
fn damage_to_definitions_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), ".def");
}

#[test]
fn damage_to_the_index_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), ".idx");
}

#[test]
fn damage_to_keys_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), ".key");
}

#[test]
fn damage_to_relations_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), ".rel");
}

#[test]
fn damage_to_the_manifest_is_named_or_harmless() {
    assert_damage_is_named_or_harmless(&build(6), "manifest");
}

/// The last edit looks torn when it is damaged, and the store goes back to the one before. When the log does not reach
/// back so far any more, that must not pass for a missing log file, and no segment may be thrown away over it.
#[test]
fn damage_to_the_last_edit_is_the_manifests_when_the_log_is_recycled() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::open_dir(dir.path(), options()).unwrap());
    let mut lsn = 0;
    for round in 1..=20 {
        lsn = write(&engine, &body(round));
    }
    engine.flush().unwrap();
    let flushed = lsn;
    for round in 21..=40 {
        lsn = write(&engine, &body(round));
    }
    let answers = BTreeMap::from([(lsn, answer_of(&engine).unwrap())]);
    drop(engine);
    let store = Store {
        files: read_files(dir.path(), Path::new("")),
        answers,
        without: BTreeMap::new(),
        flushed,
    };
    let path = Path::new("manifest");
    let bytes = &store.files[path];
    let last = bytes.windows(4).rposition(|magic| magic == b"NEDT");
    for at in last.unwrap()..bytes.len() {
        for (how, hit, damaged) in damaged(bytes, at) {
            if damaged.get(hit.clone()) == bytes.get(hit) {
                continue;
            }
            let what = format!("{how} at {at}");
            let outcome = store.outcome(path, Some(&damaged), &what);
            let Err(Error::Corrupt { path: named, .. }) = &outcome else {
                panic!("{what}: {outcome:?}");
            };
            // A manifest that ends between two edits has no trace of the second; the log knows that something is gone.
            let is_between = how == "cut" && Some(at) == last;
            let log = Path::new(ROOT).join("log");
            let is_named = *named == Path::new(ROOT).join(path);
            assert!(
                is_named || is_between && named.starts_with(&log),
                "{what}: {outcome:?}"
            );
        }
    }
}

/// The file with two bytes of its header replaced, under a right checksum.
fn with_header(store: &Store, path: &Path, at: usize, number: u16) -> Vec<u8> {
    let name = path.to_str().unwrap();
    let (_, checksum_at) = CHECKSUM_AT
        .into_iter()
        .find(|(ending, _)| name.ends_with(ending))
        .expect("every kind is listed");
    let mut bytes = store.files[path].clone();
    let checksum = |bytes: &[u8]| crc32c(0, &bytes[..checksum_at]).to_le_bytes();
    assert_eq!(
        bytes[checksum_at..checksum_at + 4],
        checksum(&bytes),
        "{name}"
    );
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
    let renewed = checksum(&bytes);
    bytes[checksum_at..checksum_at + 4].copy_from_slice(&renewed);
    bytes
}

#[test]
fn a_newer_format_is_refused_in_every_kind_of_file() {
    let store = build(6);
    for path in store.read_names() {
        let newer = with_header(&store, path, FORMAT_AT, 9);
        let outcome = store.outcome(path, Some(&newer), "newer");
        let Err(Error::NewerFormat {
            path: named,
            found,
            supported,
        }) = &outcome
        else {
            panic!("{}: {outcome:?}", path.display());
        };
        let ending = path.extension().unwrap_or_default();
        let written = match ending.to_str() {
            Some("log") => 8,
            Some("def") => 6,
            Some("rel" | "seg") => 5,
            Some("key") => 2,
            _ => 1,
        };
        assert_eq!((*found, *supported), (9, written), "{}", path.display());
        assert_eq!(*named, Path::new(ROOT).join(path));
    }
}

#[test]
fn an_unknown_cipher_is_refused_in_every_kind_of_file() {
    let store = build(6);
    for path in store.read_names() {
        let encrypted = with_header(&store, path, CIPHER_AT, 3);
        let outcome = store.outcome(path, Some(&encrypted), "encrypted");
        let Err(Error::UnknownCipher {
            path: named,
            cipher,
        }) = &outcome
        else {
            panic!("{}: {outcome:?}", path.display());
        };
        assert_eq!(*cipher, 3);
        assert_eq!(*named, Path::new(ROOT).join(path));
    }
}

#[test]
fn a_file_of_another_store_is_refused() {
    let (store, other) = (build(4), build(4));
    let names = store.read_names().into_iter();
    for path in names.filter(|path| path.starts_with("segments")) {
        let what = format!("{} of another store", path.display());
        let outcome = store.outcome(path, Some(&other.files[path]), &what);
        assert!(
            matches!(outcome, Err(Error::Corrupt { .. })),
            "{what}: {outcome:?}"
        );
        let refusal = outcome.unwrap_err().to_string();
        store.assert_put_aside(path, Some(&other.files[path]), &refusal, &what);
    }
}

/// The same on the disk that users have, at a few places of each file.
#[test]
fn damage_on_the_real_disk_is_named_or_harmless() {
    let store = build(6);
    for (path, bytes) in &store.files {
        if path.extension().is_some_and(|kind| kind == "log") {
            continue;
        }
        for at in (0..bytes.len()).step_by(bytes.len().div_ceil(8)) {
            for (how, _, damaged) in damaged(bytes, at) {
                let what = format!("{} {how} at {at}", path.display());
                let dir = tempfile::tempdir().unwrap();
                for (other, kept) in &store.files {
                    let target = dir.path().join(other);
                    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                    std::fs::write(target, if other == path { &damaged } else { kept }).unwrap();
                }
                let outcome = Engine::open_dir(dir.path(), options()).and_then(|engine| {
                    let engine = Arc::new(engine);
                    Ok((answer_of(&engine)?, engine.quarantined().to_vec()))
                });
                match outcome {
                    Ok((answer, aside)) if aside.is_empty() => {
                        assert!(answer == *store.answer(), "{what}: another answer");
                    }
                    Ok((answer, aside)) => {
                        let is_right = store.is_right_without(path, &answer, &aside[0]);
                        assert!(is_right, "{what}: other rows");
                        assert_eq!(aside[0].file, dir.path().join(path), "{what}");
                        let kept = aside[0].kept.as_ref().unwrap();
                        assert_eq!(std::fs::read(kept).unwrap(), damaged, "{what}");
                    }
                    Err(error) => {
                        let name = dir.path().join(path);
                        let text = error.to_string();
                        assert!(text.contains(name.to_str().unwrap()), "{what}: {text}");
                    }
                }
            }
        }
    }
}
