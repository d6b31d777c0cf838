//! Promise: a damaged index file is found, named and put aside, what of it reads is served from a new one, new rows are
//! taken, and no series ever gets another's rows or another's id; whatever crash comes in between.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "a failed unwrap is the report, and bodies are made once"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Answer, everything};
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error, Maintained, OnDamage, Options, SystemClock};
use nilometer_lineproto::Precision;

fn options() -> Options {
    Options {
        flush_idle_ms: 0,
        // Every look-up reads the file.
        index_cache_bytes_max: 0,
        memo_bytes_max: 1 << 20,
        ..Options::default()
    }
}

fn open_with(disk: &Arc<dyn Disk>, options: Options) -> Result<Arc<Engine>, Error> {
    let clock = Arc::new(SystemClock);
    Engine::open(Arc::clone(disk), clock, Path::new("/d"), options).map(Arc::new)
}

fn open(disk: &Arc<dyn Disk>) -> Arc<Engine> {
    open_with(disk, options()).unwrap()
}

fn write(engine: &Arc<Engine>, body: &str) -> Result<(), Error> {
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!(report.rejected, []);
    Ok(())
}

/// A row of each of some series of `table`, which `v` tells apart.
fn rows(table: &str, series: std::ops::Range<u32>, time: i64) -> String {
    series
        .map(|n| format!("{table},host=h{n:05},rack=r{} v={n}i {time}\n", n % 50))
        .collect()
}

fn index_files(disk: &Arc<dyn Disk>) -> Vec<PathBuf> {
    let dir = Path::new("/d/segments");
    let mut names = disk.list(dir).unwrap();
    names.retain(|name| name.ends_with("idx"));
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// Changes one byte, durably.
fn flip(disk: &Arc<dyn Disk>, path: &Path, at: u64) {
    let file = disk.open(path).unwrap();
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, at).unwrap(), 1);
    assert_eq!(file.write_at(&[byte[0] ^ 8], at).unwrap(), 1);
    file.sync().unwrap();
}

fn size(disk: &Arc<dyn Disk>, path: &Path) -> u64 {
    disk.open(path).unwrap().size().unwrap()
}

/// Where the text is that the dictionaries of hosts have, each value but the first of a block without what it shares.
fn find(disk: &Arc<dyn Disk>, path: &Path, text: &str) -> u64 {
    let mut bytes = vec![0; usize::try_from(size(disk, path)).unwrap()];
    let file = disk.open(path).unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    let at = bytes
        .windows(text.len())
        .position(|it| it == text.as_bytes());
    at.unwrap() as u64
}

/// A store of two tables, one index file, and nothing in the log.
fn stopped(hosts: u32) -> (Arc<dyn Disk>, Answer) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = open(&disk);
    // Turn by turn, so that ids of a table have gaps.
    for n in 0..3 {
        write(&engine, &rows("other", n..n + 1, 1)).unwrap();
        let (from, to) = (n * hosts / 3, (n + 1) * hosts / 3);
        write(&engine, &rows("m", from..to, 1)).unwrap();
    }
    engine.close().unwrap();
    let answer = everything(&engine).unwrap();
    (disk, answer)
}

/// Ids by the tags of every series of a table.
fn ids(engine: &Arc<Engine>, table: &str) -> Result<BTreeMap<Vec<Option<String>>, u32>, Error> {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table("d", "public", table) else {
        return Ok(BTreeMap::new());
    };
    let series = snapshot.series(&table, &[])?;
    let tags = snapshot.series_tags(&table, &series)?;
    let ids: BTreeMap<_, _> = tags.into_iter().zip(series.iter().map(|id| id.0)).collect();
    assert_eq!(ids.len(), series.len(), "each set of tags once");
    Ok(ids)
}

fn maintain(engine: &Arc<Engine>) {
    while engine.maintain().unwrap() != Maintained::Idle {}
}

/// Every row is of the series that it says, as `v` tells.
fn assert_own_tags(answer: &Answer, what: &str) {
    for row in answer.values().flatten() {
        let n: u32 = row["v"].parse().unwrap();
        assert_eq!(row["host"], format!("h{n:05}"), "{what}");
        assert_eq!(row["rack"], format!("r{}", n % 50), "{what}");
    }
}

#[test]
fn a_changed_byte_anywhere_is_named_and_nothing_is_lost_of_tags_with_few_values() {
    let (disk, expected) = stopped(300);
    let [path] = index_files(&disk).try_into().unwrap();
    let whole = size(&disk, &path);
    let mut met = BTreeSet::new();
    // All of it but for the zeros behind the header, in steps that hit every part.
    for at in (0..44).chain((64..whole).step_by(7)) {
        let (disk, _) = stopped(300);
        flip(&disk, &path, at);
        let what = format!("byte {at} of {whole}");
        let verified = Engine::verify(&disk, Path::new("/d")).unwrap();
        assert_eq!(verified.damage.len(), 1, "{what}: {verified:?}");
        assert_eq!(verified.damage[0].path, path, "{what}");

        let engine = open(&disk);
        let when = match everything(&engine) {
            Ok(answer) => {
                assert!(answer == expected, "{what}");
                "read from a copy"
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(path.to_str().unwrap()), "{what}: {text}");
                "refused at first"
            }
        };
        met.insert(when);
        engine.mend_index_files().unwrap();
        assert!(everything(&engine).unwrap() == expected, "{what}");
        let mut aside = engine.quarantined().to_vec();
        aside.extend(engine.mended_index_files());
        let [aside] = aside.try_into().unwrap();
        assert_eq!((&aside.file, aside.series), (&path, Some(0)), "{what}");
        assert_eq!(aside.bytes, whole);
        assert_eq!(size(&disk, aside.kept.as_ref().unwrap()), whole, "{what}");
        let metrics = engine.metrics();
        let counted = (metrics.quarantined_files, metrics.quarantined_series);
        assert_eq!(counted, (1, 0), "{what}");
        drop(engine);
        let engine = open(&disk);
        assert!(everything(&engine).unwrap() == expected, "{what}");
        assert_eq!(engine.quarantined().len(), 1, "{what}");
        drop(engine);
        let verified = Engine::verify(&disk, Path::new("/d")).unwrap();
        assert_eq!(verified.damage, [], "{what}");
    }
    assert_eq!(met.len(), 2, "{met:?}");
}

#[test]
fn a_query_meets_damage_once_and_maintenance_mends_it() {
    let (disk, expected) = stopped(3000);
    let [path] = index_files(&disk).try_into().unwrap();
    // Behind header and tail stand the ids; there is no copy of what comes behind those and the hashes.
    let engine = open(&disk);
    let before = ids(&engine, "m").unwrap();
    let mut refused = 0;
    for at in (200..size(&disk, &path)).step_by(900) {
        let [path] = index_files(&disk).try_into().unwrap();
        if at >= size(&disk, &path) {
            break;
        }
        flip(&disk, &path, at);
        refused += u32::from(everything(&engine).is_err());
        maintain(&engine);
        let answer = everything(&engine).unwrap();
        assert_own_tags(&answer, "mended");
        // A dictionary of hosts may have been hit.
        let lost: u64 = engine.metrics().quarantined_series;
        let rows = |answer: &Answer| answer.values().map(Vec::len).sum::<usize>();
        let missing = rows(&expected) - rows(&answer);
        assert_eq!(missing as u64, lost, "byte {at}");
        for (tags, id) in ids(&engine, "m").unwrap() {
            assert_eq!(before.get(&tags), Some(&id), "byte {at}");
        }
    }
    assert!(refused > 3, "{refused} reads were refused");
}

#[test]
fn a_lost_series_that_is_written_again_gets_a_new_id_and_its_old_rows_stay_hidden() {
    let (disk, _) = stopped(3000);
    let engine = open(&disk);
    let before = ids(&engine, "m").unwrap();
    // Writers remember every id.
    write(&engine, &rows("m", 0..3000, 2)).unwrap();
    let [path] = index_files(&disk).try_into().unwrap();
    let at = find(&disk, &path, "h01024");
    flip(&disk, &path, at + 9);
    everything(&engine).expect_err("a dictionary block is damaged");
    maintain(&engine);
    let after = ids(&engine, "m").unwrap();
    let lost = before.len() - after.len();
    assert!((1..64).contains(&lost), "{lost} series are lost");
    let shown = everything(&engine).unwrap();
    assert_eq!(shown["d.public.m"].len(), 2 * after.len());
    assert_own_tags(&shown, "without what is lost");
    let aside = engine.mended_index_files();
    assert_eq!(aside[0].series, Some(lost as u64));
    let table = &aside[0].tables[0];
    let expected = (Some("d.public.m"), Some(lost as u64));
    assert_eq!((table.name.as_deref(), table.series), expected);

    write(&engine, &rows("m", 0..3000, 3)).unwrap();
    let highest = before.values().max().unwrap();
    let again = ids(&engine, "m").unwrap();
    assert_eq!(again.len(), 3000);
    for (tags, id) in &again {
        match after.get(tags) {
            Some(known) => assert_eq!(id, known),
            None => assert!(id > highest, "{id}: an id for the second time"),
        }
    }
    let check = |engine: &Arc<Engine>| {
        let shown = everything(engine).unwrap();
        assert_own_tags(&shown, "written again");
        assert_eq!(shown["d.public.m"].len(), 2 * after.len() + 3000);
        assert_eq!(ids(engine, "m").unwrap(), again);
    };
    check(&engine);
    drop(engine);
    check(&open(&disk));
}

#[test]
fn a_writer_mends_what_it_needs_to_know_and_gets_the_id_that_was_there() {
    let (disk, expected) = stopped(3000);
    let engine = open(&disk);
    let before = ids(&engine, "m").unwrap();
    drop(engine);
    let [path] = index_files(&disk).try_into().unwrap();
    // Ids of two tables have 3000 entries of a few bits; hashes come next.
    let mut mended = 0;
    for at in [2000, 4000, 6000, 8000, 10_000, 12_000] {
        let (disk, _) = stopped(3000);
        flip(&disk, &path, at);
        let engine = open(&disk);
        write(&engine, &rows("m", 0..3000, 2)).unwrap();
        mended += engine.mended_index_files().len();
        maintain(&engine);
        assert_eq!(ids(&engine, "m").unwrap(), before, "byte {at}");
        let shown = everything(&engine).unwrap();
        assert_own_tags(&shown, "written again");
        assert_eq!(shown["d.public.m"].len(), 6000, "byte {at}");
        assert_eq!(shown["d.public.other"], expected["d.public.other"]);
    }
    assert!(mended > 2, "{mended} writers met damage");
}

#[test]
fn told_to_refuse_damage_the_store_moves_nothing_and_says_what_is_wrong() {
    let (disk, expected) = stopped(300);
    let [path] = index_files(&disk).try_into().unwrap();
    let refusing = || Options {
        on_damage: OnDamage::Refuse,
        ..options()
    };
    for at in [5, 70, size(&disk, &path) - 30] {
        flip(&disk, &path, at);
        let error = open_with(&disk, refusing()).unwrap_err();
        assert!(error.to_string().contains(".idx"), "byte {at}: {error}");
        flip(&disk, &path, at);
    }
    let mut met = 0;
    for at in (200..size(&disk, &path)).step_by(100) {
        flip(&disk, &path, at);
        // A footer that does not read refuses the open.
        if let Ok(engine) = open_with(&disk, refusing())
            && let Err(error) = everything(&engine)
        {
            assert!(error.to_string().contains(".idx"), "byte {at}: {error}");
            assert_eq!(engine.mend_index_files().unwrap(), 0);
            assert_eq!(engine.maintain().unwrap(), Maintained::Idle);
            met += 1;
        }
        flip(&disk, &path, at);
    }
    assert!(met > 0, "no byte was met that has no copy");
    let engine = open_with(&disk, refusing()).unwrap();
    assert!(everything(&engine).unwrap() == expected);
    assert_eq!(engine.quarantined(), []);
}

/// Three flushes with new series each, the newest of one series without rows.
fn three_files(disk: &Arc<dyn Disk>) -> u32 {
    let engine = open(disk);
    for n in 0..3 {
        write(&engine, &rows("m", n * 10..n * 10 + 10, 1)).unwrap();
        engine.flush().unwrap();
    }
    assert_eq!(index_files(disk).len(), 3);
    *ids(&engine, "m").unwrap().values().max().unwrap()
}

#[test]
fn without_a_whole_file_the_others_are_served_and_its_ids_stay_taken() {
    for lost in 0..3 {
        for how in ["missing", "cut"] {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let highest = three_files(&disk);
            let path = index_files(&disk).remove(lost);
            disk.remove(&path).unwrap();
            if how == "cut" {
                let file = disk.create(&path).unwrap();
                file.write_at(b"NILOIDX0", 0).unwrap();
                file.sync().unwrap();
            }
            let what = format!("file {lost} {how}");
            let engine = open(&disk);
            let [aside] = engine.quarantined() else {
                panic!("{what}: {:?}", engine.quarantined());
            };
            assert_eq!((&aside.file, aside.series), (&path, None), "{what}");
            let shown = everything(&engine).unwrap();
            assert_own_tags(&shown, &what);
            assert_eq!(shown["d.public.m"].len(), 20, "{what}");
            write(&engine, &rows("m", 0..30, 2)).unwrap();
            let known = ids(&engine, "m").unwrap();
            let new = known.values().filter(|id| **id > highest).count();
            assert_eq!((known.len(), new), (30, 10), "{what}");
            engine.settle().unwrap();
            drop(engine);
            let engine = open(&disk);
            let shown = everything(&engine).unwrap();
            assert_own_tags(&shown, &what);
            assert_eq!(shown["d.public.m"].len(), 50, "{what}");
            assert_eq!(ids(&engine, "m").unwrap(), known, "{what}");
        }
    }
}

/// A store with one series lost to a damaged dictionary and the rest to be mended, on a disk that can fail.
fn damaged_store(seed: u64) -> (FaultyDisk, Arc<dyn Disk>) {
    let faulty = FaultyDisk::new(seed, CrashPlan::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let engine = open(&disk);
    write(&engine, &rows("m", 0..1500, 1)).unwrap();
    engine.close().unwrap();
    drop(engine);
    let [path] = index_files(&disk).try_into().unwrap();
    let at = find(&disk, &path, "h01024");
    flip(&disk, &path, at + 9);
    (faulty, disk)
}

/// What the cut comes into: open, mend, write, flush.
fn mend_and_write(disk: &Arc<dyn Disk>) -> Result<(), Error> {
    let engine = open_with(disk, options())?;
    engine.mend_index_files()?;
    write(&engine, &rows("m", 1000..1100, 2))?;
    engine.flush()?;
    maintain_all(&engine)
}

fn maintain_all(engine: &Arc<Engine>) -> Result<(), Error> {
    while engine.maintain()? != Maintained::Idle {}
    Ok(())
}

#[test]
fn a_power_cut_at_any_call_while_a_file_is_mended_mixes_up_nothing() {
    let (faulty, disk) = damaged_store(0);
    faulty.set_plan(CrashPlan::default());
    mend_and_write(&disk).unwrap();
    let calls = faulty.calls();
    // All that is lost, 63 series of those from 1024 on, is written again.
    assert_eq!(ids(&open(&disk), "m").unwrap().len(), 1500);
    let mut cut_inside = 0;
    for crash_at in 1..=calls {
        let (faulty, disk) = damaged_store(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        cut_inside += u64::from(mend_and_write(&disk).is_err());
        let after = faulty.after_power_cut(crash_at, CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(after);
        mend_and_write(&disk).unwrap();
        let engine = open(&disk);
        let what = format!("call {crash_at}");
        let shown = everything(&engine).unwrap();
        assert_own_tags(&shown, &what);
        let own = ids(&engine, "m").unwrap();
        let different: BTreeSet<u32> = own.values().copied().collect();
        assert_eq!(different.len(), own.len(), "{what}: an id twice");
        for row in &shown["d.public.m"] {
            let n: u32 = row["v"].parse().unwrap();
            let is_new = row["time"] == "2";
            assert!(!is_new || (1000..1100).contains(&n), "{what}: {row:?}");
        }
        let new = shown["d.public.m"].iter().filter(|row| row["time"] == "2");
        assert_eq!(new.count(), 100, "{what}");
        assert_eq!(engine.quarantined().len(), 1, "{what}");
    }
    assert!(cut_inside > calls / 2, "{cut_inside} of {calls}");
}
