//! The databases of clients of InfluxDB: what they may be, what of them an answer may show, and what of them is there.
//!
//! Does: keep every state that a database may be in, send what is told and asked, judge the answer. A database whose last
//! change has no answer is told nothing more until everything has come to rest. Does not: know what a deed does to a
//! state (`crate::influx` does).

use super::verdict::{Outcome, heard, said};
use super::{Client, Ran, Run, Wish};
use crate::client::{ALL, Got};
use crate::influx::answer::{self, Set};
use crate::influx::names::DATABASES;
use crate::influx::show::Show;
use crate::influx::store::{Policy, State};
use crate::influx::{Deed, How, Select};
use crate::plan::{QUERY_MS_MAX, WRITE_MS_MAX};

/// What no database of InfluxDB is told in the simulation would answer otherwise.
const ASKED: How = How {
    chunk_rows: None,
    params: false,
    posts: false,
    takes: ALL,
};

/// One database.
#[derive(Debug)]
pub(super) struct Side {
    /// Without the change that is on its way.
    possible: Vec<State>,
    /// On its way, or without an answer.
    change: Option<Deed>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            possible: vec![State::default()],
            change: None,
        }
    }
}

fn add(states: &mut Vec<State>, more: impl IntoIterator<Item = State>) {
    for state in more {
        if !states.contains(&state) {
            states.push(state);
        }
    }
}

impl Side {
    /// Whatever may be there.
    fn reachable(&self) -> Vec<State> {
        let mut states = self.possible.clone();
        if let Some(change) = &self.change {
            for state in &self.possible {
                add(&mut states, state.after(change).unwrap_or_default());
            }
        }
        states
    }

    fn settle(&mut self) {
        self.possible = self.reachable();
        self.change = None;
    }

    /// The change was answered with success. Whether it could be.
    fn done(&mut self, deed: &Deed) -> bool {
        let mut after = Vec::new();
        for state in &self.possible {
            add(
                &mut after,
                state.after(deed).ok().and_then(|mut it| it.pop()),
            );
        }
        self.change = None;
        self.possible = after;
        !self.possible.is_empty()
    }

    /// The change was refused for what is there. Whether it could be.
    fn refused(&mut self, deed: &Deed, error: &str) -> bool {
        let is_why = |state: &State| state.after(deed).is_err_and(|why| error.contains(why));
        if !self.possible.iter().any(is_why) {
            return false;
        }
        self.possible.retain(is_why);
        self.change = None;
        true
    }
}

impl Run<'_> {
    pub(super) fn settle_sides(&mut self) {
        self.sides.iter_mut().for_each(Side::settle);
    }

    pub(super) fn tell(&mut self, at: usize, deed: &Deed, how: How) {
        if self.sides.is_empty() {
            self.sides.extend(DATABASES.iter().map(|_| Side::default()));
        }
        let (Some(side), Some(database)) = (self.sides.get_mut(at), DATABASES.get(at)) else {
            return;
        };
        if deed.is_change() {
            if side.change.is_some() {
                return;
            }
            side.change = Some(deed.clone());
        }
        let now = side.reachable();
        let wish = Wish::Tell {
            at,
            deed: deed.clone(),
            moments: now.clone(),
        };
        for client in self.clients.values_mut() {
            if let Wish::Tell {
                at: other, moments, ..
            } = &mut client.wish
                && *other == at
            {
                add(moments, now.iter().cloned());
            }
        }
        let takes = if deed.is_change() { ALL } else { how.takes };
        self.send(wish, deed.request(database, how), None, takes);
    }

    /// An answer about one of the databases.
    pub(super) fn heard_of_side(
        &mut self,
        client: &Client,
        at: usize,
        deed: &Deed,
        moments: &[State],
        got: &Got,
    ) -> Ran<()> {
        let wrong = |why: &str| {
            Err(format!(
                "{deed:?} of {:?}: {why}: {}",
                DATABASES.get(at),
                said(got)
            ))
        };
        let (status, error) = heard(got).unwrap_or_default();
        let Some(side) = self.sides.get_mut(at) else {
            return Ok(());
        };
        if !deed.is_change() {
            return self.shown_of_side(client, deed, moments, got);
        }
        if !error.is_empty() && side.refused(deed, &error) {
            self.count(Outcome::Refused);
            return Ok(());
        }
        let outcome = match deed {
            Deed::Write(_) => self.of_lines(client, at, deed, status, &error),
            _ => self
                .of_statement(client, true, got)
                .map(|outcome| match outcome {
                    // What is made or deleted piece by piece may be there in part.
                    Outcome::Refused => Outcome::Unknown,
                    outcome => outcome,
                }),
        };
        let Some(outcome) = outcome else {
            return wrong("there was no reason for this answer");
        };
        self.count(outcome);
        let Some(side) = self.sides.get_mut(at) else {
            return Ok(());
        };
        match outcome {
            Outcome::Done if !side.done(deed) => wrong("it had to be refused"),
            Outcome::Done => {
                self.counts.told += 1;
                Ok(())
            }
            Outcome::Refused => {
                side.change = None;
                Ok(())
            }
            Outcome::Unknown => Ok(()),
        }
    }

    fn of_lines(
        &mut self,
        client: &Client,
        at: usize,
        deed: &Deed,
        status: u16,
        error: &str,
    ) -> Option<Outcome> {
        let Deed::Write(lines) = deed else {
            return None;
        };
        let side = self.sides.get(at)?;
        let beyond: Vec<usize> = side
            .possible
            .iter()
            .map(|state| state.beyond(lines))
            .collect();
        let passed_ms = self.world.now_ms() - client.began_ms;
        match status {
            204 => beyond.contains(&0).then_some(Outcome::Done),
            400 if error.contains("partial write") => {
                let says = |count: &usize| {
                    *count > 0 && error.contains(&format!(" dropped={count} for database"))
                };
                let is_said = beyond.iter().any(says);
                self.counts.told_partly += u64::from(is_said);
                is_said.then_some(Outcome::Done)
            }
            500 | 504 if error.contains("write-ms-max") => {
                (passed_ms >= WRITE_MS_MAX).then_some(Outcome::Unknown)
            }
            _ => self.of_disk(client, status, error),
        }
    }

    fn shown_of_side(
        &mut self,
        client: &Client,
        deed: &Deed,
        moments: &[State],
        got: &Got,
    ) -> Ran<()> {
        let (status, error) = heard(got).unwrap_or_default();
        let passed_ms = self.world.now_ms() - client.began_ms;
        let wrong = |why: &str| Err(format!("{deed:?}: {why}: {}", said(got)));
        if (status, got.whole) != (200, Some(true)) {
            let is_over = passed_ms >= QUERY_MS_MAX;
            let fine = match status {
                200 => self.killed || is_over,
                409 => self.killed && error.contains("KILL"),
                429 => error.contains("queries-waiting-max"),
                504 => is_over && error.contains("query-ms-max"),
                _ => moments
                    .iter()
                    .any(|state| refusal(deed, state).is_some_and(|why| error.contains(why))),
            };
            self.counts.refused += 1;
            return if fine {
                Ok(())
            } else {
                wrong("a question had no reason for this answer")
            };
        }
        let sets =
            answer::sets(&got.bytes).map_err(|why| format!("{deed:?}: {why}: {}", said(got)))?;
        self.counts.acknowledged += 1;
        self.counts.shown += 1;
        let is_select = matches!(deed, Deed::Select(_));
        self.counts.selected += u64::from(is_select && !sets.is_empty());
        let mut nearest = "it had to be refused".to_owned();
        for state in moments {
            match differs(deed, state, &sets) {
                Ok(None) => return Ok(()),
                Ok(Some(why)) => nearest = why,
                Err(_) => {}
            }
        }
        let (text, _) = deed.text("f", false);
        Err(format!(
            "{text}: of {} states none is what was answered; of the last, it {nearest}",
            moments.len()
        ))
    }

    /// What is there of each database is what may be.
    pub(super) async fn compare_sides(&mut self, poisoned: bool) -> Ran<()> {
        for (at, database) in DATABASES.iter().enumerate().take(self.sides.len()) {
            let states = self.sides.get(at).map(Side::reachable).unwrap_or_default();
            let mut left = states.clone();
            let mut why = String::new();
            let mut questions = vec![Deed::Show(Show::Policies), Deed::Show(Show::Measurements)];
            questions.extend(Policy::ALL.map(|policy| Deed::Select(Select::all_of(policy))));
            for question in questions {
                let auditor = self.world.auditor();
                let got = self
                    .ask_of(auditor, question.request(database, ASKED))
                    .await?;
                let (_, error) = heard(&got).unwrap_or_default();
                let sets = answer::sets(&got.bytes);
                left.retain(|state| {
                    if !error.is_empty() {
                        return refusal(&question, state).is_some_and(|why| error.contains(why));
                    }
                    let differs = match &sets {
                        Ok(sets) => differs(&question, state, sets),
                        Err(wrong) => Ok(Some(wrong.clone())),
                    };
                    why = match differs {
                        Ok(None) => return true,
                        Ok(Some(differs)) => differs,
                        Err(refused) => format!("must be refused: {refused}"),
                    };
                    false
                });
                if left.is_empty() {
                    return Err(format!(
                        "{database} is in none of {} states; of the last, {question:?} {why}: {}",
                        states.len(),
                        said(&got)
                    ));
                }
            }
            self.counts.compared += 1;
            if let Some(side) = self.sides.get_mut(at)
                && !poisoned
            {
                side.possible = left;
            }
        }
        Ok(())
    }
}

/// Why a question is refused.
fn refusal(deed: &Deed, state: &State) -> Option<&'static str> {
    match deed {
        Deed::Select(select) => state.policy(select.policy).err(),
        _ => state.policy(None).err(),
    }
}

fn differs(deed: &Deed, state: &State, shown: &[Set]) -> Result<Option<String>, &'static str> {
    match deed {
        Deed::Select(select) => Ok(answer::differs(&select.answer(state)?, shown)),
        Deed::Show(show) => show.differs(state, shown),
        _ => Ok(None),
    }
}
