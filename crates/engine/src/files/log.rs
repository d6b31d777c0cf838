//! The log: every batch and definition, in LSN order, on stable storage before it counts.
//!
//! Does: append records to a queue, write and sync them in groups with the first waiter as leader, recycle files,
//! replay at open and tell a torn tail from damage. Does not: know what a record means, or spawn a thread.
//! Layout and recovery rules: `docs/format/log.md`.
//!
//! A failed write or sync poisons the log: what was not durable then is never acknowledged, nothing is retried, and
//! only opening the store again, from bytes read back and checked, makes it write again.

mod copy;
mod file;
mod hole;
pub(crate) mod hostile;
mod mark;
mod replay;
#[cfg(test)]
mod tests;
mod verify;
mod visit;
mod waiting;
mod window;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::Error;
use crate::ranked::{Locked, Mutex};
use crate::sabotage::Sabotage;
use crate::schema::Lsn;

pub(crate) use file::{FileHeader, file_name, file_number};
use file::{HEADER_BYTES, RECORD_ALIGN, RecordHeader};
pub(crate) use hole::{Hole, end_before, find_hole};
pub(crate) use mark::MARK;
use mark::{Mark, MarkFile};
pub(crate) use replay::DRAFT;
pub(crate) use verify::LogPlace;
pub(crate) use visit::{RecordPlace, Visit};
use waiting::Waiting;

/// Longest payload of one record; a longer batch spans several.
pub(crate) const RECORD_PAYLOAD_BYTES_MAX: usize = 4 << 20;

/// How the log is laid out.
#[derive(Debug, Clone)]
pub(crate) struct LogOptions {
    /// A file is closed when the next record would pass this size.
    pub(crate) file_bytes: u64,
    /// Freed files kept for reuse.
    pub(crate) free_files_max: usize,
    pub(crate) sabotage: Option<Sabotage>,
}

/// What `/metrics` shows of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogCounters {
    pub(crate) bytes_written: u64,
    pub(crate) syncs: u64,
    pub(crate) files: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    uuid: [u8; 16],
    options: LogOptions,
    queue: Mutex<Queue>,
    group: Mutex<Group>,
    /// Held by the leader while it writes, and by trimming.
    files: Mutex<Files>,
}

/// Records that no group has taken yet.
#[derive(Debug)]
struct Queue {
    records: Vec<Queued>,
    /// Where the next record goes.
    file_number: u64,
    offset: u64,
    last_lsn: Lsn,
}

#[derive(Debug)]
struct Queued {
    file_number: u64,
    offset: u64,
    lsn: Lsn,
    part: u32,
    last: bool,
    /// Shared by the parts of one batch.
    payload: Arc<Vec<u8>>,
    range: std::ops::Range<usize>,
}

#[derive(Debug)]
struct Group {
    durable: Lsn,
    leading: bool,
    poisoned: Option<String>,
    waiting: Waiting,
    counters: LogCounters,
}

#[derive(Debug)]
struct Files {
    /// Files with records that are still needed, by number; the last is written to.
    live: Vec<LiveFile>,
    /// Numbers of files whose records are not needed.
    free: Vec<u64>,
    mark: MarkFile,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct LiveFile {
    number: u64,
    start_lsn: Lsn,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    mutex.lock()
}

impl Log {
    /// Appends a record. The caller holds the sequencer, so LSNs arrive in order. Nothing is on disk yet.
    pub(crate) fn append(&self, lsn: Lsn, payload: Vec<u8>) {
        let payload = Arc::new(payload);
        let parts = part_count(payload.len());
        let mut queue = lock(&self.queue);
        // A batch never straddles files: every file starts with a whole one.
        let needed: u64 = (0..parts)
            .map(|part| RecordHeader::padded(part_range(payload.len(), part).len()))
            .sum();
        if queue.offset > HEADER_BYTES as u64 && queue.offset + needed > self.options.file_bytes {
            queue.file_number += 1;
            queue.offset = HEADER_BYTES as u64;
        }
        for part in 0..parts {
            let range = part_range(payload.len(), part);
            let record = Queued {
                file_number: queue.file_number,
                offset: queue.offset,
                lsn,
                part: u32::try_from(part).unwrap_or(u32::MAX),
                last: part + 1 == parts,
                payload: Arc::clone(&payload),
                range: range.clone(),
            };
            queue.offset += RecordHeader::padded(range.len());
            queue.records.push(record);
        }
        queue.last_lsn = lsn;
    }

    /// Waits until everything up to `lsn` is on stable storage, leading the group if nobody does.
    pub(crate) fn sync(&self, lsn: Lsn) -> Result<(), Error> {
        let mut group = lock(&self.group);
        loop {
            if group.durable >= lsn {
                return Ok(());
            }
            if let Some(reason) = &group.poisoned {
                return Err(Error::Poisoned {
                    reason: reason.clone(),
                });
            }
            if group.leading {
                let waiter = group.waiting.join(lsn);
                drop(group);
                if waiter.wait() {
                    return Ok(());
                }
                group = lock(&self.group);
                continue;
            }
            group.leading = true;
            let durable = group.durable;
            drop(group);
            let outcome = self.lead(durable);
            group = lock(&self.group);
            group.leading = false;
            let woken = match outcome {
                Ok((durable, bytes)) => {
                    group.durable = group.durable.max(durable);
                    group.counters.bytes_written += bytes;
                    group.counters.syncs += 1;
                    let durable = group.durable;
                    group.waiting.served(durable)
                }
                Err(error) => {
                    group.poisoned = Some(error.to_string());
                    group.waiting.all()
                }
            };
            drop(group);
            drop(woken);
            group = lock(&self.group);
        }
    }

    /// Writes and syncs everything queued. Returns the last LSN that is now durable and the bytes written.
    ///
    /// The records say that `durable` was on stable storage before them: damage to anything but the last group is
    /// thus told from a torn tail.
    fn lead(&self, durable: Lsn) -> Result<(Lsn, u64), Error> {
        let (records, last_lsn) = {
            let mut queue = lock(&self.queue);
            (std::mem::take(&mut queue.records), queue.last_lsn)
        };
        let mark = records.last().map(|last| Mark {
            number: last.file_number,
            lsn: last_lsn,
        });
        let mut files = lock(&self.files);
        if let (Some(mark), Some(Sabotage::MarkBeforeSync)) = (mark, self.options.sabotage) {
            files.mark.note(mark);
        }
        let mut bytes = 0;
        // By file, in order: a file's header says that everything before its first record is durable.
        for chunk in records.chunk_by(|a, b| a.file_number == b.file_number) {
            bytes += self.write_chunk(&mut files, chunk, durable)?;
        }
        if let Some(mark) = mark {
            files.mark.note(mark);
        }
        Ok((last_lsn, bytes))
    }

    fn write_chunk(
        &self,
        files: &mut Files,
        records: &[Queued],
        durable_lsn: Lsn,
    ) -> Result<u64, Error> {
        let Some(first) = records.first() else {
            return Ok(0);
        };
        let open = files.live.last().map(|file| file.number);
        if open != Some(first.file_number) {
            self.start_file(files, first)?;
        }
        let mut buffer = std::mem::take(&mut files.buffer);
        buffer.clear();
        for record in records {
            let payload = record.payload.get(record.range.clone()).unwrap_or_default();
            let header = RecordHeader {
                length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
                lsn: record.lsn,
                durable_lsn,
                part: record.part,
                last: record.last,
            };
            encode_record(record.file_number, &header, payload, &mut buffer);
        }
        let written = match files.live.last() {
            Some(live) => self.write_and_sync(live, &buffer, first.offset),
            None => Ok(()),
        };
        let bytes = buffer.len() as u64;
        files.buffer = buffer;
        written.map(|()| bytes)
    }

    fn write_and_sync(&self, live: &LiveFile, bytes: &[u8], offset: u64) -> Result<(), Error> {
        write_all_at(live.file.as_ref(), bytes, offset).map_err(Error::io("write", &live.path))?;
        match live.file.sync() {
            Err(_) if self.options.sabotage == Some(Sabotage::RetryFailedSync) => {
                live.file.sync().map_err(Error::io("sync", &live.path))
            }
            other => other.map_err(Error::io("sync", &live.path)),
        }
    }

    /// Makes the file that `first` goes to: a freed one under a new name, or a new one.
    fn start_file(&self, files: &mut Files, first: &Queued) -> Result<(), Error> {
        let path = self.dir.join(file_name(first.file_number));
        let file = match files.free.pop() {
            Some(number) => {
                let old = self.dir.join(file_name(number));
                self.disk
                    .rename(&old, &path)
                    .map_err(Error::io("rename", &old))?;
                self.disk.open(&path).map_err(Error::io("open", &path))?
            }
            None => self
                .disk
                .create(&path)
                .map_err(Error::io("create", &path))?,
        };
        let header = FileHeader {
            uuid: self.uuid,
            number: first.file_number,
            start_lsn: first.lsn,
        };
        write_all_at(file.as_ref(), &header.encode(), 0).map_err(Error::io("write", &path))?;
        // The header is durable before any record in the file is acknowledged: a record under a bad header is
        // therefore damage, never a torn start.
        file.sync().map_err(Error::io("sync", &path))?;
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))?;
        files.live.push(LiveFile {
            number: first.file_number,
            start_lsn: first.lsn,
            file,
            path,
        });
        Ok(())
    }

    /// Frees the files whose every record is at or below `flushed`.
    pub(crate) fn trim(&self, flushed: Lsn) -> Result<(), Error> {
        let mut files = lock(&self.files);
        while let [first, second, ..] = files.live.as_slice() {
            if second.start_lsn > flushed + 1 {
                break;
            }
            let (number, path) = (first.number, first.path.clone());
            files.live.remove(0);
            if files.free.len() < self.options.free_files_max {
                files.free.push(number);
            } else {
                self.disk
                    .remove(&path)
                    .map_err(Error::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Numbers of the files with records that are still needed, ascending.
    pub(crate) fn live_numbers(&self) -> Vec<u64> {
        let files = lock(&self.files);
        files.live.iter().map(|file| file.number).collect()
    }

    /// Highest LSN on stable storage.
    pub(crate) fn durable(&self) -> Lsn {
        lock(&self.group).durable
    }

    /// Why the log takes no more records, if so.
    pub(crate) fn poisoned(&self) -> Option<String> {
        lock(&self.group).poisoned.clone()
    }

    /// Stops the log for a failure elsewhere in the store.
    pub(crate) fn poison(&self, reason: &str) {
        let mut group = lock(&self.group);
        group.poisoned.get_or_insert_with(|| reason.to_owned());
        let woken = group.waiting.all();
        drop(group);
        drop(woken);
    }

    pub(crate) fn counters(&self) -> LogCounters {
        let files = lock(&self.files);
        let count = (files.live.len() + files.free.len()) as u64;
        drop(files);
        LogCounters {
            files: count,
            ..lock(&self.group).counters
        }
    }

    /// Folder of the log inside a data directory.
    pub(crate) fn dir_of(data_dir: &Path) -> PathBuf {
        data_dir.join("log")
    }
}

fn encode_record(file_number: u64, header: &RecordHeader, payload: &[u8], out: &mut Vec<u8>) {
    header.encode(file_number, payload, out);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(RECORD_ALIGN), 0);
}

/// All records of one batch, as they stand in a file.
fn encode_batch_records(
    file_number: u64,
    lsn: Lsn,
    durable_lsn: Lsn,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let parts = part_count(payload.len());
    for part in 0..parts {
        let bytes = payload
            .get(part_range(payload.len(), part))
            .unwrap_or_default();
        let header = RecordHeader {
            length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            lsn,
            durable_lsn,
            part: u32::try_from(part).unwrap_or(u32::MAX),
            last: part + 1 == parts,
        };
        encode_record(file_number, &header, bytes, out);
    }
}

/// Records that a payload of this length takes.
fn part_count(length: usize) -> usize {
    length.div_ceil(RECORD_PAYLOAD_BYTES_MAX).max(1)
}

fn part_range(length: usize, part: usize) -> std::ops::Range<usize> {
    let start = part * RECORD_PAYLOAD_BYTES_MAX;
    start..(start + RECORD_PAYLOAD_BYTES_MAX).min(length)
}
