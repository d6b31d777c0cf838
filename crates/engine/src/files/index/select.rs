//! Selection in an index file: matching series by ordinals, and the values of a tag.
//!
//! Conditions that likely leave few series come first; once few are left, their tags are looked at one by one.

use roaring::RoaringBitmap;

use super::Index;
use super::block::{Dictionary, PostingPlace};
use super::footer::{TableMeta, TagMeta};
use super::reader::tag_of;
use crate::catalogue::{Condition, FEW, in_order};
use crate::error::Error;
use crate::predicate::TagMatch;
use crate::schema::{ColumnId, TableId};

impl Index {
    /// Ordinals of the series that meet every condition.
    pub(crate) fn select(
        &self,
        table: TableId,
        conditions: &[Condition<'_>],
    ) -> Result<RoaringBitmap, Error> {
        let Some(table) = self.table(table) else {
            return Ok(RoaringBitmap::new());
        };
        // None = all of them.
        let mut selected: Option<RoaringBitmap> = None;
        for (tag, matches, negated) in in_order(conditions) {
            let tag = tag_of(table, *tag);
            selected = Some(match selected {
                Some(few) if few.len() <= FEW => self.sieve(table, tag, matches, *negated, &few)?,
                selected => {
                    let matching = self.matching(table, tag, matches)?;
                    match (selected, negated) {
                        (None, false) => matching,
                        (None, true) => all(table) - matching,
                        (Some(selected), false) => selected & matching,
                        (Some(selected), true) => selected - matching,
                    }
                }
            });
        }
        Ok(selected.unwrap_or_else(|| all(table)))
    }

    /// Tests series one by one.
    fn sieve(
        &self,
        table: &TableMeta,
        tag: Option<&TagMeta>,
        matches: &TagMatch,
        negated: bool,
        few: &RoaringBitmap,
    ) -> Result<RoaringBitmap, Error> {
        let mut kept = RoaringBitmap::new();
        for ordinal in few {
            let code = match tag {
                Some(tag) => self.code(table, tag, ordinal)?.map(|code| (tag, code)),
                None => None,
            };
            let is_match = match code {
                None => matches.is_match(None),
                Some((tag, code)) => {
                    let (block, at) = tag.place_of(code);
                    let dictionary = self.dictionary(tag, block)?;
                    let value = dictionary.values.get(at);
                    matches.is_match(Some(value.ok_or_else(|| self.beyond(table))?))
                }
            };
            if is_match != negated {
                kept.insert(ordinal);
            }
        }
        Ok(kept)
    }

    /// The series whose tag matches.
    fn matching(
        &self,
        table: &TableMeta,
        tag: Option<&TagMeta>,
        matches: &TagMatch,
    ) -> Result<RoaringBitmap, Error> {
        let mut found = Found::default();
        let Some(tag) = tag else {
            // A tag that no series has.
            let is_match = matches.is_match(None);
            return Ok(if is_match { all(table) } else { found.set });
        };
        match matches {
            TagMatch::OneOf(values) => {
                for value in values.iter().flatten() {
                    let Some(block) = block_of(tag, value) else {
                        continue;
                    };
                    let dictionary = self.dictionary(tag, block)?;
                    if let Some(at) = dictionary.values.search(value) {
                        self.add(table, tag, block, &dictionary, at, &mut found)?;
                    }
                }
            }
            matches => {
                for block in 0..tag.dictionary_blocks() {
                    let dictionary = self.dictionary(tag, block)?;
                    for (at, value) in dictionary.values.iter().enumerate() {
                        if matches.is_match(Some(value)) {
                            self.add(table, tag, block, &dictionary, at, &mut found)?;
                        }
                    }
                }
            }
        }
        if matches.is_match(None) && tag.absent > 0 {
            let list = self.list(table, tag.absent_at(), tag.absent, tag.absent_bytes)?;
            found.set |= list.as_ref();
        }
        // A bitmap is built fastest from ascending numbers.
        found.single.sort_unstable();
        found.set.extend(found.single);
        Ok(found.set)
    }

    /// Adds the series of a value.
    fn add(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        block: usize,
        dictionary: &Dictionary,
        at: usize,
        found: &mut Found,
    ) -> Result<(), Error> {
        match dictionary.places.get(at) {
            Some(&PostingPlace::One(ordinal)) if ordinal < table.series => {
                found.single.push(ordinal);
            }
            Some(&PostingPlace::List { series, bytes, at }) => {
                let start = tag.lists_at(block);
                let offset = start.and_then(|start| start.checked_add(at));
                let offset = offset.ok_or_else(|| self.beyond(table))?;
                found.set |= self.list(table, offset, series, bytes)?.as_ref();
            }
            _ => return Err(self.beyond(table)),
        }
        Ok(())
    }

    /// Calls with the values of a tag that start with `prefix`, in byte order, until it has enough.
    pub(crate) fn values(
        &self,
        table: TableId,
        tag: ColumnId,
        prefix: &str,
        mut call: impl FnMut(&str) -> bool,
    ) -> Result<(), Error> {
        let Some(tag) = self.table(table).and_then(|table| tag_of(table, tag)) else {
            return Ok(());
        };
        for block in block_of(tag, prefix).unwrap_or(0)..tag.dictionary_blocks() {
            let dictionary = self.dictionary(tag, block)?;
            for value in dictionary.values.iter() {
                if value.starts_with(prefix) {
                    if !call(value) {
                        return Ok(());
                    }
                } else if value > prefix {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads every list of a dictionary block's values.
    pub(super) fn verify_lists(
        &self,
        table: &TableMeta,
        tag: &TagMeta,
        block: usize,
    ) -> Result<(), Error> {
        let dictionary = self.read_dictionary(tag, block)?;
        let start = tag.lists_at(block).unwrap_or(0);
        for place in &dictionary.places {
            match *place {
                PostingPlace::One(ordinal) if ordinal < table.series => {}
                PostingPlace::One(_) => return Err(self.beyond(table)),
                PostingPlace::List { series, bytes, at } => {
                    self.read_list(table, start.saturating_add(at), series, bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// Series that were found so far.
#[derive(Default)]
struct Found {
    set: RoaringBitmap,
    single: Vec<u32>,
}

/// All ordinals of a table.
fn all(table: &TableMeta) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..table.series);
    all
}

/// The dictionary block that would hold a value.
fn block_of(tag: &TagMeta, value: &str) -> Option<usize> {
    tag.firsts
        .partition_point(|first| first.as_str() <= value)
        .checked_sub(1)
}
