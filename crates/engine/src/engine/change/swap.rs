//! A relation in the place of itself, with other columns, keys, conditions or another name.
//!
//! Does: put it there with its rows and with what others keep of it by its id or its name, as one record; refuse it where rows were
//! written after somebody had looked at them. Does not: change it in place: an id means one set of columns and keys for ever, so it
//! gets another, and whoever is about to write to the old one is told that it is gone. Know what a change means (its callers do).

use std::sync::Arc;

use crate::batch::Batch;
use crate::declared::{Declarations, Declared};
use crate::engine::Engine;
use crate::engine::change::ddl::{find_schema, in_schema};
use crate::engine::change::relations::RelationChange;
use crate::engine::check_name;
use crate::error::Error;
use crate::relation::{Change, NEWEST, RelationColumn, RelationId, RelationSchema, Value};
use crate::schema::{Lsn, SchemaId};

/// A relation as it shall be. Its id and its schema are looked after.
#[derive(Debug, Clone, PartialEq)]
pub struct Swapped {
    /// Its name, its columns and its keys. Without a primary key its rows are numbered anew.
    pub schema: RelationSchema,
    /// What is declared of it.
    pub declared: Declarations,
    /// Its rows, each with a value for each column.
    pub rows: Vec<Vec<Value>>,
}

/// What comes with a relation that gets another id, or not at all.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Changes of rows of other relations.
    pub rows: Vec<RelationChange>,
    /// What other relations are declared as from then on.
    pub declared: Vec<(RelationId, Declarations)>,
}

impl Swapped {
    /// The same with a column that numbers its rows in their order, where it has no primary key.
    fn numbered(mut self) -> Self {
        if !self.schema.primary_key.is_empty() {
            return self;
        }
        let place = u32::try_from(self.schema.columns.len()).unwrap_or(u32::MAX);
        self.schema.primary_key = vec![place];
        self.schema.columns.push(RelationColumn::numbers());
        if !self.declared.columns.is_empty() {
            self.declared.columns.push(Declared::default());
        }
        let mut next = 1;
        for row in &mut self.rows {
            row.push(Value::I64(next));
            next += 1;
        }
        self.declared.table.row_number = Some(next);
        self
    }
}

impl Engine {
    /// Puts what `make` makes of a relation and its rows in its place, under another id; `beside` says what comes with it, from the
    /// id that it had to the one that it gets. If a row was written after `seen`, nothing is done and the error says so. Writers
    /// wait meanwhile, as long as its rows take. Durable on return.
    pub fn swap_relation(
        &self,
        (database, schema, relation): (&str, &str, &str),
        seen: Option<Lsn>,
        make: impl Fn(&Arc<RelationSchema>, &[Arc<[Value]>]) -> Result<Swapped, Error>,
        mut beside: impl FnMut(RelationId, RelationId) -> Beside,
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
        let rows = self.rows_for(&known, &make)?;
        self.site.check_space()?;
        self.site.check_batch_rows(rows.rows() as u64)?;
        self.check_relations(&rows.relations)?;
        self.jobs.help_when_full(rows.bytes())?;
        drop(rows);
        let written = self.sequencer.write_at(|lsn| {
            // Whoever looks for what is kept beside the relation sees what is durable.
            self.sequencer.log().sync(lsn - 1)?;
            let known = self.relation_now(owner, relation).ok_or_else(missing)?;
            let changed = self.sequencer.relations().changed_lsn(known.id);
            if seen.is_some_and(|seen| changed > seen) {
                return Err(Error::RelationChanged {
                    relation: relation.to_owned(),
                });
            }
            let mut batch = self.rows_for(&known, &make)?;
            for change in &mut batch.relations {
                if let Change::Insert(id, _) = change {
                    *id = RelationId(lsn);
                }
            }
            let Beside { rows, declared } = beside(known.id, RelationId(lsn));
            batch.relations.extend(self.encode_relations(&rows)?);
            let declared = declared
                .into_iter()
                .map(|(id, said)| Change::Declare(id, Arc::new(said)));
            batch.relations.extend(declared);
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

    /// The batch that puts a relation in the place of what it was, with its rows; who they are inserted into is not known yet.
    fn rows_for(
        &self,
        known: &Arc<RelationSchema>,
        make: &impl Fn(&Arc<RelationSchema>, &[Arc<[Value]>]) -> Result<Swapped, Error>,
    ) -> Result<Batch, Error> {
        let rows = self.sequencer.relations().rows(known.id, NEWEST);
        let Swapped {
            mut schema,
            declared,
            rows,
        } = make(known, &rows)?.numbered();
        schema.id = RelationId(0);
        schema.schema = known.schema;
        check_name("relation", &schema.name)?;
        for column in &schema.columns {
            check_name("column", &column.name)?;
        }
        let refused = |name: &str, reason: String| Error::RelationDefinition {
            name: name.to_owned(),
            reason,
        };
        schema
            .check()
            .map_err(|what| refused(&known.name, what.0))?;
        schema
            .declare(declared)
            .map_err(|what| refused(&known.name, what.0))?;
        let mut relations = vec![Change::Drop(known.id), Change::Create(schema.clone())];
        if !rows.is_empty() {
            let insert = RelationChange::Insert(Arc::new(schema), rows);
            relations.extend(self.encode_relations(&[insert])?);
        }
        Ok(Batch {
            relations,
            ..Batch::default()
        })
    }
}
