//! Partitions as shards: `SHOW SHARDS`, `SHOW SHARD GROUPS`, `DROP SHARD`.
//!
//! Does: show shards, each a group of its own, and delete their rows. Does not: say what a shard is; the service does.

use nilometer_engine::DeleteRequest;
use nilometer_service::define::{self, Shard, shards_of};
use nilometer_service::{Error as ServiceError, Set};

use super::context::Context;
use super::sets::Table;

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
        let shards = shards_of(&snapshot, &database, &schemas);
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
