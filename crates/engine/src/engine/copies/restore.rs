//! From a backup to a data directory, with every checksum looked at on the way.
//!
//! Does: copy what the backup's manifest lists and its log, check all of it, and only then make the copy a store. Does
//! not: change the backup, merge into a store that exists, or repair anything.
//!
//! The copy keeps the backup's UUID, because every file carries it under its checksum: it is the same store at an
//! earlier time, not another one, and its next backups belong into another folder than the original's.

use std::path::Path;
use std::sync::Arc;

use crate::budget::MemoryBudget;
use crate::definitions_file;
use crate::disk::Disk;
use crate::engine::copies::backup::{MARKER_FILE, check_log_end, log_names, read_marker};
use crate::error::Error;
use crate::idempotency;
use crate::index::{BlockCache, Index};
use crate::layout::{
    LOCK_FILE, copy_file, listed, lock_dir, log_options, segment_dir, segment_name, side_name,
};
use crate::log::Log;
use crate::manifest::{FileKind, FileMeta, Manifest};
use crate::options::Options;
use crate::record;
use crate::relation;
use crate::schema::Lsn;
use crate::segment::Segment;

/// What restoring did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The restored store has every batch up to this LSN, and none above.
    pub lsn: Lsn,
    /// Files that were copied and checked, the log's not among them.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the last backup into that folder had not ended: what was restored may be the one before it.
    pub interrupted: bool,
}

/// Restores a backup into `dest`, an empty or absent folder. Until this returns `Ok` there is no store in `dest`;
/// after an error the folder can be thrown away.
pub(in crate::engine) fn restore(
    disk: &Arc<dyn Disk>,
    backup: &Path,
    dest: &Path,
) -> Result<RestoreReport, Error> {
    let from = disk.as_ref();
    check_empty(from, dest)?;
    let (log_dir, files_dir) = (Log::dir_of(dest), segment_dir(dest));
    for dir in [dest, &log_dir, &files_dir] {
        from.create_dir_all(dir).map_err(Error::io("create", dir))?;
    }
    let _lock = lock_dir(from, dest)?;
    // A store that somebody has open, or a backup that is being made, changes under our hands.
    let _source = lock_dir(from, backup)?;
    let names = from.list(backup).map_err(Error::io("list", backup))?;
    let is_backup = names.iter().any(|name| name == MARKER_FILE);
    let marker = is_backup.then(|| read_marker(from, backup)).transpose()?;
    if !Manifest::exists(&names) {
        return Err(Error::NotABackup {
            path: backup.to_owned(),
            reason: "it has no file `manifest`: the first backup into it did not end, or the file was removed".to_owned(),
        });
    }
    let mut manifest = Manifest::open(from, backup)?;
    let mut report = RestoreReport {
        interrupted: marker.is_some_and(|(_, lsn)| lsn == 0),
        ..RestoreReport::default()
    };
    for (name, bytes) in listed(&manifest.contents) {
        let (source, copy) = (segment_dir(backup).join(&name), files_dir.join(&name));
        copy_file(from, &source, &copy)?;
        report.files += 1;
        report.bytes += bytes;
    }
    verify_files(from, &files_dir, &manifest)?;
    from.sync_dir(&files_dir)
        .map_err(Error::io("sync", &files_dir))?;
    report.lsn = restore_log(disk, backup, dest, &manifest)?;
    check_log_end(backup, &manifest.contents, report.lsn)?;
    manifest.contents.backup_log = None;
    if let Some((_, lsn)) = marker
        && report.lsn < lsn
    {
        return Err(Error::corrupt(
            &Log::dir_of(backup),
            0,
            format!("the log ends at LSN {}, the backup had {lsn}", report.lsn),
        ));
    }
    Manifest::write(from, dest, manifest.uuid(), manifest.contents)?;
    Ok(report)
}

fn check_empty(disk: &dyn Disk, dest: &Path) -> Result<(), Error> {
    let names = match disk.list(dest) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(Error::io("list", dest))?,
    };
    let own = [LOCK_FILE, "lost+found"];
    match names.iter().find(|name| !own.contains(&name.as_str())) {
        Some(stranger) => Err(Error::NotABackup {
            path: dest.to_owned(),
            reason: format!(
                "a backup is restored into an empty folder, and this has a \"{stranger}\""
            ),
        }),
        None => Ok(()),
    }
}

/// Reads the copies, not the originals: so what reached the new disk is what is checked.
fn verify_files(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<(), Error> {
    for meta in &manifest.contents.segments {
        let path = dir.join(segment_name(meta.file_id));
        Segment::open_alone(disk, path, manifest.uuid(), meta.clone())?.verify()?;
    }
    for file in &manifest.contents.files {
        let path = dir.join(side_name(file.kind, file.file_id));
        verify_side_file(disk, &path, manifest.uuid(), file)?;
    }
    Ok(())
}

/// Reads all of a file of definitions, keys, relations or series.
pub(in crate::engine) fn verify_side_file(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file: &FileMeta,
) -> Result<(), Error> {
    let copy = disk.open(path).map_err(Error::io("open", path))?;
    let size = copy.size().map_err(Error::io("read", path))?;
    if size != file.bytes {
        let reason = format!(
            "the file has {size} bytes, the manifest says {}",
            file.bytes
        );
        return Err(Error::corrupt(path, size, reason));
    }
    let id = file.file_id;
    match file.kind {
        FileKind::Definitions => definitions_file::read(disk, path, uuid, id, &mut |_| Ok(())),
        FileKind::Keys => idempotency::read(disk, path, uuid, id).map(drop),
        FileKind::Relations => relation::read(disk, path, uuid, id).map(drop),
        FileKind::Index => {
            let cache = BlockCache::new(0, &MemoryBudget::new(0));
            Index::open(disk, path, uuid, id, file.bytes, Arc::new(cache))?.verify()
        }
    }
}

/// Copies the log, and opens and reads it there; returns the last LSN.
fn restore_log(
    disk: &Arc<dyn Disk>,
    backup: &Path,
    dest: &Path,
    manifest: &Manifest,
) -> Result<Lsn, Error> {
    let (from, to) = (Log::dir_of(backup), Log::dir_of(dest));
    for name in log_names(disk.as_ref(), &from, &manifest.contents)? {
        copy_file(disk.as_ref(), &from.join(&name), &to.join(&name))?;
    }
    disk.sync_dir(&to).map_err(Error::io("sync", &to))?;
    let (_, replayed) = Log::open(
        Arc::clone(disk),
        to,
        manifest.uuid(),
        manifest.contents.flushed_lsn,
        log_options(&Options::default()),
        &mut |lsn, payload: &[u8]| record::decode(lsn, payload).map(drop),
    )?;
    Ok(replayed.last_lsn)
}
