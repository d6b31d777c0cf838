//! Writing an index file: tables in, one file out.
//!
//! Does: write a table that is in memory, and give a merge, whose tables are not, the pieces to write one: blocks of
//! numbers, lists a number at a time, dictionaries a value at a time. What it holds of a file at work is the footer
//! and a buffer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::{BLOCK_ROWS_MAX, crc32c};

use super::Texts;
use super::block::{PostingPlace, encode_dictionary, put_u32s};
use super::footer::{Blocks, Footer, TableMeta, TagMeta};
use super::layout::{
    BLOCK_TEXT_BYTES, COPIED_BLOCKS_MAX, HEADER_BYTES, KIND, MAGIC, SERIES_OF_ONE_BLOCK,
    TAIL_BYTES, VALUES_OF_ONE_BLOCK,
};
use super::series::{TableSeries, TagSeries, put_hashed};
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::schema::{ColumnId, TableId};

/// The buffer goes to the file when it has this many bytes.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// A file at work.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    file_id: u64,
    written: u64,
    buffer: Vec<u8>,
    tables: Vec<TableMeta>,
}

/// The hashes of the tag sets of a table's series, while the tags come in one after the other by ascending id.
#[derive(Debug)]
pub(crate) struct Hashing {
    /// By ordinal.
    hashes: Vec<u32>,
    scratch: Vec<u8>,
}

impl Hashing {
    /// Of so many series, which have no tags yet.
    pub(crate) fn new(series: usize) -> Self {
        Self {
            hashes: vec![0; series],
            scratch: Vec::new(),
        }
    }

    /// A series has a tag.
    pub(crate) fn add(&mut self, ordinal: u32, tag: ColumnId, value: &str) {
        if let Some(hash) = self.hashes.get_mut(ordinal as usize) {
            self.scratch.clear();
            put_hashed(tag, value, &mut self.scratch);
            *hash = crc32c(*hash, &self.scratch);
        }
    }

    /// Ascending, and the ordinal of each.
    fn sorted(self) -> Vec<(u32, u32)> {
        let mut sorted: Vec<(u32, u32)> = self.hashes.into_iter().zip(0..).collect();
        sorted.sort_unstable();
        sorted
    }
}

/// A table on its way into the file.
#[derive(Debug)]
pub(crate) struct TableOut(TableMeta);

/// A list on its way into the file.
#[derive(Debug)]
pub(super) struct ListOut {
    start: u64,
    crc: u32,
    chunk: Vec<u32>,
    series: u32,
}

/// A tag on its way into the file, once its codes are there.
#[derive(Debug)]
pub(super) struct TagOut {
    meta: TagMeta,
    /// Of the dictionary block at hand.
    values: Texts,
    places: Vec<PostingPlace>,
    text_bytes: usize,
    lists_start: u64,
    /// Number of values, those of the block at hand left out.
    count: u32,
    /// Dictionary blocks, as long as they are few enough to stand there twice.
    copies: Vec<Vec<u8>>,
}

impl IndexWriter {
    /// Starts a file.
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        file_id: u64,
    ) -> Result<Self, Error> {
        let file = disk.create(path).map_err(Error::io("create", path))?;
        let mut buffer = file_header::encode(KIND, uuid, &file_id.to_le_bytes(), HEADER_BYTES);
        // Where the copy of the tail goes in the end.
        buffer.resize(HEADER_BYTES + TAIL_BYTES, 0);
        Ok(Self {
            file,
            path: path.to_owned(),
            file_id,
            written: 0,
            buffer,
            tables: Vec::new(),
        })
    }

    /// Adds a table. Tables come by ascending id; one without series is left out.
    pub(crate) fn write_table(&mut self, table: &TableSeries) -> Result<(), Error> {
        if table.ids.is_empty() {
            return Ok(());
        }
        table
            .check()
            .map_err(|what| what.at(&self.path, self.position()))?;
        let mut hashes = Hashing::new(table.ids.len());
        for tag in &table.tags {
            for (ordinal, &code) in (0..).zip(&tag.codes) {
                let value = code.checked_sub(1).map(|at| tag.values.get(at as usize));
                if let Some(value) = value.flatten() {
                    hashes.add(ordinal, tag.tag, value);
                }
            }
        }
        let mut out = self.begin_table(table.table, &table.ids, hashes)?;
        for tag in &table.tags {
            self.write_tag(&mut out, tag)?;
        }
        self.end_table(out)
    }

    /// Starts a table, of these ids, which ascend. Its tags come next, by ascending id, and then [`Self::end_table`].
    pub(crate) fn begin_table(
        &mut self,
        table: TableId,
        ids: &[u32],
        hashes: Hashing,
    ) -> Result<TableOut, Error> {
        let first_ids = ids.chunks(SERIES_OF_ONE_BLOCK);
        let first_ids = first_ids.filter_map(|ids| ids.first().copied()).collect();
        let places = self.write_numbers(ids)?;
        let (hashes, first_hashes) = self.write_hashes(&hashes.sorted())?;
        self.write_numbers(ids)?;
        Ok(TableOut(TableMeta {
            table,
            series: u32::try_from(ids.len()).unwrap_or(u32::MAX),
            ids: places,
            first_ids,
            last_id: ids.last().copied().unwrap_or(0),
            hashes,
            first_hashes,
            has_copies: true,
            tags: Vec::new(),
        }))
    }

    /// Ends a table; one without series is left out.
    pub(crate) fn end_table(&mut self, out: TableOut) -> Result<(), Error> {
        match out.0.series {
            0 => Ok(()),
            _ => self.add_table(out.0),
        }
    }

    /// Adds a table whose blocks are written.
    pub(super) fn add_table(&mut self, table: TableMeta) -> Result<(), Error> {
        let mut last = self.tables.last().into_iter();
        if last.any(|last| last.table >= table.table) {
            let what = Malformed::new("tables of an index come by ascending id");
            return Err(what.at(&self.path, self.position()));
        }
        self.tables.push(table);
        Ok(())
    }

    /// Writes the footer and syncs the file; returns its size. Ids below `next_series` were given away. The folder's
    /// names are the caller's to sync.
    pub(crate) fn finish(mut self, next_series: u32) -> Result<u64, Error> {
        let tables = std::mem::take(&mut self.tables);
        let footer = Footer {
            next_series,
            tables,
        };
        let footer = footer.encode();
        let offset = self.position();
        // Twice, because nothing else says where anything is.
        self.buffer.extend_from_slice(&footer);
        self.buffer.extend_from_slice(&footer);
        let mut tail = Vec::new();
        tail.extend_from_slice(&self.file_id.to_le_bytes());
        tail.extend_from_slice(&offset.to_le_bytes());
        tail.extend_from_slice(&(footer.len() as u64).to_le_bytes());
        tail.extend_from_slice(&crc32c(0, &footer).to_le_bytes());
        let crc = crc32c(0, &tail);
        tail.extend_from_slice(&crc.to_le_bytes());
        tail.extend_from_slice(&MAGIC);
        self.buffer.extend_from_slice(&tail);
        self.flush()?;
        write_all_at(self.file.as_ref(), &tail, HEADER_BYTES as u64)
            .map_err(Error::io("write", &self.path))?;
        self.file.sync().map_err(Error::io("sync", &self.path))?;
        Ok(self.written)
    }

    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> Result<(), Error> {
        write_all_at(self.file.as_ref(), &self.buffer, self.written)
            .map_err(Error::io("write", &self.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// No blocks, where the next will stand.
    pub(super) fn start(&self) -> Blocks {
        Blocks::at(self.position())
    }

    /// Appends a block and its checksum.
    fn put(&mut self, block: &[u8], blocks: &mut Blocks) -> Result<(), Error> {
        self.buffer.extend_from_slice(block);
        self.buffer
            .extend_from_slice(&crc32c(0, block).to_le_bytes());
        let length = u32::try_from(block.len() + 4)
            .map_err(|_| Malformed::new("block of 4 GiB").at(&self.path, self.written))?;
        blocks.push(length);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Numbers by ordinal, a block for some series each.
    fn write_numbers(&mut self, numbers: &[u32]) -> Result<Blocks, Error> {
        let mut blocks = self.start();
        for numbers in numbers.chunks(SERIES_OF_ONE_BLOCK) {
            self.put_numbers(numbers, &mut blocks)?;
        }
        Ok(blocks)
    }

    /// Appends a block of numbers by ordinal.
    pub(super) fn put_numbers(
        &mut self,
        numbers: &[u32],
        blocks: &mut Blocks,
    ) -> Result<(), Error> {
        let mut block = Vec::new();
        put_u32s(numbers.iter().copied(), &mut block);
        self.put(&block, blocks)
    }

    /// Appends a block of hashes and their ordinals.
    pub(super) fn put_hashes(
        &mut self,
        hashes: &[(u32, u32)],
        blocks: &mut Blocks,
    ) -> Result<(), Error> {
        let mut block = Vec::new();
        put_u32s(hashes.iter().map(|(hash, _)| *hash), &mut block);
        put_u32s(hashes.iter().map(|(_, ordinal)| *ordinal), &mut block);
        self.put(&block, blocks)
    }

    /// Hashes of the tag sets, ascending, and the ordinal of each.
    fn write_hashes(&mut self, hashes: &[(u32, u32)]) -> Result<(Blocks, Vec<u32>), Error> {
        let (mut blocks, mut first_hashes) = (self.start(), Vec::new());
        for hashes in hashes.chunks(SERIES_OF_ONE_BLOCK) {
            first_hashes.extend(hashes.first().map(|(hash, _)| *hash));
            self.put_hashes(hashes, &mut blocks)?;
        }
        Ok((blocks, first_hashes))
    }

    /// Adds a tag to the table at hand.
    pub(crate) fn write_tag(&mut self, to: &mut TableOut, tag: &TagSeries) -> Result<(), Error> {
        let codes = self.write_numbers(&tag.codes)?;
        let ordinals = Lists::of(tag);
        let mut out = self.begin_tag(tag.tag, codes);
        for (at, value) in tag.values.iter().enumerate() {
            self.begin_value(&mut out, value)?;
            let place = match ordinals.get(at + 1) {
                [one] => Some(PostingPlace::One(*one)),
                several => self.write_list(several)?,
            };
            let missing = || Malformed::new("a value that no series has");
            let place = place.ok_or_else(|| missing().at(&self.path, self.position()))?;
            out.end_value(place);
        }
        self.end_values(&mut out)?;
        let absent = self.write_list(ordinals.get(0))?;
        to.0.tags.push(self.end_tag(out, absent)?);
        Ok(())
    }

    fn write_list(&mut self, ordinals: &[u32]) -> Result<Option<PostingPlace>, Error> {
        let mut list = self.begin_list();
        for &ordinal in ordinals {
            self.push(&mut list, ordinal)?;
        }
        self.end_list(list)
    }

    /// Starts a list of ordinals, which ascend.
    pub(super) fn begin_list(&self) -> ListOut {
        ListOut {
            start: self.position(),
            crc: 0,
            chunk: Vec::new(),
            series: 0,
        }
    }

    /// Adds an ordinal to a list. Nothing else may be written before the list ends.
    pub(super) fn push(&mut self, list: &mut ListOut, ordinal: u32) -> Result<(), Error> {
        list.chunk.push(ordinal);
        list.series = list.series.saturating_add(1);
        // As the codec cuts any number of integers into chunks.
        if list.chunk.len() == BLOCK_ROWS_MAX {
            self.put_chunk(list);
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn put_chunk(&mut self, list: &mut ListOut) {
        let before = self.buffer.len();
        put_u32s(list.chunk.drain(..), &mut self.buffer);
        let added = self.buffer.get(before..).unwrap_or_default();
        list.crc = crc32c(list.crc, added);
    }

    /// Ends a list; `None` = it has no ordinals, and nothing is written.
    pub(super) fn end_list(&mut self, mut list: ListOut) -> Result<Option<PostingPlace>, Error> {
        if list.series == 0 {
            return Ok(None);
        }
        self.put_chunk(&mut list);
        self.buffer.extend_from_slice(&list.crc.to_le_bytes());
        self.flush_if_full()?;
        let bytes = self.bytes_since(list.start)?;
        Ok(Some(PostingPlace::List {
            series: list.series,
            bytes,
            at: 0,
        }))
    }

    fn bytes_since(&self, start: u64) -> Result<u32, Error> {
        u32::try_from(self.position() - start)
            .map_err(|_| Malformed::new("lists of 4 GiB").at(&self.path, start))
    }

    /// Starts the values of a tag, whose codes are written.
    pub(super) fn begin_tag(&self, tag: ColumnId, codes: Blocks) -> TagOut {
        TagOut {
            meta: TagMeta {
                tag,
                codes,
                values: self.start(),
                lists: None,
                value_ends: Vec::new(),
                firsts: Vec::new(),
                absent: 0,
                absent_bytes: 0,
            },
            values: Texts::default(),
            places: Vec::new(),
            text_bytes: 0,
            lists_start: 0,
            count: 0,
            copies: Vec::new(),
        }
    }

    /// Adds a value, above those before it; its list comes next, if it has one, and then [`TagOut::end_value`].
    pub(super) fn begin_value(&mut self, out: &mut TagOut, value: &str) -> Result<(), Error> {
        let is_full = out.values.len() >= VALUES_OF_ONE_BLOCK
            || out.text_bytes + value.len() > BLOCK_TEXT_BYTES;
        if is_full {
            self.end_values(out)?;
        }
        if out.values.len() == 0 {
            out.lists_start = self.position();
            out.meta.firsts.push(value.to_owned());
        }
        out.text_bytes += value.len();
        out.values.push(value);
        Ok(())
    }

    /// Ends the dictionary block at hand.
    pub(super) fn end_values(&mut self, out: &mut TagOut) -> Result<(), Error> {
        let values = std::mem::take(&mut out.values);
        if values.len() == 0 {
            return Ok(());
        }
        let lists = self.bytes_since(out.lists_start)?;
        out.meta.values.push(lists);
        let mut block = Vec::new();
        encode_dictionary(values.iter(), &out.places, &mut block);
        self.put(&block, &mut out.meta.values)?;
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        out.count = out.count.saturating_add(count);
        out.meta.value_ends.push(out.count);
        if out.meta.dictionary_blocks() <= COPIED_BLOCKS_MAX {
            out.copies.push(block);
        } else {
            out.copies = Vec::new();
        }
        out.places.clear();
        out.text_bytes = 0;
        Ok(())
    }

    /// Ends a tag whose last value and then the list of the series without it were written.
    pub(super) fn end_tag(
        &mut self,
        out: TagOut,
        absent: Option<PostingPlace>,
    ) -> Result<TagMeta, Error> {
        let TagOut {
            mut meta, copies, ..
        } = out;
        if let Some(PostingPlace::List { series, bytes, .. }) = absent {
            (meta.absent, meta.absent_bytes) = (series, bytes);
        }
        let mut blocks = self.start();
        for block in &copies {
            self.put(block, &mut blocks)?;
        }
        Ok(meta)
    }
}

impl TagOut {
    /// Says where the series of the value at hand are.
    pub(super) fn end_value(&mut self, place: PostingPlace) {
        self.places.push(place);
    }
}

/// By code: the ordinals that have it.
struct Lists {
    ordinals: Vec<u32>,
    /// By code: where its ordinals end.
    ends: Vec<usize>,
}

impl Lists {
    fn of(tag: &TagSeries) -> Self {
        let mut ends = vec![0; tag.values.len() + 1];
        for &code in &tag.codes {
            if let Some(count) = ends.get_mut(code as usize) {
                *count += 1;
            }
        }
        // Counts become starts, and filling moves each start to its end.
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut ordinals = vec![0; sum];
        for (ordinal, &code) in (0..).zip(&tag.codes) {
            if let Some(at) = ends.get_mut(code as usize) {
                if let Some(slot) = ordinals.get_mut(*at) {
                    *slot = ordinal;
                }
                *at += 1;
            }
        }
        Self { ordinals, ends }
    }

    fn get(&self, code: usize) -> &[u32] {
        let start = code.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(code).copied().unwrap_or(0);
        let range = start.copied().unwrap_or(0)..end;
        self.ordinals.get(range).unwrap_or_default()
    }
}
