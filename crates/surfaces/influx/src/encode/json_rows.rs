//! Rows of a batch as JSON on one line: what repeats is written once and copied.
//!
//! Does: write words that stand side by side once for all rows that have the same ones, the text of a time once for all rows
//! of it, and small numbers from a table. Does not: indent; rows for people are written a cell at a time (`json`).

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, StringArray};

use super::cells::{Cell, Cells};
use super::number::{push_int, push_json_float, push_unsigned};
use super::text::push_json_text;
use super::time::{Stamp, Times, push_epoch};

/// Combinations of words that are remembered, at most.
const COMBINATIONS_BITS_MAX: u32 = 12;

/// Bytes of their texts: more than that and they are written anew, so that a batch of long texts takes no more memory.
const COMBINATION_BYTES_MAX: usize = 1 << 20;

/// Combinations that are tried before it is known whether rows repeat them at all, and rows of a batch that may.
const TRIED: usize = 2048;

/// What a row has no word in.
const NO_WORD: i32 = -1;

/// Writes the rows of a batch.
#[derive(Debug)]
pub(super) struct Rows {
    parts: Vec<Part>,
    times: Times,
    stamp: Stamp,
}

/// What was written of words, as long as rows have the same ones.
#[derive(Debug, Default)]
pub(super) struct Kept(Vec<Combinations>);

/// Columns that are written together.
#[derive(Debug)]
enum Part {
    Words(Combinations),
    Column(Cells),
}

impl Rows {
    /// `rows` are those that the batch has. What was written of the same words `before` is kept.
    pub(super) fn of(columns: Vec<Cells>, rows: usize, times: Times, before: Option<Kept>) -> Self {
        let mut before = before.unwrap_or_default().0.into_iter();
        let mut parts = Vec::new();
        let mut run = Vec::new();
        let mut end = |run: &mut Vec<DictionaryArray<Int32Type>>, parts: &mut Vec<Part>| {
            if !run.is_empty() {
                let words = Combinations::of(std::mem::take(run), rows, before.next());
                parts.push(Part::Words(words));
            }
        };
        for cells in columns {
            if let Some(words) = cells.few_words() {
                run.push(words.clone());
            } else {
                end(&mut run, &mut parts);
                parts.push(Part::Column(cells));
            }
        }
        end(&mut run, &mut parts);
        Self {
            parts,
            times,
            stamp: Stamp::default(),
        }
    }

    /// What the next batch may need, without the rows of this one.
    pub(super) fn kept(self) -> Kept {
        let words = self.parts.into_iter().filter_map(|part| match part {
            Part::Words(words) => Some(words.without_rows()),
            Part::Column(_) => None,
        });
        Kept(words.collect())
    }

    /// Appends a row with its brackets.
    pub(super) fn push(&mut self, row: usize, out: &mut Vec<u8>) {
        let mut before = b'[';
        for part in &mut self.parts {
            out.push(before);
            before = b',';
            match part {
                Part::Words(words) => words.push(row, out),
                Part::Column(cells) => match cells.cell(row) {
                    Cell::Int(value) => push_int(value, out),
                    Cell::Float(value) => push_json_float(value, out),
                    Cell::Time(time, zone) => match self.times {
                        Times::Text => self.stamp.push(time, zone, out),
                        Times::Integers(unit) => push_epoch(time, unit, out),
                    },
                    Cell::Null => out.extend_from_slice(b"null"),
                    Cell::Unsigned(value) => push_unsigned(value, out),
                    Cell::Bool(value) => {
                        out.extend_from_slice(if value { b"true" } else { b"false" });
                    }
                    Cell::Text(value) => push_json_text(value, out),
                },
            }
        }
        if self.parts.is_empty() {
            out.push(b'[');
        }
        out.push(b']');
    }
}

/// A column of words, each written once.
#[derive(Debug)]
struct Column {
    keys: DictionaryArray<Int32Type>,
    has_nulls: bool,
    words: Words,
}

impl Column {
    fn of(keys: DictionaryArray<Int32Type>, words: Words) -> Self {
        Self {
            has_nulls: keys.null_count() > 0,
            keys,
            words,
        }
    }

    #[inline]
    fn word(&self, row: usize) -> i32 {
        if self.has_nulls && self.keys.is_null(row) {
            return NO_WORD;
        }
        let words = self.keys.keys().values();
        words.get(row).copied().unwrap_or(NO_WORD)
    }
}

/// Words that stand side by side: rows of one series have the same ones, and those of some series come again and again.
#[derive(Debug)]
struct Combinations {
    columns: Vec<Column>,
    /// By the bits of a hash; none = rows do not repeat them.
    places: Vec<Place>,
    bits: u32,
    /// The words of each place, one after the other.
    words: Vec<i32>,
    texts: Vec<u8>,
    /// Rows that had a combination which was not remembered, less those that had one that was.
    missed: usize,
}

/// Where a combination is written.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: usize,
    /// Nothing ends at 0.
    end: usize,
}

impl Combinations {
    fn of(columns: Vec<DictionaryArray<Int32Type>>, rows: usize, before: Option<Self>) -> Self {
        let same = before.filter(|before| {
            let are_same = |(one, other): (&Column, &DictionaryArray<Int32Type>)| {
                Arc::ptr_eq(one.keys.values(), other.values())
            };
            before.columns.len() == columns.len()
                && before.columns.iter().zip(&columns).all(are_same)
        });
        if let Some(mut same) = same {
            for (column, keys) in same.columns.iter_mut().zip(columns) {
                column.has_nulls = keys.null_count() > 0;
                column.keys = keys;
            }
            return same;
        }
        let is_remembered = columns.len() > 1 && rows >= TRIED;
        let bits = rows.max(2).ilog2().min(COMBINATIONS_BITS_MAX);
        let places = if is_remembered { 1 << bits } else { 0 };
        let columns = columns.into_iter().map(|keys| {
            let words = Words::of(keys.values());
            Column::of(keys, words)
        });
        let columns: Vec<Column> = columns.collect();
        Self {
            places: vec![Place::default(); places],
            words: vec![NO_WORD; places * columns.len()],
            columns,
            bits,
            texts: Vec::new(),
            missed: 0,
        }
    }

    fn without_rows(mut self) -> Self {
        for column in &mut self.columns {
            let values = Arc::clone(column.keys.values());
            column.keys = DictionaryArray::new(PrimitiveArray::new_null(0), values);
        }
        self
    }

    #[inline]
    fn push(&mut self, row: usize, out: &mut Vec<u8>) {
        if self.places.is_empty() {
            self.write(row, out);
            return;
        }
        let place = self.place(row);
        let known = self.places.get(place).copied().unwrap_or_default();
        if known.end > 0 && self.has(place, row) {
            let text = self.texts.get(known.start..known.end);
            out.extend_from_slice(text.unwrap_or_default());
            self.missed = self.missed.saturating_sub(1);
        } else {
            self.push_anew(row, place, out);
        }
    }

    /// Where a row's combination is remembered.
    #[inline]
    fn place(&self, row: usize) -> usize {
        let mut hash = 0u64;
        let mut factor = 0x9e37_79b9_7f4a_7c15_u64;
        for column in &self.columns {
            let word = u64::from(column.word(row).cast_unsigned()) + 1;
            hash = hash.wrapping_add(word.wrapping_mul(factor));
            factor = factor.wrapping_mul(0xd134_2543_de82_ef95);
        }
        usize::try_from(hash >> (u64::BITS - self.bits)).unwrap_or(usize::MAX)
    }

    /// The words that are remembered in a place.
    #[inline]
    fn range(&self, place: usize) -> std::ops::Range<usize> {
        let width = self.columns.len();
        place * width..(place + 1) * width
    }

    #[inline]
    fn has(&self, place: usize, row: usize) -> bool {
        let words = self.words.get(self.range(place)).unwrap_or_default();
        let mut pairs = self.columns.iter().zip(words);
        pairs.all(|(column, word)| column.word(row) == *word)
    }

    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        for (nth, column) in self.columns.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let word = usize::try_from(column.word(row)).ok();
            out.extend_from_slice(word.map_or(b"null", |word| column.words.get(word)));
        }
    }

    /// Writes a combination that is not remembered, and remembers it.
    #[inline(never)]
    fn push_anew(&mut self, row: usize, place: usize, out: &mut Vec<u8>) {
        let begin = out.len();
        self.write(row, out);
        let text = out.get(begin..).unwrap_or_default();
        self.missed += 1;
        if self.missed > TRIED {
            (self.places, self.words) = (Vec::new(), Vec::new());
            return;
        }
        if self.texts.len() + text.len() > COMBINATION_BYTES_MAX {
            self.texts.clear();
            self.places.fill(Place::default());
        }
        let range = self.range(place);
        if let (Some(place), Some(words)) = (self.places.get_mut(place), self.words.get_mut(range))
        {
            for (word, column) in words.iter_mut().zip(&self.columns) {
                *word = column.word(row);
            }
            place.start = self.texts.len();
            self.texts.extend_from_slice(text);
            place.end = self.texts.len();
        }
    }
}

/// The words of a column as JSON, each written once.
#[derive(Debug)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    fn of(values: &ArrayRef) -> Self {
        let none = StringArray::new_null(0);
        let texts = values.as_any().downcast_ref::<StringArray>();
        let texts = texts.unwrap_or(&none);
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
        for text in texts {
            match text {
                Some(text) => push_json_text(text, &mut bytes),
                None => bytes.extend_from_slice(b"null"),
            }
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    #[inline]
    fn get(&self, word: usize) -> &[u8] {
        let start = word.checked_sub(1).and_then(|before| self.ends.get(before));
        let range = start.copied().unwrap_or(0)..self.ends.get(word).copied().unwrap_or(0);
        self.bytes.get(range).unwrap_or_default()
    }
}
