//! Definition files: what gave names their ids, for the part of the log that is gone. See `docs/format/definitions.md`.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::definition::Definition;
use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header::{self, Kind};

pub(crate) const KIND: Kind = Kind {
    magic: *b"NILODEF0",
    format: 1,
};
const HEADER_BYTES: usize = 64;
/// The default: definitions are written once and read at each open.
const ZSTD_LEVEL: i32 = 3;

/// Writes and syncs a file of encoded definitions; returns its size. The folder's names are the caller's to sync.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    entries: &[u8],
) -> Result<u64, Error> {
    let packed = zstd::bulk::compress(entries, ZSTD_LEVEL).map_err(Error::io("compress", path))?;
    let inflated = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    let mut own = Vec::with_capacity(16);
    own.extend_from_slice(&file_id.to_le_bytes());
    own.extend_from_slice(&inflated.to_le_bytes());
    let mut bytes = file_header::encode(KIND, uuid, &own, HEADER_BYTES);
    bytes.extend_from_slice(&packed);
    let crc = crc32c(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let file = disk.create(path).map_err(Error::io("create", path))?;
    write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", path))?;
    file.sync().map_err(Error::io("sync", path))?;
    Ok(bytes.len() as u64)
}

/// Reads a file of definitions and hands them on one by one: a file may define a million series.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    apply: &mut dyn FnMut(&Definition) -> Result<(), Malformed>,
) -> Result<(), Error> {
    let file = disk.open(path).map_err(Error::io("open", path))?;
    let size = file.size().map_err(Error::io("read", path))?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", path))?;
    let header = file_header::decode::<16>(&bytes, KIND, path)?;
    let (id, inflated) = header.own.split_at(8);
    if header.uuid != uuid || id != file_id.to_le_bytes() {
        return Err(Error::corrupt(
            path,
            0,
            "the file belongs to another data directory or has another id",
        ));
    }
    let entries = inflate(&bytes, inflated).map_err(|what| what.at(path, HEADER_BYTES as u64))?;
    drop(bytes);
    decode(&entries, apply).map_err(|what| header.format.refuse(what, path, HEADER_BYTES as u64))
}

fn inflate(bytes: &[u8], inflated: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (covered, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| Malformed::new("the file ends early"))?;
    if crc32c(0, covered) != u32::from_le_bytes(*crc) {
        return Err(Malformed::new("the file fails its checksum"));
    }
    let packed = covered
        .get(HEADER_BYTES..)
        .ok_or_else(|| Malformed::new("the file ends early"))?;
    let mut entries = Vec::new();
    // Inflated piece by piece, so that memory grows with what comes out and not with what the header says.
    zstd::stream::copy_decode(packed, &mut entries)
        .map_err(|_| Malformed::new("the entries do not inflate"))?;
    if (entries.len() as u64).to_le_bytes() != inflated {
        return Err(Malformed::new(
            "the entries inflate to another size than the header says",
        ));
    }
    Ok(entries)
}

fn decode(
    mut entries: &[u8],
    apply: &mut dyn FnMut(&Definition) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !entries.is_empty() {
        apply(&Definition::decode(&mut entries)?)?;
    }
    Ok(())
}
