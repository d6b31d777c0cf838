//! The clock of a hypertable over integers: the function that `set_integer_now_func` names.
//!
//! Does: keep which function it is, by its number, and say what there is to ask. Does not: ask it (the language does).

use std::sync::Arc;

use nilometer_engine::{Engine, PhysicalType, Snapshot, TableId, TableSchema, TimeKind, Value};

use super::hypertable;
use crate::access::Principal;
use crate::define::change::name::{Path, TableName};
use crate::define::error::{DefineError, Part};
use crate::define::kept::{Kept, integer};
use crate::define::own_relations::INTEGER_NOW;
use crate::define::place::{Place, check_table};
use crate::define::views::routine::Routine;
use crate::define::views::routines::{routine, routine_by_number, unknown_routine};
use crate::error::Error;
use crate::jobs::background::JobContext;
use crate::write::sessions::Scope;

const KEPT: Kept = Kept {
    relation: INTEGER_NOW,
    columns: &[
        ("table_id", PhysicalType::I64),
        ("function", PhysicalType::I64),
    ],
};

/// Says which function answers what is now in a hypertable. Durable on return.
pub fn set_integer_now(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    (path, function): (Path, Path),
    replaces: bool,
) -> Result<(), Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let (name, table) = hypertable(engine, place, path)?;
    if !is_integer(&table) {
        let table = name.table;
        return Err(DefineError::NoIntegerTime { table }.about(Part::Start));
    }
    let snapshot = engine.snapshot();
    let named = place.table(function)?;
    let found = routine(&snapshot, &named.database, &named.schema, &named.table);
    let Some(found) = found.filter(|it| !it.is_procedure) else {
        return Err(unknown_routine(&snapshot, &named, false).about(Part::Other));
    };
    if !is_of_integers(&found.returns) || !found.parameters.is_empty() {
        let function = named.table;
        return Err(DefineError::NoIntegerFunction { function }.about(Part::Other));
    }
    let within = (name.database.as_str(), name.schema.as_str());
    let id = i64::from(table.kept_id().0);
    if KEPT.row(&snapshot, within, id).is_some() && !replaces {
        let table = name.table;
        return Err(DefineError::HasIntegerNow { table }.about(Part::Start));
    }
    let row = vec![Value::from(id), Value::from(found.number)];
    Ok(KEPT.put(engine, within, row)?)
}

/// The function that answers what is now in a table; `None` = nobody has said.
pub fn integer_now_of(snapshot: &Snapshot, name: &TableName, id: TableId) -> Option<Routine> {
    let within = (name.database.as_str(), name.schema.as_str());
    let row = KEPT.row(snapshot, within, i64::from(id.0))?;
    routine_by_number(snapshot, &name.database, integer(&row, 1))
}

/// Whether the time of a table is an integer.
pub(in crate::define) fn is_integer(table: &TableSchema) -> bool {
    matches!(table.time().1, TimeKind::Integer { .. })
}

fn is_of_integers(returns: &str) -> bool {
    [
        "bigint", "integer", "int", "int8", "int4", "int2", "smallint",
    ]
    .contains(&returns.to_ascii_lowercase().as_str())
}

/// Forgets it of a table that is gone.
pub(super) fn forget(
    engine: &Arc<Engine>,
    within: (&str, &str),
    id: i64,
) -> Result<(), nilometer_engine::Error> {
    KEPT.forget(engine, within, vec![Value::from(id)])
}

/// The hypertable of a database in which a function says what is now; `None` = in none.
pub(in crate::define) fn table_of(
    snapshot: &Snapshot,
    database: &str,
    function: i64,
) -> Option<String> {
    for schema in snapshot.schemas(database)? {
        for row in KEPT.rows(snapshot, (database, &schema)) {
            if integer(&row, 1) != function {
                continue;
            }
            let found = super::chunks::table_by_id(snapshot, database, integer(&row, 0));
            if let Some((name, _)) = found {
                return Some(name.table);
            }
        }
    }
    None
}

/// Refuses what needs to know what is now in a table whose time is an integer, where nobody has said.
pub(in crate::define) fn check_integer_now(
    snapshot: &Snapshot,
    name: &TableName,
    table: &TableSchema,
) -> Result<(), Error> {
    if !is_integer(table) || integer_now_of(snapshot, name, table.kept_id()).is_some() {
        return Ok(());
    }
    let table = name.table.clone();
    Err(DefineError::NoIntegerNow { table }.about(Part::Start))
}

/// What is now in a table, in nanoseconds: what its function answers, where its time is an integer.
pub(super) async fn now_ns(
    context: &JobContext,
    name: &TableName,
    table: &TableSchema,
) -> Result<i64, Error> {
    let TimeKind::Integer { unit_ns } = table.time().1 else {
        return Ok(context.engine.wall_ns());
    };
    let found = integer_now_of(&context.engine.snapshot(), name, table.kept_id());
    let (Some(function), Some(clock)) = (found, &context.clock) else {
        let table = name.table.clone();
        return Err(DefineError::NoIntegerNow { table }.about(Part::Start));
    };
    let now = clock(function).await?;
    Ok(now.saturating_mul(unit_ns.max(1)))
}
