//! Partitions as shards: `SHOW SHARDS`, `SHOW SHARD GROUPS`, `DROP SHARD`.
//!
//! Does: take the partitions of a retention policy's tables with the same bounds together as one shard, which is a group of its
//! own. Does not: list rows that are in memory, or in files without a partition: they have no shard yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nilometer_engine::{DeleteRequest, Snapshot, TableId, TableSchema};
use nilometer_service::define::{self, policy_of_schema};
use nilometer_service::{Error as ServiceError, Set};

use super::context::Context;
use super::sets::Table;

/// A shard.
#[derive(Debug)]
pub(super) struct Shard {
    id: u64,
    database: String,
    policy: String,
    start: i64,
    /// Not included.
    end: i64,
    expiry: i64,
    tables: Vec<Arc<TableSchema>>,
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

/// The shards of a database, by policy and time.
pub(super) fn of(snapshot: &Snapshot, database: &str, schemas: &[String]) -> Vec<Shard> {
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
        let mut own: BTreeMap<(i64, i64), BTreeMap<TableId, Arc<TableSchema>>> = BTreeMap::new();
        for segment in snapshot.segments() {
            let Some((table, start, end)) = segment.partition else {
                continue;
            };
            if let Some(table) = tables.get(&table) {
                let known = own.entry((start, end)).or_default();
                known.insert(table.id, Arc::clone(table));
            }
        }
        shards.extend(own.into_iter().map(|((start, end), tables)| Shard {
            id: id_of((database, schema), start, end),
            database: database.to_owned(),
            policy: policy.clone(),
            start,
            end,
            expiry: end.saturating_add(kept),
            tables: tables.into_values().collect(),
        }));
    }
    shards
}

/// Shards as a table; groups have no owners.
pub(super) fn table(name: &str, shards: &[Shard], has_owners: bool) -> Set {
    let of = |value: fn(&Shard) -> i64| shards.iter().map(value).collect::<Vec<_>>();
    let id = |shard: &Shard| i64::try_from(shard.id).unwrap_or(i64::MAX);
    let table = Table::named(name)
        .ints("id", of(id))
        .texts("database", shards.iter().map(|shard| &shard.database))
        .texts("retention_policy", shards.iter().map(|shard| &shard.policy));
    let table = if has_owners {
        table.ints("shard_group", of(id))
    } else {
        table
    };
    let table = table
        .times("start_time", of(|shard| shard.start))
        .times("end_time", of(|shard| shard.end))
        .times("expiry_time", of(|shard| shard.expiry));
    if has_owners {
        return table.texts("owners", shards.iter().map(|_| "")).set();
    }
    table.set()
}

/// Deletes the rows of a shard, those in memory included; one that is not there is no error.
pub(super) fn drop(context: &Context, id: u64) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    for database in snapshot.databases() {
        let schemas = snapshot.schemas(&database).unwrap_or_default();
        let shards = of(&snapshot, &database, &schemas);
        for shard in shards.into_iter().filter(|shard| shard.id == id) {
            for table in shard.tables {
                // A bucket whose stored answers are gone would be answered as if it had no rows.
                if define::refuse_stored_table(&snapshot, table.id).is_err() {
                    continue;
                }
                context.engine.delete(&DeleteRequest {
                    table,
                    time: shard.start..=shard.end.saturating_sub(1),
                    tags: Vec::new(),
                })?;
            }
        }
    }
    Ok(())
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
