//! Relations: made, dropped, and their rows changed, alone or with points in one batch, against what the model expects.

use std::sync::Arc;

use nilometer_engine::ingest::WriteReport;
use nilometer_engine::{ConstraintKind, Engine, Error, RelationChange};
use nilometer_lineproto::Precision;

use super::acts::check_report;
use super::{Run, in_transaction};
use crate::model::{self, Expected, Fate, Name, Op, Prediction, RelateOp, Related};
use crate::plan::places::split;
use crate::plan::{Relate, RelationStep, Shape, spell};
use crate::world::{change_of, session_in};

/// What is asked of a relation.
pub(super) struct Relating {
    name: Name,
    steps: Vec<RelationStep>,
    prediction: Prediction,
}

/// Asks the store.
pub(super) type AskRelate = Box<dyn FnOnce(&Arc<Engine>) -> Result<WriteReport, Error> + Send>;

impl Relating {
    /// Whether rows come, so that the store looks for room before it does anything.
    pub(super) fn has_rows(&self) -> bool {
        let comes = |step: &RelationStep| !matches!(step, RelationStep::Delete(_));
        self.prediction.batch.rows() > 0 || self.steps.iter().any(comes)
    }

    pub(super) fn has_key(&self) -> bool {
        self.prediction.batch.key.is_some()
    }
}

impl Run {
    pub(super) fn create_relation(
        &mut self,
        place: &str,
        relation: &str,
        shape: Shape,
    ) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        let name = (place.to_owned(), relation.to_owned());
        let expected = self.model.state().expect_relation(&name, shape);
        let stopped = self.world.poisoned();
        let (database, schema) = split(place);
        let outcome = engine.create_relation(database, schema, relation, &shape.definition());
        self.judge_making(Op::CreateRelation(name, shape), expected, stopped, outcome)
    }

    pub(super) fn drop_relation(&mut self, place: &str, relation: &str) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        let (op, expected) = self.expect_drop(place, relation);
        let stopped = self.world.poisoned();
        let outcome = ask_drop(&engine, place, relation);
        self.judge_making(op, expected, stopped, outcome)
    }

    pub(super) fn expect_drop(&self, place: &str, relation: &str) -> (Op, Expected) {
        let name = (place.to_owned(), relation.to_owned());
        let state = self.model.state();
        let expected = if !state.places().contains(place) {
            Expected::NotFound
        } else if state.relation(&name).is_some() {
            Expected::Done
        } else {
            Expected::Nothing
        };
        (Op::DropRelation(name), expected)
    }

    /// A change of a relation; `None` = there is none of this name. `is_alone` = nobody comes in between.
    pub(super) fn prepare_relate(
        &mut self,
        relate: &Relate,
        is_alone: bool,
    ) -> Option<(Relating, AskRelate)> {
        let place = relate.database.clone();
        let (database, schema) = split(&place);
        let name = (place.clone(), relate.relation.clone());
        let snapshot = self.world.engine()?.snapshot();
        let reader = snapshot.relation(database, schema, &relate.relation)?;
        let shape = self.model.state().relation(&name)?.shape;
        let steps = relate.steps.iter();
        let changes: Vec<RelationChange> = steps
            .map(|step| change_of(reader.schema(), shape, step))
            .collect();
        let types = self.world.types(&place);
        let now_ns = self.world.now_ns();
        let mut prediction = model::predict(&place, &relate.lines, types, now_ns);
        prediction.batch.key = relate.key;
        self.model.mention(&place, &relate.lines);
        let relating = Relating {
            name,
            steps: relate.steps.clone(),
            prediction,
        };
        let (body, key) = (spell(&relate.lines), relate.key.map(|key| [key; 16]));
        let ask = move |engine: &Arc<Engine>| {
            if body.is_empty() && key.is_none() && is_alone && changes.len() != 2 {
                return in_transaction::relate(engine, &changes);
            }
            if body.is_empty() && key.is_none() {
                return engine.write_relations(&changes).map(|lsn| WriteReport {
                    lsn,
                    ..WriteReport::default()
                });
            }
            let mut session = session_in(engine, &place)?;
            session.write_lines_with(body.as_bytes(), Precision::Nanosecond, &changes, key)
        };
        Some((relating, Box::new(ask)))
    }

    pub(super) fn judge_relate(
        &mut self,
        relating: Relating,
        stopped: bool,
        outcome: Result<WriteReport, Error>,
    ) -> Result<(), String> {
        let Relating {
            name,
            steps,
            prediction,
        } = relating;
        let rows = prediction.batch.rows();
        let key = prediction.batch.key;
        let too_large = rows > self.batch_rows_max;
        let is_something = rows > 0 || !steps.is_empty();
        let related = self.model.state().related(&name, &steps);
        let fate = key.and_then(|key| self.model.fate(key)).cloned();
        let told = |what: &str| {
            let relation = format!("{}.{}", name.0, name.1);
            Err(format!("a change of the relation {relation} {what}"))
        };
        match outcome {
            Err(Error::Constraint {
                kind: ConstraintKind::NotNull,
                row,
                ..
            }) if related == Some(Related::Null(row)) => Ok(()),
            Err(Error::Limit { .. }) if too_large => Ok(()),
            Ok(_) if too_large => told("passed the limit"),
            Ok(report) if report.repeated => self.judge_repeat(&prediction.batch, &report),
            Ok(_) if stopped && is_something => {
                told("was acknowledged after the store had stopped")
            }
            Ok(report) if related == Some(Related::Taken) => {
                if let Some(fate @ Fate::Taken { .. }) = fate {
                    return told(&format!("was written again, after {fate:?}"));
                }
                check_report(&report, &prediction)?;
                if let Some(key) = key.filter(|_| is_something) {
                    self.model.acknowledge_key(key, rows, report.lsn);
                }
                self.counts.relations += 1;
                let batch = prediction.batch;
                self.model
                    .acknowledge(&Op::Relate(RelateOp { name, steps, batch }));
                Ok(())
            }
            Ok(_) => told(&format!("was taken instead of {related:?}")),
            Err(Error::RelationKey { row, .. })
                if related == Some(Related::InTheWay(row))
                    && !matches!(fate, Some(Fate::Taken { .. })) =>
            {
                self.counts.conflicts += 1;
                Ok(())
            }
            Err(Error::RelationDropped { .. }) if related.is_none() => Ok(()),
            Err(error) => {
                let batch = prediction.batch;
                let op = || Op::Relate(RelateOp { name, steps, batch });
                self.judge_failure("a change of a relation", stopped, error, op)
            }
        }
    }
}

/// Asks the store to drop a relation.
pub(super) fn ask_drop(engine: &Engine, place: &str, relation: &str) -> Result<bool, Error> {
    let (database, schema) = split(place);
    engine.drop_relation(database, schema, relation)
}
