//! Checking all of an index file.
//!
//! Does: read every block, both copies of what is there twice, and find each in order; as far as a bound lets it, and on
//! from where it stopped. Does not: compare blocks of different kinds, or touch the cache.

use std::cmp::Ordering;

use nilometer_codec::crc32c;

use super::Index;
use super::footer::{TableMeta, TagMeta};
use super::layout::{HEADER_BYTES, KIND, TAIL_BYTES};
use super::reader::decode_tail;
use crate::error::Error;
use crate::file_header;
use crate::segment::PartRead;

/// How far an index file was read: a table by its position, and the part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexPlace {
    pub(crate) table: u64,
    pub(crate) part: u64,
}

/// What of a table is read at once.
enum IndexPart<'a> {
    /// Everything of a block of series.
    Series(usize),
    /// A dictionary block of a tag with its lists.
    Values(&'a TagMeta, usize),
    /// The list of the series without a tag.
    Absent(&'a TagMeta),
}

impl<'a> IndexPart<'a> {
    fn at(table: &'a TableMeta, part: u64) -> Option<Self> {
        let mut at = usize::try_from(part).ok()?;
        if at < table.first_ids.len() {
            return Some(Self::Series(at));
        }
        at -= table.first_ids.len();
        for tag in &table.tags {
            let blocks = tag.dictionary_blocks();
            match at.cmp(&blocks) {
                Ordering::Less => return Some(Self::Values(tag, at)),
                Ordering::Equal => return Some(Self::Absent(tag)),
                Ordering::Greater => at -= blocks + 1,
            }
        }
        None
    }

    /// Bytes that reading it takes, about.
    fn bytes(&self, table: &TableMeta) -> u64 {
        let length = |place: Option<(u64, u64)>| place.map_or(0, |(_, length)| length);
        match self {
            Self::Series(block) => {
                let codes = table.tags.iter().map(|tag| length(tag.codes.place(*block)));
                2 * length(table.ids.place(*block))
                    + length(table.hashes.place(*block))
                    + codes.sum::<u64>()
            }
            Self::Values(tag, block) => {
                let (dictionary, lists) = (tag.dictionary(*block), tag.lists_at(*block));
                let start = dictionary.zip(lists);
                let lists = start.map_or(0, |((at, _), lists)| at.saturating_sub(lists));
                2 * length(dictionary) + lists
            }
            Self::Absent(tag) => u64::from(tag.absent_bytes),
        }
    }
}

impl Index {
    /// Reads every block, and what stands there twice both times.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.verify_some(&mut IndexPlace::default(), u64::MAX)
            .map(drop)
    }

    /// Reads on from a place, about so many bytes, and no further than the first damage, which is remembered.
    pub(crate) fn verify_some(
        &self,
        place: &mut IndexPlace,
        bytes_max: u64,
    ) -> Result<PartRead, Error> {
        let mut read = PartRead::default();
        if *place == IndexPlace::default() {
            self.verify_ends()?;
            read.bytes += self.file_bytes() - self.footer_at();
        }
        while read.bytes < bytes_max {
            let at = usize::try_from(place.table).unwrap_or(usize::MAX);
            let Some(table) = self.footer.tables.get(at) else {
                read.is_end = true;
                break;
            };
            let Some(part) = IndexPart::at(table, place.part) else {
                *place = IndexPlace {
                    table: place.table + 1,
                    part: 0,
                };
                continue;
            };
            place.part += 1;
            read.bytes += part.bytes(table);
            self.verify_part(table, &part)?;
        }
        match self.damage() {
            Some((offset, reason)) => Err(Error::corrupt(self.path(), offset, reason)),
            None => Ok(read),
        }
    }

    fn verify_part(&self, table: &TableMeta, part: &IndexPart<'_>) -> Result<(), Error> {
        match part {
            IndexPart::Series(block) => {
                let first = table.ids.place(*block);
                let copy = table.ids_copy(*block).or(first);
                self.same(first, copy, table.ids.offset())?;
                self.read_ids(table, *block)?;
                self.read_hashes(table, *block)?;
                for tag in &table.tags {
                    self.read_codes(table, tag, *block)?;
                }
                Ok(())
            }
            IndexPart::Values(tag, block) => {
                let first = tag.dictionary(*block);
                let copy = tag.dictionary_copy(*block).or(first);
                self.same(first, copy, tag.absent_at())?;
                self.verify_lists(table, tag, *block)
            }
            IndexPart::Absent(tag) if tag.absent > 0 => self
                .read_list(table, tag.absent_at(), tag.absent, tag.absent_bytes)
                .map(drop),
            IndexPart::Absent(_) => Ok(()),
        }
    }

    /// The header, both tails and both footers.
    fn verify_ends(&self) -> Result<(), Error> {
        let mut header = [0; HEADER_BYTES];
        self.read_at(&mut header, 0)?;
        let header = file_header::decode::<8>(&header, KIND, self.path());
        if header.map_err(|error| self.noted(error))?.own != self.file_id().to_le_bytes() {
            return Err(self.corrupt(0, "the header is that of another file"));
        }
        if self.is_old() {
            // What there is of them was read to open it.
            return Ok(());
        }
        let mut tails = Vec::new();
        for at in [HEADER_BYTES as u64, self.file_bytes() - TAIL_BYTES as u64] {
            let mut tail = [0; TAIL_BYTES];
            self.read_at(&mut tail, at)?;
            let tail = decode_tail(&tail, self.file_id());
            tails.push(tail.map_err(|what| self.noted(what.at(self.path(), at)))?);
        }
        let [copy, tail] = tails.as_slice() else {
            return Ok(());
        };
        if copy != tail {
            return Err(self.corrupt(HEADER_BYTES as u64, "the tails contradict each other"));
        }
        for at in [tail.offset, tail.offset.saturating_add(tail.length)] {
            let mut footer = vec![0; usize::try_from(tail.length).unwrap_or(usize::MAX)];
            self.read_at(&mut footer, at)?;
            if crc32c(0, &footer) != tail.crc {
                return Err(self.corrupt(at, "the footer fails its checksum"));
            }
        }
        Ok(())
    }

    /// Whether a block and its copy are the same.
    fn same(
        &self,
        first: Option<(u64, u64)>,
        copy: Option<(u64, u64)>,
        kind: u64,
    ) -> Result<(), Error> {
        let (Some(first), Some(copy)) = (first, copy) else {
            return Err(self.corrupt(kind, "no such block"));
        };
        if self.fetch(first.0, first.1)? != self.fetch(copy.0, copy.1)? {
            return Err(self.corrupt(copy.0, "a block and its copy differ"));
        }
        Ok(())
    }
}
