//! Text and bytes: a dictionary where values repeat, lanes where they are of one length, else plain; compressed where that is smaller.

mod dictionary;
mod plain;
mod transposed;
mod zstd;

use crate::column::is_set;
use crate::encoding::Encoding;
use crate::{BLOCK_ROWS_MAX, ColumnBuf, Error, PageSet, PhysicalType, text_bytes_max};

/// Bodies with less text than this are not worth the header of a zstd frame.
const COMPRESSIBLE_BYTES_MIN: usize = 128;

/// Lanes that take this part of the plain values, or less, are not compared with what a compressor makes of those.
const FEW: usize = 4;

/// The present values of a column, as ranges of its bytes.
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    n: usize,
    ranges: [(u32, u32); BLOCK_ROWS_MAX],
}

impl<'a> Rows<'a> {
    /// Checks what the slices rely on. `validity` covers the rows, of which there are at most [`BLOCK_ROWS_MAX`].
    pub(crate) fn new(
        offsets: &'a [u32],
        bytes: &'a [u8],
        validity: Option<&[u8]>,
        is_utf8: bool,
    ) -> Result<Self, Error> {
        let mut rows = Self {
            bytes,
            n: 0,
            ranges: [(0, 0); BLOCK_ROWS_MAX],
        };
        let mut total = 0;
        for (row, [start, end]) in offsets.array_windows().enumerate() {
            let value = bytes.get(*start as usize..*end as usize);
            let value = value.ok_or(Error::InvalidColumn {
                what: "the offsets of text do not increase within its bytes",
            })?;
            if validity.is_some_and(|bitmap| !is_set(bitmap, row)) {
                continue;
            }
            if is_utf8 && std::str::from_utf8(value).is_err() {
                return Err(Error::InvalidColumn {
                    what: "text is not UTF-8; write it as bytes",
                });
            }
            total += value.len();
            rows.ranges[rows.n] = (*start, *end);
            rows.n += 1;
        }
        if total > text_bytes_max(rows.n) {
            return Err(Error::LimitTextBytes { bytes: total });
        }
        Ok(rows)
    }

    fn value(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.ranges[index];
        &self.bytes[start as usize..end as usize]
    }

    fn values(&self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.n).map(|index| self.value(index))
    }
}

/// Appends the body of up to [`BLOCK_ROWS_MAX`] values and answers with its encoding.
pub(crate) fn encode(rows: &Rows<'_>, set: PageSet, out: &mut Vec<u8>) -> Encoding {
    if rows.n == 0 {
        return Encoding::Constant;
    }
    let start = out.len();
    let lengths = plain::Lengths::of(rows.values());
    let dictionary = dictionary::Dictionary::of(rows);
    let (encoding, dictionary_bytes) = match dictionary {
        Some(dictionary) if dictionary.bytes() < lengths.bytes() => {
            dictionary.encode(rows, out);
            (Encoding::Dictionary, Some(dictionary.entry_bytes()))
        }
        _ => {
            lengths.encode(rows.values(), out);
            (Encoding::Plain, None)
        }
    };
    let lanes = if set >= PageSet::Fourth {
        in_lanes(rows, &lengths, out.len() - start)
    } else {
        None
    };
    // Packed codes do not compress, and starting the compressor costs as much as a thousand of them.
    let compressible_bytes = dictionary_bytes.unwrap_or(out.len() - start);
    let is_small = |lanes: &Vec<u8>| FEW * lanes.len() <= lengths.bytes();
    let may_compress = set != PageSet::Quick
        && compressible_bytes >= COMPRESSIBLE_BYTES_MIN
        && !lanes.as_ref().is_some_and(is_small);
    // Inflating costs time at every read: an eighth is the least it must save.
    let otherwise = lanes.as_ref().map_or(out.len() - start, Vec::len);
    let bytes_max = otherwise - otherwise / 8;
    if may_compress && zstd::compress_body(start, bytes_max, out) {
        match encoding {
            Encoding::Dictionary => Encoding::DictionaryZstd,
            _ => Encoding::PlainZstd,
        }
    } else if let Some(lanes) = lanes {
        out.truncate(start);
        out.extend_from_slice(&lanes);
        Encoding::Transposed
    } else {
        encoding
    }
}

/// The body of values of one length, cut into lanes, if it saves an eighth of `bytes`, which they take otherwise.
fn in_lanes(rows: &Rows<'_>, lengths: &plain::Lengths, bytes: usize) -> Option<Vec<u8>> {
    let bytes_max = bytes - bytes / 8;
    let lanes = transposed::Transposed::of(rows, lengths.common()?)?;
    if lanes.bytes() > bytes_max {
        return None;
    }
    let mut body = Vec::new();
    lanes.encode(&mut body);
    (body.len() <= bytes_max).then_some(body)
}

/// Appends `n` values to the offsets and bytes of `out`, which hold no value yet, and checks that text is UTF-8.
pub(crate) fn decode(
    encoding: Encoding,
    input: &mut &[u8],
    n: usize,
    out: &mut ColumnBuf,
) -> Result<(), Error> {
    out.i64s.resize(n, 0);
    let is_utf8 = out.physical_type == PhysicalType::Text;
    let ColumnBuf {
        i64s,
        offsets,
        bytes,
        inflated,
        ..
    } = out;
    match encoding {
        Encoding::Plain => plain::decode(input, is_utf8, i64s, offsets, bytes),
        Encoding::Dictionary => dictionary::decode(input, is_utf8, i64s, offsets, bytes),
        Encoding::Transposed => transposed::decode(input, is_utf8, i64s, offsets, bytes),
        Encoding::PlainZstd | Encoding::DictionaryZstd => {
            zstd::inflate_body(input, n, inflated)?;
            let mut body = inflated.as_slice();
            match encoding {
                Encoding::PlainZstd => plain::decode(&mut body, is_utf8, i64s, offsets, bytes)?,
                _ => dictionary::decode(&mut body, is_utf8, i64s, offsets, bytes)?,
            }
            if body.is_empty() {
                Ok(())
            } else {
                Err(Error::corrupt("bytes after the last value"))
            }
        }
        _ => Err(Error::corrupt("the encoding is not one of text")),
    }
}

/// Checks that every value is UTF-8: all bytes together, and no border inside a character.
fn check_utf8(offsets: &[u32], bytes: &[u8]) -> Result<(), Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::corrupt("text is not UTF-8"))?;
    if offsets
        .iter()
        .all(|offset| text.is_char_boundary(*offset as usize))
    {
        Ok(())
    } else {
        Err(Error::corrupt("a border between texts splits a character"))
    }
}
