//! Everything as it was read from a store.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Name, Table};
use super::relation::Relation;
use super::state::Schema;

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
