//! The disk reserve: writes are refused before the disk is full, so that maintenance can still free space.
//!
//! Does: look at the free bytes now and then, and refuse rows while they are less than the reserve. Does not: refuse
//! what frees room or needs little of it (deletes, changes of names, flushes, compaction): the reserve is theirs.
//! Nothing waits here for room: each write asks anew, so writing goes on by itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::disk::Disk;
use crate::error::Error;
use crate::options::Options;

/// A reserve is at least this: a flush of a full log of the smallest sensible size, and the manifest written afresh.
const RESERVE_BYTES_MIN: u64 = 64 << 20;
/// What one compaction may need while its inputs are still there.
const COMPACTION_BYTES: u64 = 256 << 20;
/// A reserve is at most this part of a disk, unless the least above is more.
const RESERVE_PART: u64 = 20;

/// The free bytes are asked for when this much was written since, or this long has passed. Writers add a few batches
/// to that before they notice, which the reserve covers many times.
const CHECK_BYTES: u64 = 8 << 20;
const CHECK_MS: u64 = 100;

/// What is known of the room on the disk.
#[derive(Debug)]
pub(in crate::engine) struct Space {
    reserve: u64,
    /// When the free bytes were asked for last, in monotonic milliseconds plus one; 0 = never.
    checked_ms: AtomicU64,
    /// Bytes written since.
    written: AtomicU64,
    free: AtomicU64,
    refusing: AtomicBool,
    refused: AtomicU64,
}

impl Space {
    /// The reserve is as set by the operator, or else one that fits the disk and the log: everything in the log may have
    /// to become segments before its files can be reused, and one compaction must be able to end.
    pub(in crate::engine) fn new(disk: &dyn Disk, dir: &Path, options: &Options) -> Self {
        let reserve = options.disk_reserve_bytes.unwrap_or_else(|| {
            // A disk that does not say how large it is gets the reserve of a large one.
            let total = disk.total_bytes(dir).unwrap_or(u64::MAX);
            default_reserve(total, options.log_bytes_max)
        });
        Self {
            reserve,
            checked_ms: AtomicU64::new(0),
            written: AtomicU64::new(0),
            free: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether rows may be written now. Asks the disk only now and then, but always while it refuses.
    pub(in crate::engine) fn check(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        now_ms: u64,
    ) -> Result<(), Error> {
        let checked = self.checked_ms.load(Ordering::Relaxed);
        let due = checked == 0
            || now_ms.saturating_sub(checked - 1) >= CHECK_MS
            || self.written.load(Ordering::Relaxed) >= CHECK_BYTES
            || self.refusing.load(Ordering::Relaxed);
        if !due {
            return Ok(());
        }
        self.checked_ms
            .store(now_ms.saturating_add(1), Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
        // A disk that does not answer is not thereby full; if it is broken, the write will say so.
        let free = disk.free_bytes(dir).unwrap_or(u64::MAX);
        self.free.store(free, Ordering::Relaxed);
        let refusing = free < self.reserve;
        self.refusing.store(refusing, Ordering::Relaxed);
        if refusing {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::DiskFull {
                free,
                reserve: self.reserve,
                path: dir.to_owned(),
            });
        }
        Ok(())
    }

    /// Whether a job that keeps its inputs until it has written `bytes` may start: half of the reserve is left to
    /// flushes, which cannot wait.
    pub(in crate::engine) fn has_room_for(&self, disk: &dyn Disk, dir: &Path, bytes: u64) -> bool {
        let free = disk.free_bytes(dir).unwrap_or(u64::MAX);
        free >= bytes.saturating_add(self.reserve / 2)
    }

    /// Notes bytes that are on their way to the disk.
    pub(in crate::engine) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The free bytes when they were last asked for; 0 = not yet.
    pub(in crate::engine) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    pub(in crate::engine) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Writes refused since the store was opened.
    pub(in crate::engine) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

fn default_reserve(total: u64, log_bytes_max: u64) -> u64 {
    let wanted = log_bytes_max.saturating_add(COMPACTION_BYTES);
    wanted.min(total / RESERVE_PART).max(RESERVE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    const DIR: &str = "/d";

    fn space(disk: &MemoryDisk, reserve: u64) -> Space {
        let options = Options {
            disk_reserve_bytes: Some(reserve),
            ..Options::default()
        };
        Space::new(disk, Path::new(DIR), &options)
    }

    #[test]
    fn the_reserve_grows_with_the_log_and_leaves_a_small_disk_most_of_itself() {
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(default_reserve(1000 * gib, 256 * mib), 512 * mib);
        assert_eq!(default_reserve(1000 * gib, gib), gib + 256 * mib);
        assert_eq!(default_reserve(8 * gib, 256 * mib), 8 * gib / 20);
        assert_eq!(default_reserve(gib, 256 * mib), 64 * mib);
        assert_eq!(default_reserve(u64::MAX, u64::MAX), u64::MAX / 20);
    }

    #[test]
    fn the_disk_is_asked_when_much_was_written_or_time_has_passed() {
        let disk = MemoryDisk::new();
        let space = space(&disk, 1000);
        let check = |ms| space.check(&disk, Path::new(DIR), ms);
        check(5).unwrap();
        disk.set_capacity(999);
        check(5).unwrap();
        check(104).unwrap();
        assert!(check(105).is_err(), "100 ms after the last look");

        disk.set_capacity(1000);
        check(105).unwrap();
        disk.set_capacity(0);
        space.wrote(CHECK_BYTES - 1);
        check(106).unwrap();
        space.wrote(1);
        assert!(check(106).is_err(), "8 MiB after the last look");
    }

    #[test]
    fn a_job_starts_only_if_it_leaves_flushes_half_of_the_reserve() {
        let disk = MemoryDisk::new();
        let space = space(&disk, 1000);
        disk.set_capacity(700);
        let has_room = |bytes| space.has_room_for(&disk, Path::new(DIR), bytes);
        assert!(has_room(0) && has_room(200) && !has_room(201) && !has_room(u64::MAX));
    }

    #[test]
    fn while_it_refuses_every_write_asks_so_the_first_byte_of_room_is_seen() {
        let disk = MemoryDisk::new();
        let space = space(&disk, 1000);
        disk.set_capacity(10);
        for _ in 0..3 {
            let refused = space.check(&disk, Path::new(DIR), 0).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains("10 bytes free") && text.contains("1000"),
                "{text}"
            );
        }
        assert_eq!((space.refused(), space.free()), (3, 10));
        disk.set_capacity(1000);
        space.check(&disk, Path::new(DIR), 0).unwrap();
    }
}
