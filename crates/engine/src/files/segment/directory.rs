//! A group's directory: places and time spans of its pages. Columnar, as the pages are.

use nilometer_codec::{PhysicalType, decode_i64s, encode_i64s, varint};

use crate::definition::{take_byte, take_u32};
use crate::error::Malformed;
use crate::schema::TableId;
use crate::segment::GROUP_BLOCKS_MAX;

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

    /// Whether it may have a row in a range of time.
    pub(crate) fn overlaps(&self, time: &std::ops::RangeInclusive<i64>) -> bool {
        self.min_time <= *time.end() && self.max_time >= *time.start()
    }
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
}

impl ColumnChunk {
    /// Where the page of a block stands and how long it is; `None` = no page.
    pub(crate) fn page(&self, block: usize) -> Option<(u64, u32)> {
        let length = *self.lengths.get(block)?;
        let before: u64 = self.lengths.iter().take(block).map(|&n| u64::from(n)).sum();
        let offset = self.offset.checked_add(before)?;
        (length > 0).then_some((offset, length))
    }

    /// The same of several blocks, which ascend.
    pub(crate) fn pages(&self, blocks: &[usize]) -> impl Iterator<Item = Option<(u64, u32)>> {
        let (mut next, mut offset) = (0, self.offset);
        blocks.iter().map(move |&block| {
            let before = self.lengths.get(next..block)?.iter();
            offset = offset.checked_add(before.map(|&n| u64::from(n)).sum())?;
            next = block;
            let length = *self.lengths.get(block)?;
            (length > 0).then_some((offset, length))
        })
    }
}

/// Everything needed to find pages of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupDirectory {
    pub(crate) table: TableId,
    pub(crate) blocks: Vec<BlockEntry>,
    pub(crate) chunks: Vec<ColumnChunk>,
}

impl GroupDirectory {
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
        let lengths: usize = self.chunks.iter().map(|chunk| chunk.lengths.len()).sum();
        size_of::<Self>()
            + self.blocks.len() * size_of::<BlockEntry>()
            + self.chunks.len() * size_of::<ColumnChunk>()
            + lengths * size_of::<u32>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_u64(self.blocks.len() as u64, out);
        let mut put = |value: &dyn Fn(&BlockEntry) -> i64| {
            let numbers: Vec<i64> = self.blocks.iter().map(value).collect();
            encode_i64s(&numbers, out);
        };
        put(&|block| i64::from(block.first_series));
        put(&|block| i64::from(block.last_series) - i64::from(block.first_series));
        put(&|block| i64::from(block.rows));
        put(&|block| block.min_time);
        put(&|block| block.max_time.wrapping_sub(block.min_time));
        varint::put_u64(self.chunks.len() as u64, out);
        for chunk in &self.chunks {
            varint::put_u64(u64::from(chunk.column), out);
            out.push(chunk.kind as u8);
            varint::put_u64(chunk.offset, out);
            let lengths: Vec<i64> = chunk.lengths.iter().map(|&n| i64::from(n)).collect();
            encode_i64s(&lengths, out);
        }
    }

    pub(crate) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        let table = TableId(take_u32(input)?);
        let n = take_u32(input)? as usize;
        if n > GROUP_BLOCKS_MAX {
            return Err(Malformed::new(format!("group of {n} blocks")));
        }
        let blocks = decode_blocks(input, n)?;
        let columns = take_u32(input)?;
        let mut chunks = Vec::new();
        for _ in 0..columns {
            let column = take_u32(input)?;
            let kind = PhysicalType::try_from(take_byte(input)?)?;
            let offset = varint::get_u64(input)?;
            let lengths = to_u32s(&numbers(input, n)?)?;
            chunks.push(ColumnChunk {
                column,
                kind,
                offset,
                lengths,
            });
        }
        if !input.is_empty() {
            return Err(Malformed::new("bytes after a group directory"));
        }
        Ok(Self {
            table,
            blocks,
            chunks,
        })
    }
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
