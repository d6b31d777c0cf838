use std::io;
use std::sync::Mutex;

use super::*;
use crate::disk::{DiskLayer, FileLayer, MemoryDisk};

const DIR: &str = "/log";

fn open(disk: Arc<dyn Disk>, flushed: Lsn) -> Result<(Log, Vec<Lsn>), Error> {
    let options = LogOptions {
        file_bytes: 4096,
        free_files_max: 8,
        sabotage: None,
    };
    let mut seen = Vec::new();
    let visit = &mut |lsn, payload: &[u8]| {
        assert_eq!(payload, payload_of(lsn));
        seen.push(lsn);
        Ok(())
    };
    let (log, _) = Log::open(disk, DIR.into(), [9; 16], flushed, options, visit)?;
    Ok((log, seen))
}

fn payload_of(lsn: Lsn) -> Vec<u8> {
    vec![lsn as u8; 1000]
}

fn append(log: &Log, lsn: Lsn) {
    log.append(lsn, payload_of(lsn));
}

fn overwrite(disk: &MemoryDisk, number: u64, at: u64, bytes: &[u8]) {
    let file = disk.open(&Path::new(DIR).join(file_name(number))).unwrap();
    write_all_at(file.as_ref(), bytes, at).unwrap();
}

/// Where the `n`-th record of [`payload_of`]'s size stands, counted from 0.
fn record_at(n: u64) -> u64 {
    HEADER_BYTES as u64 + n * RecordHeader::padded(1000)
}

fn forget_mark(disk: &MemoryDisk) {
    disk.remove(&Path::new(DIR).join(MARK)).unwrap();
}

/// Three records in groups of one and two.
fn two_groups() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    append(&log, 1);
    log.sync(1).unwrap();
    append(&log, 2);
    append(&log, 3);
    log.sync(3).unwrap();
    disk
}

fn reason_of(opened: Result<(Log, Vec<Lsn>), Error>) -> String {
    match opened {
        Err(error @ Error::Corrupt { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn where_the_mark_stands_no_acknowledged_group_passes_for_a_torn_one() {
    for damaged in 1..=3 {
        let disk = two_groups();
        overwrite(&disk, 1, record_at(damaged - 1) + 50, b"?");
        let reason = reason_of(open(Arc::new(disk), 0));
        let lost = format!("LSN {damaged} does not read");
        assert!(reason.contains(&lost), "{reason}");
    }
}

/// What was written and not synced is no group: the mark says nothing of it.
#[test]
fn a_record_that_was_never_synced_may_be_torn_beside_a_mark() {
    let disk = two_groups();
    let mut record = Vec::new();
    encode_batch_records(1, 4, 3, &payload_of(4), &mut record);
    record.truncate(700);
    overwrite(&disk, 1, record_at(3), &record);
    let (_, seen) = open(Arc::new(disk), 0).unwrap();
    assert_eq!(seen, [1, 2, 3]);
}

/// A free file was to get another name, the sync of the folder failed, and the process died. The next life gave it a third name,
/// which was durable, and a power cut brought the first one back beside it. Taken for a free file, it was written to, and
/// with it the file whose records nobody had anywhere else.
#[test]
fn a_file_with_two_names_is_not_written_to_under_the_lower_one() {
    let disk = MemoryDisk::new();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    for lsn in 1..=4 {
        append(&log, lsn);
        log.sync(lsn).unwrap();
    }
    drop(log);
    let path = |number| Path::new(DIR).join(file_name(number));
    disk.remove(&path(1)).unwrap();
    disk.link(&path(2), &path(1)).unwrap();
    for last in [5, 6] {
        let (log, seen) = open(Arc::new(disk.clone()), 3).unwrap();
        assert_eq!(seen, (4..last).collect::<Vec<Lsn>>());
        append(&log, last);
        log.sync(last).unwrap();
    }
    let names = disk.list(Path::new(DIR)).unwrap();
    assert!(!names.contains(&file_name(1)), "{names:?}");
}

#[test]
fn a_newest_file_that_is_missing_is_named() {
    let disk = MemoryDisk::new();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    for lsn in 1..=4 {
        append(&log, lsn);
        log.sync(lsn).unwrap();
    }
    disk.remove(&Path::new(DIR).join(file_name(2))).unwrap();
    let reason = reason_of(open(Arc::new(disk.clone()), 0));
    assert!(reason.contains("/log/0000000000000002.log"), "{reason}");
    assert!(reason.contains("LSN 4 does not read"), "{reason}");
    // No backup has a copy of that file.
    assert!(reason.contains("--on-log-damage quarantine"), "{reason}");
    assert!(!reason.contains("restore the file"), "{reason}");
    disk.remove(&Path::new(DIR).join(file_name(1))).unwrap();
    let reason = reason_of(open(Arc::new(disk.clone()), 0));
    assert!(reason.contains("LSN 1 does not read"), "{reason}");
    // What is in segments is not missed, and no number is used again.
    let (log, seen) = open(Arc::new(disk.clone()), 4).unwrap();
    assert_eq!(seen, [] as [Lsn; 0]);
    append(&log, 5);
    log.sync(5).unwrap();
    assert_eq!(log.live_numbers(), [3]);
}

/// A power cut in the middle of a block leaves the other one.
#[test]
fn of_two_blocks_of_the_mark_one_is_enough() {
    let path = Path::new(DIR).join(MARK);
    for torn in [0, 512] {
        let disk = two_groups();
        let mark = disk.open(&path).unwrap();
        write_all_at(mark.as_ref(), &[0; 60], torn).unwrap();
        // No header is left that says anything.
        for n in [0, 1, 2] {
            overwrite(&disk, 1, record_at(n), b"?");
        }
        let reason = reason_of(open(Arc::new(disk), 0));
        assert!(reason.contains("LSN 1 does not read"), "{reason}");
    }
}

/// Once the log has been ended before a hole, the mark of the time before speaks of LSNs that are given away again.
#[test]
fn a_log_that_was_ended_is_not_held_to_its_old_mark() {
    for is_removed in [false, true] {
        let disk = two_groups();
        let dir = Path::new(DIR);
        if is_removed {
            disk.remove(&dir.join(file_name(1))).unwrap();
        } else {
            overwrite(&disk, 1, record_at(1) + 50, b"?");
        }
        let hole = find_hole(&disk, dir, [9; 16], 0).unwrap().unwrap();
        assert_eq!(hole.lsn, if is_removed { 1 } else { 2 });
        let lost: Vec<_> = hole
            .files
            .iter()
            .map(|file| (file.number, file.lsns))
            .collect();
        assert_eq!(lost, [(1, Some((hole.lsn, 3)))]);
        end_before(&disk, dir, [9; 16], 0, &hole).unwrap();
        let left: Vec<Lsn> = (1..hole.lsn).collect();
        let (log, seen) = open(Arc::new(disk.clone()), 0).unwrap();
        assert_eq!(seen, left, "removed: {is_removed}");
        // The mark of the new time holds, although its LSN is lower.
        append(&log, hole.lsn);
        log.sync(hole.lsn).unwrap();
        let number = *log.live_numbers().last().unwrap();
        drop(log);
        let (_, seen) = open(Arc::new(disk.clone()), 0).unwrap();
        assert_eq!(seen.last(), Some(&hole.lsn));
        overwrite(&disk, number, HEADER_BYTES as u64 + 45, b"?");
        reason_of(open(Arc::new(disk), 0));
    }
}

#[test]
fn without_a_mark_the_last_group_may_be_torn_anywhere_and_no_earlier_one() {
    for (damaged, expected) in [(1, None), (2, Some(vec![1])), (3, Some(vec![1, 2]))] {
        let disk = two_groups();
        forget_mark(&disk);
        overwrite(&disk, 1, record_at(damaged - 1) + 50, b"?");
        let opened = open(Arc::new(disk), 0).map(|(_, seen)| seen);
        match expected {
            Some(seen) => assert_eq!(opened.unwrap(), seen, "record {damaged}"),
            None => assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}"),
        }
    }
}

/// A disk on which a second record comes while the first is being synced.
#[derive(Debug, Clone, Default)]
struct SlowDisk {
    inner: MemoryDisk,
    log: Arc<Mutex<Option<Arc<Log>>>>,
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn DiskFile>,
    disk: SlowDisk,
}

impl DiskLayer for SlowDisk {
    fn below(&self) -> &dyn Disk {
        &self.inner
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SlowFile {
            inner: self.inner.create(path)?,
            disk: self.clone(),
        }))
    }
}

impl FileLayer for SlowFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.inner
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(log) = self.disk.log.lock().unwrap().take() {
            append(&log, 2);
        }
        self.inner.sync()
    }
}

/// Records said what was durable when they were queued. One that was queued while the group before it was synced said
/// too little, and damage to two groups, both acknowledged, was taken for a torn tail.
#[test]
fn a_record_that_came_during_a_sync_tells_of_that_sync() {
    let disk = SlowDisk::default();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    let log = Arc::new(log);
    *disk.log.lock().unwrap() = Some(Arc::clone(&log));
    append(&log, 1);
    log.sync(1).unwrap();
    assert_eq!(log.durable(), 1, "the second record is in the next group");
    log.sync(2).unwrap();
    forget_mark(&disk.inner);
    overwrite(&disk.inner, 1, record_at(0) + 50, b"?");
    let opened = open(Arc::new(disk.inner.clone()), 0);
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
}

/// A power cut between the new header of a recycled file and the sync of its folder may take the new name back. The
/// file then has the old name, the old records and the new header, and was reported as damaged.
#[test]
fn a_recycled_file_that_lost_its_new_name_is_free() {
    let disk = MemoryDisk::new();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    for lsn in 1..=7 {
        append(&log, lsn);
        log.sync(lsn).unwrap();
    }
    drop(log);
    forget_mark(&disk);
    // The third file has the last record only. It is in doubt, so opening settles it in a fourth file.
    let names = disk.list(Path::new(DIR)).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
    drop(open(Arc::new(disk.clone()), 0).unwrap());
    forget_mark(&disk);
    let names = disk.list(Path::new(DIR)).unwrap();
    assert_eq!(names.len(), 4, "{names:?}");
    let recycled = FileHeader {
        uuid: [9; 16],
        number: 5,
        start_lsn: 8,
    };
    overwrite(&disk, 3, 0, &recycled.encode());
    let (_, seen) = open(Arc::new(disk), 0).unwrap();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
}
