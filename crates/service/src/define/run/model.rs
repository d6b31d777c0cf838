//! A relation as ALTER TABLE changes it, step by step, with its rows.
//!
//! Does: carry out each change on columns, keys, conditions and rows, and refuse what rows that are there do not meet. Does not: evaluate
//! SQL (the language brings values, and looks at CHECKs), look at other relations, or write (`relation.rs` does both).

use std::collections::BTreeSet;
use std::sync::Arc;

use nilometer_engine::{
    Check, ColumnKind, ConstraintKind, Declarations, Declared, Error as EngineError, LogicalType,
    PhysicalType, ROW_NUMBER, RelationColumn, RelationSchema, Swapped, Value, enum_of_check,
};

use super::expression::{mentions, renamed};
use crate::define::change::{Column, NewCheck, TableChange};
use crate::define::error::{DefineError, Part};
use crate::define::lookup;
use crate::define::sequences::{Numbered, NumberedBy};
use crate::error::Error;
use crate::write::references::{ForeignKey, REFERENCES};

/// A key, by the places of its columns.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// Its name, where it is not the one that follows from its columns.
    given: Option<String>,
    pub(super) columns: Vec<u32>,
    is_primary: bool,
}

/// A relation on its way.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) name: String,
    pub(super) columns: Vec<RelationColumn>,
    pub(super) said: Vec<Declared>,
    pub(super) keys: Vec<Key>,
    pub(super) checks: Vec<Check>,
    /// Where each column was before; `None` = it is new.
    pub(super) origin: Vec<Option<usize>>,
    comment: Option<String>,
    base: RelationSchema,
    rows: Vec<Vec<Value>>,
}

impl Model {
    /// A relation as it is; the number of its rows, where they have one, is none of its columns.
    pub(super) fn of(schema: &RelationSchema, rows: &[Arc<[Value]>]) -> Self {
        let declared = schema.declared.as_deref().cloned().unwrap_or_default();
        let columns = schema.named_columns();
        let mut said = declared.columns;
        said.resize(columns.len(), Declared::default());
        let given = |number: usize| {
            let mut keys = declared.table.keys.iter();
            let found = keys.find(|(of, _)| *of as usize == number);
            found.map(|(_, name)| name.clone())
        };
        let keys = schema.keys().map(|(number, columns)| Key {
            given: given(number),
            columns: columns.clone(),
            is_primary: number == 0,
        });
        Self {
            name: schema.name.clone(),
            columns: columns.to_vec(),
            keys: keys.collect(),
            origin: (0..columns.len()).map(Some).collect(),
            said,
            checks: declared.table.checks.clone(),
            comment: declared.table.comment.clone(),
            base: schema.clone(),
            rows: rows
                .iter()
                .map(|row| row.iter().take(columns.len()).cloned().collect())
                .collect(),
        }
    }

    /// What it has become; its primary key has no column where it has none.
    pub(super) fn finished(self) -> Swapped {
        let primary = self.keys.iter().find(|key| key.is_primary);
        let others = self.keys.iter().filter(|key| !key.is_primary);
        let named = (0u32..).zip(std::iter::once(primary).chain(others.clone().map(Some)));
        let named = named.filter_map(|(number, key)| Some((number, key?.given.clone()?)));
        let mut declared = Declarations::default();
        declared.table.keys = named.collect();
        declared.table.checks = self.checks;
        declared.table.comment = self.comment;
        declared.columns = self.said;
        let unique = others.map(|key| key.columns.clone()).collect();
        Swapped {
            schema: RelationSchema {
                name: self.name,
                columns: self.columns,
                primary_key: primary.map_or_else(Vec::new, |key| key.columns.clone()),
                unique,
                declared: None,
                ..self.base
            },
            declared,
            rows: self.rows,
        }
    }

    /// Carries one change out.
    pub(super) fn apply(&mut self, change: &TableChange) -> Result<(), Error> {
        match change {
            TableChange::Several(changes) => changes.iter().try_for_each(|it| self.apply(it)),
            TableChange::Add {
                column,
                if_not_exists,
                with,
                values,
            } => {
                if self.place(&column.name).is_ok() && *if_not_exists {
                    return Ok(());
                }
                self.add(column, values)?;
                with.iter().try_for_each(|it| self.apply(it))
            }
            TableChange::Drop { column, if_exists } => match self.place(column) {
                Err(_) if *if_exists => Ok(()),
                Err(missing) => Err(missing),
                Ok(at) => {
                    self.drop_column(at, column);
                    Ok(())
                }
            },
            TableChange::RenameColumn { column, to } => self.rename_column(column, to),
            TableChange::Type {
                column,
                to,
                of,
                label,
                default,
                values,
                ..
            } => {
                self.retype(column, (*to, *of), values.as_deref())?;
                self.retyped(column, label.as_ref(), default.as_deref())
            }
            TableChange::Rename { to } => {
                self.rename(to);
                Ok(())
            }
            TableChange::NotNull {
                column,
                is_not_null,
            } => self.not_null(column, *is_not_null),
            TableChange::Default { column, to, .. } => self.set_default(column, to.as_deref()),
            TableChange::DropIdentity { column, if_exists } => {
                self.drop_identity(column, *if_exists)
            }
            TableChange::AddKey {
                name,
                columns,
                is_primary,
            } => self.add_key(name.as_ref(), columns, *is_primary),
            TableChange::AddCheck(check) => self.add_check(check),
            TableChange::DropConstraint {
                name,
                if_exists,
                cascades,
            } => {
                self.drop_constraint(name, *if_exists)?;
                if *cascades {
                    self.drop_own_without_key();
                }
                Ok(())
            }
            TableChange::RenameConstraint { name, to } => self.rename_constraint(name, to),
            TableChange::Validate { name } => {
                let is_there = self.checks.iter().any(|check| check.name == *name);
                is_there.then_some(()).ok_or_else(|| self.missing(name))
            }
            TableChange::Owner => Ok(()),
            TableChange::Set(_) => Err(unsupported(
                "a table without a time has no settings; leave SET out".to_owned(),
            )),
        }
    }

    fn add(&mut self, column: &Column, values: &[Value]) -> Result<(), Error> {
        let name = &column.name;
        if self.place(name).is_ok() {
            return Err(Error::Engine(EngineError::ExistsAlready {
                what: "column",
                name: name.clone(),
                place: format!("table \"{}\"", self.name),
            }));
        }
        refuse_row_number(name)?;
        let ColumnKind::Field(kind) = column.kind else {
            return Err(unsupported(
                "tags belong to a time, and the table has none; write TEXT".to_owned(),
            ));
        };
        let nth = |at: usize| values.get(at).cloned().unwrap_or(Value::Null);
        for (at, row) in self.rows.iter_mut().enumerate() {
            row.push(nth(at));
        }
        self.columns.push(RelationColumn {
            name: name.clone(),
            kind,
            nullable: true,
        });
        self.origin.push(None);
        self.said.push(Declared {
            not_null: false,
            position: None,
            ..column.declared.clone()
        });
        if column.declared.not_null {
            self.not_null(name, true)?;
        }
        Ok(())
    }

    /// Keys and conditions that name the column go with it.
    fn drop_column(&mut self, at: usize, name: &str) {
        self.columns.remove(at);
        self.said.remove(at);
        self.origin.remove(at);
        for row in &mut self.rows {
            row.remove(at);
        }
        self.checks.retain(|check| !names(check, name));
        self.keys.retain(|key| !key.columns.contains(&place_of(at)));
        for key in &mut self.keys {
            for place in &mut key.columns {
                *place -= u32::from(*place > place_of(at));
            }
        }
    }

    fn rename_column(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let at = self.place(from)?;
        if self.place(to).is_ok() {
            return Err(Error::Engine(EngineError::ExistsAlready {
                what: "column",
                name: to.to_owned(),
                place: format!("table \"{}\"", self.name),
            }));
        }
        refuse_row_number(to)?;
        self.keep_names();
        if let Some(column) = self.columns.get_mut(at) {
            to.clone_into(&mut column.name);
        }
        let own = self.name.clone();
        for check in &mut self.checks {
            check.expression = match ForeignKey::of(check) {
                Some(mut key) => {
                    rename_in(&mut key.columns, from, to);
                    if key.to == own {
                        rename_in(&mut key.to_columns, from, to);
                    }
                    key.expression()
                }
                None => renamed(&check.expression, from, to),
            };
        }
        Ok(())
    }

    fn rename(&mut self, to: &str) {
        self.keep_names();
        let from = std::mem::replace(&mut self.name, to.to_owned());
        for check in &mut self.checks {
            match ForeignKey::of(check) {
                Some(mut key) if key.to == from => {
                    to.clone_into(&mut key.to);
                    check.expression = key.expression();
                }
                None if enum_of_check(check).is_none()
                    && self.columns.iter().all(|it| it.name != from) =>
                {
                    check.expression = renamed(&check.expression, &from, to);
                }
                _ => {}
            }
        }
    }

    fn retype(
        &mut self,
        name: &str,
        (to, of): (PhysicalType, Option<LogicalType>),
        values: Option<&[Value]>,
    ) -> Result<(), Error> {
        let at = self.place(name)?;
        if let Some(values) = values {
            for (row, value) in self.rows.iter_mut().zip(values) {
                if let Some(cell) = row.get_mut(at) {
                    *cell = value.clone();
                }
            }
        }
        if let Some(column) = self.columns.get_mut(at) {
            column.kind = to;
        }
        if let Some(said) = self.said.get_mut(at) {
            said.of = of;
        }
        Ok(())
    }

    /// What is said of a column that has another type: its default, and the CHECK that makes it one of an enumeration.
    fn retyped(
        &mut self,
        column: &str,
        label: Option<&String>,
        default: Option<&str>,
    ) -> Result<(), Error> {
        if default.is_some() {
            self.set_default(column, default)?;
        }
        let is_of = |check: &Check| enum_of_check(check).is_some_and(|(_, named)| named == *column);
        self.checks.retain(|check| !is_of(check));
        let label = label.map(|expression| NewCheck {
            name: None,
            column: Some(column.to_owned()),
            expression: expression.clone(),
            is_valid: true,
        });
        label.map_or(Ok(()), |check| self.add_check(&check))
    }

    fn set_default(&mut self, column: &str, to: Option<&str>) -> Result<(), Error> {
        let at = self.place(column)?;
        let known = self.said.get(at).and_then(|said| said.default.as_deref());
        let gets_identity = to.is_some_and(is_identity);
        match known {
            Some(known) if is_identity(known) && gets_identity => {
                return Err(self.identity(column, "is already an identity column"));
            }
            Some(known) if is_identity(known) => {
                return Err(constraint(format!(
                    "column \"{column}\" of relation \"{}\" is an identity column; use ALTER COLUMN ... DROP IDENTITY",
                    self.name
                )));
            }
            Some(_) if gets_identity => {
                return Err(self.identity(column, "already has a default value; drop it first"));
            }
            _ => {}
        }
        if let Some(said) = self.said.get_mut(at) {
            said.default = to.map(str::to_owned);
        }
        if gets_identity {
            self.not_null(column, true)?;
        }
        Ok(())
    }

    fn drop_identity(&mut self, column: &str, if_exists: bool) -> Result<(), Error> {
        let at = self.place(column)?;
        let numbers = |said: &&mut Declared| said.default.as_deref().is_some_and(is_identity);
        match self.said.get_mut(at).filter(numbers) {
            Some(said) => said.default = None,
            None if if_exists => {}
            None => return Err(self.identity(column, "is not an identity column")),
        }
        Ok(())
    }

    fn identity(&self, column: &str, what: &str) -> Error {
        let reason = format!("column \"{column}\" of relation \"{}\" {what}", self.name);
        DefineError::Identity { reason }.about(Part::Other)
    }

    fn not_null(&mut self, name: &str, is_not_null: bool) -> Result<(), Error> {
        let at = self.place(name)?;
        let in_primary = |key: &Key| key.is_primary && key.columns.contains(&place_of(at));
        if !is_not_null && self.keys.iter().any(in_primary) {
            return Err(constraint(format!(
                "column \"{name}\" is in a primary key, so it is never NULL"
            )));
        }
        let is_null = |row: &Vec<Value>| row.get(at).is_none_or(|it| *it == Value::Null);
        if is_not_null && let Some(nth) = self.rows.iter().position(is_null) {
            return Err(Error::Engine(EngineError::Constraint {
                kind: ConstraintKind::NotNull,
                table: self.name.clone(),
                column: Some(name.to_owned()),
                constraint: None,
                row: nth + 1,
                reason: format!(
                    "column \"{name}\" of relation \"{}\" contains null values",
                    self.name
                ),
            }));
        }
        if let Some(column) = self.columns.get_mut(at) {
            column.nullable = !is_not_null;
        }
        Ok(())
    }

    fn add_key(
        &mut self,
        name: Option<&String>,
        columns: &[String],
        is_primary: bool,
    ) -> Result<(), Error> {
        let mut places = Vec::new();
        for column in columns {
            places.push(place_of(self.place(column)?));
        }
        if is_primary && self.keys.iter().any(|key| key.is_primary) {
            return Err(constraint(format!(
                "multiple primary keys for table \"{}\" are not allowed",
                self.name
            )));
        }
        if is_primary {
            for column in columns {
                self.not_null(column, true)?;
            }
        }
        let mut key = Key {
            given: name.cloned(),
            columns: places,
            is_primary,
        };
        let taken = self.names();
        let first = self.name_of(&key);
        if taken.contains(&first) {
            if name.is_some() {
                return Err(self.exists(&first));
            }
            key.given = Some(free(&first, &taken));
        }
        self.keys.push(key);
        Ok(())
    }

    fn add_check(&mut self, check: &NewCheck) -> Result<(), Error> {
        let taken = self.names();
        let name = match &check.name {
            Some(name) if taken.contains(name) => return Err(self.exists(name)),
            Some(name) => name.clone(),
            None => {
                let column = check.column.as_ref();
                let column = column.map_or_else(String::new, |it| format!("_{it}"));
                let kind = if check.expression.starts_with(REFERENCES) {
                    "fkey"
                } else {
                    "check"
                };
                free(&format!("{}{column}_{kind}", self.name), &taken)
            }
        };
        let check = Check {
            name,
            expression: check.expression.clone(),
        };
        if let Some(key) = ForeignKey::of(&check) {
            for column in &key.columns {
                self.place(column)?;
            }
        }
        self.checks.push(check);
        Ok(())
    }

    fn drop_constraint(&mut self, name: &str, if_exists: bool) -> Result<(), Error> {
        let before = (self.keys.len(), self.checks.len());
        let gone: Vec<bool> = self
            .keys
            .iter()
            .map(|key| self.name_of(key) == name)
            .collect();
        let mut gone = gone.into_iter();
        self.keys.retain(|_| !gone.next().unwrap_or(false));
        self.checks.retain(|check| check.name != name);
        if before == (self.keys.len(), self.checks.len()) && !if_exists {
            return Err(self.missing(name));
        }
        Ok(())
    }

    /// Foreign keys to the relation itself go with the key that they point to.
    fn drop_own_without_key(&mut self) {
        let all = self
            .keys
            .iter()
            .map(|key| (key.is_primary, self.columns_of(key)));
        let keys: Vec<(bool, BTreeSet<String>)> = all
            .map(|(is_primary, columns)| (is_primary, columns.into_iter().collect()))
            .collect();
        let own = self.name.clone();
        self.checks.retain(|check| {
            let Some(key) = ForeignKey::of(check).filter(|key| key.to == own) else {
                return true;
            };
            let to: BTreeSet<String> = key.to_columns.into_iter().collect();
            keys.iter()
                .any(|(is_primary, columns)| (to.is_empty() && *is_primary) || *columns == to)
        });
    }

    fn rename_constraint(&mut self, name: &str, to: &str) -> Result<(), Error> {
        let taken = self.names();
        if !taken.contains(name) {
            return Err(self.missing(name));
        }
        if taken.contains(to) {
            return Err(self.exists(to));
        }
        self.keep_names();
        for key in &mut self.keys {
            if key.given.as_deref() == Some(name) {
                key.given = Some(to.to_owned());
            }
        }
        for check in self.checks.iter_mut().filter(|check| check.name == name) {
            to.clone_into(&mut check.name);
        }
        Ok(())
    }

    /// Gives keys the names that they have for good: those of columns and the table are about to change.
    fn keep_names(&mut self) {
        let named: Vec<String> = self.keys.iter().map(|key| self.name_of(key)).collect();
        for (key, name) in self.keys.iter_mut().zip(named) {
            key.given = Some(name);
        }
    }

    /// What a key is called, as [`RelationSchema::key_name`] says.
    pub(super) fn name_of(&self, key: &Key) -> String {
        if let Some(given) = &key.given {
            return given.clone();
        }
        if key.is_primary {
            return format!("{}_pkey", self.name);
        }
        format!("{}_{}_key", self.name, self.columns_of(key).join("_"))
    }

    /// The names of the columns of a key.
    pub(super) fn columns_of(&self, key: &Key) -> Vec<String> {
        let columns = key.columns.iter();
        let columns = columns.filter_map(|at| self.columns.get(*at as usize));
        columns.map(|column| column.name.clone()).collect()
    }

    /// The names of its constraints.
    fn names(&self) -> BTreeSet<String> {
        let keys = self.keys.iter().map(|key| self.name_of(key));
        keys.chain(self.checks.iter().map(|check| check.name.clone()))
            .collect()
    }

    pub(super) fn place(&self, column: &str) -> Result<usize, Error> {
        let mut columns = self.columns.iter();
        let found = columns.position(|it| it.name == column);
        found.ok_or_else(|| {
            let schema = RelationSchema {
                columns: self.columns.clone(),
                declared: None,
                ..self.base.clone()
            };
            lookup::unknown_column(&schema.arrow_schema(), column).about(Part::Other)
        })
    }

    fn missing(&self, name: &str) -> Error {
        let (table, name) = (self.name.clone(), name.to_owned());
        DefineError::NoConstraint { table, name }.about(Part::Other)
    }

    fn exists(&self, name: &str) -> Error {
        let (table, name) = (self.name.clone(), name.to_owned());
        DefineError::ConstraintExists { table, name }.about(Part::Other)
    }
}

/// Whether a condition or a foreign key is about a column.
fn names(check: &Check, column: &str) -> bool {
    match ForeignKey::of(check) {
        Some(key) => key.columns.iter().any(|name| name == column),
        None => mentions(&check.expression, column),
    }
}

/// Whether a default is that of an identity.
fn is_identity(default: &str) -> bool {
    Numbered::of(default).is_some_and(|numbered| numbered.how != NumberedBy::Default)
}

fn rename_in(names: &mut [String], from: &str, to: &str) {
    for name in names.iter_mut().filter(|name| *name == from) {
        to.clone_into(name);
    }
}

fn free(first: &str, taken: &BTreeSet<String>) -> String {
    let more = (1..).map(|n| format!("{first}{n}"));
    let mut all = std::iter::once(first.to_owned()).chain(more);
    all.find(|name| !taken.contains(name)).unwrap_or_default()
}

fn place_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Refuses the name under which the store numbers rows without a key.
fn refuse_row_number(column: &str) -> Result<(), Error> {
    if column != ROW_NUMBER {
        return Ok(());
    }
    let column = column.to_owned();
    Err(DefineError::SystemColumn { column }.about(Part::Other))
}

pub(super) fn unsupported(reason: String) -> Error {
    DefineError::Unsupported { reason }.about(Part::Other)
}

fn constraint(reason: String) -> Error {
    DefineError::Constraint { reason }.about(Part::Other)
}
