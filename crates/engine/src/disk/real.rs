//! The operating system's file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, DiskLock};

/// Files of the machine; POSIX only.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

/// Data is nobody else's business: files are private to the server's user.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // The store only makes ASCII names, so what is not UTF-8 is not its own.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = match dir.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        self.create_dir_all(parent)?;
        match fs::DirBuilder::new().mode(DIR_MODE).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A store in a folder that a power cut forgets is a lost store.
        self.sync_dir(parent)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Err(error) if cannot_link(error.kind()) => copy_whole(from, to),
            other => other,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        // What is kept for the system's administrator is not ours: `f_bavail`, not `f_bfree`.
        let space = rustix::fs::statvfs(path)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(path)?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }
}

/// Whether two names for one file are impossible here, rather than this once: another file system, one without links
/// (which say "not permitted"), or one file with too many names.
fn cannot_link(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::CrossesDevices
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::TooManyLinks
    )
}

/// Copies a file to a new one and makes its bytes durable; leaves nothing behind when that fails.
fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(to)?;
    let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
    if copied.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(to));
    }
    copied
}

/// A file in which the operating system says something about itself, such as those in `/proc`; `None` = it says
/// nothing there. No file of a store is read like this.
pub(crate) fn read_system_text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        retry_interrupted(|| self.0.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        retry_interrupted(|| self.0.write_at(buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: it makes the length durable too when the length is needed to read the bytes.
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// A signal during a read or a write is no failure; a sync is never retried, so it does not come through here.
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The lock lives as long as the open file.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_the_same_file_and_a_copy_has_the_same_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("a"), b"bytes").unwrap();
        RealDisk.link(&path("a"), &path("b")).unwrap();
        copy_whole(&path("a"), &path("c")).unwrap();
        fs::write(path("a"), b"other").unwrap();
        assert_eq!(fs::read(path("b")).unwrap(), b"other");
        assert_eq!(fs::read(path("c")).unwrap(), b"bytes");
        for taken in ["b", "c"] {
            let error = RealDisk.link(&path("a"), &path(taken)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert!(copy_whole(&path("a"), &path(taken)).is_err());
        }
    }

    #[test]
    fn a_disk_has_more_room_in_all_than_is_free() {
        let scratch = tempfile::tempdir().unwrap();
        let free = RealDisk.free_bytes(scratch.path()).unwrap();
        let total = RealDisk.total_bytes(scratch.path()).unwrap();
        assert!(free <= total && total > 0, "{free} of {total}");
        assert!(RealDisk.free_bytes(&scratch.path().join("none")).is_err());
    }
}
