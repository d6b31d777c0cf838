//! Backups of a running store: a folder that is a data directory of its own.
//!
//! Does: link what is immutable, copy the end of the log, list both in a manifest, and bring a folder with an earlier
//! backup up to date. Does not: compress, send anything anywhere, or check what it copies (restoring does).
//!
//! A backup holds every batch that was acknowledged when it was called, and exactly those up to the LSN it reports.
//! At any moment, also after a crash, the folder opens as the earlier backup or as the new one: files are added first,
//! the log's end among them; the manifest, which names the one log file that counts, changes hands in one step; and what
//! only the earlier one needed goes last. The marker `backup` tells a
//! backup from a store: opening the folder as a store takes the marker away, because its files then are that store's.
//!
//! Files are linked into a folder of the data directory while the store goes on and only keeps from removing them, and go
//! from there to their place: so a backup holds up nobody who writes or flushes, and one to another disk, which must copy,
//! not even the removal of files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::engine::copies::Backups;
use crate::engine::maintain::Jobs;
use crate::engine::repair::damaged::Quarantined;
use crate::error::Error;
use crate::file_header::{self, FileFormat};
use crate::layout::{LOCK_FILE, is_file_name, listed, lock_dir, remove_if_there, segment_dir};
use crate::log::{self, Log};
use crate::manifest::{BackupLog, Contents, Manifest};
use crate::schema::Lsn;

/// Says that a folder is a backup.
pub(in crate::engine) const MARKER_FILE: &str = "backup";
const MARKER_DRAFT: &str = "backup.tmp";
const MARKER: FileFormat = FileFormat {
    magic: *b"NILOBAK0",
    format: 1,
};
const MARKER_BYTES: usize = 64;

/// Where files are linked while the store keeps them.
const STAGED_DIR: &str = "staged";
/// A file that has not got its name in the backup yet.
const DRAFT_ENDING: &str = ".tmp";

/// A log with more than this becomes a segment before it is backed up: an immutable file is copied once, the log's end
/// each time.
const LOG_COPY_BYTES: u64 = 8 << 20;

/// Files of one id in two folders are the same if their lengths and this much of their ends are: that is where their
/// checksums are.
const COMPARED_BYTES: u64 = 64;

/// What a backup did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The backup has every batch up to this LSN, and none above.
    pub lsn: Lsn,
    /// Files that were linked or copied, the log's end not among them.
    pub files_added: u64,
    /// Their bytes.
    pub bytes_added: u64,
    /// Files that an earlier backup in this folder had already.
    pub files_kept: u64,
    /// Files that only the earlier backup needed.
    pub files_removed: u64,
    /// Bytes of the log's end.
    pub log_bytes: u64,
}

/// What the manifest said at one moment.
struct Frame {
    contents: Contents,
    lsn: Lsn,
    /// Names of files that the backup does not have yet.
    missing: Vec<String>,
}

/// Files that the store may not remove before this is dropped.
struct Kept<'a> {
    jobs: &'a Jobs,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.jobs.list().backed_up.clear();
    }
}

impl Backups {
    /// Backs the store up into `dest`: an empty or absent folder, or one with an earlier backup of this store, to which
    /// then only what is new is added. Writers and readers go on meanwhile.
    pub(in crate::engine) fn backup(
        &self,
        dest: &Path,
        aside: &[Quarantined],
    ) -> Result<BackupReport, Error> {
        let _one_at_a_time = self.turn.lock();
        let disk = self.site.disk();
        if dest.starts_with(self.site.dir()) || self.site.dir().starts_with(dest) {
            return Err(refuse(
                dest,
                "it is the store's own folder, or inside it, or around it",
            ));
        }
        for dir in [dest.to_owned(), segment_dir(dest), Log::dir_of(dest)] {
            disk.create_dir_all(&dir)
                .map_err(Error::io("create", &dir))?;
        }
        let _lock = lock_dir(disk, dest)?;
        check_destination(disk, dest, self.site.uuid())?;
        write_marker(disk, dest, self.site.uuid(), 0)?;
        if self.sequencer.counters().log_bytes.load(Ordering::Relaxed) > LOG_COPY_BYTES {
            // When this fails, as in a store that was poisoned, the log is copied at its whole length.
            drop(self.jobs.flush());
        }
        clear_staged(disk, self.site.dir())?;
        let mut report = BackupReport::default();
        let frame = self.frame(dest, &mut report)?;
        self.add_files(dest, &frame)?;
        Manifest::write(disk, dest, self.site.uuid(), frame.contents.clone())?;
        keep_one_log(disk, dest, &frame.contents)?;
        self.remove_unlisted(dest, &frame.contents, aside, &mut report)?;
        write_marker(disk, dest, self.site.uuid(), frame.lsn)?;
        clear_staged(disk, self.site.dir())?;
        Ok(report)
    }

    /// Reads the log's end while no flush can trim it, and links what is missing while the store goes on but removes none
    /// of it.
    fn frame(&self, dest: &Path, report: &mut BackupReport) -> Result<Frame, Error> {
        let disk = self.site.disk();
        let number = new_log_number(disk, dest)?;
        let flushing = self.jobs.flushing();
        let (mut contents, _kept) = self.keep_listed();
        let lsn = self.sequencer.log().durable().max(contents.flushed_lsn);
        if lsn > contents.flushed_lsn {
            let draft = Log::dir_of(dest).join(log::DRAFT);
            remove_if_there(disk, &draft)?;
            report.log_bytes =
                self.sequencer
                    .log()
                    .copy(contents.flushed_lsn, lsn, number, &draft)?;
        }
        drop(flushing);
        let missing = self.stage(dest, &contents, report)?;
        contents.backup_log = Some(BackupLog {
            number,
            last_lsn: lsn,
        });
        report.lsn = lsn;
        Ok(Frame {
            contents,
            lsn,
            missing,
        })
    }

    /// What the manifest lists, and that none of it is removed for now. The caller is the only backup.
    fn keep_listed(&self) -> (Contents, Kept<'_>) {
        let manifest = self.jobs.manifest();
        let contents = manifest.contents.clone();
        let segments = contents.segments.iter().map(|file| file.file_id);
        let others = contents.files.iter().map(|file| file.file_id);
        self.jobs.list().backed_up = segments.chain(others).collect();
        (contents, Kept { jobs: &self.jobs })
    }

    /// Links the files that the backup does not have into a folder of the data directory; returns their names.
    fn stage(
        &self,
        dest: &Path,
        contents: &Contents,
        report: &mut BackupReport,
    ) -> Result<Vec<String>, Error> {
        let disk = self.site.disk();
        let (from, to) = (
            segment_dir(self.site.dir()),
            self.site.dir().join(STAGED_DIR),
        );
        disk.create_dir_all(&to).map_err(Error::io("create", &to))?;
        let mut missing = Vec::new();
        for (name, bytes) in listed(contents) {
            let source = from.join(&name);
            if is_same(disk, &source, &segment_dir(dest).join(&name), bytes)? {
                report.files_kept += 1;
                continue;
            }
            disk.link(&source, &to.join(&name))
                .map_err(Error::io("link", &source))?;
            report.files_added += 1;
            report.bytes_added += bytes;
            missing.push(name);
        }
        Ok(missing)
    }

    /// Gives the missing files and the log's end their places; each has its name only when it is whole.
    fn add_files(&self, dest: &Path, frame: &Frame) -> Result<(), Error> {
        let disk = self.site.disk();
        let (from, to) = (self.site.dir().join(STAGED_DIR), segment_dir(dest));
        for name in &frame.missing {
            let (staged, place) = (from.join(name), to.join(name));
            let draft = to.join(format!("{name}{DRAFT_ENDING}"));
            remove_if_there(disk, &draft)?;
            disk.link(&staged, &draft)
                .map_err(Error::io("link", &staged))?;
            disk.rename(&draft, &place)
                .map_err(Error::io("rename", &draft))?;
            disk.remove(&staged).map_err(Error::io("remove", &staged))?;
        }
        let contents = &frame.contents;
        if let Some(log) = contents.backup_log
            && log.last_lsn > contents.flushed_lsn
        {
            let dir = Log::dir_of(dest);
            let (draft, path) = (dir.join(log::DRAFT), dir.join(log::file_name(log.number)));
            disk.rename(&draft, &path)
                .map_err(Error::io("rename", &draft))?;
            disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
        }
        disk.sync_dir(&to).map_err(Error::io("sync", &to))
    }

    /// Removes the files that the manifest of the backup does not list. What the store has put aside since stays: the
    /// earlier backup may have the only copy that is whole.
    fn remove_unlisted(
        &self,
        dest: &Path,
        contents: &Contents,
        aside: &[Quarantined],
        report: &mut BackupReport,
    ) -> Result<(), Error> {
        let (disk, dir) = (self.site.disk(), segment_dir(dest));
        let listed = listed(contents);
        let aside: Vec<&OsStr> = aside.iter().filter_map(|it| it.file.file_name()).collect();
        for name in disk.list(&dir).map_err(Error::io("list", &dir))? {
            let is_ours = is_file_name(name.strip_suffix(DRAFT_ENDING).unwrap_or(&name));
            if is_ours && !listed.contains_key(&name) && !aside.contains(&OsStr::new(&name)) {
                let path = dir.join(&name);
                disk.remove(&path).map_err(Error::io("remove", &path))?;
                report.files_removed += 1;
            }
        }
        disk.sync_dir(&dir).map_err(Error::io("sync", &dir))
    }
}

fn refuse(dest: &Path, reason: &str) -> Error {
    Error::NotABackup {
        path: dest.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Only an empty folder and a backup of this very store may be written to.
fn check_destination(disk: &dyn Disk, dest: &Path, uuid: [u8; 16]) -> Result<(), Error> {
    let names = disk.list(dest).map_err(Error::io("list", dest))?;
    if names.iter().any(|name| name == MARKER_FILE) {
        let (owner, _) = read_marker(disk, dest)?;
        if owner != uuid {
            return Err(refuse(dest, "it has a backup of another store"));
        }
        return Ok(());
    }
    if Manifest::exists(&names) {
        return Err(refuse(
            dest,
            "it is a store, or a backup that was opened as one since",
        ));
    }
    let own = [LOCK_FILE, "log", "segments", MARKER_DRAFT, "lost+found"];
    if let Some(stranger) = names.iter().find(|name| !own.contains(&name.as_str())) {
        return Err(refuse(dest, &format!("it has a \"{stranger}\"")));
    }
    // What is left of a store whose manifest is lost is the last thing to write over.
    for dir in [segment_dir(dest), Log::dir_of(dest)] {
        let names = disk.list(&dir).map_err(Error::io("list", &dir))?;
        if let Some(name) = names.first() {
            return Err(refuse(
                dest,
                &format!("it has files of a store, such as {name}"),
            ));
        }
    }
    Ok(())
}

/// Says in `dest` that it is a backup of `uuid` with everything up to `lsn`; 0 = one is being made.
fn write_marker(disk: &dyn Disk, dest: &Path, uuid: [u8; 16], lsn: Lsn) -> Result<(), Error> {
    let (draft, path) = (dest.join(MARKER_DRAFT), dest.join(MARKER_FILE));
    remove_if_there(disk, &draft)?;
    let bytes = file_header::encode(MARKER, uuid, &lsn.to_le_bytes(), MARKER_BYTES);
    let file = disk.create(&draft).map_err(Error::io("create", &draft))?;
    write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", &draft))?;
    file.sync().map_err(Error::io("sync", &draft))?;
    disk.rename(&draft, &path)
        .map_err(Error::io("rename", &draft))?;
    disk.sync_dir(dest).map_err(Error::io("sync", dest))
}

/// Whose backup is in `dir`, and up to which LSN; 0 = making it was interrupted.
pub(in crate::engine) fn read_marker(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<([u8; 16], Lsn), Error> {
    let path = dir.join(MARKER_FILE);
    let file = disk.open(&path).map_err(Error::io("open", &path))?;
    let mut bytes = vec![0; MARKER_BYTES];
    read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", &path))?;
    let header = file_header::decode::<8>(&bytes, MARKER, &path)?;
    Ok((header.uuid, Lsn::from_le_bytes(header.own)))
}

/// Whether a newer version made the backup in `dir`, if it is one: then it is not this version's to open. Anything else
/// about it does not matter to who opens the folder as a store.
pub(in crate::engine) fn check_marker(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let names = disk.list(dir).map_err(Error::io("list", dir))?;
    if !names.iter().any(|name| name == MARKER_FILE) {
        return Ok(());
    }
    match read_marker(disk, dir) {
        Err(error @ (Error::NewerFormat { .. } | Error::UnknownCipher { .. })) => Err(error),
        _ => Ok(()),
    }
}

/// The folder is a store from here on, and no longer a backup that could be brought up to date.
pub(in crate::engine) fn remove_marker(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let names = disk.list(dir).map_err(Error::io("list", dir))?;
    if names.iter().any(|name| name == MARKER_FILE) {
        remove_if_there(disk, &dir.join(MARKER_FILE))?;
    }
    Ok(())
}

/// Whether the backup has this file already.
fn is_same(disk: &dyn Disk, source: &Path, copy: &Path, bytes: u64) -> Result<bool, Error> {
    let end = |path: &Path| -> io::Result<Option<Vec<u8>>> {
        let file = disk.open(path)?;
        if file.size()? != bytes {
            return Ok(None);
        }
        let length = bytes.min(COMPARED_BYTES);
        let mut end = vec![0; usize::try_from(length).unwrap_or(0)];
        read_exact_at(file.as_ref(), &mut end, bytes - length)?;
        Ok(Some(end))
    };
    let there = match end(copy) {
        Ok(Some(there)) => there,
        Ok(None) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("read", copy)(error)),
    };
    let here = end(source).map_err(Error::io("read", source))?;
    Ok(here == Some(there))
}

/// Numbers of the log files in a folder, ascending.
pub(in crate::engine) fn log_numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, Error> {
    let names = disk.list(dir).map_err(Error::io("list", dir))?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| log::file_number(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A number that no log file in a backup has, nor the one that its manifest names, whether that has a file or not.
fn new_log_number(disk: &dyn Disk, dest: &Path) -> Result<u64, Error> {
    let named = match Manifest::open(disk, dest) {
        Ok(manifest) => manifest.contents.backup_log,
        // There is none, or it is damaged: then there is no earlier backup that could take the new file for its own.
        Err(_) => None,
    };
    let there = log_numbers(disk, &Log::dir_of(dest))?;
    let highest = there.last().copied().max(named.map(|log| log.number));
    Ok(highest.unwrap_or(0) + 1)
}

/// Names of the log's files that count: of a backup one, of a store all, and the mark beside them.
pub(in crate::engine) fn log_names(
    disk: &dyn Disk,
    dir: &Path,
    contents: &Contents,
) -> Result<Vec<String>, Error> {
    let mut names = disk.list(dir).map_err(Error::io("list", dir))?;
    names.retain(|name| match contents.backup_log {
        Some(log) => log::file_number(name) == Some(log.number),
        None => name == log::MARK || log::file_number(name).is_some(),
    });
    names.sort_unstable();
    Ok(names)
}

/// Removes the log files that do not count in a backup: those of an earlier one, or of one that did not end, and the
/// mark of a store that was here. In a store all count.
pub(in crate::engine) fn keep_one_log(
    disk: &dyn Disk,
    dir: &Path,
    contents: &Contents,
) -> Result<(), Error> {
    let Some(log) = contents.backup_log else {
        return Ok(());
    };
    let dir = Log::dir_of(dir);
    let mut others = disk.list(&dir).map_err(Error::io("list", &dir))?;
    others.retain(|name| {
        name == log::MARK || log::file_number(name).is_some_and(|number| number != log.number)
    });
    for name in &others {
        let path = dir.join(name);
        disk.remove(&path).map_err(Error::io("remove", &path))?;
    }
    if others.is_empty() {
        return Ok(());
    }
    disk.sync_dir(&dir).map_err(Error::io("sync", &dir))
}

/// Whether all of a backup's log was there, given the last LSN that was.
pub(in crate::engine) fn check_log_end(
    dir: &Path,
    contents: &Contents,
    last_lsn: Lsn,
) -> Result<(), Error> {
    match contents.backup_log {
        Some(log) if last_lsn < log.last_lsn => Err(Error::corrupt(
            &Log::dir_of(dir).join(log::file_name(log.number)),
            0,
            format!(
                "the log ends at LSN {last_lsn}, the backup had {}",
                log.last_lsn
            ),
        )),
        _ => Ok(()),
    }
}

/// Removes what an interrupted backup has left linked: it takes no room of its own until the store removes a file.
pub(in crate::engine) fn clear_staged(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let staged = dir.join(STAGED_DIR);
    let names = match disk.list(&staged) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(Error::io("list", &staged))?,
    };
    for name in names.iter().filter(|name| is_file_name(name)) {
        remove_if_there(disk, &staged.join(name))?;
    }
    Ok(())
}
