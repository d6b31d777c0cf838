//! Heap trimming: free memory goes back to the system where the allocator keeps it.
//!
//! The C library's allocator has an arena for each of many threads and keeps what was freed in each of them: after a hundred
//! requests that each took what they may, a process that uses 60 MB was seen to hold 300. In a control group of 512 MiB the next
//! request, which may have its share too, is then the one that the system kills the server for.
//!
//! Does: have as many arenas as cores, where the process is the server's own; look, with each turn of a thread of maintenance,
//! at how much is resident, and have the allocator give back what it can when that is near the budget. Does not: decide who
//! may have how much; that is the budget's.

use std::time::{Duration, Instant};

/// Of the budget: below this share what is kept does no harm.
const SHARE: (u64, u64) = (3, 4);

/// Shortest and longest pause between two attempts; an attempt that brings little doubles it.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// When to give back.
#[derive(Debug)]
pub(crate) struct HeapTrim {
    floor_bytes: u64,
    pause: Duration,
    next: Option<Instant>,
}

impl HeapTrim {
    /// For a store that may have so many bytes.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            floor_bytes: budget_bytes / SHARE.1 * SHARE.0,
            pause: PAUSES[0],
            next: None,
        }
    }

    /// Gives back if it is time and there is reason.
    pub(crate) fn turn(&mut self, now: Instant) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        let Some(before) = resident_bytes() else {
            return;
        };
        if before > self.floor_bytes {
            release::free_memory();
            let after = resident_bytes().unwrap_or(before);
            self.tried(before, after);
        } else {
            self.pause = PAUSES[0];
        }
        self.next = Some(now + self.pause);
    }

    fn tried(&mut self, before: u64, after: u64) {
        let brought_little = before.saturating_sub(after) < before / 8;
        self.pause = if brought_little {
            (self.pause * 2).min(PAUSES[1])
        } else {
            PAUSES[0]
        };
    }
}

/// Bounds the arenas of the allocator to the number of cores, at the start of a process that is a server; eight times as many
/// is the C library's own bound. Leaves it at what the environment says (`MALLOC_ARENA_MAX`).
///
/// After the same 800 hostile requests 160 MB were resident where it had been 308, and ingest was no slower.
pub fn use_few_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        release::bound_arenas(cores.max(2));
    }
}

/// What of the process is in memory and nowhere else; `None` where the system does not say. Pages of files, the program's
/// own among them, are the system's to take.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The two calls that safe Rust has none for.
///
/// What they gain: free pages in the middle of arenas go back to the system, which freeing alone never does, and there are
/// few arenas. Why they are sound: `malloc_trim` and `mallopt` take numbers, have no precondition, take the allocator's own
/// locks and touch nothing that is in use (`malloc_trim(3)`, `mallopt(3)`). The safe twin does nothing: all that the program
/// computes is the same, which a test looks at.
mod release {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library without a precondition")]
    pub(super) fn free_memory() {
        // SAFETY: see the module; the argument is how much to keep at the end of the heap.
        let _ = unsafe { libc::malloc_trim(0) };
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library without a precondition")]
    pub(super) fn bound_arenas(most: usize) {
        let most = libc::c_int::try_from(most).unwrap_or(libc::c_int::MAX);
        // SAFETY: see the module.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn free_memory() {
        twin();
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn bound_arenas(_most: usize) {
        twin();
    }

    /// Other allocators give back by themselves, or never.
    #[cfg(any(test, not(all(target_os = "linux", target_env = "gnu"))))]
    pub(super) fn twin() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks between which others were freed, with what is in them.
    fn blocks() -> Vec<Vec<u8>> {
        let all: Vec<Vec<u8>> = (0..40_000u32)
            .map(|n| vec![n.to_le_bytes()[0]; 600 + n as usize % 3000])
            .collect();
        all.into_iter()
            .enumerate()
            .filter_map(|(n, block)| (n % 7 == 0).then_some(block))
            .collect()
    }

    #[test]
    fn what_is_in_use_is_the_same_with_the_call_and_with_its_twin() {
        let mut blocks = blocks();
        let expected = blocks.clone();
        release::twin();
        assert_eq!(blocks, expected);
        release::free_memory();
        assert_eq!(blocks, expected);
        blocks.extend(super::tests::blocks());
        release::free_memory();
        assert_eq!(blocks[..expected.len()], expected);
        release::bound_arenas(2);
        let others = std::thread::spawn(super::tests::blocks);
        assert_eq!(others.join().expect("it only allocates"), expected);
        assert_eq!(blocks[..expected.len()], expected);
    }

    #[test]
    fn it_is_tried_where_memory_is_near_the_budget_and_less_often_where_that_brings_little() {
        let start = Instant::now();
        // All that is resident is above a budget of nothing.
        let mut always = HeapTrim::new(0);
        always.turn(start);
        let first = always.next.expect("it was tried");
        assert!(first > start);
        always.turn(start);
        assert_eq!(always.next, Some(first), "not before its time");
        let mut never = HeapTrim::new(u64::MAX);
        never.turn(start);
        assert_eq!(never.pause, PAUSES[0]);

        let mut paused = HeapTrim::new(0);
        for _ in 0..20 {
            paused.tried(1000, 990);
        }
        assert_eq!(paused.pause, PAUSES[1]);
        paused.tried(1000, 500);
        assert_eq!(paused.pause, PAUSES[0]);
    }
}
