//! Reading a segment: footer at open, a group's directory at its first use, pages by `pread`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nilometer_codec::{ColumnBuf, crc32c, decode_page, varint};

use super::directory::GroupDirectory;
use super::meta::SegmentMeta;
use super::writer::GroupMeta;
use super::{HEADER_BYTES, MAGIC, TAIL_BYTES};
use crate::definition::{take_bytes, take_u32};
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::schema::TableId;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) meta: SegmentMeta,
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
        let (offset, length, crc) =
            decode_tail(&tail, meta.file_id).map_err(|what| what.at(&path, tail_offset))?;
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
        let groups = decode_footer(&footer).map_err(|what| what.at(&path, offset))?;
        Ok(Self {
            meta,
            path,
            file,
            groups,
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

    /// Groups of all tables.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
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
        let bytes = self.read_span(meta.offset, u64::from(meta.length))?;
        if crc32c(0, &bytes) != meta.crc {
            return Err(Error::corrupt(
                &self.path,
                meta.offset,
                "a group directory fails its checksum",
            ));
        }
        let directory =
            GroupDirectory::decode(&bytes).map_err(|what| what.at(&self.path, meta.offset))?;
        let directory = Arc::new(directory);
        Ok(Arc::clone(group.directory.get_or_init(|| directory)))
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
        let checked = || {
            let (page, crc) = bytes.split_last_chunk::<4>()?;
            (crc32c(0, page) == u32::from_le_bytes(*crc)).then_some(page)
        };
        let Some(page) = checked() else {
            return Err(Error::corrupt(
                &self.path,
                offset,
                "a page fails its checksum",
            ));
        };
        decode_page(page, out)
            .map_err(Malformed::from)
            .map_err(|what| what.at(&self.path, offset))
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

fn decode_tail(bytes: &[u8], file_id: u64) -> Result<(u64, u64, u32), Malformed> {
    let mut input = bytes;
    let covered = bytes.get(..28).unwrap_or_default();
    let id = take_u64(&mut input)?;
    let offset = take_u64(&mut input)?;
    let length = take_u64(&mut input)?;
    let footer_crc = take_fixed_u32(&mut input)?;
    let crc = take_fixed_u32(&mut input)?;
    if input != MAGIC || crc != crc32c(0, covered) || id != file_id {
        return Err(Malformed::new("the tail fails its checksum"));
    }
    Ok((offset, length, footer_crc))
}

fn take_u64(input: &mut &[u8]) -> Result<u64, Malformed> {
    let bytes = take_bytes(input, 8)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}

fn take_fixed_u32(input: &mut &[u8]) -> Result<u32, Malformed> {
    let bytes = take_bytes(input, 4)?;
    Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
}

fn decode_footer(mut input: &[u8]) -> Result<Vec<Group>, Malformed> {
    let input = &mut input;
    let n = take_u32(input)?;
    let mut groups = Vec::new();
    for _ in 0..n {
        let meta = GroupMeta {
            table: TableId(take_u32(input)?),
            partition_start: varint::get_i64(input)?,
            first_series: take_u32(input)?,
            last_series: take_u32(input)?,
            min_time: varint::get_i64(input)?,
            max_time: varint::get_i64(input)?,
            rows: varint::get_u64(input)?,
            offset: varint::get_u64(input)?,
            length: take_u32(input)?,
            crc: take_fixed_u32(input)?,
        };
        groups.push(Group {
            meta,
            directory: OnceLock::new(),
        });
    }
    if !input.is_empty() {
        return Err(Malformed::new("bytes after the footer's last group"));
    }
    Ok(groups)
}
