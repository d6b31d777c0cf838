//! What relations are and what becomes of their rows.

use std::collections::BTreeMap;

use super::predict::Batch;
use super::state::{Expected, State};
use super::{Found, Name};
use crate::plan::{RelationRow, RelationStep, Shape, Value};

/// Values of a key, as they are compared.
pub type Key = Vec<Value>;

/// A relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its keys.
    pub shape: Shape,
    /// Its rows by their primary keys.
    pub rows: BTreeMap<Key, RelationRow>,
}

/// What becomes of a change of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Related {
    /// This row, counted from 1 in its step, has no value where it must have one.
    Null(usize),
    /// This row has a key that another has.
    InTheWay(usize),
    /// All of it is done.
    Taken,
}

/// Changes of a relation and the points of their batch.
#[derive(Debug, Clone)]
pub struct RelateOp {
    /// The relation.
    pub name: Name,
    /// What happens to its rows.
    pub steps: Vec<RelationStep>,
    /// Points, and the key that all of it is sent under.
    pub batch: Batch,
}

impl Relation {
    /// One without rows.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            rows: BTreeMap::new(),
        }
    }

    /// A row's values in the columns of a key; `None` = one is absent, so it is nobody's key.
    pub fn key(columns: &[usize], row: &RelationRow) -> Option<Key> {
        let value = |at: &usize| row.get(*at).cloned().flatten().map(as_key);
        columns.iter().map(value).collect()
    }

    fn decide(&self, steps: &[RelationStep]) -> (Related, Self) {
        let mut after = self.clone();
        let primary = self.shape.primary_key();
        for step in steps {
            let no_key = |row: &RelationRow| Self::key(primary, row).is_none();
            if let Some(at) = step.rows().iter().position(no_key) {
                return (Related::Null(at + 1), after);
            }
        }
        for step in steps {
            for (at, row) in step.rows().iter().enumerate() {
                let Some(key) = Self::key(primary, row) else {
                    continue;
                };
                if !matches!(step, RelationStep::Insert(_)) {
                    after.rows.remove(&key);
                }
                if matches!(step, RelationStep::Delete(_)) {
                    continue;
                }
                if after.rows.contains_key(&key) || after.shares_a_unique_key(row) {
                    return (Related::InTheWay(at + 1), after);
                }
                after.rows.insert(key, row.clone());
            }
        }
        (Related::Taken, after)
    }

    fn shares_a_unique_key(&self, row: &RelationRow) -> bool {
        self.shape.unique().iter().any(|columns| {
            let own = Self::key(columns, row);
            let mut others = self.rows.values();
            own.is_some() && others.any(|other| Self::key(columns, other) == own)
        })
    }
}

/// Floats are one key if they are one number, or if neither is one.
fn as_key(value: Value) -> Value {
    match value {
        Value::Float(bits) if f64::from_bits(bits).is_nan() => Value::Float(f64::NAN.to_bits()),
        Value::Float(bits) if f64::from_bits(bits) == 0.0 => Value::Float(0.0_f64.to_bits()),
        other => other,
    }
}

impl State {
    /// A relation by its name.
    pub fn relation(&self, name: &Name) -> Option<&Relation> {
        self.relations.get(name)
    }

    /// What the store must answer when a relation is to be made.
    pub fn expect_relation(&self, name: &Name, shape: Shape) -> Expected {
        if !self.places.contains(&name.0) {
            return Expected::NotFound;
        }
        match self.relations.get(name) {
            None => Expected::Done,
            Some(known) if known.shape == shape => Expected::Nothing,
            Some(_) => Expected::ExistsAlready,
        }
    }

    /// What becomes of a change; `None` = there is no such relation.
    pub fn related(&self, name: &Name, steps: &[RelationStep]) -> Option<Related> {
        Some(self.relations.get(name)?.decide(steps).0)
    }

    /// Does a change as a whole, unless something is in its way.
    pub(super) fn relate(&mut self, op: &RelateOp) {
        let Some(relation) = self.relations.get_mut(&op.name) else {
            return;
        };
        if let (Related::Taken, after) = relation.decide(&op.steps) {
            *relation = after;
            self.write(&op.batch);
        }
    }

    pub(super) fn check_relations(&self, found: &Found) -> Result<(), String> {
        for (name, relation) in &self.relations {
            let told = |what: &str| Err(format!("relation {}.{}: {what}", name.0, name.1));
            let Some(shown) = found.relations.get(name) else {
                return told("it is missing");
            };
            if shown.shape != relation.shape {
                return told("it has other keys");
            }
            let keys = relation.rows.keys().chain(shown.rows.keys());
            for key in keys {
                let (want, got) = (relation.rows.get(key), shown.rows.get(key));
                if want != got {
                    return told(&format!("row {key:?} is {got:?} instead of {want:?}"));
                }
            }
        }
        let mut names = found.relations.keys();
        match names.find(|name| !self.relations.contains_key(*name)) {
            Some(name) => Err(format!("relation {}.{} came from nowhere", name.0, name.1)),
            None => Ok(()),
        }
    }
}
