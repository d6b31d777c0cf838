//! Definition files: what gave names their ids, for the part of the log that is gone. See `docs/format/definitions.md`.

use std::path::Path;

use nilometer_codec::crc32c;

use crate::definition::{Definition, take_bytes};
use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::error::{Error, Malformed};

const MAGIC: &[u8; 8] = b"NILODEF0";
const FORMAT: u16 = 0;
const HEADER_BYTES: usize = 48;
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
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    // Cipher id and key id: 0 = plain.
    bytes.extend_from_slice(&0u16.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&uuid);
    bytes.extend_from_slice(&file_id.to_le_bytes());
    let packed = zstd::bulk::compress(entries, ZSTD_LEVEL).map_err(Error::io("compress", path))?;
    let inflated = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    bytes.extend_from_slice(&inflated.to_le_bytes());
    bytes.extend_from_slice(&packed);
    let crc = crc32c(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let file = disk.create(path).map_err(Error::io("create", path))?;
    write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", path))?;
    file.sync().map_err(Error::io("sync", path))?;
    Ok(bytes.len() as u64)
}

/// Reads a file of definitions.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
) -> Result<Vec<Definition>, Error> {
    let file = disk.open(path).map_err(Error::io("open", path))?;
    let size = file.size().map_err(Error::io("read", path))?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", path))?;
    decode(&bytes, uuid, file_id).map_err(|what| what.at(path, 0))
}

fn decode(bytes: &[u8], uuid: [u8; 16], file_id: u64) -> Result<Vec<Definition>, Malformed> {
    let (covered, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| Malformed::new("the file ends early"))?;
    if crc32c(0, covered) != u32::from_le_bytes(*crc) {
        return Err(Malformed::new("the file fails its checksum"));
    }
    let mut input = covered;
    let magic = take_bytes(&mut input, 8)?;
    let format = take_bytes(&mut input, 2)?;
    let _cipher = take_bytes(&mut input, 6)?;
    let owner = take_bytes(&mut input, 16)?;
    let id = take_bytes(&mut input, 8)?;
    let inflated = take_bytes(&mut input, 8)?;
    if magic != MAGIC || format != FORMAT.to_le_bytes() {
        return Err(Malformed::new("not a definition file of this version"));
    }
    if owner != uuid || id != file_id.to_le_bytes() {
        return Err(Malformed::new(
            "the file belongs to another data directory or has another id",
        ));
    }
    let inflated = inflated.try_into().map_or(0, u64::from_le_bytes);
    let inflated = usize::try_from(inflated).map_err(|_| Malformed::new("inflated size"))?;
    let entries = zstd::bulk::decompress(input, inflated)
        .map_err(|_| Malformed::new("the entries do not inflate"))?;
    Definition::decode_all(&entries)
}
