//! Metrics of the store: names, units and descriptions.

use nilometer_engine::Metrics;

use super::Page;

/// A figure: its name, what it is, its value.
type Figure = (&'static str, &'static str, u64);

pub(super) fn print(page: &mut Page, engine: &Metrics) {
    for (name, help, value) in counters(engine) {
        page.counter(name, help, value);
    }
    let all = [
        files(engine),
        scrub(engine),
        rows_and_names(engine),
        room(engine),
    ];
    for (name, help, value) in all.into_iter().flatten() {
        page.gauge(name, help, value);
    }
    page.head(
        "memory_bytes",
        "Memory that counts in the budget, by what it is for.",
        "gauge",
    );
    for (usage, bytes) in [
        ("head", engine.memory_head_bytes),
        ("cache", engine.memory_cache_bytes),
        ("index", engine.memory_index_bytes),
        ("compaction", engine.memory_compaction_bytes),
        ("query", engine.memory_query_bytes),
        ("batch", engine.memory_batch_bytes),
    ] {
        page.value("memory_bytes", &format!("{{use=\"{usage}\"}}"), bytes);
    }
}

fn counters(engine: &Metrics) -> Vec<Figure> {
    vec![
        (
            "rows_written_total",
            "Rows of tables over time acknowledged since the start; those of relations are not among them.",
            engine.rows_written,
        ),
        (
            "batches_written_total",
            "Batches acknowledged since the start.",
            engine.batches_written,
        ),
        (
            "rows_merged_total",
            "Rows that flushes since the start merged with another row of the same series and time.",
            engine.rows_merged,
        ),
        (
            "log_bytes_written_total",
            "Bytes written to the log since the start.",
            engine.log_bytes_written,
        ),
        (
            "log_syncs_total",
            "Syncs of the log since the start.",
            engine.log_syncs,
        ),
        (
            "segment_bytes_written_total",
            "Bytes of segment files ever written; over nilometer_segment_bytes, the write amplification.",
            engine.segment_bytes_written,
        ),
        (
            "directory_cache_hits_total",
            "Parts of segments that were in memory when they were needed, since the start.",
            engine.directory_cache_hits,
        ),
        (
            "directory_cache_misses_total",
            "Parts of segments that had to be read, since the start.",
            engine.directory_cache_misses,
        ),
        (
            "scrubbed_bytes_total",
            "Bytes that the scrub has read and checked since the start.",
            engine.scrubbed_bytes,
        ),
        (
            "disk_full_refusals_total",
            "Batches refused for want of room on the disk, since the start.",
            engine.disk_full_refusals,
        ),
        (
            "memory_refusals_total",
            "Times that the memory budget refused something, since the start.",
            engine.memory_refusals,
        ),
    ]
}

fn files(engine: &Metrics) -> Vec<Figure> {
    vec![
        (
            "log_files",
            "Log files, in use or kept for reuse.",
            engine.log_files,
        ),
        (
            "log_bytes",
            "Bytes of log records that are not in segments yet.",
            engine.log_bytes,
        ),
        ("segments", "Segment files.", engine.segments),
        (
            "segment_bytes",
            "Bytes of segment files.",
            engine.segment_bytes,
        ),
        (
            "segment_rows",
            "Rows in segment files.",
            engine.segment_rows,
        ),
        (
            "segments_damaged",
            "Segments that compaction found damaged and left alone.",
            engine.segments_damaged,
        ),
        (
            "segments_unordered",
            "Pairs of segments that an earlier version left without an order; they may show overwritten values.",
            engine.segments_unordered,
        ),
        (
            "refused_edits",
            "Flushes and compactions that were not carried out because they did not account for every row.",
            engine.refused_edits,
        ),
        (
            "quarantined_files",
            "Damaged files that were put aside, now or at an earlier start.",
            engine.quarantined_files,
        ),
        (
            "quarantined_bytes",
            "Bytes of those files.",
            engine.quarantined_bytes,
        ),
        (
            "quarantined_rows",
            "Rows of those files, as far as it is known.",
            engine.quarantined_rows,
        ),
        (
            "quarantined_series",
            "Series whose tags are lost with those files, as far as it is known.",
            engine.quarantined_series,
        ),
        (
            "open_files",
            "Segment files that are open.",
            engine.open_files,
        ),
        (
            "index_files",
            "Index files, which series are found in.",
            engine.index_files,
        ),
        (
            "index_cache_bytes",
            "Memory of blocks of index files.",
            engine.index_cache_bytes,
        ),
        ("partitions", "Partitions of all tables.", engine.partitions),
        (
            "tombstones",
            "Deletes that rows in segments still wait for.",
            engine.tombstones,
        ),
        (
            "definition_bytes",
            "Bytes of definition and index files.",
            engine.definition_bytes,
        ),
        (
            "visible_lsn",
            "Highest batch number that queries see.",
            engine.visible_lsn,
        ),
        (
            "flushed_lsn",
            "Highest batch number that is in segments.",
            engine.flushed_lsn,
        ),
    ]
}

fn scrub(engine: &Metrics) -> Vec<Figure> {
    vec![
        (
            "scrub_damage",
            "Damaged places that the scrub has found since the start.",
            engine.scrub_damage,
        ),
        (
            "scrub_last_pass_seconds",
            "When the scrub last came to the end of everything, in seconds since 1970; 0 = never.",
            engine.scrub_last_pass_ns.max(0).cast_unsigned() / 1_000_000_000,
        ),
    ]
}

fn rows_and_names(engine: &Metrics) -> Vec<Figure> {
    vec![
        (
            "head_rows",
            "Rows in memory that are not in segments yet.",
            engine.head_rows,
        ),
        ("head_bytes", "Memory of those rows.", engine.head_bytes),
        ("databases", "Databases.", engine.databases),
        ("tables", "Tables of all databases.", engine.tables),
        ("series", "Series of all tables.", engine.series),
        ("relations", "Relations of all databases.", engine.relations),
        (
            "relation_rows",
            "Rows of all relations.",
            engine.relation_rows,
        ),
        (
            "relation_bytes",
            "Memory of relations, with what only running queries see.",
            engine.relation_bytes,
        ),
        (
            "series_bytes",
            "Memory of series and tag values.",
            engine.series_bytes,
        ),
        (
            "memo_bytes",
            "Memory of what writers remember of series texts.",
            engine.memo_bytes,
        ),
        (
            "idempotency_keys",
            "Keys of writes that are remembered.",
            engine.keys,
        ),
        (
            "idempotency_key_bytes",
            "Memory of those keys.",
            engine.key_bytes,
        ),
        (
            "directory_cache_bytes",
            "Memory of directories, statistics and rollups of segments.",
            engine.directory_cache_bytes,
        ),
    ]
}

fn room(engine: &Metrics) -> Vec<Figure> {
    vec![
        (
            "disk_free_bytes",
            "Bytes free on the disk; 0 = it does not say.",
            engine.disk_free_bytes,
        ),
        (
            "disk_reserve_bytes",
            "Bytes that must be free for a write.",
            engine.disk_reserve_bytes,
        ),
        (
            "memory_budget_bytes",
            "Memory that all uses may have together.",
            engine.memory_total_bytes,
        ),
        (
            "retention_paused",
            "1 if retention removes nothing because the clock jumped ahead; POST /api/v3/accept_clock ends that.",
            u64::from(engine.retention_pause.is_some()),
        ),
        (
            "poisoned",
            "1 if writes are refused after a failed disk operation.",
            u64::from(engine.poisoned.is_some()),
        ),
    ]
}
