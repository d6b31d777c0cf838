//! Side files that are read whole or not at all: a header, a payload, one checksum over both.
//!
//! ```text
//! header 64 B, own fields: file id u64, number u64 | payload | crc u32 of everything before
//! ```
//!
//! Does: write, sync, read and check. Does not: know what the payload or the number mean, or sync the folder's names.
//! Kinds: `docs/format/keys.md`, `docs/format/relations.md`, `docs/format/scrub.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::crc32c;

use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header::{self, Kind};

const HEADER_BYTES: usize = 64;
const CRC_BYTES: usize = 4;
/// What is read at once of a file that is only checked.
const PIECE_BYTES: u64 = 1 << 20;

const STRANGER: &str = "the file belongs to another data directory or has another id";
const FAILED: &str = "the file fails its checksum";

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
        return Err(Error::corrupt(path, 0, STRANGER));
    }
    let at = HEADER_BYTES as u64;
    let payload = checked_payload(&bytes).map_err(|what| what.at(path, at))?;
    decode(number, payload).map_err(|what| header.format.refuse(what, path, at))
}

/// Such a file on its way to being read for the sake of its checksum, a piece at a time. Files of definitions are laid out
/// so too.
#[derive(Debug)]
pub(crate) struct Reading {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
    at: u64,
    crc: u32,
}

impl Reading {
    /// Opens a file that the manifest lists with this size, and checks its header.
    pub(crate) fn start(
        disk: &dyn Disk,
        path: &Path,
        kind: Kind,
        (uuid, file_id): ([u8; 16], u64),
        bytes: u64,
    ) -> Result<Self, Error> {
        let file = disk.open(path).map_err(Error::io("open", path))?;
        let size = file.size().map_err(Error::io("read", path))?;
        if size != bytes || size < (HEADER_BYTES + CRC_BYTES) as u64 {
            let reason = format!("the file has {size} bytes, the manifest says {bytes}");
            return Err(Error::corrupt(path, size, reason));
        }
        let mut header = [0; HEADER_BYTES];
        read_exact_at(file.as_ref(), &mut header, 0).map_err(Error::io("read", path))?;
        let header = file_header::decode::<16>(&header, kind, path)?;
        if header.uuid != uuid || take_u64(&mut header.own.as_slice()) != file_id {
            return Err(Error::corrupt(path, 0, STRANGER));
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            bytes,
            at: 0,
            crc: 0,
        })
    }

    /// Reads on, so many bytes at most; returns how many. At the end the checksum is compared.
    pub(crate) fn some(&mut self, bytes_max: u64) -> Result<u64, Error> {
        let covered = self.bytes - CRC_BYTES as u64;
        let length = bytes_max.clamp(1, PIECE_BYTES).min(covered - self.at);
        let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
        self.read_at(&mut piece, self.at)?;
        self.crc = crc32c(self.crc, &piece);
        self.at += length;
        if self.at < covered {
            return Ok(length);
        }
        let mut crc = [0; CRC_BYTES];
        self.read_at(&mut crc, covered)?;
        self.at = self.bytes;
        if u32::from_le_bytes(crc) == self.crc {
            Ok(length + CRC_BYTES as u64)
        } else {
            let at = HEADER_BYTES as u64;
            Err(Error::corrupt(&self.path, at, FAILED))
        }
    }

    /// Goes on where a reading of the same file was. A place outside the file is its beginning.
    pub(crate) fn go_on_at(&mut self, (at, crc): (u64, u64)) {
        if let (true, Ok(crc)) = (at < self.bytes - CRC_BYTES as u64, u32::try_from(crc)) {
            (self.at, self.crc) = (at, crc);
        }
    }

    /// How far it is: what [`Self::go_on_at`] takes.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.at, u64::from(self.crc))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.at == self.bytes
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<(), Error> {
        read_exact_at(self.file.as_ref(), bytes, at).map_err(Error::io("read", &self.path))
    }
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
        return Err(Malformed::new(FAILED));
    }
    covered
        .get(HEADER_BYTES..)
        .ok_or_else(|| Malformed::new("the file ends early"))
}
