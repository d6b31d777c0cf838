//! The columns of an import's tables, decided for all files before the first row is sent.
//!
//! Does: let a table that is there count before any file, and the wider type of two files before the narrower one. Does
//! not: look at files; their own decisions come in from `columns.rs` and `parquet.rs`.

use std::collections::BTreeMap;

use anyhow::bail;
use arrow::datatypes::{DataType, Schema};
use nilometer_engine::TIME_COLUMN;

use crate::lines::{FieldType, Role, kind_of};

/// Columns of tables by name; the time is none of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    tables: BTreeMap<String, BTreeMap<String, Planned>>,
}

#[derive(Debug, Clone, Copy)]
struct Planned {
    role: Role,
    /// The user has said so.
    is_wished: bool,
}

impl Plan {
    /// Adds a column of a file, as the file by itself would have it.
    pub(super) fn add(&mut self, table: &str, column: &str, role: Role, is_wished: bool) {
        if role == Role::Time {
            return;
        }
        let columns = self.tables.entry(table.to_owned()).or_default();
        let new = Planned { role, is_wished };
        let planned = columns.entry(column.to_owned()).or_insert(new);
        planned.role = wider(planned.role, role);
        planned.is_wished |= is_wished;
    }

    /// What a column becomes, if that is decided.
    pub(super) fn role(&self, table: &str, column: &str) -> Option<Role> {
        let planned = self.tables.get(table)?.get(column)?;
        Some(planned.role)
    }

    /// The tables that rows will go to.
    pub(super) fn tables(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    /// Follows a table that is there; says for which columns that changes something.
    pub(super) fn follow(&mut self, table: &str, there: &Schema) -> anyhow::Result<Vec<String>> {
        let columns = self.tables.entry(table.to_owned()).or_default();
        let mut notes = Vec::new();
        for known in there.fields() {
            let name = known.name();
            let role = match known.data_type() {
                _ if name == TIME_COLUMN => continue,
                DataType::Dictionary(..) => Role::Tag,
                kind => match kind_of(kind) {
                    Some(kind) => Role::Field(kind),
                    None => continue,
                },
            };
            let before = columns.insert(
                name.clone(),
                Planned {
                    role,
                    is_wished: false,
                },
            );
            match before {
                Some(planned) if planned.role != role && planned.is_wished => bail!(
                    "table {table} has \"{name}\" as {} already, and the command line says {}; leave that out, or import into another --table",
                    said(role),
                    said(planned.role)
                ),
                Some(planned) if planned.role != role => notes.push(format!(
                    "table {table} has \"{name}\" as {} already, so it is read as that",
                    said(role)
                )),
                _ => {}
            }
        }
        Ok(notes)
    }
}

fn said(role: Role) -> String {
    match role {
        Role::Time => "the time".to_owned(),
        Role::Tag => "a tag".to_owned(),
        Role::Field(kind) => format!("a field of type {}", kind.name()),
    }
}

/// What has the values of both.
fn wider(a: Role, b: Role) -> Role {
    match (a, b) {
        (a, b) if a == b => a,
        // Text that repeats in one file only is still what rows are told apart by there.
        (Role::Tag, _) | (_, Role::Tag) => Role::Tag,
        (Role::Field(a), Role::Field(b)) => Role::Field(wider_kind(a, b)),
        (Role::Time, other) | (other, Role::Time) => other,
    }
}

fn wider_kind(a: FieldType, b: FieldType) -> FieldType {
    use FieldType::{Float, Integer, Unsigned};
    match (a, b) {
        (Integer, Unsigned) | (Unsigned, Integer) => Integer,
        (Float | Integer | Unsigned, Float | Integer | Unsigned) => Float,
        _ => FieldType::Text,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn two_files_of_one_table_agree_on_the_wider_type() {
        let field = Role::Field;
        for (a, b, want) in [
            (
                field(FieldType::Integer),
                field(FieldType::Float),
                field(FieldType::Float),
            ),
            (
                field(FieldType::Integer),
                field(FieldType::Unsigned),
                field(FieldType::Integer),
            ),
            (
                field(FieldType::Float),
                field(FieldType::Text),
                field(FieldType::Text),
            ),
            (
                field(FieldType::Boolean),
                field(FieldType::Integer),
                field(FieldType::Text),
            ),
            (field(FieldType::Text), Role::Tag, Role::Tag),
            (
                field(FieldType::Boolean),
                field(FieldType::Boolean),
                field(FieldType::Boolean),
            ),
        ] {
            for (first, second) in [(a, b), (b, a)] {
                let mut plan = Plan::default();
                plan.add("t", "c", first, false);
                plan.add("t", "c", second, false);
                plan.add("u", "c", field(FieldType::Text), false);
                assert_eq!(plan.role("t", "c"), Some(want), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn a_table_that_is_there_counts_and_the_user_is_told() {
        let tag = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let there = Schema::new(vec![
            Field::new("time", DataType::Int64, false),
            Field::new("host", tag, true),
            Field::new("v", DataType::Float64, true),
        ]);
        let mut plan = Plan::default();
        plan.add("t", "v", Role::Field(FieldType::Integer), false);
        plan.add("t", "host", Role::Tag, true);
        plan.add("t", "new", Role::Field(FieldType::Text), false);
        let notes = plan.follow("t", &there).unwrap();
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].contains("\"v\" as a field of type float"),
            "{notes:?}"
        );
        assert_eq!(plan.role("t", "v"), Some(Role::Field(FieldType::Float)));
        assert_eq!(plan.role("t", "new"), Some(Role::Field(FieldType::Text)));
        assert_eq!(plan.role("t", "time"), None);
        let mut plan = Plan::default();
        plan.add("t", "host", Role::Field(FieldType::Text), true);
        let error = plan.follow("t", &there).unwrap_err().to_string();
        assert!(
            error.contains("--table") && error.contains("a tag"),
            "{error}"
        );
    }
}
