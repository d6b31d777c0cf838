//! Declarations of tables and columns: made with them, and changed later.
//!
//! Does: check that what is declared fits what is stored, and log it as `ddl.rs` logs every change. Does not: check rows that
//! are there: a declaration that they might offend is refused, or says of new rows only.

use crate::catalogue::Catalogue;
use crate::declared::{Declarations, Declared, DeclaredTable};
use crate::definition::Definition;
use crate::engine::change::ddl::{
    NewColumn, check_column_name, check_settings, exists, find_column, find_schema, find_table,
    in_schema, in_table,
};
use crate::engine::{Engine, check_name};
use crate::error::Error;
use crate::schema::{ColumnKind, SchemaId, TIME_COLUMN, TableSettings};

impl Engine {
    /// Makes a table with what was declared of it: of each column, in the order of `columns`, or of none. Returns whether it
    /// is new; one that is there stays as it is.
    pub fn create_declared_table(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        columns: &[NewColumn<'_>],
        settings: TableSettings,
        declared: &Declarations,
    ) -> Result<bool, Error> {
        self.check_declared_table(table, columns, settings, declared)?;
        let schema_name = schema;
        self.alter(|catalogue| {
            let (_, schema) = find_schema(catalogue, database, schema_name)?;
            if catalogue.table_id(schema, table).is_some() {
                return Ok(Vec::new());
            }
            if self.sequencer.is_relation(schema, table) {
                return Err(exists("relation", table, in_schema(database, schema_name)));
            }
            let place = (schema, table);
            Ok(plan_declared(catalogue, place, columns, settings, declared))
        })
    }

    /// Whether a table may be made so.
    pub(super) fn check_declared_table(
        &self,
        table: &str,
        columns: &[NewColumn<'_>],
        settings: TableSettings,
        declared: &Declarations,
    ) -> Result<(), Error> {
        self.check_new_table(table, columns)?;
        check_settings(&settings)?;
        check_table(table, &declared.table)?;
        if let Some(time) = &declared.table.time
            && columns.iter().any(|column| column.name == time.name)
        {
            return Err(exists("column", &time.name, in_table(table)));
        }
        for (column, said) in columns.iter().zip(&declared.columns) {
            check_column(table, column.name, column.kind, said)?;
        }
        Ok(())
    }

    /// Adds a tag or a field with what was declared of it; rows that are there have none, and those of a field that is never
    /// null must not be. Returns whether it is new.
    pub fn add_declared_column(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: NewColumn<'_>,
        declared: &Declared,
    ) -> Result<bool, Error> {
        check_column_name(column.name)?;
        check_column(table, column.name, column.kind, declared)?;
        self.alter(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            if found.time().0 == column.name {
                return Err(exists("column", column.name, in_table(table)));
            }
            match found.column_like(column.kind, column.name) {
                None => {
                    if column.kind == ColumnKind::Tag {
                        self.site.check_table_tags(found.tags.len() as u64 + 1)?;
                    }
                    let made = catalogue.plan_column(found.id, column.kind, column.name);
                    let said = (!declared.is_empty()).then(|| declared.clone());
                    Ok(with_declaration(made, said))
                }
                Some(known) if known.kind == column.kind && known.of() == declared.of => {
                    Ok(Vec::new())
                }
                Some(_) => Err(exists("column", column.name, in_table(table))),
            }
        })
    }

    /// Declares a column that is there as what `change` makes of its declaration. The caller knows that rows which are there
    /// do not offend it.
    pub fn declare_column(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: &str,
        change: impl FnOnce(&mut Declared),
    ) -> Result<(), Error> {
        self.alter(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            let column = find_column(&found, column)?;
            let mut declared = column.declared.as_deref().cloned().unwrap_or_default();
            change(&mut declared);
            check_column(table, &column.name, column.kind, &declared)?;
            Ok(vec![Definition::DeclareColumn {
                id: column.id,
                table: found.id,
                declared: Box::new(declared),
            }])
        })
        .map(drop)
    }

    /// Declares a table that is there as what `change` makes of its declaration.
    pub fn declare_table(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        change: impl FnOnce(&mut DeclaredTable),
    ) -> Result<(), Error> {
        self.alter(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            let mut declared = found.declared.as_deref().cloned().unwrap_or_default();
            change(&mut declared);
            check_table(table, &declared)?;
            Ok(vec![Definition::DeclareTable {
                id: found.id,
                declared: Box::new(declared),
            }])
        })
        .map(drop)
    }
}

/// The definitions of a new table with what is declared of it.
pub(super) fn plan_declared(
    catalogue: &Catalogue,
    (schema, table): (SchemaId, &str),
    columns: &[NewColumn<'_>],
    settings: TableSettings,
    declared: &Declarations,
) -> Vec<Definition> {
    let mut planned = vec![catalogue.plan_table(schema, table)];
    let Some(Definition::Table { id, .. }) = planned.first() else {
        return Vec::new();
    };
    let id = *id;
    if settings != TableSettings::default() {
        planned.push(Definition::SetTable { id, settings });
    }
    if !declared.table.is_empty() {
        let declared = Box::new(declared.table.clone());
        planned.push(Definition::DeclareTable { id, declared });
    }
    for (nth, column) in (0u32..).zip(columns) {
        let made = catalogue.plan_nth_column(nth, id, column.kind, column.name);
        let said = declared.columns.get(nth as usize);
        let said = said.filter(|said| !said.is_empty()).cloned();
        planned.extend(with_declaration(made, said));
    }
    planned
}

/// A definition of a column, and what is declared of it.
fn with_declaration(made: Definition, said: Option<Declared>) -> Vec<Definition> {
    let declaration = match (&made, said) {
        (&Definition::Column { id, table, .. }, Some(declared)) => {
            Some(Definition::DeclareColumn {
                id,
                table,
                declared: Box::new(declared),
            })
        }
        _ => None,
    };
    std::iter::once(made).chain(declaration).collect()
}

/// Whether a column of this kind may be declared so.
fn check_column(
    table: &str,
    column: &str,
    kind: ColumnKind,
    declared: &Declared,
) -> Result<(), Error> {
    let wrong = |reason: String| Error::TypedColumn {
        table: table.to_owned(),
        column: column.to_owned(),
        reason,
    };
    let Some(of) = declared.of else {
        return Ok(());
    };
    of.check().map_err(|reason| wrong(reason.to_owned()))?;
    match kind {
        ColumnKind::Tag if !of.is_integer() => Err(wrong(format!(
            "a tag is text or an integer, not {of}; make it a field"
        ))),
        ColumnKind::Field(kind) if of.physical() != kind => Err(wrong(format!(
            "{of} is not stored as {}",
            crate::schema::type_name(kind)
        ))),
        _ => Ok(()),
    }
}

fn check_table(table: &str, declared: &DeclaredTable) -> Result<(), Error> {
    if let Some(time) = &declared.time
        && time.name != TIME_COLUMN
    {
        check_name("column", &time.name)?;
    }
    for (at, check) in declared.checks.iter().enumerate() {
        check_name("constraint", &check.name)?;
        let before = declared.checks.iter().take(at);
        if before.into_iter().any(|other| other.name == check.name) {
            return Err(exists("constraint", &check.name, in_table(table)));
        }
    }
    Ok(())
}
