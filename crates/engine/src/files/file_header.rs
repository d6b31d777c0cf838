//! File headers: kind, format number and store of every file.
//!
//! ```text
//! magic 8 B | format u16 | cipher u16 | key id u32 | uuid of the data directory 16 B | own fields | crc u32 | zeros
//! ```
//!
//! The own fields differ by kind; see `docs/format`. This place never moves, so that every version can tell a file of
//! a newer one from a damaged file. Each kind of file counts its formats by itself; the number rises with every change
//! of its bytes that the version before would take for damage.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::definition::take_bytes;
use crate::error::{Error, Malformed};

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFormat {
    /// What it starts with.
    pub(crate) magic: [u8; 8],
    /// The format that is written, and the highest that is read.
    pub(crate) format: u16,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header<const N: usize> {
    /// The file's format.
    pub(crate) format: Format,
    /// The data directory's.
    pub(crate) uuid: [u8; 16],
    pub(crate) own: [u8; N],
}

/// The format of a file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    found: u16,
    written: u16,
}

impl Format {
    /// That of a file as it is written now.
    #[cfg(test)]
    pub(crate) fn of(kind: FileFormat) -> Self {
        Self {
            found: kind.format,
            written: kind.format,
        }
    }

    /// The number in its header.
    pub(crate) fn found(self) -> u16 {
        self.found
    }

    /// What is wrong with bytes that pass their checksum and do not decode. No disk does that: in a file of an earlier
    /// format they are of a form that this version does not read any more, and nothing is damaged.
    pub(crate) fn refuse(self, what: Malformed, path: &Path, offset: u64) -> Error {
        if self.found < self.written {
            Error::OlderFormat {
                path: path.to_owned(),
                found: self.found,
                written: self.written,
                reason: what.0,
            }
        } else {
            what.at(path, offset)
        }
    }
}

/// A header of `length` bytes.
pub(crate) fn encode(kind: FileFormat, uuid: [u8; 16], own: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&kind.magic);
    out.extend_from_slice(&kind.format.to_le_bytes());
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

/// Checks the header that `bytes` start with.
pub(crate) fn decode<const N: usize>(
    bytes: &[u8],
    kind: FileFormat,
    path: &Path,
) -> Result<Header<N>, Error> {
    let start = read::<N>(bytes, kind.magic).map_err(|what| what.at(path, 0))?;
    if start.format > kind.format {
        return Err(Error::NewerFormat {
            path: path.to_owned(),
            found: start.format,
            supported: kind.format,
        });
    }
    if start.cipher != 0 {
        return Err(Error::UnknownCipher {
            path: path.to_owned(),
            cipher: start.cipher,
        });
    }
    Ok(Header {
        format: Format {
            found: start.format,
            written: kind.format,
        },
        uuid: start.uuid,
        own: start.own,
    })
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
