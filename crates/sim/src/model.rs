//! Model of the store, in plain maps.
//!
//! Does: keep what was acknowledged, keep apart what a failure left open, and settle that by what the first read after
//! a restart shows. Does not: call the store or the disk.
//! Next: `state.rs` for what one operation does to the rows, `predict.rs` for what the store takes of a body.

mod convert;
mod difference;
mod found;
mod held;
mod loss;
mod names;
mod place;
mod predict;
mod relation;
mod state;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{Change, Fields, Line, Probe, Tags, all_keep};
use names::Mentioned;

pub use difference::difference;
pub use found::{Found, FoundTable};
pub use loss::Lost;
pub use names::{Name, Table, Types};
pub(crate) use predict::type_of;
pub use predict::{Batch, Point, Prediction, predict};
pub use relation::{Key, RelateOp, Related, Relation};
pub use state::{Expected, Op, Schema, State, same_rows};
pub use typed::{Decided, Place};

/// What became of a batch with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is there, with so many rows, under this LSN if it was ever told.
    Taken {
        /// Rows.
        rows: u64,
        /// The LSN of the first answer.
        lsn: Option<u64>,
    },
    /// It may be there; no read can tell.
    Open {
        /// Rows if it is.
        rows: u64,
    },
}

/// What was known at some time.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    state: State,
    mentioned: Mentioned,
}

/// What is known of the store's contents.
#[derive(Debug, Default)]
pub struct Model {
    state: State,
    mentioned: Mentioned,
    in_doubt: Vec<Op>,
    fates: BTreeMap<u8, Fate>,
    watched: Option<Watched>,
}

/// Keys of a table that somebody has read and will change.
#[derive(Debug)]
struct Watched {
    name: Name,
    keys: BTreeSet<(Tags, i64)>,
    touched: bool,
}

impl Model {
    /// Notes from now on whether one of these rows is written or deleted.
    pub fn watch(&mut self, name: &Name, keys: BTreeSet<(Tags, i64)>) {
        self.watched = Some(Watched {
            name: name.clone(),
            keys,
            touched: false,
        });
    }

    /// Whether a row that was watched was written or deleted; nothing is watched any more.
    pub fn touched(&mut self) -> bool {
        self.watched.take().is_some_and(|watched| watched.touched)
    }

    /// What every read must show.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A body is about to be sent.
    pub fn mention(&mut self, database: &str, lines: &[Line]) {
        self.mentioned.body(database, lines);
    }

    /// What became of the batch with this key, if anything did.
    pub fn fate(&self, key: u8) -> Option<&Fate> {
        self.fates.get(&key)
    }

    /// A batch with a key was acknowledged under this LSN.
    pub fn acknowledge_key(&mut self, key: u8, rows: u64, lsn: u64) {
        let lsn = Some(lsn);
        self.fates.insert(key, Fate::Taken { rows, lsn });
    }

    /// An operation was acknowledged.
    pub fn acknowledge(&mut self, op: &Op) {
        if let Op::Change {
            database, change, ..
        } = op
        {
            self.mentioned.follow(database, change);
        }
        if let Op::Place(change) = op {
            self.mentioned.follow_place(change);
        }
        if let Some(watched) = &mut self.watched {
            watched.touched |= op.touches(&watched.name, &watched.keys);
        }
        self.state.apply(op);
    }

    /// An operation may survive or not; the next restart tells. It must not be seen before.
    pub fn doubt(&mut self, op: Op) {
        if let Op::Change {
            database,
            change: Change::CreateTable { table, .. } | Change::RenameTable { to: table, .. },
            ..
        } = &op
        {
            self.mentioned.table(&(database.clone(), table.clone()));
        }
        if let Op::Place(change) = &op {
            self.mentioned.copy_place(change);
        }
        self.in_doubt.push(op);
    }

    /// Settles what was in doubt by the first read of a new life: the log is a prefix, so an operation may be there
    /// only if all before it are. From here on the answer stands.
    /// Retention may have taken what was old at `now_ns`.
    pub fn settle(&mut self, found: &Found, now_ns: i64) -> Result<(), String> {
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let mut candidate = self.state.clone();
        let mut first_misfit = None;
        // The states that fit, by how many operations they have; with more than one, no read can tell them apart.
        let mut fitting: Option<(State, usize, usize)> = None;
        for applied in 0..=in_doubt.len() {
            if let Some(op) = applied.checked_sub(1).and_then(|at| in_doubt.get(at)) {
                candidate.apply(op);
            }
            let mut left = candidate.clone();
            left.expire(found, now_ns);
            match (left.check(found, &self.mentioned), &mut fitting) {
                (Ok(()), None) => fitting = Some((left, applied, applied)),
                (Ok(()), Some((state, _, last))) => {
                    // The later one: what it knows more of names and types holds in both.
                    *state = left;
                    *last = applied;
                }
                (Err(what), _) => {
                    first_misfit.get_or_insert(what);
                }
            }
        }
        let Some((state, first, last)) = fitting else {
            return Err(first_misfit.unwrap_or_default());
        };
        self.state = state;
        for (at, op) in in_doubt.iter().enumerate() {
            let Some((key, rows)) = op.key() else {
                continue;
            };
            if at < first {
                self.fates.insert(key, Fate::Taken { rows, lsn: None });
            } else if at < last {
                self.fates.insert(key, Fate::Open { rows });
            }
        }
        Ok(())
    }

    /// Notes what retention has taken, which believed that it is `now_ns` at the latest.
    pub fn expire(&mut self, found: &Found, now_ns: i64) {
        self.state.expire(found, now_ns);
    }

    /// Compares a read with what must be there.
    pub fn check(&self, found: &Found) -> Result<(), String> {
        self.state.check(found, &self.mentioned)
    }

    /// What is known at this time, to be compared with later.
    pub fn moment(&self) -> Moment {
        Moment {
            state: self.state.clone(),
            mentioned: self.mentioned.clone(),
        }
    }
}

impl Moment {
    /// Compares a read with what was there at the time.
    pub fn check(&self, found: &Found) -> Result<(), String> {
        self.state.check(found, &self.mentioned)
    }
}

/// The part of a table that a probe asks for: its rows, each with the one field if it has it.
pub fn probed(table: &Table, probe: &Probe) -> Table {
    let (from, to) = probe.time;
    let one_field = |row: &Fields| -> Fields {
        let field = row.get_key_value(&probe.field);
        field
            .map(|(name, value)| (name.clone(), value.clone()))
            .into_iter()
            .collect()
    };
    table
        .iter()
        .filter(|((tags, time), _)| (from..=to).contains(time) && all_keep(&probe.tags, tags))
        .map(|(key, rows)| (key.clone(), rows.iter().map(one_field).collect()))
        .collect()
}
