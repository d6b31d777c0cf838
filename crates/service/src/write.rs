//! Writes of surfaces: lines and record batches into the store.
//!
//! Does: give a write its turn, a thread that may wait, its time and a session that knows its series; count it. Does not:
//! read a body off a connection, or say in a protocol's words what came of it.

pub(crate) mod acquisition;
pub(crate) mod copy;
pub(crate) mod device_progress;
pub(crate) mod devices;
pub(crate) mod group;
pub(crate) mod made;
pub(crate) mod references;
pub(crate) mod sequenced;
pub(crate) mod sessions;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::FutureExt;
use nilometer_engine::ingest::{
    Missing, OnConflict, SeenKeys, Session, Target, TypedReport, WriteReport, WriteWindow,
    likely_tags,
};
use nilometer_engine::{Duplicates, Error as EngineError};
use nilometer_lineproto::Precision;

use crate::access::{INTERNAL_DATABASE, Place, Principal, Privilege};
use crate::define::write_window;
use crate::error::Error;
use crate::executor::Stopped;
use crate::sabotage::Sabotage;
use crate::service::Service;
use sessions::{Check, Scope, WhenMissing};

/// Where lines go, and how they are read.
#[derive(Debug, Clone)]
pub struct LineTarget {
    /// Who writes.
    pub principal: Principal,
    /// Database and schema.
    pub scope: Scope,
    /// Whether a database that is not there is made.
    pub creates: bool,
    /// The unit of the lines' times.
    pub precision: Precision,
    /// Names the body, so that it is stored once however often it is sent.
    pub key: Option<[u8; 16]>,
    /// Whether points beyond the schema's retention and limits of writes are left out, as a retention policy has it.
    pub keeps_policy: bool,
}

/// Where record batches go, and what becomes of what is missing there.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct RowTarget {
    /// Who writes.
    pub principal: Principal,
    /// Database and schema.
    pub scope: Scope,
    /// Whether a database or table that is not there is made.
    pub creates: bool,
    /// The table.
    pub table: String,
    /// What becomes tags of a table or of columns that are not there yet; `None` = dictionary-encoded text, and of a new
    /// table what looks like it.
    pub tags: Option<Vec<String>>,
    /// Whether somebody has evaluated the conditions of the table on the rows.
    pub has_checked: bool,
    /// Whether columns that are not there are made.
    pub adds_columns: bool,
    /// The table is not there, and nobody has said which of its columns are tags.
    pub guesses_tags: bool,
    /// What the table does with duplicates, or will once it was made.
    pub duplicates: Duplicates,
    /// What becomes of rows whose key is there.
    pub on_conflict: OnConflict,
}

impl Service {
    /// Stores lines, durably when this returns. `body` gives them on the thread that writes. Those that are no line
    /// protocol are in the report; an error says that nothing was stored, or that time was over, and then it still may be.
    pub async fn write_lines<B, E>(
        self: &Arc<Self>,
        target: LineTarget,
        body: impl FnOnce() -> Result<B, E> + Send + 'static,
    ) -> Result<WriteReport, E>
    where
        B: AsRef<[u8]>,
        E: From<Error> + Send + 'static,
    {
        self.check_write(&target.principal, &target.scope, None, target.creates)?;
        let storing = in_turn(Arc::clone(self), move |service| {
            let body = body()?;
            let lines = body.as_ref();
            let report = service.store_lines(&target, lines).map_err(Error::from)?;
            let beyond = report.beyond.as_deref();
            let beyond = beyond.map_or(0, |beyond| beyond.retention + beyond.limits);
            service.counters().body_bytes.add(lines.len() as u64);
            service
                .counters()
                .lines_rejected
                .add(report.rejected_total + beyond);
            Ok(report)
        });
        if self.has(Sabotage::AnsweredBeforeStored) {
            self.spawn(storing.map(drop));
            return Ok(WriteReport::default());
        }
        match self.executor().within(self.write_time_max(), storing).await {
            Some(written) => written,
            None if self.has(Sabotage::TimeLimitIsSuccess) => Ok(WriteReport::default()),
            None => Err(self.write_time_limit().into()),
        }
    }

    /// Does a part of a write that computes or waits for the disk, when it is its turn among all writes, and no longer than a
    /// write may take. It goes on to its end even if its time is over.
    pub async fn write<T, E>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let work = in_turn(Arc::clone(self), work);
        let written = self.executor().within(self.write_time_max(), work).await;
        written.unwrap_or_else(|| Err(self.write_time_limit().into()))
    }

    /// Stores a batch, the nth of its stream; `key` names it. Blocks, so it belongs into [`Service::write`]. `seen` goes on
    /// from batch to batch.
    pub fn store_rows(
        &self,
        target: &RowTarget,
        batch: &RecordBatch,
        (nth, key): (u64, Option<[u8; 16]>),
        seen: &mut SeenKeys,
    ) -> Result<TypedReport, Error> {
        let (scope, table) = (&target.scope, Some(target.table.as_str()));
        self.check_write(&target.principal, scope, table, target.creates)?;
        self.engine()
            .check_batch(batch.num_rows(), batch.num_columns())?;
        let table = Target {
            schema: target.scope.schema.as_deref(),
            table: &target.table,
        };
        // The first batch decides of a new table; what is there stays as it is.
        let guessed = (target.guesses_tags && nth == 0).then(|| likely_tags(batch));
        let missing = Missing {
            tags: target.tags.as_deref().or(guessed.as_deref()),
            adds_columns: target.adds_columns,
            duplicates: target.duplicates,
        };
        let conflicts = target.on_conflict;
        let check = || Session::check_rows_for_new(self.engine(), table, batch, missing, conflicts);
        let when_missing = when_missing(target.creates, &check);
        let write = |session: &mut Session| {
            session.have_checked(target.has_checked);
            if target.creates || target.adds_columns {
                session.make_missing_for(table, batch, missing, conflicts)?;
            }
            session.write_arrow_counted(key, table, batch, conflicts, seen)
        };
        Ok(self.sessions().write(&target.scope, when_missing, write)?)
    }

    /// Refuses what somebody may not write. Lines name tables by the thousand: they need the whole schema.
    pub(super) fn check_write(
        &self,
        principal: &Principal,
        scope: &Scope,
        table: Option<&str>,
        creates: bool,
    ) -> Result<(), Error> {
        if scope.database == INTERNAL_DATABASE {
            return Err(Error::InternalDatabase);
        }
        if principal.is_admin() {
            return Ok(());
        }
        let default = self.snapshot().default_schema(&scope.database);
        if creates && default.is_none() {
            return principal.check_admin();
        }
        let schema = scope.schema.as_deref().or(default.as_deref());
        let place = Place {
            schema,
            table,
            ..Place::database(&scope.database)
        };
        principal.check(Privilege::Write, place)
    }

    fn store_lines(&self, target: &LineTarget, body: &[u8]) -> Result<WriteReport, EngineError> {
        let precision = target.precision;
        let check = || Session::check_lines_for_new(self.engine(), body, precision);
        let when_missing = when_missing(target.creates, &check);
        let window = self.window_of(target);
        self.sessions()
            .write(&target.scope, when_missing, |session| {
                session.keep_within(window);
                let Some(key) = target.key else {
                    return session.write_lines(body, precision);
                };
                if self.has(Sabotage::KeyApartFromRows) {
                    let first = session.write_lines_once(key, b"keys n=1i", precision)?;
                    if first.repeated {
                        return Ok(first);
                    }
                    return session.write_lines(body, precision);
                }
                session.write_lines_once(key, body, precision)
            })
    }

    /// The times that points of a write may have, by the store's clock.
    fn window_of(&self, target: &LineTarget) -> WriteWindow {
        if !target.keeps_policy {
            return WriteWindow::default();
        }
        let (snapshot, now_ns) = (self.snapshot(), self.wall_ns());
        let database = target.scope.database.as_str();
        let named = target.scope.schema.clone();
        let schema = named.or_else(|| snapshot.default_schema(database));
        schema.map_or_else(WriteWindow::default, |schema| {
            write_window(&snapshot, database, &schema, now_ns)
        })
    }

    fn write_time_max(&self) -> Duration {
        Duration::from_millis(self.options().write_ms_max)
    }

    fn write_time_limit(&self) -> Error {
        Error::WriteTime {
            limit_ms: self.options().write_ms_max,
        }
    }
}

fn when_missing(creates: bool, check: Check<'_>) -> WhenMissing<'_> {
    if creates {
        WhenMissing::Create(check)
    } else {
        WhenMissing::Refuse
    }
}

/// Does what computes and waits for the disk on a thread of its own, when it is its turn among the writes.
async fn in_turn<T, E>(
    service: Arc<Service>,
    work: impl FnOnce(&Service) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let permit = Arc::clone(service.writes()).acquire_owned().await;
    let permit = permit.map_err(|_| Error::Stopping)?;
    let executor = Arc::clone(service.executor());
    let work = move || {
        let _permit = permit;
        work(&service)
    };
    match executor.block(work).await {
        Ok(result) => result,
        Err(Stopped::Panicked) => {
            tracing::error!("a write panicked");
            Err(Error::Panicked { what: "write" }.into())
        }
        Err(Stopped::Ended) => Err(Error::Stopping.into()),
    }
}
