//! Blocks of an index file, between their checksums.

use nilometer_codec::{decode_i64s, encode_i64s, varint};
use roaring::RoaringBitmap;

use super::Texts;
use super::layout::VALUES_OF_ONE_BLOCK;
use crate::definition::{take_bytes, take_u32};
use crate::error::Malformed;

/// Longest value that a reader takes, 64 KiB: no writer lets a longer one in.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// Values in byte order, and where the series of each are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dictionary {
    pub(super) values: Texts,
    pub(super) places: Vec<PostingPlace>,
}

impl Dictionary {
    /// Memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.values.bytes() + self.places.capacity() * size_of::<PostingPlace>()
    }
}

/// The series of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostingPlace {
    /// The only one.
    One(u32),
    /// So many, in a list of so many bytes with its checksum, that stands so many bytes behind where those of the block
    /// start.
    List { series: u32, bytes: u32, at: u64 },
}

/// Appends a dictionary block: front-coded values, then the number of series of each, then its only ordinal or the bytes
/// of its list.
pub(super) fn encode_dictionary<'a>(
    values: impl Iterator<Item = &'a str>,
    places: &[PostingPlace],
    out: &mut Vec<u8>,
) {
    let mut before = "";
    for value in values {
        let shared = before
            .bytes()
            .zip(value.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let suffix = value.as_bytes().get(shared..).unwrap_or_default();
        varint::put_u64(shared as u64, out);
        varint::put_u64(suffix.len() as u64, out);
        out.extend_from_slice(suffix);
        before = value;
    }
    let (counts, rest): (Vec<i64>, Vec<i64>) = places
        .iter()
        .map(|place| match place {
            PostingPlace::One(ordinal) => (1, i64::from(*ordinal)),
            PostingPlace::List { series, bytes, .. } => (i64::from(*series), i64::from(*bytes)),
        })
        .unzip();
    encode_i64s(&counts, out);
    encode_i64s(&rest, out);
}

pub(super) fn decode_dictionary(mut input: &[u8], n: usize) -> Result<Dictionary, Malformed> {
    if n > VALUES_OF_ONE_BLOCK {
        return Err(Malformed::new(format!("dictionary block of {n} values")));
    }
    let input = &mut input;
    let mut block = Dictionary::default();
    let mut value = Vec::new();
    block.places.reserve_exact(n);
    for _ in 0..n {
        let shared = take_u32(input)? as usize;
        let suffix = take_u32(input)? as usize;
        if shared > value.len() || shared + suffix > VALUE_BYTES_MAX {
            return Err(Malformed::new("a value shares more than there is"));
        }
        value.truncate(shared);
        value.extend_from_slice(take_bytes(input, suffix)?);
        let text = std::str::from_utf8(&value).map_err(|_| Malformed::new("text is not UTF-8"))?;
        let last = block.values.len().checked_sub(1);
        let before = last.and_then(|last| block.values.get(last));
        if before.is_some_and(|before| before >= text) {
            return Err(Malformed::new("values are out of order"));
        }
        block.values.push(text);
    }
    let counts = take_u32s(input, n)?;
    let rest = take_u32s(input, n)?;
    let mut at = 0;
    for (&series, &rest) in counts.iter().zip(&rest) {
        block.places.push(match series {
            0 => return Err(Malformed::new("a value without series")),
            1 => PostingPlace::One(rest),
            _ => PostingPlace::List {
                series,
                bytes: rest,
                at,
            },
        });
        at += if series > 1 { u64::from(rest) } else { 0 };
    }
    ended(input)?;
    Ok(block)
}

/// Appends numbers; the reader must know how many.
pub(super) fn put_u32s(numbers: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
    let numbers: Vec<i64> = numbers.map(i64::from).collect();
    encode_i64s(&numbers, out);
}

pub(super) fn take_u32s(input: &mut &[u8], n: usize) -> Result<Vec<u32>, Malformed> {
    let mut numbers = Vec::new();
    decode_i64s(input, n, &mut numbers)?;
    numbers
        .iter()
        .map(|&number| u32::try_from(number))
        .collect::<Result<_, _>>()
        .map_err(|_| Malformed::new("number exceeds 32 bits"))
}

/// A list of ordinals, which ascend and are below `series`.
pub(super) fn decode_list(
    mut input: &[u8],
    n: usize,
    series: u32,
) -> Result<RoaringBitmap, Malformed> {
    if n > series as usize {
        return Err(Malformed::new("a value has more series than there are"));
    }
    let list = take_u32s(&mut input, n)?;
    ended(input)?;
    let sorted = list.is_sorted_by(|a, b| a < b);
    if !sorted || list.last().is_some_and(|&last| last >= series) {
        return Err(Malformed::new("a list of series is out of order"));
    }
    let mut list = RoaringBitmap::from_sorted_iter(list)
        .map_err(|_| Malformed::new("a list of series is out of order"))?;
    // A value that nearly every series has is a few runs.
    list.optimize();
    Ok(list)
}

pub(super) fn ended(input: &[u8]) -> Result<(), Malformed> {
    if input.is_empty() {
        Ok(())
    } else {
        Err(Malformed::new("bytes after the end"))
    }
}
