//! Numbers and texts as they stand in definitions, and in what is written like them.

use nilometer_codec::varint;

use crate::error::Malformed;

pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    varint::put_u64(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn take_byte(input: &mut &[u8]) -> Result<u8, Malformed> {
    let (&first, rest) = input
        .split_first()
        .ok_or_else(|| Malformed::new("unexpected end"))?;
    *input = rest;
    Ok(first)
}

pub(crate) fn take_u32(input: &mut &[u8]) -> Result<u32, Malformed> {
    let value = varint::get_u64(input)?;
    u32::try_from(value).map_err(|_| Malformed::new(format!("number {value} exceeds 32 bits")))
}

pub(crate) fn take_bytes<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8], Malformed> {
    let (bytes, rest) = input
        .split_at_checked(n)
        .ok_or_else(|| Malformed::new("unexpected end"))?;
    *input = rest;
    Ok(bytes)
}

pub(crate) fn take_text(input: &mut &[u8]) -> Result<String, Malformed> {
    let n = take_u32(input)? as usize;
    let bytes = take_bytes(input, n)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::new("text is not UTF-8"))?;
    Ok(text.to_owned())
}
