//! DICTIONARY: distinct values in order of appearance, then a code per value.
//!
//! Layout: number of entries (varint), the entries as in `plain.rs`, an integer chunk of the codes.

use super::plain::{Lengths, decode_offsets};
use super::{Rows, check_utf8};
use crate::integer::{self, Plan};
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error, PageSet, text_bytes_max, varint};

/// Slots of the hash table that finds repeated values: at most half full.
const SLOTS: usize = 2 * BLOCK_ROWS_MAX;

/// The distinct values of a page, and which one each row has.
pub(super) struct Dictionary {
    /// The row where each entry appears first.
    first_rows: [u16; BLOCK_ROWS_MAX],
    entries: usize,
    codes: [i64; BLOCK_ROWS_MAX],
    n: usize,
    lengths: Lengths,
    plan: Plan,
}

impl Dictionary {
    /// The dictionary of at least one row, or `None` if most values are distinct.
    pub(super) fn of(rows: &Rows<'_>) -> Option<Self> {
        let mut slots = [u16::MAX; SLOTS];
        let mut first_rows = [0; BLOCK_ROWS_MAX];
        let mut codes = [0; BLOCK_ROWS_MAX];
        let mut entries = 0;
        for (row, value) in rows.values().enumerate() {
            let mut slot = hash(value) % SLOTS;
            let code = loop {
                let code = usize::from(slots[slot]);
                if slots[slot] == u16::MAX {
                    slots[slot] = entries as u16;
                    first_rows[entries] = row as u16;
                    entries += 1;
                    break entries - 1;
                }
                if rows.value(usize::from(first_rows[code])) == value {
                    break code;
                }
                slot = (slot + 1) % SLOTS;
            };
            codes[row] = code as i64;
            // Entries and codes cannot pay any more, and reading them costs a copy.
            if entries > rows.n.div_ceil(2) {
                return None;
            }
        }
        let lengths = Lengths::of(
            first_rows[..entries]
                .iter()
                .map(|row| rows.value(usize::from(*row))),
        );
        let plan = integer::plan(&codes[..rows.n], PageSet::First);
        Some(Self {
            first_rows,
            entries,
            codes,
            n: rows.n,
            lengths,
            plan,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        varint::bytes_u64(self.entries as u64)
            + self.lengths.bytes()
            + 1
            + self.plan.body_bytes(self.n)
    }

    /// Bytes of the distinct values and their lengths.
    pub(super) fn entry_bytes(&self) -> usize {
        self.lengths.bytes()
    }

    pub(super) fn encode(&self, rows: &Rows<'_>, out: &mut Vec<u8>) {
        varint::put_u64(self.entries as u64, out);
        let entries = self.first_rows[..self.entries]
            .iter()
            .map(|row| rows.value(usize::from(*row)));
        self.lengths.encode(entries, out);
        out.push(self.plan.encoding() as u8);
        self.plan.encode_body(&self.codes[..self.n], out);
    }
}

/// Takes as many values as `codes` has slots and appends them.
pub(super) fn decode(
    input: &mut &[u8],
    is_utf8: bool,
    codes: &mut [i64],
    offsets: &mut Vec<u32>,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    let entries = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
    if entries == 0 || entries > codes.len() {
        return Err(Error::corrupt(
            "a dictionary has no entries, or more than the page has values",
        ));
    }
    // The offsets of the entries stand where those of the rows will.
    let bytes_max = text_bytes_max(codes.len());
    decode_offsets(input, &mut codes[..entries], bytes_max, offsets)?;
    let mut borders = [0; BLOCK_ROWS_MAX + 1];
    borders[..=entries].copy_from_slice(offsets);
    offsets.truncate(1);
    let entry_bytes = take(input, borders[entries] as usize)?;
    if is_utf8 {
        check_utf8(&borders[..=entries], entry_bytes)?;
    }
    integer::decode_chunk(input, codes)?;
    if entries == 1 {
        return repeat(entry_bytes, codes, bytes_max, offsets, bytes);
    }
    for code in codes {
        let code = usize::try_from(*code).ok().filter(|code| *code < entries);
        let code = code.ok_or(Error::corrupt("a code is not in the dictionary"))?;
        bytes.extend_from_slice(&entry_bytes[borders[code] as usize..borders[code + 1] as usize]);
        // A small page can name a long entry a thousand times.
        if bytes.len() > bytes_max {
            return Err(Error::LimitTextBytes { bytes: bytes.len() });
        }
        offsets.push(bytes.len() as u32);
    }
    Ok(())
}

/// Appends the only entry once for each code, in copies that double: one by one they cost ten times as much.
fn repeat(
    entry: &[u8],
    codes: &[i64],
    bytes_max: usize,
    offsets: &mut Vec<u32>,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    if codes.iter().any(|code| *code != 0) {
        return Err(Error::corrupt("a code is not in the dictionary"));
    }
    let start = bytes.len();
    let end = start + entry.len() * codes.len();
    if end > bytes_max {
        return Err(Error::LimitTextBytes { bytes: end });
    }
    bytes.reserve(end - start);
    bytes.extend_from_slice(entry);
    while bytes.len() < end {
        let copied = (bytes.len() - start).min(end - bytes.len());
        bytes.extend_from_within(start..start + copied);
    }
    offsets.extend((1..=codes.len()).map(|rows| (start + rows * entry.len()) as u32));
    Ok(())
}

/// Multiplies and folds eight bytes at a time. Chosen by whoever writes values, collisions cost a page of comparisons at most.
fn hash(value: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, tail) = value.as_chunks();
    let mut hash = words.iter().fold(value.len() as u64, |hash, word| {
        mix(hash, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    hash = mix(hash, u64::from_le_bytes(last));
    (hash.wrapping_mul(FACTOR) >> 32) as usize
}
