//! Reading an index file: header, tail and footer at open, blocks by `pread` when they are asked for.
//!
//! Does: open, find a series by its tags, tags and ids of series, check every block; remember the first damage that it
//! met, and read the copy of what stands there twice. Does not: select by predicates or list values (`select.rs` does).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nilometer_codec::crc32c;
use roaring::RoaringBitmap;

use super::block::{Dictionary, decode_dictionary, decode_list, ended, take_u32s};
use super::cache::{BlockCache, Decoded};
use super::footer::{Blocks, Footer, TableMeta, TagMeta};
use super::{HEADER_BYTES, MAGIC, SERIES_OF_ONE_BLOCK, TAIL_BYTES};
#[cfg(test)]
use super::{TableSeries, TagSeries, Texts};
use crate::catalogue::CodeColumn;
use crate::definition::take_bytes;
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::schema::{ColumnId, SeriesId, TableId};

/// An open index file.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    file_id: u64,
    bytes: u64,
    /// Where the footer starts: no block reaches beyond.
    end: u64,
    pub(super) footer: Footer,
    cache: Arc<BlockCache>,
    /// The first damage that anybody met.
    damage: OnceLock<(u64, String)>,
}

impl Drop for Index {
    fn drop(&mut self) {
        self.cache.forget(self.file_id);
    }
}

impl Index {
    /// Opens a file that the manifest lists with this size.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        file_id: u64,
        bytes: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Self, Error> {
        let file = disk.open(path).map_err(Error::io("open", path))?;
        let size = file.size().map_err(Error::io("read", path))?;
        if size != bytes || size < (HEADER_BYTES + 2 * TAIL_BYTES) as u64 {
            let reason = format!("the file has {size} bytes, the manifest says {bytes}");
            return Err(Error::corrupt(path, size, reason));
        }
        let damage = OnceLock::new();
        let mut start = [0; HEADER_BYTES + TAIL_BYTES];
        read(file.as_ref(), path, &mut start, 0)?;
        let (header, copy) = start.split_at(HEADER_BYTES);
        match file_header::decode::<8>(header, MAGIC, path) {
            Ok((owner, id)) if owner == uuid && id == file_id.to_le_bytes() => {}
            Ok(_) => {
                let reason = "the file belongs to another data directory or has another id";
                return Err(Error::corrupt(path, 0, reason));
            }
            // The tails say which file it is, and the manifest that it is one of the store.
            Err(error) => note(&damage, error)?,
        }
        let tail_offset = size - TAIL_BYTES as u64;
        let mut tail = [0; TAIL_BYTES];
        read(file.as_ref(), path, &mut tail, tail_offset)?;
        let tail = decode_tail(&tail, file_id).map_err(|what| what.at(path, tail_offset));
        let copy = decode_tail(copy, file_id).map_err(|what| what.at(path, HEADER_BYTES as u64));
        let tail = match (tail, copy) {
            (Ok(tail), Err(error)) => {
                note(&damage, error)?;
                tail
            }
            (tail, copy) => either(&damage, tail, || copy)?,
        };
        let (offset, length) = (tail.offset, tail.length);
        let footers = length.checked_mul(2);
        let end = footers.and_then(|footers| offset.checked_add(footers));
        if end != Some(tail_offset) {
            let reason = "the footers do not end at the tail";
            return Err(Error::corrupt(path, tail_offset, reason));
        }
        let footer_at = |offset: u64| {
            let mut footer = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            read(file.as_ref(), path, &mut footer, offset)?;
            if crc32c(0, &footer) != tail.crc {
                let reason = "the footer fails its checksum";
                return Err(Error::corrupt(path, offset, reason));
            }
            Footer::decode(&footer).map_err(|what| what.at(path, offset))
        };
        let footer = either(&damage, footer_at(offset), || footer_at(offset + length))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            file_id,
            bytes,
            end: offset,
            footer,
            cache,
            damage,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file_id(&self) -> u64 {
        self.file_id
    }

    /// Where damage was met first, and what it is.
    pub(crate) fn damage(&self) -> Option<(u64, &str)> {
        let (offset, reason) = self.damage.get()?;
        Some((*offset, reason))
    }

    /// Size of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that it holds beside the cache.
    pub(crate) fn memory(&self) -> usize {
        self.footer.bytes()
    }

    /// Ids of series below this were given away when it was written.
    pub(crate) fn next_series(&self) -> u32 {
        self.footer.next_series
    }

    /// Tables with series, ascending.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> {
        self.footer.tables.iter().map(|table| table.table)
    }

    /// Number of series of a table.
    pub(crate) fn series_count(&self, table: TableId) -> u32 {
        self.table(table).map_or(0, |table| table.series)
    }

    /// The lowest and the highest id of a table's series.
    pub(crate) fn span(&self, table: TableId) -> Option<(u32, u32)> {
        let table = self.table(table)?;
        Some((*table.first_ids.first()?, table.last_id))
    }

    /// The series with exactly these tags, which ascend by id and have this hash.
    pub(crate) fn find(
        &self,
        table: TableId,
        hash: u32,
        tags: &[(ColumnId, &str)],
    ) -> Result<Option<SeriesId>, Error> {
        let Some(table) = self.table(table) else {
            return Ok(None);
        };
        // Equal hashes may start in the block before the first that starts with them.
        let first = table.first_hashes.partition_point(|&first| first < hash);
        for at in first.saturating_sub(1)..table.first_hashes.len() {
            let start = table.first_hashes.get(at);
            if start.is_some_and(|&first| first > hash) {
                break;
            }
            let block = self.hashes(table, at)?;
            let (hashes, ordinals) = block.split_at(block.len() / 2);
            let own = hashes.partition_point(|&h| h < hash)..hashes.partition_point(|&h| h <= hash);
            for &ordinal in ordinals.get(own).unwrap_or_default() {
                if self.has_tags(table, ordinal, tags)? {
                    return self.id(table, ordinal).map(|id| Some(SeriesId(id)));
                }
            }
        }
        Ok(None)
    }

    /// Whether an ordinal has exactly these tags.
    fn has_tags(
        &self,
        table: &TableMeta,
        ordinal: u32,
        tags: &[(ColumnId, &str)],
    ) -> Result<bool, Error> {
        let mut wanted = tags.iter().peekable();
        for meta in &table.tags {
            let wanted = wanted.next_if(|(tag, _)| *tag == meta.tag);
            let same = match (self.code(table, meta, ordinal)?, wanted) {
                (None, None) => true,
                (Some(code), Some((_, value))) => self.value_is(table, meta, code, value)?,
                _ => false,
            };
            if !same {
                return Ok(false);
            }
        }
        // A tag that the file does not know is none of this series.
        Ok(wanted.peek().is_none())
    }

    /// The code, counted from 0, that an ordinal has of a tag.
    pub(super) fn code(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        ordinal: u32,
    ) -> Result<Option<u32>, Error> {
        let (block, at) = place_of(ordinal);
        Ok(self.codes(table, tag, block)?.get(at))
    }

    fn value_is(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        code: u32,
        value: &str,
    ) -> Result<bool, Error> {
        let (block, at) = tag.place_of(code);
        let dictionary = self.dictionary(tag, block)?;
        let own = dictionary.values.get(at);
        own.map(|own| own == value)
            .ok_or_else(|| self.beyond(table))
    }

    /// Calls with each code, counted from 0 and ascending, and its value.
    pub(crate) fn values_of(
        &self,
        table: TableId,
        tag: ColumnId,
        codes: impl Iterator<Item = u32>,
        mut call: impl FnMut(u32, &str),
    ) -> Result<(), Error> {
        let Some(table) = self.table(table) else {
            return Ok(());
        };
        let Some(tag) = tag_of(table, tag) else {
            return Ok(());
        };
        let mut known: Option<(usize, Arc<Dictionary>)> = None;
        for code in codes {
            let (block, at) = tag.place_of(code);
            if known.as_ref().is_none_or(|(known, _)| *known != block) {
                known = Some((block, self.dictionary(tag, block)?));
            }
            let value = known
                .as_ref()
                .and_then(|(_, dictionary)| dictionary.values.get(at));
            call(code, value.ok_or_else(|| self.beyond(table))?);
        }
        Ok(())
    }

    /// Number of values of a tag.
    pub(crate) fn value_count(&self, table: TableId, tag: ColumnId) -> usize {
        let tag = self.table(table).and_then(|table| tag_of(table, tag));
        tag.map_or(0, |tag| tag.value_count() as usize)
    }

    /// Appends the codes, counted from 0, that series have of a tag; ids ascend. A series that is not in this file has
    /// none.
    pub(crate) fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
        out: &mut Vec<Option<u32>>,
    ) -> Result<(), Error> {
        let meta = self.table(table);
        let Some((table, tag)) = meta.and_then(|table| Some((table, tag_of(table, tag)?))) else {
            out.resize(out.len() + series.len(), None);
            return Ok(());
        };
        let mut rest = series;
        while let Some(&id) = rest.first() {
            // Series of one block at once.
            let block = table.first_ids.partition_point(|&first| first <= id);
            let next = table.first_ids.get(block).copied();
            let n = next.map_or(rest.len(), |next| rest.partition_point(|&id| id < next));
            let (own, after) = rest.split_at(n);
            rest = after;
            let Some(block) = block.checked_sub(1) else {
                out.resize(out.len() + own.len(), None);
                continue;
            };
            let (ids, codes) = (self.ids_of(table, block)?, self.codes(table, tag, block)?);
            if own == ids.as_slice() {
                out.extend((0..own.len()).map(|at| codes.get(at)));
                continue;
            }
            let mut from = 0;
            for id in own {
                let found = ids.get(from..).unwrap_or_default().binary_search(id);
                out.push(found.ok().and_then(|at| codes.get(from + at)));
                from += found.unwrap_or_else(|at| at);
            }
        }
        Ok(())
    }

    /// Ids of all series of a table, ascending.
    pub(crate) fn all_ids(&self, table: TableId) -> Result<Vec<u32>, Error> {
        let mut all = Vec::new();
        let Some(table) = self.table(table) else {
            return Ok(all);
        };
        for block in 0..table.first_ids.len() {
            all.extend_from_slice(&self.ids_of(table, block)?);
        }
        Ok(all)
    }

    /// Appends the ids of ordinals, which are ordinals of the table's series.
    pub(crate) fn ids(
        &self,
        table: TableId,
        ordinals: &RoaringBitmap,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let Some(table) = self.table(table) else {
            return Ok(());
        };
        let mut known = None;
        for ordinal in ordinals {
            let (block, at) = place_of(ordinal);
            if known.as_ref().is_none_or(|(known, _)| *known != block) {
                known = Some((block, self.ids_of(table, block)?));
            }
            let id = known.as_ref().and_then(|(_, ids)| ids.get(at));
            out.push(id.copied().ok_or_else(|| self.beyond(table))?);
        }
        Ok(())
    }

    /// Everything of a table, to compare it.
    #[cfg(test)]
    pub(crate) fn load(&self, table: TableId) -> Result<Option<TableSeries>, Error> {
        let Some(meta) = self.table(table) else {
            return Ok(None);
        };
        let mut all = TableSeries {
            table,
            ids: Vec::new(),
            tags: Vec::new(),
        };
        for block in 0..meta.first_ids.len() {
            all.ids.extend(self.read_ids(meta, block)?);
        }
        for tag in &meta.tags {
            let (mut values, mut codes) = (Texts::default(), Vec::new());
            for block in 0..tag.dictionary_blocks() {
                for value in self.read_dictionary(tag, block)?.values.iter() {
                    values.push(value);
                }
            }
            for block in 0..meta.first_ids.len() {
                codes.extend(self.read_codes(meta, tag, block)?);
            }
            all.tags.push(TagSeries {
                tag: tag.tag,
                values,
                codes,
            });
        }
        all.check()
            .map_err(|what| what.at(&self.path, meta.ids.offset()))?;
        Ok(Some(all))
    }

    pub(super) fn table(&self, table: TableId) -> Option<&TableMeta> {
        let tables = &self.footer.tables;
        let at = tables.binary_search_by_key(&table, |meta| meta.table);
        tables.get(at.ok()?)
    }

    /// The id of an ordinal.
    fn id(&self, table: &TableMeta, ordinal: u32) -> Result<u32, Error> {
        let (block, at) = place_of(ordinal);
        let ids = self.ids_of(table, block)?;
        ids.get(at).copied().ok_or_else(|| self.beyond(table))
    }

    /// Blocks contradict each other.
    pub(super) fn beyond(&self, table: &TableMeta) -> Error {
        let reason = "an ordinal or a code is beyond what the table has";
        self.corrupt(table.ids.offset(), reason)
    }

    /// An error that says where the file is damaged, which is remembered.
    pub(super) fn corrupt(&self, offset: u64, reason: &str) -> Error {
        self.noted(Error::corrupt(&self.path, offset, reason))
    }

    /// Remembers damage.
    pub(super) fn noted(&self, error: Error) -> Error {
        if let Error::Corrupt { offset, reason, .. } = &error {
            self.damage.get_or_init(|| (*offset, reason.clone()));
        }
        error
    }

    fn ids_of(&self, table: &TableMeta, block: usize) -> Result<Arc<Vec<u32>>, Error> {
        self.numbers(&table.ids, block, || self.read_ids(table, block))
    }

    fn hashes(&self, table: &TableMeta, block: usize) -> Result<Arc<Vec<u32>>, Error> {
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

    fn codes(
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

    pub(super) fn dictionary(&self, tag: &TagMeta, block: usize) -> Result<Arc<Dictionary>, Error> {
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
    pub(super) fn list(
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

    pub(super) fn read_list(
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

    pub(super) fn read_ids(&self, table: &TableMeta, block: usize) -> Result<Vec<u32>, Error> {
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
    pub(super) fn read_codes(
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
    pub(super) fn read_hashes(&self, table: &TableMeta, block: usize) -> Result<Vec<u32>, Error> {
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

    pub(super) fn read_dictionary(&self, tag: &TagMeta, block: usize) -> Result<Dictionary, Error> {
        let place = self.at(tag.dictionary(block), tag.values.offset())?;
        self.decode(place, tag.dictionary_copy(block), |input| {
            decode_block_of(tag, block, input)
        })
    }

    /// A dictionary block that was read, with its checksum.
    pub(super) fn dictionary_of(
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
    pub(super) fn fetch(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
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
    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        read(self.file.as_ref(), &self.path, bytes, offset).map_err(|error| self.noted(error))
    }

    /// Bytes from `offset` on, at most so many, fewer where the blocks end. They are not checked.
    pub(super) fn read_ahead(
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

/// Remembers damage; anything else is an error still.
fn note(damage: &OnceLock<(u64, String)>, error: Error) -> Result<(), Error> {
    match error {
        Error::Corrupt { offset, reason, .. } => {
            damage.get_or_init(|| (offset, reason));
            Ok(())
        }
        error => Err(error),
    }
}

/// What stands there twice, from where it reads.
fn either<T>(
    damage: &OnceLock<(u64, String)>,
    first: Result<T, Error>,
    copy: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    match first {
        Err(error @ Error::Corrupt { .. }) => {
            let Ok(found) = copy() else {
                return Err(error);
            };
            note(damage, error)?;
            Ok(found)
        }
        first => first,
    }
}

/// The block of an ordinal and the position in it.
fn place_of(ordinal: u32) -> (usize, usize) {
    let at = ordinal as usize;
    (at / SERIES_OF_ONE_BLOCK, at % SERIES_OF_ONE_BLOCK)
}

/// Number of series of a block.
pub(super) fn series_of(table: &TableMeta, block: usize) -> usize {
    let before = block.saturating_mul(SERIES_OF_ONE_BLOCK);
    let rest = (table.series as usize).saturating_sub(before);
    rest.min(SERIES_OF_ONE_BLOCK)
}

pub(super) fn tag_of(table: &TableMeta, tag: ColumnId) -> Option<&TagMeta> {
    let at = table.tags.binary_search_by_key(&tag, |meta| meta.tag);
    table.tags.get(at.ok()?)
}

pub(super) fn read(
    file: &dyn DiskFile,
    path: &Path,
    bytes: &mut [u8],
    offset: u64,
) -> Result<(), Error> {
    read_exact_at(file, bytes, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, offset, "the file ends early"),
        _ => Error::io("read", path)(error),
    })
}

/// What a tail says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Of the first footer.
    pub(super) offset: u64,
    /// Of one.
    pub(super) length: u64,
    pub(super) crc: u32,
}

pub(super) fn decode_tail(tail: &[u8], file_id: u64) -> Result<Tail, Malformed> {
    let input = &mut &*tail;
    let mut u64_of = || -> Result<u64, Malformed> {
        let bytes = take_bytes(input, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    };
    let (id, offset, length) = (u64_of()?, u64_of()?, u64_of()?);
    let mut u32_of = || -> Result<u32, Malformed> {
        let bytes = take_bytes(input, 4)?;
        Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
    };
    let (footer_crc, crc) = (u32_of()?, u32_of()?);
    let covered = tail.get(..28).unwrap_or_default();
    if *input != MAGIC || crc != crc32c(0, covered) || id != file_id {
        return Err(Malformed::new("the tail fails its checksum"));
    }
    Ok(Tail {
        offset,
        length,
        crc: footer_crc,
    })
}
