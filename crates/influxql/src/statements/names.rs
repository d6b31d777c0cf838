//! Names of databases, retention policies and measurements.
//!
//! Does: look them up in one snapshot, gather the tables of a measurement over all policies, find the series that have rows.
//! Does not: know conditions (`selection.rs` does).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_engine::{AggregateRequest, SeriesId, Snapshot, TableSchema};
use nilometer_influxql_syntax::Pattern;
use nilometer_influxql_syntax::ast::{Measurement, Source};
use nilometer_service::Error as ServiceError;
use regex::Regex;

use super::condition::ALL_TIME;
use super::error::Error;

/// Tables by the name of their measurement: one in each policy that has it.
pub(super) type Measurements = BTreeMap<String, Vec<Arc<TableSchema>>>;

/// The database that a statement is about.
pub(super) fn database_of<'a>(on: Option<&'a str>, own: &'a str) -> Result<&'a str, Error> {
    match on.unwrap_or(own) {
        "" => Err(Error::NoDatabase),
        name => Ok(name),
    }
}

/// The same, of one that is there.
pub(super) fn known_database<'a>(
    snapshot: &Snapshot,
    on: Option<&'a str>,
    own: &'a str,
) -> Result<&'a str, Error> {
    let name = database_of(on, own)?;
    match snapshot.default_schema(name) {
        Some(_) => Ok(name),
        None => Err(Error::UnknownDatabase(name.to_owned())),
    }
}

/// Which measurements are meant.
#[derive(Debug)]
pub(super) enum Chosen {
    All,
    Some(Vec<Choice>),
}

/// A measurement, or those of a pattern.
#[derive(Debug)]
pub(super) enum Choice {
    Name(String),
    Pattern(Regex),
}

impl Chosen {
    /// What stands behind FROM; a policy there says nothing, as in `InfluxDB`.
    pub(super) fn of_sources(sources: &[Source]) -> Result<Self, Error> {
        if sources.is_empty() {
            return Ok(Self::All);
        }
        let choices = sources.iter().map(|source| match source {
            Source::Measurement(measurement) => choice(measurement),
            Source::Subquery(_) => Err(Error::Unsupported("a subquery in this statement")),
        });
        Ok(Self::Some(choices.collect::<Result<_, _>>()?))
    }

    /// Whether it is chosen by its own name.
    pub(super) fn names(&self, name: &str) -> bool {
        let is_it = |choice: &Choice| matches!(choice, Choice::Name(wanted) if wanted == name);
        matches!(self, Self::Some(choices) if choices.iter().any(is_it))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(choices) => choices.iter().any(|choice| match choice {
                Choice::Name(wanted) => wanted == name,
                Choice::Pattern(pattern) => pattern.is_match(name),
            }),
        }
    }
}

fn choice(measurement: &Measurement) -> Result<Choice, Error> {
    match &measurement.pattern {
        Some(pattern) => Ok(Choice::Pattern(regex(pattern)?)),
        None => Ok(Choice::Name(measurement.name.clone())),
    }
}

/// A pattern that can be asked.
pub(super) fn regex(pattern: &Pattern) -> Result<Regex, Error> {
    Regex::new(&pattern.translated()).map_err(|error| Error::Pattern(error.to_string()))
}

/// The measurements of a database, over all its policies or those of one schema.
pub(super) fn tables_of(
    snapshot: &Snapshot,
    database: &str,
    schema: Option<&str>,
    chosen: &Chosen,
) -> Measurements {
    let mut found = Measurements::new();
    for of in snapshot.schemas(database).unwrap_or_default() {
        if schema.is_some_and(|schema| schema != of) {
            continue;
        }
        for name in snapshot.tables(database, &of).unwrap_or_default() {
            if chosen.has(&name)
                && let Some(table) = snapshot.table(database, &of, &name)
            {
                found.entry(name).or_default().push(table);
            }
        }
    }
    found
}

/// The series of a table with rows in a range of time, ascending. Exact where rows are deleted; else to the block.
pub(super) fn live(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
    time: &RangeInclusive<i64>,
) -> Result<Vec<SeriesId>, ServiceError> {
    if time.is_empty() {
        return Ok(Vec::new());
    }
    if !snapshot.has_deletes(table.id) {
        return Ok(snapshot.live_series(table, time)?);
    }
    let request = AggregateRequest {
        table: Arc::clone(table),
        fields: Vec::new(),
        time: time.clone(),
        tags: Vec::new(),
        bucket_ns: None,
    };
    let counted = snapshot.aggregate_showing(&request, &[])?.read_all()?;
    let mut series: Vec<SeriesId> = counted.rows.iter().map(|row| row.series).collect();
    series.sort_unstable();
    series.dedup();
    Ok(series)
}

/// The same at any time.
pub(super) fn live_ever(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
) -> Result<Vec<SeriesId>, ServiceError> {
    live(snapshot, table, &ALL_TIME)
}
