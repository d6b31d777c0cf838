//! Blocks of an index file: read, checked, decoded and kept in the cache.
//!
//! Does: read the copy of a block that is damaged, where there is one. Does not: know what the blocks are asked for.

use std::sync::Arc;

use nilometer_codec::crc32c;
use roaring::RoaringBitmap;

use super::{Index, read, series_of};
use crate::catalogue::CodeColumn;
use crate::error::{Error, Malformed};
use crate::index::block::{Dictionary, decode_dictionary, decode_list, ended, take_u32s};
use crate::index::cache::Decoded;
use crate::index::footer::{Blocks, TableMeta, TagMeta};

impl Index {
    pub(super) fn ids_of(&self, table: &TableMeta, block: usize) -> Result<Arc<Vec<u32>>, Error> {
        self.numbers(&table.ids, block, || self.read_ids(table, block))
    }

    pub(super) fn hashes(&self, table: &TableMeta, block: usize) -> Result<Arc<Vec<u32>>, Error> {
        self.numbers(&table.hashes, block, || self.read_hashes(table, block))
    }

    fn numbers(
        &self,
        blocks: &Blocks,
        block: usize,
        read: impl FnOnce() -> Result<Vec<u32>, Error>,
    ) -> Result<Arc<Vec<u32>>, Error> {
        let key = self.key(blocks, block)?;
        if let Some(Decoded::Numbers(numbers)) = self.cache.get(key) {
            return Ok(numbers);
        }
        let numbers = Arc::new(read()?);
        self.cache
            .insert(key, Decoded::Numbers(Arc::clone(&numbers)));
        Ok(numbers)
    }

    pub(super) fn codes(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        block: usize,
    ) -> Result<Arc<CodeColumn>, Error> {
        let key = self.key(&tag.codes, block)?;
        if let Some(Decoded::Codes(codes)) = self.cache.get(key) {
            return Ok(codes);
        }
        let codes = CodeColumn::from_ranks(&self.read_codes(table, tag, block)?);
        let codes = Arc::new(codes);
        self.cache.insert(key, Decoded::Codes(Arc::clone(&codes)));
        Ok(codes)
    }

    pub(in crate::files::index) fn dictionary(
        &self,
        tag: &TagMeta,
        block: usize,
    ) -> Result<Arc<Dictionary>, Error> {
        let key = (
            self.file_id,
            self.at(tag.dictionary(block), tag.values.offset())?.0,
        );
        if let Some(Decoded::Dictionary(dictionary)) = self.cache.get(key) {
            return Ok(dictionary);
        }
        let dictionary = Arc::new(self.read_dictionary(tag, block)?);
        self.cache
            .insert(key, Decoded::Dictionary(Arc::clone(&dictionary)));
        Ok(dictionary)
    }

    /// The list of so many series at a place.
    pub(in crate::files::index) fn list(
        &self,
        table: &TableMeta,
        offset: u64,
        series: u32,
        bytes: u32,
    ) -> Result<Arc<RoaringBitmap>, Error> {
        let key = (self.file_id, offset);
        if let Some(Decoded::List(list)) = self.cache.get(key) {
            return Ok(list);
        }
        let list = Arc::new(self.read_list(table, offset, series, bytes)?);
        self.cache.insert(key, Decoded::List(Arc::clone(&list)));
        Ok(list)
    }

    pub(in crate::files::index) fn read_list(
        &self,
        table: &TableMeta,
        offset: u64,
        series: u32,
        bytes: u32,
    ) -> Result<RoaringBitmap, Error> {
        self.decode((offset, bytes.into()), None, |block| {
            decode_list(block, series as usize, table.series)
        })
    }

    pub(in crate::files::index) fn read_ids(
        &self,
        table: &TableMeta,
        block: usize,
    ) -> Result<Vec<u32>, Error> {
        let n = series_of(table, block);
        let first = table.first_ids.get(block).copied();
        let next = table.first_ids.get(block + 1).copied();
        let below = next.unwrap_or(table.last_id.saturating_add(1));
        let place = self.place(&table.ids, block)?;
        self.decode(place, table.ids_copy(block), |mut input| {
            let ids = take_u32s(&mut input, n)?;
            ended(input)?;
            let ends = ids.first().copied() == first && ids.last().is_some_and(|&id| id < below);
            if ends && ids.is_sorted_by(|a, b| a < b) {
                Ok(ids)
            } else {
                Err(Malformed::new("series ids are out of order"))
            }
        })
    }

    /// Codes from 1, 0 = absent.
    pub(in crate::files::index) fn read_codes(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        block: usize,
    ) -> Result<Vec<u32>, Error> {
        let n = series_of(table, block);
        self.decode(self.place(&tag.codes, block)?, None, |mut input| {
            let codes = take_u32s(&mut input, n)?;
            ended(input)?;
            if codes.iter().any(|&code| code > tag.value_count()) {
                return Err(Malformed::new("a series has a code of no value"));
            }
            Ok(codes)
        })
    }

    /// Hashes, then the ordinal of each.
    pub(in crate::files::index) fn read_hashes(
        &self,
        table: &TableMeta,
        block: usize,
    ) -> Result<Vec<u32>, Error> {
        let n = series_of(table, block);
        self.decode(self.place(&table.hashes, block)?, None, |mut input| {
            let mut hashes = take_u32s(&mut input, n)?;
            let ordinals = take_u32s(&mut input, n)?;
            ended(input)?;
            if !hashes.is_sorted() || ordinals.iter().any(|&ordinal| ordinal >= table.series) {
                return Err(Malformed::new("hashes are out of order"));
            }
            hashes.extend_from_slice(&ordinals);
            Ok(hashes)
        })
    }

    pub(in crate::files::index) fn read_dictionary(
        &self,
        tag: &TagMeta,
        block: usize,
    ) -> Result<Dictionary, Error> {
        let place = self.at(tag.dictionary(block), tag.values.offset())?;
        self.decode(place, tag.dictionary_copy(block), |input| {
            decode_block_of(tag, block, input)
        })
    }

    /// A dictionary block that was read, with its checksum.
    pub(in crate::files::index) fn dictionary_of(
        &self,
        tag: &TagMeta,
        block: usize,
        bytes: &[u8],
    ) -> Result<Dictionary, Error> {
        let offset = tag.dictionary(block).map_or(0, |(offset, _)| offset);
        let decoded = checked(bytes).and_then(|bytes| decode_block_of(tag, block, bytes));
        decoded.map_err(|what| self.noted(what.at(&self.path, offset)))
    }

    /// Reads a block, or its copy if the block is damaged and has one.
    fn decode<T>(
        &self,
        place: (u64, u64),
        copy: Option<(u64, u64)>,
        decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        let read = |(offset, length): (u64, u64)| {
            let bytes = self.fetch(offset, length)?;
            decode(&bytes).map_err(|what| self.noted(what.at(&self.path, offset)))
        };
        match (read(place), copy) {
            (Err(error @ Error::Corrupt { .. }), Some(copy)) => read(copy).map_err(|_| error),
            (first, _) => first,
        }
    }

    fn key(&self, blocks: &Blocks, block: usize) -> Result<(u64, u64), Error> {
        Ok((self.file_id, self.place(blocks, block)?.0))
    }

    fn place(&self, blocks: &Blocks, block: usize) -> Result<(u64, u64), Error> {
        self.at(blocks.place(block), blocks.offset())
    }

    fn at(&self, place: Option<(u64, u64)>, kind: u64) -> Result<(u64, u64), Error> {
        place.ok_or_else(|| self.corrupt(kind, "no such block"))
    }

    /// A block without its checksum, which was checked.
    pub(in crate::files::index) fn fetch(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Error> {
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.end) || length < 4 {
            return Err(self.corrupt(offset, "a place is outside the file"));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.read_at(&mut bytes, offset)?;
        let whole = checked(&bytes).map_err(|what| self.noted(what.at(&self.path, offset)))?;
        let length = whole.len();
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Bytes at a place, which are not checked.
    pub(in crate::files::index) fn read_at(
        &self,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        read(self.file.as_ref(), &self.path, bytes, offset).map_err(|error| self.noted(error))
    }

    /// Bytes from `offset` on, at most so many, fewer where the blocks end. They are not checked.
    pub(in crate::files::index) fn read_ahead(
        &self,
        offset: u64,
        most: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let left = self.end.saturating_sub(offset);
        bytes.clear();
        bytes.resize(most.min(usize::try_from(left).unwrap_or(most)), 0);
        self.read_at(bytes, offset)
    }
}

/// A block without the checksum behind it.
fn checked(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let end = bytes.len().saturating_sub(4);
    let (block, crc) = bytes.split_at(end);
    if crc32c(0, block).to_le_bytes() == crc {
        Ok(block)
    } else {
        Err(Malformed::new("a block fails its checksum"))
    }
}

fn decode_block_of(tag: &TagMeta, block: usize, bytes: &[u8]) -> Result<Dictionary, Malformed> {
    let (n, _) = tag.values_of(block);
    let first = tag.firsts.get(block).map(String::as_str);
    let next = tag.firsts.get(block + 1).map(String::as_str);
    let dictionary = decode_dictionary(bytes, n as usize)?;
    let values = &dictionary.values;
    let last = values.len().checked_sub(1).and_then(|at| values.get(at));
    if values.get(0) != first || next.is_some_and(|next| last >= Some(next)) {
        return Err(Malformed::new("a dictionary is out of order"));
    }
    Ok(dictionary)
}
