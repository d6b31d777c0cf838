//! Indexes and sequences as definitions bring them along: made with a table or after it, gone with it.
//!
//! Does: make what a definition names, look up what it may not collide with, and forget both with their table. Does not: keep them
//! (`indexes.rs` and `sequences.rs` do).

use std::sync::Arc;

use nilometer_engine::{
    ColumnSource, Declarations, Duplicates, Engine, Error as EngineError, RelationSchema, Snapshot,
    TableSchema,
};

use super::change::name::TableName;
use super::error::{DefineError, Object, Part};
use super::hypertables::unique::make_unique;
use super::indexes::{self, NewIndex, Owner};
use super::lookup;
use super::place::{existing_table, must_be_new};
use super::sequences::{self, Counting, Numbered, SequenceChange};
use super::{hypertables, views};
use crate::error::Error;

/// The columns of a table or relation that have numbers, with their defaults.
pub(super) fn numbered<'a>(
    columns: impl Iterator<Item = (&'a str, Option<&'a String>)>,
) -> Vec<(String, Numbered)> {
    columns
        .filter_map(|(name, default)| Some((name.to_owned(), Numbered::of(default?)?)))
        .collect()
}

/// Makes the sequences that a new table's columns ask for, and writes their names into the declarations. Returns what was made.
pub(super) fn make_sequences(
    engine: &Arc<Engine>,
    name: &TableName,
    columns: &[&str],
    declared: &mut Declarations,
) -> Result<Vec<String>, Error> {
    let mut made = Vec::new();
    for (column, said) in columns.iter().zip(&mut declared.columns) {
        let Some(mut numbered) = said.default.as_deref().and_then(Numbered::of) else {
            continue;
        };
        if numbered.sequence.is_empty() {
            numbered.sequence = sequences::make(engine, name, (column, None), numbered.start)?;
            said.default = Some(numbered.text());
            made.push(numbered.sequence);
            continue;
        }
        let known = sequences::sequences(&engine.snapshot(), &name.database, &name.schema);
        if known.iter().all(|it| it.name != numbered.sequence) {
            return Err(sequences::unknown(&numbered.sequence).about(Part::Other));
        }
    }
    Ok(made)
}

/// Forgets sequences that were made for a table that is not there in the end.
pub(super) fn forget_sequences(
    engine: &Arc<Engine>,
    name: &TableName,
    made: &[String],
) -> Result<(), EngineError> {
    sequences::forget(engine, (&name.database, &name.schema), made)
}

/// Forgets what was kept of a table that was dropped.
pub(super) fn forget_of_table(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
) -> Result<(), EngineError> {
    let owner = Owner::Table(table.kept_id());
    forget_all(engine, name, owner, &numbered_of_table(table))?;
    hypertables::forget(engine, name, table.kept_id())
}

fn numbered_of_table(table: &TableSchema) -> Vec<(String, Numbered)> {
    let columns = table.tags.iter().chain(&table.fields);
    numbered(columns.map(|column| {
        let declared = column.declared.as_ref();
        let default = declared.and_then(|it| it.default.as_ref());
        (column.name.as_str(), default)
    }))
}

fn numbered_of_relation(relation: &RelationSchema) -> Vec<(String, Numbered)> {
    let columns = relation.columns.iter().enumerate();
    numbered(columns.map(|(at, column)| {
        let declared = relation.declared_column(at);
        let default = declared.and_then(|it| it.default.as_ref());
        (column.name.as_str(), default)
    }))
}

/// Forgets what was kept of a relation that was dropped.
pub(super) fn forget_of_relation(
    engine: &Arc<Engine>,
    name: &TableName,
    relation: &RelationSchema,
) -> Result<(), EngineError> {
    let owner = Owner::Relation(relation.id);
    forget_all(engine, name, owner, &numbered_of_relation(relation))
}

fn forget_all(
    engine: &Arc<Engine>,
    name: &TableName,
    owner: Owner,
    numbered: &[(String, Numbered)],
) -> Result<(), EngineError> {
    let within = (name.database.as_str(), name.schema.as_str());
    let mut known = sequences::sequences(&engine.snapshot(), within.0, within.1);
    // One that another table's column was given too is not this one's.
    known.retain(|sequence| {
        let mut own = numbered.iter();
        sequence.of.0 == name.table
            || own.any(|(column, it)| it.sequence == sequence.name && *column == sequence.of.1)
    });
    if !known.is_empty() {
        let names: Vec<String> = known.into_iter().map(|it| it.name).collect();
        sequences::forget(engine, within, &names)?;
    }
    indexes::forget_of(engine, within, owner)
}

/// Makes a sequence by itself.
pub(super) fn create_sequence(
    engine: &Arc<Engine>,
    name: &TableName,
    if_not_exists: bool,
    counting: Counting,
) -> Result<(), Error> {
    let within = (name.database.as_str(), name.schema.as_str());
    if is_taken(engine, within, &name.table) {
        if if_not_exists {
            return Ok(());
        }
        must_be_new(false, "relation", &name.table, &in_words(within))?;
    }
    sequences::create(engine, name, counting)
}

/// Changes how a sequence counts.
pub(super) fn alter_sequence(
    engine: &Arc<Engine>,
    name: &TableName,
    if_exists: bool,
    change: &SequenceChange,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let within = (name.database.as_str(), name.schema.as_str());
    if is_sequence(&snapshot, within, &name.table) {
        if let Some(Some((table, column))) = &change.owned_by {
            find_owner(&snapshot, within, (table, column))?;
        }
        return sequences::alter(engine, name, change);
    }
    if if_exists {
        return Ok(());
    }
    let found = lookup::find_schema(&snapshot, within.0, within.1);
    found.map_err(|missing| missing.about(Part::Start))?;
    Err(sequences::unknown(&name.table).about(Part::Start))
}

/// Fails where there is no such column for a sequence to go with.
fn find_owner(
    snapshot: &Snapshot,
    within: (&str, &str),
    (table, column): (&str, &str),
) -> Result<(), Error> {
    let columns = if let Some(reader) = lookup::find_relation(snapshot, within.0, within.1, table) {
        reader.schema().shown_columns().schema
    } else {
        let name = TableName {
            database: within.0.to_owned(),
            schema: within.1.to_owned(),
            table: table.to_owned(),
        };
        let found = lookup::find_table(snapshot, &name);
        let found = found.map_err(|missing| missing.about(Part::Other))?;
        Arc::clone(&found.shown_columns().schema)
    };
    match columns.index_of(column) {
        Ok(_) => Ok(()),
        Err(_) => Err(lookup::unknown_column(&columns, column).about(Part::Other)),
    }
}

/// Drops sequences that number no column, once all are known to be there.
pub(super) fn drop_sequences(
    engine: &Arc<Engine>,
    names: &[TableName],
    if_exists: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let mut known = Vec::new();
    for name in names {
        let within = (name.database.as_str(), name.schema.as_str());
        if !is_sequence(&snapshot, within, &name.table) {
            if if_exists {
                continue;
            }
            let found = lookup::find_schema(&snapshot, within.0, within.1);
            found.map_err(|missing| missing.about(Part::Start))?;
            return Err(sequences::unknown(&name.table).about(Part::Start));
        }
        if let Some((table, column)) = numbered_by(&snapshot, within, &name.table) {
            let sequence = name.table.clone();
            let numbers = DefineError::NumbersColumn {
                sequence,
                table,
                column,
            };
            return Err(numbers.about(Part::Start));
        }
        known.push(name);
    }
    for name in known {
        let within = (name.database.as_str(), name.schema.as_str());
        sequences::forget(engine, within, std::slice::from_ref(&name.table))?;
    }
    Ok(())
}

pub(super) fn is_sequence(snapshot: &Snapshot, within: (&str, &str), name: &str) -> bool {
    let all = sequences::sequences(snapshot, within.0, within.1);
    all.iter().any(|it| it.name == name)
}

/// The table and the column of a schema that a sequence numbers.
fn numbered_by(
    snapshot: &Snapshot,
    within: (&str, &str),
    sequence: &str,
) -> Option<(String, String)> {
    let of = |table: &str, all: Vec<(String, Numbered)>| {
        let mut all = all.into_iter();
        let found = all.find(|(_, numbered)| numbered.sequence == sequence);
        found.map(|(column, _)| (table.to_owned(), column))
    };
    let tables = snapshot.tables(within.0, within.1).unwrap_or_default();
    let in_tables = tables.iter().find_map(|name| {
        let table = snapshot.table(within.0, within.1, name)?;
        of(name, numbered_of_table(&table))
    });
    in_tables.or_else(|| {
        let relations = lookup::relations(snapshot, within.0, within.1);
        relations.iter().find_map(|name| {
            let reader = snapshot.relation(within.0, within.1, name)?;
            of(name, numbered_of_relation(reader.schema()))
        })
    })
}

/// Whether something of a schema has this name already that lives among its tables.
fn is_taken(engine: &Arc<Engine>, within: (&str, &str), name: &str) -> bool {
    let snapshot = engine.snapshot();
    snapshot.table(within.0, within.1, name).is_some()
        || lookup::find_relation(&snapshot, within.0, within.1, name).is_some()
        || views::view(&snapshot, within.0, within.1, name).is_some()
        || indexes::owner_text(&snapshot, within, name).is_some()
        || is_sequence(&snapshot, within, name)
        || key_owner(engine, within, name).is_some()
}

/// Makes an index.
pub(super) fn create_index(
    engine: &Arc<Engine>,
    table: TableName,
    new: &NewIndex,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let (database, schema) = (table.database.clone(), table.schema.clone());
    let within = (database.as_str(), schema.as_str());
    let relation = lookup::find_relation(&snapshot, within.0, within.1, &table.table);
    let columns = new.columns.iter();
    let parts: Vec<&str> = columns
        .map(|column| column.as_deref().unwrap_or("expr"))
        .collect();
    let base = format!("{}_{}_idx", table.table, parts.join("_"));
    let name = new.name.as_deref();
    if let Some(name) = name {
        let is_new = indexes::owner_text(&snapshot, within, name).is_none();
        let is_table = snapshot.table(within.0, within.1, name).is_some()
            || lookup::find_relation(&snapshot, within.0, within.1, name).is_some()
            || views::view(&snapshot, within.0, within.1, name).is_some()
            || is_sequence(&snapshot, within, name)
            || key_owner(engine, within, name).is_some();
        if new.if_not_exists && (!is_new || is_table) {
            return Ok(());
        }
        must_be_new(is_new && !is_table, "relation", name, &in_words(within))?;
    }
    let check = |columns: &arrow_schema::Schema| {
        let mut named = new.columns.iter().flatten();
        match named.find(|name| columns.index_of(name).is_err()) {
            Some(name) => Err(lookup::unknown_column(columns, name).about(Part::Other)),
            None => Ok(()),
        }
    };
    let named: Vec<String> = new.columns.iter().flatten().cloned().collect();
    if let Some(reader) = relation {
        let relation = reader.schema();
        check(&relation.shown_columns().schema)?;
        let owner = Owner::Relation(relation.id);
        if !new.is_unique {
            return Ok(indexes::keep(engine, within, owner, (name, &base), new)?);
        }
        let key = name.unwrap_or(&base);
        // The relation gets another id, and its plain indexes are kept by it: both in one record, or a kill between them would
        // leave it without.
        engine.add_unique_key(
            (within.0, within.1, &table.table),
            (key, &named),
            |from, to| {
                let (from, to) = (Owner::Relation(from), Owner::Relation(to));
                indexes::handed_over(&engine.snapshot(), within, from, to, &[])
            },
        )?;
        return Ok(());
    }
    let Some((table, schema)) = existing_table(engine, table, false)? else {
        return Ok(());
    };
    check(&schema.shown_columns().schema)?;
    if new.is_unique {
        return make_unique(engine, &table, &schema, name.unwrap_or(&base), &named);
    }
    let owner = Owner::Table(schema.kept_id());
    indexes::keep(engine, within, owner, (name, &base), new)?;
    hypertables::tag_by_index(engine, &table, &schema, &new.columns)
}

/// Drops an index. Keys stay.
pub(super) fn drop_index(
    engine: &Arc<Engine>,
    index: &TableName,
    if_exists: bool,
) -> Result<(), Error> {
    let within = (index.database.as_str(), index.schema.as_str());
    let snapshot = engine.snapshot();
    if is_live(engine, within, &index.table) {
        return Ok(indexes::forget(engine, within, &index.table)?);
    }
    if let Some(table) = key_owner(engine, within, &index.table) {
        let name = index.table.clone();
        return Err(DefineError::IsKey { name, table }.about(Part::Start));
    }
    if if_exists {
        return Ok(());
    }
    let found = lookup::find_schema(&snapshot, within.0, within.1);
    found.map_err(|missing| missing.about(Part::Start))?;
    let unknown = DefineError::Unknown {
        what: Object::Index,
        name: index.table.clone(),
        nearest: None,
    };
    Err(unknown.about(Part::Start))
}

/// The table that an index of this name is kept for, if it is there.
pub(super) fn table_of_index(engine: &Arc<Engine>, index: &TableName) -> Option<TableName> {
    let within = (index.database.as_str(), index.schema.as_str());
    let snapshot = engine.snapshot();
    let owner = indexes::owner_text(&snapshot, within, &index.table);
    let of = |table: &str| TableName {
        table: table.to_owned(),
        ..index.clone()
    };
    let tables = snapshot.tables(within.0, within.1).unwrap_or_default();
    let mut tables = tables.iter();
    let table = tables.find(|name| {
        let table = snapshot.table(within.0, within.1, name);
        let owner = owner.as_deref().zip(table);
        owner.is_some_and(|(owner, table)| indexes::is_of(owner, Owner::Table(table.kept_id())))
    });
    if let Some(table) = table {
        return Some(of(table));
    }
    let relations = lookup::relations(&snapshot, within.0, within.1);
    let mut relations = relations.iter();
    let relation = relations.find(|name| {
        let reader = snapshot.relation(within.0, within.1, name);
        let owner = owner.as_deref().zip(reader);
        owner.is_some_and(|(owner, reader)| {
            indexes::is_of(owner, Owner::Relation(reader.schema().id))
        })
    });
    let relation = relation.map(|name| of(name));
    relation.or_else(|| key_owner(engine, within, &index.table).map(|table| of(&table)))
}

fn is_live(engine: &Arc<Engine>, within: (&str, &str), name: &str) -> bool {
    indexes::owner_text(&engine.snapshot(), within, name).is_some()
}

/// The table or relation of which a key has this name.
fn key_owner(engine: &Arc<Engine>, within: (&str, &str), name: &str) -> Option<String> {
    let snapshot = engine.snapshot();
    let relations = lookup::relations(&snapshot, within.0, within.1);
    let relation = relations.into_iter().find(|relation| {
        let reader = snapshot.relation(within.0, within.1, relation);
        reader.is_some_and(|reader| {
            let schema = reader.schema();
            schema.keys().any(|(key, _)| schema.key_name(key) == name)
        })
    });
    let of_table = |table: &String| {
        let table = snapshot.table(within.0, within.1, table);
        table.is_some_and(|table| {
            let declared = table.declared.iter().flat_map(|it| &it.keys);
            let mut names = declared.map(|(_, name)| name);
            table.settings.duplicates == Duplicates::Unique && names.any(|known| known == name)
        })
    };
    let tables = snapshot.tables(within.0, within.1).unwrap_or_default();
    relation.or_else(|| tables.into_iter().find(of_table))
}

fn in_words((database, schema): (&str, &str)) -> String {
    format!("\"{database}\".\"{schema}\"")
}

/// The default of a table's column, by its name as SQL shows it.
pub(super) fn default_of<'a>(table: &'a TableSchema, column: &str) -> Option<&'a str> {
    let position = table.shown_columns().named(column)?;
    let declared = match table.source(position)? {
        ColumnSource::Time => return None,
        ColumnSource::Tag(at) => table.tags.get(at)?.declared.as_ref()?,
        ColumnSource::Field(at) => table.fields.get(at)?.declared.as_ref()?,
    };
    declared.default.as_deref()
}

/// The sequence that numbers a column, of a table or a relation.
pub fn sequence_of(snapshot: &Snapshot, name: &TableName, column: &str) -> Option<String> {
    numbers_of_column(snapshot, name, column).map(|it| it.sequence)
}

/// The sequences that were made for the columns of a table or relation, each with its first number.
pub fn own_sequences(snapshot: &Snapshot, name: &TableName) -> Vec<(TableName, i64)> {
    let all = sequences::sequences(snapshot, &name.database, &name.schema);
    let own = all.into_iter().filter(|it| it.of.0 == name.table);
    let own = own.filter_map(|it| {
        let numbered = numbers_of_column(snapshot, name, &it.of.1)?;
        let sequence = TableName {
            table: it.name,
            ..name.clone()
        };
        (numbered.sequence == sequence.table).then_some((sequence, numbered.start))
    });
    own.collect()
}

fn numbers_of_column(snapshot: &Snapshot, name: &TableName, column: &str) -> Option<Numbered> {
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    let default = if let Some(table) = snapshot.table(database, schema, of) {
        default_of(&table, column).map(str::to_owned)
    } else {
        let reader = lookup::find_relation(snapshot, database, schema, of)?;
        let relation = reader.schema();
        let mut columns = relation.named_columns().iter();
        let at = columns.position(|it| it.name == column)?;
        relation.declared_column(at)?.default.clone()
    };
    Numbered::of(&default?)
}
