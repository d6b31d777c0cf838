//! Names that the model knows, and what it keeps under them.

use std::collections::{BTreeMap, BTreeSet};

use nilometer_codec::PhysicalType;

use crate::plan::{Change, Fields, Line, Tags};

/// Rows of one table by what a reader sees of their series, and time: more than one if the table keeps duplicates, or
/// if a tag that told series apart was dropped.
pub type Table = BTreeMap<(Tags, i64), Vec<Fields>>;
/// A database and a table in it.
pub type Name = (String, String);
/// Types of a database's fields, by table and field name.
pub type Types = BTreeMap<(String, String), PhysicalType>;

/// Names that may exist although nothing acknowledged needs them: a write that failed may have defined them.
#[derive(Debug, Clone, Default)]
pub(super) struct Mentioned {
    pub(super) tables: BTreeSet<Name>,
    /// A tag or not, and the column's name.
    pub(super) columns: BTreeSet<(Name, bool, String)>,
}

impl Mentioned {
    pub(super) fn table(&mut self, name: &Name) {
        self.tables.insert(name.clone());
    }

    pub(super) fn column(&mut self, name: &Name, is_tag: bool, column: &str) {
        self.columns
            .insert((name.clone(), is_tag, column.to_owned()));
    }

    /// Notes what a body names, taken or not.
    pub(super) fn body(&mut self, database: &str, lines: &[Line]) {
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

    pub(super) fn forget_table(&mut self, name: &Name) {
        self.tables.remove(name);
        self.columns.retain(|(table, _, _)| table != name);
    }

    /// Follows a change that was acknowledged.
    pub(super) fn follow(&mut self, database: &str, change: &Change) {
        let name = (database.to_owned(), change.table().to_owned());
        match change {
            Change::CreateTable { .. }
            | Change::ChangeType { .. }
            | Change::SetRetention { .. }
            | Change::SetColdAfter { .. }
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
