//! Writes, deletes and changes, each against what the model expects.

use std::sync::Arc;

use nilometer_engine::ingest::{REJECTED_SHOWN_MAX, WriteReport};
use nilometer_engine::{Engine, Error, Lsn, NewColumn, TableSchema, TableSettings};

use super::Run;
use crate::model::{self, Batch, Expected, Fate, Op, Prediction};
use crate::plan::places::split;
use crate::plan::{Change, Column, Delete, Line, spell};
use crate::world::{delete_request, has_place, shown_name, table_of};

impl Run {
    pub(super) fn write(
        &mut self,
        database: &str,
        lines: &[Line],
        key: Option<u8>,
    ) -> Result<(), String> {
        if !has_place(&self.engine()?.snapshot(), database) {
            return self.write_nowhere(database);
        }
        let types = self.world.types(database);
        let mut prediction = model::predict(database, lines, types, self.world.now_ns());
        prediction.batch.key = key;
        self.model.mention(database, lines);
        let stopped = self.world.poisoned();
        let outcome = self.world.write(database, &spell(lines), key);
        self.judge_write(prediction, stopped, outcome)
    }

    pub(super) fn judge_write(
        &mut self,
        prediction: Prediction,
        stopped: bool,
        outcome: Result<WriteReport, Error>,
    ) -> Result<(), String> {
        let rows = prediction.batch.rows();
        let too_large = rows > self.batch_rows_max;
        match outcome {
            Ok(_) if too_large => Err(format!("a batch of {rows} rows passed the limit")),
            Ok(report) if report.repeated => self.judge_repeat(&prediction.batch, &report),
            Ok(_) if stopped && rows > 0 => {
                Err("a write was acknowledged after the store had stopped".to_owned())
            }
            Ok(report) => {
                check_report(&report, &prediction)?;
                // A batch without rows is not kept, and neither is its key.
                if let Some(key) = prediction.batch.key.filter(|_| rows > 0) {
                    if let Some(fate @ Fate::Taken { .. }) = self.model.fate(key) {
                        return Err(format!("key {key} was written again, after {fate:?}"));
                    }
                    self.model.acknowledge_key(key, rows, report.lsn);
                }
                self.model.acknowledge(&Op::Write(prediction.batch));
                self.counts.batches += u64::from(rows > 0);
                Ok(())
            }
            Err(Error::Limit { .. }) if too_large => Ok(()),
            Err(error) => {
                self.judge_failure("write", stopped, error, || Op::Write(prediction.batch))
            }
        }
    }

    pub(super) fn judge_repeat(
        &mut self,
        batch: &Batch,
        report: &WriteReport,
    ) -> Result<(), String> {
        self.judge_repeated(batch.key, report.rows, report.lsn)
    }

    /// Judges an answer that says that a batch was taken before, and with how many rows under which LSN.
    pub(super) fn judge_repeated(
        &mut self,
        key: Option<u8>,
        rows_then: u64,
        lsn_then: Lsn,
    ) -> Result<(), String> {
        let Some(key) = key else {
            return Err("a batch without a key was called a repeat".to_owned());
        };
        let (rows, lsn) = match self.model.fate(key) {
            Some(Fate::Taken { rows, lsn }) => (*rows, *lsn),
            Some(Fate::Open { rows }) => (*rows, None),
            None => return Err(format!("key {key} was never taken, yet is called a repeat")),
        };
        if rows != rows_then || lsn.is_some_and(|lsn| lsn != lsn_then) {
            return Err(format!(
                "key {key} had {rows} rows at LSN {lsn:?}, and is answered with {rows_then} at {lsn_then}"
            ));
        }
        self.model.acknowledge_key(key, rows, lsn_then);
        self.counts.repeats += 1;
        Ok(())
    }

    /// What failed may be there after the next restart if the store gave up at it; otherwise the store had refused it.
    pub(super) fn judge_failure(
        &mut self,
        what: &str,
        stopped: bool,
        error: Error,
        op: impl FnOnce() -> Op,
    ) -> Result<(), String> {
        match error {
            Error::Poisoned { .. } if stopped => Ok(()),
            Error::DiskFull { .. } if self.world.is_tight() => Ok(()),
            Error::Memory { .. } if self.has_little_memory => {
                self.counts.refused += 1;
                Ok(())
            }
            error if stopped => Err(format!("a stopped store answered {error}")),
            error => {
                self.allow::<()>(what, Err(error))?;
                // A store that goes on had not touched the log for this.
                if self.world.disk().crashed() || self.world.poisoned() {
                    self.model.doubt(op());
                    self.counts.in_doubt += 1;
                }
                Ok(())
            }
        }
    }

    fn write_nowhere(&mut self, database: &str) -> Result<(), String> {
        match self.world.write(database, "cpu busy=1 1\n", None) {
            Err(Error::UnknownDatabase { .. } | Error::NotFound { .. }) => Ok(()),
            other => Err(format!(
                "database {database} does not exist, yet: {other:?}"
            )),
        }
    }

    pub(super) fn delete(&mut self, database: &str, delete: &Delete) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        let Some(request) = delete_request(&engine.snapshot(), database, delete) else {
            return Ok(());
        };
        let stopped = self.world.poisoned();
        let op = Op::Delete {
            database: database.to_owned(),
            delete: delete.clone(),
        };
        self.judge_delete(op, stopped, engine.delete(&request))
    }

    pub(super) fn judge_delete(
        &mut self,
        op: Op,
        stopped: bool,
        outcome: Result<Option<Lsn>, Error>,
    ) -> Result<(), String> {
        match outcome {
            Ok(Some(_)) if stopped => {
                Err("a delete was acknowledged after the store had stopped".to_owned())
            }
            Ok(_) => {
                self.model.acknowledge(&op);
                self.counts.deletes += 1;
                Ok(())
            }
            Err(error) => self.judge_failure("delete", stopped, error, || op),
        }
    }

    pub(super) fn change(&mut self, database: &str, change: &Change) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        let snapshot = engine.snapshot();
        if !has_place(&snapshot, database) {
            return Ok(());
        }
        let live = self.world.schemas(database);
        let expected = self.model.state().expect(database, change, &live);
        let stopped = self.world.poisoned();
        let op = Op::Change {
            database: database.to_owned(),
            change: change.clone(),
            before: live.get(change.table()).cloned(),
        };
        let table = table_of(&snapshot, database, change.table());
        let outcome = ask(&engine, table.as_deref(), database, change);
        self.judge_change(op, expected, stopped, outcome)
    }

    pub(super) fn judge_change(
        &mut self,
        op: Op,
        expected: Expected,
        stopped: bool,
        outcome: Result<(), Error>,
    ) -> Result<(), String> {
        match (outcome, expected) {
            (Ok(()), Expected::Nothing) => {
                self.model.acknowledge(&op);
                Ok(())
            }
            (Ok(()), Expected::Done) if stopped => {
                Err("a change was acknowledged after the store had stopped".to_owned())
            }
            (Ok(()), Expected::Done) => {
                self.model.acknowledge(&op);
                self.counts.changes += 1;
                Ok(())
            }
            (Ok(()), expected) => Err(format!("{op:?} was made instead of {expected:?}")),
            (Err(Error::NotFound { .. } | Error::UnknownDatabase { .. }), Expected::NotFound)
            | (Err(Error::ExistsAlready { .. }), Expected::ExistsAlready)
            | (Err(Error::Lossy { .. }), Expected::Lossy) => Ok(()),
            // A store that has stopped counts rows that nobody sees: they may be there after the next start.
            (Err(Error::Lossy { .. }), Expected::Done) if stopped => Ok(()),
            (Err(error), Expected::Done | Expected::Nothing) => {
                self.judge_failure("change", stopped, error, || op)
            }
            (Err(error), expected) => self
                .allow::<()>("change", Err(error))
                .map(drop)
                .map_err(|what| format!("{expected:?} was expected: {what}")),
        }
    }
}

/// Asks the store for a change of a table, which may not exist.
pub(super) fn ask(
    engine: &Engine,
    found: Option<&TableSchema>,
    place: &str,
    change: &Change,
) -> Result<(), Error> {
    let (database, schema) = split(place);
    let shown = |column: &Column| {
        found.map_or_else(|| column.name.clone(), |table| shown_name(table, column))
    };
    match change {
        Change::CreateTable {
            table,
            duplicates,
            interval_ns,
            columns,
        } => {
            let settings = TableSettings {
                duplicates: *duplicates,
                partition_interval_ns: *interval_ns,
                ..TableSettings::default()
            };
            let columns: Vec<NewColumn<'_>> = columns
                .iter()
                .map(|(name, kind)| NewColumn { name, kind: *kind })
                .collect();
            engine
                .create_table(database, schema, table, &columns, settings)
                .map(drop)
        }
        Change::SetRetention {
            table,
            retention_ns,
        } => {
            let settings = TableSettings {
                retention_ns: *retention_ns,
                ..found.map_or_else(TableSettings::default, |table| table.settings)
            };
            engine.set_table(database, schema, table, settings)
        }
        Change::SetColdAfter {
            table,
            cold_after_ns,
        } => {
            let settings = TableSettings {
                cold_after_ns: *cold_after_ns,
                ..found.map_or_else(TableSettings::default, |table| table.settings)
            };
            engine.set_table(database, schema, table, settings)
        }
        Change::SetInterval { table, interval_ns } => {
            let settings = TableSettings {
                partition_interval_ns: *interval_ns,
                ..found.map_or_else(TableSettings::default, |table| table.settings)
            };
            engine.set_table(database, schema, table, settings)
        }
        Change::DropTable { table } => engine.drop_table(database, schema, table),
        Change::RenameTable { table, to } => engine.rename_table(database, schema, table, to),
        Change::DropColumn { table, column } => {
            engine.drop_column(database, schema, table, &shown(column))
        }
        Change::RenameColumn { table, column, to } => {
            engine.rename_column(database, schema, table, &shown(column), to)
        }
        Change::ChangeType { table, field, to } => {
            let field = Column {
                is_tag: false,
                name: field.clone(),
            };
            engine.change_type(database, schema, table, &shown(&field), *to)
        }
    }
}

pub(super) fn check_report(report: &WriteReport, prediction: &Prediction) -> Result<(), String> {
    let rejected: Vec<usize> = report
        .rejected
        .iter()
        .map(|line| line.line_number)
        .collect();
    let shown: Vec<usize> = prediction
        .rejected
        .iter()
        .copied()
        .take(REJECTED_SHOWN_MAX)
        .collect();
    let wanted = (prediction.batch.rows(), prediction.rejected.len() as u64);
    if (report.rows, report.rejected_total) != wanted || rejected != shown {
        return Err(format!(
            "{} rows and lines {shown:?} refused were expected, but {} rows were kept and lines {rejected:?} refused",
            wanted.0, report.rows
        ));
    }
    Ok(())
}
