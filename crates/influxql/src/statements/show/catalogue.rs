//! Databases, retention policies, continuous queries, shards.

use nilometer_engine::Snapshot;
use nilometer_service::define::{policy_of_schema, policy_settings, shard_ns, shards_of};
use nilometer_service::{INTERNAL_DATABASE, Set};

use super::duration::go_duration;
use crate::statements::context::Context;
use crate::statements::error::Error;
use crate::statements::names::known_database;
use crate::statements::sets::Table;
use crate::statements::{continuous, shards};

/// The table is there even if no database is: loaders look at it without asking.
pub(super) fn databases(context: &Context) -> Vec<Set> {
    let mut names = all_databases(&context.engine.snapshot());
    names.retain(|name| context.principal.sees(name));
    vec![Table::named("databases").texts("name", names).set()]
}

/// All databases, the oldest first, without the store's own: that has no statistics, so it is as with InfluxDB's monitor
/// switched off.
pub(super) fn all_databases(snapshot: &Snapshot) -> Vec<String> {
    let mut names = snapshot.databases();
    names.retain(|name| name != INTERNAL_DATABASE);
    names.sort_by_key(|name| snapshot.database_id(name));
    names
}

/// Schemas of a database, the oldest first.
pub(super) fn schemas(snapshot: &Snapshot, database: &str) -> Vec<String> {
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

/// A table of each database.
pub(super) fn continuous_queries(context: &Context) -> Vec<Set> {
    let databases = all_databases(&context.engine.snapshot());
    continuous::show(context, &databases)
}

/// A table of each database.
pub(super) fn shards(context: &Context) -> Vec<Set> {
    let snapshot = context.engine.snapshot();
    let databases = all_databases(&snapshot);
    let sets = databases.iter().map(|database| {
        let own = shards_of(&snapshot, database, &schemas(&snapshot, database));
        shards::table(database, &own, true)
    });
    sets.collect()
}

pub(super) fn shard_groups(context: &Context) -> Vec<Set> {
    let snapshot = context.engine.snapshot();
    let mut all = Vec::new();
    for database in all_databases(&snapshot) {
        all.extend(shards_of(
            &snapshot,
            &database,
            &schemas(&snapshot, &database),
        ));
    }
    vec![shards::table("shard groups", &all, false)]
}
