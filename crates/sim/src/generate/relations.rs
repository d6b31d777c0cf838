//! Relations: made, dropped, their rows changed.

use rand::RngExt;

use super::{DATABASES, Draw, pick};
use crate::plan::{Act, Relate, RelationRow, RelationStep, SHAPES, Shape, Value};

/// Names of relations; no table has one of them.
const RELATIONS: [&str; 2] = ["hosts", "units"];
/// Bytes of a text that few of fit a small budget.
const LONG_TEXT_BYTES: std::ops::Range<usize> = 400_000..900_000;

impl Draw {
    pub(super) fn relation_act(&mut self) -> Act {
        match self.random.random_range(0..100) {
            0..15 => self.create_relation(),
            15..19 => Act::DropRelation {
                database: self.database(),
                relation: self.relation(),
            },
            _ => Act::Relate(self.relate()),
        }
    }

    /// One of each name, where most of all happens.
    pub(super) fn first_relations(&mut self) -> Vec<Act> {
        RELATIONS
            .iter()
            .map(|relation| Act::CreateRelation {
                database: DATABASES[0].to_owned(),
                relation: (*relation).to_owned(),
                shape: Shape(self.random.random_range(0..SHAPES)),
            })
            .collect()
    }

    pub(super) fn create_relation(&mut self) -> Act {
        Act::CreateRelation {
            database: self.database(),
            relation: self.relation(),
            shape: Shape(self.random.random_range(0..SHAPES)),
        }
    }

    pub(super) fn relation(&mut self) -> String {
        (*pick(&mut self.random, &RELATIONS)).to_owned()
    }

    pub(super) fn relate(&mut self) -> Relate {
        let count = *pick(&mut self.random, &[1, 1, 1, 2, 3]);
        let steps = (0..count).map(|_| self.relation_step()).collect();
        let lines = if self.random.random_bool(0.3) {
            let lines = self.random.random_range(1..=5);
            (0..lines).map(|_| self.line_of_any_table()).collect()
        } else {
            Vec::new()
        };
        let key = self.random.random_bool(0.15).then_some(self.next_key);
        self.next_key = self.next_key.wrapping_add(u8::from(key.is_some()));
        Relate {
            database: self.database(),
            relation: self.relation(),
            steps,
            lines,
            key,
        }
    }

    /// A change of the same relation by somebody else, with rows that are likely in the way.
    pub(super) fn relate_too(&mut self, first: &Relate) -> Relate {
        let mut steps: Vec<RelationStep> = first.steps.clone();
        for step in &mut steps {
            let again = self.relation_rows(step.rows().len());
            for (row, other) in step.rows_mut().iter_mut().zip(again) {
                // The same key, and something else beside it.
                for (value, other) in row.iter_mut().zip(other).skip(1) {
                    if self.random.random_bool(0.4) {
                        *value = other;
                    }
                }
            }
        }
        Relate {
            database: first.database.clone(),
            relation: first.relation.clone(),
            steps,
            lines: Vec::new(),
            key: None,
        }
    }

    fn relation_step(&mut self) -> RelationStep {
        let count = *pick(&mut self.random, &[1, 1, 2, 4]);
        match self.random.random_range(0..10) {
            0..4 => RelationStep::Insert(self.relation_rows(count)),
            4..8 => RelationStep::Replace(self.relation_rows(count)),
            _ => RelationStep::Delete(self.relation_rows(count)),
        }
    }

    fn relation_rows(&mut self, count: usize) -> Vec<RelationRow> {
        (0..count).map(|_| self.relation_row()).collect()
    }

    /// Few enough values that rows meet.
    fn relation_row(&mut self) -> RelationRow {
        let random = &mut self.random;
        let id = (!random.random_bool(0.01)).then(|| random.random_range(0..10));
        let n = (!random.random_bool(0.2)).then(|| random.random_range(0..4));
        let floats = [0.0, -0.0, 1.5, f64::NAN, -1e300, 2.5, 7.0];
        let x = (!random.random_bool(0.1)).then(|| pick(random, &floats).to_bits());
        let text = (!random.random_bool(0.3)).then(|| format!("t{}", random.random_range(0..12)));
        let text = if self.is_little && self.random.random_bool(0.35) {
            let bytes = self.random.random_range(LONG_TEXT_BYTES);
            Some(self.text(bytes))
        } else {
            text
        };
        vec![
            id.map(Value::Integer),
            text.map(Value::Text),
            x.map(Value::Float),
            n.map(Value::Integer),
        ]
    }
}
