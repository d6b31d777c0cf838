//! Deletes: rows by time and tags, series, measurements.
//!
//! Does: turn a condition into deletes of the engine, each of one set of series and one range of time. Does not: delete by
//! the value of a field, which `InfluxDB` refuses too. The deletes of one statement are durable one after the other.

use std::sync::Arc;

use nilometer_engine::{DeleteRequest, TableSchema, TagPredicate};
use nilometer_influxql_syntax::ast::{Cast, Delete, Expr};
use nilometer_service::Error as ServiceError;
use nilometer_service::Scope;
use nilometer_service::define::{self, Change, Part, Path};

use super::condition::{Rest, split};
use super::context::Context;
use super::error::Error;
use super::names;
use super::names::{Chosen, known_database, tables_of};
use super::selection::{self, Leaf};

/// Deletes that one condition may become, one for each way in which it can hold.
const WAYS_MAX: usize = 1024;

/// `DELETE`.
pub(super) fn rows(context: &Context, delete: &Delete) -> Result<(), ServiceError> {
    carry_out(context, delete, "DELETE", true)
}

/// `DROP SERIES`: all rows of series, whatever their time.
pub(super) fn series(context: &Context, delete: &Delete) -> Result<(), ServiceError> {
    carry_out(context, delete, "DROP SERIES", false)
}

fn carry_out(
    context: &Context,
    delete: &Delete,
    what: &'static str,
    takes_time: bool,
) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let database = known_database(&snapshot, None, &context.database)?;
    let chosen = Chosen::of_sources(&delete.sources)?;
    let now = context.engine.wall_ns();
    let split = split(delete.condition.as_ref(), now)?;
    if split.has_time && !takes_time {
        return Err(Error::TimeNotSupported(what).into());
    }
    let found = tables_of(&snapshot, database, None, &chosen);
    // Everything is read before the first delete, so that what is wrong changes nothing.
    let mut requests = Vec::new();
    for table in found.values().flatten() {
        // Stored answers are nobody's to delete: who names them hears so, and whoever deletes all means the rows.
        if let Err(refused) = define::refuse_stored_table(&snapshot, table.id) {
            if chosen.names(&table.name) {
                return Err(ServiceError::Define {
                    part: Part::Name,
                    source: refused,
                });
            }
            continue;
        }
        let ways = match &split.rest {
            None => vec![Vec::new()],
            Some(rest) => match ways(table, rest) {
                Ok(ways) => ways,
                // A measurement without points is in no list, and what its fields were called refuses nothing.
                Err(_) if names::live_ever(&snapshot, table)?.is_empty() => continue,
                Err(refused) => return Err(refused),
            },
        };
        requests.extend(ways.into_iter().map(|tags| DeleteRequest {
            table: Arc::clone(table),
            time: split.time.clone(),
            tags,
        }));
    }
    for request in requests {
        context.engine.delete(&request)?;
    }
    Ok(())
}

/// The ways in which a condition holds: in each, all comparisons of tags hold.
fn ways(table: &Arc<TableSchema>, rest: &Rest<'_>) -> Result<Vec<Vec<TagPredicate>>, ServiceError> {
    let too_many = || Error::Unsupported("so many OR in one condition; write several statements");
    match rest {
        Rest::Or(left, right) => {
            let mut either = ways(table, left)?;
            either.extend(ways(table, right)?);
            if either.len() > WAYS_MAX {
                return Err(too_many().into());
            }
            Ok(either)
        }
        Rest::And(left, right) => {
            let (left, right) = (ways(table, left)?, ways(table, right)?);
            if left.len().saturating_mul(right.len()) > WAYS_MAX {
                return Err(too_many().into());
            }
            let pairs = left.iter().flat_map(|one| {
                let others = right.iter();
                others.map(|other| one.iter().chain(other).cloned().collect())
            });
            Ok(pairs.collect())
        }
        // InfluxDB takes a name that a field has for the field, even if a tag has it too, and so deletes nothing.
        Rest::Leaf(expr) if names_field(table, expr) => Err(Error::FieldInDelete.into()),
        // A comparison that no tag has is one of a field.
        Rest::Leaf(expr) => match selection::read(table, expr).unwrap_or(Leaf::Rows) {
            Leaf::Constant(true) => Ok(vec![Vec::new()]),
            Leaf::Constant(false) => Ok(Vec::new()),
            Leaf::Tag(predicate) => Ok(vec![vec![predicate]]),
            Leaf::Tags(..) => {
                let what = "the comparison of two tags in a delete";
                Err(Error::Unsupported(what).into())
            }
            Leaf::Rows => Err(Error::FieldInDelete.into()),
        },
    }
}

/// Whether a name in a comparison is that of a field, and is not said to be a tag.
fn names_field(table: &TableSchema, expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| {
        if let Expr::Reference(reference) = expr {
            found |= reference.cast != Some(Cast::Tag) && table.field(&reference.name).is_some();
        }
    });
    found
}

/// `DROP MEASUREMENT`, in every retention policy; one that is not there is no error.
pub(super) fn measurement(context: &Context, name: &str) -> Result<(), ServiceError> {
    let snapshot = context.engine.snapshot();
    let database = names::known_database(&snapshot, None, &context.database)?;
    let mut is_there = false;
    for schema in snapshot.schemas(database).unwrap_or_default() {
        if snapshot.table(database, &schema, name).is_none() {
            continue;
        }
        is_there = true;
        let scope = Scope {
            database: database.to_owned(),
            schema: Some(schema),
        };
        let change = Change::DropTable {
            path: Path::from(name),
            if_exists: true,
        };
        define::run(&context.engine, &context.principal, &scope, change)?;
    }
    if !is_there {
        // Who may not drop it does not learn that it is not there.
        context.may_define(database)?;
    }
    Ok(())
}
