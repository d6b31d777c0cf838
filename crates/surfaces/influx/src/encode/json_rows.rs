//! Rows of a batch as JSON on one line: what repeats is written once and copied.
//!
//! Does: write words that stand side by side once for all rows that have the same ones, the text of a time once for all rows
//! of it, and integers that stand side by side at once, small ones from a table. Does not: indent; rows for people are written
//! a cell at a time (`json`).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, StringArray};

use super::cells::{Cell, Cells};
use super::number::{Ints, push_int, push_json_float, push_unsigned};
use super::text::push_json_text;
use super::time::{Stamp, Times, push_epoch};

/// Combinations of words that are remembered, at most. Those of a thousand series seldom share a place; places that nobody has are
/// not touched.
const COMBINATIONS_BITS_MAX: u32 = 14;

/// Bytes of their texts: more than that and they are written anew, so that a batch of long texts takes no more memory.
const COMBINATION_BYTES_MAX: usize = 1 << 20;

/// Combinations that are tried before it is known whether rows repeat them at all, and rows of a batch that may.
const TRIED: usize = 2048;

/// What a row has no word in.
const NO_WORD: i32 = -1;

/// Rows whose words are brought side by side at once: they stay in the nearest cache.
const BLOCK_ROWS: usize = 128;

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
    /// Integers without nulls.
    Ints(Vec<Int64Array>),
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
                continue;
            }
            end(&mut run, &mut parts);
            match (cells.ints(), parts.last_mut()) {
                (Some(ints), Some(Part::Ints(others))) => others.push(ints.clone()),
                (Some(ints), _) => parts.push(Part::Ints(vec![ints.clone()])),
                (None, _) => parts.push(Part::Column(cells)),
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
            Part::Ints(_) | Part::Column(_) => None,
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
                Part::Ints(columns) => {
                    let mut ints = Ints::default();
                    for column in columns {
                        ints.push(column.values().get(row).copied().unwrap_or_default(), out);
                    }
                    ints.end(out);
                }
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

    /// The words of some rows.
    fn words(&self, rows: Range<usize>) -> impl Iterator<Item = i32> {
        let words = self.keys.keys().values().get(rows.clone());
        let words = words.unwrap_or_default().iter().zip(rows);
        words.map(|(word, row)| {
            if self.has_nulls && self.keys.is_null(row) {
                NO_WORD
            } else {
                *word
            }
        })
    }
}

/// Some rows with the words of each side by side. Columns one after the other are brought there quickly, cells are not.
#[derive(Debug, Default)]
struct Block {
    rows: Range<usize>,
    words: Vec<i32>,
    hashes: Vec<u64>,
}

impl Block {
    /// Brings the rows from one on.
    fn fill(&mut self, columns: &[Column], first: usize) {
        let rows = columns.first().map_or(0, |column| column.keys.len());
        self.rows = first..rows.min(first + BLOCK_ROWS);
        let width = columns.len();
        self.words.clear();
        self.words.resize(self.rows.len() * width, NO_WORD);
        self.hashes.clear();
        self.hashes.resize(self.rows.len(), 0);
        let mut factor = 0x9e37_79b9_7f4a_7c15_u64;
        for (nth, column) in columns.iter().enumerate() {
            let places = self.words.iter_mut().skip(nth).step_by(width);
            let hashes = self.hashes.iter_mut();
            let words = column.words(self.rows.clone());
            for ((place, hash), word) in places.zip(hashes).zip(words) {
                *place = word;
                let word = u64::from(word.cast_unsigned()) + 1;
                *hash = hash.wrapping_add(word.wrapping_mul(factor));
            }
            factor = factor.wrapping_mul(0xd134_2543_de82_ef95);
        }
    }

    /// A row's words and their hash.
    #[inline]
    fn row(&self, row: usize, width: usize) -> (&[i32], u64) {
        let place = row.wrapping_sub(self.rows.start);
        let words = self.words.get(place * width..(place + 1) * width);
        let hash = self.hashes.get(place).copied().unwrap_or_default();
        (words.unwrap_or_default(), hash)
    }
}

/// Words that stand side by side: rows of one series have the same ones, and those of some series come again and again.
#[derive(Debug)]
struct Combinations {
    columns: Vec<Column>,
    block: Block,
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
            same.block = Block::default();
            return same;
        }
        let is_remembered = columns.len() > 1 && rows >= TRIED;
        let bits = (rows.max(2).ilog2() + 1).min(COMBINATIONS_BITS_MAX);
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
            block: Block::default(),
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
        if !self.block.rows.contains(&row) {
            self.block.fill(&self.columns, row);
        }
        let width = self.columns.len();
        let (words, hash) = self.block.row(row, width);
        if self.places.is_empty() {
            self.write(words, out);
            return;
        }
        let place = usize::try_from(hash >> (u64::BITS - self.bits)).unwrap_or(usize::MAX);
        let known = self.places.get(place).copied().unwrap_or_default();
        let remembered = self.words.get(place * width..(place + 1) * width);
        if known.end > 0 && remembered == Some(words) {
            let text = self.texts.get(known.start..known.end);
            out.extend_from_slice(text.unwrap_or_default());
            self.missed = self.missed.saturating_sub(1);
        } else {
            self.push_anew(row, place, out);
        }
    }

    #[inline]
    fn write(&self, words: &[i32], out: &mut Vec<u8>) {
        for (nth, (column, word)) in self.columns.iter().zip(words).enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let word = usize::try_from(*word).ok();
            out.extend_from_slice(word.map_or(b"null", |word| column.words.get(word)));
        }
    }

    /// Writes a combination that is not remembered, and remembers it.
    #[inline(never)]
    fn push_anew(&mut self, row: usize, place: usize, out: &mut Vec<u8>) {
        let width = self.columns.len();
        let (words, _) = self.block.row(row, width);
        let begin = out.len();
        self.write(words, out);
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
        let remembered = self.words.get_mut(place * width..(place + 1) * width);
        if let (Some(place), Some(remembered)) = (self.places.get_mut(place), remembered) {
            remembered.copy_from_slice(words);
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
