//! Flags of the store, for every command that opens one.

use std::path::Path;

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use nilometer_engine::{CompactionOptions, Engine, OnDamage, Options};

/// The file that makes a folder a data directory, and the folders beside it.
const MANIFEST: &str = "manifest";
const FOLDERS: [&str; 2] = ["segments", "log"];

const NS_PER_MS: i64 = 1_000_000;

/// Settings of the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// Rows in memory that trigger a flush to a segment.
    #[arg(long, value_name = "N", env = "NILOMETER_FLUSH_ROWS", default_value_t = Options::default().flush_rows)]
    flush_rows: u64,
    /// Memory of rows that triggers a flush to a segment, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_FLUSH_BYTES", default_value_t = Options::default().flush_bytes)]
    flush_bytes: u64,
    /// Idle time without writes after which rows in memory are flushed to a segment, in milliseconds; 0 = never.
    #[arg(long, value_name = "MS", env = "NILOMETER_FLUSH_IDLE_MS", default_value_t = Options::default().flush_idle_ms)]
    flush_idle_ms: u64,
    /// Fewest rows that are flushed because the store is idle.
    #[arg(long, value_name = "N", env = "NILOMETER_FLUSH_IDLE_ROWS_MIN", default_value_t = Options::default().flush_idle_rows_min)]
    flush_idle_rows_min: u64,
    /// Largest total size of the log files, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_LOG_BYTES_MAX", default_value_t = Options::default().log_bytes_max)]
    log_bytes_max: u64,
    /// Largest number of rows in one write.
    #[arg(long, value_name = "N", env = "NILOMETER_BATCH_ROWS_MAX", default_value_t = Options::default().batch_rows_max)]
    batch_rows_max: u64,
    /// Largest number of columns in one write, over all its tables.
    #[arg(long, value_name = "N", env = "NILOMETER_BATCH_COLUMNS_MAX", default_value_t = Options::default().batch_columns_max)]
    batch_columns_max: u64,
    /// Largest text or bytes value of typed rows, in bytes, 32 MiB at most.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_VALUE_BYTES_MAX", default_value_t = Options::default().value_bytes_max)]
    value_bytes_max: u64,
    /// Largest number of new series in one write.
    #[arg(long, value_name = "N", env = "NILOMETER_BATCH_SERIES_MAX", default_value_t = Options::default().batch_series_max)]
    batch_series_max: u64,
    /// Largest number of tags of one table.
    #[arg(long, value_name = "N", env = "NILOMETER_TABLE_TAGS_MAX", default_value_t = Options::default().table_tags_max)]
    table_tags_max: u64,
    /// Memory budget for rows, caches, names, compaction and queries together, in bytes; 0 = half of the memory of the
    /// machine or the control group.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_MEMORY_BYTES_MAX", default_value_t = Options::default().memory_bytes_max)]
    memory_bytes_max: u64,
    /// Disk space that writes leave free, in bytes; by default what the log and one compaction may need, at most 5% of
    /// the disk and at least 64 MiB.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_DISK_RESERVE_BYTES")]
    disk_reserve_bytes: Option<u64>,
    /// Cache for directories, statistics and rollups of segments, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_DIRECTORY_CACHE_BYTES_MAX", default_value_t = Options::default().directory_cache_bytes_max)]
    directory_cache_bytes_max: u64,
    /// Cache for blocks of the series index files, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_INDEX_CACHE_BYTES_MAX", default_value_t = Options::default().index_cache_bytes_max)]
    index_cache_bytes_max: u64,
    /// Cache for the series texts that writers have seen, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_MEMO_BYTES_MAX", default_value_t = Options::default().memo_bytes_max)]
    memo_bytes_max: usize,
    /// Segment files that are open at the same time.
    #[arg(long, value_name = "N", env = "NILOMETER_OPEN_FILES_MAX", default_value_t = Options::default().open_files_max)]
    open_files_max: u64,
    /// How long the Idempotency-Key of a write is remembered, in milliseconds.
    #[arg(long, value_name = "MS", env = "NILOMETER_KEY_AGE_MS", default_value_t = Options::default().key_age_ns / NS_PER_MS,
        value_parser = clap::value_parser!(i64).range(0..=i64::MAX / NS_PER_MS))]
    key_age_ms: i64,
    /// Number of idempotency keys that are remembered; the oldest are dropped first.
    #[arg(long, value_name = "N", env = "NILOMETER_KEYS_MAX", default_value_t = Options::default().keys_max)]
    keys_max: u64,
    /// What to do with a damaged segment found at startup: put it aside and serve the rest, or refuse to open the
    /// store.
    #[arg(long, value_name = "WHAT", env = "NILOMETER_ON_DAMAGE", value_enum, default_value_t = DamageArg::Quarantine)]
    on_damage: DamageArg,
    /// What to do with a damaged log found at startup. Putting it aside loses everything acknowledged after the damage.
    #[arg(long, value_name = "WHAT", env = "NILOMETER_ON_LOG_DAMAGE", value_enum, default_value_t = DamageArg::Refuse)]
    on_log_damage: DamageArg,
    /// Days within which all data of the store is read from disk and verified once; 0 = never.
    #[arg(long, value_name = "DAYS", env = "NILOMETER_SCRUB_DAYS", default_value_t = Options::default().scrub_days)]
    scrub_days: u32,
    #[command(flatten)]
    compaction: CompactionArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DamageArg {
    /// Put the file aside and continue.
    Quarantine,
    /// Refuse to open the store.
    Refuse,
}

impl From<DamageArg> for OnDamage {
    fn from(argument: DamageArg) -> Self {
        match argument {
            DamageArg::Quarantine => Self::Quarantine,
            DamageArg::Refuse => Self::Refuse,
        }
    }
}

/// Settings of compaction.
#[derive(Debug, Args)]
#[command(next_help_heading = "Compaction")]
struct CompactionArgs {
    /// Idle time without writes after which the remaining segments are compacted, in milliseconds; 0 = never.
    #[arg(long, value_name = "MS", env = "NILOMETER_SETTLE_MS", default_value_t = CompactionOptions::default().settle_ms)]
    settle_ms: u64,
    /// Adjacent segments of similar size that are merged into one.
    #[arg(long, value_name = "N", env = "NILOMETER_COMPACTION_FAN_IN", default_value_t = CompactionOptions::default().fan_in)]
    compaction_fan_in: usize,
    /// Largest number of rows that one compaction reads.
    #[arg(long, value_name = "N", env = "NILOMETER_COMPACTION_ROWS_MAX", default_value_t = CompactionOptions::default().job_rows_max)]
    compaction_rows_max: u64,
    /// Fewest rows of a table and time window that get a file of their own.
    #[arg(long, value_name = "N", env = "NILOMETER_PARTITION_ROWS_MIN", default_value_t = CompactionOptions::default().partition_rows_min)]
    partition_rows_min: u64,
    /// Adjacent partitions with fewer rows than this together are merged into one wider partition.
    #[arg(long, value_name = "N", env = "NILOMETER_WIDEN_ROWS_MAX", default_value_t = CompactionOptions::default().widen_rows_max)]
    widen_rows_max: u64,
}

impl StoreArgs {
    pub(crate) fn options(&self) -> Options {
        Options {
            flush_rows: self.flush_rows,
            flush_bytes: self.flush_bytes,
            flush_idle_ms: self.flush_idle_ms,
            flush_idle_rows_min: self.flush_idle_rows_min,
            log_bytes_max: self.log_bytes_max,
            batch_rows_max: self.batch_rows_max,
            batch_columns_max: self.batch_columns_max,
            value_bytes_max: self.value_bytes_max,
            batch_series_max: self.batch_series_max,
            table_tags_max: self.table_tags_max,
            memory_bytes_max: self.memory_bytes_max,
            disk_reserve_bytes: self.disk_reserve_bytes,
            directory_cache_bytes_max: self.directory_cache_bytes_max,
            index_cache_bytes_max: self.index_cache_bytes_max,
            memo_bytes_max: self.memo_bytes_max,
            open_files_max: self.open_files_max,
            key_age_ns: self.key_age_ms.saturating_mul(NS_PER_MS),
            keys_max: self.keys_max,
            on_damage: self.on_damage.into(),
            on_log_damage: self.on_log_damage.into(),
            scrub_days: self.scrub_days,
            compaction: CompactionOptions {
                settle_ms: self.compaction.settle_ms,
                fan_in: self.compaction.compaction_fan_in,
                job_rows_max: self.compaction.compaction_rows_max,
                partition_rows_min: self.compaction.partition_rows_min,
                widen_rows_max: self.compaction.widen_rows_max,
            },
            ..Options::default()
        }
    }
}

/// Opens a store that is there. A command that is not about making one shall not make one of a wrong path.
pub(crate) fn open_existing(dir: &Path, options: Options) -> anyhow::Result<Engine> {
    check_exists(dir)?;
    Ok(nilometer_service::open_store(dir, options)?)
}

pub(crate) fn check_exists(dir: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(dir.join(MANIFEST)) {
        Ok(known) if known.is_file() => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => bail!(
            "cannot look into the data directory {}: {error}; run this as the user that the server runs as",
            dir.display()
        ),
        _ => {}
    }
    ensure!(
        !FOLDERS.iter().any(|name| dir.join(name).is_dir()),
        "{} has a store's files and no `{MANIFEST}`, without which none of them can be read; put that file back, or restore a backup to a new folder (`nilometer restore`)",
        dir.display()
    );
    bail!(
        "there is no data directory {}; `nilometer serve --data DIR` makes one",
        dir.display()
    );
}
