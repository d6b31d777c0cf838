//! The heap of the process: what of it is in memory, and what the allocator keeps of what was freed.
//!
//! Does: say how much is resident; have the allocator give free memory back, at once where a buffer is large and on request where
//! blocks are small. Does not: decide when (`jobs::heap_trim` and `limits::body_memory` do), or who may have how much.

/// A buffer of this size or more is mapped by itself, and is the system's again when it is freed. The C library's own limit
/// moves up to 32 MiB with the buffers that are freed, and then bodies of requests grow in the arenas and leave holes there.
const LARGE_BUFFER_BYTES: usize = 4 << 20;

/// Sets the allocator up for a process that is a server: as many arenas as cores, where the C library would have eight times as
/// many, and large buffers outside them. Leaves alone what the environment says (`MALLOC_ARENA_MAX`, `MALLOC_MMAP_THRESHOLD_`).
///
/// With few arenas 160 MB were resident after the same 800 hostile requests where it had been 308, and ingest was no slower.
pub fn set_up_heap() {
    let is_set = |name| std::env::var_os(name).is_some();
    if !is_set("MALLOC_ARENA_MAX") {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        release::bound_arenas(cores.max(2));
    }
    if !is_set("MALLOC_MMAP_THRESHOLD_") {
        release::map_large_buffers(LARGE_BUFFER_BYTES);
    }
}

/// Has the allocator give back what is free in its arenas. Takes their locks, and up to some tenths of a second.
pub(crate) fn give_back() {
    release::free_memory();
}

/// What of the process is in memory and nowhere else; `None` where the system does not say. Pages of files, the program's
/// own among them, are the system's to take.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The calls that safe Rust has none for.
///
/// What they gain: free pages in the middle of arenas go back to the system, which freeing alone never does, there are few
/// arenas, and large buffers are not in them. Why they are sound: `malloc_trim` and `mallopt` take numbers, have no precondition, take the allocator's own
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

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library without a precondition")]
    pub(super) fn map_large_buffers(least: usize) {
        let least = libc::c_int::try_from(least).unwrap_or(libc::c_int::MAX);
        // SAFETY: see the module.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, least) };
        // Where the one is set, the other stays at 128 KiB, and the end of the heap would come and go; this is the library's own
        // proportion.
        // SAFETY: see the module.
        let _ = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, least.saturating_mul(2)) };
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn free_memory() {
        twin();
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn bound_arenas(_most: usize) {
        twin();
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn map_large_buffers(_least: usize) {
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
        blocks.extend(self::blocks());
        release::free_memory();
        assert_eq!(blocks[..expected.len()], expected);
        release::bound_arenas(2);
        release::map_large_buffers(LARGE_BUFFER_BYTES);
        let large: Vec<u8> = (0..=255).cycle().take(LARGE_BUFFER_BYTES + 1).collect();
        assert!(
            large
                .chunks(256)
                .all(|it| it.iter().copied().eq(0..=255) || it == [0])
        );
        let others = std::thread::spawn(self::blocks);
        assert_eq!(others.join().expect("it only allocates"), expected);
        assert_eq!(blocks[..expected.len()], expected);
    }
}
