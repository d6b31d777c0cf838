//! Compaction: segments become fewer, blocks full, and partitions get files of their own.
//!
//! Does: decide which segments to rewrite together ([`plan`]), and rewrite them with the reader and the merge of a scan
//! ([`rewrite`]). Does not: claim jobs, write the manifest or remove files; see `engine/maintain/compact.rs`.
//!
//! Segments that share a table and time are ordered by their last LSN ([`order`]). Whatever is merged must be neighbours in
//! this order, or newer rows would come to stand below older ones. No row goes unless it is known where to ([`balance`]).

pub(crate) mod balance;
pub(crate) mod order;
pub(crate) mod plan;
pub(crate) mod rewrite;

/// How compaction weighs files against work. [`Default`] is what a server runs with.
#[derive(Debug, Clone)]
pub struct CompactionOptions {
    /// So many neighbouring segments of a like size become one.
    pub fan_in: usize,
    /// Rows of a table and window that make a partition worth its own file.
    pub partition_rows_min: u64,
    /// Partitions with fewer rows than this together become one wider partition.
    pub widen_rows_max: u64,
    /// Segments smaller than `fan_in` of them are compacted when nobody has written for this long, in milliseconds; 0 =
    /// never for this reason.
    pub settle_ms: u64,
    /// Rows that one compaction reads.
    pub job_rows_max: u64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            fan_in: 8,
            partition_rows_min: 32 * 1024,
            widen_rows_max: 256 * 1024,
            settle_ms: 10_000,
            job_rows_max: 256 << 20,
        }
    }
}
