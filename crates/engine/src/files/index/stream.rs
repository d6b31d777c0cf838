//! Sequential reading of an index file in little memory, for merges.
//!
//! Does: read ahead, give the values of a tag one after the other, of one file or of several at once, and the ordinals of
//! a list one after the other. Does not: touch the cache, which is for those who ask.

use nilometer_codec::{BLOCK_ROWS_MAX, crc32c, decode_i64s};

use super::Index;
use super::block::{Dictionary, PostingPlace};
use super::footer::{TableMeta, TagMeta};
use crate::error::{Error, Malformed};

/// Read at once.
pub(super) const AHEAD_BYTES: usize = 64 << 10;
/// A chunk of integers has at most this many bytes, whatever its encoding: eight for each, and what the encoding says
/// beside them.
const CHUNK_BYTES_MAX: usize = 4 * 8 * BLOCK_ROWS_MAX;

/// The table of one file, as a part of a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) index: &'a Index,
    pub(super) table: &'a TableMeta,
    /// The ordinal that its first series has in the whole.
    pub(super) base: u32,
}

/// Bytes of a file that were read at once.
#[derive(Debug, Default)]
struct Ahead {
    start: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    /// Some bytes, read with those behind them if they are not there already.
    fn get(&mut self, index: &Index, offset: u64, length: usize) -> Result<&[u8], Error> {
        let has = |ahead: &Self| {
            let at = usize::try_from(offset.checked_sub(ahead.start)?).ok()?;
            let end = at.checked_add(length)?;
            (end <= ahead.bytes.len()).then_some(at..end)
        };
        if has(self).is_none() {
            self.start = offset;
            index.read_ahead(offset, length.max(AHEAD_BYTES), &mut self.bytes)?;
        }
        let range = has(self);
        range
            .and_then(|range| self.bytes.get(range))
            .ok_or_else(|| index.corrupt(offset, "a place is outside the file"))
    }
}

/// Where the ordinals of a list are.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListPlace {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) series: u32,
}

/// Reads lists of one file, piece by piece however long they are.
#[derive(Debug, Default)]
pub(super) struct Lists {
    ahead: Ahead,
    rest: Vec<u8>,
    numbers: Vec<i64>,
}

impl Lists {
    /// Calls with the ordinals of a list. Those of a damaged one may come before the error does.
    pub(super) fn each(
        &mut self,
        part: &Part<'_>,
        place: ListPlace,
        mut call: impl FnMut(u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = part.index;
        let damaged = |what: Malformed| index.noted(what.at(index.path(), place.offset));
        let unordered = || damaged(Malformed::new("a list of series is out of order"));
        let (mut at, mut left) = (place.offset, u64::from(place.bytes));
        let (mut crc, mut series, mut next) = (0, place.series as usize, 0);
        self.rest.clear();
        while left > 4 || series > 0 {
            while self.rest.len() < CHUNK_BYTES_MAX && left > 4 {
                let piece = (left - 4).min(CHUNK_BYTES_MAX as u64);
                let piece = usize::try_from(piece).unwrap_or(CHUNK_BYTES_MAX);
                let bytes = self.ahead.get(index, at, piece)?;
                crc = crc32c(crc, bytes);
                self.rest.extend_from_slice(bytes);
                (at, left) = (at + piece as u64, left - piece as u64);
            }
            let n = series.min(BLOCK_ROWS_MAX);
            if n == 0 {
                return Err(damaged(Malformed::new("bytes after the end")));
            }
            self.numbers.clear();
            let mut input = self.rest.as_slice();
            decode_i64s(&mut input, n, &mut self.numbers).map_err(|what| damaged(what.into()))?;
            let used = self.rest.len() - input.len();
            self.rest.drain(..used);
            series -= n;
            for &number in &self.numbers {
                let ordinal = u32::try_from(number).map_err(|_| unordered())?;
                if i64::from(next) > number || ordinal >= part.table.series {
                    return Err(unordered());
                }
                next = ordinal.saturating_add(1);
                call(ordinal)?;
            }
        }
        let sum = self.ahead.get(index, at, 4)?;
        if !self.rest.is_empty() || sum != crc.to_le_bytes() {
            return Err(damaged(Malformed::new("a block fails its checksum")));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.ahead.bytes.capacity() + self.rest.capacity() + self.numbers.capacity() * 8
    }
}

/// The values of a tag in one file, in their order.
#[derive(Debug)]
struct Cursor<'a> {
    part: usize,
    index: &'a Index,
    tag: &'a TagMeta,
    /// The block at hand.
    block: usize,
    dictionary: Dictionary,
    at: usize,
    ahead: Ahead,
}

impl Cursor<'_> {
    fn value(&self) -> &str {
        self.dictionary.values.get(self.at).unwrap_or_default()
    }

    /// Goes to the next value; false = there is none.
    fn step(&mut self) -> Result<bool, Error> {
        self.at += 1;
        if self.at < self.dictionary.values.len() {
            return Ok(true);
        }
        self.block += 1;
        self.load()
    }

    fn load(&mut self) -> Result<bool, Error> {
        self.at = 0;
        let Some((offset, length)) = self.tag.dictionary(self.block) else {
            return Ok(false);
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let own = self.ahead.get(self.index, offset, length)?;
        self.dictionary = self.index.dictionary_of(self.tag, self.block, own)?;
        Ok(self.dictionary.values.len() > 0)
    }
}

/// The values of a tag in several files at once, in their order, each once.
#[derive(Debug)]
pub(super) struct Values<'a> {
    cursors: Vec<Cursor<'a>>,
    /// Positions of cursors that have a value, the lowest value last.
    order: Vec<usize>,
    /// The value at hand.
    pub(super) value: String,
    /// The parts that have it, ascending, and where its series are there.
    pub(super) from: Vec<(usize, PostingPlace, u64)>,
}

impl<'a> Values<'a> {
    /// Of a tag, by part: what its file says of it.
    pub(super) fn open(parts: &[Part<'a>], tags: &[Option<&'a TagMeta>]) -> Result<Self, Error> {
        let mut all = Self {
            cursors: Vec::new(),
            order: Vec::new(),
            value: String::new(),
            from: Vec::new(),
        };
        for (at, (part, tag)) in parts.iter().zip(tags).enumerate() {
            let Some(tag) = tag else { continue };
            let mut cursor = Cursor {
                part: at,
                index: part.index,
                tag,
                block: 0,
                dictionary: Dictionary::default(),
                at: 0,
                ahead: Ahead::default(),
            };
            if cursor.load()? {
                all.cursors.push(cursor);
                all.insert(all.cursors.len() - 1);
            }
        }
        Ok(all)
    }

    /// Goes to the next value; false = there is none.
    pub(super) fn next(&mut self) -> Result<bool, Error> {
        self.value.clear();
        self.from.clear();
        let mut moved = Vec::new();
        while let Some(&last) = self.order.last() {
            let Some(cursor) = self.cursors.get(last) else {
                break;
            };
            if moved.is_empty() {
                self.value.push_str(cursor.value());
            } else if cursor.value() != self.value {
                break;
            }
            let place = cursor.dictionary.places.get(cursor.at);
            let lists = cursor.tag.lists_at(cursor.block).unwrap_or(0);
            self.from
                .extend(place.map(|&place| (cursor.part, place, lists)));
            moved.push(last);
            self.order.pop();
        }
        self.from.sort_unstable_by_key(|(part, ..)| *part);
        let found = !moved.is_empty();
        for at in moved {
            let cursor = self.cursors.get_mut(at);
            if cursor.map_or(Ok(false), Cursor::step)? {
                self.insert(at);
            }
        }
        Ok(found)
    }

    fn insert(&mut self, at: usize) {
        let value = |at: usize| self.cursors.get(at).map_or("", Cursor::value);
        let own = value(at);
        let to = self.order.partition_point(|&other| value(other) > own);
        self.order.insert(to, at);
    }

    /// Memory that it holds.
    pub(super) fn bytes(&self) -> usize {
        let of = |cursor: &Cursor<'_>| cursor.ahead.bytes.capacity() + cursor.dictionary.bytes();
        self.cursors.iter().map(of).sum()
    }
}

/// Memory of readers of lists.
pub(super) fn bytes_of(lists: &[Lists]) -> usize {
    lists.iter().map(Lists::bytes).sum()
}
