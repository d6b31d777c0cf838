//! What the store must hold, in plain maps.
//!
//! Does: keep what was acknowledged, keep apart what a failure left open, and settle that by what the first read after
//! a restart shows. Does not: call the store or the disk.
//! Next: `state.rs` for what one operation does to the rows, `predict.rs` for what the store takes of a body.

mod convert;
mod difference;
mod held;
mod loss;
mod place;
mod predict;
mod relation;
mod state;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::{BTreeMap, BTreeSet};

use nilometer_codec::PhysicalType;

use crate::plan::{Change, Fields, Line, Probe, Tags, all_keep};

pub use difference::difference;
pub use loss::Lost;
pub(crate) use predict::type_of;
pub use predict::{Batch, Point, Prediction, predict};
pub use relation::{Key, RelateOp, Related, Relation};
pub use state::{Expected, Op, Schema, State, same_rows};
pub use typed::{Decided, Place};

/// Rows of one table by what a reader sees of their series, and time: more than one if the table keeps duplicates, or
/// if a tag that told series apart was dropped.
pub type Table = BTreeMap<(Tags, i64), Vec<Fields>>;
/// A database and a table in it.
pub type Name = (String, String);
/// Types of a database's fields, by table and field name.
pub type Types = BTreeMap<(String, String), PhysicalType>;

/// A table as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTable {
    /// Its settings and columns.
    pub schema: Schema,
    /// Its rows.
    pub rows: Table,
    /// Rows of one series that were not together or not ascending.
    pub disorder: Option<String>,
}

/// Everything as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Databases and schemas.
    pub places: BTreeSet<String>,
    /// All tables.
    pub tables: BTreeMap<Name, FoundTable>,
    /// All relations.
    pub relations: BTreeMap<Name, Relation>,
}

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

/// Names that may exist although nothing acknowledged needs them: a write that failed may have defined them.
#[derive(Debug, Clone, Default)]
struct Mentioned {
    tables: BTreeSet<Name>,
    /// A tag or not, and the column's name.
    columns: BTreeSet<(Name, bool, String)>,
}

impl Mentioned {
    fn table(&mut self, name: &Name) {
        self.tables.insert(name.clone());
    }

    fn column(&mut self, name: &Name, is_tag: bool, column: &str) {
        self.columns
            .insert((name.clone(), is_tag, column.to_owned()));
    }

    /// Notes what a body names, taken or not.
    fn body(&mut self, database: &str, lines: &[Line]) {
        for line in lines {
            match line {
                Line::Point {
                    table,
                    tags,
                    fields,
                    ..
                } => {
                    let name = (database.to_owned(), table.clone());
                    self.table(&name);
                    for tag in tags.keys() {
                        self.column(&name, true, tag);
                    }
                    for (field, _) in fields {
                        self.column(&name, false, field);
                    }
                }
                Line::Bad(text) => {
                    // What comes before the mistake may have been taken in.
                    let table = text.split([',', ' ']).next().unwrap_or_default();
                    let name = (database.to_owned(), table.to_owned());
                    self.table(&name);
                    self.column(&name, true, "host");
                    self.column(&name, false, "busy");
                }
            }
        }
    }

    fn forget_table(&mut self, name: &Name) {
        self.tables.remove(name);
        self.columns.retain(|(table, _, _)| table != name);
    }

    /// Follows a change that was acknowledged.
    fn follow(&mut self, database: &str, change: &Change) {
        let name = (database.to_owned(), change.table().to_owned());
        match change {
            Change::CreateTable { .. }
            | Change::ChangeType { .. }
            | Change::SetRetention { .. }
            | Change::SetInterval { .. } => {}
            Change::DropTable { .. } => self.forget_table(&name),
            Change::RenameTable { to, .. } => {
                let new = (database.to_owned(), to.clone());
                let columns = self.columns.iter().filter(|(table, _, _)| *table == name);
                let moved: Vec<_> = columns
                    .map(|(_, is_tag, column)| (new.clone(), *is_tag, column.clone()))
                    .collect();
                self.forget_table(&name);
                self.tables.insert(new);
                self.columns.extend(moved);
            }
            Change::DropColumn { column, .. } | Change::RenameColumn { column, .. } => {
                self.columns
                    .remove(&(name, column.is_tag, column.name.clone()));
            }
        }
    }
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
