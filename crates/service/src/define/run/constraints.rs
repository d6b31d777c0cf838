//! ALTER TABLE of a table over time: keys, conditions, defaults.
//!
//! Does: declare them of the table. Does not: look at rows that are there (the language has, and a key needs a table without rows).

use std::sync::Arc;

use nilometer_engine::{Check, DeclaredTable, Duplicates, Engine, TableSchema};

use super::model::unsupported;
use crate::define::change::name::TableName;
use crate::define::change::{NewCheck, TableChange};
use crate::define::error::{DefineError, Part};
use crate::define::hypertables::unique::make_unique;
use crate::define::sequences::{self, Numbered};
use crate::define::{columns, lookup};
use crate::error::Error;
use crate::write::references::REFERENCES;

pub(super) fn alter(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    change: TableChange,
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    let find = |column: &str| {
        lookup::find_column(table, column).map_err(|missing| missing.about(Part::Other))
    };
    match change {
        TableChange::NotNull {
            column,
            is_not_null,
        } => {
            if column == table.time().0 {
                if is_not_null {
                    return Ok(());
                }
                return Err(unsupported(format!(
                    "\"{column}\" is the time of the table, which is never NULL"
                )));
            }
            find(&column)?;
            Ok(
                engine.declare_column(database, schema, of, &column, |said| {
                    said.not_null = is_not_null;
                })?,
            )
        }
        TableChange::Default { column, to, .. } => set_default(engine, name, table, &column, to),
        TableChange::DropIdentity { column, .. } => set_default(engine, name, table, &column, None),
        TableChange::AddKey {
            name: key, columns, ..
        } => {
            let all = Arc::clone(&table.shown_columns().schema);
            for column in &columns {
                if all.index_of(column).is_err() {
                    return Err(lookup::unknown_column(&all, column).about(Part::Other));
                }
            }
            let key = key.unwrap_or_else(|| format!("{of}_pkey"));
            refuse_taken(table, &key)?;
            make_unique(engine, name, table, &key, &columns)
        }
        TableChange::AddCheck(check) => add_check(engine, name, table, check),
        TableChange::DropConstraint {
            name: gone,
            if_exists,
            ..
        } => {
            if key_names(table).contains(&gone) {
                let mut settings = table.settings;
                settings.duplicates = Duplicates::Keep;
                engine.set_table(database, schema, of, settings)?;
                return declare(engine, name, |said| said.keys.clear());
            }
            if has_check(table, &gone) {
                return declare(engine, name, |said| {
                    said.checks.retain(|check| check.name != gone);
                });
            }
            if if_exists {
                return Ok(());
            }
            Err(missing(table, gone))
        }
        TableChange::RenameConstraint { name: from, to } => {
            refuse_taken(table, &to)?;
            if key_names(table).contains(&from) {
                return declare(engine, name, |said| said.keys = vec![(0, to)]);
            }
            if !has_check(table, &from) {
                return Err(missing(table, from));
            }
            declare(engine, name, |said| {
                for check in said.checks.iter_mut().filter(|it| it.name == from) {
                    check.name.clone_from(&to);
                }
            })
        }
        TableChange::Validate { name: check } if !has_check(table, &check) => {
            Err(missing(table, check))
        }
        _ => Ok(()),
    }
}

fn declare(
    engine: &Arc<Engine>,
    name: &TableName,
    change: impl FnOnce(&mut DeclaredTable),
) -> Result<(), Error> {
    Ok(engine.declare_table(&name.database, &name.schema, &name.table, change)?)
}

fn set_default(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    column: &str,
    to: Option<String>,
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    if let Some(numbered) = to.as_deref().and_then(Numbered::of) {
        let within = (database.as_str(), schema.as_str());
        if numbered.sequence.is_empty() {
            return Err(unsupported(
                "a column of a table over time that numbers its rows is made with the table; make a sequence, and SET DEFAULT nextval('...')"
                    .to_owned(),
            ));
        }
        if !columns::is_sequence(&engine.snapshot(), within, &numbered.sequence) {
            return Err(sequences::unknown(&numbered.sequence).about(Part::Other));
        }
    }
    if column == table.time().0 {
        let time = column.to_owned();
        return declare(engine, name, |said| {
            let said = said
                .time
                .get_or_insert_with(|| nilometer_engine::DeclaredTime {
                    name: time,
                    ..nilometer_engine::DeclaredTime::default()
                });
            said.column.default = to;
        });
    }
    lookup::find_column(table, column).map_err(|missing| missing.about(Part::Other))?;
    Ok(engine.declare_column(database, schema, of, column, |said| said.default = to)?)
}

fn add_check(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    check: NewCheck,
) -> Result<(), Error> {
    if check.expression.starts_with(REFERENCES) {
        return Err(unsupported(
            "a foreign key belongs to a table without a time, which is found by a PRIMARY KEY that leaves its times out"
                .to_owned(),
        ));
    }
    let called = if let Some(called) = check.name {
        refuse_taken(table, &called)?;
        called
    } else {
        let column = check.column.map_or_else(String::new, |it| format!("_{it}"));
        let first = format!("{}{column}_check", table.name);
        let more = (1..).map(|n| format!("{first}{n}"));
        let mut all = std::iter::once(first.clone()).chain(more);
        let free = all.find(|name| !has_check(table, name));
        free.unwrap_or_default()
    };
    declare(engine, name, |said| {
        said.checks.push(Check {
            name: called,
            expression: check.expression,
        });
    })
}

/// What the key of a table over time is called; none = rows are not told apart by one.
fn key_names(table: &TableSchema) -> Vec<String> {
    if table.settings.duplicates != Duplicates::Unique {
        return Vec::new();
    }
    let declared = table.declared.iter().flat_map(|it| &it.keys);
    let named: Vec<String> = declared.map(|(_, name)| name.clone()).collect();
    if named.is_empty() {
        return vec![format!("{}_pkey", table.name)];
    }
    named
}

fn has_check(table: &TableSchema, name: &str) -> bool {
    let declared = table.declared.iter();
    let mut checks = declared.flat_map(|it| &it.checks);
    checks.any(|check| check.name == name)
}

fn refuse_taken(table: &TableSchema, name: &str) -> Result<(), Error> {
    if !has_check(table, name) && !key_names(table).iter().any(|it| it == name) {
        return Ok(());
    }
    let exists = DefineError::ConstraintExists {
        table: table.name.clone(),
        name: name.to_owned(),
    };
    Err(exists.about(Part::Other))
}

fn missing(table: &TableSchema, name: String) -> Error {
    let table = table.name.clone();
    DefineError::NoConstraint { table, name }.about(Part::Other)
}
