//! A group's directory: places and time spans of its pages. Columnar, as the pages are.

mod device;

use std::sync::{Arc, OnceLock};

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnBuf, Page, PhysicalType, SHARED_HEADER_BYTES_MAX, SharedHeader,
    decode_i64s, encode_i64s, varint,
};

pub(super) use self::device::{DevicePages, UnitPages};
use super::checksum::SegmentFormat;
use super::footer::SegmentKind;
use super::large::{self, LargeValue};
use crate::definition::{take_byte, take_bytes, take_u32};
use crate::error::Malformed;
use crate::schema::TableId;
use crate::segment::{GROUP_BLOCKS_MAX, TIME_PAGE};

/// What a block spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    /// Same as `last_series` in a single-series block, which has no series page.
    pub(crate) first_series: u32,
    pub(crate) last_series: u32,
    pub(crate) rows: u32,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

impl BlockEntry {
    /// Whether it may have rows of several series, and so says of each row whose it is.
    pub(crate) fn is_shared(&self) -> bool {
        self.first_series != self.last_series
    }

    /// What its rows' times go up by, if they do so evenly: from format 3 on such times have no page. `None` = no times are that even.
    pub(crate) fn even_step(&self) -> Option<i64> {
        let duration = self.max_time.checked_sub(self.min_time)?;
        match i64::from(self.rows) {
            0 => None,
            1 => (duration == 0).then_some(0),
            rows if rows > BLOCK_ROWS_MAX as i64 || duration < 0 => None,
            rows => (duration % (rows - 1) == 0).then_some(duration / (rows - 1)),
        }
    }

    /// Whether these are its rows' times, and even.
    pub(crate) fn has_even(&self, times: &[i64]) -> bool {
        let Some(step) = self.even_step() else {
            return false;
        };
        let mut expected = self.min_time;
        times.len() == self.rows as usize
            && times.iter().all(|time| {
                let is_next = *time == expected;
                expected = expected.wrapping_add(step);
                is_next
            })
    }

    /// Fills a column with its rows' times, which are even and have no page; false = they cannot be.
    pub(crate) fn fill_even(&self, out: &mut ColumnBuf) -> bool {
        let step = self.even_step();
        if let Some(step) = step {
            out.fill_even(self.min_time, step, self.rows as usize);
        }
        step.is_some()
    }

    /// Whether it may have a row in a range of time.
    pub(crate) fn overlaps(&self, time: &std::ops::RangeInclusive<i64>) -> bool {
        self.min_time <= *time.end() && self.max_time >= *time.start()
    }
}

/// How the times in a block's page become times: `page's time * unit + shift`. From format 2 on; of blocks that a device
/// wrote, so that setting its clock right touches no page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockClock {
    /// [`NO_CLOCK`] or 0.
    pub(crate) flags: u8,
    /// Nanoseconds, or whatever the table counts, of one step of the page's times; at least 1.
    pub(crate) unit: i64,
    pub(crate) shift: i64,
}

/// A block's flag: whoever wrote it had no clock, and its shift is a guess.
pub(crate) const NO_CLOCK: u8 = 1;

/// A stretch of the file that carries its own checksum and holds pages: a flash page of a device. From format 2 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The checksum in it, which says nothing of its place; here it does.
    pub(crate) crc: u32,
}

/// One column's pages in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnChunk {
    /// A field's id, `TIME_PAGE` or `SERIES_PAGE`.
    pub(crate) column: u32,
    pub(crate) kind: PhysicalType,
    /// Where the first page starts in the file.
    pub(crate) offset: u64,
    /// By block: bytes of its page with its checksum; 0 = every row is null (or there is one series).
    pub(crate) lengths: Vec<u32>,
    /// By block: where its page starts; empty = each page starts where the one before ends.
    pub(crate) starts: Vec<u64>,
    pub(crate) shared: Shared,
    /// What its pages have instead of checksums of their own, if a device wrote them; found when the directory is looked at.
    pub(super) device: Option<Arc<DevicePages>>,
}

/// What pages of a column share that cannot be read alone, parsed when the first of them is read; empty = all can.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    bytes: Arc<[u8]>,
    header: Arc<OnceLock<SharedHeader>>,
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Shared {}

impl Shared {
    /// About how much memory the parsed header takes, which is not known before it is parsed.
    const HEADER_BYTES: usize = 16 << 10;

    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.into(),
            header: Arc::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What a page of this type needs to be decoded; `None` = it stands alone.
    pub(crate) fn header_for(
        &self,
        kind: PhysicalType,
        page: &Page<'_>,
    ) -> Result<Option<&SharedHeader>, Malformed> {
        if self.is_empty() || !page.needs_header() {
            return Ok(None);
        }
        if self.header.get().is_none() {
            // Two readers may both parse it, and one of the two is kept.
            drop(self.header.set(SharedHeader::parse(kind, &self.bytes)?));
        }
        Ok(self.header.get())
    }

    fn memory(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.bytes.len() + Self::HEADER_BYTES
        }
    }
}

impl ColumnChunk {
    /// Of pages that follow each other from `offset` on.
    pub(crate) fn new(column: u32, kind: PhysicalType, offset: u64) -> Self {
        Self {
            column,
            kind,
            offset,
            lengths: Vec::new(),
            starts: Vec::new(),
            shared: Shared::default(),
            device: None,
        }
    }

    /// Whether its pages are inside of a device's, whose checksum stands for theirs, and with times of its own: they are read by the
    /// segment only, and not copied as they are.
    pub(crate) fn is_of_device(&self) -> bool {
        self.device.is_some()
    }

    /// Where the page of a block stands and how long it is; `None` = no page.
    pub(crate) fn page(&self, block: usize) -> Option<(u64, u32)> {
        let length = *self.lengths.get(block)?;
        let offset = if self.starts.is_empty() {
            let before: u64 = self.lengths.iter().take(block).map(|&n| u64::from(n)).sum();
            self.offset.checked_add(before)?
        } else {
            *self.starts.get(block)?
        };
        (length > 0).then_some((offset, length))
    }

    /// The same of several blocks, which ascend.
    pub(crate) fn pages(&self, blocks: &[usize]) -> impl Iterator<Item = Option<(u64, u32)>> {
        let (mut next, mut offset) = (0, self.offset);
        blocks.iter().map(move |&block| {
            if self.starts.is_empty() {
                let before = self.lengths.get(next..block)?.iter();
                offset = offset.checked_add(before.map(|&n| u64::from(n)).sum())?;
                next = block;
            } else {
                offset = *self.starts.get(block)?;
            }
            let length = *self.lengths.get(block)?;
            (length > 0).then_some((offset, length))
        })
    }

    /// By block: from the end of the page before to the start of its own.
    fn gaps(&self) -> Vec<i64> {
        let mut end = self.offset;
        let pages = self.starts.iter().zip(&self.lengths);
        pages
            .map(|(&start, &length)| {
                let gap = start.wrapping_sub(end).cast_signed();
                end = start.wrapping_add(u64::from(length));
                gap
            })
            .collect()
    }

    fn starts_of(offset: u64, lengths: &[u32], gaps: &[i64]) -> Result<Vec<u64>, Malformed> {
        let mut end = offset;
        let mut starts = Vec::with_capacity(gaps.len());
        for (&gap, &length) in gaps.iter().zip(lengths) {
            let start = end.checked_add_signed(gap);
            let next = start.and_then(|start| start.checked_add(u64::from(length)));
            let (Some(start), Some(next)) = (start, next) else {
                return Err(Malformed::new("a page is outside the file"));
            };
            starts.push(start);
            end = next;
        }
        Ok(starts)
    }
}

/// Everything needed to find pages of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupDirectory {
    pub(crate) table: TableId,
    pub(crate) blocks: Vec<BlockEntry>,
    /// By block; empty = the pages have the times as they are.
    pub(crate) clocks: Vec<BlockClock>,
    /// Where the checksums of pages are that have none of their own; empty = each has.
    pub(crate) units: Vec<Unit>,
    /// A device's numbers of its series, ascending, and those that they have here; empty = no device wrote this.
    pub(crate) device_series: Vec<(u32, u32)>,
    pub(crate) chunks: Vec<ColumnChunk>,
    /// Values outside of pages; a part of its own in the file.
    pub(crate) large: Vec<LargeValue>,
    /// Where the group's first page starts, which places of large values count from; 0 without any.
    pub(crate) first_page: u64,
}

/// Flags of a directory, from format 2 on.
const HAS_CLOCKS: u8 = 1;
const HAS_UNITS: u8 = 2;
const HAS_DEVICE_SERIES: u8 = 4;
/// Flags of a column, from format 2 on.
const HAS_GAPS: u8 = 1;
const HAS_SHARED: u8 = 2;

impl GroupDirectory {
    /// Values of a block's column that stand outside of its page.
    pub(crate) fn large_of(&self, column: u32, block: usize) -> &[LargeValue] {
        large::of_block(&self.large, column, block)
    }

    /// Number of pages that a block has.
    pub(crate) fn pages_of(&self, block: usize) -> u64 {
        let lengths = self.chunks.iter().map(|chunk| chunk.lengths.get(block));
        lengths.filter(|it| it.is_some_and(|&it| it > 0)).count() as u64
    }

    pub(crate) fn chunk(&self, column: u32) -> Option<&ColumnChunk> {
        self.chunks.iter().find(|chunk| chunk.column == column)
    }

    /// Positions of the blocks that may have rows of a series.
    pub(crate) fn blocks_of(&self, series: u32) -> std::ops::Range<usize> {
        let blocks = &self.blocks;
        let start = blocks.partition_point(|block| block.last_series < series);
        let end = blocks.partition_point(|block| block.first_series <= series);
        start..end.max(start)
    }

    /// Memory in use, roughly.
    pub(super) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| {
            size_of::<ColumnChunk>()
                + size_of_val(chunk.lengths.as_slice())
                + size_of_val(chunk.starts.as_slice())
                + chunk.shared.memory()
        });
        size_of::<Self>()
            + size_of_val(self.blocks.as_slice())
            + size_of_val(self.clocks.as_slice())
            + size_of_val(self.units.as_slice())
            + size_of_val(self.device_series.as_slice())
            + size_of_val(self.large.as_slice())
            + chunks.sum::<usize>()
    }

    /// Whether a block's times have no page: from format 3 on they are even then.
    pub(crate) fn has_no_times(&self, block: usize) -> bool {
        self.chunk(TIME_PAGE)
            .is_none_or(|chunk| chunk.lengths.get(block).is_none_or(|&length| length == 0))
    }

    /// The blocks of even times, which have no page of them.
    pub(crate) fn blocks_without_times(&self) -> impl Iterator<Item = &BlockEntry> {
        let blocks = self.blocks.iter().enumerate();
        blocks.filter_map(|(at, block)| self.has_no_times(at).then_some(block))
    }

    /// An error if it has what a file of this kind has not, or a block without times.
    pub(super) fn check_readable(
        self,
        format: SegmentFormat,
        kind: SegmentKind,
    ) -> Result<Self, Malformed> {
        let has_times = |(at, block): (usize, &BlockEntry)| {
            !self.has_no_times(at) || format >= SegmentFormat::Third && block.even_step().is_some()
        };
        if !self.blocks.iter().enumerate().all(has_times) {
            return Err(Malformed::new("a block has no times"));
        }
        let is_plain =
            self.clocks.is_empty() && self.units.is_empty() && self.device_series.is_empty();
        match (is_plain, kind) {
            (true, SegmentKind::Mixed | SegmentKind::Partition) => Ok(self),
            (false, SegmentKind::Device) => self.of_device(),
            (false, _) => Err(Malformed::new(
                "pages of a device in a file that is not one of those",
            )),
            (true, _) => Err(Malformed::new(
                "a file of a device's pages has others as well",
            )),
        }
    }

    /// Appends the directory. What a format has no room for is left out.
    pub(crate) fn encode(&self, format: SegmentFormat, out: &mut Vec<u8>) {
        let is_second = format >= SegmentFormat::Second;
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_u64(self.blocks.len() as u64, out);
        if is_second {
            let flag = |list: bool, flag: u8| if list { 0 } else { flag };
            out.push(
                flag(self.clocks.is_empty(), HAS_CLOCKS)
                    | flag(self.units.is_empty(), HAS_UNITS)
                    | flag(self.device_series.is_empty(), HAS_DEVICE_SERIES),
            );
        }
        put(self.blocks.iter().map(|it| i64::from(it.first_series)), out);
        let spans = self.blocks.iter();
        let spans = spans.map(|it| i64::from(it.last_series) - i64::from(it.first_series));
        put(spans, out);
        put(self.blocks.iter().map(|it| i64::from(it.rows)), out);
        put(self.blocks.iter().map(|it| it.min_time), out);
        let durations = self.blocks.iter();
        put(
            durations.map(|it| it.max_time.wrapping_sub(it.min_time)),
            out,
        );
        if is_second {
            self.encode_device(out);
        }
        varint::put_u64(self.chunks.len() as u64, out);
        for chunk in &self.chunks {
            varint::put_u64(u64::from(chunk.column), out);
            out.push(chunk.kind as u8);
            if is_second {
                let gaps = if chunk.starts.is_empty() { 0 } else { HAS_GAPS };
                let shared = if chunk.shared.is_empty() {
                    0
                } else {
                    HAS_SHARED
                };
                out.push(gaps | shared);
            }
            varint::put_u64(chunk.offset, out);
            put(chunk.lengths.iter().map(|&n| i64::from(n)), out);
            if is_second && !chunk.starts.is_empty() {
                put(chunk.gaps().into_iter(), out);
            }
            if is_second && !chunk.shared.is_empty() {
                varint::put_u64(chunk.shared.bytes.len() as u64, out);
                out.extend_from_slice(&chunk.shared.bytes);
            }
        }
    }

    fn encode_device(&self, out: &mut Vec<u8>) {
        if !self.clocks.is_empty() {
            put(self.clocks.iter().map(|it| i64::from(it.flags)), out);
            put(self.clocks.iter().map(|it| it.unit), out);
            put(self.clocks.iter().map(|it| it.shift), out);
        }
        if !self.units.is_empty() {
            varint::put_u64(self.units.len() as u64, out);
            put(self.units.iter().map(|it| it.offset.cast_signed()), out);
            put(self.units.iter().map(|it| i64::from(it.length)), out);
            put(self.units.iter().map(|it| i64::from(it.crc)), out);
        }
        if !self.device_series.is_empty() {
            varint::put_u64(self.device_series.len() as u64, out);
            put(self.device_series.iter().map(|it| i64::from(it.0)), out);
            put(self.device_series.iter().map(|it| i64::from(it.1)), out);
        }
    }

    /// Reads all of `input`.
    pub(crate) fn decode(mut input: &[u8], format: SegmentFormat) -> Result<Self, Malformed> {
        let input = &mut input;
        let is_second = format >= SegmentFormat::Second;
        let table = TableId(take_u32(input)?);
        let n = take_u32(input)? as usize;
        if n > GROUP_BLOCKS_MAX {
            return Err(Malformed::new(format!("group of {n} blocks")));
        }
        let flags = if is_second { take_byte(input)? } else { 0 };
        if flags & !(HAS_CLOCKS | HAS_UNITS | HAS_DEVICE_SERIES) != 0 {
            return Err(Malformed::new(format!(
                "unknown flags {flags} of a directory"
            )));
        }
        let mut directory = Self {
            table,
            blocks: decode_blocks(input, n)?,
            clocks: Vec::new(),
            units: Vec::new(),
            device_series: Vec::new(),
            chunks: Vec::new(),
            large: Vec::new(),
            first_page: 0,
        };
        directory.decode_device(flags, input)?;
        let columns = take_u32(input)?;
        for _ in 0..columns {
            directory.chunks.push(decode_column(input, n, is_second)?);
        }
        if !input.is_empty() {
            return Err(Malformed::new("bytes after a group directory"));
        }
        Ok(directory)
    }

    fn decode_device(&mut self, flags: u8, input: &mut &[u8]) -> Result<(), Malformed> {
        let n = self.blocks.len();
        if flags & HAS_CLOCKS != 0 {
            let (flags, units) = (numbers(input, n)?, numbers(input, n)?);
            let shifts = numbers(input, n)?;
            for ((&flags, &unit), &shift) in flags.iter().zip(&units).zip(&shifts) {
                let flags = u8::try_from(flags).ok().filter(|it| it & !NO_CLOCK == 0);
                let flags = flags.ok_or_else(|| Malformed::new("unknown flags of a block"))?;
                if unit < 1 {
                    return Err(Malformed::new("a unit of time below 1"));
                }
                self.clocks.push(BlockClock { flags, unit, shift });
            }
        }
        let count = |input: &mut &[u8]| match take_u32(input)? as usize {
            n @ 1..=GROUP_BLOCKS_MAX => Ok(n),
            n => Err(Malformed::new(format!(
                "a list of {n} units or series of a device"
            ))),
        };
        if flags & HAS_UNITS != 0 {
            let n = count(input)?;
            let (offsets, lengths) = (numbers(input, n)?, to_u32s(&numbers(input, n)?)?);
            let sums = to_u32s(&numbers(input, n)?)?;
            for ((&offset, &length), &crc) in offsets.iter().zip(&lengths).zip(&sums) {
                let offset = u64::try_from(offset);
                let offset = offset.map_err(|_| Malformed::new("a unit is outside the file"))?;
                self.units.push(Unit {
                    offset,
                    length,
                    crc,
                });
            }
        }
        if flags & HAS_DEVICE_SERIES != 0 {
            let n = count(input)?;
            let (own, here) = (to_u32s(&numbers(input, n)?)?, to_u32s(&numbers(input, n)?)?);
            if !own.is_sorted_by(|a, b| a < b) {
                return Err(Malformed::new("series of a device are out of order"));
            }
            self.device_series = own.into_iter().zip(here).collect();
        }
        Ok(())
    }
}

fn decode_column(input: &mut &[u8], n: usize, is_second: bool) -> Result<ColumnChunk, Malformed> {
    let column = take_u32(input)?;
    let kind = PhysicalType::try_from(take_byte(input)?)?;
    let flags = if is_second { take_byte(input)? } else { 0 };
    if flags & !(HAS_GAPS | HAS_SHARED) != 0 {
        return Err(Malformed::new(format!("unknown flags {flags} of a column")));
    }
    let mut chunk = ColumnChunk::new(column, kind, varint::get_u64(input)?);
    chunk.lengths = to_u32s(&numbers(input, n)?)?;
    if flags & HAS_GAPS != 0 {
        let gaps = numbers(input, n)?;
        chunk.starts = ColumnChunk::starts_of(chunk.offset, &chunk.lengths, &gaps)?;
    }
    if flags & HAS_SHARED != 0 {
        let bytes = take_u32(input)? as usize;
        if bytes == 0 || bytes > SHARED_HEADER_BYTES_MAX {
            return Err(Malformed::new(format!(
                "pages of a column share {bytes} bytes"
            )));
        }
        chunk.shared = Shared::new(take_bytes(input, bytes)?);
    }
    Ok(chunk)
}

fn put(numbers: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
    encode_i64s(&numbers.collect::<Vec<_>>(), out);
}

fn decode_blocks(input: &mut &[u8], n: usize) -> Result<Vec<BlockEntry>, Malformed> {
    let first = to_u32s(&numbers(input, n)?)?;
    let span = to_u32s(&numbers(input, n)?)?;
    let rows = to_u32s(&numbers(input, n)?)?;
    let min_time = numbers(input, n)?;
    let duration = numbers(input, n)?;
    let mut blocks = Vec::with_capacity(n);
    for ((((&first, &span), &rows), &min), &duration) in first
        .iter()
        .zip(&span)
        .zip(&rows)
        .zip(&min_time)
        .zip(&duration)
    {
        let last_series = first
            .checked_add(span)
            .ok_or_else(|| Malformed::new("series range of a block"))?;
        blocks.push(BlockEntry {
            first_series: first,
            last_series,
            rows,
            min_time: min,
            max_time: min.wrapping_add(duration),
        });
    }
    Ok(blocks)
}

fn numbers(input: &mut &[u8], n: usize) -> Result<Vec<i64>, Malformed> {
    let mut out = Vec::new();
    decode_i64s(input, n, &mut out)?;
    Ok(out)
}

fn to_u32s(numbers: &[i64]) -> Result<Vec<u32>, Malformed> {
    numbers
        .iter()
        .map(|&n| u32::try_from(n).map_err(|_| Malformed::new("number exceeds 32 bits")))
        .collect()
}
