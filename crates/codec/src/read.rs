//! Taking bytes off the front of an input, with the one answer for an input that is too short.

use crate::Error;

/// Takes `n` bytes off the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8], Error> {
    let (head, rest) = input.split_at_checked(n).ok_or(Error::Truncated)?;
    *input = rest;
    Ok(head)
}

/// Takes one byte off the front of `input`.
pub(crate) fn take_u8(input: &mut &[u8]) -> Result<u8, Error> {
    let (&byte, rest) = input.split_first().ok_or(Error::Truncated)?;
    *input = rest;
    Ok(byte)
}
