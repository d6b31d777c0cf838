//! Large values: text and bytes that stand outside of their pages. Bytes: `docs/format/segment.md`.
//!
//! Does: list them, find those of a block, and pack one. Does not: read files, or decide which values are large
//! (`writer/large.rs` does).

use std::io::Read as _;

use nilometer_codec::{decode_i64s, encode_i64s, varint};

use crate::definition::take_u32;
use crate::error::Malformed;

/// Bytes of a large value at most: what a page of the log holds as its only value.
pub(crate) const LARGE_BYTES_MAX: usize = nilometer_codec::VALUE_BYTES_MAX;
/// Of so many bytes a value's compressed form must save one.
const SAVES_ONE_IN: usize = 8;

/// A value outside of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargeValue {
    /// Number of its column.
    pub(crate) column: u32,
    /// Position of its block in the group.
    pub(crate) block: u32,
    /// Row in the block.
    pub(crate) row: u32,
    /// Where it starts, from the group's first page on.
    pub(crate) offset: u64,
    /// Bytes there, without the checksum that follows them.
    pub(crate) stored: u32,
    /// Bytes of the value; as many as are stored = it stands as it is, otherwise it is a zstd frame.
    pub(crate) bytes: u32,
}

impl LargeValue {
    pub(super) fn key(&self) -> (u32, u32, u32) {
        (self.column, self.block, self.row)
    }
}

/// The bytes to store of a value.
pub(super) fn pack(value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let packed = zstd::bulk::compress(value, zstd::DEFAULT_COMPRESSION_LEVEL);
    match packed {
        Ok(packed) if packed.len() < value.len() - value.len() / SAVES_ONE_IN => {
            out.extend_from_slice(&packed);
        }
        _ => out.extend_from_slice(value),
    }
}

/// The value whose stored bytes these are, appended.
pub(super) fn unpack(of: &LargeValue, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if of.stored == of.bytes {
        out.extend_from_slice(stored);
        return Ok(());
    }
    // Piece by piece: the size is a number that the frame has to pay for.
    let (start, bytes) = (out.len(), of.bytes as usize);
    let frame = zstd::Decoder::new(stored);
    let read = frame.and_then(|frame| frame.take(u64::from(of.bytes) + 1).read_to_end(out));
    if read.is_ok() && out.len() - start == bytes {
        Ok(())
    } else {
        Err(Malformed::new("a large value does not inflate to its size"))
    }
}

/// Appends the list.
pub(super) fn encode(values: &[LargeValue], out: &mut Vec<u8>) {
    varint::put_u64(values.len() as u64, out);
    let mut put = |number: &dyn Fn(&LargeValue) -> i64| {
        encode_i64s(&values.iter().map(number).collect::<Vec<_>>(), out);
    };
    put(&|it| i64::from(it.column));
    put(&|it| i64::from(it.block));
    put(&|it| i64::from(it.row));
    put(&|it| it.offset.cast_signed());
    put(&|it| i64::from(it.stored));
    put(&|it| i64::from(it.bytes));
}

/// Reads a list, all of `input`.
pub(super) fn decode(mut input: &[u8]) -> Result<Vec<LargeValue>, Malformed> {
    let input = &mut input;
    let n = take_u32(input)? as usize;
    let mut list = || -> Result<Vec<i64>, Malformed> {
        let mut numbers = Vec::new();
        decode_i64s(input, n, &mut numbers)?;
        Ok(numbers)
    };
    let (columns, blocks, rows) = (list()?, list()?, list()?);
    let (offsets, stored, bytes) = (list()?, list()?, list()?);
    if !input.is_empty() {
        return Err(Malformed::new("bytes after the list of large values"));
    }
    let small = |numbers: &[i64], at: usize| {
        let number = numbers.get(at).copied().unwrap_or(-1);
        u32::try_from(number).map_err(|_| Malformed::new("number of a large value"))
    };
    let mut values = Vec::with_capacity(columns.len());
    for (at, &offset) in offsets.iter().enumerate() {
        let value = LargeValue {
            column: small(&columns, at)?,
            block: small(&blocks, at)?,
            row: small(&rows, at)?,
            offset: u64::try_from(offset).map_err(|_| Malformed::new("place of a large value"))?,
            stored: small(&stored, at)?,
            bytes: small(&bytes, at)?,
        };
        if value.bytes as usize > LARGE_BYTES_MAX || value.stored > value.bytes {
            return Err(Malformed::new("a large value of more than 32 MiB"));
        }
        values.push(value);
    }
    if !values.is_sorted_by(|a, b| a.key() < b.key()) {
        return Err(Malformed::new("large values are out of order"));
    }
    Ok(values)
}

/// Those of a column in a block.
pub(crate) fn of_block(values: &[LargeValue], column: u32, block: usize) -> &[LargeValue] {
    let key = (column, u32::try_from(block).unwrap_or(u32::MAX));
    let start = values.partition_point(|it| (it.column, it.block) < key);
    let end = values.partition_point(|it| (it.column, it.block) <= key);
    values.get(start..end).unwrap_or_default()
}
