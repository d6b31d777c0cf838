//! The values of one tag, in the order of their codes.
//!
//! Does: give a value its code and a code its value, at about thirty bytes a value beside its text. Does not: say which
//! series have a value.

use super::id_table::IdTable;
use crate::error::Malformed;
use crate::index::Texts;
use crate::text_hash::TextHash;

/// Values whose ends are counted from the same place: so many of the longest ones (64 KiB) fit 32 bits.
const VALUES_OF_ONE_BASE: usize = 4096;
/// So few values are looked through as fast as they are looked up, and a table may have thousands of tags with one value.
const SCANNED_VALUES_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct TagDictionary {
    /// All values, one after the other.
    text: String,
    /// By code: where the value ends, counted from its base.
    ends: Vec<u32>,
    bases: Vec<usize>,
    /// Empty while there are at most [`SCANNED_VALUES_MAX`] values.
    codes: IdTable,
    /// By code: the last log record that lists the value, and its code there.
    listed: Vec<(u32, u32)>,
    /// The last log record that lists a value, and how many it does.
    last_list: (u32, u32),
}

impl TagDictionary {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value of a code.
    #[inline]
    pub(crate) fn value(&self, code: u32) -> Option<&str> {
        let end = self.end(code as usize)?;
        let start = match code {
            0 => 0,
            _ => self.end(code as usize - 1)?,
        };
        self.text.get(start..end)
    }

    fn end(&self, at: usize) -> Option<usize> {
        let base = *self.bases.get(at / VALUES_OF_ONE_BASE)?;
        Some(base + *self.ends.get(at)? as usize)
    }

    /// The code of a value.
    #[inline]
    pub(crate) fn code(&self, hash: &TextHash, value: &str) -> Option<u32> {
        self.find(hash.short(value.as_bytes()), value)
    }

    fn find(&self, hash: u64, value: &str) -> Option<u32> {
        if self.ends.len() <= SCANNED_VALUES_MAX {
            let mut codes = 0..u32::try_from(self.ends.len()).unwrap_or(0);
            return codes.find(|&code| self.value(code) == Some(value));
        }
        self.codes
            .find(hash, |code| self.value(code) == Some(value))
    }

    /// The code of a value and whether it is new.
    pub(crate) fn insert(&mut self, of: &TextHash, value: &str) -> Result<(u32, bool), Malformed> {
        let hash = of.short(value.as_bytes());
        if let Some(code) = self.find(hash, value) {
            return Ok((code, false));
        }
        let code = u32::try_from(self.ends.len())
            .ok()
            .filter(|&code| code < u32::MAX)
            .ok_or_else(|| Malformed::new("more than 2^32 - 1 values of a tag"))?;
        if self.ends.len().is_multiple_of(VALUES_OF_ONE_BASE) {
            self.bases.push(self.text.len());
        }
        let base = self.bases.last().copied().unwrap_or(0);
        let end = u32::try_from(self.text.len() + value.len() - base)
            .map_err(|_| Malformed::new("tag values of a megabyte each"))?;
        self.text.push_str(value);
        self.ends.push(end);
        match self.ends.len() {
            0..=SCANNED_VALUES_MAX => {}
            n if n == SCANNED_VALUES_MAX + 1 => self.index(of),
            _ => self.codes.insert(hash, code),
        }
        Ok((code, true))
    }

    /// Makes all values ones that are looked up.
    #[cold]
    fn index(&mut self, of: &TextHash) {
        let mut codes = IdTable::default();
        for (code, value) in (0..).zip(self.values()) {
            codes.insert(of.short(value.as_bytes()), code);
        }
        self.codes = codes;
    }

    /// All values, by code.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|code| self.value(u32::try_from(code).ok()?))
    }

    /// The code that a value has in a log record, and whether the record does not list it yet. Records are numbered from
    /// 1; their own codes count from 0 in the order of their lists.
    pub(super) fn list(&mut self, code: u32, record: u32) -> (u32, bool) {
        let at = code as usize;
        if at >= self.listed.len() {
            self.listed.resize(at + 1, (0, 0));
        }
        if self.last_list.0 != record {
            self.last_list = (record, 0);
        }
        match self.listed.get_mut(at) {
            Some((known, own)) if *known != record => {
                (*known, *own) = self.last_list;
                self.last_list.1 += 1;
                (*own, true)
            }
            Some((_, own)) => (*own, false),
            None => (0, true),
        }
    }

    /// The values in byte order, and by code the position of each among them, counted from 1.
    pub(super) fn ranked(&self) -> (Texts, Vec<u32>) {
        // Most comparisons end within the first bytes, which a number holds.
        let mut order: Vec<(u64, u32)> = (0..)
            .zip(self.values())
            .map(|(code, value)| (first_bytes(value), code))
            .collect();
        order.sort_unstable_by(|a, b| {
            let rest = || self.value(a.1).cmp(&self.value(b.1));
            a.0.cmp(&b.0).then_with(rest)
        });
        let mut ranks = vec![0; order.len()];
        for (rank, (_, code)) in (1..).zip(&order) {
            if let Some(slot) = ranks.get_mut(*code as usize) {
                *slot = rank;
            }
        }
        let values = order.iter().filter_map(|(_, code)| self.value(*code));
        (values.collect(), ranks)
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<(crate::schema::ColumnId, Self)>()
            + self.text.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.bases.capacity() * size_of::<usize>()
            + self.codes.bytes()
            + self.listed.capacity() * size_of::<(u32, u32)>()
    }
}

/// The first eight bytes as a number that orders as they do.
fn first_bytes(value: &str) -> u64 {
    let bytes = value.bytes().chain(std::iter::repeat(0)).take(8);
    bytes.fold(0, |number, byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_codes_in_their_order_and_keep_them() {
        let hash = TextHash::default();
        let mut dictionary = TagDictionary::default();
        let value = |n: u32| format!("{}{n}", "x".repeat(n as usize % 7));
        for n in 0..10_000 {
            assert_eq!(dictionary.insert(&hash, &value(n)), Ok((n, true)));
        }
        for n in 0..10_000 {
            assert_eq!(dictionary.insert(&hash, &value(n)), Ok((n, false)));
            assert_eq!(dictionary.code(&hash, &value(n)), Some(n));
            assert_eq!(dictionary.value(n), Some(value(n).as_str()));
        }
        assert_eq!(dictionary.code(&hash, "none"), None);
        assert_eq!(dictionary.value(10_000), None);
        let mut expected: Vec<String> = (0..10_000).map(value).collect();
        expected.sort();
        let (values, ranks) = dictionary.ranked();
        assert!(values.iter().eq(expected.iter().map(String::as_str)));
        for n in 0..10_000 {
            let rank = ranks[n as usize] as usize;
            assert_eq!(values.get(rank - 1), Some(value(n).as_str()));
        }
    }

    #[test]
    fn a_log_record_lists_a_value_once_and_counts_its_own() {
        let mut dictionary = TagDictionary::default();
        let listed = [(7, 1), (3, 1), (7, 1), (3, 2), (8, 2), (3, 2), (7, 3)];
        let expected = [
            (0, true),
            (1, true),
            (0, false),
            (0, true),
            (1, true),
            (0, false),
            (0, true),
        ];
        for ((code, record), expected) in listed.into_iter().zip(expected) {
            assert_eq!(dictionary.list(code, record), expected, "{code} {record}");
        }
    }
}
