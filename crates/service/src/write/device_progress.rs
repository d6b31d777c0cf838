//! Progress of devices: up to which page each flash has been taken in, as rows of a relation of the store's own.
//!
//! Does: say how far, give the change that moves it on. Does not: write rows (`devices.rs` does, in one transaction with that
//! change), or let it go with its database (`define/databases.rs` does).

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationSchema, Snapshot, Value,
};

use crate::access::{Principal, internal, internal_relation};
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
    let row = internal(snapshot, DEVICES)?.get(&key(target))?;
    let number = |column: usize| match row.get(column) {
        Some(Value::I64(value)) => Some(*value),
        _ => None,
    };
    Some(DeviceProgress {
        sequence: number(3)?.cast_unsigned(),
        checksum: u32::try_from(number(4)?).ok()?,
    })
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

fn key(target: &DeviceTarget) -> Vec<Value> {
    vec![
        Value::from(target.database.as_str()),
        Value::from(target.device.as_str()),
        Value::I64(target.store),
    ]
}

/// The relation, made if it is not there.
pub(super) fn relation(engine: &Arc<Engine>) -> Result<Arc<RelationSchema>, EngineError> {
    if let Some(there) = internal(&engine.snapshot(), DEVICES) {
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
