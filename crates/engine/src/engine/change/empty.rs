//! Changes that only a table or relation without rows can take: what tells its rows apart.
//!
//! Does: turn fields of a table into tags and add a unique key to a relation, each as one record, where no row is there, and
//! asks that under the sequencer. Does not: move rows that are there from one form into the other.

use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::batch::Batch;
use crate::declared::{Declarations, DeclaredTime};
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::change::ddl::{find_column, find_schema, find_table, in_schema};
use crate::error::Error;
use crate::logical::LogicalType;
use crate::relation::{Change, RelationId, RelationSchema};
use crate::scan::has_rows;
use crate::schema::{ColumnDef, ColumnId, ColumnKind, ColumnSource, TableSchema};
use crate::state::State;

impl Engine {
    /// Whether a table has a row, as of this moment.
    pub fn has_rows(&self, database: &str, schema: &str, table: &str) -> Result<bool, Error> {
        let found = find_table(&self.sequencer.catalogue(), database, schema, table)?;
        let (now, ()) = self
            .sequencer
            .moment(|| (self.sequencer.log().durable(), ()));
        has_rows(&now, &found)
    }

    /// Makes tags of fields of text or integers, named as [`TableSchema::arrow_schema`] shows them. SQL goes on showing all
    /// columns where they were. The table must have no rows: the same rows would be of other series. Durable on return.
    pub fn make_tags(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        columns: &[String],
    ) -> Result<(), Error> {
        let mut sequencer = self.sequencer.lock();
        let found = find_table(&self.sequencer.catalogue(), database, schema, table)?;
        let (now, ()) = self.sequencer.moment(|| (sequencer.next_lsn - 1, ()));
        if has_rows(&now, &found)? {
            return Err(Error::HasRows {
                table: found.name.clone(),
            });
        }
        let mut made = Vec::new();
        for name in columns {
            let column = find_column(&found, name)?;
            let of = match (column.kind, column.of()) {
                (ColumnKind::Tag, _) => continue,
                (ColumnKind::Field(PhysicalType::Text), None) => None,
                (ColumnKind::Field(PhysicalType::I64), None) => Some(LogicalType::BigInt),
                (ColumnKind::Field(PhysicalType::I64), Some(of)) if of.is_integer() => Some(of),
                _ => {
                    return Err(Error::TypedColumn {
                        table: found.name.clone(),
                        column: column.name.clone(),
                        reason: "a tag is text or an integer, without a length of its own"
                            .to_owned(),
                    });
                }
            };
            made.push((column.id, of));
        }
        if made.is_empty() {
            return Ok(());
        }
        self.site
            .check_table_tags((found.tags.len() + made.len()) as u64)?;
        let planned = {
            let catalogue = self.sequencer.catalogue();
            let mut nth = 0;
            let mut new_column = |column: &ColumnDef| {
                let made = catalogue.plan_nth_column(nth, found.id, ColumnKind::Tag, &column.name);
                nth += 1;
                made
            };
            planned(&found, &made, &mut new_column)
        };
        self.commit(&mut sequencer, &planned)
    }

    /// Adds a unique key to a relation that has no rows, under this name. It gets another id, as if it had been made with the
    /// key. Durable on return.
    pub fn add_unique_key(
        &self,
        database: &str,
        schema: &str,
        relation: &str,
        (key, columns): (&str, &[String]),
    ) -> Result<RelationId, Error> {
        let (_, owner) = find_schema(&self.sequencer.catalogue(), database, schema)?;
        loop {
            let known = self.sequencer.relations().named(owner, relation).cloned();
            let known = known.ok_or_else(|| Error::NotFound {
                what: "relation",
                name: relation.to_owned(),
                place: in_schema(database, schema),
                hint: "make it first".to_owned(),
            })?;
            let made = with_key(&known, key, columns)?;
            let batch = Batch {
                relations: vec![Change::Drop(known.id), Change::Create(made)],
                ..Batch::default()
            };
            let mut has_rows = false;
            let still_holds = |_: &State| {
                has_rows = self.sequencer.relations().live(known.id) > 0;
                !has_rows
            };
            let written = self.write_if(batch, self.sequencer.catalogue_epoch(), still_holds)?;
            if let Some(written) = written {
                return Ok(RelationId(written.lsn));
            }
            if has_rows {
                return Err(Error::HasRows {
                    table: relation.to_owned(),
                });
            }
        }
    }
}

/// The definitions that make tags of columns: each goes, and comes again under its name and in its place.
fn planned(
    table: &TableSchema,
    made: &[(ColumnId, Option<LogicalType>)],
    new_column: &mut dyn FnMut(&ColumnDef) -> Definition,
) -> Vec<Definition> {
    let id = table.id;
    let mut planned: Vec<Definition> = made
        .iter()
        .map(|(column, _)| Definition::DropColumn {
            id: *column,
            table: id,
        })
        .collect();
    let shown = table.shown_columns();
    for at in 0..shown.len() {
        let place = Some(u32::try_from(at).unwrap_or(u32::MAX));
        let source = shown.position(at).and_then(|it| table.source(it));
        let column = match source {
            None => continue,
            Some(ColumnSource::Time) => {
                let mut declared = table.declared.as_deref().cloned().unwrap_or_default();
                let (name, kind) = table.time();
                let time = declared.time.get_or_insert_with(|| DeclaredTime {
                    name: name.to_owned(),
                    kind,
                    ..DeclaredTime::default()
                });
                time.column.position = place;
                planned.push(Definition::DeclareTable {
                    id,
                    declared: Box::new(declared),
                });
                continue;
            }
            Some(ColumnSource::Tag(at)) => table.tags.get(at),
            Some(ColumnSource::Field(at)) => table.fields.get(at),
        };
        let Some(column) = column else { continue };
        let mut declared = column.declared.as_deref().cloned().unwrap_or_default();
        declared.position = place;
        let mut column_id = column.id;
        if let Some((_, of)) = made.iter().find(|(made, _)| *made == column.id) {
            declared.of = *of;
            let new = new_column(column);
            if let Definition::Column { id, .. } = &new {
                column_id = *id;
            }
            planned.push(new);
        }
        planned.push(Definition::DeclareColumn {
            id: column_id,
            table: id,
            declared: Box::new(declared),
        });
    }
    planned
}

/// The same relation with one key more.
fn with_key(
    known: &Arc<RelationSchema>,
    key: &str,
    columns: &[String],
) -> Result<RelationSchema, Error> {
    let refused = |reason: String| Error::RelationDefinition {
        name: known.name.clone(),
        reason,
    };
    let mut positions = Vec::new();
    for wanted in columns {
        let at = known.columns.iter().position(|it| it.name == *wanted);
        let at = at.and_then(|at| u32::try_from(at).ok());
        positions.push(at.ok_or_else(|| {
            refused(format!(
                "its key names a column \"{wanted}\" that it has not"
            ))
        })?);
    }
    let mut made = RelationSchema {
        id: RelationId(0),
        ..RelationSchema::clone(known)
    };
    made.unique.push(positions);
    let mut declared: Declarations = known.declared.as_deref().cloned().unwrap_or_default();
    let number = u32::try_from(made.unique.len()).unwrap_or(u32::MAX);
    declared.table.keys.push((number, key.to_owned()));
    made.declare(declared).map_err(|what| refused(what.0))?;
    made.check().map_err(|what| refused(what.0))?;
    Ok(made)
}
