//! Reading a segment: footer at open, parts of groups on demand, pages by `pread`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, Page, PhysicalType};

use super::cache::{CachedPart, PartKind, SegmentCache, read};
use super::checksum::{Checksums, SegmentFormat};
use super::directory::{ColumnChunk, DevicePages, GroupDirectory, Unit, UnitPages};
use super::footer::{Footer, GroupMeta, Part, SegmentKind, Tail, Tier};
use super::large::{self, LargeValue};
use super::latest::{self, Latest, LatestColumn};
use super::meta::{Home, SegmentMeta, Window};
use super::rollup::GroupRollups;
use super::statistics::GroupStatistics;
use super::unpacked::Unpacked;
use super::{BLOCK_LARGE_BYTES_MAX, FILLING, HEADER_BYTES, KIND, TAIL_BYTES};
use crate::batch::{Strings, Values};
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Malformed};
use crate::file_header::{self, Format};
use crate::schema::TableId;
use crate::tombstone::Tombstone;

/// Pages are kept in as many forms as there are steps of so many rows in them, at most.
const KEPT_ROWS_STEP: usize = 256;

/// A segment that was found in order. Its file is opened when it is read, and its parts decoded when they are asked for.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) meta: SegmentMeta,
    pub(crate) format: SegmentFormat,
    /// The format's number in its header.
    number: u16,
    checksums: Checksums,
    path: PathBuf,
    access: Access,
    footer: Footer,
    /// The groups stand in the order of their tables.
    is_by_table: bool,
}

/// How a segment comes to its file and keeps what it decoded.
#[derive(Debug)]
enum Access {
    /// Through what all segments of a store share.
    Shared(Arc<SegmentCache>),
    /// The file is held open, and nothing is kept.
    Alone(Arc<dyn DiskFile>),
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Access::Shared(cache) = &self.access {
            cache.forget(self.meta.file_id);
        }
    }
}

impl Segment {
    /// Opens a segment that the manifest lists; checks header, tail and footer.
    pub(crate) fn open(
        cache: &Arc<SegmentCache>,
        path: PathBuf,
        uuid: [u8; 16],
        meta: SegmentMeta,
    ) -> Result<Self, Error> {
        Self::open_through(Access::Shared(Arc::clone(cache)), path, uuid, meta)
    }

    /// Opens a segment to look at it once.
    pub(crate) fn open_alone(
        disk: &dyn Disk,
        path: PathBuf,
        uuid: [u8; 16],
        meta: SegmentMeta,
    ) -> Result<Self, Error> {
        let file = disk.open(&path).map_err(Error::io("open", &path))?;
        Self::open_through(Access::Alone(file), path, uuid, meta)
    }

    fn open_through(
        access: Access,
        path: PathBuf,
        uuid: [u8; 16],
        meta: SegmentMeta,
    ) -> Result<Self, Error> {
        let mut segment = Self::unread(access, path, meta);
        let path = &segment.path;
        let bytes = segment.file()?.size().map_err(Error::io("read", path))?;
        let listed = segment.meta.bytes;
        if bytes != listed {
            let reason = format!("the file has {bytes} bytes, the manifest says {listed}");
            return Err(Error::corrupt(path, bytes, reason));
        }
        let format = segment.read_header(uuid)?;
        let (offset, footer) = segment.footer()?;
        let footer = Footer::decode(&footer, segment.format);
        segment.footer = footer.map_err(|what| format.refuse(what, &segment.path, offset))?;
        segment.is_by_table = segment.all_groups().is_sorted_by_key(|(_, it)| it.table);
        Ok(segment)
    }

    /// The same file at another LSN: one that was staged becomes part of the store.
    pub(crate) fn at_lsn(&self, lsn: u64) -> Self {
        let meta = SegmentMeta {
            min_lsn: lsn,
            max_lsn: lsn,
            applied_lsn: lsn,
            ..self.meta.clone()
        };
        let access = match &self.access {
            Access::Shared(cache) => Access::Shared(Arc::clone(cache)),
            Access::Alone(file) => Access::Alone(Arc::clone(file)),
        };
        Self {
            meta,
            access,
            path: self.path.clone(),
            footer: self.footer.clone(),
            ..*self
        }
    }

    /// Before anything of it was read.
    fn unread(access: Access, path: PathBuf, meta: SegmentMeta) -> Self {
        Self {
            format: SegmentFormat::NOW,
            number: SegmentFormat::NOW as u16,
            checksums: Checksums::new(SegmentFormat::NOW, [0; 16], meta.file_id),
            meta,
            path,
            access,
            footer: Footer::default(),
            is_by_table: false,
        }
    }

    /// Checks the header, which must be of the store `uuid`, and notes what the checksums of the rest are.
    fn read_header(&mut self, uuid: [u8; 16]) -> Result<Format, Error> {
        let bytes = self.read_span(0, HEADER_BYTES as u64)?;
        let header = file_header::decode(&bytes, KIND, &self.path)?;
        // No checksum covers the filling, so it is what it was written as.
        if let Some(at) = (FILLING..HEADER_BYTES).find(|at| bytes.get(*at) != Some(&0)) {
            let reason = "the header ends in zeros, and this byte is none";
            return Err(Error::corrupt(&self.path, at as u64, reason));
        }
        let file_id = self.meta.file_id;
        if header.uuid != uuid || header.own != file_id.to_le_bytes() {
            let reason = "the segment belongs to another data directory or has another id";
            return Err(Error::corrupt(&self.path, 0, reason));
        }
        self.number = header.format.found();
        self.format = SegmentFormat::of(self.number);
        self.checksums = Checksums::new(self.format, header.uuid, file_id);
        Ok(header.format)
    }

    /// What the footer of a segment that does not open lists, if that much of it can be read.
    pub(crate) fn groups_left(
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        meta: &SegmentMeta,
    ) -> Result<Vec<GroupMeta>, Error> {
        let file = disk.open(path).map_err(Error::io("open", path))?;
        let bytes = file.size().map_err(Error::io("read", path))?;
        let meta = SegmentMeta {
            bytes,
            ..meta.clone()
        };
        let mut segment = Self::unread(Access::Alone(file), path.to_owned(), meta);
        if segment.read_header(uuid).is_ok() {
            return segment.listed_groups();
        }
        // Without a header it is of the format whose footer reads.
        segment.checksums = Checksums::new(segment.format, uuid, segment.meta.file_id);
        segment.listed_groups().or_else(|_| {
            segment.format = SegmentFormat::First;
            segment.checksums = Checksums::new(segment.format, uuid, segment.meta.file_id);
            segment.listed_groups()
        })
    }

    fn listed_groups(&self) -> Result<Vec<GroupMeta>, Error> {
        let (offset, footer) = self.footer()?;
        let footer = Footer::decode(&footer, self.format);
        let footer = footer.map_err(|what| what.at(&self.path, offset))?;
        Ok(footer.groups)
    }

    /// Where the footer stands, and its bytes, which pass their checksum.
    fn footer(&self) -> Result<(u64, Vec<u8>), Error> {
        let (path, bytes) = (&self.path, self.meta.bytes);
        let tail_offset = bytes.saturating_sub(TAIL_BYTES);
        let tail = self.read_span(tail_offset, TAIL_BYTES)?;
        let Tail {
            offset,
            length,
            crc,
        } = Tail::decode(&tail, self.meta.file_id).map_err(|what| what.at(path, tail_offset))?;
        if offset
            .checked_add(length)
            .is_none_or(|end| end > tail_offset)
        {
            return Err(Error::corrupt(
                path,
                tail_offset,
                "the footer's place is outside the file",
            ));
        }
        let footer = self.read_span(offset, length)?;
        if self.checksums.of(offset, &footer) != crc {
            return Err(Error::corrupt(
                path,
                offset,
                "the footer fails its checksum",
            ));
        }
        Ok((offset, footer))
    }

    fn file(&self) -> Result<Arc<dyn DiskFile>, Error> {
        match &self.access {
            Access::Shared(cache) => cache.file(self.meta.file_id, &self.path),
            Access::Alone(file) => Ok(Arc::clone(file)),
        }
    }

    /// How its pages were written.
    pub(crate) fn tier(&self) -> Tier {
        self.footer.tier
    }

    /// Whether it has flash pages of devices, as they wrote them.
    pub(crate) fn is_of_devices(&self) -> bool {
        self.footer.kind == SegmentKind::Device
    }

    /// The number of its format, as its header says.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The table of each group.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> {
        self.footer.groups.iter().map(|group| group.table)
    }

    /// Positions and footer entries of a table's groups.
    pub(crate) fn groups(&self, table: TableId) -> impl Iterator<Item = (usize, &GroupMeta)> {
        // Those of ten thousand tables are not gone over for each of them.
        let own = if self.is_by_table {
            let start = self
                .footer
                .groups
                .partition_point(|group| group.table < table);
            let end = self
                .footer
                .groups
                .partition_point(|group| group.table <= table);
            start..end
        } else {
            0..self.footer.groups.len()
        };
        let start = own.start;
        let own = self.footer.groups.get(own).unwrap_or_default();
        let own = (start..).zip(own);
        own.filter(move |(_, group)| group.table == table)
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

    /// Positions and footer entries of all groups.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = (usize, &GroupMeta)> {
        self.footer.groups.iter().enumerate()
    }

    /// The directory of a group.
    pub(crate) fn directory(&self, group: usize) -> Result<Arc<GroupDirectory>, Error> {
        let meta = self.group(group)?;
        let offset = meta.directory_offset();
        let part = self.part(group, PartKind::Directory, || {
            let bytes = self.read_part(offset, meta.directory, "a group directory")?;
            let directory = GroupDirectory::decode(&bytes, self.format);
            let kind = self.footer.kind;
            let directory = directory.and_then(|it| it.check_readable(self.format, kind));
            let mut directory = directory.map_err(|what| what.at(&self.path, offset))?;
            if meta.large.length > 0 && kind == SegmentKind::Device {
                let reason = "a file of a device's pages has large values";
                return Err(Error::corrupt(&self.path, offset, reason));
            }
            if meta.large.length > 0 {
                let offset = meta.large_offset();
                let bytes = self.read_part(offset, meta.large, "the list of large values")?;
                let values = large::decode(&bytes).map_err(|what| what.at(&self.path, offset))?;
                directory.large = values;
                directory.first_page = meta.offset;
            }
            Ok(CachedPart::Directory(Arc::new(directory)))
        })?;
        match part {
            CachedPart::Directory(directory) => Ok(directory),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// The statistics of a group's blocks; `None` = it has none.
    pub(crate) fn statistics(&self, group: usize) -> Result<Option<Arc<GroupStatistics>>, Error> {
        let meta = self.group(group)?;
        if meta.statistics.length == 0 {
            return Ok(None);
        }
        let offset = meta.statistics_offset();
        let part = self.part(group, PartKind::Statistics, || {
            let bytes = self.read_part(offset, meta.statistics, "the statistics of a group")?;
            let statistics = GroupStatistics::decode(&bytes);
            let statistics = statistics.map_err(|what| what.at(&self.path, offset))?;
            Ok(CachedPart::Statistics(Arc::new(statistics)))
        })?;
        match part {
            CachedPart::Statistics(statistics) => Ok(Some(statistics)),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// The rollups of a group; `None` = it has none.
    pub(crate) fn rollups(&self, group: usize) -> Result<Option<Arc<GroupRollups>>, Error> {
        let meta = self.group(group)?;
        if meta.rollups.length == 0 {
            return Ok(None);
        }
        let offset = meta.rollups_offset();
        let part = self.part(group, PartKind::Rollups, || {
            let bytes = self.read_part(offset, meta.rollups, "the rollups of a group")?;
            let rollups = GroupRollups::decode(&bytes, self.format);
            let rollups = rollups.map_err(|what| what.at(&self.path, offset))?;
            Ok(CachedPart::Rollups(Arc::new(rollups)))
        })?;
        match part {
            CachedPart::Rollups(rollups) => Ok(Some(rollups)),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// What is stored of a column in each block of a group, with first and last values if `ends`; `None` = nothing is.
    pub(crate) fn unpacked_blocks(
        &self,
        group: usize,
        (column, kind): (u32, PhysicalType),
        ends: bool,
    ) -> Result<Option<Arc<Unpacked>>, Error> {
        let offset = self.group(group)?.statistics_offset();
        let part = self.part(group, PartKind::Blocks(column, kind, ends), || {
            let Some(statistics) = self.statistics(group)? else {
                return Ok(CachedPart::Unpacked(None));
            };
            let directory = self.directory(group)?;
            let blocks = &directory.blocks;
            let pages = statistics.column(column, kind, blocks.len());
            let pages = pages.map_err(|what| what.at(&self.path, offset))?;
            let pages = pages.unwrap_or_default();
            let chunk = directory.chunk(column);
            let has_page =
                |at: usize| chunk.is_some_and(|it| it.lengths.get(at).is_some_and(|&n| n > 0));
            let unpacked = Unpacked::of_blocks(kind, blocks, &pages, has_page, ends);
            Ok(CachedPart::Unpacked(unpacked.map(Arc::new)))
        })?;
        match part {
            CachedPart::Unpacked(unpacked) => Ok(unpacked),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// The same of each entry of a group's rollups.
    pub(crate) fn unpacked_hours(
        &self,
        group: usize,
        (column, kind): (u32, PhysicalType),
        ends: bool,
    ) -> Result<Option<Arc<Unpacked>>, Error> {
        let offset = self.group(group)?.rollups_offset();
        let part = self.part(group, PartKind::Hours(column, kind, ends), || {
            let Some(rollups) = self.rollups(group)? else {
                return Ok(CachedPart::Unpacked(None));
            };
            let all: Vec<usize> = (0..rollups.entries.len()).collect();
            let hours = rollups.column(column, kind, &all, ends);
            let hours = hours.map_err(|what| what.at(&self.path, offset))?;
            let unpacked = hours.and_then(|hours| Unpacked::of_hours(kind, &hours, ends));
            Ok(CachedPart::Unpacked(unpacked.map(Arc::new)))
        })?;
        match part {
            CachedPart::Unpacked(unpacked) => Ok(unpacked),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// Where the last row of each series of a group is.
    pub(crate) fn latest(&self, group: usize) -> Result<Arc<Latest>, Error> {
        let meta = self.group(group)?;
        let part = self.part(group, PartKind::Latest, || {
            let directory = self.directory(group)?;
            let latest = Latest::of(self, &directory, meta.has_duplicates)?;
            Ok(CachedPart::Latest(Arc::new(latest)))
        })?;
        match part {
            CachedPart::Latest(latest) => Ok(latest),
            _ => Err(self.mixed_up(meta.directory_offset())),
        }
    }

    /// What these rows have in a column; `None` = one has a text, or it is of another type there.
    pub(crate) fn latest_column(
        &self,
        group: usize,
        (column, kind): (u32, PhysicalType),
    ) -> Result<Option<Arc<LatestColumn>>, Error> {
        let offset = self.group(group)?.statistics_offset();
        let part = self.part(group, PartKind::LatestColumn(column, kind), || {
            let directory = self.directory(group)?;
            let mut chunks = directory.chunks.iter();
            let is_other = chunks.any(|chunk| chunk.column == column && chunk.kind != kind);
            if is_other {
                return Ok(CachedPart::LatestColumn(None));
            }
            if !latest::is_bits(kind) {
                let latest = self.latest(group)?;
                let absent = LatestColumn::absent(&directory, &latest, column);
                return Ok(CachedPart::LatestColumn(absent.map(Arc::new)));
            }
            let blocks = directory.blocks.len();
            let pages = match self.statistics(group)? {
                Some(statistics) => statistics
                    .column(column, kind, blocks)
                    .map_err(|what| what.at(&self.path, offset))?,
                None => None,
            };
            let latest = self.latest(group)?;
            let pages = pages.unwrap_or_default();
            let found = LatestColumn::of(self, &directory, &latest, column, &pages)?;
            Ok(CachedPart::LatestColumn(Some(Arc::new(found))))
        })?;
        match part {
            CachedPart::LatestColumn(column) => Ok(column),
            _ => Err(self.mixed_up(offset)),
        }
    }

    pub(super) fn part(
        &self,
        group: usize,
        kind: PartKind,
        read: impl FnOnce() -> Result<CachedPart, Error>,
    ) -> Result<CachedPart, Error> {
        let group = u32::try_from(group).unwrap_or(u32::MAX);
        match &self.access {
            Access::Shared(cache) => cache.part((self.meta.file_id, group, kind), read),
            Access::Alone(_) => read(),
        }
    }

    /// A part's key says what it is, so this is never seen.
    pub(super) fn mixed_up(&self, offset: u64) -> Error {
        Error::corrupt(&self.path, offset, "a cached part of another kind")
    }

    /// What the footer says of a group.
    pub(crate) fn group(&self, group: usize) -> Result<&GroupMeta, Error> {
        let group = self.footer.groups.get(group);
        group.ok_or_else(|| Error::corrupt(&self.path, 0, "no such group"))
    }

    fn read_part(&self, offset: u64, part: Part, what: &str) -> Result<Vec<u8>, Error> {
        let bytes = self.read_span(offset, u64::from(part.length))?;
        if self.checksums.of(offset, &bytes) != part.crc {
            let reason = format!("{what} fails its checksum");
            return Err(Error::corrupt(&self.path, offset, reason));
        }
        Ok(bytes)
    }

    /// Bytes `offset..offset + length` of the file: pages next to each other.
    pub(crate) fn read_span(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let file = self.file()?;
        read(file.as_ref(), &self.path, self.meta.bytes, offset, length)
    }

    /// The page of a column in `bytes`, which stand at `offset` of the file and end in its checksum, unless a device wrote it; its block
    /// has so many rows.
    pub(crate) fn check_page<'a>(
        &self,
        chunk: &ColumnChunk,
        rows: usize,
        bytes: &'a [u8],
        offset: u64,
    ) -> Result<Page<'a>, Error> {
        if let Some(device) = &chunk.device {
            return self.check_device_page(device, (chunk, rows), bytes, offset);
        }
        let page = self.check_unit(bytes, offset, "a page fails its checksum")?;
        let page = if self.format >= SegmentFormat::Third {
            Page::of_short(page, chunk.kind, rows)
        } else {
            Page::new(page)
        };
        page.map_err(|what| Malformed::from(what).at(&self.path, offset))
    }

    /// The same of a page inside of a device's, all of which its checksum is of.
    fn check_device_page<'a>(
        &self,
        device: &DevicePages,
        column: (&ColumnChunk, usize),
        bytes: &'a [u8],
        offset: u64,
    ) -> Result<Page<'a>, Error> {
        let damaged = |what: Malformed| what.at(&self.path, offset);
        let unit = device.unit_of(offset).map_err(damaged)?;
        let known = self.unit(unit)?;
        let checked = known.check(column, bytes, offset - unit.offset);
        checked.map_err(|what| what.at(&self.path, unit.offset))?;
        Page::new(bytes).map_err(|what| damaged(what.into()))
    }

    /// The pages of a unit, all of whose bytes are checked when it is asked for, unless that is known from a moment ago.
    fn unit(&self, unit: Unit) -> Result<Arc<UnitPages>, Error> {
        let part = self.part(0, PartKind::Unit(unit.offset), || {
            let whole = self.read_span(unit.offset, u64::from(unit.length))?;
            let pages = unit.open(&whole);
            let pages = pages.map_err(|what| what.at(&self.path, unit.offset))?;
            Ok(CachedPart::Unit(Arc::new(pages)))
        })?;
        match part {
            CachedPart::Unit(pages) => Ok(pages),
            _ => Err(self.mixed_up(unit.offset)),
        }
    }

    fn check_unit<'a>(&self, bytes: &'a [u8], offset: u64, what: &str) -> Result<&'a [u8], Error> {
        let page = bytes
            .split_last_chunk::<4>()
            .filter(|(page, crc)| self.checksums.of(offset, page) == u32::from_le_bytes(**crc));
        let page = page.map(|(page, _)| page);
        page.ok_or_else(|| Error::corrupt(&self.path, offset, what))
    }

    /// Checks and decodes one page of a column that stands at `offset` of the file; its block has so many rows.
    pub(crate) fn decode_page(
        &self,
        chunk: &ColumnChunk,
        rows: usize,
        bytes: &[u8],
        offset: u64,
        out: &mut ColumnBuf,
    ) -> Result<(), Error> {
        let page = self.check_page(chunk, rows, bytes, offset)?;
        let shared = chunk.shared.header_for(chunk.kind, &page);
        shared
            .and_then(|shared| Ok(page.decode(shared, out)?))
            .and_then(|()| chunk.set_clock(offset, out))
            .map_err(|what| what.at(&self.path, offset))
    }

    /// Decodes at least its first rows of one that was checked.
    pub(crate) fn decode_checked(
        &self,
        chunk: &ColumnChunk,
        page: &Page<'_>,
        offset: u64,
        rows: usize,
        out: &mut ColumnBuf,
    ) -> Result<(), Error> {
        let shared = chunk.shared.header_for(chunk.kind, page);
        shared
            .and_then(|shared| Ok(page.decode_rows(rows, shared, out)?))
            .and_then(|()| chunk.set_clock(offset, out))
            .map_err(|what| what.at(&self.path, offset))
    }

    /// Whether a column has pages that are worth keeping decoded.
    pub(crate) fn keeps_pages(&self, chunk: &ColumnChunk) -> bool {
        !chunk.shared.is_empty() && matches!(self.access, Access::Shared(_))
    }

    /// A page, at least so many of all its rows, decoded now or lately; `room` is what it is decoded in.
    pub(crate) fn kept_page(
        &self,
        chunk: &ColumnChunk,
        bytes: &[u8],
        offset: u64,
        (rows, all): (usize, usize),
        room: &mut ColumnBuf,
    ) -> Result<Arc<ColumnBuf>, Error> {
        let rows = rows.next_multiple_of(KEPT_ROWS_STEP).min(all);
        let kind = PartKind::Page(offset, u32::try_from(rows).unwrap_or(u32::MAX));
        let part = self.part(0, kind, || {
            let page = self.check_page(chunk, all, bytes, offset)?;
            self.decode_checked(chunk, &page, offset, rows, room)?;
            Ok(CachedPart::Page(Arc::new(room.to_kept())))
        })?;
        match part {
            CachedPart::Page(page) => Ok(page),
            _ => Err(self.mixed_up(offset)),
        }
    }

    /// A value outside of its page, appended.
    pub(crate) fn read_large(
        &self,
        directory: &GroupDirectory,
        value: &LargeValue,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let offset = directory.first_page.saturating_add(value.offset);
        let bytes = self.read_span(offset, u64::from(value.stored) + 4)?;
        let stored = self.check_unit(&bytes, offset, "a large value fails its checksum")?;
        large::unpack(value, stored, out).map_err(|what| what.at(&self.path, offset))
    }

    /// Puts values that stand outside of a page, of one block and column, in place of their short forms.
    pub(crate) fn put_large(
        &self,
        directory: &GroupDirectory,
        large: &[LargeValue],
        values: &mut Values,
    ) -> Result<(), Error> {
        let damaged = |reason| Error::corrupt(&self.path, directory.first_page, reason);
        let is_text = matches!(values, Values::Text(_));
        let (Values::Text(strings) | Values::Bytes(strings)) = values else {
            return Err(damaged("a column of numbers has large values"));
        };
        let bytes: u64 = large.iter().map(|it| u64::from(it.bytes)).sum();
        if large.len() > 1 && bytes > BLOCK_LARGE_BYTES_MAX as u64 {
            return Err(damaged("the large values of a block are too many"));
        }
        let mut whole = Strings::default();
        let mut next = large.iter().peekable();
        let mut value = Vec::new();
        for row in 0..strings.len() {
            let is_own = |it: &&LargeValue| it.row as usize == row;
            let Some(own) = next.next_if(is_own) else {
                whole.push(strings.get(row));
                continue;
            };
            value.clear();
            self.read_large(directory, own, &mut value)?;
            if !value.starts_with(strings.get(row)) {
                return Err(damaged("a large value does not begin as its page says"));
            }
            if is_text && std::str::from_utf8(&value).is_err() {
                return Err(damaged("a large value of a text is not UTF-8"));
            }
            whole.push(&value);
        }
        if next.next().is_some() {
            return Err(damaged("a large value of a row that is not there"));
        }
        *strings = whole;
        Ok(())
    }

    /// The file, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
