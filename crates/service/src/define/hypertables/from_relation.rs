//! A relation without a key that is to be a hypertable: the table that takes its place.
//!
//! Does: say what the table is, with the column that was chosen as its time; hand over the indexes. Does not: copy rows (the engine
//! does), or touch relations whose rows are found by keys.

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, ColumnKind, Declarations, Declared, DeclaredTable, DeclaredTime, Duplicates,
    Engine, LogicalType, NewColumn, PhysicalType, RelationReader, RelationSchema, TableOfRelation,
    TableSettings, TimeKind,
};

use super::super::change::name::TableName;
use super::super::error::{DefineError, Part};
use super::super::indexes::{self, Owner};
use super::super::lookup;
use super::super::sequences::Numbered;
use super::super::views::kept as aggregates;
use super::unique::make_unique;
use super::{ChunkInterval, NewHypertable};
use crate::error::Error;
use crate::write::references::foreign_keys;

/// Puts a table in the place of the relation. Durable on return.
pub(super) fn make_table(
    engine: &Arc<Engine>,
    name: &TableName,
    reader: &RelationReader,
    new: &NewHypertable,
) -> Result<(), Error> {
    let relation = reader.schema();
    let table = name.table.clone();
    let unique = unique(relation, &new.time);
    let has_other_keys = relation.unique.len() > usize::from(unique.is_some());
    let has_rows = !reader.rows().is_empty();
    if relation.row_number().is_none() || has_other_keys || (unique.is_some() && has_rows) {
        return Err(DefineError::NoTime { table }.about(Part::Start));
    }
    if !foreign_keys(relation).is_empty() {
        let reason = format!(
            "\"{table}\" has a foreign key, and those are not checked in tables over time; drop it first"
        );
        return Err(DefineError::ForeignKey { reason }.about(Part::Start));
    }
    if has_rows && !new.migrate_data {
        return Err(DefineError::NotEmpty { table }.about(Part::Start));
    }
    let reads = |it: &AggregateSource| *it == AggregateSource::Relation(relation.id);
    aggregates::refuse_in_use(&engine.snapshot(), name, reads)?;
    let (declared, at) = declared(relation, &new.time)?;
    check_arguments(relation, &declared, new)?;
    let columns = relation.named_columns().iter().enumerate();
    let columns = columns.filter(|(column, _)| *column != at);
    let columns: Vec<NewColumn<'_>> = columns
        .map(|(_, column)| NewColumn {
            name: &column.name,
            kind: ColumnKind::Field(column.kind),
        })
        .collect();
    let settings = TableSettings {
        duplicates: Duplicates::Keep,
        ..TableSettings::default()
    };
    let made = TableOfRelation {
        columns: &columns,
        settings,
        declared: &declared,
    };
    let within = (name.database.as_str(), name.schema.as_str());
    let place = (within.0, within.1, name.table.as_str());
    let table = engine.make_table_of_relation(place, &made)?;
    let (from, to) = (Owner::Relation(relation.id), Owner::Table(table.kept_id()));
    let handed = indexes::handed_over(&engine.snapshot(), within, from, to, &[]);
    engine.write_relations(&handed)?;
    if let Some((key, columns)) = unique {
        make_unique(engine, name, &table, &key, &columns)?;
    }
    Ok(())
}

/// The name and the columns of the unique key that has the time, which rows of a table over time can have too.
fn unique(relation: &RelationSchema, time: &str) -> Option<(String, Vec<String>)> {
    let mut found = relation.unique.iter().enumerate().map(|(at, key)| {
        let columns = key
            .iter()
            .filter_map(|at| relation.columns.get(*at as usize));
        let columns: Vec<String> = columns.map(|column| column.name.clone()).collect();
        (relation.key_name(at + 1), columns)
    });
    found.find(|(_, columns)| columns.iter().any(|column| column == time))
}

/// Refuses what would be refused of the table, before it is one.
fn check_arguments(
    relation: &RelationSchema,
    declared: &Declarations,
    new: &NewHypertable,
) -> Result<(), Error> {
    let time = declared.table.time.as_ref();
    let is_integer = time.is_some_and(|it| matches!(it.kind, TimeKind::Integer { .. }));
    if is_integer && matches!(new.interval, Some(ChunkInterval::Ns(_))) {
        let argument = "the width of chunks".to_owned();
        return Err(DefineError::IntegerTime { argument }.about(Part::Other));
    }
    let Some((space, _)) = &new.space else {
        return Ok(());
    };
    let columns = relation.named_columns();
    let Some(at) = columns.iter().position(|column| column.name == *space) else {
        let shown = relation.shown_columns().schema;
        return Err(lookup::unknown_column(&shown, space).about(Part::Other));
    };
    let kind = columns.get(at).map(|column| column.kind);
    let is_plain = relation.of(at).is_none_or(LogicalType::is_integer);
    if is_plain && matches!(kind, Some(PhysicalType::Text | PhysicalType::I64)) {
        return Ok(());
    }
    let column = space.clone();
    Err(DefineError::NoTag { column }.about(Part::Other))
}

/// What is declared of the table, and which column of the relation is its time.
fn declared(relation: &RelationSchema, time: &str) -> Result<(Declarations, usize), Error> {
    let columns = relation.named_columns();
    let Some(at) = columns.iter().position(|column| column.name == time) else {
        let shown = relation.shown_columns().schema;
        return Err(lookup::unknown_column(&shown, time).about(Part::Other));
    };
    let said = |at: usize| {
        let said = relation.declared_column(at).cloned().unwrap_or_default();
        let not_null = columns.get(at).is_some_and(|column| !column.nullable);
        Declared {
            not_null,
            position: Some(u32::try_from(at).unwrap_or(u32::MAX)),
            ..said
        }
    };
    let chosen = said(at);
    let counts = chosen.default.as_deref().and_then(Numbered::of).is_some();
    let kind = columns.get(at).map(|column| ColumnKind::Field(column.kind));
    let kind = kind.and_then(|kind| TimeKind::of_field(kind, relation.of(at)));
    let Some((kind, of)) = kind.filter(|_| !counts) else {
        let column = time.to_owned();
        return Err(DefineError::NoTimeType { column }.about(Part::Other));
    };
    let time = DeclaredTime {
        name: time.to_owned(),
        kind,
        column: Declared {
            of,
            not_null: false,
            ..chosen
        },
    };
    let known = relation.declared.as_deref().map(|it| it.table.clone());
    let table = DeclaredTable {
        time: Some(time),
        row_number: None,
        keys: Vec::new(),
        ..known.unwrap_or_default()
    };
    let others = (0..columns.len()).filter(|other| *other != at);
    let columns = others.map(said).collect();
    Ok((Declarations { table, columns }, at))
}
