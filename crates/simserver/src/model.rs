//! What must be there, in plain maps: for each request that writes, every state that its rows may be in.
//!
//! A request that has begun and has not ended may take effect at any moment; one that was acknowledged has; one that was
//! refused has not; one without an answer may yet, until the life that it was sent to is over. What was seen once, when
//! nothing was on its way, stays what it is. Does not: read answers (`answer.rs` does), or order requests among each
//! other except by what an answer shows as one moment.

use std::collections::{BTreeMap, BTreeSet};

/// Number of a request's rows, in all attempts to write them.
pub type OpId = u32;

/// Number of an attempt.
pub(crate) type Attempt = u64;

/// Where rows of a request go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// Into the table whose rows replace themselves.
    pub last: bool,
    /// Into the table that keeps duplicates.
    pub keep: bool,
}

/// What an attempt does to the rows of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Writes them; with a key once only.
    Write { keyed: bool },
    /// Gives those in the first table another version.
    Update { version: u32 },
    /// Deletes those in the first table.
    DeleteLast,
    /// Deletes those in the second table.
    DeleteKept,
}

/// What may be there of a request's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Seen {
    /// Their version in the first table.
    pub(crate) last: Option<u32>,
    /// How often they are in the second table.
    pub(crate) keep: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct State {
    seen: Seen,
    /// Written under their key.
    keyed: bool,
    /// Attempts of those on their way that have taken effect.
    done: BTreeSet<Attempt>,
}

#[derive(Debug, Clone)]
struct Op {
    tables: Tables,
    states: BTreeSet<State>,
    on_its_way: BTreeMap<Attempt, Effect>,
}

impl Op {
    fn after(&self, state: &State, attempt: Attempt, effect: Effect) -> State {
        let mut after = state.clone();
        after.done.insert(attempt);
        match effect {
            Effect::Write { keyed: true } if state.keyed => {}
            Effect::Write { keyed } => {
                after.keyed |= keyed;
                if self.tables.last {
                    after.seen.last = Some(0);
                }
                after.seen.keep += u32::from(self.tables.keep);
            }
            Effect::Update { version } => {
                after.seen.last = state.seen.last.map(|_| version);
            }
            Effect::DeleteLast => after.seen.last = None,
            Effect::DeleteKept => after.seen.keep = 0,
        }
        after
    }

    /// Every state that what is on its way may have led to.
    fn reachable(&self) -> BTreeSet<State> {
        let mut all = self.states.clone();
        let mut new: Vec<State> = all.iter().cloned().collect();
        while let Some(state) = new.pop() {
            for (&attempt, &effect) in &self.on_its_way {
                if state.done.contains(&attempt) {
                    continue;
                }
                let after = self.after(&state, attempt, effect);
                if all.insert(after.clone()) {
                    new.push(after);
                }
            }
        }
        all
    }

    /// An attempt has ended, and it is known whether it took effect.
    fn end(&mut self, attempt: Attempt, has: bool) {
        let reachable = self.reachable().into_iter();
        let possible = reachable.filter(|state| state.done.contains(&attempt) == has);
        self.states = possible
            .map(|mut state| {
                state.done.remove(&attempt);
                state
            })
            .collect();
        self.on_its_way.remove(&attempt);
    }
}

/// What may be there at one moment.
pub(crate) type Moment = BTreeMap<OpId, BTreeSet<Seen>>;

/// What a request shows of its rows, by request.
pub(crate) type Shown = BTreeMap<OpId, Seen>;

/// All requests that write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    ops: BTreeMap<OpId, Op>,
    last_attempt: Attempt,
    /// Drops of the first table that are on their way; they concern requests that begin meanwhile too.
    drops: BTreeSet<Attempt>,
}

impl Model {
    fn attempt(&mut self) -> Attempt {
        self.last_attempt += 1;
        self.last_attempt
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, id: OpId, tables: Tables, effect: Effect) -> Attempt {
        let attempt = self.attempt();
        let drops = self.drops.iter();
        let drops = drops.map(|&drop| (drop, Effect::DeleteLast)).collect();
        let op = self.ops.entry(id).or_insert_with(|| Op {
            tables,
            states: BTreeSet::from([State::default()]),
            on_its_way: drops,
        });
        op.on_its_way.insert(attempt, effect);
        attempt
    }

    /// The first table is to be dropped, with all rows.
    pub(crate) fn begin_drop(&mut self) -> Attempt {
        let attempt = self.attempt();
        self.drops.insert(attempt);
        for op in self.ops.values_mut() {
            op.on_its_way.insert(attempt, Effect::DeleteLast);
        }
        attempt
    }

    /// An attempt was answered: with success, or so that it has no effect. What is not known is not said.
    pub(crate) fn end(&mut self, attempt: Attempt, has: bool) {
        for op in self.ops.values_mut() {
            if op.on_its_way.contains_key(&attempt) {
                op.end(attempt, has);
            }
        }
        self.drops.remove(&attempt);
    }

    /// What may be there now.
    pub(crate) fn moment(&self) -> Moment {
        let ops = self.ops.iter();
        ops.map(|(&id, op)| {
            let states = op.reachable();
            (id, states.into_iter().map(|state| state.seen).collect())
        })
        .collect()
    }

    /// Nothing is on its way any more: what may have happened has happened or will not.
    pub(crate) fn settle(&mut self) {
        for op in self.ops.values_mut() {
            op.states = op
                .reachable()
                .into_iter()
                .map(|mut state| {
                    state.done.clear();
                    state
                })
                .collect();
            op.on_its_way.clear();
        }
        self.drops.clear();
    }

    /// What is there was seen, and nothing is on its way.
    pub(crate) fn see(&mut self, shown: &Shown) {
        for (id, op) in &mut self.ops {
            let seen = shown.get(id).copied().unwrap_or_default();
            op.states.retain(|state| state.seen == seen);
        }
    }
}

/// Why an answer is none that the store could give at any of these moments; `None` = it is.
pub(crate) fn contradiction(moments: &[Moment], shown: &Shown) -> Option<String> {
    let mut best: Option<Vec<String>> = None;
    for moment in moments {
        let ids: BTreeSet<OpId> = moment.keys().chain(shown.keys()).copied().collect();
        let wrong: Vec<String> = ids
            .into_iter()
            .filter_map(|id| {
                let seen = shown.get(&id).copied().unwrap_or_default();
                let nothing = BTreeSet::from([Seen::default()]);
                let may = moment.get(&id).unwrap_or(&nothing);
                (!may.contains(&seen)).then(|| {
                    let may: Vec<String> = may.iter().map(|seen| spell(*seen)).collect();
                    format!(
                        "request {id} shows {}; it must be {}",
                        spell(seen),
                        may.join(", or ")
                    )
                })
            })
            .collect();
        if wrong.is_empty() {
            return None;
        }
        if best.as_ref().is_none_or(|best| wrong.len() < best.len()) {
            best = Some(wrong);
        }
    }
    let wrong = best.unwrap_or_default();
    Some(format!(
        "of {} moments none is what was answered; at the nearest, {}",
        moments.len(),
        wrong.join("; ")
    ))
}

fn spell(seen: Seen) -> String {
    let last = match seen.last {
        None => "nothing in `last`".to_owned(),
        Some(version) => format!("version {version} in `last`"),
    };
    format!("({last}, {} times in `keep`)", seen.keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Tables = Tables {
        last: true,
        keep: true,
    };

    fn kept(model: &Model, id: OpId) -> Vec<u32> {
        let moment = model.moment();
        moment
            .get(&id)
            .unwrap()
            .iter()
            .map(|seen| seen.keep)
            .collect()
    }

    #[test]
    fn what_is_acknowledged_is_there_once_and_what_is_refused_is_not() {
        let mut model = Model::default();
        let first = model.begin(1, BOTH, Effect::Write { keyed: false });
        assert_eq!(kept(&model, 1), [0, 1]);
        model.end(first, true);
        assert_eq!(kept(&model, 1), [1]);
        let second = model.begin(1, BOTH, Effect::Write { keyed: false });
        model.end(second, false);
        assert_eq!(kept(&model, 1), [1]);
    }

    #[test]
    fn what_has_no_answer_may_be_there_and_stays_what_was_seen() {
        let mut model = Model::default();
        model.begin(1, BOTH, Effect::Write { keyed: true });
        let again = model.begin(1, BOTH, Effect::Write { keyed: true });
        assert_eq!(kept(&model, 1), [0, 1]);
        model.end(again, true);
        assert_eq!(kept(&model, 1), [1]);
        model.begin(2, BOTH, Effect::Write { keyed: false });
        model.settle();
        assert_eq!(kept(&model, 2), [0, 1]);
        let seen = Seen {
            last: Some(0),
            keep: 1,
        };
        model.see(&Shown::from([(1, seen)]));
        assert_eq!((kept(&model, 1), kept(&model, 2)), (vec![1], vec![0]));
    }

    #[test]
    fn an_answer_is_of_one_moment() {
        let mut model = Model::default();
        let mut moments = vec![model.moment()];
        for id in [1, 2] {
            let attempt = model.begin(id, BOTH, Effect::Write { keyed: false });
            moments.push(model.moment());
            model.end(attempt, true);
            moments.push(model.moment());
        }
        let there = Seen {
            last: Some(0),
            keep: 1,
        };
        assert_eq!(contradiction(&moments, &Shown::new()), None);
        assert_eq!(contradiction(&moments, &Shown::from([(1, there)])), None);
        assert!(contradiction(&moments, &Shown::from([(2, there)])).is_some());
    }
}
