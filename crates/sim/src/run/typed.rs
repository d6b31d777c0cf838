//! Typed writes, updates and deletes of single rows, each against what the model expects.

use std::sync::Arc;

use nilometer_engine::ingest::{OnConflict, Session, Target, TypedReport};
use nilometer_engine::{DEFAULT_SCHEMA, Engine, Error, RowKey};

use super::Run;
use crate::model::{Decided, Name, Op, Place};
use crate::plan::Line;
use crate::typed::{fitting, keys, record_batch};

/// What is expected of a typed call.
pub(super) struct Typed {
    decided: Decided,
    name: Name,
    /// Rows that go.
    gone: Vec<Place>,
    /// Rows that the batch would have.
    rows: u64,
    /// Sent as an update or a delete of rows.
    is_change: bool,
}

/// Asks the store.
pub(super) type AskTyped = Box<dyn FnOnce(&Arc<Engine>) -> Result<TypedReport, Error> + Send>;

impl Run {
    pub(super) fn typed(&mut self, prepared: Option<(Typed, AskTyped)>) -> Result<(), String> {
        let Some((expected, ask)) = prepared else {
            return Ok(());
        };
        let engine = Arc::clone(self.engine()?);
        let stopped = self.world.poisoned();
        let outcome = ask(&engine);
        self.judge_typed(expected, stopped, outcome)
    }

    /// A typed write of lines, as far as the table has columns for them; `None` = there is no such table.
    pub(super) fn prepare_write(
        &self,
        database: &str,
        table: &str,
        lines: &[Line],
        on_conflict: OnConflict,
    ) -> Result<Option<(Typed, AskTyped)>, String> {
        let Some(schema) = self.world.schemas(database).remove(table) else {
            return Ok(None);
        };
        let snapshot = self.engine()?.snapshot();
        let Some(found) = snapshot.table(database, DEFAULT_SCHEMA, table) else {
            return Ok(None);
        };
        let points = fitting(table, &schema, lines);
        let rows = record_batch(&found, &points)?;
        let name = (database.to_owned(), table.to_owned());
        let expected = Typed {
            rows: points.len() as u64,
            decided: self
                .model
                .state()
                .decide(&name, &schema, points, on_conflict, &[]),
            name,
            gone: Vec::new(),
            is_change: false,
        };
        let (database, table) = (database.to_owned(), table.to_owned());
        let ask = move |engine: &Arc<Engine>| {
            let mut session = Session::new(Arc::clone(engine), &database)?;
            session.write_arrow(Target::table(&table), &rows, on_conflict)
        };
        Ok(Some((expected, Box::new(ask))))
    }

    /// A change of the rows of a table whose numbers give 1 in a pattern; without lines it is a delete. `None` = there is
    /// no such table, or nobody can tell its series apart.
    pub(super) fn prepare_update(
        &self,
        database: &str,
        table: &str,
        which: u64,
        lines: &[Line],
    ) -> Result<Option<(Typed, AskTyped)>, String> {
        let name = (database.to_owned(), table.to_owned());
        let Some(schema) = self.world.schemas(database).remove(table) else {
            return Ok(None);
        };
        let snapshot = self.engine()?.snapshot();
        let found = snapshot.table(database, DEFAULT_SCHEMA, table);
        let Some(found) = found.filter(|_| self.model.state().tells_series_apart(&name)) else {
            return Ok(None);
        };
        let picked = keys(&snapshot, &found)?.into_iter().enumerate();
        let picked: Vec<_> = picked
            .filter(|(at, _)| which >> (at % 64) & 1 == 1)
            .map(|(_, row)| row)
            .collect();
        let mut gone: Vec<Place> = picked
            .iter()
            .map(|(key, tags)| (tags.clone(), key.time, key.nth as usize))
            .collect();
        gone.sort();
        let points = fitting(table, &schema, lines);
        let rows = record_batch(&found, &points)?;
        let state = self.model.state();
        let on_conflict = match schema.duplicates {
            nilometer_engine::Duplicates::Unique => OnConflict::Error,
            _ => OnConflict::Replace,
        };
        let rows_needed = points.len() as u64 + state.survivors(&name, &gone);
        let expected = Typed {
            rows: rows_needed.max(gone.len() as u64),
            decided: state.decide(&name, &schema, points, on_conflict, &gone),
            name,
            gone,
            is_change: true,
        };
        let gone: Vec<RowKey> = picked.into_iter().map(|(key, _)| key).collect();
        let database = database.to_owned();
        let ask = move |engine: &Arc<Engine>| {
            // A new one: rows that were written since would be an error of their own.
            let snapshot = engine.snapshot();
            if rows.num_rows() == 0 {
                let lsn = engine.delete_rows(&snapshot, &found, &gone)?;
                return Ok(TypedReport {
                    replaced: gone.len() as u64,
                    lsn: lsn.unwrap_or(0),
                    ..TypedReport::default()
                });
            }
            let mut session = Session::new(Arc::clone(engine), &database)?;
            session.update_rows(&snapshot, &found, &gone, &rows)
        };
        Ok(Some((expected, Box::new(ask))))
    }

    pub(super) fn judge_typed(
        &mut self,
        expected: Typed,
        stopped: bool,
        outcome: Result<TypedReport, Error>,
    ) -> Result<(), String> {
        let too_large = expected.rows > self.batch_rows_max;
        let what = if expected.is_change {
            "update"
        } else {
            "typed write"
        };
        match (outcome, expected.decided) {
            (Err(Error::NoConflicts { .. }), Decided::NoConflicts) => Ok(()),
            (Err(Error::Limit { .. }), _) if too_large => Ok(()),
            (Err(Error::RowConflict { row, .. }), Decided::Refused(at)) => {
                // An update looks at the rows of its batch before it looks at the table.
                if row != at && !expected.is_change {
                    return Err(format!("row {row} is in the way instead of row {at}"));
                }
                self.counts.conflicts += 1;
                Ok(())
            }
            (Ok(_), _) if too_large => Err(format!("{} rows passed the limit", expected.rows)),
            (
                Ok(report),
                Decided::Taken {
                    batch,
                    written,
                    skipped,
                    replaced,
                },
            ) => {
                let replaced = replaced + expected.gone.len() as u64;
                let counts = (report.written, report.skipped, report.replaced);
                if counts != (written, skipped, replaced) {
                    return Err(format!(
                        "{what}: {report:?} instead of {written} written, {skipped} skipped, {replaced} replaced"
                    ));
                }
                let changes = batch.rows() > 0 || !expected.gone.is_empty();
                if stopped && changes {
                    return Err(format!(
                        "a {what} was acknowledged after the store had stopped"
                    ));
                }
                self.counts.typed += u64::from(changes && !expected.is_change);
                self.counts.updates += u64::from(changes && expected.is_change);
                self.model.acknowledge(&Op::Update {
                    name: expected.name,
                    gone: expected.gone,
                    batch,
                });
                Ok(())
            }
            (Ok(report), decided) => Err(format!("{what}: {report:?} instead of {decided:?}")),
            (Err(error), Decided::Taken { batch, .. }) => {
                let op = || Op::Update {
                    name: expected.name,
                    gone: expected.gone,
                    batch,
                };
                self.judge_failure(what, stopped, error, op)
            }
            (Err(error), _) => self.allow::<()>(what, Err(error)).map(drop),
        }
    }
}
