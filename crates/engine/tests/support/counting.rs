//! A disk that counts what tests of reading want to know.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilometer_engine::disk::{Disk, DiskFile, DiskLayer, FileLayer, MemoryDisk};

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

impl Drop for CountingFile {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FileLayer for CountingFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.file.read_at(buf, offset)?;
        self.counts.bytes_read.fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
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
