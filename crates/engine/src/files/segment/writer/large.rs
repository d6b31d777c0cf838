//! Large values on their way out of a page.
//!
//! Does: say which values of a block are large, make the page's short form of them, and write them behind the pages of their
//! column. Does not: read them.

use nilometer_codec::{ColumnRef, ValuesRef};

use super::Output;
use crate::error::Malformed;
use crate::segment::checksum::{Checksums, SegmentFormat};
use crate::segment::large::{self, LARGE_BYTES_MAX, LargeValue};

/// A value of more bytes stands outside of its page: a block of 1024 rows of as many would be as large as a group.
pub(crate) const LARGE_BYTES_MIN: usize = 16 << 10;
/// So many bytes of it stay in its page, fewer where a character of a text would be cut. Statistics look at eight, and
/// must see that more follow.
const BEGINNING_BYTES: usize = 16;

/// A block's column with short forms in place of its large values.
#[derive(Debug, Default)]
pub(super) struct Short {
    offsets: Vec<u32>,
    bytes: Vec<u8>,
    /// Rows of large values.
    pub(super) rows: Vec<u32>,
}

impl Short {
    /// The column as its page has it; `None` = it has no large value.
    pub(super) fn of<'s>(&'s mut self, column: ColumnRef<'s>) -> Option<ColumnRef<'s>> {
        let (offsets, bytes, is_text) = match column.values {
            ValuesRef::Text { offsets, bytes } => (offsets, bytes, true),
            ValuesRef::Bytes { offsets, bytes } => (offsets, bytes, false),
            _ => return None,
        };
        let is_large = |pair: &[u32]| matches!(pair, [a, b] if (b - a) as usize > LARGE_BYTES_MIN);
        if !offsets.windows(2).any(is_large) {
            return None;
        }
        self.rows.clear();
        self.bytes.clear();
        self.offsets.clear();
        self.offsets.push(0);
        for (row, pair) in (0u32..).zip(offsets.windows(2)) {
            let value = match pair {
                [start, end] => bytes.get(*start as usize..*end as usize),
                _ => None,
            };
            let value = value.unwrap_or_default();
            // What stands in a null row is nobody's.
            let kept = if value.len() <= LARGE_BYTES_MIN || !column.is_present(row as usize) {
                value
            } else {
                self.rows.push(row);
                value.get(..beginning(value, is_text)).unwrap_or_default()
            };
            self.bytes.extend_from_slice(kept);
            // Shorter than the column, whose offsets fit.
            let end = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
            self.offsets.push(end);
        }
        let (offsets, bytes) = (self.offsets.as_slice(), self.bytes.as_slice());
        Some(ColumnRef {
            values: if is_text {
                ValuesRef::Text { offsets, bytes }
            } else {
                ValuesRef::Bytes { offsets, bytes }
            },
            validity: column.validity,
        })
    }
}

/// How many bytes of a large value stay in its page.
fn beginning(value: &[u8], is_text: bool) -> usize {
    let is_inside = |at: usize| value.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut end = BEGINNING_BYTES.min(value.len());
    while is_text && is_inside(end) && end > 0 {
        end -= 1;
    }
    end
}

/// Bytes of a row's text in its page.
pub(super) fn in_page(bytes: usize) -> usize {
    if bytes > LARGE_BYTES_MIN {
        BEGINNING_BYTES
    } else {
        bytes
    }
}

/// The large values of a group while it is written.
#[derive(Debug)]
pub(super) struct Large {
    /// The format has room for them.
    is_held: bool,
    /// Where the group's first page starts.
    group: u64,
    short: Short,
    /// Of the column being written: they follow its pages.
    waiting: Vec<(LargeValue, Vec<u8>)>,
    /// Of the columns before.
    pub(super) values: Vec<LargeValue>,
}

impl Large {
    pub(super) fn new(format: SegmentFormat, group: u64) -> Self {
        Self {
            is_held: format >= SegmentFormat::Second,
            group,
            short: Short::default(),
            waiting: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The column of a block as its page has it; its large values are set aside.
    pub(super) fn page_of<'s>(
        &'s mut self,
        column: u32,
        block: usize,
        values: ColumnRef<'s>,
    ) -> Result<ColumnRef<'s>, Malformed> {
        if !self.is_held {
            return Ok(values);
        }
        let Self { short, waiting, .. } = self;
        let (ValuesRef::Text { offsets, bytes } | ValuesRef::Bytes { offsets, bytes }) =
            values.values
        else {
            return Ok(values);
        };
        short.rows.clear();
        if short.of(values).is_none() {
            return Ok(values);
        }
        for &row in &short.rows {
            let at = row as usize;
            let (Some(&start), Some(&end)) = (offsets.get(at), offsets.get(at + 1)) else {
                continue;
            };
            let value = bytes.get(start as usize..end as usize).unwrap_or_default();
            if value.len() > LARGE_BYTES_MAX {
                return Err(Malformed::new(format!(
                    "a value of {} bytes, more than {LARGE_BYTES_MAX}",
                    value.len()
                )));
            }
            let mut stored = Vec::new();
            large::pack(value, &mut stored);
            let of = LargeValue {
                column,
                block: u32::try_from(block).unwrap_or(u32::MAX),
                row,
                offset: 0,
                stored: u32::try_from(stored.len()).unwrap_or(u32::MAX),
                bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
            };
            waiting.push((of, stored));
        }
        Ok(short.of(values).unwrap_or(values))
    }

    /// Writes the values that were set aside.
    pub(super) fn put(&mut self, checksums: Checksums, output: &mut Output) {
        for (mut value, stored) in self.waiting.drain(..) {
            let offset = output.position();
            value.offset = offset - self.group;
            let crc = checksums.of(offset, &stored);
            output.buffer.extend_from_slice(&stored);
            output.buffer.extend_from_slice(&crc.to_le_bytes());
            self.values.push(value);
        }
    }

    /// The list, ordered as the format has it.
    pub(super) fn encode(mut self, out: &mut Vec<u8>) {
        if !self.values.is_empty() {
            self.values.sort_by_key(LargeValue::key);
            large::encode(&self.values, out);
        }
    }
}
