//! A file system in memory, for tests and for what the faulty disk is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Disk, DiskFile, DiskLock};
use crate::ranked::{Locked, Mutex, Rank};

/// Files that live as long as the value; clones share them.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    tree: Arc<Mutex<Tree>>,
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self {
            tree: Arc::new(Mutex::new(Rank::Disk, Tree::default())),
        }
    }
}

#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, Arc<Bytes>>,
    locks: BTreeSet<PathBuf>,
    room: Arc<Room>,
}

/// How much all files together may hold.
#[derive(Debug)]
struct Room {
    capacity: AtomicU64,
    used: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            capacity: AtomicU64::new(u64::MAX),
            used: AtomicU64::new(0),
        }
    }
}

impl Room {
    fn free(&self) -> u64 {
        let capacity = self.capacity.load(Ordering::Relaxed);
        capacity.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// A file's bytes. They take room until the last name and the last open file are gone, as anywhere.
#[derive(Debug)]
struct Bytes {
    bytes: Mutex<Vec<u8>>,
    room: Arc<Room>,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let length = lock(&self.bytes).len() as u64;
        self.room.used.fetch_sub(length, Ordering::Relaxed);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    mutex.lock()
}

impl MemoryDisk {
    /// An empty file system, as large as memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all files together hold this many bytes. Bytes that are there already stay, even if they are more.
    pub fn set_capacity(&self, bytes: u64) {
        let tree = lock(&self.tree);
        tree.room.capacity.store(bytes, Ordering::Relaxed);
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut tree = lock(&self.tree);
        if tree.files.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let bytes = Arc::new(Bytes {
            bytes: Mutex::new(Rank::DiskFile, Vec::new()),
            room: Arc::clone(&tree.room),
        });
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

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = lock(&self.tree);
        let file = Arc::clone(tree.files.get(from).ok_or(io::ErrorKind::NotFound)?);
        if tree.files.contains_key(to) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
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

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(lock(&self.tree).room.free())
    }

    fn total_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(lock(&self.tree).room.capacity.load(Ordering::Relaxed))
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
struct MemoryFile(Arc<Bytes>);

impl DiskFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(read_from(&lock(&self.0.bytes), buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = lock(&self.0.bytes);
        let room = &self.0.room;
        let before = bytes.len() as u64;
        // Two files that grow at the same moment may pass the capacity by one write: no test depends on the last byte.
        let n = write_within(&mut bytes, buf, offset, room.free())?;
        let grown = bytes.len() as u64 - before;
        room.used.fetch_add(grown, Ordering::Relaxed);
        Ok(n)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(lock(&self.0.bytes).len() as u64)
    }
}

/// How many bytes of a write of `length` bytes at `offset` fit, if a file of `size` bytes may grow by `free` bytes. A
/// full disk takes the part that fits, and nothing of the next write.
pub(super) fn fitting(size: u64, length: usize, offset: u64, free: u64) -> io::Result<usize> {
    let end_max = size.saturating_add(free);
    let fits = usize::try_from(end_max.saturating_sub(offset)).unwrap_or(usize::MAX);
    if length > 0 && fits == 0 {
        return Err(io::Error::from(io::ErrorKind::StorageFull));
    }
    Ok(length.min(fits))
}

fn write_within(bytes: &mut Vec<u8>, buf: &[u8], offset: u64, free: u64) -> io::Result<usize> {
    let n = fitting(bytes.len() as u64, buf.len(), offset, free)?;
    write_into(bytes, buf.get(..n).unwrap_or_default(), offset);
    Ok(n)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_what_fits_and_removing_a_file_makes_room() {
        let disk = MemoryDisk::new();
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        disk.set_capacity(10);
        let file = disk.create(a).unwrap();
        assert_eq!(file.write_at(b"123456", 0).unwrap(), 6);
        assert_eq!(file.write_at(b"123456", 6).unwrap(), 4);
        let full = file.write_at(b"5", 10).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            file.write_at(b"abc", 0).unwrap(),
            3,
            "overwriting needs none"
        );
        assert_eq!(disk.free_bytes(a).unwrap(), 0);

        disk.link(a, b).unwrap();
        assert_eq!(disk.free_bytes(a).unwrap(), 0, "a second name is free");
        disk.remove(a).unwrap();
        assert_eq!(disk.free_bytes(b).unwrap(), 0, "the other name has them");
        disk.remove(b).unwrap();
        assert_eq!(disk.free_bytes(b).unwrap(), 0, "an open file has them");
        drop(file);
        assert_eq!(disk.free_bytes(b).unwrap(), 10);
    }
}
