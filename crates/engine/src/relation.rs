//! Relations: tables without time, kept in memory in versions. Files: `docs/format/relations.md`.
//!
//! Does: say what a relation is and what may happen to it, and turn that into bytes and back. Does not: know the log,
//! the disk or who may write.
//!
//! A row is found by its primary key. A change is part of a batch and has its LSN: it is visible with the rows of
//! time-series tables in that batch, or not at all.

mod bytes;
mod file;
pub(crate) mod hostile;
mod own;
mod pins;
mod reader;
mod set;
mod value;
mod versions;

use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::batch::Column;
use crate::declared::{Declarations, Declared, ROW_NUMBER};
use crate::error::Malformed;
use crate::logical::LogicalType;
use crate::schema::{Lsn, SchemaId};

pub(crate) use bytes::{ROWS_MAX, decode_changes, encode_changes};
pub(crate) use file::{KIND as FILE_KIND, read, write};
pub(crate) use own::{OwnRelation, OwnRelations};
pub(crate) use pins::{Pin, Pins};
pub use reader::{RelationBatches, RelationReader};
pub(crate) use set::{RelationCheckpoint, Relations};
pub use value::Value;

/// A relation: the LSN of the batch that made it, so that no two ever have one id and no counter has to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(pub Lsn);

/// A column of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: PhysicalType,
    /// Whether a row may have no value here.
    pub nullable: bool,
}

impl RelationColumn {
    /// The one that numbers the rows of a relation without a key.
    pub(crate) fn numbers() -> Self {
        Self {
            name: ROW_NUMBER.to_owned(),
            kind: PhysicalType::I64,
            nullable: false,
        }
    }
}

/// What a relation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationSchema {
    /// Its id.
    pub id: RelationId,
    /// The schema it is in.
    pub schema: SchemaId,
    /// Its name; no table of the schema has it too.
    pub name: String,
    /// Its columns; a row has a value or null for each, in this order.
    pub columns: Vec<RelationColumn>,
    /// Positions of the columns that tell a row from all others; never null.
    pub primary_key: Vec<u32>,
    /// More sets of positions whose values no two rows share; a row with a null in one shares it with nobody.
    pub unique: Vec<Vec<u32>>,
    /// What was said of it and its columns beside that; `None` = nothing.
    pub declared: Option<Arc<Declarations>>,
}

impl RelationSchema {
    /// What was said of a column beside its name, its stored type and whether it may be null.
    pub fn declared_column(&self, at: usize) -> Option<&Declared> {
        self.declared.as_ref()?.columns.get(at)
    }

    /// The logical type of a column; `None` = the stored one.
    pub fn of(&self, at: usize) -> Option<LogicalType> {
        self.declared_column(at)?.of
    }

    /// The place of the number that tells its rows apart, where no key does: the last column, which nobody is shown.
    pub fn row_number(&self) -> Option<usize> {
        let numbered = self.declared.as_ref()?.table.row_number.is_some();
        self.columns.len().checked_sub(1).filter(|_| numbered)
    }

    /// The columns that are shown, in their order.
    pub fn named_columns(&self) -> &[RelationColumn] {
        let shown = self.row_number().unwrap_or(self.columns.len());
        self.columns.get(..shown).unwrap_or_default()
    }

    /// The keys that it was made with, each with its number: 0 is the primary one, the others count from 1.
    pub fn keys(&self) -> impl Iterator<Item = (usize, &Vec<u32>)> {
        let all = std::iter::once(&self.primary_key).chain(&self.unique);
        let hidden = usize::from(self.row_number().is_some());
        all.enumerate().skip(hidden)
    }

    /// What a key is called: 0 is the primary one, the others count from 1. One without a name has that which PostgreSQL
    /// would give it.
    pub fn key_name(&self, key: usize) -> String {
        let keys = self.declared.iter().flat_map(|it| &it.table.keys);
        let mut given = keys.filter(|(number, _)| *number as usize == key);
        if let Some((_, name)) = given.next() {
            return name.clone();
        }
        let Some(columns) = key.checked_sub(1).and_then(|at| self.unique.get(at)) else {
            return format!("{}_pkey", self.name);
        };
        let columns = columns
            .iter()
            .filter_map(|&at| self.columns.get(at as usize));
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        format!("{}_{}_key", self.name, names.join("_"))
    }

    /// Gives it a declaration in the place of what it had.
    pub(crate) fn declare(&mut self, declared: Declarations) -> Result<(), Malformed> {
        self.declared = (!declared.is_empty()).then(|| Arc::new(declared));
        self.check_declared()
    }

    /// Whether a declaration fits the columns.
    fn check_declared(&self) -> Result<(), Malformed> {
        let Some(declared) = &self.declared else {
            return Ok(());
        };
        let (said, columns) = (declared.columns.len(), self.columns.len());
        if said != 0 && said != columns {
            let reason = format!("{said} columns are declared of {columns}");
            return Err(Malformed::new(reason));
        }
        for (said, column) in declared.columns.iter().zip(&self.columns) {
            if said.of.is_some_and(|of| of.physical() != column.kind) {
                let reason = format!(
                    "the column \"{}\" is declared as what it is not stored as",
                    column.name
                );
                return Err(Malformed::new(reason));
            }
        }
        let table = &declared.table;
        if table.row_number.is_some() {
            self.check_row_number()?;
        }
        if table.time.is_some() || table.has_empty_tags || table.kept_as.is_some() {
            return Err(Malformed::new(
                "a relation is declared to have a time, tags or another id",
            ));
        }
        Ok(())
    }

    /// Whether the last column can number the rows.
    fn check_row_number(&self) -> Result<(), Malformed> {
        let at = self.columns.len().checked_sub(1);
        let last = at.and_then(|at| u32::try_from(at).ok());
        let is_key = last.is_some_and(|last| self.primary_key == [last]);
        let is_other = |key: &Vec<u32>| last.is_some_and(|last| key.contains(&last));
        let column = self.columns.last();
        let is_number = column.is_some_and(|it| {
            it.name == ROW_NUMBER && it.kind == PhysicalType::I64 && !it.nullable
        });
        if is_key && is_number && !self.unique.iter().any(is_other) {
            return Ok(());
        }
        Err(Malformed::new(
            "rows are numbered in a column that is none for that",
        ))
    }

    /// Whether columns and keys fit together; checked where a relation is made and where one is read.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        for (at, column) in self.columns.iter().enumerate() {
            let earlier = self.columns.iter().take(at);
            if earlier.into_iter().any(|other| other.name == column.name) {
                let reason = format!("two columns are called \"{}\"", column.name);
                return Err(Malformed::new(reason));
            }
        }
        for key in std::iter::once(&self.primary_key).chain(&self.unique) {
            if key.is_empty() {
                return Err(Malformed::new("a key has no column"));
            }
            for (at, position) in key.iter().enumerate() {
                if *position as usize >= self.columns.len() {
                    return Err(Malformed::new("a key names a column that is not there"));
                }
                if key.iter().take(at).any(|other| other == position) {
                    return Err(Malformed::new("a key names a column twice"));
                }
            }
        }
        let nullable = self.primary_key.iter().find_map(|&position| {
            let column = self.columns.get(position as usize)?;
            column.nullable.then_some(&column.name)
        });
        self.check_declared()?;
        match nullable {
            Some(name) => Err(Malformed::new(format!(
                "the column \"{name}\" of the primary key may be null"
            ))),
            None => Ok(()),
        }
    }
}

/// Rows of a relation, or the keys of some.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) rows: usize,
    /// Whole rows: every column of the relation, in its order. Keys: the columns of the primary key, in its order.
    /// The id of each is its position in the relation.
    pub(crate) columns: Vec<Column>,
}

/// Memory of a row beside its values: its counters, its version, its entries in indexes.
const ROW_BYTES: usize = 80;

/// As of this LSN a relation is as it is now, durable or not.
pub(crate) const NEWEST: Lsn = Lsn::MAX - 1;

/// What happens to a relation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// It is made. A batch makes one at most, and its id is 0 until the batch has its LSN.
    Create(RelationSchema),
    /// It is declared as this from here on.
    Declare(RelationId, Arc<Declarations>),
    /// It is gone, with all rows.
    Drop(RelationId),
    /// Rows are added; a row of the same primary key is an error.
    Insert(RelationId, Rows),
    /// Rows are added; a row of the same primary key is replaced as a whole.
    Replace(RelationId, Rows),
    /// The rows with these primary keys are gone; those that are not there do not matter.
    Delete(RelationId, Rows),
}

impl Change {
    /// Memory that it takes when it is applied, roughly; a change that only removes takes none worth counting.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Insert(_, rows) | Self::Replace(_, rows) => {
                let values = rows.columns.len() * size_of::<Value>() + ROW_BYTES;
                let text = rows.columns.iter().map(|it| it.values.bytes());
                rows.rows * values + text.sum::<usize>()
            }
            Self::Create(_) | Self::Declare(..) | Self::Drop(_) | Self::Delete(..) => 0,
        }
    }
}
