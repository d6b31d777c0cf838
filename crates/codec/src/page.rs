//! A page: one column of one block, self-describing.
//!
//! ```text
//! +----------+------+------------+---------------------+------ ... ------+
//! | encoding | type |    rows    |     null bitmap     |       body      |
//! |   1 B    | 1 B  | u16 LE 2 B | ceil(rows/8) B, opt |  by encoding    |
//! +----------+------+------------+---------------------+------ ... ------+
//!             bits 0-6 physical type, bit 7 has nulls
//! ```
//!
//! The body holds the present values only. A page without a present value has encoding 0 and no body.

mod nulls;

use crate::column::is_set;
use crate::shared::{self, Slots};
use crate::{
    BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, Encoding, Error, PageSet, PhysicalType, SharedHeader,
    ValuesRef, boolean, float, integer, text,
};
use nulls::Nulls;

pub(crate) const HEADER_BYTES: usize = 4;
const HAS_NULLS: u8 = 0x80;
/// In a page in short, with [`HAS_NULLS`]: nulls are positions, not a bitmap.
const HAS_POSITIONS: u8 = 0x40;

/// What a page says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// How the values are represented.
    pub physical_type: PhysicalType,
    /// How the body is encoded.
    pub encoding: Encoding,
    /// Rows, null ones included.
    pub rows: usize,
    /// Whether a null bitmap follows the header.
    pub has_nulls: bool,
}

/// Appends one column as a page, in the smallest encoding of the first set. After an error `out` holds what it held before.
pub fn encode_page(column: ColumnRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    encode_page_of(column, PageSet::First, out)
}

/// The same in the smallest encoding of `set`.
pub fn encode_page_of(column: ColumnRef<'_>, set: PageSet, out: &mut Vec<u8>) -> Result<(), Error> {
    let rows = column.rows();
    if rows == 0 || rows > BLOCK_ROWS_MAX {
        return Err(Error::LimitRows { rows });
    }
    let start = out.len();
    let written = encode_page_at(column, set, rows, start, out);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn encode_page_at(
    column: ColumnRef<'_>,
    set: PageSet,
    rows: usize,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.extend_from_slice(&[0, column.physical_type() as u8]);
    out.extend_from_slice(&(rows as u16).to_le_bytes());
    let validity = match column.validity {
        Some(bitmap) => encode_validity(bitmap, rows, out)?,
        None => None,
    };
    if validity.is_some() {
        out[start + 1] |= HAS_NULLS;
    }
    let encoding = match column.values {
        ValuesRef::I64(values) => {
            with_present(values, validity, |values| encode_integers(values, set, out))
        }
        ValuesRef::U64(values) => {
            let mut latents = [0; BLOCK_ROWS_MAX];
            for (latent, value) in latents.iter_mut().zip(values) {
                *latent = *value as i64;
            }
            with_present(&latents[..rows], validity, |values| {
                encode_integers(values, set, out)
            })
        }
        ValuesRef::F64(values) => {
            with_present(values, validity, |values| float::encode(values, set, out))
        }
        ValuesRef::Bool(values) => {
            with_present(values, validity, |values| boolean::encode(values, out))
        }
        ValuesRef::Text { offsets, bytes } => {
            text::encode(&text::Rows::new(offsets, bytes, validity, true)?, set, out)
        }
        ValuesRef::Bytes { offsets, bytes } => {
            text::encode(&text::Rows::new(offsets, bytes, validity, false)?, set, out)
        }
    };
    out[start] = encoding as u8;
    Ok(())
}

/// Appends the null bitmap and answers with it, unless no row is null.
fn encode_validity<'a>(
    bitmap: &'a [u8],
    rows: usize,
    out: &mut Vec<u8>,
) -> Result<Option<&'a [u8]>, Error> {
    let bitmap = bitmap.get(..rows.div_ceil(8)).ok_or(Error::InvalidColumn {
        what: "the validity bitmap has fewer bits than the column has rows",
    })?;
    let start = out.len();
    out.extend_from_slice(bitmap);
    // The caller's bits past the last row may be anything; those of the page are zero.
    if let Some(last) = out.last_mut() {
        *last &= padding_mask(rows);
    }
    if count_ones(&out[start..]) == rows {
        out.truncate(start);
        return Ok(None);
    }
    Ok(Some(bitmap))
}

/// Runs `encode` on the present values. None at all is encoding 0 with an empty body.
fn with_present<T: Copy + Default>(
    values: &[T],
    validity: Option<&[u8]>,
    encode: impl FnOnce(&[T]) -> Encoding,
) -> Encoding {
    let Some(bitmap) = validity else {
        return encode(values);
    };
    let mut present = [T::default(); BLOCK_ROWS_MAX];
    let mut n = 0;
    for (row, value) in values.iter().enumerate() {
        // Written always, kept only if present: no branch to mispredict.
        present[n] = *value;
        n += usize::from(is_set(bitmap, row));
    }
    if n == 0 {
        Encoding::Constant
    } else {
        encode(&present[..n])
    }
}

fn encode_integers(values: &[i64], set: PageSet, out: &mut Vec<u8>) -> Encoding {
    let plan = integer::plan(values, set);
    plan.encode_body(values, out);
    plan.encoding()
}

/// Reads what a page says of itself, without decoding it.
pub fn page_header(page: &[u8]) -> Result<PageHeader, Error> {
    let [encoding, type_and_flags, rows @ ..] =
        *page.first_chunk::<HEADER_BYTES>().ok_or(Error::Truncated)?;
    let rows = usize::from(u16::from_le_bytes(rows));
    let header = PageHeader {
        physical_type: PhysicalType::try_from(type_and_flags & !HAS_NULLS)?,
        encoding: Encoding::try_from(encoding)?,
        rows,
        has_nulls: type_and_flags & HAS_NULLS != 0,
    };
    if rows == 0 || rows > BLOCK_ROWS_MAX {
        return Err(Error::LimitRows { rows });
    }
    Ok(header)
}

/// A page in bytes: what is known of it, and what stands behind that.
///
/// A page says of itself what it is. One whose type and rows are known to whoever stores it may stand there in short, three bytes
/// less: of its header it has one byte, the encoding and whether nulls follow. Where few rows are null these are positions.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    header: PageHeader,
    nulls: Nulls<'a>,
    body: &'a [u8],
}

impl<'a> Page<'a> {
    /// A page that says of itself what it is.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = page_header(bytes)?;
        let mut body = &bytes[HEADER_BYTES..];
        let nulls = if header.has_nulls {
            Nulls::take_bitmap(&mut body, header.rows)?
        } else {
            Nulls::None
        };
        Ok(Self {
            header,
            nulls,
            body,
        })
    }

    /// A page in short, of so many rows of this type.
    pub fn of_short(
        bytes: &'a [u8],
        physical_type: PhysicalType,
        rows: usize,
    ) -> Result<Self, Error> {
        let (first, mut body) = bytes.split_first().ok_or(Error::Truncated)?;
        if rows == 0 || rows > BLOCK_ROWS_MAX {
            return Err(Error::LimitRows { rows });
        }
        let nulls = match first & (HAS_NULLS | HAS_POSITIONS) {
            0 => Nulls::None,
            HAS_NULLS => Nulls::take_bitmap(&mut body, rows)?,
            HAS_POSITIONS => return Err(Error::corrupt("positions of nulls without nulls")),
            _ => Nulls::take_positions(&mut body, rows)?,
        };
        let header = PageHeader {
            physical_type,
            encoding: Encoding::try_from(first & !(HAS_NULLS | HAS_POSITIONS))?,
            rows,
            has_nulls: first & HAS_NULLS != 0,
        };
        Ok(Self {
            header,
            nulls,
            body,
        })
    }

    /// What is known of it.
    pub fn header(&self) -> PageHeader {
        self.header
    }

    /// Rows that are null.
    pub fn nulls(&self) -> usize {
        self.nulls.count(self.header.rows)
    }

    /// Whether it can be decoded only with the header that its column shares. Such a page is never copied without it.
    pub fn needs_header(&self) -> bool {
        self.header.encoding == Encoding::Pco
    }

    /// Appends it as a page that says of itself what it is.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let nulls = if self.header.has_nulls { HAS_NULLS } else { 0 };
        let kind = self.header.physical_type as u8 | nulls;
        out.extend_from_slice(&[self.header.encoding as u8, kind]);
        out.extend_from_slice(&(self.header.rows as u16).to_le_bytes());
        self.nulls.put_bitmap(self.header.rows, out)?;
        out.extend_from_slice(self.body);
        Ok(())
    }

    /// Appends it in short.
    pub fn put_short(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(self.header.encoding as u8);
        if self.header.has_nulls {
            out[start] |= HAS_NULLS;
        }
        if self.nulls.put_short(self.header.rows, out) {
            out[start] |= HAS_POSITIONS;
        }
        out.extend_from_slice(self.body);
    }

    /// Decodes all of it, and replaces the content of `out`; `shared` is the header that the pages of its column share, if they
    /// have one. After an error `out` has no rows.
    pub fn decode(&self, shared: Option<&SharedHeader>, out: &mut ColumnBuf) -> Result<(), Error> {
        out.rows = 0;
        out.has_nulls = false;
        let header = self.header;
        out.physical_type = header.physical_type;
        let mut input = self.body;
        let rows = header.rows;
        if header.has_nulls {
            out.validity.clear();
            self.nulls.put_bitmap(rows, &mut out.validity)?;
        }
        let present = rows - self.nulls();
        decode_values(header, shared, present, &mut input, out)?;
        if !input.is_empty() {
            return Err(Error::corrupt("bytes after the last value"));
        }
        out.rows = rows;
        out.has_nulls = header.has_nulls;
        Ok(())
    }

    /// The same of at least the first `rows` rows, where that takes less than all of them; how many there are is what `out` says.
    /// What comes after them is not looked at.
    pub fn decode_rows(
        &self,
        rows: usize,
        shared: Option<&SharedHeader>,
        out: &mut ColumnBuf,
    ) -> Result<(), Error> {
        let header = self.header;
        if header.encoding == Encoding::Pco && !header.has_nulls && rows > 0 {
            let first = rows.next_multiple_of(shared::FIRST_STEP);
            let is_less = first < header.rows;
            if is_less && self.decode_first_in_pco(first, shared, out)? {
                return Ok(());
            }
            return self.decode(shared, out);
        }
        let is_integer = matches!(header.physical_type, PhysicalType::I64 | PhysicalType::U64);
        if !is_integer || header.has_nulls || rows >= header.rows || rows == 0 {
            return self.decode(shared, out);
        }
        out.rows = 0;
        out.has_nulls = false;
        out.physical_type = header.physical_type;
        out.i64s.resize(rows, 0);
        let mut input = self.body;
        let values = &mut out.i64s[..rows];
        if !integer::decode_first(header.encoding, &mut input, header.rows, values)? {
            return self.decode(shared, out);
        }
        if header.physical_type == PhysicalType::U64 {
            out.u64s.clear();
            out.u64s
                .extend(out.i64s.iter().map(|latent| *latent as u64));
        }
        out.rows = rows;
        Ok(())
    }

    /// The first `rows` of a page in pco without nulls; false = they are not to be had without the others.
    fn decode_first_in_pco(
        &self,
        rows: usize,
        shared: Option<&SharedHeader>,
        out: &mut ColumnBuf,
    ) -> Result<bool, Error> {
        out.rows = 0;
        out.has_nulls = false;
        out.physical_type = self.header.physical_type;
        let slots = match self.header.physical_type {
            PhysicalType::I64 => {
                out.i64s.resize(rows, 0);
                Slots::I64(&mut out.i64s)
            }
            PhysicalType::U64 => {
                out.u64s.resize(rows, 0);
                Slots::U64(&mut out.u64s)
            }
            PhysicalType::F64 => {
                out.f64s.resize(rows, 0.0);
                Slots::F64(&mut out.f64s, &mut out.i64s)
            }
            _ => return Ok(false),
        };
        let all = self.header.rows;
        let is_done = shared::decode_first(shared, self.body, all, slots, &mut out.room)?;
        if is_done {
            out.rows = rows;
        }
        Ok(is_done)
    }
}

/// Shortens the page at the end of `out`, which begins at `start` and says of itself what it is ([`Page::of_short`]).
pub fn shorten_page(out: &mut Vec<u8>, start: usize) -> Result<(), Error> {
    let page = Page::new(out.get(start..).ok_or(Error::Truncated)?)?;
    if page.header.has_nulls {
        let mut short = Vec::new();
        page.put_short(&mut short);
        out.truncate(start);
        out.extend_from_slice(&short);
    } else {
        // Only the first bytes go.
        out.drain(start + 1..start + HEADER_BYTES);
    }
    Ok(())
}

/// Whether a page can be decoded only with the header that its column shares. Such a page is never copied without it.
pub fn needs_header(page: &[u8]) -> bool {
    Page::new(page).is_ok_and(|page| page.needs_header())
}

/// Where the body of a page begins that this version wrote.
#[cfg(feature = "pco")]
pub(crate) fn body_start(page: &[u8]) -> usize {
    let bitmap = match page_header(page) {
        Ok(header) if header.has_nulls => header.rows.div_ceil(8),
        _ => 0,
    };
    HEADER_BYTES + bitmap
}

/// Decodes one page that needs no shared header, all of `page`, and replaces the content of `out`.
///
/// After an error `out` has no rows.
pub fn decode_page(page: &[u8], out: &mut ColumnBuf) -> Result<(), Error> {
    decode_page_with(page, None, out)
}

/// The same of any page; `shared` is the header that the pages of its column share, if they have one.
pub fn decode_page_with(
    page: &[u8],
    shared: Option<&SharedHeader>,
    out: &mut ColumnBuf,
) -> Result<(), Error> {
    out.rows = 0;
    out.has_nulls = false;
    Page::new(page)?.decode(shared, out)
}

/// The same of at least the first `rows` rows, where that takes less than all of them; how many there are is what `out` says.
/// What comes after them is not looked at.
pub fn decode_page_rows(page: &[u8], rows: usize, out: &mut ColumnBuf) -> Result<(), Error> {
    decode_page_rows_with(page, rows, None, out)
}

/// The same of any page, as [`decode_page_with`].
pub fn decode_page_rows_with(
    page: &[u8],
    rows: usize,
    shared: Option<&SharedHeader>,
    out: &mut ColumnBuf,
) -> Result<(), Error> {
    Page::new(page)?.decode_rows(rows, shared, out)
}

fn decode_values(
    header: PageHeader,
    header_of_column: Option<&SharedHeader>,
    present: usize,
    input: &mut &[u8],
    out: &mut ColumnBuf,
) -> Result<(), Error> {
    let PageHeader { encoding, rows, .. } = header;
    if present == 0 && encoding != Encoding::Constant {
        return Err(Error::corrupt("a page without values names an encoding"));
    }
    let validity = header.has_nulls.then_some(out.validity.as_slice());
    match header.physical_type {
        PhysicalType::I64 => {
            out.i64s.resize(rows, 0);
            let slots = &mut out.i64s[..present];
            if encoding == Encoding::Pco {
                shared::decode(header_of_column, input, Slots::I64(slots), &mut out.room)?;
            } else if present > 0 {
                integer::decode_body(encoding, input, slots)?;
            }
            spread(&mut out.i64s, present, validity);
        }
        PhysicalType::U64 => {
            out.u64s.resize(rows, 0);
            if encoding == Encoding::Pco {
                let slots = Slots::U64(&mut out.u64s[..present]);
                shared::decode(header_of_column, input, slots, &mut out.room)?;
            } else if present > 0 {
                out.i64s.resize(rows, 0);
                integer::decode_body(encoding, input, &mut out.i64s[..present])?;
                for (value, latent) in out.u64s.iter_mut().zip(&out.i64s[..present]) {
                    *value = *latent as u64;
                }
            }
            spread(&mut out.u64s, present, validity);
        }
        PhysicalType::F64 => {
            out.f64s.resize(rows, 0.0);
            let slots = &mut out.f64s[..present];
            if encoding == Encoding::Pco {
                let slots = Slots::F64(slots, &mut out.i64s);
                shared::decode(header_of_column, input, slots, &mut out.room)?;
            } else if present > 0 {
                float::decode(encoding, input, &mut out.i64s, slots)?;
            }
            spread(&mut out.f64s, present, validity);
        }
        PhysicalType::Bool => {
            out.bools.resize(rows, false);
            if present > 0 {
                boolean::decode(encoding, input, &mut out.i64s, &mut out.bools[..present])?;
            }
            spread(&mut out.bools, present, validity);
        }
        PhysicalType::Text | PhysicalType::Bytes => {
            out.offsets.clear();
            out.bytes.clear();
            out.offsets.push(0);
            if present > 0 {
                text::decode(encoding, input, present, out)?;
            }
            let validity = header.has_nulls.then_some(out.validity.as_slice());
            let end = out.offsets[present];
            out.offsets.resize(rows + 1, end);
            if let Some(bitmap) = validity {
                let mut next = present;
                for row in (0..rows).rev() {
                    out.offsets[row + 1] = out.offsets[next];
                    next -= usize::from(is_set(bitmap, row));
                }
            }
        }
    }
    Ok(())
}

/// Moves the first `present` slots to the rows that have a value, and clears the others.
fn spread<T: Copy + Default>(slots: &mut [T], present: usize, validity: Option<&[u8]>) {
    let Some(bitmap) = validity else { return };
    let mut next = present;
    // From the end, so that no value is overwritten before it has moved.
    for row in (0..slots.len()).rev() {
        slots[row] = if is_set(bitmap, row) {
            next -= 1;
            slots[next]
        } else {
            T::default()
        };
    }
}

/// The bits of the last bitmap byte that stand for rows.
fn padding_mask(rows: usize) -> u8 {
    match rows % 8 {
        0 => 0xff,
        bits => (1 << bits) - 1,
    }
}

fn count_ones(bitmap: &[u8]) -> usize {
    bitmap.iter().map(|byte| byte.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every encoding of integers, with and without patches, cut anywhere.
    #[test]
    fn the_first_rows_of_a_page_are_those_of_all() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as i64
        };
        let kinds = 7;
        for round in 0..20 * kinds {
            let n = 1 + (next() as usize) % BLOCK_ROWS_MAX;
            let mut sum = next() >> 20;
            let values: Vec<i64> = (0..n as i64)
                .map(|at| match round % kinds {
                    0 => 7,
                    1 => at * 10,
                    2 => next() >> 56,
                    3 => {
                        let odd = if next() % 32 == 0 { next() >> 30 } else { 0 };
                        (next() >> 58) + odd
                    }
                    4 => {
                        let odd = if next() % 32 == 0 { next() >> 30 } else { 0 };
                        sum += (next() >> 60) + odd;
                        sum
                    }
                    5 => at / 50,
                    _ => next(),
                })
                .collect();
            let unsigned: Vec<u64> = values.iter().map(|value| *value as u64).collect();
            for is_unsigned in [false, true] {
                let values_ref = if is_unsigned {
                    ValuesRef::U64(&unsigned)
                } else {
                    ValuesRef::I64(&values)
                };
                let mut page = Vec::new();
                let column = ColumnRef {
                    values: values_ref,
                    validity: None,
                };
                encode_page(column, &mut page).unwrap();
                let mut out = ColumnBuf::default();
                for rows in [1, n / 3, n - n / 5, n - 1, n, n + 1, 63, 64, 65] {
                    decode_page_rows(&page, rows, &mut out).unwrap();
                    let there = out.rows();
                    assert!((rows.min(n)..=n).contains(&there), "{rows} of {n}: {there}");
                    if is_unsigned {
                        assert_eq!(out.u64s(), &unsigned[..there]);
                    } else {
                        assert_eq!(out.i64s(), &values[..there]);
                    }
                }
            }
        }
    }
}
