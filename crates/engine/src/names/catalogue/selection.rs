//! Series of a generation that match a predicate: dictionaries give the codes that qualify, postings the series that
//! have them.
//!
//! Does: select series by predicates, count them, list the values that they have. Does not: look at rows; a series
//! whose rows are all gone is selected like any other.
//!
//! While many series are left, a predicate costs a pass over the values of its tag and a union of sets; once few are
//! left, their codes are looked at one by one and the other series cost nothing.

use roaring::RoaringBitmap;

use super::dictionary::TagDictionary;
use super::series::{Generation, Table, Tag};
use crate::predicate::TagMatch;
use crate::schema::{ColumnId, TableId};

/// Up to so many series are looked at one by one.
pub(crate) const FEW: u64 = 1024;

/// Some series of a table.
#[derive(Debug)]
pub(crate) enum Selection {
    All,
    /// By ordinal.
    Some(RoaringBitmap),
}

/// One condition: a tag, what it is compared with, and whether the series that match are left out.
pub(crate) type Condition<'a> = (ColumnId, &'a TagMatch, bool);

/// What is likely to leave few series comes first.
pub(crate) fn in_order<'a, 'b>(conditions: &'a [Condition<'b>]) -> Vec<&'a Condition<'b>> {
    let mut ordered: Vec<&Condition<'_>> = conditions.iter().collect();
    ordered.sort_by_key(|(_, matches, negated)| match matches {
        TagMatch::OneOf(values) if !negated => (0, values.len()),
        _ if !negated => (1, 0),
        _ => (2, 0),
    });
    ordered
}

impl Generation {
    /// The series of a table that meet every condition.
    pub(super) fn select(&self, table: TableId, conditions: &[Condition<'_>]) -> Selection {
        let Some(known) = self.table(table) else {
            return Selection::Some(RoaringBitmap::new());
        };
        let mut selected = Selection::All;
        for condition in in_order(conditions) {
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
        let dictionary = self.dictionary(*tag);
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
        let Some(dictionary) = self.dictionary(tag) else {
            return RoaringBitmap::new();
        };
        let codes: Vec<u32> = match matches {
            TagMatch::OneOf(values) => {
                let present = values.iter().flatten();
                present
                    .filter_map(|value| dictionary.code(self.text_hash(), value))
                    .collect()
            }
            matches => (0..)
                .zip(dictionary.values())
                .filter(|(_, value)| matches.is_match(Some(value)))
                .map(|(code, _)| code)
                .collect(),
        };
        let ordinals = table.ordinal_count();
        {
            let postings = known.postings().read();
            if postings.is_current(ordinals) {
                return postings.union(&codes, matches.is_match(None));
            }
        }
        let mut postings = known.postings().write();
        postings.catch_up(&known.codes, ordinals);
        postings.union(&codes, matches.is_match(None))
    }

    /// Number of selected series.
    pub(super) fn count_selected(&self, table: TableId, selected: &Selection) -> u64 {
        match selected {
            Selection::All => self.all_series(table).len() as u64,
            Selection::Some(ordinals) => ordinals.len(),
        }
    }

    /// Appends the ids of the selected series, ascending.
    pub(super) fn ids_of(&self, table: TableId, selected: &Selection, out: &mut Vec<u32>) {
        let all = self.all_series(table);
        match selected {
            Selection::All => out.extend_from_slice(all),
            Selection::Some(ordinals) => out.extend(
                ordinals
                    .iter()
                    .filter_map(|ordinal| all.get(ordinal as usize).copied()),
            ),
        }
    }

    /// Values of a tag that start with `prefix`, sorted, the first `limit` of them.
    pub(super) fn values(&self, tag: ColumnId, prefix: &str, limit: usize) -> Vec<&str> {
        // A value is defined with the first series that has it.
        let dictionary = self.dictionary(tag).into_iter();
        let values = dictionary.flat_map(TagDictionary::values);
        let mut values: Vec<&str> = values.filter(|value| value.starts_with(prefix)).collect();
        if limit < values.len() {
            values.select_nth_unstable(limit);
            values.truncate(limit);
        }
        values.sort_unstable();
        values
    }
}
