//! Another writer while the store writes a segment, or while a writer is between its look and its place.

use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::ingest::{TypedReport, WriteReport};
use nilometer_engine::{Engine, Error, Lsn, Maintained};
use nilometer_lineproto::Precision;

use super::Run;
use super::acts::ask;
use super::relations::{AskRelate, Relating, ask_drop};
use super::typed::{AskTyped, Typed};
use crate::model::{self, Expected, Found, Op, Prediction};
use crate::plan::{Act, Visit, spell};
use crate::visitor::Door;
use crate::world::{delete_request, has_place, read_all, session_in, table_of};

/// Writers help to flush a head of so many times `flush_rows`, which nobody can while its flush waits for the visit.
pub(super) const HEAD_FULL_FACTOR: u64 = 4;

/// What is expected of a visit.
pub(super) enum Expectation {
    Write(Prediction),
    Delete(Op),
    Typed(Typed),
    Relate(Relating),
    Change(Op, Expected),
    Drop(Op, Expected),
    Maintain,
    Read,
}

/// What the store answered.
enum Answer {
    Write(Result<WriteReport, Error>),
    Delete(Result<Option<Lsn>, Error>),
    Typed(Result<TypedReport, Error>),
    Relate(Result<WriteReport, Error>),
    Change(Result<(), Error>),
    Drop(Result<bool, Error>),
    Maintain(Result<Maintained, Error>),
    Read(Result<Found, String>),
}

type Asked = Box<dyn FnOnce(&Arc<Engine>) -> Option<Answer> + Send>;

/// What a visitor met and got.
struct Visited {
    /// The store had stopped before.
    stopped: bool,
    answer: Answer,
    /// The store had stopped then.
    stopped_then: bool,
}

/// A visit that is to come, and what became of it.
pub(super) struct Awaited {
    expectation: Expectation,
    visited: Arc<Mutex<Option<Visited>>>,
}

impl Run {
    /// Sends somebody to wait for the call; `None` = nothing can be done at this time.
    pub(super) fn send_visitor(
        &mut self,
        door: Door,
        visit: &Visit,
    ) -> Result<Option<Awaited>, String> {
        let engine = Arc::clone(self.engine()?);
        let Some((expectation, asked)) = self.prepare(&engine, &visit.act) else {
            return Ok(None);
        };
        let visited = Arc::new(Mutex::new(None));
        let place = Arc::clone(&visited);
        let come = Box::new(move || {
            let has_stopped = || engine.metrics().poisoned.is_some();
            let stopped = has_stopped();
            let met = asked(&engine).map(|answer| Visited {
                stopped,
                answer,
                stopped_then: has_stopped(),
            });
            *place.lock().unwrap_or_else(PoisonError::into_inner) = met;
        });
        let call = match door {
            Door::Segment => visit.call,
            Door::Clock => 1,
        };
        self.world.visitor().wait(Some((door, call, come)));
        Ok(Some(Awaited {
            expectation,
            visited,
        }))
    }

    fn prepare(&mut self, engine: &Arc<Engine>, act: &Act) -> Option<(Expectation, Asked)> {
        let snapshot = engine.snapshot();
        let exists = |place: &str| has_place(&snapshot, place);
        match act {
            Act::Write {
                database, lines, ..
            } if exists(database) => {
                let types = self.world.types(database);
                let prediction = model::predict(database, lines, types, self.world.now_ns());
                self.model.mention(database, lines);
                let (database, body) = (database.clone(), spell(lines));
                let head_rows_max = self.flush_rows * HEAD_FULL_FACTOR;
                let asked = move |engine: &Arc<Engine>| {
                    if engine.metrics().head_rows >= head_rows_max {
                        return None;
                    }
                    let session = session_in(engine, &database);
                    let written = session.and_then(|mut session| {
                        session.write_lines(body.as_bytes(), Precision::Nanosecond)
                    });
                    Some(Answer::Write(written))
                };
                Some((Expectation::Write(prediction), Box::new(asked)))
            }
            Act::Delete { database, delete } if exists(database) => {
                let request = delete_request(&snapshot, database, delete)?;
                let op = Op::Delete {
                    database: database.clone(),
                    delete: delete.clone(),
                };
                let asked =
                    move |engine: &Arc<Engine>| Some(Answer::Delete(engine.delete(&request)));
                Some((Expectation::Delete(op), Box::new(asked)))
            }
            Act::WriteTyped {
                database,
                table,
                lines,
                on_conflict,
                key,
            } => {
                let prepared = self.prepare_write((database, table), lines, *on_conflict, *key);
                Some(self.typed_visit(prepared.ok().flatten()?))
            }
            Act::Update {
                database,
                table,
                which,
                lines,
            } => {
                let prepared = self.prepare_update(database, table, *which, lines);
                Some(self.typed_visit(prepared.ok().flatten()?))
            }
            Act::Relate(relate) => {
                let (expected, ask) = self.prepare_relate(relate, false)?;
                Some(self.relate_visit((expected, ask)))
            }
            Act::DropRelation { database, relation } => {
                let (op, expected) = self.expect_drop(database, relation);
                let (place, relation) = (database.clone(), relation.clone());
                let asked = move |engine: &Arc<Engine>| {
                    Some(Answer::Drop(ask_drop(engine, &place, &relation)))
                };
                Some((Expectation::Drop(op, expected), Box::new(asked)))
            }
            Act::Change { database, change } if exists(database) => {
                let live = self.world.schemas(database);
                let expected = self.model.state().expect(database, change, &live);
                let op = Op::Change {
                    database: database.clone(),
                    change: change.clone(),
                    before: live.get(change.table()).cloned(),
                };
                let (database, change) = (database.clone(), change.clone());
                let table = table_of(&snapshot, &database, change.table());
                let asked = move |engine: &Arc<Engine>| {
                    let done = ask(engine, table.as_deref(), &database, &change);
                    Some(Answer::Change(done))
                };
                Some((Expectation::Change(op, expected), Box::new(asked)))
            }
            Act::Maintain => {
                let asked = |engine: &Arc<Engine>| Some(Answer::Maintain(engine.maintain()));
                Some((Expectation::Maintain, Box::new(asked)))
            }
            Act::Compare(_) => {
                let asked = |engine: &Arc<Engine>| Some(Answer::Read(read_all(&engine.snapshot())));
                Some((Expectation::Read, Box::new(asked)))
            }
            _ => None,
        }
    }

    fn typed_visit(&self, (expected, ask): (Typed, AskTyped)) -> (Expectation, Asked) {
        let head_rows_max = self.flush_rows * HEAD_FULL_FACTOR;
        let asked = move |engine: &Arc<Engine>| {
            if engine.metrics().head_rows >= head_rows_max {
                return None;
            }
            Some(Answer::Typed(ask(engine)))
        };
        (Expectation::Typed(expected), Box::new(asked))
    }

    fn relate_visit(&self, (expected, ask): (Relating, AskRelate)) -> (Expectation, Asked) {
        let head_rows_max = self.flush_rows * HEAD_FULL_FACTOR;
        let asked = move |engine: &Arc<Engine>| {
            if engine.metrics().head_rows >= head_rows_max {
                return None;
            }
            Some(Answer::Relate(ask(engine)))
        };
        (Expectation::Relate(expected), Box::new(asked))
    }

    /// Judges the visit, if it came to it, and says whether the store had stopped at its end.
    pub(super) fn judge_visit(&mut self, visit: Awaited) -> Result<Option<bool>, String> {
        self.world.visitor().wait(None);
        let mut place = visit.visited.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Visited {
            stopped,
            answer,
            stopped_then,
        }) = place.take()
        else {
            return Ok(None);
        };
        self.counts.visits += 1;
        let judged = match (visit.expectation, answer) {
            (Expectation::Write(prediction), Answer::Write(outcome)) => {
                self.judge_write(prediction, stopped, outcome)
            }
            (Expectation::Delete(op), Answer::Delete(outcome)) => {
                self.judge_delete(op, stopped, outcome)
            }
            (Expectation::Typed(expected), Answer::Typed(outcome)) => {
                self.judge_typed(expected, false, stopped, outcome)
            }
            (Expectation::Relate(expected), Answer::Relate(outcome)) => {
                self.judge_relate(expected, stopped, outcome)
            }
            (Expectation::Drop(op, expected), Answer::Drop(outcome)) => {
                self.judge_making(op, expected, stopped, outcome)
            }
            (Expectation::Change(op, expected), Answer::Change(outcome)) => {
                self.judge_change(op, expected, stopped, outcome)
            }
            (Expectation::Maintain, Answer::Maintain(outcome)) => {
                self.allow("maintain", outcome).map(drop)
            }
            (Expectation::Read, Answer::Read(Ok(found))) => self.model.check(&found),
            (Expectation::Read, Answer::Read(Err(what))) if !self.world.disk().crashed() => {
                Err(what)
            }
            _ => Ok(()),
        };
        judged.map_err(|what| format!("a visit: {what}"))?;
        Ok(Some(stopped_then))
    }
}
