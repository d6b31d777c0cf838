//! Salvage of the readable blocks of a damaged index file.
//!
//! Most of a file is said twice: ids and the dictionaries of tags with few values stand there two times, hashes follow
//! from tags and values, and the codes of series say the same as the lists of values. So a series is lost only if its own
//! id or one of its values is nowhere to be read.
//!
//! Does: read a table and leave out what cannot be known. Does not: guess, or write the file again (`engine/repair/salvage_index.rs`
//! has it done). Holds one table in memory.

use roaring::RoaringBitmap;

use super::block::{Dictionary, PostingPlace};
use super::footer::{TableMeta, TagMeta};
use super::reader::series_of;
use super::series::{TableSeries, TagSeries};
use super::{Index, Texts};
use crate::error::Error;
use crate::schema::TableId;

/// The series of a table that are known in full.
#[derive(Debug)]
pub(crate) struct Salvaged {
    pub(crate) series: TableSeries,
    /// How many are not.
    pub(crate) lost: u32,
}

/// A tag as far as it reads.
struct TagLeft {
    /// By ordinal: the code, from 1, 0 = absent; `None` = unknown.
    codes: Vec<Option<u32>>,
    /// By dictionary block.
    dictionaries: Vec<Option<Dictionary>>,
}

/// What was read, `None` if it is damaged. A disk that does not answer is an error still.
fn intact<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Index {
    /// Everything of a table that is certain.
    pub(crate) fn salvage(&self, table: TableId) -> Result<Option<Salvaged>, Error> {
        self.salvage_without(table, &RoaringBitmap::new())
    }

    /// The same without some series, which do not count as lost.
    pub(crate) fn salvage_without(
        &self,
        table: TableId,
        without: &RoaringBitmap,
    ) -> Result<Option<Salvaged>, Error> {
        let Some(meta) = self.table(table) else {
            return Ok(None);
        };
        let ids = self.ids_left(meta)?;
        let mut tags = Vec::new();
        for tag in &meta.tags {
            tags.push(self.tag_left(meta, tag)?);
        }
        let is_known = |ordinal: usize| {
            let mut tags = meta.tags.iter().zip(&tags);
            ids.get(ordinal).is_some_and(Option::is_some)
                && tags.all(|(tag, left)| left.knows(tag, ordinal))
        };
        let known: Vec<usize> = (0..ids.len()).filter(|&at| is_known(at)).collect();
        let lost = ids.len() - known.len();
        let is_left = |at: &usize| {
            let id = ids.get(*at).copied().flatten();
            id.is_some_and(|id| !without.contains(id))
        };
        let known: Vec<usize> = known.into_iter().filter(is_left).collect();
        let kept = known
            .iter()
            .filter_map(|&at| ids.get(at).copied().flatten());
        let series = TableSeries {
            table,
            ids: kept.collect(),
            tags: meta
                .tags
                .iter()
                .zip(&tags)
                .map(|(tag, left)| left.of(tag, &known))
                .collect(),
        };
        Ok(Some(Salvaged {
            series,
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
        }))
    }

    fn ids_left(&self, table: &TableMeta) -> Result<Vec<Option<u32>>, Error> {
        let mut all = Vec::new();
        for block in 0..table.first_ids.len() {
            let n = series_of(table, block);
            if let Some(ids) = intact(self.read_ids(table, block))? {
                all.extend(ids.into_iter().map(Some));
                continue;
            }
            let first = table.first_ids.get(block).copied().unwrap_or(0);
            let next = table.first_ids.get(block + 1).copied();
            let next = next.unwrap_or(table.last_id.saturating_add(1));
            // So many different ids from the first to below the next can only be all of them.
            let is_dense = next.checked_sub(first).is_some_and(|ids| ids as usize == n);
            if is_dense {
                all.extend((first..next).map(Some));
            } else {
                all.resize(all.len() + n, None);
            }
        }
        Ok(all)
    }

    fn tag_left(&self, table: &TableMeta, tag: &TagMeta) -> Result<TagLeft, Error> {
        let mut dictionaries = Vec::new();
        for block in 0..tag.dictionary_blocks() {
            dictionaries.push(intact(self.read_dictionary(tag, block))?);
        }
        let mut codes = Vec::new();
        let mut is_whole = true;
        for block in 0..table.first_ids.len() {
            if let Some(read) = intact(self.read_codes(table, tag, block))? {
                codes.extend(read.into_iter().map(Some));
                continue;
            }
            is_whole = false;
            codes.resize(codes.len() + series_of(table, block), None);
        }
        let mut left = TagLeft {
            codes,
            dictionaries,
        };
        if !is_whole {
            self.codes_from_lists(table, tag, &mut left)?;
        }
        Ok(left)
    }

    /// Fills in codes from the values' sides.
    fn codes_from_lists(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        left: &mut TagLeft,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        for (block, dictionary) in left.dictionaries.iter().enumerate() {
            let start = tag.lists_at(block).unwrap_or(0);
            let (_, before) = tag.values_of(block);
            let places = dictionary.iter().flat_map(|it| &it.places);
            for (code, place) in (before.saturating_add(1)..).zip(places) {
                match *place {
                    PostingPlace::One(ordinal) => found.push((ordinal, code)),
                    PostingPlace::List { series, bytes, at } => {
                        let list = self.read_list(table, start.saturating_add(at), series, bytes);
                        let list = intact(list)?;
                        found.extend(list.iter().flatten().map(|ordinal| (ordinal, code)));
                    }
                }
            }
        }
        if tag.absent > 0 {
            let list = self.read_list(table, tag.absent_at(), tag.absent, tag.absent_bytes);
            let list = intact(list)?;
            found.extend(list.iter().flatten().map(|ordinal| (ordinal, 0)));
        }
        for (ordinal, code) in found {
            if let Some(unknown @ None) = left.codes.get_mut(ordinal as usize) {
                *unknown = Some(code);
            }
        }
        Ok(())
    }
}

impl TagLeft {
    fn value<'a>(&'a self, tag: &'a TagMeta, code: u32) -> Option<&'a str> {
        let (block, at) = tag.place_of(code.checked_sub(1)?);
        match self.dictionaries.get(block)? {
            Some(dictionary) => dictionary.values.get(at),
            // The footer has the first value of each block.
            None if at == 0 => tag.firsts.get(block).map(String::as_str),
            None => None,
        }
    }

    /// Whether it is known what an ordinal has of the tag.
    fn knows(&self, tag: &TagMeta, ordinal: usize) -> bool {
        match self.codes.get(ordinal) {
            Some(Some(0)) => true,
            Some(Some(code)) => self.value(tag, *code).is_some(),
            _ => false,
        }
    }

    /// The tag of some ordinals, all of which are known.
    fn of(&self, tag: &TagMeta, known: &[usize]) -> TagSeries {
        let code = |&ordinal: &usize| self.codes.get(ordinal).copied().flatten().unwrap_or(0);
        let mut used: Vec<u32> = known.iter().map(code).filter(|&code| code > 0).collect();
        used.sort_unstable();
        used.dedup();
        let values: Texts = used
            .iter()
            .filter_map(|&code| self.value(tag, code))
            .collect();
        let renamed = |old: u32| match old {
            0 => 0,
            old => used
                .binary_search(&old)
                .map_or(0, |at| u32::try_from(at + 1).unwrap_or(0)),
        };
        TagSeries {
            tag: tag.tag,
            values,
            codes: known.iter().map(|at| renamed(code(at))).collect(),
        }
    }
}
