//! Changes that only a table without rows can take: what tells its rows apart.
//!
//! Does: turn fields of a table into tags as one record, where no row is there, and asks that under the sequencer. Does not: move
//! rows that are there from one form into the other, or change relations (`key.rs` does).

use nilometer_codec::PhysicalType;

use crate::declared::DeclaredTime;
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::change::ddl::{exists, find_column, find_table, in_table};
use crate::error::Error;
use crate::logical::LogicalType;
use crate::scan::has_rows;
use crate::schema::{ColumnDef, ColumnId, ColumnKind, ColumnSource, TableSchema};

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
        let made = tags_of(&found, columns)?;
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
}

/// Which of the columns are to become tags, and the types that they have then; those that are tags are left out.
pub(super) fn tags_of(
    table: &TableSchema,
    columns: &[String],
) -> Result<Vec<(ColumnId, Option<LogicalType>)>, Error> {
    let mut made = Vec::new();
    for name in columns {
        let column = find_column(table, name)?;
        let of = match (column.kind, column.of()) {
            (ColumnKind::Tag, _) => continue,
            (ColumnKind::Field(PhysicalType::Text), None) => None,
            (ColumnKind::Field(PhysicalType::I64), None) => Some(LogicalType::BigInt),
            (ColumnKind::Field(PhysicalType::I64), Some(of)) if of.is_integer() => Some(of),
            _ => {
                return Err(Error::TypedColumn {
                    table: table.name.clone(),
                    column: column.name.clone(),
                    reason: "a tag is text or an integer, without a length of its own".to_owned(),
                });
            }
        };
        if table.column_like(ColumnKind::Tag, &column.name).is_some() {
            return Err(exists("tag", &column.name, in_table(&table.name)));
        }
        made.push((column.id, of));
    }
    Ok(made)
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
