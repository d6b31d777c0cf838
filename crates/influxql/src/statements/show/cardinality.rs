//! Cardinalities of measurements, series, tag keys, tag values and field keys. All counts are exact. `grouped.rs` has those with
//! `GROUP BY`.

use std::collections::BTreeSet;

use nilometer_influxql_syntax::ast::{Cardinality, KeyChoice, ShowMeasurements};
use nilometer_service::{Error as ServiceError, Set};

use super::grouped::{Counted, counts};
use super::lists::{Keys, View, fields, measurements_of, tags};
use crate::statements::condition::split;
use crate::statements::context::Context;
use crate::statements::names::{Chosen, database_of};
use crate::statements::sets::{Table, is_left};

/// Whether `InfluxDB` would estimate the numbers of series that are asked for.
fn is_estimated_by_measurement(clauses: &Cardinality) -> bool {
    !clauses.exact && clauses.limit == 0 && clauses.offset == 0
}

/// Whether one number of the whole database is asked for, which `InfluxDB` estimates.
fn is_estimate(clauses: &Cardinality) -> bool {
    !clauses.exact
        && clauses.sources.is_empty()
        && clauses.condition.is_none()
        && clauses.dimensions.is_empty()
        && clauses.limit == 0
        && clauses.offset == 0
}

/// Whether there are groups, each with a count of its own.
fn is_grouped(clauses: &Cardinality) -> bool {
    !clauses.dimensions.is_empty()
}

fn one(name: &str, column: &str, count: usize) -> Set {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Table::named(name).ints(column, vec![count]).set()
}

pub(super) fn series(context: &Context, clauses: &Cardinality) -> Result<Vec<Set>, ServiceError> {
    if is_grouped(clauses) {
        return counts(context, clauses, &Counted::Series);
    }
    let is_estimate = is_estimate(clauses);
    let on = clauses.database.as_deref();
    if is_estimate {
        // Of a database that is not there it is 0.
        let name = database_of(on, &context.database)?;
        if context.engine.snapshot().default_schema(name).is_none() {
            return Ok(vec![one("", "cardinality estimation", 0)]);
        }
    }
    let view = if is_estimate {
        View::of(context, on, &Chosen::All)?
    } else {
        View::of_policies(context, on, &clauses.sources)?
    };
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut counts = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let count = view.count(tables, &split)?;
        if count > 0 && is_left(clauses.limit, clauses.offset) {
            counts.push((name, count));
        }
    }
    if is_estimate {
        let all = counts.iter().map(|(_, count)| count).sum();
        return Ok(vec![one("", "cardinality estimation", all)]);
    }
    let column = if is_estimated_by_measurement(clauses) {
        "cardinality estimation"
    } else {
        "count"
    };
    let counts = counts.into_iter();
    Ok(counts
        .map(|(name, count)| one(name, column, count))
        .collect())
}

pub(super) fn measurements(
    context: &Context,
    clauses: &Cardinality,
) -> Result<Vec<Set>, ServiceError> {
    if is_grouped(clauses) {
        return counts(context, clauses, &Counted::Measurements);
    }
    let is_estimate = is_estimate(clauses);
    let on = clauses.database.as_deref();
    if is_estimate {
        let (snapshot, database) = (
            context.engine.snapshot(),
            database_of(on, &context.database)?,
        );
        let show = ShowMeasurements::default();
        let count = measurements_of(context, &show, (&snapshot, database, None))?.len();
        return Ok(vec![one("", "cardinality estimation", count)]);
    }
    // By the series that have rows, where SHOW MEASUREMENTS goes by tags and values.
    let view = View::of_policies(context, on, &clauses.sources)?;
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut count = 0;
    for tables in view.measurements.values() {
        context.gather(0)?;
        let mut has_series = false;
        for table in tables {
            has_series = has_series || !view.series(table, &split)?.is_empty();
        }
        count += usize::from(has_series);
    }
    // Nothing is counted as nothing.
    let is_shown = count > 0 && is_left(clauses.limit, clauses.offset);
    let counts = is_shown.then(|| one("", "count", count));
    Ok(counts.into_iter().collect())
}

/// A count of each measurement, and none of a measurement that has nothing to count.
fn of_each(
    context: &Context,
    clauses: &Cardinality,
    keys: &Keys,
    count: impl Fn(&super::lists::Values) -> usize,
) -> Result<Vec<Set>, ServiceError> {
    let view = View::of_policies(context, clauses.database.as_deref(), &clauses.sources)?;
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let found = count(&tags(&view, tables, keys, &split, true)?);
        if found > 0 && is_left(clauses.limit, clauses.offset) {
            sets.push(one(name, "count", found));
        }
    }
    Ok(sets)
}

pub(super) fn tag_keys(context: &Context, clauses: &Cardinality) -> Result<Vec<Set>, ServiceError> {
    if is_grouped(clauses) {
        return counts(context, clauses, &Counted::TagKeys);
    }
    of_each(context, clauses, &Keys::All, super::lists::Values::len)
}

pub(super) fn tag_values(
    context: &Context,
    keys: &KeyChoice,
    clauses: &Cardinality,
) -> Result<Vec<Set>, ServiceError> {
    let keys = Keys::of(Some(keys))?;
    if is_grouped(clauses) {
        return counts(context, clauses, &Counted::TagValues(&keys));
    }
    // What two tags have is one value.
    of_each(context, clauses, &keys, |found| {
        let values: BTreeSet<&str> = found.values().flatten().map(String::as_str).collect();
        values.len()
    })
}

pub(super) fn field_keys(
    context: &Context,
    clauses: &Cardinality,
) -> Result<Vec<Set>, ServiceError> {
    if is_grouped(clauses) {
        return counts(context, clauses, &Counted::FieldKeys);
    }
    let view = View::of_policies(context, clauses.database.as_deref(), &clauses.sources)?;
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        // A condition chooses measurements, by their series.
        let mut is_chosen = clauses.condition.is_none();
        for table in tables {
            is_chosen = is_chosen || !view.series(table, &split)?.is_empty();
        }
        let count = fields(&view, tables)?.len();
        if count > 0 && is_chosen && is_left(clauses.limit, clauses.offset) {
            sets.push(one(name, "count", count));
        }
    }
    Ok(sets)
}
