//! Disks over other disks.
//!
//! Does: hand every call that a layer does not name to the disk below it. Does not: anything else; a layer says what it
//! changes and nothing more.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, DiskLock};

/// A disk over another one; see [`Disk`] for what the calls mean.
pub trait DiskLayer: Debug + Send + Sync {
    /// The disk below.
    fn below(&self) -> &dyn Disk;
    /// What becomes of a file that was created or opened.
    fn file(&self, _path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        file
    }
    /// As [`Disk::create`].
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.below().create(path).map(|file| self.file(path, file))
    }
    /// As [`Disk::open`].
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.below().open(path).map(|file| self.file(path, file))
    }
    /// As [`Disk::rename`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below().rename(from, to)
    }
    /// As [`Disk::link`].
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below().link(from, to)
    }
    /// As [`Disk::remove`].
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below().remove(path)
    }
    /// As [`Disk::sync_dir`].
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below().sync_dir(dir)
    }
}

impl<L: DiskLayer> Disk for L {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        DiskLayer::create(self, path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        DiskLayer::open(self, path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.below().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.below().create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskLayer::rename(self, from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskLayer::link(self, from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskLayer::remove(self, path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        DiskLayer::sync_dir(self, dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.below().lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.below().free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.below().total_bytes(path)
    }
}

/// An open file over another one; see [`DiskFile`] for what the calls mean.
pub trait FileLayer: Debug + Send + Sync {
    /// The file below.
    fn below(&self) -> &dyn DiskFile;
    /// As [`DiskFile::read_at`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.below().read_at(buf, offset)
    }
    /// As [`DiskFile::write_at`].
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.below().write_at(buf, offset)
    }
    /// As [`DiskFile::sync`].
    fn sync(&self) -> io::Result<()> {
        self.below().sync()
    }
}

impl<L: FileLayer> DiskFile for L {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileLayer::read_at(self, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        FileLayer::write_at(self, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        FileLayer::sync(self)
    }

    fn size(&self) -> io::Result<u64> {
        self.below().size()
    }
}
