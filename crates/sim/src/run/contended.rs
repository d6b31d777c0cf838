//! Writers that look before they write, and who comes in between.
//!
//! Does: let a second writer have its whole turn after the first has looked at what is there and before its batch has a
//! place in the order, then judge both as if the second had come first; or end the request there. Does not: let
//! anybody in where a writer may have to flush: that is done under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_engine::ingest::{TypedReport, WriteReport};

use super::Run;
use super::relations::{AskRelate, Relating};
use super::typed::{AskTyped, Typed};
use super::visit::HEAD_FULL_FACTOR;
use crate::plan::{Act, Visit};
use crate::visitor::Door;

/// What unwinds through a request that ends.
struct Cancelled;

type Answered<T> = Result<T, nilometer_engine::Error>;

enum Asked {
    Typed(Typed, AskTyped),
    Relate(Relating, AskRelate),
}

enum Answer {
    Typed(Typed, Answered<TypedReport>),
    Relate(Relating, Answered<WriteReport>),
}

impl Asked {
    /// Whether the first look at the clock is the one that a visitor may come at.
    fn may_be_visited(&self) -> bool {
        match self {
            // The age of keys is asked for under their lock.
            Self::Typed(asked, _) => asked.has_rows() && !asked.has_key(),
            Self::Relate(asked, _) => asked.has_rows() && !asked.has_key(),
        }
    }

    /// `None` = the request has ended before it was answered.
    fn ask(self, engine: &Arc<Engine>) -> Option<Answer> {
        let answered = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Typed(asked, ask) => Answer::Typed(asked, ask(engine)),
            Self::Relate(asked, ask) => Answer::Relate(asked, ask(engine)),
        }));
        match answered {
            Ok(answer) => Some(answer),
            Err(reason) if reason.is::<Cancelled>() => None,
            Err(reason) => resume_unwind(reason),
        }
    }
}

impl Run {
    pub(super) fn contended(&mut self, act: &Act, visit: Option<&Visit>) -> Result<(), String> {
        let asked = match act {
            Act::WriteTyped {
                database,
                table,
                lines,
                on_conflict,
                key,
            } => self
                .prepare_write((database, table), lines, *on_conflict, *key)?
                .map(|(asked, ask)| Asked::Typed(asked, ask)),
            Act::Update {
                database,
                table,
                which,
                lines,
            } => self
                .prepare_update(database, table, *which, lines)?
                .map(|(asked, ask)| Asked::Typed(asked, ask)),
            Act::Relate(relate) => self
                .prepare_relate(relate, visit.is_none())
                .map(|(asked, ask)| Asked::Relate(asked, ask)),
            _ => None,
        };
        let Some(asked) = asked else {
            return Ok(());
        };
        let engine = Arc::clone(self.engine()?);
        let head_rows = engine.metrics().head_rows;
        let mut stopped = self.world.poisoned();
        let open = asked.may_be_visited()
            && head_rows < self.flush_rows * (HEAD_FULL_FACTOR - 1)
            && !self.has_little_memory;
        let awaited = match visit.filter(|_| open && !stopped) {
            None => None,
            Some(visit) if visit.act == Act::Cancel => {
                let end = Box::new(|| resume_unwind(Box::new(Cancelled)));
                self.world.visitor().wait(Some((Door::Clock, 1, end)));
                None
            }
            Some(visit) => self.send_visitor(Door::Clock, visit)?,
        };
        let answer = asked.ask(&engine);
        self.world.visitor().wait(None);
        let Some(answer) = answer else {
            self.counts.cancelled += 1;
            return Ok(());
        };
        let mut overtaken = false;
        if let Some(awaited) = awaited {
            if let Answer::Typed(asked, _) = &answer {
                let (name, keys) = asked.goes();
                self.model.watch(name, keys);
            }
            if let Some(stopped_then) = self.judge_visit(awaited)? {
                self.counts.races += 1;
                stopped = stopped_then;
            }
            overtaken = self.model.touched();
        }
        match answer {
            Answer::Typed(asked, outcome) => self.judge_typed(asked, overtaken, stopped, outcome),
            Answer::Relate(asked, outcome) => self.judge_relate(asked, stopped, outcome),
        }
    }
}
