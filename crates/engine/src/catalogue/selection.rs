//! Which series match, by sets: dictionaries say which codes qualify, postings which series have them.
//!
//! Does: select series by predicates, count them, list the values that they have. Does not: look at rows; a series
//! whose rows are all gone is selected like any other.
//!
//! While many series are left, a predicate costs a pass over the values of its tag and a union of sets; once few are
//! left, their codes are looked at one by one and the other series cost nothing.

use std::sync::PoisonError;

use roaring::RoaringBitmap;

use super::Catalogue;
use super::series::{Table, Tag};
use crate::predicate::TagMatch;
use crate::schema::{ColumnId, SeriesId, TableId};

/// Up to so many series are looked at one by one.
const FEW: u64 = 1024;

/// Some series of a table.
#[derive(Debug)]
pub(crate) enum Selection {
    All,
    /// By ordinal.
    Some(RoaringBitmap),
}

/// One condition: a tag, what it is compared with, and whether the series that match are left out.
pub(crate) type Condition<'a> = (ColumnId, &'a TagMatch, bool);

impl Catalogue {
    /// The series of a table that meet every condition.
    pub(crate) fn select(&self, table: TableId, conditions: &[Condition<'_>]) -> Selection {
        let Some(known) = self.by_table.get(&table) else {
            return Selection::Some(RoaringBitmap::new());
        };
        let mut ordered: Vec<&Condition<'_>> = conditions.iter().collect();
        // What is likely to leave few series comes first.
        ordered.sort_by_key(|(_, matches, negated)| match matches {
            TagMatch::OneOf(values) if !negated => (0, values.len()),
            TagMatch::Pattern(_) if !negated => (1, 0),
            _ => (2, 0),
        });
        let mut selected = Selection::All;
        for condition in ordered {
            selected = match selected {
                Selection::Some(few) if few.len() <= FEW => {
                    Selection::Some(self.sieve(known, few, condition))
                }
                selected => Selection::Some(self.narrow(known, selected, condition)),
            };
        }
        selected
    }

    /// Tests series one by one.
    fn sieve(&self, table: &Table, few: RoaringBitmap, condition: &Condition<'_>) -> RoaringBitmap {
        let (tag, matches, negated) = condition;
        let codes = table.tag(*tag).map(|tag| &tag.codes);
        let dictionary = self.tag_dictionary(*tag);
        few.into_iter()
            .filter(|&ordinal| {
                let code = codes.and_then(|codes| codes.get(ordinal as usize));
                let value = code.and_then(|code| dictionary?.value(code));
                matches.is_match(value) != *negated
            })
            .collect()
    }

    /// Takes a set away or intersects with it.
    fn narrow(
        &self,
        table: &Table,
        selected: Selection,
        condition: &Condition<'_>,
    ) -> RoaringBitmap {
        let (tag, matches, negated) = condition;
        let matching = match table.tag(*tag) {
            Some(known) => self.matching(table, *tag, known, matches),
            // A tag that no series has.
            None if matches.is_match(None) => table.ordinals(),
            None => RoaringBitmap::new(),
        };
        match (selected, negated) {
            (Selection::All, false) => matching,
            (Selection::All, true) => table.ordinals() - matching,
            (Selection::Some(selected), false) => selected & matching,
            (Selection::Some(selected), true) => selected - matching,
        }
    }

    /// The series whose tag matches.
    fn matching(
        &self,
        table: &Table,
        tag: ColumnId,
        known: &Tag,
        matches: &TagMatch,
    ) -> RoaringBitmap {
        let Some(dictionary) = self.tag_dictionary(tag) else {
            return RoaringBitmap::new();
        };
        let codes: Vec<u32> = match matches {
            TagMatch::OneOf(values) => {
                let present = values.iter().flatten();
                present
                    .filter_map(|value| dictionary.code(&self.text_hash, value))
                    .collect()
            }
            TagMatch::Pattern(pattern) => (0..)
                .zip(dictionary.values())
                .filter(|(_, value)| pattern.is_match(value))
                .map(|(code, _)| code)
                .collect(),
        };
        let ordinals = table.ordinal_count();
        {
            let postings = known
                .postings
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if postings.is_current(ordinals) {
                return postings.union(&codes, matches.is_match(None));
            }
        }
        let mut postings = known
            .postings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        postings.catch_up(&known.codes, ordinals);
        postings.union(&codes, matches.is_match(None))
    }

    /// Number of selected series.
    pub(crate) fn count_selected(&self, table: TableId, selected: &Selection) -> u64 {
        match selected {
            Selection::All => self.all_series(table).len() as u64,
            Selection::Some(ordinals) => ordinals.len(),
        }
    }

    /// Ids of the selected series, ascending.
    pub(crate) fn ids_of(&self, table: TableId, selected: &Selection) -> Vec<u32> {
        let all = self.all_series(table);
        match selected {
            Selection::All => all.to_vec(),
            Selection::Some(ordinals) => ordinals
                .iter()
                .filter_map(|ordinal| all.get(ordinal as usize).copied())
                .collect(),
        }
    }

    /// Values of a tag that the selected series have, those that start with `prefix`, sorted, the first `limit` of them.
    pub(crate) fn values_of(
        &self,
        table: TableId,
        tag: ColumnId,
        selected: &Selection,
        prefix: &str,
        limit: usize,
    ) -> Vec<String> {
        let known = self.by_table.get(&table).and_then(|table| table.tag(tag));
        let (Some(known), Some(dictionary)) = (known, self.tag_dictionary(tag)) else {
            return Vec::new();
        };
        let mut values: Vec<&str> = match selected {
            // A value is defined with the first series that has it.
            Selection::All => dictionary.values().collect(),
            Selection::Some(ordinals) => {
                let codes: RoaringBitmap = ordinals
                    .iter()
                    .filter_map(|ordinal| known.codes.get(ordinal as usize))
                    .collect();
                let values = codes.into_iter().filter_map(|code| dictionary.value(code));
                values.collect()
            }
        };
        values.retain(|value| value.starts_with(prefix));
        if limit < values.len() {
            values.select_nth_unstable(limit);
            values.truncate(limit);
        }
        values.sort_unstable();
        values.into_iter().map(str::to_owned).collect()
    }

    /// The tags of a series: value by tag, in the order of `tags`; `None` = it has no such tag.
    pub(crate) fn tags_of(
        &self,
        table: TableId,
        tags: &[ColumnId],
        series: SeriesId,
    ) -> Vec<Option<String>> {
        let known = self.by_table.get(&table);
        let ordinal = known.and_then(|table| table.ordinal(series));
        tags.iter()
            .map(|&tag| {
                let code = known?.tag(tag)?.codes.get(ordinal?)?;
                self.tag_dictionary(tag)?.value(code).map(str::to_owned)
            })
            .collect()
    }
}
