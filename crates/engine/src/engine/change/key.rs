//! A unique key for a relation that is there.
//!
//! Does: put the relation in the place of itself with the key, with its rows and with what others keep of it by its id, as one record.
//! Does not: change it in place: an id means one set of columns and keys for ever, so it gets another.

use std::sync::Arc;

use crate::batch::Batch;
use crate::declared::Declarations;
use crate::engine::Engine;
use crate::engine::change::ddl::{find_schema, in_schema};
use crate::engine::change::relations::RelationChange;
use crate::error::Error;
use crate::relation::{Change, NEWEST, RelationId, RelationSchema};
use crate::schema::SchemaId;

impl Engine {
    /// Adds a unique key to a relation under this name; two rows that share it are an error, and nothing is done. The relation gets
    /// another id, as if it had been made with the key and filled; `beside` makes changes of other relations of that, from the id
    /// that it had to the one that it gets, which come with it or not at all. Writers wait meanwhile, as long as its rows take.
    /// Durable on return.
    pub fn add_unique_key(
        &self,
        (database, schema, relation): (&str, &str, &str),
        (key, columns): (&str, &[String]),
        mut beside: impl FnMut(RelationId, RelationId) -> Vec<RelationChange>,
    ) -> Result<RelationId, Error> {
        let (_, owner) = find_schema(&self.sequencer.catalogue(), database, schema)?;
        let missing = || Error::NotFound {
            what: "relation",
            name: relation.to_owned(),
            place: in_schema(database, schema),
            hint: "make it first".to_owned(),
        };
        // What is refused for its size is refused before anybody waits.
        let known = self.relation_now(owner, relation).ok_or_else(missing)?;
        let made = with_key(&known, key, columns)?;
        let rows = self.rows_for(&known, made)?;
        self.site.check_space()?;
        self.site.check_batch_rows(rows.rows() as u64)?;
        self.check_relations(&rows.relations)?;
        self.jobs.help_when_full(rows.bytes())?;
        drop(rows);
        let written = self.sequencer.write_at(|lsn| {
            // Whoever looks for what is kept beside the relation sees what is durable.
            self.sequencer.log().sync(lsn - 1)?;
            let known = self.relation_now(owner, relation).ok_or_else(missing)?;
            let made = with_key(&known, key, columns)?;
            let mut batch = self.rows_for(&known, made)?;
            for change in &mut batch.relations {
                if let Change::Insert(id, _) = change {
                    *id = RelationId(lsn);
                }
            }
            let beside = beside(known.id, RelationId(lsn));
            batch.relations.extend(self.encode_relations(&beside)?);
            Ok(batch)
        })?;
        Ok(RelationId(written))
    }

    /// The relation that has a name now, durable or not.
    fn relation_now(&self, schema: SchemaId, name: &str) -> Option<Arc<RelationSchema>> {
        let relations = self.sequencer.relations();
        let known = relations.named(schema, name)?;
        relations.schema_now(known.id)
    }

    /// The batch that puts `made` in the place of a relation, with its rows; who they are inserted into is not known yet.
    fn rows_for(&self, known: &RelationSchema, made: RelationSchema) -> Result<Batch, Error> {
        let rows = self.sequencer.relations().rows(known.id, NEWEST);
        let mut relations = vec![Change::Drop(known.id), Change::Create(made.clone())];
        if !rows.is_empty() {
            let rows = rows.iter().map(|row| row.to_vec()).collect();
            let insert = RelationChange::Insert(Arc::new(made), rows);
            relations.extend(self.encode_relations(&[insert])?);
        }
        Ok(Batch {
            relations,
            ..Batch::default()
        })
    }
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
