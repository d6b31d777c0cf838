//! Promise: a repaired store opens and is in order; whatever reads back was written, value by value, is there once and was not
//! deleted; and what is missing is what the repair said, table by table. A store that cannot be repaired is refused and
//! stays as it is.
//!
//! A store with every kind of file and known contents is damaged at one place, drawn from a seed, and repaired. The
//! survival ledger does the same to a whole server (`mutations`), which cannot tell one lost row from another; here every
//! row is accounted for.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rich::{self, Contents};
use crate::support::{Answer, everything};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Engine, Error, Options, Quarantined, Repaired, SystemClock};

const DIR: &str = "/d";
/// Mutations of each file.
const OF_EACH_FILE: u64 = 24;
const SEED: u64 = 0x6e69_6c6f_6d65_7465;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A seed gives the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

fn read_all(disk: &Arc<dyn Disk>) -> Files {
    let mut files = Files::new();
    for dir in ["/d", "/d/log", "/d/segments"] {
        for name in disk.list(Path::new(dir)).unwrap() {
            let path = Path::new(dir).join(&name);
            if path.extension().is_some() || name == "manifest" {
                let file = disk.open(&path).unwrap();
                let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
                assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
                files.insert(path, bytes);
            }
        }
    }
    files
}

fn disk_of(files: &Files) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    for dir in ["/d", "/d/log", "/d/segments"] {
        disk.create_dir_all(Path::new(dir)).unwrap();
    }
    for (path, bytes) in files {
        let file = disk.create(path).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            at += file.write_at(&bytes[at..], at as u64).unwrap();
        }
    }
    disk
}

/// Changes one file; says how.
fn mutate(files: &mut Files, path: &Path, numbers: &mut Numbers) -> String {
    let size = files[path].len() as u64;
    let at = usize::try_from(numbers.below(size)).unwrap();
    let other = files
        .keys()
        .filter(|it| *it != path && it.extension() == path.extension());
    let others: Vec<Vec<u8>> = other.map(|it| files[it].clone()).collect();
    let bytes = files.get_mut(path).unwrap();
    match numbers.below(14) {
        0..=6 => {
            let bit = numbers.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        7..=8 => {
            let start = at - at % 512;
            let end = (start + 512).min(bytes.len());
            bytes[start..end].fill(0);
            format!("zeros from {start} to {end}")
        }
        9..=10 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        11 => {
            let more = 1 + numbers.below(600);
            bytes.extend((0..more).map(|_| numbers.below(256).to_le_bytes()[0]));
            format!("{more} bytes behind it")
        }
        12 if !others.is_empty() => {
            let one = usize::try_from(numbers.below(others.len() as u64)).unwrap();
            bytes.clone_from(&others[one]);
            "another file of its kind in its place".to_owned()
        }
        _ => {
            files.remove(path);
            "removed".to_owned()
        }
    }
}

fn options() -> Options {
    Options {
        scrub_days: 0,
        ..rich::options()
    }
}

/// What a store without the log's last batches would answer, by how many of them there are.
struct Base {
    files: Files,
    contents: Contents,
}

fn base() -> Base {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let contents = rich::make(&disk, Path::new(DIR), options());
    Base {
        files: read_all(&disk),
        contents,
    }
}

fn rows_by_table(files: &[Quarantined]) -> BTreeMap<String, u64> {
    let mut rows = BTreeMap::new();
    for table in files.iter().flat_map(|file| &file.tables) {
        if let (Some(name), Some(n)) = (&table.name, table.rows) {
            *rows.entry(name.clone()).or_insert(0) += n;
        }
    }
    rows
}

impl Base {
    /// Whatever is there was written as it is, is there once, and was not deleted.
    fn assert_true(&self, answer: &Answer, what: &str, deletes_hold: bool) {
        for (table, rows) in answer {
            let ever = &self.contents.ever[table];
            let set: BTreeSet<_> = rows.iter().cloned().collect();
            assert_eq!(set.len(), rows.len(), "{what}: {table} has a row twice");
            if let Some(strange) = set.iter().find(|row| !ever.contains(*row)) {
                panic!("{what}: {table} has {strange:?}, which nobody wrote");
            }
            let mut keys = BTreeSet::new();
            let key = |row: &BTreeMap<String, String>| {
                ["id", "host", "time"].map(|name| row.get(name).cloned())
            };
            assert!(
                rows.iter().all(|row| keys.insert(key(row))),
                "{what}: {table}"
            );
            let deleted = self.contents.deleted.get(table);
            let mut back = rows
                .iter()
                .filter(|row| deleted.is_some_and(|it| it.contains(*row)));
            if let (true, Some(back)) = (deletes_hold, back.next()) {
                panic!("{what}: {table} has {back:?} again, which was deleted");
            }
        }
    }

    fn missing(&self, answer: &Answer) -> BTreeMap<String, u64> {
        let mut missing = BTreeMap::new();
        for (table, rows) in &self.contents.now {
            let there: BTreeSet<_> = answer.get(table).into_iter().flatten().collect();
            let n = rows.iter().filter(|row| !there.contains(row)).count();
            if n > 0 {
                missing.insert(table.clone(), n as u64);
            }
        }
        missing
    }

    /// Rows that may be in a file and in no answer: deleted ones, and those that newer ones overwrite.
    fn hidden_in(&self, table: &str) -> u64 {
        let deleted = self.contents.deleted.get(table).map_or(0, BTreeSet::len);
        let ever = self.contents.ever.get(table).map_or(0, BTreeSet::len);
        let now = self.contents.now.get(table).map_or(0, Vec::len);
        deleted.max(ever.saturating_sub(now)) as u64
    }

    /// What is missing is what the repair said.
    fn assert_accounted(&self, path: &Path, answer: &Answer, repaired: &Repaired, what: &str) {
        let missing = self.missing(answer);
        let reported = rows_by_table(&repaired.put_aside);
        match path.extension().and_then(|it| it.to_str()) {
            Some("seg") => {
                let unknown = repaired.put_aside.iter().filter(|it| it.tables.is_empty());
                let unknown: u64 = unknown.filter_map(|it| it.rows).sum();
                let (mut lost, mut all_said) = (0, unknown);
                for table in self.contents.now.keys() {
                    let n = missing.get(table).copied().unwrap_or(0);
                    let said = reported.get(table).copied().unwrap_or(0);
                    assert!(
                        n <= said + unknown,
                        "{what}: {table} lacks {n}, said {said}"
                    );
                    if unknown == 0 {
                        let most = n + self.hidden_in(table);
                        assert!(said <= most, "{what}: {table} lacks {n}, said {said}");
                    }
                    lost += n;
                    all_said += said;
                }
                let tables = self.contents.now.keys();
                let hidden: u64 = tables.map(|table| self.hidden_in(table)).sum();
                assert!(
                    (lost..=lost + hidden).contains(&all_said),
                    "{what}: {lost} rows are missing, said {all_said}"
                );
            }
            // Its rows stay where they are; they are in no answer, for want of their tags.
            Some("idx") => {
                let series: u64 = repaired.put_aside.iter().filter_map(|it| it.series).sum();
                let whole = repaired.put_aside.iter().any(|it| it.series.is_none());
                assert!(
                    missing.is_empty() || series > 0 || whole,
                    "{what}: {missing:?} are missing, and no series is reported as lost"
                );
            }
            Some("log") => Self::assert_log(&missing, repaired, what),
            _ => assert_eq!(missing, BTreeMap::new(), "{what}"),
        }
    }

    /// Only what the log alone had may be missing: as said, or, at its very end, as after a crash.
    fn assert_log(missing: &BTreeMap<String, u64>, repaired: &Repaired, what: &str) {
        // In this order: a delete, 150 rows of cpu, 40 of small, 60 of places.
        let batches = [
            ("d.public.cpu", 150),
            ("d.public.small", 40),
            ("d.public.places", 60),
        ];
        let lost = batches
            .iter()
            .position(|(table, _)| missing.contains_key(*table));
        let lost = batches
            .get(lost.unwrap_or(batches.len())..)
            .unwrap_or_default();
        let expected: BTreeMap<String, u64> = lost
            .iter()
            .map(|(table, rows)| ((*table).to_owned(), *rows))
            .collect();
        assert_eq!(
            *missing, expected,
            "{what}: whole batches, from one to the last"
        );
        let lsns = repaired.put_aside.iter().filter_map(|it| it.lsns);
        if let Some((first, last)) = lsns.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            // As far as the records say; each batch here is one.
            let n = last - first + 1;
            let (least, most) = (lost.len() as u64, lost.len() as u64 + 1);
            assert!(
                (least.saturating_sub(1)..=most).contains(&n),
                "{what}: LSNs {first} to {last}, missing {missing:?}"
            );
        }
    }
}

/// What a mutation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    NotNoticed,
    Repaired,
    Refused,
}

fn try_one(base: &Base, path: &Path, numbers: &mut Numbers) -> Fate {
    let mut files = base.files.clone();
    let how = mutate(&mut files, path, numbers);
    let what = format!("{}: {how}", path.display());
    if files == base.files {
        return Fate::NotNoticed;
    }
    let disk = disk_of(&files);
    let repaired = match Engine::repair(&disk, Arc::new(SystemClock), Path::new(DIR), options()) {
        Ok(repaired) => repaired,
        Err(error) => {
            let may_be = match path.extension().and_then(|it| it.to_str()) {
                Some("def" | "rel") | None => true,
                // A log whose beginning is lost without a trace may as well be a manifest that lost its end.
                Some("log") => matches!(error, Error::Corrupt { .. }),
                _ => false,
            };
            assert!(may_be, "{what}: {error}");
            assert!(
                matches!(
                    error,
                    Error::Corrupt { .. } | Error::NotAStore { .. } | Error::Io { .. }
                ),
                "{what}: {error}"
            );
            assert!(read_all(&disk) == files, "{what}: refused, and yet changed");
            return Fate::Refused;
        }
    };
    assert_eq!(repaired.left, [], "{what}");
    let verified = Engine::verify(&disk, Path::new(DIR)).unwrap();
    assert_eq!(verified.damage, [], "{what}");
    let engine = rich::open(&disk, Path::new(DIR), options());
    let answer = everything(&engine).unwrap();
    let is_log = path.extension().is_some_and(|it| it == "log");
    base.assert_true(&answer, &what, !is_log);
    base.assert_accounted(path, &answer, &repaired, &what);
    for file in &repaired.put_aside {
        assert!(
            engine.quarantined().iter().any(|it| it.file == file.file),
            "{what}: {file:?}"
        );
    }
    engine.settle().unwrap();
    rich::assert_same(&everything(&engine).unwrap(), &answer, &what);
    if repaired.found.is_empty() {
        Fate::NotNoticed
    } else {
        Fate::Repaired
    }
}

#[test]
fn a_repaired_store_has_nothing_but_what_was_written_and_lacks_nothing_but_what_was_said() {
    let base = base();
    let mut fates: BTreeMap<(String, Fate), u32> = BTreeMap::new();
    for (n, path) in base.files.keys().enumerate() {
        let ending = path.extension().map(|it| it.to_string_lossy().into_owned());
        for round in 0..OF_EACH_FILE {
            let mut numbers = Numbers(SEED ^ (n as u64) << 32 ^ round);
            let fate = try_one(&base, path, &mut numbers);
            let ending = ending.clone().unwrap_or_else(|| "manifest".to_owned());
            *fates.entry((ending, fate)).or_default() += 1;
        }
    }
    for kind in ["seg", "idx", "key"] {
        let repaired = fates.get(&(kind.to_owned(), Fate::Repaired));
        assert!(repaired.is_some_and(|&n| n > 10), "{kind}: {fates:?}");
        assert_eq!(
            fates.get(&(kind.to_owned(), Fate::Refused)),
            None,
            "{fates:?}"
        );
    }
    for kind in ["def", "rel"] {
        let refused = fates.get(&(kind.to_owned(), Fate::Refused));
        assert!(refused.is_some_and(|&n| n > 10), "{kind}: {fates:?}");
    }
}

#[test]
fn a_store_in_order_is_not_touched_by_a_repair() {
    let base = base();
    let disk = disk_of(&base.files);
    let repaired = Engine::repair(&disk, Arc::new(SystemClock), Path::new(DIR), options());
    assert_eq!(repaired.unwrap(), Repaired::default());
    assert!(read_all(&disk) == base.files);
}

#[test]
fn a_damaged_page_costs_the_rows_of_its_block_and_no_others() {
    let base = base();
    let segments = base
        .files
        .keys()
        .filter(|it| it.extension().is_some_and(|it| it == "seg"));
    let largest = segments.max_by_key(|it| base.files[*it].len()).unwrap();
    let mut files = base.files.clone();
    // The first page of the file.
    files.get_mut(largest).unwrap()[70] ^= 1;
    let disk = disk_of(&files);
    let repaired = Engine::repair(&disk, Arc::new(SystemClock), Path::new(DIR), options()).unwrap();
    let [put_aside] = &repaired.put_aside[..] else {
        panic!("{repaired:?}");
    };
    assert_eq!((&put_aside.file, put_aside.offset), (largest, 64));
    let rows = put_aside.rows.unwrap();
    assert!((1..=1024).contains(&rows), "{rows} rows");
    let engine = rich::open(&disk, Path::new(DIR), options());
    let missing: u64 = base.missing(&everything(&engine).unwrap()).values().sum();
    assert!(
        missing <= rows && missing + 150 >= rows,
        "{missing} of {rows}"
    );
}
