//! The statistics of a group's blocks, packed, beside the directory. Bytes: `docs/format/segment.md`.
//!
//! Does: keep the bytes as they are in the file and unpack the columns that are asked for. Does not: say whether they
//! may be used; see `read/scan/aggregate.rs`.

use nilometer_codec::stats::{PageStatistics, decode_statistics, encode_statistics};
use nilometer_codec::{PhysicalType, varint};

use crate::definition::{take_byte, take_bytes, take_u32};
use crate::error::Malformed;

/// Packed columns one after another, behind a list that says which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PackedColumns {
    list: Vec<(u32, PhysicalType, std::ops::Range<usize>)>,
    bytes: Vec<u8>,
}

impl PackedColumns {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a column whose bytes `pack` appends.
    pub(super) fn push(
        &mut self,
        column: u32,
        kind: PhysicalType,
        pack: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.bytes.len();
        pack(&mut self.bytes);
        self.list.push((column, kind, start..self.bytes.len()));
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.list.len() as u64, out);
        for (column, kind, range) in &self.list {
            varint::put_u64(u64::from(*column), out);
            out.push(*kind as u8);
            varint::put_u64(range.len() as u64, out);
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Reads all of `input`.
    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let n = take_u32(&mut input)?;
        let mut list = Vec::new();
        let mut end = 0usize;
        for _ in 0..n {
            let column = take_u32(&mut input)?;
            let kind = PhysicalType::try_from(take_byte(&mut input)?)?;
            let start = end;
            end = start.saturating_add(take_u32(&mut input)? as usize);
            list.push((column, kind, start..end));
        }
        if end != input.len() {
            return Err(Malformed::new("packed columns of another length"));
        }
        let bytes = take_bytes(&mut input, end)?.to_vec();
        Ok(Self { list, bytes })
    }

    /// The bytes of a column.
    pub(super) fn get(&self, column: u32, kind: PhysicalType) -> Option<&[u8]> {
        let (_, _, range) = self
            .list
            .iter()
            .find(|(known, of, _)| (*known, *of) == (column, kind))?;
        self.bytes.get(range.clone())
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.list.len() * size_of::<(u32, PhysicalType, [usize; 2])>()
    }
}

/// Statistics of the pages of a group, by column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupStatistics {
    columns: PackedColumns,
}

impl GroupStatistics {
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Adds a column: what is known of each block. Nothing is kept of a column that nothing is known of.
    pub(super) fn push(
        &mut self,
        column: u32,
        kind: PhysicalType,
        blocks: &[Option<PageStatistics>],
    ) {
        if blocks.iter().any(Option::is_some) {
            let pack = |out: &mut Vec<u8>| encode_statistics(blocks, kind, out);
            self.columns.push(column, kind, pack);
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.columns.encode(out);
    }

    pub(super) fn decode(input: &[u8]) -> Result<Self, Malformed> {
        let columns = PackedColumns::decode(input)?;
        Ok(Self { columns })
    }

    /// By block what is known of the page of a column; `None` = nothing of any. `blocks` is how many the group has.
    pub(crate) fn column(
        &self,
        column: u32,
        kind: PhysicalType,
        blocks: usize,
    ) -> Result<Option<Vec<Option<PageStatistics>>>, Malformed> {
        let Some(mut bytes) = self.columns.get(column, kind) else {
            return Ok(None);
        };
        let unpacked = decode_statistics(&mut bytes, blocks, kind)?;
        if !bytes.is_empty() {
            return Err(Malformed::new("bytes after the statistics of a column"));
        }
        Ok(Some(unpacked))
    }

    pub(super) fn memory(&self) -> usize {
        self.columns.memory()
    }
}
