//! Model of relations and their rows.

use std::collections::BTreeMap;

use super::found::Found;
use super::names::Name;
use super::predict::Batch;
use super::state::{Expected, State};
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, text: Option<&str>, x: f64) -> RelationRow {
        let text = text.map(|text| Value::Text(text.to_owned()));
        let x = Some(Value::Float(x.to_bits()));
        vec![Some(Value::Integer(id)), text, x, None]
    }

    fn after(shape: Shape, steps: &[RelationStep]) -> (Related, usize) {
        let (related, after) = Relation::new(shape).decide(steps);
        (related, after.rows.len())
    }

    #[test]
    fn a_row_is_in_the_way_of_its_primary_and_unique_keys_but_not_of_absent_ones() {
        use RelationStep::{Delete, Insert, Replace};
        let a = row(1, Some("a"), 1.0);
        let decide = |steps: &[RelationStep]| after(Shape(0), steps).0;
        let second = |row| [Insert(vec![a.clone()]), row];
        assert_eq!(
            decide(&second(Insert(vec![row(1, None, 1.0)]))),
            Related::InTheWay(1)
        );
        assert_eq!(
            decide(&second(Insert(vec![row(2, Some("a"), 1.0)]))),
            Related::InTheWay(1)
        );
        let absent = vec![row(2, None, 1.0), row(3, None, 1.0)];
        assert_eq!(
            after(Shape(0), &second(Insert(absent))),
            (Related::Taken, 3)
        );
        // A row that goes makes room, for its own key and for its unique one.
        assert_eq!(
            decide(&second(Replace(vec![row(1, Some("a"), 2.0)]))),
            Related::Taken
        );
        assert_eq!(
            decide(&second(Replace(vec![row(2, Some("a"), 2.0)]))),
            Related::InTheWay(1)
        );
        let gone = [
            Insert(vec![a.clone()]),
            Delete(vec![row(1, None, 0.0)]),
            Insert(vec![row(2, Some("a"), 1.0)]),
        ];
        assert_eq!(after(Shape(0), &gone), (Related::Taken, 1));
    }

    #[test]
    fn floats_are_one_key_if_they_are_one_number() {
        let insert = |a, b| [RelationStep::Insert(vec![row(1, None, a), row(1, None, b)])];
        let decide = |a, b| after(Shape(3), &insert(a, b)).0;
        assert_eq!(decide(0.0, -0.0), Related::InTheWay(2));
        assert_eq!(decide(f64::NAN, -f64::NAN), Related::InTheWay(2));
        assert_eq!(decide(1.0, 2.0), Related::Taken);
        let no_key = vec![Some(Value::Integer(1)), None, None, None];
        let steps = [RelationStep::Delete(vec![row(1, None, 1.0), no_key])];
        assert_eq!(after(Shape(3), &steps).0, Related::Null(2));
    }
}
