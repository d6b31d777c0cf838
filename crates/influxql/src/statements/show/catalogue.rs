//! Databases, retention policies, shards, and what there is none of.

use nilometer_engine::Snapshot;
use nilometer_service::Set;
use nilometer_service::define::{policy_of_schema, policy_settings};

use super::duration::go_duration;
use crate::statements::context::Context;
use crate::statements::define::shard_ns;
use crate::statements::error::Error;
use crate::statements::names::known_database;
use crate::statements::sets::Table;

/// The table is there even if no database is: loaders look at it without asking.
pub(super) fn databases(context: &Context) -> Vec<Set> {
    let mut names = all_databases(&context.engine.snapshot());
    names.retain(|name| context.principal.sees(name));
    vec![Table::named("databases").texts("name", names).set()]
}

/// All databases, the oldest first.
fn all_databases(snapshot: &Snapshot) -> Vec<String> {
    let mut names = snapshot.databases();
    names.sort_by_key(|name| snapshot.database_id(name));
    names
}

/// Schemas of a database, the oldest first.
fn schemas(snapshot: &Snapshot, database: &str) -> Vec<String> {
    let mut names = snapshot.schemas(database).unwrap_or_default();
    names.sort_by_key(|name| snapshot.schema_id(database, name));
    names
}

pub(super) fn policies(context: &Context, on: Option<&str>) -> Result<Vec<Set>, Error> {
    let snapshot = context.engine.snapshot();
    let database = known_database(&snapshot, on, &context.database)?;
    let default = snapshot.default_schema(database);
    let schemas = schemas(&snapshot, database);
    let kept = |schema: &String| snapshot.schema_retention_ns(database, schema).unwrap_or(0);
    let settings = |schema: &String| policy_settings(&snapshot, database, schema);
    let all = schemas.iter();
    let texts = |of: &dyn Fn(&String) -> i64| {
        let durations = schemas.iter().map(|schema| go_duration(of(schema)));
        durations.collect::<Vec<_>>()
    };
    let table = Table::default()
        .texts(
            "name",
            all.clone()
                .map(|schema| policy_of_schema(&snapshot, database, schema)),
        )
        .texts("duration", texts(&kept))
        .texts(
            "shardGroupDuration",
            texts(&|schema| shard_ns(kept(schema), settings(schema).shard_ns)),
        )
        .ints(
            "replicaN",
            all.clone()
                .map(|schema| settings(schema).replicas)
                .collect(),
        )
        .texts(
            "futureWriteLimit",
            texts(&|schema| settings(schema).future_limit_ns),
        )
        .texts(
            "pastWriteLimit",
            texts(&|schema| settings(schema).past_limit_ns),
        )
        .flags(
            "default",
            all.map(|schema| default.as_ref() == Some(schema)).collect(),
        );
    Ok(vec![table.set()])
}

/// Partitions that have files of their own, as shards.
struct Shard {
    id: i64,
    policy: String,
    start: i64,
    end: i64,
    expiry: i64,
}

fn shards_of(snapshot: &Snapshot, database: &str) -> Vec<Shard> {
    let mut shards = Vec::new();
    for schema in schemas(snapshot, database) {
        let policy = policy_of_schema(snapshot, database, &schema);
        let kept = snapshot.schema_retention_ns(database, &schema).unwrap_or(0);
        let tables: Vec<_> = snapshot
            .tables(database, &schema)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| snapshot.table(database, &schema, &name))
            .map(|table| table.id)
            .collect();
        for segment in snapshot.segments() {
            if let Some((table, start, end)) = segment.partition
                && tables.contains(&table)
            {
                shards.push(Shard {
                    id: i64::try_from(segment.file_id).unwrap_or(i64::MAX),
                    policy: policy.clone(),
                    start,
                    end,
                    expiry: end.saturating_add(kept),
                });
            }
        }
    }
    shards.sort_by_key(|shard| shard.id);
    shards
}

fn shard_table(name: &str, databases: Vec<&str>, shards: &[Shard], has_owners: bool) -> Table {
    let of = |value: fn(&Shard) -> i64| shards.iter().map(value).collect::<Vec<_>>();
    let table = Table::named(name)
        .ints("id", of(|shard| shard.id))
        .texts("database", databases)
        .texts("retention_policy", shards.iter().map(|shard| &shard.policy));
    let table = if has_owners {
        table.ints("shard_group", of(|shard| shard.id))
    } else {
        table
    };
    let table = table
        .times("start_time", of(|shard| shard.start))
        .times("end_time", of(|shard| shard.end))
        .times("expiry_time", of(|shard| shard.expiry));
    if has_owners {
        return table.texts("owners", shards.iter().map(|_| ""));
    }
    table
}

pub(super) fn shards(context: &Context) -> Vec<Set> {
    let snapshot = context.engine.snapshot();
    let databases = all_databases(&snapshot);
    let sets = databases.iter().map(|database| {
        let shards = shards_of(&snapshot, database);
        let names = shards.iter().map(|_| database.as_str()).collect();
        shard_table(database, names, &shards, true).set()
    });
    sets.collect()
}

pub(super) fn shard_groups(context: &Context) -> Vec<Set> {
    let snapshot = context.engine.snapshot();
    let databases = all_databases(&snapshot);
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for database in &databases {
        let shards = shards_of(&snapshot, database);
        names.extend(shards.iter().map(|_| database.as_str()));
        all.extend(shards);
    }
    vec![shard_table("shard groups", names, &all, false).set()]
}

/// A table of each database, without rows: there are no continuous queries.
pub(super) fn continuous_queries(context: &Context) -> Vec<Set> {
    let databases = all_databases(&context.engine.snapshot());
    let none = || std::iter::empty::<&str>();
    let sets = databases.iter().map(|database| {
        let table = Table::named(database);
        table.texts("name", none()).texts("query", none()).set()
    });
    sets.collect()
}
