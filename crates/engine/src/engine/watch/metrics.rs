//! Metrics of the store, for operators.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::budget::MemoryUse;
use crate::engine::{Engine, RetentionPause};
use crate::schema::Lsn;

/// What `/metrics` shows of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Rows acknowledged since the store was opened.
    pub rows_written: u64,
    /// Batches acknowledged since the store was opened.
    pub batches_written: u64,
    /// Rows that flushes since the store was opened merged with another row of the same series and time, so that one was
    /// left of them: of two such rows that came before the same flush one counts. Those of different flushes do not.
    pub rows_merged: u64,
    /// Bytes written to log files since the store was opened.
    pub log_bytes_written: u64,
    /// Syncs of log files since the store was opened.
    pub log_syncs: u64,
    /// Log files, in use or kept for reuse.
    pub log_files: u64,
    /// Bytes of log records that are not in segments yet, encoded.
    pub log_bytes: u64,
    /// Rows in memory.
    pub head_rows: u64,
    /// Memory of those rows in bytes.
    pub head_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of segment files.
    pub segment_bytes: u64,
    /// Bytes of definition and index files.
    pub definition_bytes: u64,
    /// Rows in segment files.
    pub segment_rows: u64,
    /// Bytes of segment files ever written, those removed since included: over `segment_bytes`, the write
    /// amplification.
    pub segment_bytes_written: u64,
    /// Partitions of all tables.
    pub partitions: u64,
    /// Deletes that rows in segments still wait for.
    pub tombstones: u64,
    /// Segments that a compaction found damaged, or would have lost rows of, and left alone.
    pub segments_damaged: u64,
    /// Flushes and compactions that were not carried out, since the store was opened, because rows were not accounted for or
    /// files would have had no order.
    pub refused_edits: u64,
    /// Pairs of segments that had no order when the store was opened: a compaction of before the order was checked left them, and
    /// may have brought overwritten values back.
    pub segments_unordered: u64,
    /// Files that were found damaged, when the store was opened, earlier or since, and put aside.
    pub quarantined_files: u64,
    /// Their bytes.
    pub quarantined_bytes: u64,
    /// Rows that are lost with them, as far as it is known.
    pub quarantined_rows: u64,
    /// Series whose tags are lost with them, as far as it is known.
    pub quarantined_series: u64,
    /// Bytes that the scrub has read since the store was opened.
    pub scrubbed_bytes: u64,
    /// When the scrub last came to the end of everything, in nanoseconds since 1970; 0 = never.
    pub scrub_last_pass_ns: i64,
    /// Damaged places that the scrub has found since the store was opened.
    pub scrub_damage: u64,
    /// Segment files that are open.
    pub open_files: u64,
    /// Memory of directories, statistics and rollups of segments.
    pub directory_cache_bytes: u64,
    /// How often one of them was in memory when it was needed, since the store was opened.
    pub directory_cache_hits: u64,
    /// How often it was not.
    pub directory_cache_misses: u64,
    /// Index files, which series are found in.
    pub index_files: u64,
    /// Memory of blocks of index files.
    pub index_cache_bytes: u64,
    /// Databases.
    pub databases: u64,
    /// Tables of all databases.
    pub tables: u64,
    /// Series of all tables.
    pub series: u64,
    /// Memory of series and tag values in bytes.
    pub series_bytes: u64,
    /// Memory of what writers remember of series texts, in bytes.
    pub memo_bytes: u64,
    /// Highest LSN that a snapshot sees.
    pub visible_lsn: Lsn,
    /// Highest LSN that is in segments.
    pub flushed_lsn: Lsn,
    /// Bytes free on the disk when a write last looked; 0 = none has.
    pub disk_free_bytes: u64,
    /// Bytes that must be free for a write.
    pub disk_reserve_bytes: u64,
    /// Batches refused for want of room since the store was opened.
    pub disk_full_refusals: u64,
    /// The memory budget in bytes, and what each use of it has.
    pub memory_total_bytes: u64,
    /// The most that all uses had together since the store was opened, opening it included.
    pub memory_highest_bytes: u64,
    /// Rows in memory, with the copies that a flush makes.
    pub memory_head_bytes: u64,
    /// Parts of files that can be read again.
    pub memory_cache_bytes: u64,
    /// Names, tags and series.
    pub memory_index_bytes: u64,
    /// Compaction at work.
    pub memory_compaction_bytes: u64,
    /// Queries at work.
    pub memory_query_bytes: u64,
    /// New series of bodies that are being read.
    pub memory_batch_bytes: u64,
    /// Times that the budget refused something since the store was opened.
    pub memory_refusals: u64,
    /// Keys of batches that are remembered.
    pub keys: u64,
    /// Memory of those keys in bytes.
    pub key_bytes: u64,
    /// Relations of all databases.
    pub relations: u64,
    /// Rows of all relations.
    pub relation_rows: u64,
    /// Memory of relations in bytes, with what only snapshots see.
    pub relation_bytes: u64,
    /// Why retention removes nothing, if the wall clock keeps it from it.
    pub retention_pause: Option<RetentionPause>,
    /// Why writes are refused, if they are.
    pub poisoned: Option<String>,
}

impl Engine {
    /// Figures for operators.
    pub fn metrics(&self) -> Metrics {
        self.sequencer.report_head();
        self.sequencer.report_index();
        let state = self.sequencer.versions().now();
        let (databases, tables, series) = self.sequencer.catalogue().counts();
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        let series_bytes = layers.bytes();
        let memo_bytes = self.sequencer.memo().read().bytes();
        let (relations, relation_rows, relation_bytes) = self.sequencer.relations().counts();
        let (keys, key_bytes) = {
            let keys = self.sequencer.keys();
            (keys.len() as u64, keys.bytes() as u64)
        };
        let log = self.sequencer.log().counters();
        let scrubbed = self.repair.scrubbed();
        let segments_damaged = self.jobs.list().damaged.len() as u64;
        let mended = self.repair.mended_index_files();
        let aside = || self.repair.quarantined().iter().chain(&mended);
        let segments = &state.version.segments;
        let frozen = state.frozen.as_ref();
        let cache = self.site.segment_cache().counters();
        Metrics {
            open_files: cache.files,
            directory_cache_bytes: cache.bytes,
            directory_cache_hits: cache.hits,
            directory_cache_misses: cache.misses,
            rows_written: self.sequencer.counters().rows.load(Ordering::Relaxed),
            batches_written: self.sequencer.counters().batches.load(Ordering::Relaxed),
            rows_merged: self.sequencer.counters().merged.load(Ordering::Relaxed),
            log_bytes_written: log.bytes_written,
            log_syncs: log.syncs,
            log_files: log.files,
            log_bytes: self.sequencer.counters().log_bytes.load(Ordering::Relaxed),
            head_rows: state.head.rows() + frozen.map_or(0, |frozen| frozen.head.rows()),
            head_bytes: state.head.bytes() + frozen.map_or(0, |frozen| frozen.head.bytes()),
            segments: segments.len() as u64,
            segment_bytes: segments.iter().map(|segment| segment.meta.bytes).sum(),
            definition_bytes: state.version.definition_bytes,
            segment_rows: segments.iter().map(|segment| segment.meta.rows).sum(),
            segment_bytes_written: state.version.written_bytes,
            partitions: state.version.windows.len() as u64,
            tombstones: state.version.tombstones.len() as u64,
            segments_damaged,
            segments_unordered: self.jobs.unordered().len() as u64,
            refused_edits: self
                .sequencer
                .counters()
                .refused_edits
                .load(Ordering::Relaxed),
            index_files: layers.files().len() as u64,
            index_cache_bytes: self.site.index_cache().bytes(),
            quarantined_files: aside().count() as u64,
            quarantined_bytes: aside().map(|it| it.bytes).sum(),
            quarantined_rows: aside().filter_map(|it| it.rows).sum(),
            quarantined_series: aside().filter_map(|it| it.series).sum(),
            scrubbed_bytes: scrubbed.bytes,
            scrub_last_pass_ns: scrubbed.last_pass_ns,
            scrub_damage: scrubbed.damage.len() as u64,
            databases: databases as u64,
            tables: tables as u64,
            series: series as u64,
            series_bytes: series_bytes as u64,
            memo_bytes: memo_bytes as u64,
            visible_lsn: self.sequencer.log().durable(),
            flushed_lsn: state.version.flushed_lsn,
            // Whoever asks may do so before anybody writes, or long after.
            disk_free_bytes: self
                .site
                .disk()
                .free_bytes(self.site.dir())
                .unwrap_or_else(|_| self.site.space().free()),
            disk_reserve_bytes: self.site.space().reserve(),
            disk_full_refusals: self.site.space().refused(),
            memory_total_bytes: self.site.budget().total(),
            memory_highest_bytes: self.site.budget().highest(),
            memory_head_bytes: self.site.budget().used(MemoryUse::Head),
            memory_cache_bytes: self.site.budget().used(MemoryUse::Cache),
            memory_index_bytes: self.sequencer.report_index(),
            memory_compaction_bytes: self.site.budget().used(MemoryUse::Compaction),
            memory_query_bytes: self.site.budget().used(MemoryUse::Query),
            memory_batch_bytes: self.site.budget().used(MemoryUse::Batch),
            memory_refusals: self.site.budget().refused(),
            keys,
            key_bytes,
            relations,
            relation_rows,
            relation_bytes,
            retention_pause: self.jobs.retention_pause(),
            poisoned: self.sequencer.log().poisoned(),
        }
    }
}
