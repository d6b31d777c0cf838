//! Rows of devices: what their pages held, together with how far each device's flash has been taken in.
//!
//! Does: store rows, the pages that they come from and the sequence of the last of these in one transaction. Does not: read pages (the
//! surface does); `device_progress.rs` has how far each device has come.
//!
//! A device that sends pages again after it heard nothing finds them acknowledged and its rows there once; see
//! docs/decisions/0022-device-pages-as-they-are.md.

use std::sync::Arc;

use arrow_array::RecordBatch;
use nilometer_engine::Error as EngineError;
use nilometer_engine::ingest::{FlashPages, Missing, OnConflict, PageBlock, Session, Target};

use crate::error::Error;
use crate::sabotage::Sabotage;
use crate::service::Service;
use crate::write::device_progress::{
    DeviceProgress, DeviceTarget, moved_on, progress_of, relation,
};
use crate::write::sessions::Scope;

/// How often rows are stored anew because somebody changed a table meanwhile.
const TRIES_MAX: usize = 8;

/// Rows of one table, in the order in which they came.
#[derive(Debug)]
pub struct DeviceRows {
    /// The table, made if it is not there.
    pub table: String,
    /// Which of the columns are tags.
    pub tags: Vec<String>,
    /// The rows: `time` in nanoseconds, tags, fields.
    pub rows: RecordBatch,
    /// Where the rows of blocks of pages are among them.
    pub blocks: Vec<PageBlock>,
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

    /// Stores rows and, in the same batch, the pages that they come from and how far the flash has been taken in with them, if nobody
    /// has taken in more than `known` meanwhile. Without pages the rows are only rows. Durable when this returns. Blocks, so it belongs into [`Service::write`].
    pub fn store_device_rows(
        &self,
        target: &DeviceTarget,
        known: Option<DeviceProgress>,
        progress: DeviceProgress,
        rows: &[DeviceRows],
        pages: &FlashPages,
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
            match self.try_store(target, (known, progress), rows, pages) {
                // A table got a column, say: what was written is built again on what is there now.
                Err(Error::Engine(EngineError::TransactionOvertaken { .. }))
                    if tries < TRIES_MAX => {}
                Err(Error::Engine(
                    EngineError::RowLocked { .. }
                    | EngineError::RelationKey { .. }
                    | EngineError::RelationChanged { .. },
                )) => return Err(busy(target)),
                stored => return stored,
            }
        }
    }

    fn try_store(
        &self,
        target: &DeviceTarget,
        (known, progress): (Option<DeviceProgress>, DeviceProgress),
        rows: &[DeviceRows],
        pages: &FlashPages,
    ) -> Result<(), Error> {
        let engine = self.engine();
        let devices = relation(engine)?;
        let transaction = engine.begin()?;
        let snapshot = transaction.snapshot();
        if progress_of(&snapshot, target) != known {
            return Err(busy(target));
        }
        // First, because its lock keeps another request of the same flash away.
        let change = moved_on(devices, target, known, progress);
        // A row that is replaced must be the one that was read; one that is added must not be there.
        let read = known.is_some().then_some(&snapshot);
        if !self.has(Sabotage::ProgressForgotten) {
            transaction.write_relations(read, &[change])?;
        }
        let session = Session::in_schema(Arc::clone(engine), &target.database, None)?;
        let mut session = session.within(&transaction);
        let mut pages = pages.clone();
        for part in rows {
            let to = Target::table(&part.table);
            session.write_arrow_of_pages(to, &part.rows, &part.blocks, &mut pages)?;
        }
        session.keep_pages(pages)?;
        transaction.commit()?;
        Ok(())
    }
}

/// Another request has the flash, or had it since its progress was read.
fn busy(target: &DeviceTarget) -> Error {
    Error::DeviceBusy {
        device: target.device.clone(),
    }
}

fn missing(part: &DeviceRows) -> Missing<'_> {
    Missing {
        tags: Some(&part.tags),
        adds_columns: true,
        ..Missing::default()
    }
}
