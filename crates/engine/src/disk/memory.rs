//! A file system in memory, for tests and for what the faulty disk is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, DiskLock};

/// Files that live as long as the value; clones share them.
#[derive(Debug, Default, Clone)]
pub struct MemoryDisk {
    tree: Arc<Mutex<Tree>>,
}

#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>,
    locks: BTreeSet<PathBuf>,
}

/// A panic elsewhere leaves the maps as they were, so a poisoned mutex is still good here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// An empty file system.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut tree = lock(&self.tree);
        if tree.files.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let bytes = Arc::new(Mutex::new(Vec::new()));
        tree.files.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(Arc::new(MemoryFile(bytes)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let tree = lock(&self.tree);
        let bytes = tree.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile(Arc::clone(bytes))))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let tree = lock(&self.tree);
        Ok(tree
            .files
            .keys()
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect())
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let file = tree.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        tree.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = lock(&self.tree).files.remove(path);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if !lock(&self.tree).locks.insert(path.to_owned()) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        Ok(Box::new(MemoryLock {
            tree: Arc::clone(&self.tree),
            path: path.to_owned(),
        }))
    }
}

#[derive(Debug)]
struct MemoryLock {
    tree: Arc<Mutex<Tree>>,
    path: PathBuf,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.tree).locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl DiskFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(read_from(&lock(&self.0), buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        write_into(&mut lock(&self.0), buf, offset);
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }
}

pub(super) fn read_from(bytes: &[u8], buf: &mut [u8], offset: u64) -> usize {
    let start = usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
    let rest = bytes.get(start..).unwrap_or_default();
    let n = rest.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
        to.copy_from_slice(from);
    }
    n
}

pub(super) fn write_into(bytes: &mut Vec<u8>, buf: &[u8], offset: u64) {
    let start = usize::try_from(offset).expect("a file in memory is smaller than memory");
    let end = start + buf.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(to) = bytes.get_mut(start..end) {
        to.copy_from_slice(buf);
    }
}
