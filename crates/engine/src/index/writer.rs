//! Writing an index file: tables in, one file out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::crc32c;

use super::block::{Place, block_end, encode_dictionary, put_u32s};
use super::footer::{Blocks, Footer, TableMeta, TagMeta};
use super::{HEADER_BYTES, MAGIC, SERIES_OF_ONE_BLOCK, TableSeries, TagSeries, hash_tags};
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::schema::ColumnId;

/// The buffer goes to the file when it has this many bytes.
const BUFFER_BYTES: usize = 1 << 20;

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

impl IndexWriter {
    /// Starts a file.
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        file_id: u64,
    ) -> Result<Self, Error> {
        let file = disk.create(path).map_err(Error::io("create", path))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            file_id,
            written: 0,
            buffer: file_header::encode(MAGIC, uuid, &file_id.to_le_bytes(), HEADER_BYTES),
            tables: Vec::new(),
        })
    }

    /// Adds a table. Tables come by ascending id; one without series is left out.
    pub(crate) fn write_table(&mut self, table: &TableSeries) -> Result<(), Error> {
        if table.ids.is_empty() {
            return Ok(());
        }
        let in_order = self
            .tables
            .last()
            .is_none_or(|last| last.table < table.table);
        let checked = table.check().and_then(|()| {
            let error = || Malformed::new("tables of an index come by ascending id");
            in_order.then_some(()).ok_or_else(error)
        });
        checked.map_err(|what| what.at(&self.path, self.position()))?;
        let (ids, first_ids) = self.write_ids(table)?;
        let (hashes, first_hashes) = self.write_hashes(table)?;
        let mut tags = Vec::new();
        for tag in &table.tags {
            tags.push(self.write_tag(tag)?);
        }
        self.tables.push(TableMeta {
            table: table.table,
            series: u32::try_from(table.ids.len()).unwrap_or(u32::MAX),
            ids,
            first_ids,
            last_id: table.ids.last().copied().unwrap_or(0),
            hashes,
            first_hashes,
            tags,
        });
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

    fn start(&self) -> Blocks {
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
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn write_ids(&mut self, table: &TableSeries) -> Result<(Blocks, Vec<u32>), Error> {
        let first_ids = table.ids.chunks(SERIES_OF_ONE_BLOCK);
        let first_ids = first_ids.filter_map(|ids| ids.first().copied()).collect();
        Ok((self.write_numbers(&table.ids)?, first_ids))
    }

    /// Numbers by ordinal, a block for some series each.
    fn write_numbers(&mut self, numbers: &[u32]) -> Result<Blocks, Error> {
        let mut blocks = self.start();
        let mut block = Vec::new();
        for numbers in numbers.chunks(SERIES_OF_ONE_BLOCK) {
            block.clear();
            put_u32s(numbers.iter().copied(), &mut block);
            self.put(&block, &mut blocks)?;
        }
        Ok(blocks)
    }

    /// Hashes of the tag sets, ascending, and the ordinal of each.
    fn write_hashes(&mut self, table: &TableSeries) -> Result<(Blocks, Vec<u32>), Error> {
        let mut scratch = Vec::new();
        let mut hashes: Vec<(u32, u32)> = (0..)
            .zip(0..table.ids.len())
            .map(|(ordinal, at)| (hash_tags(tags_of(table, at), &mut scratch), ordinal))
            .collect();
        hashes.sort_unstable();
        let (mut blocks, mut first_hashes) = (self.start(), Vec::new());
        let mut block = Vec::new();
        for hashes in hashes.chunks(SERIES_OF_ONE_BLOCK) {
            block.clear();
            put_u32s(hashes.iter().map(|(hash, _)| *hash), &mut block);
            put_u32s(hashes.iter().map(|(_, ordinal)| *ordinal), &mut block);
            first_hashes.extend(hashes.first().map(|(hash, _)| *hash));
            self.put(&block, &mut blocks)?;
        }
        Ok((blocks, first_hashes))
    }

    /// The codes of a tag, the lists of its values, then its dictionary.
    fn write_tag(&mut self, tag: &TagSeries) -> Result<TagMeta, Error> {
        let codes = self.write_numbers(&tag.codes)?;
        let ordinals = Lists::of(tag);
        let mut meta = TagMeta {
            tag: tag.tag,
            codes,
            dictionary: Blocks::default(),
            value_ends: Vec::new(),
            firsts: Vec::new(),
            lists: self.start(),
            absent: 0,
            absent_bytes: 0,
        };
        let mut dictionary = Vec::new();
        let mut start = 0;
        while start < tag.values.len() {
            let end = block_end(&tag.values, start);
            let before = self.position();
            let mut places = Vec::new();
            for at in start..end {
                places.push(self.write_list(ordinals.get(at + 1))?);
            }
            let bytes = u32::try_from(self.position() - before)
                .map_err(|_| Malformed::new("lists of 4 GiB").at(&self.path, before))?;
            meta.lists.push(bytes);
            let mut block = Vec::new();
            let values = (start..end).filter_map(|at| tag.values.get(at));
            encode_dictionary(values, &places, &mut block);
            dictionary.push(block);
            meta.value_ends.push(u32::try_from(end).unwrap_or(u32::MAX));
            meta.firsts.extend(tag.values.get(start).map(str::to_owned));
            start = end;
        }
        let absent = ordinals.get(0);
        if !absent.is_empty()
            && let Place::List { series, bytes, .. } = self.put_list(absent)?
        {
            (meta.absent, meta.absent_bytes) = (series, bytes);
        }
        let mut blocks = self.start();
        for block in &dictionary {
            self.put(block, &mut blocks)?;
        }
        meta.dictionary = blocks;
        Ok(meta)
    }

    fn write_list(&mut self, ordinals: &[u32]) -> Result<Place, Error> {
        match ordinals {
            [] => Err(Malformed::new("a value that no series has").at(&self.path, self.position())),
            [one] => Ok(Place::One(*one)),
            several => self.put_list(several),
        }
    }

    fn put_list(&mut self, ordinals: &[u32]) -> Result<Place, Error> {
        let mut block = Vec::new();
        put_u32s(ordinals.iter().copied(), &mut block);
        let mut place = self.start();
        self.put(&block, &mut place)?;
        let bytes = place.place(0).map_or(0, |(_, length)| length);
        Ok(Place::List {
            series: u32::try_from(ordinals.len()).unwrap_or(u32::MAX),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            at: 0,
        })
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

/// The tags of an ordinal, by tag id.
fn tags_of(table: &TableSeries, ordinal: usize) -> impl Iterator<Item = (ColumnId, &str)> {
    table.tags.iter().filter_map(move |tag| {
        let code = *tag.codes.get(ordinal)? as usize;
        Some((tag.tag, tag.values.get(code.checked_sub(1)?)?))
    })
}
