//! Columns of typed rows that say whether they are tags or fields.
//!
//! A tag and a field of a table may share a name, and by its name alone a column is the one that the table shows under it.
//! Does: find the column that is meant. Does not: decide what a column without a word is to be (`missing.rs` does).

use std::collections::HashMap;

use arrow_schema::Field;

use crate::schema::{ColumnDef, TableSchema};

/// The key in the metadata of an Arrow field.
const KEY: &str = "nilometer:column";

/// What a column of typed rows says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stated {
    /// The tag of its name.
    Tag,
    /// The field of its name.
    Field,
}

impl Stated {
    /// The column with this said of it.
    pub fn said_of(self, column: Field) -> Field {
        let word = match self {
            Self::Tag => "tag",
            Self::Field => "field",
        };
        column.with_metadata(HashMap::from([(KEY.to_owned(), word.to_owned())]))
    }

    /// What a column says; `None` = nothing.
    pub(super) fn of(column: &Field) -> Option<Self> {
        match column.metadata().get(KEY)?.as_str() {
            "tag" => Some(Self::Tag),
            "field" => Some(Self::Field),
            _ => None,
        }
    }
}

/// The tag or field of a table that a column of rows is.
pub(super) fn meant<'a>(table: &'a TableSchema, column: &Field) -> Option<&'a ColumnDef> {
    match Stated::of(column) {
        Some(Stated::Tag) => table.tag(column.name()),
        Some(Stated::Field) => table.field(column.name()),
        None => table.shown(column.name()),
    }
}

/// Whether two columns of the same rows are one and the same.
pub(super) fn is_same(one: &Field, other: &Field) -> bool {
    let (said, other_said) = (Stated::of(one), Stated::of(other));
    let are_apart = said.is_some() && other_said.is_some() && said != other_said;
    one.name() == other.name() && !are_apart
}
