//! Relations as plans have them: a few shapes over the same four columns, rows, and what happens to rows.
//!
//! Does: name columns, keys and values. Does not: know what a store answers.

use nilometer_codec::PhysicalType;
use nilometer_engine::{NewRelation, RelationColumn};

use super::Value;

/// A row: a value, or none, for each of [`COLUMNS`].
pub type RelationRow = Vec<Option<Value>>;

/// Names and types of the columns that every relation has.
pub const COLUMNS: [(&str, PhysicalType); 4] = [
    ("id", PhysicalType::I64),
    ("text", PhysicalType::Text),
    ("x", PhysicalType::F64),
    ("n", PhysicalType::I64),
];

/// Which columns are keys, by number; each relation that is made has one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape(pub u8);

/// Shapes that there are.
pub const SHAPES: u8 = 4;

impl Shape {
    /// Positions of the primary key.
    pub fn primary_key(self) -> &'static [usize] {
        match self.0 {
            0..=2 => &[0],
            // A float is a key too, and the order need not be that of the columns.
            _ => &[2, 0],
        }
    }

    /// Positions of each unique key.
    pub fn unique(self) -> &'static [&'static [usize]] {
        match self.0 {
            0 | 3 => &[&[1]],
            1 => &[],
            _ => &[&[1, 3], &[2]],
        }
    }

    /// What the store is asked to make.
    pub fn definition(self) -> NewRelation {
        let name = |at: &usize| COLUMNS.get(*at).map_or("", |column| column.0).to_owned();
        let columns = COLUMNS
            .iter()
            .enumerate()
            .map(|(at, (name, kind))| RelationColumn {
                name: (*name).to_owned(),
                kind: *kind,
                nullable: !self.primary_key().contains(&at),
            });
        NewRelation {
            columns: columns.collect(),
            primary_key: self.primary_key().iter().map(name).collect(),
            unique: self
                .unique()
                .iter()
                .map(|key| key.iter().map(name).collect())
                .collect(),
        }
    }
}

/// What happens to the rows of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelationStep {
    /// Rows come; one whose key is there is in the way.
    Insert(Vec<RelationRow>),
    /// Rows come; those of the same primary keys go.
    Replace(Vec<RelationRow>),
    /// The rows with the primary keys of these go.
    Delete(Vec<RelationRow>),
}

impl RelationStep {
    /// The rows that it names.
    pub fn rows(&self) -> &[RelationRow] {
        match self {
            Self::Insert(rows) | Self::Replace(rows) | Self::Delete(rows) => rows,
        }
    }

    /// The rows that it names.
    pub fn rows_mut(&mut self) -> &mut Vec<RelationRow> {
        match self {
            Self::Insert(rows) | Self::Replace(rows) | Self::Delete(rows) => rows,
        }
    }
}

/// A change of one relation, and points that come with it in one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relate {
    /// Its place.
    pub database: String,
    /// Its name.
    pub relation: String,
    /// What happens, in order.
    pub steps: Vec<RelationStep>,
    /// Points of the same batch.
    pub lines: Vec<super::Line>,
    /// The batch is written at most once under this number.
    pub key: Option<u8>,
}
