//! The store's only way to files.
//!
//! Does: name the dozen file operations that the store needs, with a real implementation, one in memory, one
//! that fails and loses what was not synced, and a way to lay something between (`layer.rs`). Does not: retry, cache, or interpret bytes.
//!
//! Contract that the rest of the engine relies on, and that [`FaultyDisk`] holds it to: bytes survive a power cut
//! after [`DiskFile::sync`] returned `Ok`, and a created, renamed or removed name after [`Disk::sync_dir`] did.
//! Nothing else survives for certain, and what was not synced may survive in part and in any order.

mod faulty;
mod layer;
mod memory;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use faulty::{CrashPlan, FaultyDisk};
pub use layer::{DiskLayer, FileLayer};
pub use memory::MemoryDisk;
pub use real::RealDisk;
pub(crate) use real::read_system_text;

/// A file system, as far as the store needs one.
pub trait Disk: Debug + Send + Sync {
    /// Creates a new file for reading and writing; an existing one is an error.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Names of the files and folders in `dir`, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a folder and its parents, durable on return; existing ones are fine.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Gives a file another name, replacing what had it, at once and whole.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name in `to`, which must not exist: the same bytes, however many names they have, until
    /// the last one is removed. Where a file system cannot do that, `to` becomes a copy whose bytes are durable on
    /// return; so a caller may link only what nobody changes any more. Either way the name is durable after
    /// [`Self::sync_dir`].
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock that ends when the value is dropped or the process dies.
    /// `WouldBlock` means that another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// Bytes that can still be written to the file system that holds `path`, which must exist.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Bytes of the whole file system that holds `path`, in use or not.
    fn total_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Positions are explicit, so readers and writers share it without a cursor.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some of `buf` at `offset` and says how many bytes; a short write is not an error.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the file's bytes and length durable. After an error the bytes since the last success are in doubt
    /// for ever: calling again proves nothing.
    fn sync(&self) -> io::Result<()>;
    /// The file's length in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// Holds a lock until dropped.
pub trait DiskLock: Debug + Send + Sync {}

/// Writes all of `buf`, however many calls it takes.
pub(crate) fn write_all_at(file: &dyn DiskFile, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        let n = file.write_at(buf, offset)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        buf = buf.get(n..).unwrap_or_default();
        offset += n as u64;
    }
    Ok(())
}

/// Fills all of `buf`; an early end of the file is `UnexpectedEof`.
pub(crate) fn read_exact_at(
    file: &dyn DiskFile,
    mut buf: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !buf.is_empty() {
        let n = file.read_at(buf, offset)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        buf = buf.get_mut(n..).unwrap_or_default();
        offset += n as u64;
    }
    Ok(())
}
