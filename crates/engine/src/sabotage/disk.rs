//! A disk between the store and its own, for the planted bugs that are about how the store asks the disk.
//!
//! Does: make every write look whole, or leave the syncs of folders out. Does not: exist unless such a bug is planted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Sabotage;
use crate::disk::{Disk, DiskFile, DiskLayer, FileLayer};

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

impl DiskLayer for Careless {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn file(&self, _: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if self.believes_writes {
            Arc::new(CarelessFile(file))
        } else {
            file
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.skips_sync_dir {
            return Ok(());
        }
        self.disk.sync_dir(dir)
    }
}

#[derive(Debug)]
struct CarelessFile(Arc<dyn DiskFile>);

impl FileLayer for CarelessFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.0
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset).map(|_| buf.len())
    }
}
