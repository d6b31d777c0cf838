//! Retention policies: schemas, as clients of `InfluxDB` know them.
//!
//! Does: say which schema a policy's name means and what a schema is called as a policy; keep what such clients set of one
//! beside its retention, as rows of a relation in the schema, so that they go where it goes. Does not: act upon these
//! settings: a store has one copy of a row, and its partitions have widths of their own.

pub(super) mod shards;

use std::sync::Arc;

use nilometer_engine::ingest::WriteWindow;
use nilometer_engine::{
    DEFAULT_SCHEMA, Engine, Error as EngineError, NewRelation, PhysicalType, RelationColumn,
    Snapshot, Value,
};

use super::views;
use crate::define::own_relations::POLICIES;

/// What clients of `InfluxDB` call the schema that every database has from the start.
pub const DEFAULT_POLICY: &str = "autogen";

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// What is kept of a retention policy beside how long its rows stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// Copies of each row that were asked for.
    pub replicas: i64,
    /// Width of a shard group in nanoseconds; 0 = by how long rows stay.
    pub shard_ns: i64,
    /// How far in the future a point may be, in nanoseconds; 0 = any.
    pub future_limit_ns: i64,
    /// How far in the past a point may be, in nanoseconds; 0 = any.
    pub past_limit_ns: i64,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            replicas: 1,
            shard_ns: 0,
            future_limit_ns: 0,
            past_limit_ns: 0,
        }
    }
}

impl PolicySettings {
    fn rows(&self) -> [(&'static str, i64); 4] {
        [
            ("replicas", self.replicas),
            ("shard_ns", self.shard_ns),
            ("future_limit_ns", self.future_limit_ns),
            ("past_limit_ns", self.past_limit_ns),
        ]
    }

    fn set(&mut self, name: &str, value: i64) {
        match name {
            "replicas" => self.replicas = value,
            "shard_ns" => self.shard_ns = value,
            "future_limit_ns" => self.future_limit_ns = value,
            "past_limit_ns" => self.past_limit_ns = value,
            // What a later version keeps is nothing to this one.
            _ => {}
        }
    }
}

/// The schema that a policy's name means; an empty name means the default one. `None` = there is none.
pub fn schema_of_policy(snapshot: &Snapshot, database: &str, policy: &str) -> Option<String> {
    if policy.is_empty() {
        return snapshot.default_schema(database);
    }
    let schemas = snapshot.schemas(database)?;
    let is_there = |name: &str| schemas.iter().any(|schema| schema == name);
    if is_there(policy) {
        Some(policy.to_owned())
    } else {
        let is_default = policy == DEFAULT_POLICY && is_there(DEFAULT_SCHEMA);
        is_default.then(|| DEFAULT_SCHEMA.to_owned())
    }
}

/// What a schema is called as a policy.
pub fn policy_of_schema(snapshot: &Snapshot, database: &str, schema: &str) -> String {
    let means_it = schema == DEFAULT_SCHEMA
        && schema_of_policy(snapshot, database, DEFAULT_POLICY).as_deref() == Some(schema);
    let name = if means_it { DEFAULT_POLICY } else { schema };
    name.to_owned()
}

/// What is kept of a schema as a policy.
pub fn policy_settings(snapshot: &Snapshot, database: &str, schema: &str) -> PolicySettings {
    let mut settings = PolicySettings::default();
    if let Some(relation) = snapshot.relation(database, schema, POLICIES) {
        for row in relation.rows() {
            if let [Value::Text(name), Value::I64(value), ..] = row.as_ref() {
                settings.set(name, *value);
            }
        }
    }
    settings
}

/// The times that points written to a policy may have at a time.
pub fn write_window(snapshot: &Snapshot, database: &str, schema: &str, now_ns: i64) -> WriteWindow {
    let mut window = WriteWindow::default();
    if let Some(kept_ns) = snapshot.schema_retention_ns(database, schema) {
        window.kept_from_ns = now_ns.saturating_sub(kept_ns);
    }
    let limits = policy_settings(snapshot, database, schema);
    if limits.past_limit_ns > 0 {
        window.from_ns = now_ns.saturating_sub(limits.past_limit_ns);
    }
    if limits.future_limit_ns > 0 {
        window.to_ns = now_ns.saturating_add(limits.future_limit_ns);
    }
    window
}

/// Width of a shard group of a policy that keeps rows for so long (0 = for ever): what was asked for (0 = nothing), no less
/// than an hour, or by how long rows stay.
pub fn shard_ns(retention_ns: i64, asked_ns: i64) -> i64 {
    match (asked_ns, retention_ns) {
        (asked, _) if asked > 0 => asked.max(HOUR_NS),
        (_, 0) => 7 * DAY_NS,
        (_, kept) if kept >= 180 * DAY_NS => 7 * DAY_NS,
        (_, kept) if kept >= 2 * DAY_NS => DAY_NS,
        _ => HOUR_NS,
    }
}

/// Keeps settings in place of those before.
pub(super) fn store(
    engine: &Arc<Engine>,
    database: &str,
    schema: &str,
    settings: PolicySettings,
) -> Result<(), EngineError> {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let relation = NewRelation {
        columns: vec![
            column("name", PhysicalType::Text),
            column("value", PhysicalType::I64),
        ],
        primary_key: vec!["name".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation(database, schema, POLICIES, &relation)?;
    let rows = settings.rows();
    let rows = rows
        .iter()
        .map(|(name, value)| vec![Value::from(*name), Value::I64(*value)]);
    views::replace(engine, (database, schema), POLICIES, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `InfluxDB`'s documentation of shard group durations.
    #[test]
    fn a_shard_group_is_as_wide_as_influxdb_makes_it() {
        for (kept, asked, width) in [
            (0, 0, 7 * DAY_NS),
            (HOUR_NS, 0, HOUR_NS),
            (2 * DAY_NS - 1, 0, HOUR_NS),
            (2 * DAY_NS, 0, DAY_NS),
            (180 * DAY_NS - 1, 0, DAY_NS),
            (180 * DAY_NS, 0, 7 * DAY_NS),
            (3 * DAY_NS, 2 * HOUR_NS, 2 * HOUR_NS),
            (3 * DAY_NS, 60_000_000_000, HOUR_NS),
        ] {
            assert_eq!(shard_ns(kept, asked), width, "{kept} {asked}");
        }
    }
}
