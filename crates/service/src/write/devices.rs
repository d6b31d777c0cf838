//! Rows of devices: what their pages held, together with how far each device's flash has been taken in.
//!
//! Does: store rows and the sequence of the last page that they come from in one transaction, say how far a device has come, let
//! that go with its database. Does not: read pages (the surface does), or keep them.
//!
//! A device that sends pages again after it heard nothing finds them acknowledged and its rows there once; see
//! docs/decisions/0022-device-pages-as-rows.md.

use std::sync::Arc;

use arrow_array::RecordBatch;
use nilometer_engine::ingest::{Missing, OnConflict, Session, Target};
use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationSchema, Snapshot, Value,
};

use crate::access::{Principal, internal_relation, internal_rows};
use crate::error::Error;
use crate::service::Service;
use crate::write::sessions::Scope;

/// No statement can name it by accident.
const DEVICES: &str = "system devices";

/// How often rows are stored anew because somebody changed a table meanwhile.
const TRIES_MAX: usize = 8;

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

/// Rows of one table, in the order in which they came.
#[derive(Debug)]
pub struct DeviceRows {
    /// The table, made if it is not there.
    pub table: String,
    /// Which of the columns are tags.
    pub tags: Vec<String>,
    /// The rows: `time` in nanoseconds, tags, fields.
    pub rows: RecordBatch,
}

/// Whether a relation is only here to keep how far devices have come.
pub(crate) fn keeps_devices(name: &str) -> bool {
    name == DEVICES
}

impl Service {
    /// How far a flash has been taken in; `None` = nothing was.
    pub fn device_progress(&self, target: &DeviceTarget) -> Option<DeviceProgress> {
        progress_of(&self.snapshot(), target)
    }

    /// Refuses whoever may not write to the database, and a database that is not there.
    pub fn check_device(&self, target: &DeviceTarget) -> Result<(), Error> {
        let scope = Scope::of_database(&target.database);
        self.check_write(&target.principal, &scope, None, false)?;
        if self.snapshot().default_schema(&target.database).is_none() {
            return Err(Error::Engine(EngineError::UnknownDatabase {
                name: target.database.clone(),
            }));
        }
        Ok(())
    }

    /// Stores rows and, in the same batch, how far the flash has been taken in with them, if nobody has taken in more than
    /// `known` meanwhile. Durable when this returns. Blocks, so it belongs into [`Service::write`].
    pub fn store_device_rows(
        &self,
        target: &DeviceTarget,
        known: Option<DeviceProgress>,
        progress: DeviceProgress,
        rows: &[DeviceRows],
    ) -> Result<(), Error> {
        self.check_device(target)?;
        let engine = self.engine();
        let mut session = Session::in_schema(Arc::clone(engine), &target.database, None)?;
        for part in rows {
            self.check_rows(part.rows.num_rows(), part.rows.num_columns())?;
            session.make_missing_for(
                Target::table(&part.table),
                &part.rows,
                missing(part),
                OnConflict::Replace,
            )?;
        }
        drop(session);
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_store(target, known, progress, rows) {
                // A table got a column, say: what was written is built again on what is there now.
                Err(Error::Engine(EngineError::TransactionOvertaken { .. }))
                    if tries < TRIES_MAX => {}
                Err(Error::Engine(
                    EngineError::RowLocked { .. }
                    | EngineError::RelationKey { .. }
                    | EngineError::RelationChanged { .. },
                )) => return Err(self.busy(target)),
                stored => return stored,
            }
        }
    }

    fn try_store(
        &self,
        target: &DeviceTarget,
        known: Option<DeviceProgress>,
        progress: DeviceProgress,
        rows: &[DeviceRows],
    ) -> Result<(), Error> {
        let engine = self.engine();
        let devices = relation(engine)?;
        let transaction = engine.begin()?;
        let snapshot = transaction.snapshot();
        if progress_of(&snapshot, target) != known {
            return Err(self.busy(target));
        }
        let mut row = key(target);
        row.push(Value::I64(progress.sequence.cast_signed()));
        row.push(Value::I64(i64::from(progress.checksum)));
        // First, because its lock keeps another request of the same flash away.
        match known {
            Some(_) => {
                let change = RelationChange::Replace(devices, vec![row]);
                transaction.write_relations(Some(&snapshot), &[change])?;
            }
            None => {
                let change = RelationChange::Insert(devices, vec![row]);
                transaction.write_relations(None, &[change])?;
            }
        }
        let session = Session::in_schema(Arc::clone(engine), &target.database, None)?;
        let mut session = session.within(&transaction);
        for part in rows {
            let to = Target::table(&part.table);
            session.write_arrow(to, &part.rows, OnConflict::Replace)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn busy(&self, target: &DeviceTarget) -> Error {
        Error::DeviceBusy {
            device: target.device.clone(),
        }
    }
}

fn missing(part: &DeviceRows) -> Missing<'_> {
    Missing {
        tags: Some(&part.tags),
        adds_columns: true,
        ..Missing::default()
    }
}

fn progress_of(snapshot: &Snapshot, target: &DeviceTarget) -> Option<DeviceProgress> {
    let schema = snapshot.default_schema(crate::access::INTERNAL_DATABASE)?;
    let relation = snapshot.relation(crate::access::INTERNAL_DATABASE, &schema, DEVICES)?;
    let row = relation.get(&key(target))?;
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
    let devices = relation(engine)?;
    let mut changes = vec![RelationChange::Delete(Arc::clone(&devices), keys)];
    if let Some(to) = to {
        let moved = all.iter().filter(is_meant).map(|row| {
            let mut row = row.to_vec();
            if let Some(database) = row.first_mut() {
                *database = Value::from(to);
            }
            row
        });
        changes.push(RelationChange::Replace(devices, moved.collect()));
    }
    engine.write_relations(&changes)?;
    Ok(())
}

fn key(target: &DeviceTarget) -> Vec<Value> {
    vec![
        Value::from(target.database.as_str()),
        Value::from(target.device.as_str()),
        Value::I64(target.store),
    ]
}

fn relation(engine: &Arc<Engine>) -> Result<Arc<RelationSchema>, EngineError> {
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
