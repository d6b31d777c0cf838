//! Carrying out changes of names: each is one call of the engine, durable when it returns.
//!
//! Does: look up what names mean now, check what the engine cannot know (views, reserved schemas), call it. Blocks for a
//! sync of the log, so it runs where blocking is allowed.

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewColumn, NewRelation, Snapshot, TableSchema, nearest,
};

use super::{Change, Column, CreateTable, CreateView, TableChange};
use crate::error::Error;
use crate::statement::name::{Name, NameScope, Path, TableName, is_reserved};
use crate::statement::settings;
use crate::tables::names;
use crate::tables::relation;
use crate::tables::view;

/// Carries out a change.
pub(crate) fn run(engine: &Arc<Engine>, place: &NameScope, change: Change) -> Result<(), Error> {
    match change {
        Change::CreateDatabase {
            name,
            if_not_exists,
        } => {
            let new = engine.create_database(&name.text)?;
            must_be_new(new || if_not_exists, "database", &name.text, "this store")
        }
        Change::DropDatabase { name, if_exists } => {
            let snapshot = engine.snapshot();
            if snapshot.schemas(&name.text).is_none() {
                return if if_exists {
                    Ok(())
                } else {
                    Err(names::unknown_database(
                        &snapshot,
                        &name.text,
                        name.position,
                    ))
                };
            }
            Ok(engine.drop_database(&name.text)?)
        }
        Change::RenameDatabase { name, to } => {
            names::find_database(&engine.snapshot(), &name.text, name.position)?;
            Ok(engine.rename_database(&name.text, &to.text)?)
        }
        Change::SetDefaultSchema { database, schema } => {
            let snapshot = engine.snapshot();
            names::find_schema(&snapshot, &database.text, &schema.text, schema.position)?;
            Ok(engine.set_default_schema(&database.text, &schema.text)?)
        }
        Change::CreateSchema { .. }
        | Change::DropSchema { .. }
        | Change::RenameSchema { .. }
        | Change::SetSchema { .. } => schema(engine, place, change),
        Change::CreateTable(table) => create_table(engine, place, table),
        Change::CreateRelation {
            path,
            if_not_exists,
            new,
        } => create_relation(engine, place, path, if_not_exists, &new),
        Change::DropTable { path, if_exists } => drop_table(engine, place, path, if_exists),
        Change::AlterTable {
            path,
            if_exists,
            change,
        } => match table(engine, place, path, if_exists)? {
            Some((name, table)) => alter_table(engine, &name, &table, change),
            None => Ok(()),
        },
        Change::CreateView(new) => create_view(engine, place, new),
        Change::DropView { path, if_exists } => drop_view(engine, place, path, if_exists),
    }
}

fn must_be_new(is_new: bool, what: &'static str, name: &str, place: &str) -> Result<(), Error> {
    if is_new {
        return Ok(());
    }
    Err(EngineError::ExistsAlready {
        what,
        name: name.to_owned(),
        place: place.to_owned(),
    }
    .into())
}

fn refuse_reserved(schema: &str, name: &Name) -> Result<(), Error> {
    if !is_reserved(schema) {
        return Ok(());
    }
    Err(Error::Plan {
        message: format!(
            "the schema \"{schema}\" is what the store says of itself and cannot be changed"
        ),
        position: name.position,
    })
}

fn schema(engine: &Arc<Engine>, place: &NameScope, change: Change) -> Result<(), Error> {
    match change {
        Change::CreateSchema {
            path,
            if_not_exists,
            retention_ns,
        } => {
            let (database, name) = path.schema(place)?;
            refuse_reserved(&name.text, &name)?;
            names::find_database(&engine.snapshot(), &database, name.position)?;
            let new = engine.create_schema(&database, &name.text)?;
            must_be_new(new || if_not_exists, "schema", &name.text, &database)?;
            if new && retention_ns.is_some() {
                engine.set_schema_retention(&database, &name.text, retention_ns)?;
            }
            Ok(())
        }
        Change::DropSchema {
            path,
            if_exists,
            cascade,
        } => {
            let (database, name) = path.schema(place)?;
            refuse_reserved(&name.text, &name)?;
            let snapshot = engine.snapshot();
            let found = names::find_schema(&snapshot, &database, &name.text, name.position);
            if let Err(missing) = found {
                return if if_exists { Ok(()) } else { Err(missing) };
            }
            let mut tables = snapshot.tables(&database, &name.text).unwrap_or_default();
            tables.extend(relation::list(&snapshot, &database, &name.text));
            let views = view::list(&snapshot, &database, &name.text);
            if !cascade && tables.len() + views.len() > 0 {
                return Err(Error::Plan {
                    message: format!(
                        "the schema \"{}\" has {} tables and {} views; write DROP SCHEMA {} CASCADE to drop them too",
                        name.text,
                        tables.len(),
                        views.len(),
                        name.text,
                    ),
                    position: name.position,
                });
            }
            Ok(engine.drop_schema(&database, &name.text)?)
        }
        Change::RenameSchema { path, to } => {
            let (database, name) = path.schema(place)?;
            refuse_reserved(&name.text, &name)?;
            refuse_reserved(&to.text, &to)?;
            names::find_schema(&engine.snapshot(), &database, &name.text, name.position)?;
            Ok(engine.rename_schema(&database, &name.text, &to.text)?)
        }
        Change::SetSchema { path, retention_ns } => {
            let (database, name) = path.schema(place)?;
            refuse_reserved(&name.text, &name)?;
            names::find_schema(&engine.snapshot(), &database, &name.text, name.position)?;
            Ok(engine.set_schema_retention(&database, &name.text, retention_ns)?)
        }
        _ => Err(Error::internal("a change of something else than a schema")),
    }
}

/// The place where something is to be made; its schema is there, and nothing else has the name.
fn place_for(engine: &Arc<Engine>, place: &NameScope, path: Path) -> Result<TableName, Error> {
    let last = path.last.clone();
    let name = path.table(place)?;
    refuse_reserved(&name.schema, &last)?;
    names::find_schema(
        &engine.snapshot(),
        &name.database,
        &name.schema,
        name.position,
    )?;
    Ok(name)
}

fn in_schema(name: &TableName) -> String {
    format!("\"{}\".\"{}\"", name.database, name.schema)
}

fn refuse_view(snapshot: &Snapshot, name: &TableName, table: &str) -> Result<(), Error> {
    let is_view = view::definition(snapshot, &name.database, &name.schema, table).is_some();
    must_be_new(!is_view, "view", table, &in_schema(name))
}

fn create_table(engine: &Arc<Engine>, place: &NameScope, new: CreateTable) -> Result<(), Error> {
    let name = place_for(engine, place, new.path)?;
    refuse_view(&engine.snapshot(), &name, &name.table)?;
    let columns: Vec<NewColumn<'_>> = new.columns.iter().map(new_column).collect();
    let is_new = engine.create_table(
        &name.database,
        &name.schema,
        &name.table,
        &columns,
        new.settings,
    )?;
    must_be_new(
        is_new || new.if_not_exists,
        "table",
        &name.table,
        &in_schema(&name),
    )
}

fn create_relation(
    engine: &Arc<Engine>,
    place: &NameScope,
    path: Path,
    if_not_exists: bool,
    new: &NewRelation,
) -> Result<(), Error> {
    let position = path.last.position;
    let name = place_for(engine, place, path)?;
    let snapshot = engine.snapshot();
    refuse_view(&snapshot, &name, &name.table)?;
    if view::is_relation_of_views(&name.table) {
        return Err(Error::Plan {
            message: format!(
                "the name \"{}\" is taken by what views are kept in",
                name.table
            ),
            position,
        });
    }
    let (database, schema) = (&name.database, &name.schema);
    let is_there = relation::find(&snapshot, &name).is_some();
    let is_taken = is_there || snapshot.table(database, schema, &name.table).is_some();
    if is_taken && if_not_exists {
        return Ok(());
    }
    let is_new = engine.create_relation(database, schema, &name.table, new)?;
    must_be_new(is_new, "relation", &name.table, &in_schema(&name))
}

fn drop_table(
    engine: &Arc<Engine>,
    place: &NameScope,
    path: Path,
    if_exists: bool,
) -> Result<(), Error> {
    let name = path.clone().table(place)?;
    if relation::find(&engine.snapshot(), &name).is_some() {
        engine.drop_relation(&name.database, &name.schema, &name.table)?;
        return Ok(());
    }
    match table(engine, place, path, if_exists)? {
        Some((name, _)) => Ok(engine.drop_table(&name.database, &name.schema, &name.table)?),
        None => Ok(()),
    }
}

fn new_column(column: &Column) -> NewColumn<'_> {
    NewColumn {
        name: &column.name.text,
        kind: column.kind,
    }
}

/// A table that is there; `None` = it is not, and may be missing.
fn table(
    engine: &Arc<Engine>,
    place: &NameScope,
    path: Path,
    if_exists: bool,
) -> Result<Option<(TableName, Arc<TableSchema>)>, Error> {
    let last = path.last.clone();
    let name = path.table(place)?;
    refuse_reserved(&name.schema, &last)?;
    let snapshot = engine.snapshot();
    match names::find_table(&snapshot, &name) {
        Ok(table) => Ok(Some((name, table))),
        // What is there but cannot be changed so is not missing.
        Err(Error::UnknownTable { .. } | Error::UnknownName { .. }) if if_exists => Ok(None),
        Err(missing) => Err(missing),
    }
}

fn alter_table(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    change: TableChange,
) -> Result<(), Error> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    match change {
        TableChange::Add {
            column,
            if_not_exists,
        } => {
            let new = engine.add_column(database, schema, of, new_column(&column))?;
            must_be_new(
                new || if_not_exists,
                "column",
                &column.name.text,
                &format!("table \"{of}\""),
            )
        }
        TableChange::Drop { column, if_exists } => {
            if if_exists && table.shown(&column.text).is_none() {
                return Ok(());
            }
            names::find_column(table, &column)?;
            Ok(engine.drop_column(database, schema, of, &column.text)?)
        }
        TableChange::RenameColumn { column, to } => {
            names::find_column(table, &column)?;
            Ok(engine.rename_column(database, schema, of, &column.text, &to.text)?)
        }
        TableChange::Type { column, to } => {
            names::find_column(table, &column)?;
            Ok(engine.change_type(database, schema, of, &column.text, to)?)
        }
        TableChange::Rename { to } => {
            refuse_view(&engine.snapshot(), name, &to.text)?;
            Ok(engine.rename_table(database, schema, of, &to.text)?)
        }
        TableChange::Set(list) => {
            let mut settings = table.settings;
            settings::of_table(&list, &mut settings)?;
            Ok(engine.set_table(database, schema, of, settings)?)
        }
    }
}

/// The query of the view was planned before, so it is one.
fn create_view(engine: &Arc<Engine>, place: &NameScope, new: CreateView) -> Result<(), Error> {
    let name = place_for(engine, place, new.path)?;
    let snapshot = engine.snapshot();
    let is_table = snapshot
        .table(&name.database, &name.schema, &name.table)
        .is_some();
    must_be_new(!is_table, "table", &name.table, &in_schema(&name))?;
    let is_relation = relation::find(&snapshot, &name).is_some();
    must_be_new(!is_relation, "relation", &name.table, &in_schema(&name))?;
    let known = view::definition(&snapshot, &name.database, &name.schema, &name.table).is_some();
    if known && new.if_not_exists {
        return Ok(());
    }
    must_be_new(
        !known || new.or_replace,
        "view",
        &name.table,
        &in_schema(&name),
    )?;
    view::store(engine, &name, &new.query)
}

fn drop_view(
    engine: &Arc<Engine>,
    place: &NameScope,
    path: Path,
    if_exists: bool,
) -> Result<(), Error> {
    let last = path.last.clone();
    let name = path.table(place)?;
    refuse_reserved(&name.schema, &last)?;
    let snapshot = engine.snapshot();
    if view::definition(&snapshot, &name.database, &name.schema, &name.table).is_none() {
        if if_exists {
            return Ok(());
        }
        names::find_schema(&snapshot, &name.database, &name.schema, name.position)?;
        let views = view::list(&snapshot, &name.database, &name.schema);
        return Err(Error::UnknownName {
            what: "view",
            nearest: nearest(&name.table, views),
            position: name.position,
            name: name.shown(),
        });
    }
    view::remove(engine, &name)
}
