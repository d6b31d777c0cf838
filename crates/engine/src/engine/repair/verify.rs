//! Reading all of a store for the sake of its checksums, without opening it.
//!
//! Does: check the manifest, every segment page by page, every side file and the log, and name all that is damaged. Does
//! not: change a byte of the store; the log is replayed from a copy in memory, because replaying cuts a torn tail.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, MemoryDisk, RealDisk, read_exact_at, write_all_at};
use crate::engine::copies::backup::log_names;
use crate::engine::copies::restore::verify_side_file;
use crate::engine::{Damage, Engine, Options};
use crate::error::Error;
use crate::layout::{lock_dir, log_options, segment_dir, segment_name, side_name};
use crate::log::{self, Log};
use crate::manifest::Manifest;
use crate::record;
use crate::segment::{Segment, SegmentPlace};

/// What was read, and what of it is damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Segments.
    pub segments: u64,
    /// Pages of segments.
    pub pages: u64,
    /// Files of definitions, series, keys and relations.
    pub files: u64,
    /// Files of the log.
    pub log_files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// What fails a checksum, does not decode or is not there.
    pub damage: Vec<Damage>,
}

impl Engine {
    /// Reads every checksum of the store in `dir` on the machine's disk, which nobody may have open. An `Err` means that it
    /// could not be looked at, for one because its manifest is damaged.
    pub fn verify_dir(dir: &Path) -> Result<Verified, Error> {
        Self::verify(&(Arc::new(RealDisk) as Arc<dyn Disk>), dir)
    }

    /// Reads every checksum of the store in `dir`.
    pub fn verify(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Verified, Error> {
        let from = disk.as_ref();
        let names = from.list(dir).map_err(Error::io("list", dir))?;
        if !Manifest::exists(&names) {
            return Err(Error::NotAStore {
                path: dir.to_owned(),
                reason: "it has no manifest".to_owned(),
            });
        }
        let _lock = lock_dir(from, dir)?;
        let manifest = Manifest::open(from, dir)?;
        let files_dir = segment_dir(dir);
        let mut verified = Verified::default();
        for meta in &manifest.contents.segments {
            verified.segments += 1;
            verified.bytes += meta.bytes;
            let path = files_dir.join(segment_name(meta.file_id));
            match Segment::open_alone(from, path.clone(), manifest.uuid(), meta.clone()) {
                Ok(segment) => verified.segment(&segment)?,
                Err(error) => verified.note(&path, error)?,
            }
        }
        for file in &manifest.contents.files {
            verified.files += 1;
            verified.bytes += file.bytes;
            let path = files_dir.join(side_name(file.kind, file.file_id));
            if let Err(error) = verify_side_file(from, &path, manifest.uuid(), file) {
                verified.note(&path, error)?;
            }
        }
        let log_dir = Log::dir_of(dir);
        if let Err(error) = verified.log(disk, &log_dir, &manifest) {
            verified.note(&log_dir, error)?;
        }
        Ok(verified)
    }
}

impl Verified {
    /// Notes damage. What another version wrote is none, and is an error still.
    fn note(&mut self, path: &Path, error: Error) -> Result<(), Error> {
        let (path, offset, reason) = match error {
            Error::NewerFormat { .. } | Error::OlderFormat { .. } | Error::UnknownCipher { .. } => {
                return Err(error);
            }
            Error::Corrupt {
                path,
                offset,
                reason,
            } => (path, offset, reason),
            other => (path.to_owned(), 0, other.to_string()),
        };
        self.damage.push(Damage {
            path,
            offset,
            reason,
        });
        Ok(())
    }

    fn segment(&mut self, segment: &Segment) -> Result<(), Error> {
        let path = segment.path().to_owned();
        let mut place = SegmentPlace::default();
        let mut tell = |error| self.note(&path, error);
        let read = segment.verify_some(&mut place, u64::MAX, &mut tell)?;
        self.pages += read.pages;
        Ok(())
    }

    /// Replays a copy of the log.
    fn log(&mut self, disk: &Arc<dyn Disk>, dir: &Path, manifest: &Manifest) -> Result<(), Error> {
        let memory = MemoryDisk::new();
        memory
            .create_dir_all(dir)
            .map_err(Error::io("create", dir))?;
        for name in log_names(disk.as_ref(), dir, &manifest.contents)? {
            self.log_files += u64::from(log::file_number(&name).is_some());
            let path = dir.join(name);
            let file = disk.open(&path).map_err(Error::io("open", &path))?;
            let size = file.size().map_err(Error::io("read", &path))?;
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
            read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", &path))?;
            let copy = memory.create(&path).map_err(Error::io("create", &path))?;
            write_all_at(copy.as_ref(), &bytes, 0).map_err(Error::io("write", &path))?;
            self.bytes += size;
        }
        Log::open(
            Arc::new(memory),
            dir.to_owned(),
            manifest.uuid(),
            manifest.contents.flushed_lsn,
            log_options(&Options::default()),
            &mut |lsn, payload: &[u8]| record::decode(lsn, payload).map(drop),
        )
        .map(drop)
    }
}
