//! The tables of the schema `system` that have a row for each thing of the store; all but the series.

use std::collections::HashMap;
use std::fmt::Debug;

use nilometer_engine::{Error, RelationSchema, RetentionTime, TableId, TableSchema};
use nilometer_service::define;

use super::Visible;
use super::rows::{Cell, Of, Rows};
use crate::ShownSetting;
use crate::shared::StoreState;
use crate::statement::name::TableName;
use crate::statement::settings::{cold_after_text, duplicates_text, duration_text, retention_text};
use crate::statement::types::{self, kind_of, type_of};
use crate::tables::relation;

use Of::{Number, Text, Truth};

pub(super) fn no_databases() -> Rows {
    Rows::new(&[
        ("database_name", Text),
        ("default_schema", Text),
        ("schemas", Number),
        ("tables", Number),
    ])
}

pub(super) fn databases(visible: &Visible) -> Rows {
    let snapshot = &visible.store.snapshot;
    let mut rows = no_databases();
    for database in visible.databases() {
        let schemas = snapshot.schemas(&database).unwrap_or_default();
        let tables = schemas.iter().map(|schema| {
            let tables = snapshot.tables(&database, schema);
            let relations = define::relations(snapshot, &database, schema);
            tables.map_or(0, |tables| tables.len()) + relations.len()
        });
        let tables: usize = tables.sum();
        rows.push([
            Cell::from(database.as_str()),
            snapshot.default_schema(&database).into(),
            schemas.len().into(),
            tables.into(),
        ]);
    }
    rows
}

pub(super) fn no_schemas() -> Rows {
    Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("is_default", Truth),
        ("retention", Text),
        ("tables", Number),
    ])
}

pub(super) fn schemas(visible: &Visible) -> Rows {
    let snapshot = &visible.store.snapshot;
    let mut rows = no_schemas();
    for (database, schema) in all_schemas(visible) {
        let is_default = snapshot.default_schema(&database).as_deref() == Some(&schema);
        let retention = snapshot.schema_retention_ns(&database, &schema);
        let tables = snapshot.tables(&database, &schema).unwrap_or_default();
        let tables = tables.len() + define::relations(snapshot, &database, &schema).len();
        rows.push([
            Cell::from(database),
            schema.into(),
            is_default.into(),
            retention.map(retention_text).into(),
            tables.into(),
        ]);
    }
    rows
}

fn all_schemas(visible: &Visible) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for database in visible.databases() {
        for schema in visible
            .store
            .snapshot
            .schemas(&database)
            .unwrap_or_default()
        {
            all.push((database.clone(), schema));
        }
    }
    all
}

/// Calls `each` for every table, with the names of its database, its schema and itself.
fn each_table(visible: &Visible, mut each: impl FnMut(&str, &str, &str, &TableSchema)) {
    let snapshot = &visible.store.snapshot;
    for (database, schema) in all_schemas(visible) {
        for name in snapshot.tables(&database, &schema).unwrap_or_default() {
            if let Some(table) = snapshot.table(&database, &schema, &name) {
                each(&database, &schema, &name, &table);
            }
        }
    }
}

/// Calls `each` for every relation, with the names of its database and its schema.
fn each_relation(visible: &Visible, mut each: impl FnMut(&str, &str, &RelationSchema)) {
    let snapshot = &visible.store.snapshot;
    for (database, schema) in all_schemas(visible) {
        for table in define::relations(snapshot, &database, &schema) {
            let name = TableName {
                database: database.clone(),
                schema: schema.clone(),
                table,
                position: None,
            };
            if let Some(reader) = relation::find(snapshot, &name) {
                each(&database, &schema, reader.schema());
            }
        }
    }
}

pub(super) fn no_tables() -> Rows {
    Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("kind", Text),
        ("duplicates", Text),
        ("partition_interval", Text),
        ("retention", Text),
        ("tags", Number),
        ("fields", Number),
        ("series", Number),
        ("cold_after", Text),
    ])
}

pub(super) fn tables(visible: &Visible) -> Result<Rows, Error> {
    let snapshot = &visible.store.snapshot;
    let mut rows = no_tables();
    let mut failed = None;
    each_table(visible, |database, schema, name, table| {
        let series = match snapshot.series_count(table, &[]) {
            Ok(series) => Some(series),
            Err(error) => {
                failed.get_or_insert(error);
                None
            }
        };
        rows.push([
            Cell::from(database),
            schema.into(),
            name.into(),
            "table".into(),
            duplicates_text(table.settings.duplicates).into(),
            duration_text(table.settings.partition_interval_ns).into(),
            snapshot.retention_ns(table.id).map(retention_text).into(),
            table.tags.len().into(),
            table.fields.len().into(),
            series.into(),
            table.settings.cold_after_ns.map(cold_after_text).into(),
        ]);
    });
    for (database, schema) in all_schemas(visible) {
        let views = define::views(snapshot, &database, &schema);
        let relations = define::relations(snapshot, &database, &schema).into_iter();
        let named = views.into_iter().map(|name| (name, "view"));
        for (name, kind) in named.chain(relations.map(|name| (name, "relation"))) {
            rows.push([
                Cell::from(database.as_str()),
                schema.as_str().into(),
                name.into(),
                kind.into(),
            ]);
        }
    }
    match failed {
        None => Ok(rows),
        Some(error) => Err(error),
    }
}

pub(super) fn no_columns() -> Rows {
    Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("position", Number),
        ("type", Text),
        ("kind", Text),
        ("nullable", Truth),
    ])
}

pub(super) fn columns(visible: &Visible) -> Rows {
    let mut rows = no_columns();
    each_table(visible, |database, schema, name, table| {
        let columns = table.shown_columns();
        for (at, field) in columns.schema.fields().iter().enumerate() {
            let position = columns.position(at).unwrap_or(at);
            rows.push([
                Cell::from(database),
                schema.into(),
                name.into(),
                field.name().as_str().into(),
                (at + 1).into(),
                type_of(table, position).into(),
                kind_of(table, position).into(),
                (!table.is_not_null(position)).into(),
            ]);
        }
    });
    each_relation(visible, |database, schema, relation| {
        for (at, column) in relation.named_columns().iter().enumerate() {
            rows.push([
                Cell::from(database),
                schema.into(),
                relation.name.as_str().into(),
                column.name.as_str().into(),
                (at + 1).into(),
                types::of_relation(relation, at).into(),
                relation::kind_of(relation, at).into(),
                column.nullable.into(),
            ]);
        }
    });
    rows
}

pub(super) fn no_segments() -> Rows {
    Rows::new(&[
        ("segment_id", Number),
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("starts", Text),
        ("ends", Text),
        ("rows", Number),
        ("bytes", Number),
        ("first_lsn", Number),
        ("last_lsn", Number),
        ("is_damaged", Truth),
        ("tier", Text),
        ("format", Number),
    ])
}

pub(super) fn segments(visible: &Visible) -> Rows {
    let mut names: HashMap<TableId, [String; 3]> = HashMap::new();
    each_table(visible, |database, schema, name, table| {
        names.insert(table.id, [database, schema, name].map(str::to_owned));
    });
    let mut rows = no_segments();
    for segment in visible.store.snapshot.segments() {
        // Without a partition it holds what is left of several tables.
        let partition = segment.partition;
        let place = partition.and_then(|(table, ..)| names.get(&table));
        let name = |at: usize| Cell::from(place.and_then(|place| place.get(at)).cloned());
        rows.push([
            Cell::from(segment.file_id),
            name(0),
            name(1),
            name(2),
            partition.map(|(_, start, _)| instant(start)).into(),
            partition.map(|(_, _, end)| instant(end)).into(),
            segment.rows.into(),
            segment.bytes.into(),
            segment.min_lsn.into(),
            segment.max_lsn.into(),
            segment.is_damaged.into(),
            segment.tier.to_string().into(),
            u64::from(segment.format).into(),
        ]);
    }
    rows
}

fn instant(time_ns: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(time_ns)
        .to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

pub(super) fn no_jobs() -> Rows {
    Rows::new(&[("job", Text), ("is_running", Truth), ("detail", Text)])
}

pub(super) fn jobs(store: &StoreState) -> Rows {
    let jobs = store.shared.engine.jobs();
    let mut rows = no_jobs();
    rows.push([
        Cell::from("flush"),
        (jobs.flushing_rows > 0).into(),
        format!("{} rows on their way into a segment", jobs.flushing_rows).into(),
    ]);
    rows.push([
        Cell::from("compaction"),
        (jobs.compacting_segments > 0).into(),
        format!(
            "{} segments being read, {} damaged and left alone, {} deletes to carry out",
            jobs.compacting_segments, jobs.damaged_segments, jobs.waiting_deletes
        )
        .into(),
    ]);
    rows.push([
        Cell::from("index"),
        jobs.is_indexing.into(),
        "writes the index of series".into(),
    ]);
    let retention = match store.shared.engine.retention_time() {
        None => "no table has had a retention since the store was opened".to_owned(),
        Some(RetentionTime::Believed(now)) => format!("the time is {}", instant(now)),
        Some(RetentionTime::Paused { wall, believed }) => format!(
            "paused: the clock says {}, which cannot be before {} has passed; check it",
            instant(wall),
            instant(believed)
        ),
    };
    rows.push([Cell::from("retention"), false.into(), retention.into()]);
    for rewrite in store.shared.engine.rewrites() {
        let [database, schema, table] = &rewrite.table;
        let detail = format!(
            "{} of about {} rows of \"{database}\".\"{schema}\".\"{table}\" copied",
            rewrite.rows, rewrite.rows_about
        );
        rows.push([Cell::from("rewrite"), true.into(), detail.into()]);
    }
    rows
}

pub(super) fn no_queries() -> Rows {
    Rows::new(&[
        ("query_id", Number),
        ("database_name", Text),
        ("sql", Text),
        ("ms", Number),
        ("memory_bytes", Number),
    ])
}

pub(super) fn queries(store: &StoreState) -> Rows {
    let mut rows = no_queries();
    for query in store.shared.statements.list() {
        rows.push([
            Cell::from(query.id),
            query.database.into(),
            query.text.into(),
            query.ms.into(),
            query.memory_bytes.into(),
        ]);
    }
    rows
}

pub(super) fn no_settings() -> Rows {
    Rows::new(&[("name", Text), ("value", Text), ("source", Text)])
}

pub(super) fn settings(store: &StoreState) -> Rows {
    let mut rows = no_settings();
    for setting in all_settings(store) {
        rows.push([
            Cell::from(setting.name),
            setting.value.into(),
            setting.source.into(),
        ]);
    }
    rows
}

/// Names of all settings.
pub(crate) fn setting_names(store: &StoreState) -> Vec<String> {
    let all = all_settings(store).into_iter();
    all.map(|setting| setting.name).collect()
}

/// Settings of statements and of the store, under the names that flags have; what the program around them says of one
/// stands in its place. Sorted.
fn all_settings(store: &StoreState) -> Vec<ShownSetting> {
    let sql = &store.shared.options;
    let store = store.shared.engine.options();
    let compaction = &store.compaction;
    let own: [(&str, &dyn Debug); 27] = [
        ("query-threads", &sql.threads),
        ("query-memory-bytes-max", &sql.query_memory_bytes_max),
        ("queries-memory-bytes-max", &sql.queries_memory_bytes_max),
        ("query-ms-max", &sql.query_ms_max),
        ("sql-bytes-max", &sql.sql_bytes_max),
        ("sql-operators-max", &sql.sql_operators_max),
        ("gapfill-buckets-max", &sql.gapfill_buckets_max),
        ("flush-rows", &store.flush_rows),
        ("flush-bytes", &store.flush_bytes),
        ("flush-idle-ms", &store.flush_idle_ms),
        ("flush-idle-rows-min", &store.flush_idle_rows_min),
        ("log-bytes-max", &store.log_bytes_max),
        ("batch-rows-max", &store.batch_rows_max),
        ("batch-columns-max", &store.batch_columns_max),
        ("value-bytes-max", &store.value_bytes_max),
        ("batch-series-max", &store.batch_series_max),
        ("table-tags-max", &store.table_tags_max),
        ("memory-bytes-max", &store.memory_bytes_max),
        ("memo-bytes-max", &store.memo_bytes_max),
        (
            "directory-cache-bytes-max",
            &store.directory_cache_bytes_max,
        ),
        ("open-files-max", &store.open_files_max),
        ("keys-max", &store.keys_max),
        ("key-age-ns", &store.key_age_ns),
        ("scrub-days", &store.scrub_days),
        ("compaction-fan-in", &compaction.fan_in),
        ("compaction-settle-ms", &compaction.settle_ms),
        (
            "disk-reserve-bytes",
            match &store.disk_reserve_bytes {
                Some(bytes) => bytes,
                None => &"by the size of log and disk",
            },
        ),
    ];
    let mut all: Vec<ShownSetting> = sql.settings.clone();
    for (name, value) in own {
        if all.iter().all(|known| known.name != name) {
            all.push(ShownSetting {
                name: name.to_owned(),
                value: format!("{value:?}").trim_matches('"').to_owned(),
                source: "options".to_owned(),
            });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

pub(super) fn no_metrics() -> Rows {
    Rows::new(&[("name", Text), ("value", Number)])
}

pub(super) fn metrics(store: &StoreState) -> Rows {
    let metrics = store.shared.engine.metrics();
    let mut rows = no_metrics();
    let all = [
        ("rows_written", metrics.rows_written),
        ("batches_written", metrics.batches_written),
        ("log_bytes_written", metrics.log_bytes_written),
        ("log_syncs", metrics.log_syncs),
        ("log_files", metrics.log_files),
        ("log_bytes", metrics.log_bytes),
        ("head_rows", metrics.head_rows),
        ("head_bytes", metrics.head_bytes),
        ("segments", metrics.segments),
        ("segment_bytes", metrics.segment_bytes),
        ("segment_rows", metrics.segment_rows),
        ("segment_bytes_written", metrics.segment_bytes_written),
        ("segments_damaged", metrics.segments_damaged),
        ("segments_unordered", metrics.segments_unordered),
        ("refused_edits", metrics.refused_edits),
        ("definition_bytes", metrics.definition_bytes),
        ("partitions", metrics.partitions),
        ("tombstones", metrics.tombstones),
        ("open_files", metrics.open_files),
        ("directory_cache_bytes", metrics.directory_cache_bytes),
        ("directory_cache_hits", metrics.directory_cache_hits),
        ("directory_cache_misses", metrics.directory_cache_misses),
        ("scrubbed_bytes", metrics.scrubbed_bytes),
        ("scrub_damage", metrics.scrub_damage),
        ("quarantined_files", metrics.quarantined_files),
        ("quarantined_bytes", metrics.quarantined_bytes),
        ("quarantined_rows", metrics.quarantined_rows),
        ("quarantined_series", metrics.quarantined_series),
        ("index_files", metrics.index_files),
        ("index_cache_bytes", metrics.index_cache_bytes),
        ("databases", metrics.databases),
        ("tables", metrics.tables),
        ("series", metrics.series),
        ("series_bytes", metrics.series_bytes),
        ("relations", metrics.relations),
        ("relation_rows", metrics.relation_rows),
        ("relation_bytes", metrics.relation_bytes),
        ("keys", metrics.keys),
        ("key_bytes", metrics.key_bytes),
        ("visible_lsn", metrics.visible_lsn),
        ("flushed_lsn", metrics.flushed_lsn),
        ("disk_free_bytes", metrics.disk_free_bytes),
        ("disk_reserve_bytes", metrics.disk_reserve_bytes),
        ("disk_full_refusals", metrics.disk_full_refusals),
        ("memory_total_bytes", metrics.memory_total_bytes),
        ("memory_head_bytes", metrics.memory_head_bytes),
        ("memory_cache_bytes", metrics.memory_cache_bytes),
        ("memory_index_bytes", metrics.memory_index_bytes),
        ("memory_compaction_bytes", metrics.memory_compaction_bytes),
        ("memory_query_bytes", metrics.memory_query_bytes),
        ("memory_batch_bytes", metrics.memory_batch_bytes),
        ("memory_refusals", metrics.memory_refusals),
        ("is_poisoned", u64::from(metrics.poisoned.is_some())),
    ];
    for (name, value) in all {
        rows.push([Cell::from(name), value.into()]);
    }
    rows
}
