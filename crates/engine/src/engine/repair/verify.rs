//! Reading all of a store for the sake of its checksums, without opening it.
//!
//! Does: check the manifest, every segment page by page, every side file and the log, and name all that is damaged and the
//! files that have no order. Does not: change a byte of the store; the log is replayed from a copy in memory, because replaying cuts a torn tail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::compaction::order::Ranges;
use crate::definitions_file::read_definitions;
use crate::disk::{Disk, MemoryDisk, read_exact_at, write_all_at};
use crate::engine::copies::backup::log_names;
use crate::engine::copies::restore::verify_side_file;
use crate::engine::repair::damaged::Damage;
use crate::error::Error;
use crate::layout::{lock_dir, log_options, segment_dir, segment_name, side_name};
use crate::log::{self, Log};
use crate::manifest::{Contents, Manifest};
use crate::options::Options;
use crate::record;
use crate::schema::{Lsn, TableId};
use crate::segment::{Segment, SegmentMeta, SegmentPlace};

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
    /// Pairs of segments of which nothing says which one is newer. No damage: they are read in an order, and compacted
    /// together.
    pub unordered: Vec<Unordered>,
}

/// Two segments of one last LSN that both may have rows of one table and time. An earlier version left such behind; a value
/// that was overwritten may have come back then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unordered {
    /// The files.
    pub files: [PathBuf; 2],
    /// The tables whose rows they may share, as `database.schema.table`, or by number where no name is known.
    pub tables: Vec<String>,
}

/// Reads every checksum of the store in `dir`.
pub(in crate::engine) fn verify(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Verified, Error> {
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
    let mut ties: BTreeMap<Lsn, Ranges> = BTreeMap::new();
    for meta in &manifest.contents.segments {
        verified.segments += 1;
        verified.bytes += meta.bytes;
        let path = files_dir.join(segment_name(meta.file_id));
        match Segment::open_alone(from, path.clone(), manifest.uuid(), meta.clone()) {
            Ok(segment) => {
                verified.segment(&segment)?;
                if has_tie(meta, &manifest.contents) {
                    ties.entry(meta.max_lsn).or_default().add(&segment);
                }
            }
            Err(error) => verified.note(&path, error)?,
        }
    }
    let ties = ties.into_values().flat_map(Ranges::overlapping).collect();
    verified.unordered = named(from, &files_dir, &manifest, ties);
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

fn has_tie(meta: &SegmentMeta, contents: &Contents) -> bool {
    let mut others = contents.segments.iter();
    others.any(|it| it.max_lsn == meta.max_lsn && it.file_id != meta.file_id)
}

/// Pairs of files without an order, with their names and those of their tables.
fn named(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    pairs: Vec<((u64, u64), BTreeSet<TableId>)>,
) -> Vec<Unordered> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let mut catalogue = Catalogue::new(None);
    // A table whose definition does not read, or is in the log only, has its number; what does not read is damage above.
    drop(read_definitions(disk, dir, manifest, &mut catalogue));
    let name_of = |table: &TableId| {
        let names = catalogue.full_name(*table).map(|names| names.join("."));
        names.unwrap_or_else(|| format!("table {}", table.0))
    };
    let path_of = |id| dir.join(segment_name(id));
    let unordered = |((a, b), tables): ((u64, u64), BTreeSet<TableId>)| Unordered {
        files: [path_of(a), path_of(b)],
        tables: tables.iter().map(name_of).collect(),
    };
    pairs.into_iter().map(unordered).collect()
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

#[cfg(test)]
mod tests {
    use nilometer_lineproto::Precision;

    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::Engine;
    use crate::ingest::Session;

    /// Somebody whose store had such files heard from a metric how many there were, and from `check` nothing: neither which,
    /// nor of which table.
    #[test]
    fn files_without_an_order_are_named_with_the_table_that_they_share() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let dir = Path::new("/d");
        let open = || {
            let clock = Arc::new(SystemClock);
            Arc::new(Engine::open(Arc::clone(&disk), clock, dir, Options::default()).unwrap())
        };
        let engine = open();
        engine.create_database("d").unwrap();
        // Of `a` both files have rows of one time, of `b` and `c` one file each.
        for body in ["a v=1 10\na v=1 30\nb v=1 10", "a v=2 20\nc v=1 10"] {
            let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
            session
                .write_lines(body.as_bytes(), Precision::Nanosecond)
                .unwrap();
            engine.flush().unwrap();
        }
        drop(engine);
        assert_eq!(Engine::verify(&disk, dir).unwrap().unordered, []);

        // As an earlier version left them: the older file has the last LSN of the newer one.
        let manifest = Manifest::open(disk.as_ref(), dir).unwrap();
        let mut contents = manifest.contents.clone();
        let last = contents.segments.iter().map(|it| it.max_lsn).max().unwrap();
        let ids: Vec<u64> = contents.segments.iter().map(|it| it.file_id).collect();
        assert_eq!(ids.len(), 2);
        for segment in &mut contents.segments {
            segment.max_lsn = last;
        }
        Manifest::write(disk.as_ref(), dir, manifest.uuid(), contents).unwrap();
        let verified = Engine::verify(&disk, dir).unwrap();
        assert_eq!(verified.damage, []);
        let path = |id: &u64| dir.join(format!("segments/{id:016}.seg"));
        let files: Vec<PathBuf> = ids.iter().map(path).collect();
        assert_eq!(
            verified.unordered,
            [Unordered {
                files: [files[0].clone(), files[1].clone()],
                tables: vec!["d.public.a".to_owned()],
            }]
        );
        assert_eq!(open().metrics().segments_unordered, 1);
    }
}
