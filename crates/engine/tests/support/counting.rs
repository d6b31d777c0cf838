//! A disk that counts what tests of reading want to know.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilometer_engine::disk::{Disk, DiskFile, DiskLock, MemoryDisk};

/// A disk in memory that counts what is open and read of segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountingDisk {
    disk: MemoryDisk,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn DiskFile>,
    counts: Arc<Counts>,
}

impl CountingDisk {
    fn counted(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if path.extension().is_none_or(|ending| ending != "seg") {
            return file;
        }
        self.counts.open.fetch_add(1, Ordering::SeqCst);
        self.counts.opened.fetch_add(1, Ordering::SeqCst);
        Arc::new(CountingFile {
            file,
            counts: Arc::clone(&self.counts),
        })
    }
}

impl Drop for CountingFile {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.file.read_at(buf, offset)?;
        self.counts.bytes_read.fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

impl Disk for CountingDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(path, self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(path, self.disk.open(path)?))
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
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.total_bytes(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
}
