//! Side files that are read whole or not at all: a header, a payload, one checksum over both.
//!
//! ```text
//! header 64 B, own fields: file id u64, number u64 | payload | crc u32 of everything before but the header's crc
//! ```
//!
//! Does: write, sync, read and check. Does not: know what the payload or the number mean, or sync the folder's names.
//! Kinds: `docs/format/definitions.md`, `docs/format/keys.md`, `docs/format/relations.md`, `docs/format/scrub.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::crc32c;

use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header::{self, FileFormat, Format};

pub(crate) const HEADER_BYTES: usize = 64;
const CRC_BYTES: usize = 4;
/// Where the header's own checksum stands: behind what it covers.
const HEADER_CRC_AT: usize = 48;
/// Files of a lower format have a checksum of all bytes before it, the header's own included. What passes a CRC and is
/// followed by it is the same to another CRC of that kind whatever it says, so that one tells nothing of whose header
/// it is: the payload of another file of the same length passed.
const BOUND_SINCE: u16 = 2;
/// What is read at once of a file that is only checked.
const PIECE_BYTES: u64 = 1 << 20;

const STRANGER: &str = "the file belongs to another data directory or has another id";
const FAILED: &str = "the file fails its checksum";

/// What the header says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) kind: FileFormat,
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
    let (from, crc) = uncovered(identity.kind.format, &bytes);
    let crc = crc32c(crc, bytes.get(from..).unwrap_or_default());
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
    let file = Checked::read(disk, path, identity)?;
    let at = HEADER_BYTES as u64;
    decode(file.number, file.payload()).map_err(|what| file.format.refuse(what, path, at))
}

/// A file that was read and passed its checksums.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) format: Format,
    /// The one in its header.
    pub(crate) number: u64,
    bytes: Vec<u8>,
}

impl Checked {
    pub(crate) fn read(disk: &dyn Disk, path: &Path, identity: Identity) -> Result<Self, Error> {
        let file = disk.open(path).map_err(Error::io("open", path))?;
        let size = file.size().map_err(Error::io("read", path))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", path))?;
        let (format, number) = check_header(&bytes, path, identity)?;
        let (from, crc) = uncovered(format.found(), &bytes);
        let what = match bytes.split_last_chunk::<CRC_BYTES>() {
            Some((covered, last)) if covered.len() >= HEADER_BYTES => {
                let crc = crc32c(crc, covered.get(from..).unwrap_or_default());
                (crc != u32::from_le_bytes(*last)).then_some(FAILED)
            }
            _ => Some("the file ends early"),
        };
        match what {
            Some(what) => Err(Error::corrupt(path, HEADER_BYTES as u64, what)),
            None => Ok(Self {
                format,
                number,
                bytes,
            }),
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        let end = self.bytes.len().saturating_sub(CRC_BYTES);
        self.bytes.get(HEADER_BYTES..end).unwrap_or_default()
    }
}

/// Such a file on its way to being read for the sake of its checksum, a piece at a time.
#[derive(Debug)]
pub(crate) struct ChecksumPass {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
    at: u64,
    crc: u32,
}

impl ChecksumPass {
    /// Opens a file that the manifest lists with this size, and checks its header.
    pub(crate) fn start(
        disk: &dyn Disk,
        path: &Path,
        identity: Identity,
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
        let (format, _) = check_header(&header, path, identity)?;
        let (at, crc) = uncovered(format.found(), &header);
        Ok(Self {
            file,
            path: path.to_owned(),
            bytes,
            at: at as u64,
            crc,
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

    /// Goes on where a reading of the same file was. A place outside what is covered is the beginning.
    pub(crate) fn go_on_at(&mut self, (at, crc): (u64, u64)) {
        let covered = self.at..self.bytes - CRC_BYTES as u64;
        if let (true, Ok(crc)) = (covered.contains(&at), u32::try_from(crc)) {
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

/// Format and number of a file whose header is the one that is expected.
fn check_header(bytes: &[u8], path: &Path, identity: Identity) -> Result<(Format, u64), Error> {
    let header = file_header::decode::<16>(bytes, identity.kind, path)?;
    let mut own = header.own.as_slice();
    let (id, number) = (take_u64(&mut own), take_u64(&mut own));
    if header.uuid != identity.uuid || id != identity.file_id {
        return Err(Error::corrupt(path, 0, STRANGER));
    }
    Ok((header.format, number))
}

/// From where on bytes are still to be taken into the last checksum, and what it is up to there.
fn uncovered(format: u16, header: &[u8]) -> (usize, u32) {
    if format < BOUND_SINCE {
        return (0, 0);
    }
    let covered = header.get(..HEADER_CRC_AT).unwrap_or_default();
    (HEADER_CRC_AT + CRC_BYTES, crc32c(0, covered))
}

fn take_u64(own: &mut &[u8]) -> u64 {
    let taken = file_header::take(own).expect("the own fields are two numbers");
    u64::from_le_bytes(taken)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::MemoryDisk;

    fn identity(file_id: u64) -> Identity {
        Identity {
            kind: FileFormat {
                magic: *b"NILODEF0",
                format: 2,
            },
            uuid: [7; 16],
            file_id,
        }
    }

    fn bytes_of(disk: &MemoryDisk, path: &Path) -> Vec<u8> {
        let file = disk.open(path).unwrap();
        let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
        read_exact_at(file.as_ref(), &mut bytes, 0).unwrap();
        bytes
    }

    fn put(disk: &MemoryDisk, path: &Path, bytes: &[u8]) {
        disk.remove(path).unwrap();
        let file = disk.create(path).unwrap();
        write_all_at(file.as_ref(), bytes, 0).unwrap();
    }

    fn read_whole(disk: &MemoryDisk, path: &Path, file_id: u64) -> Result<Vec<u8>, Error> {
        read(disk, path, identity(file_id), |_, payload| {
            Ok(payload.to_vec())
        })
    }

    /// The same in pieces, each by a reading of its own.
    fn scrub(disk: &MemoryDisk, path: &Path, file_id: u64, piece: u64) -> Result<(), Error> {
        let bytes = bytes_of(disk, path).len() as u64;
        let mut place = (0, 0);
        loop {
            let mut reading = ChecksumPass::start(disk, path, identity(file_id), bytes)?;
            reading.go_on_at(place);
            reading.some(piece)?;
            if reading.is_end() {
                return Ok(());
            }
            place = reading.place();
        }
    }

    /// The ledger's mutations put the entries of one definition file, with their checksum, where those of another of the
    /// same size had been: a table was gone, another was there twice, and nobody said so. The last checksum was of all
    /// bytes before it, the header's checksum included, behind which every header looks the same to a CRC.
    #[test]
    fn the_payload_of_another_file_of_the_same_size_is_noticed() {
        let disk = MemoryDisk::default();
        let dir = Path::new("/d");
        disk.create_dir_all(dir).unwrap();
        let paths = [1, 2].map(|id| dir.join(id.to_string()));
        for (path, (id, payload)) in paths.iter().zip([(1, b"one's own"), (2, b"the other")]) {
            write(&disk, path, identity(id), 9, payload).unwrap();
        }
        for piece in [1, 7, 1 << 20] {
            scrub(&disk, &paths[0], 1, piece).unwrap();
        }
        assert_eq!(read_whole(&disk, &paths[0], 1).unwrap(), b"one's own");
        let (mut one, two) = (bytes_of(&disk, &paths[0]), bytes_of(&disk, &paths[1]));
        one[HEADER_BYTES..].copy_from_slice(&two[HEADER_BYTES..]);
        put(&disk, &paths[0], &one);
        let error = read_whole(&disk, &paths[0], 1).unwrap_err();
        assert!(error.to_string().contains(FAILED), "{error}");
        for piece in [1, 7, 1 << 20] {
            let error = scrub(&disk, &paths[0], 1, piece).unwrap_err();
            assert!(error.to_string().contains(FAILED), "{piece}: {error}");
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let disk = MemoryDisk::default();
        let path = Path::new("/file");
        write(&disk, path, identity(3), 5, b"payload").unwrap();
        let whole = bytes_of(&disk, path);
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            put(&disk, path, &changed);
            assert!(read_whole(&disk, path, 3).is_err(), "bit {bit}");
            assert!(scrub(&disk, path, 3, 8).is_err(), "bit {bit}, in pieces");
        }
    }

    #[test]
    fn a_file_of_format_1_is_read_with_the_checksum_that_it_had() {
        let disk = MemoryDisk::default();
        let path = Path::new("/file");
        let mut old = identity(3);
        old.kind.format = 1;
        write(&disk, path, old, 5, b"payload").unwrap();
        let bytes = bytes_of(&disk, path);
        let (covered, crc) = bytes.split_last_chunk::<4>().unwrap();
        assert_eq!(crc32c(0, covered), u32::from_le_bytes(*crc));
        assert_eq!(read_whole(&disk, path, 3).unwrap(), b"payload");
        scrub(&disk, path, 3, 3).unwrap();
    }
}
