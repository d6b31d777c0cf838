//! Settings of a store.

use crate::compaction::CompactionOptions;
use crate::sabotage::Sabotage;
use crate::segment::SegmentFormat;

/// Settings of a store. [`Default`] is what a server runs with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The head becomes a segment at this many rows.
    pub flush_rows: u64,
    /// The head becomes a segment at this many bytes, whatever its rows: a row of text may have a megabyte.
    pub flush_bytes: u64,
    /// The head becomes a segment when nobody has written for this long, in milliseconds; 0 = never for this reason.
    pub flush_idle_ms: u64,
    /// An idle head with fewer rows stays in memory, so that a trickle of rows does not become a trickle of files.
    pub flush_idle_rows_min: u64,
    /// Bytes of log files; the head becomes a segment when half of it is in use.
    pub log_bytes_max: u64,
    /// Rows of one batch.
    pub batch_rows_max: u64,
    /// Columns of one batch: the fields that it writes, of all its tables together, and the tags of series that writers
    /// do not remember.
    pub batch_columns_max: u64,
    /// Series that one batch makes.
    pub batch_series_max: u64,
    /// Bytes of one text or bytes value of typed rows, at most 32 MiB; line protocol has InfluxDB's limit of 1 MiB.
    pub value_bytes_max: u64,
    /// Tags of one table. Each costs a block in the index for every 1024 series of the table.
    pub table_tags_max: u64,
    /// How segments are compacted.
    pub compaction: CompactionOptions,
    /// Bytes of the disk that writes leave free, for what makes room again; `None` = as much as the log and one
    /// compaction may need, at most a twentieth of the disk, at least 64 MiB.
    pub disk_reserve_bytes: Option<u64>,
    /// Memory for rows, caches, names, compaction and queries together; 0 = half of what the machine, or the control
    /// group that the process is in, has. See [`MemoryBudget`] for who gets how much.
    pub memory_bytes_max: u64,
    /// The key of a batch is remembered for this long, in nanoseconds.
    pub key_age_ns: i64,
    /// So many keys are remembered at most; the oldest go first.
    pub keys_max: u64,
    /// Memory of what writers remember of series texts, about 40 bytes each; with less they look series up again.
    pub memo_bytes_max: usize,
    /// Memory for directories, statistics and rollups of segments.
    pub directory_cache_bytes_max: u64,
    /// Memory for blocks of index files, which series are found in.
    pub index_cache_bytes_max: u64,
    /// Segment files that are open at once.
    pub open_files_max: u64,
    /// What becomes of damaged segments, index files and files of keys.
    pub on_damage: OnDamage,
    /// What becomes of a damaged log. Put aside, it takes every batch with it that came after the damage.
    pub on_log_damage: OnDamage,
    /// All bytes of the store are read and checked once in so many days, by [`crate::Engine::maintain`]; 0 = never.
    pub scrub_days: u32,
    /// Format of new segments. An earlier one than that of [`Default`] is for tests of stores that earlier versions wrote.
    #[doc(hidden)]
    pub segment_format: u16,
    /// A planted bug, for the simulation only.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            flush_rows: 512 * 1024,
            flush_bytes: 256 << 20,
            flush_idle_ms: 2_000,
            flush_idle_rows_min: 32 * 1024,
            log_bytes_max: 256 << 20,
            batch_rows_max: 4 << 20,
            batch_columns_max: 100_000,
            batch_series_max: 250_000,
            value_bytes_max: 1 << 20,
            table_tags_max: 4096,
            compaction: CompactionOptions::default(),
            disk_reserve_bytes: None,
            memory_bytes_max: 0,
            key_age_ns: 24 * 3600 * 1_000_000_000,
            keys_max: 1_000_000,
            memo_bytes_max: 256 << 20,
            directory_cache_bytes_max: 64 << 20,
            index_cache_bytes_max: 128 << 20,
            open_files_max: 512,
            on_damage: OnDamage::Quarantine,
            on_log_damage: OnDamage::Refuse,
            scrub_days: 7,
            segment_format: SegmentFormat::NOW as u16,
            sabotage: None,
        }
    }
}

/// What becomes of damage that is found while a store opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// The damaged file is put aside, [`crate::Engine::quarantined`] lists it, and the rest is served.
    #[default]
    Quarantine,
    /// The store does not open.
    Refuse,
}
