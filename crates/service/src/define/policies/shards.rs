//! Partitions as shards, as clients of `InfluxDB` know them.
//!
//! Does: take the partitions of a retention policy's tables with the same bounds together as one shard, with what its files
//! take on disk. Does not: list rows that are in memory, or in files without a partition: they have no shard yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nilometer_engine::{Snapshot, TableId, TableSchema};

use super::policy_of_schema;

/// A shard.
#[derive(Debug)]
pub struct Shard {
    /// Its number, the same in all its life.
    pub id: u64,
    /// The database.
    pub database: String,
    /// The retention policy.
    pub policy: String,
    /// The first nanosecond since 1970.
    pub start: i64,
    /// Not included.
    pub end: i64,
    /// When its rows are too old.
    pub expiry: i64,
    /// What its files take on disk.
    pub bytes: u64,
    /// The tables that have rows in it.
    pub tables: Vec<Arc<TableSchema>>,
}

/// The number of a shard. It is made of what the shard is, so that it means the same one in all its life; files come and go.
fn id_of(place: (&str, &str), start: i64, end: i64) -> u64 {
    // FNV-1a; 52 bits fit a float, which some clients read it as.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let names = [place.0.as_bytes(), &[0], place.1.as_bytes(), &[0]];
    let times = [start.to_le_bytes(), end.to_le_bytes()];
    let bytes = names.into_iter().flatten().chain(times.iter().flatten());
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash >> 12
}

/// Tables and bytes of a shard in the making.
#[derive(Default)]
struct Found {
    tables: BTreeMap<TableId, Arc<TableSchema>>,
    bytes: u64,
}

/// The shards of a database, by policy and time.
pub fn shards_of(snapshot: &Snapshot, database: &str, schemas: &[String]) -> Vec<Shard> {
    let segments = snapshot.segments();
    let mut shards = Vec::new();
    for schema in schemas {
        let policy = policy_of_schema(snapshot, database, schema);
        let kept = snapshot.schema_retention_ns(database, schema).unwrap_or(0);
        let names = snapshot.tables(database, schema).unwrap_or_default();
        let tables: HashMap<TableId, Arc<TableSchema>> = names
            .into_iter()
            .filter_map(|name| snapshot.table(database, schema, &name))
            .map(|table| (table.id, table))
            .collect();
        let mut own: BTreeMap<(i64, i64), Found> = BTreeMap::new();
        for segment in &segments {
            let Some((table, start, end)) = segment.partition else {
                continue;
            };
            if let Some(table) = tables.get(&table) {
                let found = own.entry((start, end)).or_default();
                found.tables.insert(table.id, Arc::clone(table));
                found.bytes = found.bytes.saturating_add(segment.bytes);
            }
        }
        shards.extend(own.into_iter().map(|((start, end), found)| Shard {
            id: id_of((database, schema), start, end),
            database: database.to_owned(),
            policy: policy.clone(),
            start,
            end,
            expiry: end.saturating_add(kept),
            bytes: found.bytes,
            tables: found.tables.into_values().collect(),
        }));
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::id_of;

    #[test]
    fn numbers_of_shards_differ_where_shards_do_and_fit_a_float() {
        let one = id_of(("d", "p"), 0, 10);
        for other in [
            id_of(("d", "q"), 0, 10),
            id_of(("dp", ""), 0, 10),
            id_of(("d", "p"), 10, 20),
            id_of(("d", "p"), 0, 20),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(one, id_of(("d", "p"), 0, 10));
        assert!(one < 1 << 52);
    }
}
