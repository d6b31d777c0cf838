//! Side files that are read whole or not at all: a header, a payload, one checksum over both.
//!
//! ```text
//! header 64 B, own fields: file id u64, number u64 | payload | crc u32 of everything before
//! ```
//!
//! Does: write, sync, read and check. Does not: know what the payload or the number mean, or sync the folder's names.
//! Kinds: `docs/format/keys.md`, `docs/format/relations.md`.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header::{self, Kind};

const HEADER_BYTES: usize = 64;

/// What the header says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    /// The data directory's.
    pub(crate) uuid: [u8; 16],
    /// The one in its name.
    pub(crate) file_id: u64,
}

/// Writes and syncs a file; returns its size.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    identity: Identity,
    number: u64,
    payload: &[u8],
) -> Result<u64, Error> {
    let mut own = Vec::with_capacity(16);
    own.extend_from_slice(&identity.file_id.to_le_bytes());
    own.extend_from_slice(&number.to_le_bytes());
    let mut bytes = file_header::encode(identity.kind, identity.uuid, &own, HEADER_BYTES);
    bytes.extend_from_slice(payload);
    let crc = crc32c(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let file = disk.create(path).map_err(Error::io("create", path))?;
    write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", path))?;
    file.sync().map_err(Error::io("sync", path))?;
    Ok(bytes.len() as u64)
}

/// Reads a file and hands its number and its payload to `decode`, after both were checked.
pub(crate) fn read<T>(
    disk: &dyn Disk,
    path: &Path,
    identity: Identity,
    decode: impl FnOnce(u64, &[u8]) -> Result<T, Malformed>,
) -> Result<T, Error> {
    let file = disk.open(path).map_err(Error::io("open", path))?;
    let size = file.size().map_err(Error::io("read", path))?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", path))?;
    let header = file_header::decode::<16>(&bytes, identity.kind, path)?;
    let mut own = header.own.as_slice();
    let (id, number) = (take_u64(&mut own), take_u64(&mut own));
    if header.uuid != identity.uuid || id != identity.file_id {
        return Err(Error::corrupt(
            path,
            0,
            "the file belongs to another data directory or has another id",
        ));
    }
    let at = HEADER_BYTES as u64;
    let payload = checked_payload(&bytes).map_err(|what| what.at(path, at))?;
    decode(number, payload).map_err(|what| header.format.refuse(what, path, at))
}

fn take_u64(own: &mut &[u8]) -> u64 {
    let taken = file_header::take(own).expect("the own fields are two numbers");
    u64::from_le_bytes(taken)
}

fn checked_payload(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let (covered, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| Malformed::new("the file ends early"))?;
    if crc32c(0, covered) != u32::from_le_bytes(*crc) {
        return Err(Malformed::new("the file fails its checksum"));
    }
    covered
        .get(HEADER_BYTES..)
        .ok_or_else(|| Malformed::new("the file ends early"))
}
