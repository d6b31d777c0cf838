//! Files of a device's pages, for the tests of what reads them.
//!
//! Does: put flash pages into a file as they are, and list their blocks by table, series and time. Does not: belong to the program: a
//! store makes rows of pages (`docs/decisions/0022`), and nothing but a test writes this kind of file.

use std::collections::{BTreeMap, BTreeSet};

use nilometer_codec::PhysicalType;
use nilometer_codec::device::{DevicePage, device_page_bytes};

use super::SegmentWriter;
use crate::error::{Error, Malformed};
use crate::schema::TableId;
use crate::segment::directory::{BlockClock, NO_CLOCK, Unit};
use crate::segment::footer::{GroupMeta, Part, SegmentKind};
use crate::segment::{BlockEntry, ColumnChunk, GroupDirectory, TIME_PAGE};

/// A flash page, and the time of its tick 0; `is_guess` = the device did not know it.
pub(crate) struct DeviceInput<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) start_ns: i64,
    pub(crate) is_guess: bool,
}

/// Where the store has a series and a field, by key and name.
pub(crate) struct DevicePlaces<'a> {
    pub(crate) series: &'a dyn Fn(&str) -> (TableId, u32),
    pub(crate) field: &'a dyn Fn(&str, &str) -> u32,
}

/// A column's page: its number, its type, its place.
type Place = (u32, PhysicalType, (u64, u32));

struct Block {
    entry: BlockEntry,
    clock: BlockClock,
    /// The device's number of its series: the place of its key among those of the file.
    number: u32,
    unit: usize,
    pages: Vec<Place>,
}

impl SegmentWriter {
    /// Writes the pages, then a group of each table.
    pub(crate) fn write_device_pages(
        &mut self,
        inputs: &[DeviceInput<'_>],
        places: &DevicePlaces<'_>,
    ) -> Result<(), Error> {
        self.footer.kind = SegmentKind::Device;
        let start = self.output.position();
        let mut units = Vec::new();
        let mut keys: Vec<String> = Vec::new();
        let mut tables: BTreeMap<TableId, Vec<Block>> = BTreeMap::new();
        for input in inputs {
            let offset = self.output.position();
            let blocks = blocks_of(input, (units.len(), offset), &mut keys, places)
                .map_err(|what| what.at(&self.path, offset))?;
            for (table, block) in blocks {
                tables.entry(table).or_default().push(block);
            }
            let end = device_page_bytes(input.bytes).unwrap_or(4);
            let crc = input.bytes[..end].last_chunk().unwrap_or(&[0; 4]);
            units.push(Unit {
                offset,
                length: u32::try_from(input.bytes.len()).unwrap_or(u32::MAX),
                crc: u32::from_le_bytes(*crc),
            });
            self.output.buffer.extend_from_slice(input.bytes);
        }
        let mut pages = (start, self.output.position() - start);
        for (table, blocks) in tables {
            self.put_device_group(table, blocks, &units, pages)?;
            // The pages are counted once, wherever blocks of them are listed.
            pages = (self.output.position(), 0);
        }
        Ok(())
    }

    fn put_device_group(
        &mut self,
        table: TableId,
        mut blocks: Vec<Block>,
        units: &[Unit],
        (offset, pages): (u64, u64),
    ) -> Result<(), Error> {
        blocks.sort_by_key(|it| (it.entry.first_series, it.entry.min_time));
        let used: BTreeSet<usize> = blocks.iter().map(|it| it.unit).collect();
        let series = blocks.iter().map(|it| (it.number, it.entry.first_series));
        let series: BTreeMap<u32, u32> = series.collect();
        let columns = blocks.iter().flat_map(|it| &it.pages);
        let columns: BTreeSet<(u32, u8)> = columns.map(|it| (it.0, it.1 as u8)).collect();
        let entries = blocks.iter().map(|it| BlockEntry {
            first_series: it.number,
            last_series: it.number,
            ..it.entry
        });
        let directory = GroupDirectory {
            table,
            blocks: entries.collect(),
            clocks: blocks.iter().map(|it| it.clock).collect(),
            units: used.iter().map(|at| units[*at]).collect(),
            device_series: series.into_iter().collect(),
            chunks: columns.iter().map(|it| chunk_of(&blocks, *it)).collect(),
            large: Vec::new(),
            first_page: 0,
        };
        let mut bytes = Vec::new();
        directory.encode(self.format, &mut bytes);
        let directory = self.put_part(&bytes)?;
        let entries = || blocks.iter().map(|it| it.entry);
        self.footer.groups.push(GroupMeta {
            table,
            partition_start: entries().map(|it| it.min_time).min().unwrap_or(0),
            first_series: entries().map(|it| it.first_series).min().unwrap_or(0),
            last_series: entries().map(|it| it.last_series).max().unwrap_or(0),
            min_time: entries().map(|it| it.min_time).min().unwrap_or(0),
            max_time: entries().map(|it| it.max_time).max().unwrap_or(0),
            rows: entries().map(|it| u64::from(it.rows)).sum(),
            // Nobody has looked.
            has_duplicates: true,
            offset,
            pages,
            directory,
            statistics: Part::default(),
            rollups: Part::default(),
            large: Part::default(),
        });
        Ok(())
    }
}

fn chunk_of(blocks: &[Block], (column, kind): (u32, u8)) -> ColumnChunk {
    let is_own = |it: &&Place| (it.0, it.1 as u8) == (column, kind);
    let own = |block: &Block| block.pages.iter().find(is_own).map(|it| it.2);
    let first = blocks.iter().find_map(own).unwrap_or_default();
    let kind = PhysicalType::try_from(kind).unwrap();
    let mut chunk = ColumnChunk::new(column, kind, first.0);
    let mut end = first.0;
    for block in blocks {
        let (start, length) = own(block).unwrap_or((end, 0));
        chunk.starts.push(start);
        chunk.lengths.push(length);
        end = start + u64::from(length);
    }
    chunk
}

fn blocks_of(
    input: &DeviceInput<'_>,
    (unit, offset): (usize, u64),
    keys: &mut Vec<String>,
    places: &DevicePlaces<'_>,
) -> Result<Vec<(TableId, Block)>, Malformed> {
    let page = DevicePage::open(input.bytes)?;
    let tick = i64::from(page.tick_ns);
    let time = |ticks: i64| ticks * tick + input.start_ns;
    let place = |range: &std::ops::Range<usize>| (offset + range.start as u64, range.len() as u32);
    let blocks = page.blocks.iter().map(|block| {
        let known = keys.iter().position(|key| key == block.key);
        let number = known.unwrap_or_else(|| {
            keys.push(block.key.to_owned());
            keys.len() - 1
        });
        let (table, series) = (places.series)(block.key);
        let mut pages = vec![(TIME_PAGE, PhysicalType::I64, place(&block.time_page))];
        for field in &block.fields {
            let column = (places.field)(block.key, field.name);
            pages.push((column, field.physical_type, place(&field.page)));
        }
        let block = Block {
            entry: BlockEntry {
                first_series: series,
                last_series: series,
                rows: block.rows as u32,
                min_time: time(block.times.0),
                max_time: time(block.times.1),
            },
            clock: BlockClock {
                flags: if input.is_guess { NO_CLOCK } else { 0 },
                unit: tick,
                shift: time(block.base),
            },
            number: number as u32,
            unit,
            pages,
        };
        (table, block)
    });
    Ok(blocks.collect())
}
