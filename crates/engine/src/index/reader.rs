//! Reading an index file: header, tail and footer at open, blocks by `pread` when they are asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::crc32c;
use roaring::RoaringBitmap;

use super::block::{Dictionary, Place, decode_dictionary, decode_list, ended, take_u32s};
use super::cache::BlockCache;
use super::footer::{self, Blocks, TableMeta, TagMeta};
use super::{
    HEADER_BYTES, MAGIC, SERIES_OF_ONE_BLOCK, TAIL_BYTES, TableSeries, TagSeries, hash_tags,
};
use crate::definition::take_bytes;
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::predicate::TagMatch;
use crate::schema::{ColumnId, SeriesId, TableId};

/// An open index file.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    file_id: u64,
    /// Where the footer starts: no block reaches beyond.
    end: u64,
    tables: Vec<TableMeta>,
    cache: Arc<BlockCache>,
}

/// A block of series, decoded.
struct SeriesBlock {
    ids: Vec<u32>,
    /// By tag of the table: code by series.
    codes: Vec<Vec<u32>>,
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
        if size != bytes || size < (HEADER_BYTES + TAIL_BYTES) as u64 {
            let reason = format!("the file has {size} bytes, the manifest says {bytes}");
            return Err(Error::corrupt(path, size, reason));
        }
        let mut header = [0; HEADER_BYTES];
        read(file.as_ref(), path, &mut header, 0)?;
        let (owner, id) = file_header::decode::<8>(&header, MAGIC, path)?;
        if owner != uuid || id != file_id.to_le_bytes() {
            let reason = "the file belongs to another data directory or has another id";
            return Err(Error::corrupt(path, 0, reason));
        }
        let tail_offset = size - TAIL_BYTES as u64;
        let mut tail = [0; TAIL_BYTES];
        read(file.as_ref(), path, &mut tail, tail_offset)?;
        let (offset, length, crc) =
            decode_tail(&tail, file_id).map_err(|what| what.at(path, tail_offset))?;
        if offset.checked_add(length) != Some(tail_offset) {
            let reason = "the footer does not end at the tail";
            return Err(Error::corrupt(path, tail_offset, reason));
        }
        let mut footer = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        read(file.as_ref(), path, &mut footer, offset)?;
        if crc32c(0, &footer) != crc {
            return Err(Error::corrupt(
                path,
                offset,
                "the footer fails its checksum",
            ));
        }
        let tables = footer::decode(&footer).map_err(|what| what.at(path, offset))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            file_id,
            end: offset,
            tables,
            cache,
        })
    }

    /// Tables with series, ascending.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|table| table.table)
    }

    /// Number of series of a table.
    pub(crate) fn series_count(&self, table: TableId) -> u32 {
        self.table(table).map_or(0, |table| table.series)
    }

    /// The series with exactly these tags, which ascend by id.
    pub(crate) fn find(
        &self,
        table: TableId,
        tags: &[(ColumnId, &str)],
    ) -> Result<Option<SeriesId>, Error> {
        let Some(table) = self.table(table) else {
            return Ok(None);
        };
        let hash = hash_tags(tags.iter().copied());
        // Equal hashes may start in the block before the first that starts with them.
        let first = table.first_hashes.partition_point(|&first| first < hash);
        let blocks = first.saturating_sub(1)..table.first_hashes.len();
        for at in blocks {
            if table
                .first_hashes
                .get(at)
                .is_some_and(|&first| first > hash)
            {
                break;
            }
            let (hashes, ordinals) = self.hash_block(table, at)?;
            let own = hashes.partition_point(|&h| h < hash)..hashes.partition_point(|&h| h <= hash);
            for &ordinal in ordinals.get(own).unwrap_or_default() {
                if let Some(id) = self.id_if(table, ordinal, tags)? {
                    return Ok(Some(id));
                }
            }
        }
        Ok(None)
    }

    /// The id of an ordinal, if it has exactly these tags.
    fn id_if(
        &self,
        table: &TableMeta,
        ordinal: u32,
        tags: &[(ColumnId, &str)],
    ) -> Result<Option<SeriesId>, Error> {
        let own = self.tags_at(table, ordinal)?;
        let same = own.1.len() == tags.len()
            && own
                .1
                .iter()
                .zip(tags)
                .all(|((tag, value), (t, v))| tag == t && value == v);
        Ok(same.then_some(own.0))
    }

    /// The tags of a series, by tag id; `None` = it is not in this file.
    pub(crate) fn tags_of(
        &self,
        table: TableId,
        series: SeriesId,
    ) -> Result<Option<Vec<(ColumnId, String)>>, Error> {
        let Some(table) = self.table(table) else {
            return Ok(None);
        };
        let block = table.first_ids.partition_point(|&first| first <= series.0);
        let Some(block) = block.checked_sub(1) else {
            return Ok(None);
        };
        let block = self.series_block(table, block)?;
        let Ok(at) = block.ids.binary_search(&series.0) else {
            return Ok(None);
        };
        Ok(Some(self.tags_in(table, &block, at)?))
    }

    /// Ordinals of the series whose tag matches, or does not.
    pub(crate) fn select(
        &self,
        table: TableId,
        tag: ColumnId,
        matches: &TagMatch,
        negated: bool,
    ) -> Result<RoaringBitmap, Error> {
        let mut all = RoaringBitmap::new();
        let Some(table) = self.table(table) else {
            return Ok(all);
        };
        all.insert_range(0..table.series);
        let matching = match tag_of(table, tag) {
            Some((_, meta)) => self.matching(table, meta, matches)?,
            None if matches.is_match(None) => all.clone(),
            None => RoaringBitmap::new(),
        };
        Ok(if negated { all - matching } else { matching })
    }

    fn matching(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        matches: &TagMatch,
    ) -> Result<RoaringBitmap, Error> {
        let blocks: Vec<usize> = match matches {
            TagMatch::Pattern(_) => (0..tag.firsts.len()).collect(),
            TagMatch::OneOf(values) => {
                let present = values.iter().flatten();
                let mut blocks: Vec<usize> =
                    present.filter_map(|value| block_of(tag, value)).collect();
                blocks.sort_unstable();
                blocks.dedup();
                blocks
            }
        };
        let mut single = Vec::new();
        let mut set = RoaringBitmap::new();
        for block in blocks {
            let dictionary = self.dictionary(tag, block)?;
            let mut lists_before = 0;
            for (value, &place) in dictionary.values.iter().zip(&dictionary.places) {
                let wanted = matches.is_match(Some(value));
                match place {
                    Place::One(ordinal) if wanted => single.push(ordinal),
                    Place::One(_) => {}
                    Place::List { series, bytes } => {
                        if wanted {
                            let list = self.list(table, tag, block, lists_before, series, bytes)?;
                            set.extend(list);
                        }
                        lists_before += u64::from(bytes);
                    }
                }
            }
        }
        if matches.is_match(None) && tag.absent > 0 {
            let offset = tag.lists.end();
            set.extend(self.list_at(table, offset, tag.absent, tag.absent_bytes)?);
        }
        set.extend(single.into_iter().filter(|&ordinal| ordinal < table.series));
        Ok(set)
    }

    /// Values of a tag that start with `prefix`, in byte order.
    pub(crate) fn values(
        &self,
        table: TableId,
        tag: ColumnId,
        prefix: &str,
    ) -> Result<Vec<String>, Error> {
        let mut values = Vec::new();
        let Some((_, tag)) = self.table(table).and_then(|table| tag_of(table, tag)) else {
            return Ok(values);
        };
        let first = block_of(tag, prefix).unwrap_or(0);
        for block in first..tag.firsts.len() {
            let ahead = |first: &String| !first.starts_with(prefix) && first.as_str() > prefix;
            if tag.firsts.get(block).is_some_and(ahead) {
                break;
            }
            let dictionary = self.dictionary(tag, block)?;
            values.extend(
                dictionary
                    .values
                    .into_iter()
                    .filter(|value| value.starts_with(prefix)),
            );
        }
        Ok(values)
    }

    /// Ids of ordinals.
    pub(crate) fn ids(
        &self,
        table: TableId,
        ordinals: &RoaringBitmap,
    ) -> Result<Vec<SeriesId>, Error> {
        let mut ids = Vec::new();
        let Some(table) = self.table(table) else {
            return Ok(ids);
        };
        let mut at = None;
        for ordinal in ordinals {
            let block = ordinal as usize / SERIES_OF_ONE_BLOCK;
            if at.as_ref().is_none_or(|(known, _)| *known != block) {
                at = Some((block, self.series_block(table, block)?.ids));
            }
            let own = at
                .as_ref()
                .and_then(|(_, ids)| ids.get(ordinal as usize % SERIES_OF_ONE_BLOCK));
            ids.extend(own.map(|&id| SeriesId(id)));
        }
        Ok(ids)
    }

    /// Everything of a table, for a merge.
    pub(crate) fn load(&self, table: TableId) -> Result<Option<TableSeries>, Error> {
        let Some(meta) = self.table(table) else {
            return Ok(None);
        };
        let mut all = TableSeries {
            table,
            ids: Vec::new(),
            tags: Vec::new(),
        };
        for tag in &meta.tags {
            let mut values = Vec::new();
            for block in 0..tag.firsts.len() {
                values.extend(self.dictionary(tag, block)?.values);
            }
            all.tags.push(TagSeries {
                tag: tag.tag,
                values,
                codes: Vec::new(),
            });
        }
        for block in 0..meta.first_ids.len() {
            let block = self.series_block(meta, block)?;
            all.ids.extend(block.ids);
            for (tag, codes) in all.tags.iter_mut().zip(block.codes) {
                tag.codes.extend(codes);
            }
        }
        all.check()
            .map_err(|what| what.at(&self.path, meta.blocks.offset))?;
        Ok(Some(all))
    }

    fn table(&self, table: TableId) -> Option<&TableMeta> {
        let at = self
            .tables
            .binary_search_by_key(&table, |meta| meta.table)
            .ok()?;
        self.tables.get(at)
    }

    /// The id and the tags of an ordinal.
    fn tags_at(
        &self,
        table: &TableMeta,
        ordinal: u32,
    ) -> Result<(SeriesId, Vec<(ColumnId, String)>), Error> {
        let (block, at) = (
            ordinal as usize / SERIES_OF_ONE_BLOCK,
            ordinal as usize % SERIES_OF_ONE_BLOCK,
        );
        let series = self.series_block(table, block)?;
        let id = series
            .ids
            .get(at)
            .copied()
            .ok_or_else(|| self.damage(table))?;
        Ok((SeriesId(id), self.tags_in(table, &series, at)?))
    }

    /// The tags of a series at a position of a block.
    fn tags_in(
        &self,
        table: &TableMeta,
        series: &SeriesBlock,
        at: usize,
    ) -> Result<Vec<(ColumnId, String)>, Error> {
        let mut tags = Vec::new();
        for (meta, codes) in table.tags.iter().zip(&series.codes) {
            if let Some(rank) = codes.get(at).copied().unwrap_or(0).checked_sub(1) {
                tags.push((meta.tag, self.value_at(table, meta, rank)?));
            }
        }
        Ok(tags)
    }

    /// The value at a position of a dictionary.
    fn value_at(&self, table: &TableMeta, tag: &TagMeta, mut rank: u32) -> Result<String, Error> {
        for (block, &values) in tag.values.iter().enumerate() {
            if rank < values {
                let mut dictionary = self.dictionary(tag, block)?;
                return Ok(dictionary.values.swap_remove(rank as usize));
            }
            rank -= values;
        }
        Err(self.damage(table))
    }

    fn damage(&self, table: &TableMeta) -> Error {
        Error::corrupt(
            &self.path,
            table.blocks.offset,
            "a series has a code of no value",
        )
    }

    fn series_block(&self, table: &TableMeta, block: usize) -> Result<SeriesBlock, Error> {
        let (bytes, offset) = self.block(&table.blocks, block)?;
        let before = block.saturating_mul(SERIES_OF_ONE_BLOCK);
        let n = (table.series as usize)
            .saturating_sub(before)
            .min(SERIES_OF_ONE_BLOCK);
        let decode = |mut input: &[u8]| {
            let ids = take_u32s(&mut input, n)?;
            let mut codes = Vec::new();
            for _ in &table.tags {
                codes.push(take_u32s(&mut input, n)?);
            }
            ended(input)?;
            if !ids.is_sorted_by(|a, b| a < b) {
                return Err(Malformed::new("series ids are out of order"));
            }
            Ok(SeriesBlock { ids, codes })
        };
        decode(&bytes).map_err(|what| what.at(&self.path, offset))
    }

    fn hash_block(&self, table: &TableMeta, block: usize) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let (bytes, offset) = self.block(&table.hashes, block)?;
        let before = block.saturating_mul(SERIES_OF_ONE_BLOCK);
        let n = (table.series as usize)
            .saturating_sub(before)
            .min(SERIES_OF_ONE_BLOCK);
        let decode = |mut input: &[u8]| {
            let hashes = take_u32s(&mut input, n)?;
            let ordinals = take_u32s(&mut input, n)?;
            ended(input)?;
            if !hashes.is_sorted() || ordinals.iter().any(|&ordinal| ordinal >= table.series) {
                return Err(Malformed::new("hashes are out of order"));
            }
            Ok((hashes, ordinals))
        };
        decode(&bytes).map_err(|what: Malformed| what.at(&self.path, offset))
    }

    fn dictionary(&self, tag: &TagMeta, block: usize) -> Result<Dictionary, Error> {
        let n = tag.values.get(block).copied().unwrap_or(0) as usize;
        let (bytes, offset) = self.block(&tag.dictionary, block)?;
        decode_dictionary(&bytes, n).map_err(|what| what.at(&self.path, offset))
    }

    fn list(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        block: usize,
        before: u64,
        series: u32,
        bytes: u32,
    ) -> Result<Vec<u32>, Error> {
        let start = tag.lists.place(block).map_or(0, |(offset, _)| offset);
        self.list_at(table, start.saturating_add(before), series, bytes)
    }

    fn list_at(
        &self,
        table: &TableMeta,
        offset: u64,
        series: u32,
        bytes: u32,
    ) -> Result<Vec<u32>, Error> {
        let block = self.fetch(offset, bytes)?;
        decode_list(&block, series as usize, table.series)
            .map_err(|what| what.at(&self.path, offset))
    }

    fn block(&self, blocks: &Blocks, block: usize) -> Result<(Arc<Vec<u8>>, u64), Error> {
        let place = blocks.place(block);
        let (offset, length) =
            place.ok_or_else(|| Error::corrupt(&self.path, blocks.offset, "no such block"))?;
        Ok((self.fetch(offset, length)?, offset))
    }

    /// A block without its checksum, which was checked.
    fn fetch(&self, offset: u64, length: u32) -> Result<Arc<Vec<u8>>, Error> {
        let key = (self.file_id, offset);
        if let Some(block) = self.cache.get(key) {
            return Ok(block);
        }
        let end = offset.checked_add(u64::from(length));
        if end.is_none_or(|end| end > self.end) || length < 4 {
            return Err(Error::corrupt(
                &self.path,
                offset,
                "a place is outside the file",
            ));
        }
        let mut bytes = vec![0; length as usize];
        read(self.file.as_ref(), &self.path, &mut bytes, offset)?;
        let (block, crc) = bytes.split_at(bytes.len() - 4);
        if crc32c(0, block).to_le_bytes() != crc {
            return Err(Error::corrupt(
                &self.path,
                offset,
                "a block fails its checksum",
            ));
        }
        bytes.truncate(bytes.len() - 4);
        let block = Arc::new(bytes);
        self.cache.insert(key, Arc::clone(&block));
        Ok(block)
    }
}

/// The dictionary block that would hold a value.
fn block_of(tag: &TagMeta, value: &str) -> Option<usize> {
    tag.firsts
        .partition_point(|first| first.as_str() <= value)
        .checked_sub(1)
}

fn tag_of(table: &TableMeta, tag: ColumnId) -> Option<(usize, &TagMeta)> {
    let at = table
        .tags
        .binary_search_by_key(&tag, |meta| meta.tag)
        .ok()?;
    Some((at, table.tags.get(at)?))
}

fn read(file: &dyn DiskFile, path: &Path, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
    read_exact_at(file, bytes, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, offset, "the file ends early"),
        _ => Error::io("read", path)(error),
    })
}

/// Offset, length and checksum of the footer.
fn decode_tail(tail: &[u8; TAIL_BYTES], file_id: u64) -> Result<(u64, u64, u32), Malformed> {
    let input = &mut tail.as_slice();
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
    Ok((offset, length, footer_crc))
}
