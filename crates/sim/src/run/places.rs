//! Databases and schemas: made, dropped, renamed, each against what the model expects.

use std::sync::Arc;

use nilometer_engine::{Engine, Error};

use super::Run;
use crate::model::{Expected, Op};
use crate::plan::PlaceChange;
use crate::plan::places::split;

impl Run {
    pub(super) fn change_place(&mut self, change: &PlaceChange) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        let expected = self.model.state().expect_place(change);
        let stopped = self.world.poisoned();
        let outcome = ask(&engine, change);
        self.judge_making(Op::Place(change.clone()), expected, stopped, outcome)
    }

    /// Judges an answer that says whether something was done.
    pub(super) fn judge_making(
        &mut self,
        op: Op,
        expected: Expected,
        stopped: bool,
        outcome: Result<bool, Error>,
    ) -> Result<(), String> {
        if let Ok(done) = outcome
            && done != (expected == Expected::Done)
        {
            let what = if done { "was done" } else { "was there" };
            return Err(format!("{op:?} {what}, and {expected:?} was expected"));
        }
        let is_place = matches!(op, Op::Place(_));
        let before = self.counts.changes;
        self.judge_change(op, expected, stopped, outcome.map(drop))?;
        if is_place {
            self.counts.places += self.counts.changes - before;
        }
        Ok(())
    }
}

fn ask(engine: &Engine, change: &PlaceChange) -> Result<bool, Error> {
    let (database, schema) = split(change.place());
    let is_schema = change.place().contains('/');
    match change {
        PlaceChange::Create(_) if is_schema => engine.create_schema(database, schema),
        PlaceChange::Create(_) => engine.create_database(database),
        PlaceChange::Drop(_) if is_schema => engine.drop_schema(database, schema).map(|()| true),
        PlaceChange::Drop(_) => engine.drop_database(database).map(|()| true),
        PlaceChange::Rename(_, to) if is_schema => engine
            .rename_schema(database, schema, split(to).1)
            .map(|()| true),
        PlaceChange::Rename(_, to) => engine.rename_database(database, to).map(|()| true),
    }
}
