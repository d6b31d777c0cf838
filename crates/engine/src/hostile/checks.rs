//! Common parts of the attacks on decoders, and their check.

use crate::error::Malformed;

/// Whose the files are that the targets make.
pub(crate) const SEED_UUID: [u8; 16] = [7; 16];

/// Parts of the input, each behind its length in two bytes.
pub(crate) fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        all.push(piece);
        bytes = rest;
    }
    all
}

/// What decodes must encode, and decode again to what encodes to the same bytes.
pub(crate) fn agrees<T>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(first) = decode(bytes) else { return };
    let written = encode(&first);
    let Ok(second) = decode(&written) else {
        panic!("what was decoded and encoded does not decode")
    };
    assert!(
        encode(&second) == written,
        "what was decoded twice is not the same"
    );
}
