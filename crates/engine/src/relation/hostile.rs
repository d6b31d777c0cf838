//! Bytes from anywhere for relations; see `crate::hostile`.

use super::{decode_changes, encode_changes, file};
use crate::error::Malformed;
use crate::hostile::agrees;

pub(crate) fn file(bytes: &[u8]) {
    agrees(
        bytes,
        |bytes| file::decode(7, file::KIND.format, bytes),
        |relation| file::encode(relation).expect("a decoded relation is valid"),
    );
}

pub(crate) fn changes(bytes: &[u8]) {
    let decode = |mut bytes: &[u8]| {
        let changes = decode_changes(&mut bytes)?;
        if bytes.is_empty() {
            Ok(changes)
        } else {
            Err(Malformed::new("bytes after them"))
        }
    };
    agrees(bytes, decode, |changes| {
        let mut out = Vec::new();
        encode_changes(changes, &mut out).expect("decoded changes are valid");
        out
    });
}
