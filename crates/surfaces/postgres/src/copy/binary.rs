//! COPY in binary: a signature, then tuples of values with their lengths.

use bytes::Buf;

use super::format::SIGNATURE;
use crate::sqlstate::{BAD_COPY, Refused};

/// A flag that says that each row has its number, which no version of today writes.
const HAS_OIDS: u32 = 1 << 16;
/// Flags that say what older readers would not understand.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// The length of the header, when it has come whole.
pub(super) fn header(bytes: &[u8]) -> Result<Option<usize>, Refused> {
    let begins = bytes.len().min(SIGNATURE.len());
    if bytes.get(..begins) != SIGNATURE.get(..begins) {
        return Err(Refused::new(BAD_COPY, "COPY file signature not recognized"));
    }
    let Some(mut rest) = bytes.get(SIGNATURE.len()..SIGNATURE.len() + 8) else {
        return Ok(None);
    };
    let (flags, more) = (rest.get_u32(), rest.get_i32());
    if flags & CRITICAL_FLAGS & !HAS_OIDS != 0 {
        return Err(Refused::new(
            BAD_COPY,
            "unrecognized critical flags in COPY file header",
        ));
    }
    if flags & HAS_OIDS != 0 {
        return Err(Refused::new(
            BAD_COPY,
            "invalid COPY file header (WITH OIDS)",
        ));
    }
    let Ok(more) = usize::try_from(more) else {
        return Err(Refused::new(
            BAD_COPY,
            "invalid COPY file header (missing length)",
        ));
    };
    let length = SIGNATURE.len() + 8 + more;
    Ok((bytes.len() >= length).then_some(length))
}

/// A row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tuple {
    /// Its values have been given, and it takes so many bytes.
    Row(usize),
    /// There is no further one.
    End,
    /// It has not come whole.
    Cut,
}

/// The values of the next row of so many.
pub(super) fn tuple<'a>(
    bytes: &'a [u8],
    columns: usize,
    values: &mut Vec<Option<&'a [u8]>>,
) -> Result<Tuple, Refused> {
    values.clear();
    let Some((count, mut rest)) = bytes.split_first_chunk() else {
        return Ok(Tuple::Cut);
    };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Tuple::End);
    }
    if usize::try_from(count) != Ok(columns) {
        return Err(Refused::new(
            BAD_COPY,
            format!("row field count is {count}, expected {columns}"),
        ));
    }
    for _ in 0..columns {
        let Some((length, after)) = rest.split_first_chunk() else {
            return Ok(Tuple::Cut);
        };
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            values.push(None);
            rest = after;
            continue;
        }
        let length =
            usize::try_from(length).map_err(|_| Refused::new(BAD_COPY, "invalid field size"))?;
        let Some((value, after)) = after.split_at_checked(length) else {
            return Ok(Tuple::Cut);
        };
        values.push(Some(value));
        rest = after;
    }
    Ok(Tuple::Row(bytes.len() - rest.len()))
}
