//! Reading the log of a running store, and a copy of its end as a file of its own, for backups.
//!
//! Does: hand durable records to a visitor while others append, and write them to one new log file. Does not: keep the
//! log from being trimmed meanwhile (the caller holds the maintenance lock), or give the copy its place.

use std::path::Path;
use std::sync::Arc;

use super::file::FileHeader;
use super::replay::{Found, Pass};
use super::visit::Visit;
use super::{Log, encode_batch_records};
use crate::disk::{Disk, write_all_at};
use crate::error::{Error, Malformed};
use crate::schema::Lsn;

/// The copy is written in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

impl Log {
    /// Hands the records above `after` up to `last`, which is durable, to `visit`.
    pub(crate) fn replay<V>(&self, after: Lsn, last: Lsn, visit: &mut V) -> Result<(), Error>
    where
        V: Visit,
    {
        // The lock is given back before anything is read: records at or below `last` do not change any more.
        let live: Vec<(Found, FileHeader)> = {
            let files = super::lock(&self.files);
            let live = files.live.iter();
            live.map(|live| Found::live(live, self.uuid)).collect()
        };
        let Some((_, first)) = live.first() else {
            return Ok(());
        };
        let mut pass = Pass {
            flushed: after,
            expected: first.start_lsn,
            last,
            durable: last,
            mark: None,
            in_doubt: Vec::new(),
            records: 0,
            room: Vec::new(),
            visit,
        };
        pass.files(&live)?;
        if pass.expected > last {
            return Ok(());
        }
        let path = live.last().map_or(&self.dir, |(file, _)| &file.path);
        Err(Error::corrupt(
            path,
            0,
            format!(
                "LSN {} was durable and does not read any more",
                pass.expected
            ),
        ))
    }

    /// Writes the records above `after` up to `last`, which is durable, to the new log file `number` at `path`, and
    /// syncs it; returns how many bytes it has. The folder's names are the caller's to sync.
    pub(crate) fn copy(
        &self,
        after: Lsn,
        last: Lsn,
        number: u64,
        path: &Path,
    ) -> Result<u64, Error> {
        let header = FileHeader {
            uuid: self.uuid,
            number,
            start_lsn: after + 1,
        };
        write_file(self.disk.as_ref(), path, &header, |visit| {
            self.replay(after, last, &mut |lsn, payload: &[u8]| visit(lsn, payload))
        })
    }
}

/// Takes a record; what is wrong with it is its own to remember.
pub(super) type Take<'a> = dyn FnMut(Lsn, &[u8]) -> Result<(), Malformed> + 'a;

/// Writes the log file `header` with the records that `replay` hands over, and syncs it; returns how many bytes it has.
pub(super) fn write_file(
    disk: &dyn Disk,
    path: &Path,
    header: &FileHeader,
    replay: impl FnOnce(&mut Take<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let file = disk.create(path).map_err(Error::io("create", path))?;
    let mut piece = header.encode();
    let mut end = 0;
    let mut failed = None;
    let mut write = |piece: &mut Vec<u8>| {
        let written = write_all_at(file.as_ref(), piece, end);
        end += piece.len() as u64;
        piece.clear();
        written.map_err(Error::io("write", path))
    };
    replay(&mut |lsn, payload: &[u8]| {
        if failed.is_none() {
            // All before it is durable, so only damage to the last record could be taken for a torn tail.
            encode_batch_records(header.number, lsn, lsn - 1, payload, &mut piece);
            if piece.len() >= PIECE_BYTES {
                failed = write(&mut piece).err();
            }
        }
        Ok(())
    })?;
    match failed {
        Some(error) => return Err(error),
        None => write(&mut piece)?,
    }
    file.sync().map_err(Error::io("sync", path))?;
    Ok(end)
}

impl Found {
    fn live(live: &super::LiveFile, uuid: [u8; 16]) -> (Self, FileHeader) {
        let header = FileHeader {
            uuid,
            number: live.number,
            start_lsn: live.start_lsn,
        };
        let found = Self {
            number: live.number,
            path: live.path.clone(),
            file: Arc::clone(&live.file),
            header: Some(header),
            format: None,
        };
        (found, header)
    }
}
