//! Cardinalities of measurements, series, tag keys, tag values and field keys. All counts are exact.

use nilometer_influxql_syntax::ast::{Cardinality, KeyChoice, Listing, ShowMeasurements};
use nilometer_service::{Error as ServiceError, Set};

use super::lists::{Keys, View, fields, measurements_of, tags};
use crate::statements::condition::split;
use crate::statements::context::Context;
use crate::statements::error::Error;
use crate::statements::names::{Chosen, database_of};
use crate::statements::sets::{Table, window};

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

fn refuse_groups(clauses: &Cardinality) -> Result<(), Error> {
    if clauses.dimensions.is_empty() {
        return Ok(());
    }
    Err(Error::Unsupported("GROUP BY in a cardinality"))
}

fn one(name: &str, column: &str, count: usize) -> Set {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Table::named(name).ints(column, vec![count]).set()
}

pub(super) fn series(context: &Context, clauses: &Cardinality) -> Result<Vec<Set>, ServiceError> {
    refuse_groups(clauses)?;
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
        let mut count = 0;
        for table in tables {
            count += view.series(table, &split)?.len();
        }
        if count > 0 {
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
    refuse_groups(clauses)?;
    let is_estimate = is_estimate(clauses);
    let on = clauses.database.as_deref();
    if is_estimate {
        let show = ShowMeasurements {
            listing: Listing {
                database: clauses.database.clone(),
                ..Listing::default()
            },
            ..ShowMeasurements::default()
        };
        let count = measurements_of(context, &show)?.len();
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
    let counts = (count > 0).then(|| one("", "count", count));
    Ok(counts.into_iter().collect())
}

/// A count of each measurement, and none of a measurement that has nothing to count.
fn of_each(
    context: &Context,
    clauses: &Cardinality,
    keys: Option<&KeyChoice>,
    count: impl Fn(&super::lists::Values) -> usize,
) -> Result<Vec<Set>, ServiceError> {
    refuse_groups(clauses)?;
    let view = View::of_policies(context, clauses.database.as_deref(), &clauses.sources)?;
    let keys = Keys::of(keys)?;
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let found = count(&tags(&view, tables, &keys, &split, true)?);
        if found > 0 {
            sets.extend(
                window([found], clauses.limit, clauses.offset)
                    .map(|found| one(name, "count", found)),
            );
        }
    }
    Ok(sets)
}

pub(super) fn tag_keys(context: &Context, clauses: &Cardinality) -> Result<Vec<Set>, ServiceError> {
    of_each(context, clauses, None, super::lists::Values::len)
}

pub(super) fn tag_values(
    context: &Context,
    keys: &KeyChoice,
    clauses: &Cardinality,
) -> Result<Vec<Set>, ServiceError> {
    of_each(context, clauses, Some(keys), |found| {
        found.values().map(std::collections::BTreeSet::len).sum()
    })
}

pub(super) fn field_keys(
    context: &Context,
    clauses: &Cardinality,
) -> Result<Vec<Set>, ServiceError> {
    refuse_groups(clauses)?;
    let view = View::of_policies(context, clauses.database.as_deref(), &clauses.sources)?;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let count = fields(&view, tables)?.len();
        if count > 0 {
            sets.push(one(name, "count", count));
        }
    }
    Ok(sets)
}
