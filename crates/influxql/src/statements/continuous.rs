//! `CREATE`, `DROP` and `SHOW CONTINUOUS QUERIES`.
//!
//! Does: name databases and retention policies in the query, so that it means the same whoever's defaults change, and hand
//! it to the schedule. Does not: run it (`crate::continuous` does).

use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::{CreateContinuousQuery, Measurement, Select, Source};
use nilometer_service::define::policy_of_schema;
use nilometer_service::{Error as ServiceError, Set, forget_scheduled, keep_scheduled, scheduled};

use super::context::Context;
use super::error::Error;
use super::sets::Table;
use crate::policies::schema_of;

/// The database of names without one: that of the session, as there; without a session's the query's own.
pub(crate) fn home<'a>(session: &'a str, create: &'a CreateContinuousQuery) -> &'a str {
    if session.is_empty() {
        &create.database
    } else {
        session
    }
}

/// Makes one; the same again is no error.
pub(super) fn create(
    context: &Context,
    create: &CreateContinuousQuery,
) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let (database, name) = (create.database.as_str(), create.name.as_str());
    if snapshot.default_schema(database).is_none() {
        return Err(Error::UnknownDatabase(database.to_owned()).into());
    }
    let mut named = create.clone();
    let session = (home(&context.database, create), context.policy.as_deref());
    name_select(&snapshot, session, &mut named.select)?;
    let text = named.to_string();
    let all = scheduled(&snapshot);
    let known = all
        .iter()
        .find(|known| known.database == database && known.name == name);
    match known {
        Some(known) if known.text.eq_ignore_ascii_case(&text) => Ok(()),
        Some(_) => Err(Error::QueryExists.into()),
        None => keep_scheduled(&context.engine, (database, name), &text),
    }
}

/// Drops one; one that is not there is no error.
pub(super) fn drop(context: &Context, database: &str, name: &str) -> Result<(), ServiceError> {
    forget_scheduled(&context.engine, database, name)
}

/// A table of each database.
pub(super) fn show(context: &Context, databases: &[String]) -> Vec<Set> {
    let all = scheduled(&context.engine.snapshot());
    let sets = databases.iter().map(|database| {
        let own = all.iter().filter(|known| known.database == *database);
        let table = Table::named(database).texts("name", own.clone().map(|known| &known.name));
        table.texts("query", own.map(|known| &known.text)).set()
    });
    sets.collect()
}

/// The database and the retention policy of names without one.
type Home<'a> = (&'a str, Option<&'a str>);

fn name_select(snapshot: &Snapshot, home: Home<'_>, select: &mut Select) -> Result<(), Error> {
    if let Some(target) = &mut select.target {
        name_measurement(snapshot, home, target)?;
    }
    for source in &mut select.sources {
        match source {
            Source::Measurement(measurement) => name_measurement(snapshot, home, measurement)?,
            Source::Subquery(inner) => name_select(snapshot, home, inner)?,
        }
    }
    Ok(())
}

fn name_measurement(
    snapshot: &Snapshot,
    (own, policy): Home<'_>,
    measurement: &mut Measurement,
) -> Result<(), Error> {
    if measurement.database.is_empty() {
        own.clone_into(&mut measurement.database);
    }
    let database = &measurement.database;
    if snapshot.default_schema(database).is_none() {
        return Err(Error::UnknownDatabase(database.clone()));
    }
    let schema = schema_of(snapshot, database, &measurement.policy, policy)
        .map_err(|policy| Error::UnknownPolicy(format!("{database}.{policy}")))?;
    if measurement.policy.is_empty() {
        measurement.policy = policy_of_schema(snapshot, database, &schema);
    }
    Ok(())
}
