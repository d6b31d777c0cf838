//! Keys are remembered as long and as many as promised, in memory and in files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::disk::MemoryDisk;
use crate::manifest::FileKind;

/// A clock that stands at 0.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> i64 {
        0
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

fn options(key_age_ns: i64, keys_max: u64) -> Options {
    Options {
        key_age_ns,
        keys_max,
        ..Options::default()
    }
}

fn key(n: u64, accepted_ns: i64) -> BatchKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.to_le_bytes());
    BatchKey { key, accepted_ns }
}

fn path(id: u64) -> PathBuf {
    PathBuf::from(format!("/d/{id}.key"))
}

/// The store's side of a checkpoint: the files that the manifest would list.
struct Files {
    disk: MemoryDisk,
    listed: Vec<FileMeta>,
    next_id: u64,
}

impl Files {
    fn checkpoint(&mut self, keys: &mut KeySet, lsn: Lsn, now_ns: i64) {
        let due = keys.checkpoint(lsn, now_ns);
        let mut file_id = None;
        self.listed
            .retain(|file| !due.removed.contains(&file.file_id));
        if !due.taken.is_empty() {
            file_id = Some(self.next_id);
            let bytes = write(
                &self.disk,
                &path(self.next_id),
                [1; 16],
                self.next_id,
                &due.taken,
            );
            self.listed.push(FileMeta {
                kind: FileKind::Keys,
                file_id: self.next_id,
                bytes: bytes.unwrap(),
            });
            self.next_id += 1;
        }
        keys.checkpointed(&due, file_id);
    }

    fn open(&self, options: &Options) -> KeySet {
        let mut keys = KeySet::new(options, &Still);
        for meta in &self.listed {
            keys.read(&self.disk, &path(meta.file_id), [1; 16], meta)
                .unwrap();
        }
        keys
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { key: u64, passed: i64 },
    Checkpoint,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..40u64, 0..9i64).prop_map(|(key, passed)| Step::Write { key, passed }),
        2 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    /// The model: every batch taken, in order; one is known while it is among the last ten and not older than 50 ns.
    #[test]
    fn a_key_is_known_for_its_time_and_among_the_last_so_many(steps in vec(step(), 0..200)) {
        let options = options(50, 10);
        let mut files = Files { disk: MemoryDisk::new(), listed: Vec::new(), next_id: 1 };
        files.disk.create_dir_all(Path::new("/d")).unwrap();
        let mut keys = KeySet::new(&options, &Still);
        let mut all: Vec<Taken> = Vec::new();
        let mut now = 0;
        let mut lsn = 0;
        for step in steps {
            match step {
                Step::Write { key: n, passed } => {
                    now += passed;
                    let key = key(n, now);
                    let expected = all.iter().rev().take(10)
                        .find(|it| it.key == key.key && now - it.accepted_ns <= 50);
                    let found = keys.find(&key);
                    prop_assert_eq!(found.as_ref(), expected);
                    if found.is_none() {
                        lsn += 3;
                        keys.insert(&key, lsn, n * 7);
                        all.push(Taken { key: key.key, lsn, rows: n * 7, accepted_ns: now });
                    }
                    prop_assert!(keys.len() <= 10);
                }
                Step::Checkpoint => files.checkpoint(&mut keys, lsn, now),
                Step::Reopen => {
                    // A kill: what no checkpoint covered comes from the log.
                    let filed = keys.filed_lsn;
                    keys = files.open(&options);
                    keys.files_end_at(filed);
                    for it in all.iter().filter(|it| it.lsn > filed) {
                        let key = BatchKey { key: it.key, accepted_ns: it.accepted_ns };
                        keys.insert(&key, it.lsn, it.rows);
                    }
                }
            }
        }
    }

    #[test]
    fn no_damaged_payload_panics(bytes in vec(any::<u8>(), 0..200), number in 0..9u64) {
        drop(file::decode(number, &bytes));
        drop(file::decode(u64::MAX - number, &bytes));
    }
}

#[test]
fn a_file_reads_back_and_no_damaged_one_does() {
    let taken: Vec<Taken> = (0..40)
        .map(|n| Taken {
            key: key(n, 0).key,
            lsn: 10 + n,
            rows: u64::MAX - n,
            accepted_ns: -5 + n as i64 / 3,
        })
        .collect();
    let bytes = file::encode(&taken);
    assert_eq!(file::decode(40, &bytes), Ok(taken.clone()));
    for n in 0..bytes.len() {
        assert!(file::decode(40, &bytes[..n]).is_err(), "{n} bytes");
    }
    let disk = MemoryDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    write(&disk, &path(1), [1; 16], 1, &taken).unwrap();
    assert_eq!(file::read(&disk, &path(1), [1; 16], 1).unwrap(), taken);
    assert!(file::read(&disk, &path(1), [2; 16], 1).is_err(), "owner");
    assert!(file::read(&disk, &path(1), [1; 16], 2).is_err(), "file id");
    let file = disk.open(&path(1)).unwrap();
    let size = file.size().unwrap();
    for at in 0..size {
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 0x20], at).unwrap();
        let read = file::read(&disk, &path(1), [1; 16], 1);
        assert!(read.is_err(), "byte {at}");
        file.write_at(&byte, at).unwrap();
    }
}

#[test]
fn many_checkpoints_of_few_keys_leave_few_files() {
    let options = options(i64::MAX, 100_000);
    let mut files = Files {
        disk: MemoryDisk::new(),
        listed: Vec::new(),
        next_id: 1,
    };
    files.disk.create_dir_all(Path::new("/d")).unwrap();
    let mut keys = KeySet::new(&options, &Still);
    let mut most = 0;
    for lsn in 1..=2000 {
        keys.insert(&key(lsn, 0), lsn, 1);
        files.checkpoint(&mut keys, lsn, 0);
        most = most.max(files.listed.len());
    }
    // Each file has at least twice the keys of the next: 11 of them hold more than 2000.
    assert!(most <= 11, "{most} files");
    assert_eq!(files.open(&options).len(), 2000);
}

#[test]
fn a_file_goes_when_its_last_key_has_expired() {
    let options = options(100, 1000);
    let mut files = Files {
        disk: MemoryDisk::new(),
        listed: Vec::new(),
        next_id: 1,
    };
    files.disk.create_dir_all(Path::new("/d")).unwrap();
    let mut keys = KeySet::new(&options, &Still);
    for (lsn, accepted_ns) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 10), (7, 90)] {
        keys.insert(&key(lsn, accepted_ns), lsn, 1);
        if lsn >= 5 {
            files.checkpoint(&mut keys, lsn, accepted_ns);
        }
    }
    let ids = |files: &Files| -> Vec<u64> { files.listed.iter().map(|it| it.file_id).collect() };
    // 5 keys, then 1 key, which the next one joins.
    assert_eq!(ids(&files), [1, 3]);
    files.checkpoint(&mut keys, 8, 100);
    assert_eq!(ids(&files), [1, 3], "all are young enough");
    files.checkpoint(&mut keys, 8, 101);
    assert_eq!(ids(&files), [3]);
    files.checkpoint(&mut keys, 8, 111);
    assert_eq!(ids(&files), [3], "one of its keys is young enough");
    files.checkpoint(&mut keys, 8, 191);
    assert_eq!(ids(&files), [] as [u64; 0]);
}

#[test]
fn a_million_keys_take_64_bytes_each_at_most() {
    let mut keys = KeySet::new(&options(i64::MAX, 1_000_000), &Still);
    let mut worst: BTreeMap<u64, usize> = BTreeMap::new();
    for lsn in 1..=1_200_000u64 {
        keys.insert(&key(lsn, 0), lsn, 1);
        if lsn.is_multiple_of(1009) {
            worst.insert(lsn, keys.bytes() / keys.len());
        }
    }
    assert_eq!(keys.len(), 1_000_000);
    assert!(keys.bytes() <= 64_000_000, "{} bytes", keys.bytes());
    let most = worst.into_values().max().unwrap();
    assert!(most <= 64, "{most} bytes a key");
}

#[test]
fn a_clock_set_back_while_the_store_was_closed_makes_no_key_younger() {
    let mut keys = KeySet::new(&options(100, 10), &Still);
    keys.insert(&key(1, 1_000), 1, 1);
    assert_eq!(keys.now_ns(Still.monotonic_ms()), 1_000);
    assert!(
        keys.find(&key(1, keys.now_ns(Still.monotonic_ms())))
            .is_some()
    );
    assert!(keys.find(&key(1, 1_101)).is_none());
}
