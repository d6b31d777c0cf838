//! Names and places of the files of a data directory, and what is done with any of them.
//!
//! Does: say what a file is called, list those of a manifest, lock a folder, copy and remove a file. Does not: know what is
//! in a file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::disk::{Disk, DiskLock, write_all_at};
use crate::error::Error;
use crate::log::LogOptions;
use crate::manifest::{Contents, FileKind};
use crate::options::Options;

/// Log files that the cap is divided into.
const LOG_FILES: u64 = 8;
/// All of them may be free after a flush.
const LOG_FREE_FILES_MAX: usize = 8;
/// A file smaller than this would be rolled at nearly every batch.
const LOG_FILE_BYTES_MIN: u64 = 4096;

pub(crate) const LOCK_FILE: &str = "lock";
/// Bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Folder of segments and definition files.
pub(crate) fn segment_dir(dir: &Path) -> std::path::PathBuf {
    dir.join("segments")
}

pub(crate) fn segment_name(file_id: u64) -> String {
    format!("{file_id:016}.seg")
}

pub(crate) fn definitions_name(file_id: u64) -> String {
    side_name(FileKind::Definitions, file_id)
}

/// Name of a file that is no segment.
pub(crate) fn side_name(kind: FileKind, file_id: u64) -> String {
    let ending = match kind {
        FileKind::Definitions => "def",
        FileKind::Keys => "key",
        FileKind::Relations => "rel",
        FileKind::Index => "idx",
    };
    format!("{file_id:016}.{ending}")
}

/// Whether a file of the store could have this name.
pub(crate) fn is_file_name(name: &str) -> bool {
    let id = ["seg", "def", "key", "rel", "idx"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'));
    id.is_some_and(|id| id.len() == 16 && id.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Names and sizes of the files that a manifest lists.
pub(crate) fn listed(contents: &Contents) -> BTreeMap<String, u64> {
    let segments = contents.segments.iter();
    let segments = segments.map(|file| (segment_name(file.file_id), file.bytes));
    let others = contents.files.iter();
    let others = others.map(|file| (side_name(file.kind, file.file_id), file.bytes));
    segments.chain(others).collect()
}

/// Makes sure that nobody else has `dir` open, for as long as the lock lives.
pub(crate) fn lock_dir(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>, Error> {
    let path = dir.join(LOCK_FILE);
    disk.lock(&path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            Error::Locked {
                path: dir.to_owned(),
            }
        } else {
            Error::io("lock", &path)(error)
        }
    })
}

pub(crate) fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        file_bytes: (options.log_bytes_max / LOG_FILES).max(LOG_FILE_BYTES_MIN),
        free_files_max: LOG_FREE_FILES_MAX,
        sabotage: options.sabotage,
    }
}

/// A file, whole, in another place; durable except for its name.
pub(crate) fn copy_file(disk: &dyn Disk, from: &Path, to: &Path) -> Result<(), Error> {
    let source = disk.open(from).map_err(Error::io("open", from))?;
    let copy = disk.create(to).map_err(Error::io("create", to))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let n = source
            .read_at(&mut piece, at)
            .map_err(Error::io("read", from))?;
        if n == 0 {
            return copy.sync().map_err(Error::io("sync", to));
        }
        let bytes = piece.get(..n).unwrap_or_default();
        write_all_at(copy.as_ref(), bytes, at).map_err(Error::io("write", to))?;
        at += n as u64;
    }
}

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), Error> {
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
