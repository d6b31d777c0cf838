//! Reading a segment: footer at open, a group's directory at its first use, pages by `pread`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nilometer_codec::{ColumnBuf, crc32c, decode_page};

use super::directory::GroupDirectory;
use super::footer::{self, GroupMeta, Part, SegmentKind, Tail};
use super::meta::{Home, SegmentMeta, Window};
use super::rollup::GroupRollups;
use super::statistics::GroupStatistics;
use super::{HEADER_BYTES, MAGIC, TAIL_BYTES};
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::schema::TableId;
use crate::tombstone::Tombstone;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) meta: SegmentMeta,
    pub(crate) kind: SegmentKind,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    meta: GroupMeta,
    directory: OnceLock<Arc<GroupDirectory>>,
}

impl Segment {
    /// Opens a segment that the manifest lists; checks header, tail and footer.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: PathBuf,
        uuid: [u8; 16],
        meta: SegmentMeta,
    ) -> Result<Self, Error> {
        let file = disk.open(&path).map_err(Error::io("open", &path))?;
        let bytes = file.size().map_err(Error::io("read", &path))?;
        if bytes != meta.bytes {
            return Err(Error::corrupt(
                &path,
                bytes,
                format!(
                    "the file has {bytes} bytes, the manifest says {}",
                    meta.bytes
                ),
            ));
        }
        let read = |offset: u64, length: u64| read(file.as_ref(), &path, bytes, offset, length);
        let header = read(0, HEADER_BYTES as u64)?;
        check_header(&header, uuid, meta.file_id, &path)?;
        let tail_offset = bytes.saturating_sub(TAIL_BYTES);
        let tail = read(tail_offset, TAIL_BYTES)?;
        let Tail {
            offset,
            length,
            crc,
        } = Tail::decode(&tail, meta.file_id).map_err(|what| what.at(&path, tail_offset))?;
        if offset
            .checked_add(length)
            .is_none_or(|end| end > tail_offset)
        {
            return Err(Error::corrupt(
                &path,
                tail_offset,
                "the footer's place is outside the file",
            ));
        }
        let footer = read(offset, length)?;
        if crc32c(0, &footer) != crc {
            return Err(Error::corrupt(
                &path,
                offset,
                "the footer fails its checksum",
            ));
        }
        let (kind, groups) = footer::decode(&footer).map_err(|what| what.at(&path, offset))?;
        let groups = groups.into_iter().map(|meta| Group {
            meta,
            directory: OnceLock::new(),
        });
        Ok(Self {
            meta,
            kind,
            path,
            file,
            groups: groups.collect(),
        })
    }

    /// Positions and footer entries of a table's groups.
    pub(crate) fn groups(&self, table: TableId) -> impl Iterator<Item = (usize, &GroupMeta)> {
        self.groups
            .iter()
            .enumerate()
            .filter(move |(_, group)| group.meta.table == table)
            .map(|(at, group)| (at, &group.meta))
    }

    /// Footer entries of all groups.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = &GroupMeta> {
        self.groups.iter().map(|group| &group.meta)
    }

    /// Whether it belongs to a partition, which may have been widened since it was written.
    pub(crate) fn is_home(&self, window: &Window) -> bool {
        match self.meta.home {
            Home::Mixed => false,
            Home::Partition(home) => {
                home.table == window.table && window.start <= home.start && home.end <= window.end
            }
        }
    }

    /// Whether rows of it may still have to be left out for a delete.
    pub(crate) fn waits_for(&self, tombstone: &Tombstone) -> bool {
        tombstone.lsn > self.meta.applied_lsn
            && self.groups(tombstone.table).any(|(_, group)| {
                tombstone.touches(
                    group.first_series..=group.last_series,
                    group.min_time..=group.max_time,
                )
            })
    }

    /// The directory of a group, read and checked once.
    pub(crate) fn directory(&self, group: usize) -> Result<Arc<GroupDirectory>, Error> {
        let Some(group) = self.groups.get(group) else {
            return Err(Error::corrupt(&self.path, 0, format!("no group {group}")));
        };
        if let Some(directory) = group.directory.get() {
            return Ok(Arc::clone(directory));
        }
        let meta = &group.meta;
        let offset = meta.directory_offset();
        let bytes = self.read_part(offset, meta.directory, "a group directory")?;
        let directory =
            GroupDirectory::decode(&bytes).map_err(|what| what.at(&self.path, offset))?;
        let directory = Arc::new(directory);
        Ok(Arc::clone(group.directory.get_or_init(|| directory)))
    }

    /// The statistics of a group's blocks; `None` = it has none.
    pub(crate) fn statistics(&self, group: usize) -> Result<Option<Arc<GroupStatistics>>, Error> {
        let meta = self.group(group)?;
        if meta.statistics.length == 0 {
            return Ok(None);
        }
        let offset = meta.statistics_offset();
        let bytes = self.read_part(offset, meta.statistics, "the statistics of a group")?;
        let statistics = GroupStatistics::decode(&bytes);
        let statistics = statistics.map_err(|what| what.at(&self.path, offset))?;
        Ok(Some(Arc::new(statistics)))
    }

    /// The rollups of a group; `None` = it has none.
    pub(crate) fn rollups(&self, group: usize) -> Result<Option<Arc<GroupRollups>>, Error> {
        let meta = self.group(group)?;
        if meta.rollups.length == 0 {
            return Ok(None);
        }
        let offset = meta.rollups_offset();
        let bytes = self.read_part(offset, meta.rollups, "the rollups of a group")?;
        let rollups = GroupRollups::decode(&bytes);
        let rollups = rollups.map_err(|what| what.at(&self.path, offset))?;
        Ok(Some(Arc::new(rollups)))
    }

    /// What the footer says of a group.
    pub(crate) fn group(&self, group: usize) -> Result<&GroupMeta, Error> {
        let group = self.groups.get(group).map(|group| &group.meta);
        group.ok_or_else(|| Error::corrupt(&self.path, 0, "no such group"))
    }

    fn read_part(&self, offset: u64, part: Part, what: &str) -> Result<Vec<u8>, Error> {
        let bytes = self.read_span(offset, u64::from(part.length))?;
        if crc32c(0, &bytes) != part.crc {
            let reason = format!("{what} fails its checksum");
            return Err(Error::corrupt(&self.path, offset, reason));
        }
        Ok(bytes)
    }

    /// Bytes `offset..offset + length` of the file: pages next to each other.
    pub(crate) fn read_span(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let file = self.file.as_ref();
        read(file, &self.path, self.meta.bytes, offset, length)
    }

    /// Checks and decodes one page that stands at `offset` of the file.
    pub(crate) fn decode_page(
        &self,
        bytes: &[u8],
        offset: u64,
        out: &mut ColumnBuf,
    ) -> Result<(), Error> {
        decode_page(self.check_page(bytes, offset)?, out)
            .map_err(Malformed::from)
            .map_err(|what| what.at(&self.path, offset))
    }

    /// A page without its checksum, which it was checked against.
    pub(crate) fn check_page<'a>(&self, bytes: &'a [u8], offset: u64) -> Result<&'a [u8], Error> {
        let checked = || {
            let (page, crc) = bytes.split_last_chunk::<4>()?;
            (crc32c(0, page) == u32::from_le_bytes(*crc)).then_some(page)
        };
        checked().ok_or_else(|| Error::corrupt(&self.path, offset, "a page fails its checksum"))
    }

    /// The file, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Bytes of a file of `size` bytes; a place outside it takes no memory.
fn read(
    file: &dyn DiskFile,
    path: &Path,
    size: u64,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Error> {
    let inside = offset.checked_add(length).is_some_and(|end| end <= size);
    let length = usize::try_from(length).ok().filter(|_| inside);
    let length =
        length.ok_or_else(|| Error::corrupt(path, offset, "a place is outside the file"))?;
    let mut bytes = vec![0; length];
    read_exact_at(file, &mut bytes, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, offset, "the file ends early"),
        _ => Error::io("read", path)(error),
    })?;
    Ok(bytes)
}

fn check_header(bytes: &[u8], uuid: [u8; 16], file_id: u64, path: &Path) -> Result<(), Error> {
    let (owner, id) = file_header::decode(bytes, MAGIC, path)?;
    if owner != uuid || id != file_id.to_le_bytes() {
        return Err(Error::corrupt(
            path,
            0,
            "the segment belongs to another data directory or has another id",
        ));
    }
    Ok(())
}
