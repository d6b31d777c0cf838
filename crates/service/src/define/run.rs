//! Carrying out changes: each is one call of the engine, durable when it returns.
//!
//! Does: look up what names mean now, check what the engine cannot know (views, reserved schemas), call it. Blocks for a
//! sync of the log, so it runs where blocking is allowed.

mod alter;
mod constraints;
pub(super) mod expression;
mod model;
mod relation;

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, Declarations, DeclaredTime, Engine, Error as EngineError, NewColumn,
    NewRelation, Snapshot, TableSchema, TableSettings, nearest,
};

use super::change::name::{Path, TableName};
use super::change::{Change, Column};
use super::error::{DefineError, Object, Part};
use super::own_relations::is_hidden;
use super::place::{
    Place, check_table, existing_table, must_be_new, refuse_internal, refuse_reserved,
};
use super::views::kept as aggregates;
use super::views::kept_rows::note_retentions;
use super::views::{enumerations, routines};
use super::{columns, databases, hypertables, lookup, payload, policies, views};
use crate::access::{self, Principal, Privilege};
use crate::error::Error;
use crate::write::references;
use crate::write::sessions::Scope;

/// Carries out a change. `scope` is where names without database or schema are.
pub fn run(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    change: Change,
) -> Result<(), Error> {
    let place = &Place::of(engine, scope);
    check(principal, place, &change)?;
    let followed = place.followed(&change);
    for followed in &followed {
        followed.begin(engine, |name| lookup::is_taken(&engine.snapshot(), name))?;
    }
    carry_out(engine, principal, place, change)?;
    for followed in followed {
        followed.end(engine)?;
    }
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "a flat list of changes")]
fn carry_out(
    engine: &Arc<Engine>,
    principal: &Principal,
    place: &Place,
    change: Change,
) -> Result<(), Error> {
    match change {
        Change::CreateDatabase {
            name,
            if_not_exists,
        } => {
            let new = databases::create_database(engine, &name)?;
            Ok(must_be_new(
                new || if_not_exists,
                "database",
                &name,
                "this store",
            )?)
        }
        Change::DropDatabase { name, if_exists } => {
            match lookup::find_database(&engine.snapshot(), &name) {
                Ok(()) => Ok(databases::drop_database(engine, &name)?),
                Err(_) if if_exists => Ok(()),
                Err(missing) => Err(missing.about(Part::Name)),
            }
        }
        Change::RenameDatabase { name, to } => {
            let found = lookup::find_database(&engine.snapshot(), &name);
            found.map_err(|missing| missing.about(Part::Name))?;
            databases::rename_database(engine, &name, &to)?;
            Ok(aggregates::follow_database(engine, &name, &to)?)
        }
        Change::SetDefaultSchema { database, schema } => {
            let found = lookup::find_schema(&engine.snapshot(), &database, &schema);
            found.map_err(|missing| missing.about(Part::Other))?;
            Ok(engine.set_default_schema(&database, &schema)?)
        }
        Change::CreateSchema {
            path,
            if_not_exists,
            retention_ns,
        } => create_schema(engine, place, path, if_not_exists, retention_ns),
        Change::DropSchema {
            path,
            if_exists,
            cascade,
        } => drop_schema(engine, place, path, if_exists, cascade),
        Change::RenameSchema { path, to } => {
            let (database, name) = place.schema_to_change(path)?;
            refuse_reserved(&to).map_err(|reserved| reserved.about(Part::Other))?;
            let found = lookup::find_schema(&engine.snapshot(), &database, &name);
            found.map_err(|missing| missing.about(Part::Name))?;
            engine.rename_schema(&database, &name, &to)?;
            Ok(aggregates::follow_schema(engine, (&database, &name), &to)?)
        }
        Change::SetSchema { path, retention_ns } => {
            let (database, name) = place.schema_to_change(path)?;
            let found = lookup::find_schema(&engine.snapshot(), &database, &name);
            found.map_err(|missing| missing.about(Part::Name))?;
            note_retentions(engine, &database, &name)?;
            Ok(engine.set_schema_retention(&database, &name, retention_ns)?)
        }
        Change::SetPolicy { path, settings } => {
            let (database, name) = place.schema_to_change(path)?;
            let found = lookup::find_schema(&engine.snapshot(), &database, &name);
            found.map_err(|missing| missing.about(Part::Name))?;
            Ok(policies::store(engine, &database, &name, settings)?)
        }
        Change::CreateTable {
            path,
            if_not_exists,
            mut columns,
            settings,
            declared,
            is_hypertable,
            payload,
        } => {
            if let Some(text) = &payload {
                payload::add_columns(&mut columns, &path.last, text)?;
            }
            let mut declared = Declarations {
                table: declared,
                columns: columns.iter().map(|it| it.declared.clone()).collect(),
            };
            create_table(
                engine,
                place,
                path,
                if_not_exists,
                &columns,
                (settings, &mut declared),
                (is_hypertable, payload.as_deref()),
            )
        }
        Change::CreateRelation {
            path,
            if_not_exists,
            new,
            declared,
        } => create_relation(engine, place, path, if_not_exists, (&new, declared)),
        Change::CreateIndex { path, new } => {
            let name = place.table(path)?;
            refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
            columns::create_index(engine, name, &new)
        }
        Change::DropIndex { path, if_exists } => {
            let name = place.table(path)?;
            refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
            // Who may change the table may drop its index.
            if let Some(table) = columns::table_of_index(engine, &name) {
                let about = access::Place::table(&table.database, &table.schema, &table.table);
                principal.check(Privilege::Define, about)?;
            }
            columns::drop_index(engine, &name, if_exists)
        }
        Change::CreateSequence {
            path,
            if_not_exists,
            counting,
        } => {
            let name = place_for(engine, place, path)?;
            columns::create_sequence(engine, &name, if_not_exists, counting)
        }
        Change::AlterSequence {
            path,
            if_exists,
            change,
        } => columns::alter_sequence(engine, &place.table(path)?, if_exists, &change),
        Change::DropSequences { paths, if_exists } => {
            let names = paths.into_iter().map(|path| place.table(path));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            columns::drop_sequences(engine, &names, if_exists)
        }
        Change::CreateEnum { path, labels } => {
            enumerations::create(engine, &place_for(engine, place, path)?, &labels)
        }
        Change::AlterEnum { path, change } => {
            enumerations::alter(engine, &place.table(path)?, change)
        }
        Change::DropTypes { paths, if_exists } => {
            let names = paths.into_iter().map(|path| place.table(path));
            enumerations::drop(engine, &names.collect::<Result<Vec<_>, _>>()?, if_exists)
        }
        Change::CreateRoutine {
            path,
            or_replace,
            new,
        } => {
            let name = place_for(engine, place, path)?;
            routines::create(engine, principal, &name, or_replace, &new)
        }
        Change::DropRoutine {
            path,
            is_procedure,
            if_exists,
        } => {
            let name = place.table(path)?;
            let now_of = |snapshot: &Snapshot, function| {
                hypertables::integer_now::table_of(snapshot, &name.database, function)
            };
            routines::drop_routine(engine, &name, (is_procedure, if_exists), now_of)
        }
        Change::CreateExtension { name } => match name.as_str() {
            "timescaledb" | "plpgsql" => Ok(()),
            _ => Err(DefineError::Extension { name }.about(Part::Name)),
        },
        Change::DropTable { path, if_exists } => drop_table(engine, place, path, if_exists),
        Change::DropTables { paths, if_exists } => {
            for path in &paths {
                must_be_there(engine, place, path.clone(), if_exists)?;
            }
            for path in paths {
                drop_table(engine, place, path, if_exists)?;
            }
            Ok(())
        }
        Change::AlterTable {
            path,
            if_exists,
            change,
            seen,
        } => alter::alter(engine, place.table(path)?, if_exists, change, seen.as_ref()),
        Change::Comment { path, column, text } => comment(engine, place, path, column, text),
        Change::CreateView {
            path,
            or_replace,
            if_not_exists,
            query,
        } => {
            let name = place_for(engine, place, path)?;
            create_view(engine, &name, or_replace, if_not_exists, &query)
        }
        Change::DropView { path, if_exists } => drop_view(engine, place, path, if_exists),
    }
}

/// Refuses what somebody may not change, and everybody what the store keeps for itself.
fn check(principal: &Principal, place: &Place, change: &Change) -> Result<(), Error> {
    let (path, is_schema) = match change {
        Change::CreateDatabase { name, .. } | Change::DropDatabase { name, .. } => {
            refuse_internal(name)?;
            return principal.check_admin();
        }
        Change::RenameDatabase { name, to } => {
            refuse_internal(name)?;
            refuse_internal(to)?;
            return principal.check_admin();
        }
        Change::SetDefaultSchema { database, .. } => {
            refuse_internal(database)?;
            return principal.check(Privilege::Define, access::Place::database(database));
        }
        Change::CreateSchema { path, .. }
        | Change::DropSchema { path, .. }
        | Change::RenameSchema { path, .. }
        | Change::SetSchema { path, .. }
        | Change::SetPolicy { path, .. } => (path, true),
        Change::DropTables { paths, .. }
        | Change::DropSequences { paths, .. }
        | Change::DropTypes { paths, .. } => {
            for path in paths {
                check_table(principal, place, path)?;
            }
            return Ok(());
        }
        Change::CreateExtension { .. } => {
            refuse_internal(&place.database)?;
            let about = access::Place::database(&place.database);
            return principal.check(Privilege::Define, about);
        }
        // Carrying it out looks at the privileges on its table.
        Change::DropIndex { path, .. } => {
            return refuse_internal(&place.table(path.clone())?.database);
        }
        Change::CreateIndex { path, .. }
        | Change::CreateSequence { path, .. }
        | Change::AlterSequence { path, .. }
        | Change::CreateEnum { path, .. }
        | Change::CreateRoutine { path, .. }
        | Change::DropRoutine { path, .. }
        | Change::AlterEnum { path, .. }
        | Change::CreateTable { path, .. }
        | Change::CreateRelation { path, .. }
        | Change::DropTable { path, .. }
        | Change::AlterTable { path, .. }
        | Change::Comment { path, .. }
        | Change::CreateView { path, .. }
        | Change::DropView { path, .. } => (path, false),
    };
    if is_schema {
        let named = path.clone().schema(&place.database);
        let (database, schema) = named.map_err(|wrong| wrong.about(Part::Start))?;
        refuse_internal(&database)?;
        let about = access::Place {
            schema: Some(&schema),
            ..access::Place::database(&database)
        };
        return principal.check(Privilege::Define, about);
    }
    check_table(principal, place, path)
}

/// A table over time that a change would find; `None` = it is not there, and may be missing.
pub fn table_to_alter(
    engine: &Arc<Engine>,
    scope: &Scope,
    path: Path,
    if_exists: bool,
) -> Result<Option<(TableName, Arc<TableSchema>)>, Error> {
    existing_table(engine, Place::of(engine, scope).table(path)?, if_exists)
}

fn create_schema(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_not_exists: bool,
    retention_ns: Option<i64>,
) -> Result<(), Error> {
    let (database, name) = place.schema_to_change(path)?;
    let found = lookup::find_database(&engine.snapshot(), &database);
    found.map_err(|missing| missing.about(Part::Name))?;
    let new = engine.create_schema(&database, &name)?;
    must_be_new(new || if_not_exists, "schema", &name, &database)?;
    if new && retention_ns.is_some() {
        engine.set_schema_retention(&database, &name, retention_ns)?;
    }
    Ok(())
}

fn drop_schema(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_exists: bool,
    cascade: bool,
) -> Result<(), Error> {
    let (database, name) = place.schema_to_change(path)?;
    let snapshot = engine.snapshot();
    match lookup::find_schema(&snapshot, &database, &name) {
        Ok(()) => {}
        Err(_) if if_exists => return Ok(()),
        Err(missing) => return Err(missing.about(Part::Name)),
    }
    let tables = snapshot.tables(&database, &name).unwrap_or_default().len()
        + lookup::relations(&snapshot, &database, &name).len();
    let views = views::views(&snapshot, &database, &name).len();
    if !cascade && tables + views > 0 {
        let in_use = DefineError::SchemaInUse {
            schema: name,
            tables,
            views,
        };
        return Err(in_use.about(Part::Name));
    }
    Ok(engine.drop_schema(&database, &name)?)
}

/// The place where something is to be made; its schema is there, and can be changed.
fn place_for(engine: &Arc<Engine>, place: &Place, path: Path) -> Result<TableName, Error> {
    let snapshot = engine.snapshot();
    let name = place.table(path)?;
    refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
    let found = lookup::find_schema(&snapshot, &name.database, &name.schema);
    found.map_err(|missing| missing.about(Part::Start))?;
    Ok(name)
}

fn in_schema(name: &TableName) -> String {
    format!("\"{}\".\"{}\"", name.database, name.schema)
}

/// Refuses the name of a view or a sequence for a table or relation.
fn refuse_view(snapshot: &Snapshot, name: &TableName, table: &str) -> Result<(), EngineError> {
    refuse_sequence(snapshot, name, table)?;
    let is_view = views::view(snapshot, &name.database, &name.schema, table).is_some();
    must_be_new(!is_view, "view", table, &in_schema(name))
}

fn refuse_sequence(snapshot: &Snapshot, name: &TableName, taken: &str) -> Result<(), EngineError> {
    let is_there = columns::is_sequence(snapshot, (&name.database, &name.schema), taken);
    must_be_new(!is_there, "relation", taken, &in_schema(name))
}

fn create_table(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_not_exists: bool,
    columns: &[Column],
    (settings, declared): (TableSettings, &mut Declarations),
    (is_hypertable, payload): (bool, Option<&str>),
) -> Result<(), Error> {
    let name = place_for(engine, place, path)?;
    refuse_view(&engine.snapshot(), &name, &name.table)?;
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    let is_there = engine.snapshot().table(database, schema, table).is_some();
    must_be_new(
        !is_there || if_not_exists,
        "table",
        table,
        &in_schema(&name),
    )?;
    if is_there {
        return Ok(());
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let made = columns::make_sequences(engine, &name, &names, declared)?;
    let columns: Vec<NewColumn<'_>> = columns.iter().map(new_column).collect();
    let is_new =
        engine.create_declared_table(database, schema, table, &columns, settings, declared);
    if !matches!(is_new, Ok(true)) {
        columns::forget_sequences(engine, &name, &made)?;
    }
    must_be_new(is_new? || if_not_exists, "table", table, &in_schema(&name))?;
    let Some(made) = engine.snapshot().table(database, schema, table) else {
        return Ok(());
    };
    if is_hypertable {
        hypertables::remember(engine, &name, made.id, None)?;
    }
    if let Some(text) = payload {
        payload::set(engine, &name, &made, text)?;
    }
    Ok(())
}

fn create_relation(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_not_exists: bool,
    (new, mut declared): (&NewRelation, Declarations),
) -> Result<(), Error> {
    let name = place_for(engine, place, path)?;
    let (database, schema, relation) = (&name.database, &name.schema, &name.table);
    let snapshot = engine.snapshot();
    refuse_view(&snapshot, &name, relation)?;
    if is_hidden(relation) {
        let name = relation.clone();
        return Err(DefineError::KeepsOwn { name }.about(Part::Name));
    }
    let is_taken = lookup::find_relation(&snapshot, database, schema, relation).is_some()
        || snapshot.table(database, schema, relation).is_some();
    if is_taken && if_not_exists {
        return Ok(());
    }
    let is_table = snapshot.table(database, schema, relation).is_some();
    let what = if is_table { "table" } else { "relation" };
    must_be_new(!is_taken, what, relation, &in_schema(&name))?;
    references::check_new(&snapshot, &name, new, &declared)?;
    let names: Vec<&str> = new.columns.iter().map(|it| it.name.as_str()).collect();
    let made = columns::make_sequences(engine, &name, &names, &mut declared)?;
    let is_new = engine.create_declared_relation(database, schema, relation, new, declared);
    if !matches!(is_new, Ok(true)) {
        columns::forget_sequences(engine, &name, &made)?;
    }
    Ok(must_be_new(
        is_new?,
        "relation",
        relation,
        &in_schema(&name),
    )?)
}

fn drop_table(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_exists: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let name = place.table(path)?;
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if let Some(reader) = lookup::find_relation(&snapshot, database, schema, table) {
        let id = reader.schema().id;
        aggregates::refuse_in_use(&snapshot, &name, |it| *it == AggregateSource::Relation(id))?;
        references::refuse_pointed_to(&snapshot, &name, reader.schema())?;
        engine.drop_relation(database, schema, table)?;
        return Ok(columns::forget_of_relation(engine, &name, reader.schema())?);
    }
    match existing_table(engine, name, if_exists)? {
        Some((name, table)) => {
            let reads = |it: &AggregateSource| aggregates::reads_table(it, table.kept_id());
            aggregates::refuse_in_use(&snapshot, &name, reads)?;
            engine.drop_table(&name.database, &name.schema, &name.table)?;
            Ok(columns::forget_of_table(engine, &name, &table)?)
        }
        None => Ok(()),
    }
}

/// Fails where a table or relation cannot be dropped because it is not there.
fn must_be_there(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_exists: bool,
) -> Result<(), Error> {
    let name = place.table(path)?;
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if lookup::find_relation(&engine.snapshot(), database, schema, table).is_some() {
        return Ok(());
    }
    existing_table(engine, name, if_exists).map(drop)
}

fn new_column(column: &Column) -> NewColumn<'_> {
    NewColumn {
        name: &column.name,
        kind: column.kind,
    }
}

/// Says something of a table, a relation or a column.
fn comment(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    column: Option<String>,
    text: Option<String>,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let name = place.table(path)?;
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if let Some(reader) = lookup::find_relation(&snapshot, database, schema, table) {
        let relation = reader.schema();
        let at = column.map(|column| {
            let mut columns = relation.named_columns().iter();
            let at = columns.position(|known| known.name == column);
            at.ok_or_else(|| {
                let shown = relation.shown_columns().schema;
                lookup::unknown_column(&shown, &column).about(Part::Other)
            })
        });
        let at = at.transpose()?;
        return Ok(
            engine.declare_relation(database, schema, table, |declared| {
                match at.map(|at| declared.columns.get_mut(at)) {
                    Some(Some(column)) => column.comment = text,
                    Some(None) => {}
                    None => declared.table.comment = text,
                }
            })?,
        );
    }
    let Some((name, found)) = existing_table(engine, name.clone(), false)? else {
        return Ok(());
    };
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    match column {
        Some(column) if column == found.time().0 => {
            Ok(engine.declare_table(database, schema, table, |declared| {
                let time = declared.time.get_or_insert_with(|| DeclaredTime {
                    name: column,
                    ..DeclaredTime::default()
                });
                time.column.comment = text;
            })?)
        }
        Some(column) => {
            lookup::find_column(&found, &column).map_err(|missing| missing.about(Part::Other))?;
            Ok(
                engine.declare_column(database, schema, table, &column, |declared| {
                    declared.comment = text;
                })?,
            )
        }
        None => Ok(engine.declare_table(database, schema, table, |declared| {
            declared.comment = text;
        })?),
    }
}

fn create_view(
    engine: &Arc<Engine>,
    name: &TableName,
    or_replace: bool,
    if_not_exists: bool,
    query: &str,
) -> Result<(), Error> {
    let (database, schema, view) = (&name.database, &name.schema, &name.table);
    let snapshot = engine.snapshot();
    let place = in_schema(name);
    refuse_sequence(&snapshot, name, view)?;
    let is_table = snapshot.table(database, schema, view).is_some();
    must_be_new(!is_table, "table", view, &place)?;
    let is_relation = lookup::find_relation(&snapshot, database, schema, view).is_some();
    must_be_new(!is_relation, "relation", view, &place)?;
    let known = views::view(&snapshot, database, schema, view).is_some();
    if known && if_not_exists {
        return Ok(());
    }
    let is_aggregate = aggregates::aggregate(&snapshot, database, schema, view).is_some();
    must_be_new(!known || or_replace && !is_aggregate, "view", view, &place)?;
    Ok(views::store(engine, name, query)?)
}

fn drop_view(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
    if_exists: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let name = place.table(path)?;
    refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
    let (database, schema, view) = (&name.database, &name.schema, &name.table);
    if aggregates::aggregate(&snapshot, database, schema, view).is_some() {
        let name = view.clone();
        return Err(DefineError::IsAggregate { name }.about(Part::Name));
    }
    if views::view(&snapshot, database, schema, view).is_some() {
        return Ok(views::remove(engine, &name)?);
    }
    if if_exists {
        return Ok(());
    }
    let found = lookup::find_schema(&snapshot, database, schema);
    found.map_err(|missing| missing.about(Part::Start))?;
    let unknown = DefineError::Unknown {
        what: Object::View,
        nearest: nearest(view, views::views(&snapshot, database, schema)),
        name: name.shown(),
    };
    Err(unknown.about(Part::Start))
}
