//! What every file of a store starts with: its kind, its format, its owner.
//!
//! ```text
//! magic 8 B | format u16 | cipher u16 | key id u32 | uuid of the data directory 16 B | own fields | crc u32 | zeros
//! ```
//!
//! The own fields differ by kind; see `docs/format`. This place never moves, so that every version can tell a file of
//! a newer one from a damaged file.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::definition::take_bytes;
use crate::error::{Error, Malformed};

/// The format of log, segments, definition files and manifest.
const FORMAT: u16 = 0;

/// A header of `length` bytes.
pub(crate) fn encode(magic: [u8; 8], uuid: [u8; 16], own: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&magic);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    // Cipher id and key id: 0 = plain.
    out.extend_from_slice(&0u16.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&uuid);
    out.extend_from_slice(own);
    let crc = crc32c(0, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.resize(length, 0);
    out
}

/// Checks the header that `bytes` start with; returns the data directory's UUID and the `N` own bytes.
pub(crate) fn decode<const N: usize>(
    bytes: &[u8],
    magic: [u8; 8],
    path: &Path,
) -> Result<([u8; 16], [u8; N]), Error> {
    let start = read::<N>(bytes, magic).map_err(|what| what.at(path, 0))?;
    if start.format > FORMAT {
        return Err(Error::NewerFormat {
            path: path.to_owned(),
            found: start.format,
            supported: FORMAT,
        });
    }
    if start.cipher != 0 {
        return Err(Error::UnknownCipher {
            path: path.to_owned(),
            cipher: start.cipher,
        });
    }
    Ok((start.uuid, start.own))
}

struct Start<const N: usize> {
    format: u16,
    cipher: u16,
    uuid: [u8; 16],
    own: [u8; N],
}

fn read<const N: usize>(bytes: &[u8], magic: [u8; 8]) -> Result<Start<N>, Malformed> {
    let mut input = bytes;
    if take(&mut input)? != magic {
        return Err(Malformed::new(
            "the header does not start as one of this kind of file",
        ));
    }
    let format = u16::from_le_bytes(take(&mut input)?);
    let cipher = u16::from_le_bytes(take(&mut input)?);
    let _key_id = take::<4>(&mut input)?;
    let uuid = take(&mut input)?;
    let own = take(&mut input)?;
    let covered = bytes.len() - input.len();
    let crc = u32::from_le_bytes(take(&mut input)?);
    if crc != crc32c(0, bytes.get(..covered).unwrap_or_default()) {
        return Err(Malformed::new("the header fails its checksum"));
    }
    Ok(Start {
        format,
        cipher,
        uuid,
        own,
    })
}

/// The next `N` bytes.
pub(crate) fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let bytes = take_bytes(input, N)?;
    bytes
        .try_into()
        .map_err(|_| Malformed::new("unexpected end"))
}
