//! Null rows of a page, as a bitmap or as positions.
//!
//! Does: take either off the front of a page, write either, whichever is shorter. Does not: know values.
//!
//! Layout: a bitmap of one bit a row, or how many rows are null (varint) and their positions, packed as those of patches are.

use super::{count_ones, padding_mask};
use crate::integer::{for_positions, position_width};
use crate::pack::{pack, packed_bytes};
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Null rows as they stand in a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Nulls<'a> {
    None,
    /// 1 = the row has a value.
    Bitmap(&'a [u8]),
    /// Of the rows without one.
    Positions {
        count: usize,
        packed: &'a [u8],
    },
}

impl<'a> Nulls<'a> {
    /// Takes a bitmap off the front of `input`.
    pub(super) fn take_bitmap(input: &mut &'a [u8], rows: usize) -> Result<Self, Error> {
        let bitmap = take(input, rows.div_ceil(8))?;
        if bitmap
            .last()
            .is_some_and(|last| last & !padding_mask(rows) != 0)
        {
            return Err(Error::corrupt("the null bitmap has bits past the last row"));
        }
        Ok(Self::Bitmap(bitmap))
    }

    /// Takes positions off the front of `input`; whether they increase is seen when they are read.
    pub(super) fn take_positions(input: &mut &'a [u8], rows: usize) -> Result<Self, Error> {
        let count = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
        if count == 0 || count > rows {
            return Err(Error::corrupt("no or more nulls than rows"));
        }
        let packed = take(input, packed_bytes(count, position_width(rows)))?;
        Ok(Self::Positions { count, packed })
    }

    /// How many of so many rows are null.
    pub(super) fn count(&self, rows: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Bitmap(bitmap) => rows.saturating_sub(count_ones(bitmap)),
            Self::Positions { count, .. } => *count,
        }
    }

    /// Appends the bitmap of so many rows, nothing if none is null.
    pub(super) fn put_bitmap(&self, rows: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::None => Ok(()),
            Self::Bitmap(bitmap) => {
                out.extend_from_slice(bitmap);
                Ok(())
            }
            Self::Positions { count, packed } => {
                let start = out.len();
                out.resize(start + rows.div_ceil(8), 0xff);
                if let Some(last) = out.last_mut() {
                    *last &= padding_mask(rows);
                }
                let bitmap = &mut out[start..];
                for_positions(packed, rows, *count, |_, position| {
                    bitmap[position / 8] &= !(1 << (position % 8));
                })
            }
        }
    }

    /// Appends the shorter form, nothing if none is null; true = it is positions.
    pub(super) fn put_short(&self, rows: usize, out: &mut Vec<u8>) -> bool {
        let bitmap = match self {
            Self::None => return false,
            Self::Bitmap(bitmap) => *bitmap,
            Self::Positions { count, packed } => {
                varint::put_u64(*count as u64, out);
                out.extend_from_slice(packed);
                return true;
            }
        };
        let count = self.count(rows);
        let width = position_width(rows);
        let bytes = varint::bytes_u64(count as u64) + packed_bytes(count, width);
        if count == 0 || bytes >= bitmap.len() {
            out.extend_from_slice(bitmap);
            return false;
        }
        varint::put_u64(count as u64, out);
        let mut positions = [0; BLOCK_ROWS_MAX];
        let mut found = 0;
        for (at, byte) in bitmap.iter().enumerate() {
            let here = 8 * at..rows.min(8 * at + 8);
            let mut nulls = !byte & padding_mask(here.len());
            while nulls != 0 {
                positions[found] = (8 * at) as u64 + u64::from(nulls.trailing_zeros());
                found += 1;
                nulls &= nulls - 1;
            }
        }
        pack(positions[..found].iter().copied(), width, out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected are the bits that the bitmaps are made of.
    #[test]
    fn positions_and_bitmaps_say_the_same() {
        let mut forms = [0; 2];
        for rows in [1_usize, 7, 8, 9, 63, 64, 65, 250, 1000, 1023, 1024] {
            for every in [1_usize, 2, 5, 13, 100, 999] {
                let is_null = |row: usize| row % every == every / 2;
                let nulls = (0..rows).filter(|row| is_null(*row)).count();
                if nulls == 0 {
                    continue;
                }
                let mut bitmap = vec![0_u8; rows.div_ceil(8)];
                for row in (0..rows).filter(|row| !is_null(*row)) {
                    bitmap[row / 8] |= 1 << (row % 8);
                }
                let input = &mut bitmap.as_slice();
                let whole = Nulls::take_bitmap(input, rows).unwrap();
                assert_eq!(whole.count(rows), nulls);
                let mut short = Vec::new();
                let is_sparse = whole.put_short(rows, &mut short);
                assert!(short.len() <= bitmap.len());
                forms[usize::from(is_sparse)] += 1;
                let mut input = short.as_slice();
                let again = if is_sparse {
                    Nulls::take_positions(&mut input, rows).unwrap()
                } else {
                    Nulls::take_bitmap(&mut input, rows).unwrap()
                };
                assert!(input.is_empty());
                assert_eq!(again.count(rows), nulls);
                let mut back = Vec::new();
                again.put_bitmap(rows, &mut back).unwrap();
                assert_eq!(back, bitmap, "{nulls} of {rows}");
                let mut same = Vec::new();
                assert_eq!(again.put_short(rows, &mut same), is_sparse);
                assert_eq!(same, short);
            }
        }
        assert!(forms.iter().all(|count| *count > 10), "{forms:?}");
    }

    #[test]
    fn positions_that_do_not_increase_or_lie_outside_are_damage() {
        // Of ten rows: positions of four bits each.
        for (bytes, is_valid) in [
            ([2, 0x93], true),
            ([2, 0x39], false),
            ([2, 0x33], false),
            ([2, 0xa3], false),
        ] {
            let mut input = bytes.as_slice();
            let nulls = Nulls::take_positions(&mut input, 10).unwrap();
            let read = nulls.put_bitmap(10, &mut Vec::new());
            assert_eq!(read.is_ok(), is_valid, "{bytes:?}");
        }
        for bytes in [[0, 0, 0, 0, 0, 0, 0], [11, 0, 0, 0, 0, 0, 0]] {
            assert!(Nulls::take_positions(&mut bytes.as_slice(), 10).is_err());
        }
        assert!(Nulls::take_positions(&mut [3, 0].as_slice(), 10).is_err());
    }
}
