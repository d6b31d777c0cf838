//! How far the flashes of devices have been taken in, as rows of a relation of the store's own.
//!
//! Does: say how far, give the change that moves it on, let it go with its database. Does not: write rows (`devices.rs` does, in one
//! transaction with that change).

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationReader, RelationSchema, Snapshot, Value,
};

use crate::access::{INTERNAL_DATABASE, Principal, internal_relation, internal_rows};
use crate::define::own_relations::DEVICES;

/// The flash of a device, in one of its lives.
#[derive(Debug, Clone)]
pub struct DeviceTarget {
    /// Who writes.
    pub principal: Principal,
    /// The database, which must be there; rows go to its default schema.
    pub database: String,
    /// The device.
    pub device: String,
    /// The number of its flash's life: one that was erased begins another.
    pub store: i64,
}

/// How far the pages of a flash have been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceProgress {
    /// The last page: all before it are there, or were given up by the device.
    pub sequence: u64,
    /// The checksum of that page, by which another flash is told from this one.
    pub checksum: u32,
}

/// How far a flash has been taken in; `None` = nothing was.
pub(super) fn progress_of(snapshot: &Snapshot, target: &DeviceTarget) -> Option<DeviceProgress> {
    let row = devices(snapshot)?.get(&key(target))?;
    let number = |column: usize| match row.get(column) {
        Some(Value::I64(value)) => Some(*value),
        _ => None,
    };
    Some(DeviceProgress {
        sequence: number(3)?.cast_unsigned(),
        checksum: u32::try_from(number(4)?).ok()?,
    })
}

/// Takes what is known of devices along to the new name of their database, or forgets it: another database of that name has not
/// got their rows.
pub(crate) fn move_database(
    engine: &Arc<Engine>,
    database: &str,
    to: Option<&str>,
) -> Result<(), EngineError> {
    let all = internal_rows(&engine.snapshot(), DEVICES);
    let is_meant = |row: &&Arc<[Value]>| row.first() == Some(&Value::from(database));
    let keys = |row: &Arc<[Value]>| row.iter().take(3).cloned().collect();
    let keys: Vec<Vec<Value>> = all.iter().filter(is_meant).map(keys).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let relation = relation(engine)?;
    let mut changes = vec![RelationChange::Delete(Arc::clone(&relation), keys)];
    if let Some(to) = to {
        let moved = all.iter().filter(is_meant).map(|row| {
            let mut row = row.to_vec();
            if let Some(database) = row.first_mut() {
                *database = Value::from(to);
            }
            row
        });
        changes.push(RelationChange::Replace(relation, moved.collect()));
    }
    engine.write_relations(&changes)?;
    Ok(())
}

/// What moves a flash on that has come to `known`. It fails if it has come further meanwhile, and locks the row until then.
pub(super) fn moved_on(
    devices: Arc<RelationSchema>,
    target: &DeviceTarget,
    known: Option<DeviceProgress>,
    progress: DeviceProgress,
) -> RelationChange {
    let mut row = key(target);
    row.push(Value::I64(progress.sequence.cast_signed()));
    row.push(Value::I64(i64::from(progress.checksum)));
    match known {
        Some(_) => RelationChange::Replace(devices, vec![row]),
        None => RelationChange::Insert(devices, vec![row]),
    }
}

fn devices(snapshot: &Snapshot) -> Option<RelationReader> {
    let schema = snapshot.default_schema(INTERNAL_DATABASE)?;
    snapshot.relation(INTERNAL_DATABASE, &schema, DEVICES)
}

fn key(target: &DeviceTarget) -> Vec<Value> {
    vec![
        Value::from(target.database.as_str()),
        Value::from(target.device.as_str()),
        Value::I64(target.store),
    ]
}

/// The relation, made if it is not there.
pub(super) fn relation(engine: &Arc<Engine>) -> Result<Arc<RelationSchema>, EngineError> {
    if let Some(there) = devices(&engine.snapshot()) {
        return Ok(Arc::clone(there.schema()));
    }
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let new = NewRelation {
        columns: vec![
            column("database", PhysicalType::Text),
            column("device", PhysicalType::Text),
            column("store", PhysicalType::I64),
            column("sequence", PhysicalType::I64),
            column("checksum", PhysicalType::I64),
        ],
        primary_key: ["database", "device", "store"].map(str::to_owned).to_vec(),
        unique: Vec::new(),
    };
    internal_relation(engine, DEVICES, &new)
}
