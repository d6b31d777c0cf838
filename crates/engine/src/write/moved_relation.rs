//! A relation without a key that becomes a table over time, with its rows.
//!
//! Does: copy the rows into the table, again where somebody wrote to the relation meanwhile, and have it put in the place of the
//! relation. Does not: hand over what others keep of the relation.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::engine::{Engine, TableOfRelation};
use crate::error::Error;
use crate::ingest::{OnConflict, Session, Target};
use crate::relation::RelationReader;
use crate::schema::TableSchema;

/// Copies that are begun because somebody wrote meanwhile.
const TRIES_MAX: usize = 20;

impl Engine {
    /// Puts a table in the place of a relation, with its rows: columns have their names. Readers and writers go on meanwhile; if rows
    /// are written again and again it is refused in the end. Durable on return.
    pub fn make_table_of_relation(
        self: &Arc<Self>,
        (database, schema, relation): (&str, &str, &str),
        table: &TableOfRelation<'_>,
    ) -> Result<Arc<TableSchema>, Error> {
        for _ in 0..TRIES_MAX {
            let snapshot = self.snapshot();
            let reader = snapshot.relation(database, schema, relation);
            let reader = reader.ok_or_else(|| Error::NotFound {
                what: "relation",
                name: relation.to_owned(),
                place: format!("\"{database}\".\"{schema}\""),
                hint: "make it first".to_owned(),
            })?;
            let to = self.make_unfinished((database, schema), &reader, table)?;
            let done = self
                .fill((database, schema), &reader, &to)
                .and_then(|()| self.put_in_place_of(&reader, &to, snapshot.lsn()));
            match done {
                Ok(None) => {
                    let made = self.snapshot().table(database, schema, relation);
                    return made.ok_or_else(|| Error::RelationChanged {
                        relation: relation.to_owned(),
                    });
                }
                Ok(Some(changed)) => {
                    self.drop_copy(to.id)?;
                    self.sequencer().wait_for(changed)?;
                }
                Err(error) => {
                    // What went wrong is said, and not that the copy stays until the next start.
                    drop(self.drop_copy(to.id));
                    return Err(error);
                }
            }
        }
        Err(Error::RelationChanged {
            relation: relation.to_owned(),
        })
    }

    fn fill(
        self: &Arc<Self>,
        (database, schema): (&str, &str),
        reader: &RelationReader,
        to: &Arc<TableSchema>,
    ) -> Result<(), Error> {
        let shown = reader.schema().shown_columns();
        let all: Vec<usize> = (0..shown.len()).collect();
        let mut session = Session::in_schema(Arc::clone(self), database, Some(schema))?;
        // They met the conditions where they are.
        session.have_checked(true);
        let target = Target {
            schema: Some(schema),
            table: &to.name,
        };
        for batch in reader.read(&all) {
            let columns = batch.columns().iter().enumerate();
            let columns = columns.map(|(at, stored)| shown.show(at, stored)).collect();
            let rows = RecordBatch::try_new(Arc::clone(&shown.schema), columns);
            let rows = rows.expect("columns as they are shown have the types that are shown");
            session.write_arrow(target, &rows, OnConflict::Replace)?;
        }
        Ok(())
    }
}
