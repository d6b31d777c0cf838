//! Model of the rows, in plain maps: for each request that writes, every state that its rows may be in.
//!
//! A request that has begun and has not ended may take effect at any moment; one that was acknowledged has; one that was
//! refused has not; one without an answer may yet, until the life that it was sent to is over. What was seen once, when
//! nothing was on its way, stays what it is. Does not: read answers (`answer.rs` does), or order requests among each
//! other except by what an answer shows as one moment. What a definition makes or drops is a request's only row.

use std::collections::{BTreeMap, BTreeSet};

/// Number of a request's rows, in all attempts to write them.
pub type OpId = u32;

/// Number of an attempt.
pub(crate) type Attempt = u64;

/// Numbers from here on are no requests but names that definitions make and drop, and settings that they change.
pub(crate) const NAMES: OpId = 1_000_000;

/// Where rows of a request go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "rows may go into any of four tables"
)]
pub struct Tables {
    /// Into the table whose rows replace themselves.
    pub last: bool,
    /// Into the table that keeps duplicates.
    pub keep: bool,
    /// Into the table that keeps duplicates for a while only.
    pub brief: bool,
    /// Into the table of the other database, and into no other.
    pub aside: bool,
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
    /// Drops the other database with all that it has.
    DropAside,
    /// Makes a name that is not there.
    Make,
    /// Drops a name that is there.
    Unmake,
}

/// What may be there of a request's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Seen {
    /// Their version in the first table.
    pub(crate) last: Option<u32>,
    /// How often they are in the second table.
    pub(crate) keep: u32,
    /// How often they are in the table that keeps them for a while.
    pub(crate) brief: u32,
    /// Whether they are in the other database; of a name, whether it is there.
    pub(crate) aside: bool,
}

/// What of all that a question shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The rows of all tables of the first database.
    Rows,
    /// Those of the other one.
    Aside,
    /// Names and settings.
    Names,
}

impl View {
    /// The part of what there is that the question shows; `None` = it shows nothing of this number.
    fn of(self, id: OpId, seen: Seen) -> Option<Seen> {
        match self {
            Self::Names => (id >= NAMES).then_some(seen),
            _ if id >= NAMES => None,
            Self::Rows => Some(Seen {
                aside: false,
                ..seen
            }),
            Self::Aside => Some(Seen {
                aside: seen.aside,
                ..Seen::default()
            }),
        }
    }
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
    /// `None` = the attempt can have no effect on this state but to be refused.
    fn after(&self, state: &State, attempt: Attempt, effect: Effect) -> Option<State> {
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
                after.seen.brief += u32::from(self.tables.brief);
                after.seen.aside |= self.tables.aside;
            }
            Effect::Update { version } => {
                after.seen.last = state.seen.last.map(|_| version);
            }
            Effect::DeleteLast => after.seen.last = None,
            Effect::DeleteKept => after.seen.keep = 0,
            Effect::Make if state.seen.aside => return None,
            Effect::Make => after.seen.aside = true,
            Effect::Unmake if !state.seen.aside => return None,
            Effect::DropAside | Effect::Unmake => after.seen.aside = false,
        }
        Some(after)
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
                if let Some(after) = self.after(&state, attempt, effect)
                    && all.insert(after.clone())
                {
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
    /// Drops of tables that are on their way; they concern requests that begin meanwhile too.
    drops: BTreeMap<Attempt, Effect>,
}

impl Model {
    fn attempt(&mut self) -> Attempt {
        self.last_attempt += 1;
        self.last_attempt
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, id: OpId, tables: Tables, effect: Effect) -> Attempt {
        let attempt = self.attempt();
        let drops = if id < NAMES {
            self.drops.clone()
        } else {
            BTreeMap::new()
        };
        let op = self.ops.entry(id).or_insert_with(|| Op {
            tables,
            states: BTreeSet::from([State::default()]),
            on_its_way: drops,
        });
        op.on_its_way.insert(attempt, effect);
        attempt
    }

    /// A table is to be dropped, with all rows.
    pub(crate) fn begin_drop(&mut self, effect: Effect) -> Attempt {
        let attempt = self.attempt();
        self.drops.insert(attempt, effect);
        for (_, op) in self.ops.range_mut(..NAMES) {
            op.on_its_way.insert(attempt, effect);
        }
        attempt
    }

    /// A setting that is there from the beginning, with its value.
    pub(crate) fn set(&mut self, id: OpId, value: u32) {
        let mut state = State::default();
        state.seen.last = Some(value);
        let op = Op {
            tables: Tables::default(),
            states: BTreeSet::from([state]),
            on_its_way: BTreeMap::new(),
        };
        self.ops.insert(id, op);
    }

    /// Whether a name may be there, or may not, where this attempt has had no effect.
    pub(crate) fn may_be(&self, id: OpId, there: bool, without: Attempt) -> bool {
        let op = self.ops.get(&id);
        let states = op.map(Op::reachable).unwrap_or_default();
        let mut states = states.iter();
        states.any(|it| it.seen.aside == there && !it.done.contains(&without))
    }

    /// Every value that a setting may have now.
    pub(crate) fn values(&self, id: OpId) -> BTreeSet<u32> {
        let op = self.ops.get(&id);
        let states = op.map(Op::reachable).unwrap_or_default();
        states.iter().filter_map(|it| it.seen.last).collect()
    }

    /// Retention was at work. `may` and `must` say of a request whether its rows may be too old, and whether they are.
    pub(crate) fn expire(&mut self, may: impl Fn(OpId) -> bool, must: impl Fn(OpId) -> bool) {
        let ops = self.ops.range_mut(..NAMES);
        for (_, op) in ops.filter(|(id, op)| op.tables.brief && may(**id)) {
            let before = op.reachable();
            let mut after: BTreeSet<State> = before.iter().cloned().map(without_brief).collect();
            after.extend(before);
            op.states = after;
        }
        let ops = self.ops.range_mut(..NAMES);
        for (_, op) in ops.filter(|(id, op)| op.tables.brief && must(**id)) {
            op.states = op.reachable().into_iter().map(without_brief).collect();
        }
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
    pub(crate) fn see(&mut self, view: View, shown: &Shown) {
        for (&id, op) in &mut self.ops {
            let seen = shown.get(&id).copied().unwrap_or_default();
            let seen = view.of(id, seen);
            op.states.retain(|state| view.of(id, state.seen) == seen);
        }
    }
}

fn without_brief(mut state: State) -> State {
    state.seen.brief = 0;
    state
}

/// Why an answer is none that the store could give at any of these moments; `None` = it is.
pub(crate) fn contradiction(view: View, moments: &[Moment], shown: &Shown) -> Option<String> {
    let mut best: Option<Vec<String>> = None;
    for moment in moments {
        let ids: BTreeSet<OpId> = moment.keys().chain(shown.keys()).copied().collect();
        let wrong: Vec<String> = ids
            .into_iter()
            .filter_map(|id| {
                let seen = view.of(id, shown.get(&id).copied().unwrap_or_default())?;
                let nothing = BTreeSet::from([Seen::default()]);
                let may = moment.get(&id).unwrap_or(&nothing).iter();
                let may: BTreeSet<Seen> = may.filter_map(|it| view.of(id, *it)).collect();
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
    format!(
        "({last}, {} times in `keep`, {} times in `brief`, {})",
        seen.keep,
        seen.brief,
        if seen.aside { "there" } else { "nothing aside" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Tables = Tables {
        last: true,
        keep: true,
        brief: false,
        aside: false,
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
            ..Seen::default()
        };
        model.see(View::Rows, &Shown::from([(1, seen)]));
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
            ..Seen::default()
        };
        assert_eq!(contradiction(View::Rows, &moments, &Shown::new()), None);
        assert_eq!(
            contradiction(View::Rows, &moments, &Shown::from([(1, there)])),
            None
        );
        assert!(contradiction(View::Rows, &moments, &Shown::from([(2, there)])).is_some());
    }

    #[test]
    fn rows_go_when_they_are_too_old_and_not_before() {
        let mut model = Model::default();
        let tables = Tables {
            brief: true,
            ..Tables::default()
        };
        for id in [1, 2, 3] {
            let attempt = model.begin(id, tables, Effect::Write { keyed: false });
            model.end(attempt, true);
        }
        model.expire(|id| id < 3, |id| id < 2);
        let moment = model.moment();
        let brief = |id: OpId| -> Vec<u32> {
            let seen = moment.get(&id).unwrap().iter();
            seen.map(|seen| seen.brief).collect()
        };
        assert_eq!(
            (brief(1), brief(2), brief(3)),
            (vec![0], vec![0, 1], vec![1])
        );
    }

    #[test]
    fn a_name_is_made_once_and_whoever_was_told_so_has_made_it() {
        let mut model = Model::default();
        let none = Tables::default();
        let there = |model: &Model| -> Vec<bool> {
            let moment = model.moment();
            let seen = moment.get(&NAMES).unwrap().iter();
            seen.map(|seen| seen.aside).collect()
        };
        let first = model.begin(NAMES, none, Effect::Make);
        let second = model.begin(NAMES, none, Effect::Make);
        assert_eq!(there(&model), [false, true]);
        model.end(first, true);
        assert_eq!(there(&model), [true]);
        model.end(second, false);
        let dropped = model.begin(NAMES, none, Effect::Unmake);
        model.end(dropped, true);
        assert_eq!(there(&model), [false]);
    }
}
