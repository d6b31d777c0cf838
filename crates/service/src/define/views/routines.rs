//! Functions and procedures of SQL: texts under a name, with their parameters.
//!
//! Does: keep them as rows in the schema that they are in, durably, find them by name or by number. Does not: read a body, or run
//! one (the language does both). A routine keeps its number when it is replaced or its schema is renamed, so jobs mean it by that.

use std::sync::Arc;

use nilometer_engine::{Engine, PhysicalType, Snapshot, Value, nearest};
use serde_json::{Value as Json, json};

use super::super::change::name::TableName;
use super::super::error::{DefineError, Object, Part};
use super::super::kept::{Kept, integer, text};
use super::super::lookup;
use super::super::own_relations::ROUTINES;
use super::super::place::must_be_new;
use super::routine::{NewRoutine, Parameter, Routine};
use crate::access::Principal;
use crate::error::Error;
use crate::jobs::background::{USER_ACTION, jobs};

const KEPT: Kept = Kept {
    relation: ROUTINES,
    columns: &[
        ("name", PhysicalType::Text),
        ("number", PhysicalType::I64),
        ("is_procedure", PhysicalType::I64),
        ("parameters", PhysicalType::Text),
        ("returns", PhysicalType::Text),
        ("body", PhysicalType::Text),
        ("owner", PhysicalType::Text),
    ],
};

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

fn kind(is_procedure: bool) -> Object {
    if is_procedure {
        Object::Procedure
    } else {
        Object::Function
    }
}

fn parameters_text(parameters: &[Parameter]) -> String {
    let each = parameters.iter();
    let each = each.map(|it| json!([it.name, it.of, it.default]));
    Json::Array(each.collect()).to_string()
}

fn parameters_of(text: &str) -> Vec<Parameter> {
    let kept: Vec<(String, String, Option<String>)> =
        serde_json::from_str(text).unwrap_or_default();
    let each = kept.into_iter();
    each.map(|(name, of, default)| Parameter { name, of, default })
        .collect()
}

fn read(row: &[Value], database: &str, schema: &str) -> Routine {
    Routine {
        number: integer(row, 1),
        name: TableName {
            database: database.to_owned(),
            schema: schema.to_owned(),
            table: text(row, 0).to_owned(),
        },
        is_procedure: integer(row, 2) != 0,
        parameters: parameters_of(text(row, 3)),
        returns: text(row, 4).to_owned(),
        body: text(row, 5).to_owned(),
        owner: text(row, 6).to_owned(),
    }
}

/// The routine of a name; `None` = there is none.
pub fn routine(snapshot: &Snapshot, database: &str, schema: &str, name: &str) -> Option<Routine> {
    let row = KEPT.row(snapshot, (database, schema), name)?;
    Some(read(&row, database, schema))
}

/// The routines of a schema, by name.
pub fn routines(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<Routine> {
    let rows = KEPT.rows(snapshot, (database, schema));
    let mut all: Vec<Routine> = rows.iter().map(|row| read(row, database, schema)).collect();
    all.sort_by(|one, other| one.name.table.cmp(&other.name.table));
    all
}

/// The routine of a database that has a number.
pub fn routine_by_number(snapshot: &Snapshot, database: &str, number: i64) -> Option<Routine> {
    let schemas = snapshot.schemas(database)?;
    let mut all = schemas
        .iter()
        .flat_map(|schema| routines(snapshot, database, schema));
    all.find(|routine| routine.number == number)
}

/// The error for a routine that is not there.
pub fn unknown_routine(snapshot: &Snapshot, name: &TableName, is_procedure: bool) -> DefineError {
    if let Err(missing) = lookup::find_schema(snapshot, &name.database, &name.schema) {
        return missing;
    }
    let known = routines(snapshot, &name.database, &name.schema);
    let known = known
        .into_iter()
        .filter(|it| it.is_procedure == is_procedure);
    DefineError::Unknown {
        what: kind(is_procedure),
        name: name.table.clone(),
        nearest: nearest(&name.table, known.map(|it| it.name.table)),
    }
}

/// Makes a routine, or puts it in the place of that of its name. Durable on return.
pub(in crate::define) fn create(
    engine: &Arc<Engine>,
    principal: &Principal,
    name: &TableName,
    or_replace: bool,
    new: &NewRoutine,
) -> Result<(), Error> {
    let (database, schema) = (name.database.as_str(), name.schema.as_str());
    let snapshot = engine.snapshot();
    if new.body.len() > BODY_BYTES_MAX {
        let reason = format!(
            "its body has {} bytes; a body has {BODY_BYTES_MAX} at most",
            new.body.len()
        );
        return Err(refused(new.is_procedure, reason));
    }
    let known = routine(&snapshot, database, schema, &name.table);
    if let Some(known) = &known {
        let place = format!("\"{database}\".\"{schema}\"");
        must_be_new(
            or_replace,
            kind(known.is_procedure).word(),
            &name.table,
            &place,
        )?;
        if known.is_procedure != new.is_procedure {
            let reason = format!(
                "a {} of the name \"{}\" is there; drop that first, or take another name",
                kind(known.is_procedure).word(),
                name.table
            );
            return Err(refused(new.is_procedure, reason));
        }
        if known.returns != new.returns {
            let reason = format!(
                "it answers another type ({}) than the one that is there ({}); DROP FUNCTION {} first",
                new.returns, known.returns, name.table
            );
            return Err(refused(new.is_procedure, reason));
        }
    }
    let last = || {
        let schemas = snapshot.schemas(database).unwrap_or_default();
        let all = schemas
            .iter()
            .flat_map(|schema| routines(&snapshot, database, schema));
        all.map(|it| it.number).max().unwrap_or(0)
    };
    // The order of the log is beyond every number that was given, and dropped.
    let next = || last().max(i64::try_from(snapshot.lsn()).unwrap_or(i64::MAX - 1)) + 1;
    let number = known.map_or_else(next, |known| known.number);
    let row = vec![
        Value::from(name.table.as_str()),
        Value::from(number),
        Value::from(i64::from(new.is_procedure)),
        Value::from(parameters_text(&new.parameters).as_str()),
        Value::from(new.returns.as_str()),
        Value::from(new.body.as_str()),
        Value::from(principal.name().unwrap_or_default()),
    ];
    Ok(KEPT.put(engine, (database, schema), row)?)
}

/// Drops a routine that nothing needs. `now_of` = the table in which a function says what is now. Durable on return.
pub(in crate::define) fn drop_routine(
    engine: &Arc<Engine>,
    name: &TableName,
    (is_procedure, if_exists): (bool, bool),
    now_of: impl Fn(&Snapshot, i64) -> Option<String>,
) -> Result<(), Error> {
    let (database, schema) = (name.database.as_str(), name.schema.as_str());
    let snapshot = engine.snapshot();
    let known = routine(&snapshot, database, schema, &name.table);
    let Some(known) = known.filter(|it| it.is_procedure == is_procedure) else {
        if if_exists {
            return Ok(());
        }
        return Err(unknown_routine(&snapshot, name, is_procedure).about(Part::Start));
    };
    let job = jobs(&snapshot).into_iter().find(|job| {
        job.kind == USER_ACTION && job.database == database && job.target == known.number
    });
    if let Some(job) = job {
        let user = format!(
            "job {} runs it; SELECT delete_job({}) first",
            job.id, job.id
        );
        return Err(in_use(is_procedure, &name.table, user));
    }
    if let Some(table) = now_of(&snapshot, known.number) {
        let user = format!(
            "it says what is now in the hypertable \"{table}\"; drop that first, or give it another one with set_integer_now_func"
        );
        return Err(in_use(is_procedure, &name.table, user));
    }
    Ok(KEPT.forget(
        engine,
        (database, schema),
        vec![Value::from(name.table.as_str())],
    )?)
}

fn refused(is_procedure: bool, reason: String) -> Error {
    let what = kind(is_procedure);
    DefineError::Routine { what, reason }.about(Part::Name)
}

fn in_use(is_procedure: bool, name: &str, user: String) -> Error {
    let what = kind(is_procedure);
    let name = name.to_owned();
    DefineError::RoutineInUse { what, name, user }.about(Part::Name)
}
