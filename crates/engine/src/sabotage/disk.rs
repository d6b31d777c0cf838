//! A disk between the store and its own, for the planted bugs that are about how the store asks the disk.
//!
//! Does: make every write look whole, or leave the syncs of folders out. Does not: exist unless such a bug is planted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Sabotage;
use crate::disk::{Disk, DiskFile, DiskLock};

/// The store's disk: the real one, unless a planted bug stands in between.
pub(crate) fn between(disk: Arc<dyn Disk>, sabotage: Option<Sabotage>) -> Arc<dyn Disk> {
    let believes_writes = sabotage == Some(Sabotage::ShortWriteIgnored);
    let skips_sync_dir = sabotage == Some(Sabotage::DirectorySyncSkipped);
    if !believes_writes && !skips_sync_dir {
        return disk;
    }
    Arc::new(Careless {
        disk,
        believes_writes,
        skips_sync_dir,
    })
}

#[derive(Debug)]
struct Careless {
    disk: Arc<dyn Disk>,
    believes_writes: bool,
    skips_sync_dir: bool,
}

impl Careless {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if self.believes_writes {
            Arc::new(CarelessFile(file))
        } else {
            file
        }
    }
}

impl Disk for Careless {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path).map(|file| self.file(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.file(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.skips_sync_dir {
            return Ok(());
        }
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.total_bytes(path)
    }
}

#[derive(Debug)]
struct CarelessFile(Arc<dyn DiskFile>);

impl DiskFile for CarelessFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset).map(|_| buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}
