//! Damage to the log: named, unless nothing intact follows and no mark stands beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Engine, Error, OnDamage, Options, Quarantined};

use super::{
    LOG_HEADER_BYTES, MARK, Store, answer_of, body, build, damaged, options, read_file, read_files,
    read_store, write,
};
use crate::support::Answer;

/// A record of the log as the format page draws it.
#[derive(Debug, Clone)]
struct LogRecord {
    path: PathBuf,
    lsn: u64,
    durable: u64,
    bytes: Range<usize>,
}

/// The records of the files that recovery needs, in LSN order; the first file starts with some that it does not.
fn log_records(store: &Store) -> Vec<LogRecord> {
    let mut records = Vec::new();
    for path in store.names(".log") {
        let bytes = &store.files[path];
        let mut in_file = Vec::new();
        let mut at = 512;
        while bytes.get(at..at + 4) == Some(b"NREC") {
            let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
            let lsn = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
            let durable = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap());
            let end = at + 40 + length;
            in_file.push(LogRecord {
                path: path.clone(),
                lsn,
                durable,
                bytes: at..end,
            });
            at = end.next_multiple_of(8);
        }
        if in_file.iter().any(|record| record.lsn > store.flushed) {
            records.append(&mut in_file);
        }
    }
    assert!(records.is_sorted_by_key(|record| record.lsn));
    records
}

/// What damage to the log must lead to.
#[derive(Debug, PartialEq)]
enum Expected {
    /// Nothing that counts was hit.
    TheSame,
    /// An intact record, or the mark, says that the one that was hit was durable.
    Error,
    /// Nothing says so, and nothing intact stands after what was hit: the log ends with this LSN.
    EndsWith(u64),
}

fn expected(records: &[LogRecord], store: &Store, path: &Path, hit: &Range<usize>) -> Expected {
    let overlaps = |bytes: &Range<usize>| bytes.start < hit.end && hit.start < bytes.end;
    let is_hit = |record: &&LogRecord| record.path == path && overlaps(&record.bytes);
    let Some(first) = first_hit(records, store.flushed, path, hit) else {
        return Expected::TheSame;
    };
    if store.files.contains_key(Path::new(MARK)) {
        return Expected::Error;
    }
    let mut later = records.iter().filter(|record| record.lsn >= first.lsn);
    // One of the same group knows nothing of the first.
    let speaks = |it: &LogRecord| it.path != first.path || it.durable >= first.lsn;
    if later.any(|record| !is_hit(&record) && speaks(record)) {
        return Expected::Error;
    }
    Expected::EndsWith(first.lsn - 1)
}

/// Told to end a damaged log before the damage, the store is what it was before the first record that was hit, and has
/// put aside what it gave up.
fn assert_log_ends_before(store: &Store, disk: &MemoryDisk, first: &LogRecord, what: &str) -> bool {
    let repairing = Options {
        on_log_damage: OnDamage::Quarantine,
        ..options()
    };
    let opened = match read_store(disk, repairing) {
        Ok(opened) => opened,
        // Without a trace of its beginning it may as well be the manifest's end that is lost, and nothing is given up.
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("segments end at"), "{what}: {text}");
            return false;
        }
    };
    let before = store.answer_at(first.lsn - 1);
    assert!(opened.answer == *before, "{what}: not up to {}", first.lsn);
    let named = |it: &Quarantined| match &it.kept {
        Some(kept) => read_file(disk, kept).len() as u64 == it.bytes,
        None => disk.open(&it.file).is_err() && it.reason.contains("does not read"),
    };
    assert!(!opened.quarantined.is_empty(), "{what}: not listed");
    assert!(
        opened.quarantined.iter().all(named),
        "{what}: not kept: {:?}",
        opened.quarantined
    );
    let again = read_store(disk, options()).unwrap();
    assert!(again.answer == *before, "{what}: not the same again");
    assert_eq!(again.quarantined, opened.quarantined, "{what}");
    true
}

/// The first record that is hit and not in segments, if any is.
fn first_hit<'a>(
    records: &'a [LogRecord],
    flushed: u64,
    path: &Path,
    hit: &Range<usize>,
) -> Option<&'a LogRecord> {
    let overlaps = |bytes: &Range<usize>| bytes.start < hit.end && hit.start < bytes.end;
    let is_header = overlaps(&(0..LOG_HEADER_BYTES));
    let mut of_file = records
        .iter()
        .filter(|it| it.path == path && it.lsn > flushed);
    of_file.find(|record| is_header || overlaps(&record.bytes))
}

fn assert_log_outcome(
    store: &Store,
    expected: &Expected,
    outcome: Result<Answer, Error>,
    what: &str,
) {
    match (expected, outcome) {
        (Expected::TheSame, Ok(answer)) => {
            assert!(answer == *store.answer(), "{what}: another answer");
        }
        (Expected::EndsWith(lsn), Ok(answer)) => {
            assert!(answer == *store.answer_at(*lsn), "{what}: not up to {lsn}");
        }
        // The hole in the log is found by what stands before or after it, so any of its files may be named.
        (Expected::Error, Err(error)) => {
            assert!(error.to_string().contains("/d/log/"), "{what}: {error}");
        }
        (_, Ok(_)) => panic!("{what}: not noticed, expected {expected:?}"),
        (_, Err(error)) => panic!("{what}: {error}, expected {expected:?}"),
    }
}

fn without_mark(mut store: Store) -> Store {
    store.files.remove(Path::new(MARK)).expect("there is one");
    store
}

/// The survival ledger overwrote 512 bytes over the end of one group and the header of the last: 96 acknowledged points were
/// gone and nobody said so, because the only record that spoke for the lost group was lost with it.
#[test]
fn damage_to_the_log_is_an_error_wherever_the_mark_stands() {
    let seen = damage_everywhere(&build(26));
    assert!(seen[0] > 100 && seen[1] > 100 && seen[2] == 0, "{seen:?}");
}

#[test]
fn without_its_mark_damage_to_the_log_is_an_error_unless_nothing_intact_follows() {
    let seen = damage_everywhere(&without_mark(build(26)));
    assert!(seen.iter().all(|&cases| cases > 100), "{seen:?}");
}

/// Returns how many cases made no difference, were errors, and ended the log.
fn damage_everywhere(store: &Store) -> [usize; 3] {
    let records = log_records(store);
    let last = records.last().expect("a live log");
    let live: BTreeSet<&PathBuf> = records.iter().map(|record| &record.path).collect();
    assert!(live.len() >= 3, "{live:?}");
    let (mut seen, mut ended) = ([0; 3], 0);
    for path in store.names(".log") {
        let bytes = &store.files[path];
        for at in 0..bytes.len() {
            // Everywhere in the headers and near the end, here and there elsewhere.
            let is_dense = at < LOG_HEADER_BYTES || (*path == last.path && at + 200 > bytes.len());
            if !is_dense && at % 31 != 0 {
                continue;
            }
            for (how, hit, damaged) in damaged(bytes, at) {
                let what = format!("{} {how} at {at}", path.display());
                let changed =
                    damaged.len() != bytes.len() || damaged[hit.clone()] != bytes[hit.clone()];
                let hit = if changed { hit } else { 0..0 };
                let outcome = store.outcome(path, Some(&damaged), &what);
                let expected = expected(&records, store, path, &hit);
                seen[match expected {
                    Expected::TheSame => 0,
                    Expected::Error => 1,
                    Expected::EndsWith(_) => 2,
                }] += 1;
                assert_log_outcome(store, &expected, outcome, &what);
                let first = first_hit(&records, store.flushed, path, &hit);
                if let (Expected::Error, Some(first), 0) = (&expected, first, at % 7) {
                    let disk = store.disk_with(path, Some(&damaged));
                    ended += usize::from(assert_log_ends_before(store, &disk, first, &what));
                }
            }
        }
        let what = format!("{} removed", path.display());
        let outcome = store.outcome(path, None, &what);
        let expected = expected(&records, store, path, &(0..bytes.len()));
        assert_log_outcome(store, &expected, outcome, &what);
        if expected == Expected::Error && *path == last.path {
            let first = records.iter().find(|record| record.path == *path).unwrap();
            let disk = store.disk_with(path, None);
            assert!(assert_log_ends_before(store, &disk, first, &what));
        }
    }
    assert!(ended > 100, "{ended}");
    seen
}

/// A mark that is damaged, lost or that of an earlier time says less, and never anything that is not so.
#[test]
fn damage_to_the_mark_makes_no_difference() {
    let store = build(6);
    let path = Path::new(MARK);
    let bytes = &store.files[path];
    assert_eq!(bytes.len(), 1024);
    for at in 0..bytes.len() {
        for (how, _, damaged) in damaged(bytes, at) {
            let what = format!("{how} at {at}");
            let answer = store.outcome(path, Some(&damaged), &what).unwrap();
            assert!(answer == *store.answer(), "{what}");
        }
    }
    for other in [None, build(4).files.get(path), build(9).files.get(path)] {
        let answer = store.outcome(path, other.map(Vec::as_slice), "another");
        assert!(answer.unwrap() == *store.answer(), "{other:?}");
    }
}

/// The survival ledger took 36 bytes out of the middle of a log file. What stood behind them moved up to where no writer
/// puts a record, replay looked for records at multiples of eight only, and so it saw a torn tail and left out ten
/// batches that had been acknowledged, without a word.
#[test]
fn bytes_missing_or_added_in_the_middle_of_the_log_are_noticed_however_many() {
    let store = without_mark(build(26));
    let records = log_records(&store);
    let mut cases = 0;
    for (at, record) in records.iter().enumerate() {
        let speaks = |it: &LogRecord| it.path != record.path || it.durable >= record.lsn;
        let is_needed = record.lsn > store.flushed;
        if !is_needed || !records.iter().skip(at + 1).any(speaks) {
            continue;
        }
        let bytes = &store.files[&record.path];
        let middle = record.bytes.start + record.bytes.len() / 2;
        for n in [1, 3, 4, 7, 8, 12, 36] {
            let shorter = [&bytes[..middle], &bytes[(middle + n).min(bytes.len())..]].concat();
            let longer = [&bytes[..middle], &vec![0x5a; n][..], &bytes[middle..]].concat();
            for (how, damaged) in [("missing", shorter), ("added", longer)] {
                let what = format!("LSN {}: {n} bytes {how}", record.lsn);
                let outcome = store.outcome(&record.path, Some(&damaged), &what);
                assert_log_outcome(&store, &Expected::Error, outcome, &what);
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "{cases}");
}

#[test]
fn after_a_clean_close_the_log_holds_nothing_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::open_dir(dir.path(), options()).unwrap());
    let mut lsn = 0;
    for round in 1..=4 {
        lsn = write(&engine, &body(round));
    }
    engine.close().unwrap();
    let store = Store {
        answers: BTreeMap::from([(lsn, answer_of(&engine).unwrap())]),
        without: BTreeMap::new(),
        flushed: lsn,
        files: {
            drop(engine);
            read_files(dir.path(), Path::new(""))
        },
    };
    for path in store.names(".log") {
        let bytes = &store.files[path];
        for at in (0..bytes.len()).step_by(17) {
            for (how, _, damaged) in damaged(bytes, at) {
                let what = format!("{} {how} at {at}", path.display());
                store.assert_named_or_harmless(path, Some(&damaged), &what);
            }
        }
        let without = store.outcome(path, None, "removed").unwrap();
        assert!(without == *store.answer(), "{} was needed", path.display());
    }
}
