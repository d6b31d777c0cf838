//! Prediction of what the store takes of a body.

use nilometer_codec::PhysicalType;

use super::names::Types;
use crate::plan::{Line, Tags, Value};

/// The points of a body that the store takes.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(super) database: String,
    pub(super) points: Vec<Point>,
    /// The key that it is sent under.
    pub key: Option<u8>,
}

/// A row to be.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its table.
    pub table: String,
    /// Its tags.
    pub tags: Tags,
    /// Its time.
    pub time: i64,
    /// Its fields.
    pub fields: Vec<(String, Value)>,
}

impl Batch {
    /// No points.
    pub(super) fn new(database: &str) -> Self {
        Self {
            database: database.to_owned(),
            points: Vec::new(),
            key: None,
        }
    }

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

/// The type of a field that holds a value.
pub(crate) fn type_of(value: &Value) -> PhysicalType {
    match value {
        Value::Float(_) => PhysicalType::F64,
        Value::Integer(_) => PhysicalType::I64,
        Value::Unsigned(_) => PhysicalType::U64,
        Value::Boolean(_) => PhysicalType::Bool,
        Value::Text(_) => PhysicalType::Text,
    }
}

/// What the store makes of a body at this time, given the types that its fields have. A field keeps the type that it is first
/// taken with; a line that is refused gives none.
pub fn predict(database: &str, lines: &[Line], mut types: Types, now_ns: i64) -> Prediction {
    let mut batch = Batch::new(database);
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
        let mut new = Types::new();
        let fits = fields.iter().all(|(name, value)| {
            let (wanted, field) = (type_of(value), (table.clone(), name.clone()));
            let known = types.get(&field).copied();
            let known = known.unwrap_or_else(|| *new.entry(field).or_insert(wanted));
            known == wanted
        });
        if fits {
            types.extend(new);
            batch.points.push(Point {
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
