//! The mark: the last LSN that was on stable storage, in a file of its own beside the log.
//!
//! Does: note it after each group, and read it back when the log is opened, so that what is missing at the log's end is
//! told from what was never finished. Does not: make anything durable itself, or stop the log when it cannot be written:
//! it only says more than the log does by itself, and an older mark says less but nothing that is not so.

use std::path::Path;
use std::sync::Arc;

use super::file::{FileHeader, file_name, file_number, own_fields, take_own};
use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::Error;
use crate::file_header::{self, FileFormat};
use crate::schema::Lsn;

/// Name of the file in the log's folder.
pub(crate) const MARK: &str = "durable";

const KIND: FileFormat = FileFormat {
    magic: *b"NILODUR0",
    format: 1,
};
/// A block is what a device writes whole. There are two, written in turn: when one is torn, the other still reads.
pub(super) const BLOCK_BYTES: usize = 512;
/// Where its checksum stands, of the bytes before it.
pub(super) const BLOCK_CRC_AT: usize = 48;
const BLOCKS: usize = 2;

/// What was durable. Of two marks the one in the file with the higher number is newer: it is that file's header that
/// ended what was before, and gave its LSNs away again perhaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    /// The log file that the record stands in.
    pub(super) number: u64,
    pub(super) lsn: Lsn,
}

impl Mark {
    /// Whether it still counts, given the headers of the log's files: a later file that begins at or before its LSN has
    /// taken over.
    pub(super) fn counts<'a>(self, headers: impl IntoIterator<Item = &'a FileHeader>) -> bool {
        let mut headers = headers.into_iter();
        !headers.any(|it| it.number > self.number && it.start_lsn <= self.lsn)
    }

    /// What is wrong with a log that lacks `lost`, which it says was durable.
    pub(super) fn reason(self, lost: Lsn) -> String {
        format!(
            "LSN {lost} does not read, but the file \"{MARK}\" beside it says that all up to LSN {} was durable, in {}",
            self.lsn,
            file_name(self.number)
        )
    }

    fn encode(self, uuid: [u8; 16]) -> Vec<u8> {
        let own = own_fields(self.number, self.lsn);
        file_header::encode(KIND, uuid, &own, BLOCK_BYTES)
    }

    /// `None` = it is torn, or another data directory's.
    fn decode(bytes: &[u8], uuid: [u8; 16], path: &Path) -> Result<Option<Self>, Error> {
        let header = match file_header::decode::<16>(bytes, KIND, path) {
            Err(Error::Corrupt { .. }) => return Ok(None),
            other => other?,
        };
        let (number, lsn) = take_own(&header.own).map_err(|what| what.at(path, 0))?;
        // No file has such a number; under a right checksum nobody wrote it.
        let is_number = file_number(&file_name(number)).is_some();
        Ok((header.uuid == uuid && is_number).then_some(Self { number, lsn }))
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct MarkFile {
    /// `None` = there is none, or it cannot be written.
    file: Option<Arc<dyn DiskFile>>,
    uuid: [u8; 16],
    newest: Option<Mark>,
    /// The block that does not hold the newest.
    next_block: usize,
}

impl MarkFile {
    /// Reads what is there. Nothing is written.
    pub(super) fn read(disk: &dyn Disk, dir: &Path, uuid: [u8; 16]) -> Result<Self, Error> {
        let mut found = Self {
            file: None,
            uuid,
            newest: None,
            next_block: 0,
        };
        let path = dir.join(MARK);
        let names = disk.list(dir).map_err(Error::io("list", dir))?;
        if !names.iter().any(|name| name == MARK) {
            return Ok(found);
        }
        let file = disk.open(&path).map_err(Error::io("open", &path))?;
        let size = file.size().map_err(Error::io("read", &path))?;
        for block in 0..BLOCKS {
            let at = (block * BLOCK_BYTES) as u64;
            if size < at + BLOCK_BYTES as u64 {
                break;
            }
            let mut bytes = [0; BLOCK_BYTES];
            read_exact_at(file.as_ref(), &mut bytes, at).map_err(Error::io("read", &path))?;
            let mark = Mark::decode(&bytes, uuid, &path)?;
            if mark > found.newest {
                found.newest = mark;
                found.next_block = (block + 1) % BLOCKS;
            }
        }
        found.file = Some(file);
        Ok(found)
    }

    pub(super) fn newest(&self) -> Option<Mark> {
        self.newest
    }

    /// Makes the file if there is none. Without one the log does its work all the same.
    pub(super) fn make(&mut self, disk: &dyn Disk, dir: &Path) {
        if self.file.is_none() {
            self.file = disk.create(&dir.join(MARK)).ok();
        }
    }

    /// Writes that everything up to `mark` is durable, which it must be. It is not synced: a process that dies leaves it to the
    /// system, which writes it down within its usual time, and after a power cut an older one may stand there.
    pub(super) fn note(&mut self, mark: Mark) {
        let Some(file) = &self.file else { return };
        if self.newest >= Some(mark) {
            return;
        }
        let at = (self.next_block * BLOCK_BYTES) as u64;
        // A disk that fails here fails the log's next write too, which is told.
        if write_all_at(file.as_ref(), &mark.encode(self.uuid), at).is_ok() {
            self.newest = Some(mark);
            self.next_block = (self.next_block + 1) % BLOCKS;
        }
    }
}
