//! Reading an index file: header, tail and footer at open, blocks by `pread` on demand.
//!
//! Does: open, find a series by its tags, tags and ids of series, check every block; remember the first damage that it
//! met, and read the copy of what stands there twice. Does not: select by predicates or list values (`select.rs` does).

mod blocks;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nilometer_codec::crc32c;
use roaring::RoaringBitmap;

use super::block::Dictionary;
use super::cache::BlockCache;
use super::footer::{Footer, Layout, TableMeta, TagMeta};
use super::layout::{HEADER_BYTES, KIND, MAGIC, SERIES_OF_ONE_BLOCK, TAIL_BYTES};
#[cfg(test)]
use super::series::{TableSeries, TagSeries};
#[cfg(test)]
use super::texts::Texts;
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
    layout: Layout,
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
        match file_header::decode::<8>(header, KIND, path) {
            Ok(header) if header.uuid == uuid && header.own == file_id.to_le_bytes() => {}
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
        // The one footer of the earlier layout ends where the tail starts.
        let is_once = |tail: &Tail| tail.offset.checked_add(tail.length) == Some(tail_offset);
        let tail = match (tail, copy) {
            (Ok(tail), _) if is_once(&tail) => tail,
            (Ok(tail), Err(error)) => {
                note(&damage, error)?;
                tail
            }
            (tail, copy) => either(&damage, tail, || copy)?,
        };
        let (offset, length) = (tail.offset, tail.length);
        let (layout, footers) = if is_once(&tail) {
            (Layout::Once, Some(length))
        } else {
            (Layout::Twice, length.checked_mul(2))
        };
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
            Footer::decode(&footer, layout).map_err(|what| what.at(path, offset))
        };
        let footer = match layout {
            Layout::Twice => either(&damage, footer_at(offset), || footer_at(offset + length))?,
            Layout::Once => footer_at(offset)?,
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            file_id,
            bytes,
            end: offset,
            layout,
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

    /// Where the footer starts.
    pub(super) fn footer_at(&self) -> u64 {
        self.end
    }

    /// Whether it has the layout of earlier versions, which a merge does not read: it must be written again.
    pub(crate) fn is_old(&self) -> bool {
        self.layout == Layout::Once
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
        // Those that it must have come first: the table may have thousands of others.
        for (tag, value) in tags {
            let Some(meta) = tag_of(table, *tag) else {
                return Ok(false);
            };
            match self.code(table, meta, ordinal)? {
                Some(code) if self.value_is(table, meta, code, value)? => {}
                _ => return Ok(false),
            }
        }
        for meta in &table.tags {
            let is_wanted = tags
                .binary_search_by_key(&meta.tag, |(tag, _)| *tag)
                .is_ok();
            if !is_wanted && self.code(table, meta, ordinal)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
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

    /// Appends the codes, counted from 0, that series have of a tag, each behind the position of its series, counted from
    /// `first_position`; ids ascend. A series that is not in this file has none.
    pub(crate) fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
        first_position: u32,
        out: &mut Vec<(u32, u32)>,
    ) -> Result<(), Error> {
        let meta = self.table(table);
        let Some((table, tag)) = meta.and_then(|table| Some((table, tag_of(table, tag)?))) else {
            return Ok(());
        };
        let (mut rest, mut position) = (series, first_position);
        while let Some(&id) = rest.first() {
            // Series of one block at once.
            let block = table.first_ids.partition_point(|&first| first <= id);
            let next = table.first_ids.get(block).copied();
            let n = next.map_or(rest.len(), |next| rest.partition_point(|&id| id < next));
            let (own, after) = rest.split_at(n);
            rest = after;
            let first = position;
            position = position.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            let Some(block) = block.checked_sub(1) else {
                continue;
            };
            let codes = self.codes(table, tag, block)?;
            if codes.present() == 0 {
                continue;
            }
            let ids = self.ids_of(table, block)?;
            if own == ids.as_slice() {
                codes.each_from(0, |at, code| out.push((first + at, code)));
                continue;
            }
            let mut from = 0;
            for (position, id) in (first..).zip(own) {
                let found = ids.get(from..).unwrap_or_default().binary_search(id);
                let code = found.ok().and_then(|at| codes.get(from + at));
                out.extend(code.map(|code| (position, code)));
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
