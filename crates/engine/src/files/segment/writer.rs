//! Writing a segment, front to back: groups, then the footer that lists them.
//!
//! Does: sort and merge the rows of a table (a flush), or take rows that are sorted and merged already and pages that
//! stay as they are (compaction). Does not: know which files are the store, sync folders, or remove what an error left.

mod device;
mod group;
mod known;
mod large;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checksum::{Checksums, SegmentFormat};
use super::footer::{Footer, SegmentKind, Tail, Tier};
use super::{GROUP_BLOCKS_MAX, HEADER_BYTES, MAGIC};
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::Error;
use crate::file_header::{self, FileFormat};
pub(crate) use device::time_of;
use group::View;
pub(crate) use group::{BlockInput, CopiedBlock, CopiedPage, GroupInput};
pub(crate) use table::TableInput;

/// Bytes gathered before a write call.
const WRITE_BYTES: usize = 1 << 20;

/// A segment being written. Dropping it unfinished leaves a file that no reader accepts.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    path: PathBuf,
    file_id: u64,
    format: SegmentFormat,
    checksums: Checksums,
    /// Fewest rows of a window that are worth cutting there; 0 = one is.
    window_rows_min: u64,
    output: Output,
    footer: Footer,
}

/// A file being written front to back.
#[derive(Debug)]
struct Output {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes that are written; the position is this plus the buffer.
    written: u64,
}

impl Output {
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn spill(&mut self, path: &Path, least: usize) -> Result<(), Error> {
        if self.buffer.len() >= least {
            write_all_at(self.file.as_ref(), &self.buffer, self.written)
                .map_err(Error::io("write", path))?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl SegmentWriter {
    /// Starts the file, which must not exist.
    #[cfg(test)]
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        file_id: u64,
    ) -> Result<Self, Error> {
        Self::create_of(SegmentFormat::NOW, disk, path, uuid, file_id)
    }

    /// The same in this format.
    pub(crate) fn create_of(
        format: SegmentFormat,
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        file_id: u64,
    ) -> Result<Self, Error> {
        let file = disk.create(path).map_err(Error::io("create", path))?;
        let kind = FileFormat {
            magic: MAGIC,
            format: format as u16,
        };
        Ok(Self {
            path: path.to_owned(),
            file_id,
            format,
            checksums: Checksums::new(format, uuid, file_id),
            window_rows_min: 0,
            output: Output {
                file,
                buffer: file_header::encode(kind, uuid, &file_id.to_le_bytes(), HEADER_BYTES),
                written: 0,
            },
            footer: Footer::default(),
        })
    }

    /// Rows of a table that has so many, but in each window fewer, are cut at wider ones.
    pub(crate) fn with_window_rows_min(mut self, rows: u64) -> Self {
        self.window_rows_min = rows;
        self
    }

    /// Notes in the file that its rows are of one partition, and writes them for this.
    pub(crate) fn of_partition(mut self, tier: Tier) -> Self {
        // Before format 2 there are no tiers.
        if self.format >= SegmentFormat::Second {
            self.footer.tier = tier;
        }
        self.footer.kind = SegmentKind::Partition;
        self
    }

    /// Adds blocks of rows that are sorted and merged, and of pages that stay as they are.
    pub(crate) fn write_group(&mut self, group: &GroupInput<'_>) -> Result<(), Error> {
        let view = View::whole(group.rows);
        for blocks in group.blocks.chunks(GROUP_BLOCKS_MAX) {
            self.put_group(group, &view, blocks)?;
        }
        Ok(())
    }

    /// Ends the file and syncs it if `sync`; the folder's names are the caller's to sync. Returns bytes and rows.
    pub(crate) fn finish(mut self, sync: bool) -> Result<(u64, u64), Error> {
        let mut bytes = Vec::new();
        self.footer.encode(self.format, &mut bytes);
        let offset = self.output.position();
        let tail = Tail {
            offset,
            length: bytes.len() as u64,
            crc: self.checksums.of(offset, &bytes),
        };
        tail.encode(self.file_id, &mut bytes);
        self.output.buffer.extend_from_slice(&bytes);
        self.output.spill(&self.path, 0)?;
        if sync {
            let synced = self.output.file.sync();
            synced.map_err(Error::io("sync", &self.path))?;
        }
        let groups = self.footer.groups.iter();
        let rows = groups.map(|group| group.rows).sum();
        Ok((self.output.written, rows))
    }
}
