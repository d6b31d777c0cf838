//! The manifest: the one list of files that are the store. Layout: `docs/format/manifest.md`.
//!
//! An append-only log of edits, each a checksummed record. It is written afresh, as one edit, at open and when it has
//! grown, under another name that then replaces the old one in one step. A file that the manifest does not list is
//! not part of the store, and is removed at open, after everything that the manifest lists was found in order.

mod edit;
pub(crate) mod hostile;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_codec::crc32c;

use crate::definition::take_bytes;
use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::Error;
use crate::file_header::{self, FileFormat, Format};
pub(crate) use edit::{BackupLog, Contents, Edit, FileKind, FileMeta};

const KIND: FileFormat = FileFormat {
    magic: *b"NILOMAN0",
    format: 1,
};
const HEADER_BYTES: usize = 64;
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"NEDT");
const RECORD_HEADER_BYTES: usize = 16;
const NAME: &str = "manifest";
const DRAFT: &str = "manifest.tmp";

/// Edits are folded into one when they have grown past this, and past what they were as one by as much again.
const REWRITE_BYTES: u64 = 1 << 20;

/// The open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    dir: PathBuf,
    uuid: [u8; 16],
    pub(crate) contents: Contents,
    file: Arc<dyn DiskFile>,
    /// Where the next edit goes.
    end: u64,
    /// Where the first edit, which says everything, ended.
    first_end: u64,
    /// Where bytes start that do not read and were taken for an edit that a crash tore.
    cut: Option<u64>,
}

impl Manifest {
    /// Whether `dir` has one.
    pub(crate) fn exists(names: &[String]) -> bool {
        names.iter().any(|name| name == NAME)
    }

    /// Starts the store `uuid` in an empty `dir`.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, uuid: [u8; 16]) -> Result<Self, Error> {
        let contents = Contents {
            next_file_id: 1,
            ..Contents::default()
        };
        Self::write_afresh(disk, dir, uuid, contents)
    }

    /// Makes `dir`, in which the files are already, a store: the last step of a backup and of restoring one. An earlier
    /// manifest there is replaced at once and whole.
    pub(crate) fn write(
        disk: &dyn Disk,
        dir: &Path,
        uuid: [u8; 16],
        contents: Contents,
    ) -> Result<(), Error> {
        Self::write_afresh(disk, dir, uuid, contents).map(drop)
    }

    /// Reads the manifest of `dir`. Nothing may rely on it before [`Self::rewrite`].
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<Self, Error> {
        let path = dir.join(NAME);
        let file = disk.open(&path).map_err(Error::io("open", &path))?;
        let size = file.size().map_err(Error::io("read", &path))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", &path))?;
        let header = file_header::decode::<0>(&bytes, KIND, &path)?;
        let (contents, end) = read_edits(&bytes, header.format, &path)?;
        Ok(Self {
            dir: dir.to_owned(),
            uuid: header.uuid,
            contents,
            file,
            end,
            first_end: end,
            cut: (end < size).then_some(end),
        })
    }

    /// Reads the file again; an error = it does not say what it must. Returns its size.
    pub(crate) fn verify(&self, disk: &dyn Disk) -> Result<u64, Error> {
        let path = self.dir.join(NAME);
        let found = match Self::open(disk, &self.dir) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupt(&path, 0, "the file is missing"));
            }
            found => found?,
        };
        if found.uuid != self.uuid || found.end != self.end || found.contents != self.contents {
            let reason = "it does not say what was written into it";
            return Err(Error::corrupt(&path, found.end.min(self.end), reason));
        }
        Ok(self.end)
    }

    /// Writes the manifest afresh: what it says is durable then, and bytes that do not read are gone.
    pub(crate) fn rewrite(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let contents = self.contents.clone();
        *self = Self::write_afresh(disk, &self.dir, self.uuid, contents)?;
        Ok(())
    }

    /// What is wrong with the store if `error` says that something the manifest relies on is missing: when the manifest
    /// ends in an edit that does not read, that edit was no torn one, and what it removed is gone.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let path = self.dir.join(NAME);
        match (self.cut, &error) {
            (Some(at), Error::Corrupt { .. }) => Error::corrupt(
                &path,
                at,
                format!("the last edit does not read, and nothing can replace it: {error}"),
            ),
            (_, Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                // Without a trace of a last edit it may as well be the file that somebody removed.
                Error::corrupt(
                    &path,
                    self.cut.unwrap_or(self.end),
                    format!("it lists a file that is not there, or its end is lost: {error}"),
                )
            }
            _ => error,
        }
    }

    /// Whether bytes at its end do not read, and were taken for an edit that a crash tore.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Which store this is.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    fn write_afresh(
        disk: &dyn Disk,
        dir: &Path,
        uuid: [u8; 16],
        contents: Contents,
    ) -> Result<Self, Error> {
        let draft = dir.join(DRAFT);
        let path = dir.join(NAME);
        let names = disk.list(dir).map_err(Error::io("list", dir))?;
        if names.iter().any(|name| name == DRAFT) {
            disk.remove(&draft).map_err(Error::io("remove", &draft))?;
        }
        let file = disk.create(&draft).map_err(Error::io("create", &draft))?;
        let mut bytes = file_header::encode(KIND, uuid, &[], HEADER_BYTES);
        encode_record(&contents.whole(), HEADER_BYTES as u64, &mut bytes);
        write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", &draft))?;
        file.sync().map_err(Error::io("sync", &draft))?;
        disk.rename(&draft, &path)
            .map_err(Error::io("rename", &draft))?;
        disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
        Ok(Self {
            dir: dir.to_owned(),
            uuid,
            contents,
            file,
            end: bytes.len() as u64,
            first_end: bytes.len() as u64,
            cut: None,
        })
    }

    /// Adds an edit; it holds, durably, when this returns `Ok`. After an error nobody knows, so the store must stop.
    pub(crate) fn append(&mut self, disk: &dyn Disk, edit: Edit) -> Result<(), Error> {
        let path = self.dir.join(NAME);
        let mut bytes = Vec::new();
        encode_record(&edit, self.end, &mut bytes);
        // Applied to a copy first: an edit that contradicts the manifest must not reach the file.
        let mut contents = self.contents.clone();
        contents
            .apply(edit)
            .map_err(|what| what.at(&path, self.end))?;
        if self.end > REWRITE_BYTES.max(2 * self.first_end) {
            self.contents = contents;
            return self.rewrite(disk);
        }
        write_all_at(self.file.as_ref(), &bytes, self.end).map_err(Error::io("write", &path))?;
        self.file.sync().map_err(Error::io("sync", &path))?;
        self.end += bytes.len() as u64;
        self.contents = contents;
        Ok(())
    }
}

/// `magic, length, crc of the payload, crc of this header with the record's place | payload`
fn encode_record(edit: &Edit, offset: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    edit.encode(&mut payload);
    let start = out.len();
    out.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
    let length = u32::try_from(payload.len()).expect("an edit lists far fewer than 2^28 files");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32c(0, &payload).to_le_bytes());
    let seed = crc32c(0, &offset.to_le_bytes());
    let crc = crc32c(seed, out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&payload);
}

fn decode_record(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let mut input = bytes.get(at..)?;
    let covered = input.get(..RECORD_HEADER_BYTES - 4)?;
    let mut number = || -> Option<u32> {
        let field = take_bytes(&mut input, 4).ok()?;
        Some(u32::from_le_bytes(field.try_into().ok()?))
    };
    let (magic, length, payload_crc, crc) = (number()?, number()?, number()?, number()?);
    let seed = crc32c(0, &(at as u64).to_le_bytes());
    if magic != RECORD_MAGIC || crc != crc32c(seed, covered) {
        return None;
    }
    let payload = input.get(..length as usize)?;
    (crc32c(0, payload) == payload_crc).then_some(payload)
}

/// What the edits add up to, and where the last one ends.
fn read_edits(bytes: &[u8], format: Format, path: &Path) -> Result<(Contents, u64), Error> {
    let mut contents = Contents::default();
    let mut at = HEADER_BYTES;
    let mut edits = 0;
    while let Some(payload) = decode_record(bytes, at) {
        Edit::decode(payload)
            .and_then(|edit| contents.apply(edit))
            .map_err(|what| format.refuse(what, path, at as u64))?;
        at += RECORD_HEADER_BYTES + payload.len();
        edits += 1;
    }
    // The last edit may be torn: it was not durable, so nothing relied on it. An intact one after it cannot be:
    // each edit is durable before the next is written.
    let later = (at + 1..bytes.len()).find(|&later| decode_record(bytes, later).is_some());
    if let Some(later) = later {
        return Err(Error::corrupt(
            path,
            at as u64,
            format!("an edit does not read, but one after it at byte {later} does"),
        ));
    }
    if edits == 0 {
        return Err(Error::corrupt(path, at as u64, "no edit reads"));
    }
    Ok((contents, at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::segment::{Home, SegmentMeta};

    fn edit(file_id: u64) -> Edit {
        Edit {
            next_file_id: file_id + 1,
            flushed_lsn: file_id * 10,
            added_segments: vec![SegmentMeta {
                file_id,
                bytes: 1000 + file_id,
                rows: 5,
                min_lsn: file_id * 10 - 9,
                max_lsn: file_id * 10,
                applied_lsn: file_id * 10,
                home: Home::Mixed,
            }],
            ..Edit::default()
        }
    }

    fn bytes_of(disk: &MemoryDisk) -> Vec<u8> {
        let file = disk.open(Path::new("/d/manifest")).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        read_exact_at(file.as_ref(), &mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn edits_add_up_and_survive_reopening() {
        let disk = MemoryDisk::new();
        let dir = Path::new("/d");
        let mut manifest = Manifest::create(&disk, dir, [7; 16]).unwrap();
        for id in 1..=40 {
            manifest.append(&disk, edit(id)).unwrap();
        }
        let again = Manifest::open(&disk, dir).unwrap();
        assert_eq!(again.contents, manifest.contents);
        assert_eq!(again.contents.segments.len(), 40);
        assert_eq!(again.uuid(), [7; 16]);
    }

    #[test]
    fn a_torn_last_edit_is_dropped_and_a_damaged_earlier_one_is_reported() {
        let disk = MemoryDisk::new();
        let dir = Path::new("/d");
        let mut manifest = Manifest::create(&disk, dir, [7; 16]).unwrap();
        let mut ends = vec![bytes_of(&disk).len()];
        for id in 1..=3 {
            manifest.append(&disk, edit(id)).unwrap();
            ends.push(bytes_of(&disk).len());
        }
        let whole = bytes_of(&disk);
        for n in ends[2]..ends[3] {
            let (contents, end) =
                read_edits(&whole[..n], Format::of(KIND), Path::new("m")).unwrap();
            assert_eq!(end as usize, ends[2], "{n} bytes");
            assert_eq!(contents.segments.len(), 2, "{n} bytes");
        }
        for at in ends[0]..ends[2] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(
                read_edits(&damaged, Format::of(KIND), Path::new("m")).is_err(),
                "byte {at}"
            );
        }
    }
}
