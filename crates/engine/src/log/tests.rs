use std::io;

use super::*;
use crate::disk::{DiskLock, MemoryDisk};

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

#[test]
fn the_last_group_may_be_torn_anywhere_and_no_earlier_one() {
    for (damaged, expected) in [(1, None), (2, Some(vec![1])), (3, Some(vec![1, 2]))] {
        let disk = MemoryDisk::new();
        let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
        append(&log, 1);
        log.sync(1).unwrap();
        append(&log, 2);
        append(&log, 3);
        log.sync(3).unwrap();
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

impl Disk for SlowDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SlowFile {
            inner: self.inner.create(path)?,
            disk: self.clone(),
        }))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.open(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.inner.lock(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.total_bytes(path)
    }
}

impl DiskFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.inner.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        if let Some(log) = lock(&self.disk.log).take() {
            append(&log, 2);
        }
        self.inner.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

/// Records said what was durable when they were queued. One that was queued while the group before it was synced said
/// too little, and damage to two groups, both acknowledged, was taken for a torn tail.
#[test]
fn a_record_that_came_during_a_sync_tells_of_that_sync() {
    let disk = SlowDisk::default();
    let (log, _) = open(Arc::new(disk.clone()), 0).unwrap();
    let log = Arc::new(log);
    *lock(&disk.log) = Some(Arc::clone(&log));
    append(&log, 1);
    log.sync(1).unwrap();
    assert_eq!(log.durable(), 1, "the second record is in the next group");
    log.sync(2).unwrap();
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
    // The third file has the last record only. It is in doubt, so opening settles it in a fourth file.
    let names = disk.list(Path::new(DIR)).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
    drop(open(Arc::new(disk.clone()), 0).unwrap());
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
