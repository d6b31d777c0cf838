//! Files of devices' pages: their bytes as they are, and groups that list blocks of them by table, series and time.
//!
//! Does: put flash pages into a file, list the blocks that the caller chose, look at their values once for statistics and rollups.
//! Does not: choose blocks, or see whether two of one series overlap (a reader refuses such a group).
//! Next: `docs/format/segment.md`, "Device pages"; `engine/maintain/kept_pages.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nilometer_codec::device::{DeviceBlock, DevicePage, device_page_bytes};
use nilometer_codec::{ColumnBuf, PhysicalType, decode_page};

use super::known::Known;
use super::{SegmentWriter, WRITE_BYTES};
use crate::error::{Error, Malformed};
use crate::kept_page::{BlockPlace, KeptPage};
use crate::schema::TableId;
use crate::segment::directory::{BlockClock, Unit};
use crate::segment::footer::{GroupMeta, SegmentKind};
use crate::segment::{
    BlockEntry, ColumnChunk, GROUP_BLOCKS_MAX, GROUP_BYTES_MAX, GroupDirectory, TIME_PAGE,
};

/// A column's page: its number, its type, its place in the file.
type Place = (u32, PhysicalType, (u64, u32));

/// A block that a group lists.
struct Block<'a> {
    entry: BlockEntry,
    clock: BlockClock,
    /// The device's number of its series: the place of its key among those of the file, of which each is of one series.
    number: u32,
    unit: usize,
    /// The unit's bytes.
    bytes: &'a [u8],
    pages: Vec<Place>,
}

impl Block<'_> {
    /// Memory that its rows take decoded, about; texts are no longer than their page says.
    fn decoded_bytes(&self) -> usize {
        self.entry.rows as usize * 8 * self.pages.len()
    }

    fn page(&self, column: (u32, PhysicalType)) -> Option<(u64, u32)> {
        let mut pages = self.pages.iter();
        pages.find(|it| (it.0, it.1) == column).map(|it| it.2)
    }
}

/// Nanoseconds since 1970 of the ticks of a page; `None` = there are none that 64 bits hold.
pub(crate) fn time_of(page: &DevicePage<'_>, start_ns: i64, ticks: i64) -> Option<i64> {
    ticks
        .checked_mul(i64::from(page.tick_ns))?
        .checked_add(start_ns)
}

impl SegmentWriter {
    /// Writes pages, then groups of each table with the blocks that have a place.
    pub(crate) fn write_device_pages(&mut self, pages: &[KeptPage]) -> Result<(), Error> {
        self.footer.kind = SegmentKind::Device;
        let start = self.output.position();
        let mut units = Vec::new();
        let mut numbers: HashMap<(&str, u32), u32> = HashMap::new();
        let mut tables: BTreeMap<TableId, Vec<Block<'_>>> = BTreeMap::new();
        for kept in pages {
            let offset = self.output.position();
            let damaged = |what: Malformed| what.at(&self.path, offset);
            let page = DevicePage::open(&kept.bytes).map_err(|what| damaged(what.into()))?;
            for (block, place) in page.blocks.iter().zip(&kept.blocks) {
                let Some(place) = place else { continue };
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                let number = *numbers.entry((block.key, place.series)).or_insert(next);
                let found = block_of((&page, kept), (block, place), (units.len(), offset));
                let mut found = found.ok_or_else(|| damaged(Malformed::new("times of a page")))?;
                found.number = number;
                tables.entry(place.table).or_default().push(found);
            }
            let end = device_page_bytes(&kept.bytes).unwrap_or(0);
            let crc = kept.bytes.get(..end).and_then(<[u8]>::last_chunk);
            units.push(Unit {
                offset,
                length: u32::try_from(kept.bytes.len()).unwrap_or(u32::MAX),
                crc: crc.map_or(0, |crc| u32::from_le_bytes(*crc)),
            });
            self.output.buffer.extend_from_slice(&kept.bytes);
            self.output.spill(&self.path, WRITE_BYTES)?;
        }
        let mut place = (start, self.output.position() - start);
        for (table, mut blocks) in tables {
            blocks.sort_by_key(|it| (it.entry.first_series, it.entry.min_time));
            for group in groups_of(&blocks) {
                self.put_device_group(table, group, &units, place)?;
                // The pages are counted once, wherever blocks of them are listed.
                place = (self.output.position(), 0);
            }
        }
        Ok(())
    }

    fn put_device_group(
        &mut self,
        table: TableId,
        blocks: &[Block<'_>],
        units: &[Unit],
        (offset, pages): (u64, u64),
    ) -> Result<(), Error> {
        let used: BTreeSet<usize> = blocks.iter().map(|it| it.unit).collect();
        let series = blocks.iter().map(|it| (it.number, it.entry.first_series));
        let series: BTreeMap<u32, u32> = series.collect();
        let entries = blocks.iter().map(|it| BlockEntry {
            first_series: it.number,
            last_series: it.number,
            ..it.entry
        });
        let columns = columns_of(blocks);
        let directory = GroupDirectory {
            table,
            blocks: entries.collect(),
            clocks: blocks.iter().map(|it| it.clock).collect(),
            units: used
                .iter()
                .filter_map(|at| units.get(*at).copied())
                .collect(),
            device_series: series.into_iter().collect(),
            chunks: columns.iter().map(|it| chunk_of(blocks, *it)).collect(),
            large: Vec::new(),
            first_page: 0,
        };
        let known = look_at(blocks, &columns, units, self);
        let known = known.map_err(|what| what.at(&self.path, offset))?;
        let mut bytes = Vec::new();
        directory.encode(self.format, &mut bytes);
        let directory = self.put_part(&bytes)?;
        let has_duplicates = known.has_duplicates();
        let (statistics, rollups) = self.put_known(known)?;
        let large = self.put_part(&[])?;
        let entries = || blocks.iter().map(|it| it.entry);
        self.footer.groups.push(GroupMeta {
            table,
            partition_start: entries().map(|it| it.min_time).min().unwrap_or(0),
            first_series: entries().map(|it| it.first_series).min().unwrap_or(0),
            last_series: entries().map(|it| it.last_series).max().unwrap_or(0),
            min_time: entries().map(|it| it.min_time).min().unwrap_or(0),
            max_time: entries().map(|it| it.max_time).max().unwrap_or(0),
            rows: entries().map(|it| u64::from(it.rows)).sum(),
            has_duplicates,
            offset,
            pages,
            directory,
            statistics,
            rollups,
            large,
        });
        self.output.spill(&self.path, WRITE_BYTES)
    }
}

/// A group takes so many blocks and so much memory, and one block at least.
fn groups_of<'b, 'a>(blocks: &'b [Block<'a>]) -> Vec<&'b [Block<'a>]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, block) in blocks.iter().enumerate() {
        let more = block.decoded_bytes();
        let is_full = at - start >= GROUP_BLOCKS_MAX || bytes + more > GROUP_BYTES_MAX;
        if at > start && is_full {
            groups.extend(blocks.get(start..at));
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    groups.extend(blocks.get(start..).filter(|rest| !rest.is_empty()));
    groups
}

/// Times first.
fn columns_of(blocks: &[Block<'_>]) -> Vec<(u32, PhysicalType)> {
    let pages = blocks.iter().flat_map(|it| &it.pages);
    let columns: BTreeMap<(u32, u8), PhysicalType> =
        pages.map(|it| ((it.0, it.1 as u8), it.1)).collect();
    let columns = columns.into_iter();
    columns.map(|((column, _), kind)| (column, kind)).collect()
}

fn chunk_of(blocks: &[Block<'_>], (column, kind): (u32, PhysicalType)) -> ColumnChunk {
    let first = blocks.iter().find_map(|it| it.page((column, kind)));
    let first = first.unwrap_or_default();
    let mut chunk = ColumnChunk::new(column, kind, first.0);
    let mut end = first.0;
    for block in blocks {
        let (start, length) = block.page((column, kind)).unwrap_or((end, 0));
        chunk.starts.push(start);
        chunk.lengths.push(length);
        end = start + u64::from(length);
    }
    chunk
}

/// What statistics and rollups say of the blocks.
fn look_at(
    blocks: &[Block<'_>],
    columns: &[(u32, PhysicalType)],
    units: &[Unit],
    writer: &SegmentWriter,
) -> Result<Known, Malformed> {
    let mut known = Known::new(blocks.len(), true, writer.format);
    let mut page = ColumnBuf::default();
    for &(column, kind) in columns {
        for (at, block) in blocks.iter().enumerate() {
            let Some((offset, length)) = block.page((column, kind)) else {
                continue;
            };
            let unit = units.get(block.unit).map_or(0, |unit| unit.offset);
            let start = usize::try_from(offset.saturating_sub(unit)).unwrap_or(usize::MAX);
            let bytes = block
                .bytes
                .get(start..start.saturating_add(length as usize));
            decode_page(bytes.unwrap_or_default(), &mut page)?;
            if column == TIME_PAGE {
                let clock = block.clock;
                page.map_i64s(|own| own.checked_mul(clock.unit)?.checked_add(clock.shift));
            }
            known.observe(column, at, &block.entry, page.as_column());
        }
        known.end_column(column, kind);
    }
    Ok(known)
}

/// A block without its number; `None` = its times are none.
fn block_of<'a>(
    (page, kept): (&DevicePage<'_>, &'a KeptPage),
    (block, to): (&DeviceBlock<'_>, &BlockPlace),
    (unit, offset): (usize, u64),
) -> Option<Block<'a>> {
    let place = |range: &std::ops::Range<usize>| {
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        (offset + range.start as u64, length)
    };
    let time = |ticks: i64| time_of(page, kept.start_ns, ticks);
    let mut pages = vec![(TIME_PAGE, PhysicalType::I64, place(&block.time_page))];
    for (field, column) in block.fields.iter().zip(&to.columns) {
        pages.push((column.0, field.physical_type, place(&field.page)));
    }
    Some(Block {
        entry: BlockEntry {
            first_series: to.series,
            last_series: to.series,
            rows: u32::try_from(block.rows).ok()?,
            min_time: time(block.times.0)?,
            max_time: time(block.times.1)?,
        },
        clock: BlockClock {
            // The server knows what it adds, whoever told it.
            flags: 0,
            unit: i64::from(page.tick_ns),
            shift: time(block.base)?,
        },
        number: 0,
        unit,
        bytes: &kept.bytes,
        pages,
    })
}
