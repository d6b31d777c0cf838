//! The values of one tag, in the order of their codes.
//!
//! Does: give a value its code and a code its value, at about thirty bytes a value beside its text. Does not: say which
//! series have a value.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, StringArray};

use super::id_table::IdTable;
use crate::error::Malformed;
use crate::text_hash::TextHash;

/// Values whose ends are counted from the same place: so many of the longest ones (64 KiB) fit 32 bits.
const VALUES_OF_ONE_BASE: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct TagDictionary {
    /// All values, one after the other.
    text: String,
    /// By code: where the value ends, counted from its base.
    ends: Vec<u32>,
    bases: Vec<usize>,
    codes: IdTable,
    arrow: Mutex<Option<Arc<StringArray>>>,
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
        self.codes
            .find(hash, |code| self.value(code) == Some(value))
    }

    /// The code of a value and whether it is new.
    pub(crate) fn insert(
        &mut self,
        hash: &TextHash,
        value: &str,
    ) -> Result<(u32, bool), Malformed> {
        let hash = hash.short(value.as_bytes());
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
        self.codes.insert(hash, code);
        Ok((code, true))
    }

    /// All values, by code.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|code| self.value(u32::try_from(code).ok()?))
    }

    /// The values as Arrow shows them; built again only after a value appeared.
    pub(crate) fn arrow(&self) -> Arc<StringArray> {
        let mut cached = self.arrow.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = cached.as_ref()
            && array.len() == self.len()
        {
            return Arc::clone(array);
        }
        let array = Arc::new(StringArray::from_iter_values(self.values()));
        *cached = Some(Arc::clone(&array));
        array
    }

    /// Memory in use, without what Arrow shows.
    pub(crate) fn bytes(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.bases.capacity() * size_of::<usize>()
            + self.codes.bytes()
    }
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
        assert_eq!(dictionary.arrow().value(9_999), value(9_999));
    }
}
