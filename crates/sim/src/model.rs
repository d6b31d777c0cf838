//! What the store must hold, in plain maps.
//!
//! Does: say which lines of a body the store takes, merge acknowledged batches, keep batches whose fate is open apart
//! and settle them by what the first read after a restart shows. Does not: call the store or the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use nilometer_codec::PhysicalType;

use crate::plan::{Fields, Line, Probe, Tags, Value};

/// Rows of one table by series and time.
pub type Table = BTreeMap<(Tags, i64), Fields>;
/// Tables that have rows, by database and name.
pub type Rows = BTreeMap<(String, String), Table>;
/// Types of a database's fields, by table and field name.
pub type Types = BTreeMap<(String, String), PhysicalType>;

/// The points of a body that the store takes.
#[derive(Debug, Clone)]
pub struct Batch {
    database: String,
    points: Vec<Taken>,
}

#[derive(Debug, Clone)]
struct Taken {
    table: String,
    tags: Tags,
    time: i64,
    fields: Vec<(String, Value)>,
}

impl Batch {
    /// Rows, duplicates counted each.
    pub fn rows(&self) -> u64 {
        self.points.len() as u64
    }
}

/// What becomes of a body.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// What is taken.
    pub batch: Batch,
    /// Numbers of the lines that are not, counted from 1.
    pub rejected: Vec<usize>,
}

fn type_of(value: &Value) -> PhysicalType {
    match value {
        Value::Float(_) => PhysicalType::F64,
        Value::Integer(_) => PhysicalType::I64,
        Value::Unsigned(_) => PhysicalType::U64,
        Value::Boolean(_) => PhysicalType::Bool,
        Value::Text(_) => PhysicalType::Text,
    }
}

/// What the store makes of a body at this time, given the types that its fields have. A field keeps the type that it
/// is first seen with, even if the line that brought it is refused for a later field.
pub fn predict(database: &str, lines: &[Line], mut types: Types, now_ns: i64) -> Prediction {
    let mut batch = Batch {
        database: database.to_owned(),
        points: Vec::new(),
    };
    let mut rejected = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Line::Point {
            table,
            tags,
            fields,
            time,
        } = line
        else {
            rejected.push(at + 1);
            continue;
        };
        let fits = fields.iter().all(|(name, value)| {
            let wanted = type_of(value);
            let known = types.entry((table.clone(), name.clone())).or_insert(wanted);
            *known == wanted
        });
        if fits {
            batch.points.push(Taken {
                table: table.clone(),
                tags: tags.clone(),
                time: time.unwrap_or(now_ns),
                fields: fields.clone(),
            });
        } else {
            rejected.push(at + 1);
        }
    }
    Prediction { batch, rejected }
}

fn apply(rows: &mut Rows, batch: &Batch) {
    for point in &batch.points {
        let table = (batch.database.clone(), point.table.clone());
        let row = rows
            .entry(table)
            .or_default()
            .entry((point.tags.clone(), point.time))
            .or_default();
        for (name, value) in &point.fields {
            row.insert(name.clone(), value.clone());
        }
    }
}

/// What is known of the store's contents.
#[derive(Debug, Default)]
pub struct Model {
    databases: BTreeSet<String>,
    rows: Rows,
    in_doubt: Vec<Batch>,
}

impl Model {
    /// Rows that every read must show, and no others.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Databases that must exist.
    pub fn databases(&self) -> &BTreeSet<String> {
        &self.databases
    }

    /// A database was acknowledged.
    pub fn acknowledge_database(&mut self, name: &str) {
        self.databases.insert(name.to_owned());
    }

    /// A batch was acknowledged.
    pub fn acknowledge(&mut self, batch: &Batch) {
        apply(&mut self.rows, batch);
    }

    /// A batch may survive or not; the next restart tells. It must not be seen before.
    pub fn doubt(&mut self, batch: Batch) {
        self.in_doubt.push(batch);
    }

    /// Settles what was in doubt by the first read of a new life: the log is a prefix, so a batch may be there only
    /// if all before it are. From here on the answer stands.
    pub fn settle(&mut self, found: &Rows) -> Result<(), String> {
        let mut candidate = self.rows.clone();
        let mut in_doubt = std::mem::take(&mut self.in_doubt).into_iter();
        loop {
            if candidate == *found {
                self.rows = candidate;
                return Ok(());
            }
            match in_doubt.next() {
                Some(batch) => apply(&mut candidate, &batch),
                None => break,
            }
        }
        Err(difference(&self.rows, found))
    }

    /// Compares a read with what must be there.
    pub fn check(&self, found: &Rows) -> Result<(), String> {
        if self.rows == *found {
            return Ok(());
        }
        Err(difference(&self.rows, found))
    }
}

/// The part of a table that a probe asks for: its rows, each with the one field if it has it.
pub fn probed(table: &Table, probe: &Probe) -> Table {
    let (from, to) = probe.time;
    let (tag, values, negated) = &probe.tag;
    table
        .iter()
        .filter(|((tags, time), _)| {
            let value = tags.get(tag).cloned();
            (from..=to).contains(time) && values.contains(&value) != *negated
        })
        .map(|(key, fields)| {
            let field = fields.get_key_value(&probe.field);
            let kept = field.map(|(name, value)| (name.clone(), value.clone()));
            (key.clone(), kept.into_iter().collect())
        })
        .collect()
}

/// Rows of a difference that are shown.
const SHOWN_MAX: usize = 4;

/// Says in a few lines where two states differ.
pub fn difference(expected: &Rows, found: &Rows) -> String {
    let mut out = String::from("the rows differ:");
    let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let empty = Table::new();
    for name in names {
        let want = expected.get(name).unwrap_or(&empty);
        let got = found.get(name).unwrap_or(&empty);
        if want != got {
            describe_table(name, want, got, &mut out);
        }
    }
    out
}

fn describe_table(name: &(String, String), want: &Table, got: &Table, out: &mut String) {
    let keys: BTreeSet<_> = want.keys().chain(got.keys()).collect();
    let differing: Vec<_> = keys
        .into_iter()
        .filter(|key| want.get(*key) != got.get(*key))
        .collect();
    write!(
        out,
        "\n  {}.{}: {} rows expected, {} found, {} differ",
        name.0,
        name.1,
        want.len(),
        got.len(),
        differing.len()
    )
    .expect("a string takes any text");
    for key in differing.iter().take(SHOWN_MAX) {
        write!(
            out,
            "\n    {key:?}\n      expected {:?}\n      found    {:?}",
            want.get(*key),
            got.get(*key)
        )
        .expect("a string takes any text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(field: &str, value: Value, time: i64) -> Line {
        Line::Point {
            table: "t".to_owned(),
            tags: Tags::new(),
            fields: vec![(field.to_owned(), value)],
            time: Some(time),
        }
    }

    fn taken(lines: &[Line]) -> Batch {
        predict("d", lines, Types::new(), 0).batch
    }

    #[test]
    fn a_newer_value_wins_and_an_absent_one_overwrites_nothing() {
        let mut model = Model::default();
        model.acknowledge(&taken(&[
            line("a", Value::Integer(1), 1),
            line("b", Value::Integer(2), 1),
        ]));
        model.acknowledge(&taken(&[line("a", Value::Integer(3), 1)]));
        let rows: Vec<_> = model.rows().values().flatten().collect();
        let fields = Fields::from([
            ("a".to_owned(), Value::Integer(3)),
            ("b".to_owned(), Value::Integer(2)),
        ]);
        assert_eq!(rows, [(&(Tags::new(), 1), &fields)]);
    }

    #[test]
    fn a_line_of_another_type_is_refused_and_the_others_are_kept() {
        let lines = [
            line("a", Value::Integer(1), 1),
            line("a", Value::Boolean(true), 2),
            Line::Bad("?".to_owned()),
            line("a", Value::Integer(4), 4),
        ];
        let prediction = predict("d", &lines, Types::new(), 0);
        assert_eq!(prediction.rejected, [2, 3]);
        assert_eq!(prediction.batch.rows(), 2);
    }

    #[test]
    fn a_batch_in_doubt_is_there_whole_or_not_at_all_and_in_order() {
        let first = taken(&[
            line("a", Value::Integer(1), 1),
            line("a", Value::Integer(2), 2),
        ]);
        let second = taken(&[line("a", Value::Integer(3), 3)]);
        let state = |batches: &[&Batch]| {
            let mut model = Model::default();
            for batch in batches {
                model.acknowledge(batch);
            }
            model.rows
        };
        let settles = |found: &Rows| {
            let mut model = Model::default();
            model.doubt(first.clone());
            model.doubt(second.clone());
            model.settle(found).is_ok()
        };
        assert!(settles(&Rows::new()));
        assert!(settles(&state(&[&first])));
        assert!(settles(&state(&[&first, &second])));
        assert!(!settles(&state(&[&second])));
        let half = taken(&[line("a", Value::Integer(1), 1)]);
        assert!(!settles(&state(&[&half])));
    }

    #[test]
    fn a_settled_batch_may_not_change_its_mind() {
        let batch = taken(&[line("a", Value::Integer(1), 1)]);
        let mut model = Model::default();
        model.doubt(batch.clone());
        model.settle(&Rows::new()).unwrap();
        let mut later = Model::default();
        later.acknowledge(&batch);
        assert!(model.settle(later.rows()).is_err());
    }
}
