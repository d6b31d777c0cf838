//! Typed writes, updates and deletes of single rows, each against what the model expects.

use std::collections::BTreeSet;
use std::sync::Arc;

use nilometer_engine::ingest::{OnConflict, Target, TypedReport};
use nilometer_engine::{Duplicates, Engine, Error, RowKey};

use super::{Run, in_transaction};
use crate::model::{Decided, Fate, Name, Op, Place, Point, Schema};
use crate::plan::{Line, Tags};
use crate::typed::{fitting, keys, record_batch};
use crate::world::{session_in, table_of};

/// What is asked, and of which table; what must become of it is decided when it has been.
pub(super) struct Typed {
    name: Name,
    /// The table as it was when it was asked.
    schema: Schema,
    points: Vec<Point>,
    on_conflict: OnConflict,
    /// Rows that go.
    gone: Vec<Place>,
    /// Sent as an update or a delete of rows.
    is_change: bool,
    key: Option<u8>,
}

/// Asks the store.
pub(super) type AskTyped = Box<dyn FnOnce(&Arc<Engine>) -> Result<TypedReport, Error> + Send>;

impl Typed {
    pub(super) fn has_rows(&self) -> bool {
        !self.points.is_empty()
    }

    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The table, and the keys of the rows that go.
    pub(super) fn goes(&self) -> (&Name, BTreeSet<(Tags, i64)>) {
        let keys = self
            .gone
            .iter()
            .map(|(tags, time, _)| (tags.clone(), *time));
        (&self.name, keys.collect())
    }
}

impl Run {
    /// A typed write of lines, as far as the table has columns for them; `None` = there is no such table.
    pub(super) fn prepare_write(
        &self,
        (database, table): (&str, &str),
        lines: &[Line],
        on_conflict: OnConflict,
        key: Option<u8>,
    ) -> Result<Option<(Typed, AskTyped)>, String> {
        let Some(schema) = self.world.schemas(database).remove(table) else {
            return Ok(None);
        };
        let snapshot = self.engine()?.snapshot();
        let Some(found) = table_of(&snapshot, database, table) else {
            return Ok(None);
        };
        let points = fitting(table, &schema, lines);
        let rows = record_batch(&found, &points)?;
        let asked = Typed {
            name: (database.to_owned(), table.to_owned()),
            schema,
            points,
            on_conflict,
            gone: Vec::new(),
            is_change: false,
            key,
        };
        let (database, table) = (database.to_owned(), table.to_owned());
        let ask = move |engine: &Arc<Engine>| {
            let mut session = session_in(engine, &database)?;
            let target = Target::table(&table);
            match key {
                Some(key) => session.write_arrow_once([key; 16], target, &rows, on_conflict),
                // Every third one in a transaction: to everybody else that is the same.
                None if rows.num_rows() % 3 == 0 => {
                    in_transaction::write(engine, &database, target, &rows, on_conflict)
                }
                None => session.write_arrow(target, &rows, on_conflict),
            }
        };
        Ok(Some((asked, Box::new(ask))))
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
        let found = table_of(&snapshot, database, table);
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
        let on_conflict = match schema.duplicates {
            Duplicates::Unique => OnConflict::Error,
            _ => OnConflict::Replace,
        };
        let asked = Typed {
            name,
            schema,
            points,
            on_conflict,
            gone,
            is_change: true,
            key: None,
        };
        let gone: Vec<RowKey> = picked.into_iter().map(|(key, _)| key).collect();
        let database = database.to_owned();
        let ask = move |engine: &Arc<Engine>| {
            // A new one: rows that were written since would be an error of their own.
            let snapshot = engine.snapshot();
            if which % 3 == 0 {
                return in_transaction::update(engine, &database, &found, &gone, &rows);
            }
            if rows.num_rows() == 0 {
                let lsn = engine.delete_rows(&snapshot, &found, &gone)?;
                return Ok(TypedReport {
                    replaced: gone.len() as u64,
                    lsn: lsn.unwrap_or(0),
                    ..TypedReport::default()
                });
            }
            let mut session = session_in(engine, &database)?;
            session.update_rows(&snapshot, &found, &gone, &rows)
        };
        Ok(Some((asked, Box::new(ask))))
    }

    /// `overtaken`: a row that goes was written or deleted after it was read.
    pub(super) fn judge_typed(
        &mut self,
        asked: Typed,
        overtaken: bool,
        stopped: bool,
        outcome: Result<TypedReport, Error>,
    ) -> Result<(), String> {
        let state = self.model.state();
        let gone = asked.gone.len() as u64;
        let mut rows = asked.points.len() as u64;
        if asked.is_change {
            rows = gone.max(rows + state.survivors(&asked.name, &asked.gone));
        }
        let decided = state.decide(
            &asked.name,
            &asked.schema,
            asked.points,
            asked.on_conflict,
            &asked.gone,
        );
        let too_large = rows > self.batch_rows_max;
        let what = if asked.is_change {
            "update"
        } else {
            "typed write"
        };
        if overtaken {
            return match outcome {
                Err(Error::ChangedMeanwhile { .. }) => {
                    self.counts.conflicts += 1;
                    Ok(())
                }
                Ok(_) => Err(format!("an {what} was made of rows that had changed")),
                Err(error) => self.allow::<()>(what, Err(error)).map(drop),
            };
        }
        let fate = asked.key.and_then(|key| self.model.fate(key)).cloned();
        match (outcome, decided) {
            (Err(Error::NoConflicts { .. }), Decided::NoConflicts) => Ok(()),
            (Ok(report), _) if report.repeated => {
                self.judge_repeated(asked.key, report.written, report.lsn)
            }
            (Ok(_) | Err(Error::RowConflict { .. }), _)
                if matches!(fate, Some(Fate::Taken { .. })) =>
            {
                Err(format!("a {what} was judged again, after {fate:?}"))
            }
            (Err(Error::Limit { .. }), _) if too_large => Ok(()),
            (Err(Error::RowConflict { row, .. }), Decided::Refused(at)) => {
                // An update looks at the rows of its batch before it looks at the table.
                if row != at && !asked.is_change {
                    return Err(format!("row {row} is in the way instead of row {at}"));
                }
                self.counts.conflicts += 1;
                Ok(())
            }
            (Ok(_), _) if too_large => Err(format!("{rows} rows passed the limit")),
            (
                Ok(report),
                Decided::Taken {
                    mut batch,
                    written,
                    skipped,
                    replaced,
                },
            ) => {
                batch.key = asked.key;
                let replaced = replaced + asked.gone.len() as u64;
                let counts = (report.written, report.skipped, report.replaced);
                if counts != (written, skipped, replaced) {
                    return Err(format!(
                        "{what}: {report:?} instead of {written} written, {skipped} skipped, {replaced} replaced"
                    ));
                }
                let changes = batch.rows() > 0 || !asked.gone.is_empty();
                if stopped && changes {
                    return Err(format!(
                        "a {what} was acknowledged after the store had stopped"
                    ));
                }
                // A batch without rows is not kept, and neither is its key.
                if let Some(key) = asked.key.filter(|_| batch.rows() > 0) {
                    self.model.acknowledge_key(key, batch.rows(), report.lsn);
                }
                self.counts.typed += u64::from(changes && !asked.is_change);
                self.counts.updates += u64::from(changes && asked.is_change);
                self.model.acknowledge(&Op::Update {
                    name: asked.name,
                    gone: asked.gone,
                    batch,
                });
                Ok(())
            }
            (Ok(report), decided) => Err(format!("{what}: {report:?} instead of {decided:?}")),
            (Err(error), Decided::Taken { mut batch, .. }) => {
                batch.key = asked.key;
                let op = || Op::Update {
                    name: asked.name,
                    gone: asked.gone,
                    batch,
                };
                self.judge_failure(what, stopped, error, op)
            }
            (Err(error), _) => self.allow::<()>(what, Err(error)).map(drop),
        }
    }
}
