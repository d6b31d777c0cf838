//! From when on a table below a continuous aggregate has all of its rows.
//!
//! Does: remember up to when a retention has taken rows when it is made longer or taken away, in the schema of the table, so that what
//! an aggregate has stored of them is not computed again without them. Does not: take rows away.

use std::sync::Arc;

use nilometer_engine::{Engine, Error as EngineError, PhysicalType, Snapshot, TableId, Value};

use super::kept::{reader_of, refuse_stored_table};
use crate::define::change::name::TableName;
use crate::define::kept::{Kept, integer};
use crate::define::own_relations::ROWS_KEPT;

const KEPT: Kept = Kept {
    relation: ROWS_KEPT,
    columns: &[
        ("table_id", PhysicalType::I64),
        ("from_ns", PhysicalType::I64),
    ],
};

/// The time before which rows of a table may be gone by its retention, or by one that it had.
pub fn rows_kept_from(snapshot: &Snapshot, name: &TableName, id: TableId, now_ns: i64) -> i64 {
    let within = (name.database.as_str(), name.schema.as_str());
    let row = KEPT.row(snapshot, within, i64::from(id.0));
    let noted = row.map_or(i64::MIN, |row| integer(&row, 1));
    noted.max(by_retention(snapshot, id, now_ns))
}

fn by_retention(snapshot: &Snapshot, id: TableId, now_ns: i64) -> i64 {
    match snapshot.retention_ns(id) {
        None | Some(i64::MAX) => i64::MIN,
        Some(kept_ns) => now_ns.saturating_sub(kept_ns),
    }
}

/// Remembers what the retention of a table has taken up to now, before it is another one. Durable on return.
pub(in crate::define) fn note_retention(
    engine: &Arc<Engine>,
    name: &TableName,
    id: TableId,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let now_ns = engine.wall_ns();
    let is_concerned =
        || reader_of(&snapshot, id).is_some() || refuse_stored_table(&snapshot, id).is_err();
    if by_retention(&snapshot, id, now_ns) == i64::MIN || !is_concerned() {
        return Ok(());
    }
    let from_ns = rows_kept_from(&snapshot, name, id, now_ns);
    let within = (name.database.as_str(), name.schema.as_str());
    let row = vec![Value::from(i64::from(id.0)), Value::from(from_ns)];
    KEPT.put(engine, within, row)
}

/// Remembers that rows before a time are about to be dropped, of a table whose time is an integer. Durable on return.
pub(in crate::define) fn note_dropped(
    engine: &Arc<Engine>,
    name: &TableName,
    id: TableId,
    from_ns: i64,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let is_concerned =
        || reader_of(&snapshot, id).is_some() || refuse_stored_table(&snapshot, id).is_err();
    if from_ns <= rows_kept_from(&snapshot, name, id, 0) || !is_concerned() {
        return Ok(());
    }
    let within = (name.database.as_str(), name.schema.as_str());
    let row = vec![Value::from(i64::from(id.0)), Value::from(from_ns)];
    KEPT.put(engine, within, row)
}

/// Remembers what the retentions of the tables of a schema have taken, before they are others.
pub(in crate::define) fn note_retentions(
    engine: &Arc<Engine>,
    database: &str,
    schema: &str,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    for table in snapshot.tables(database, schema).unwrap_or_default() {
        if let Some(found) = snapshot.table(database, schema, &table) {
            let name = TableName {
                database: database.to_owned(),
                schema: schema.to_owned(),
                table,
            };
            note_retention(engine, &name, found.kept_id())?;
        }
    }
    Ok(())
}
