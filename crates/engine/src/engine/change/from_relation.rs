//! The table that takes the place of a relation without a key.
//!
//! Does: make it under a name that nobody sees, and give it the relation's as one record of definitions, with which the relation is
//! gone: a crash leaves the one or the other. Does not: copy the rows (`write/moved_relation.rs` does), or choose the time or the columns
//! of the table (its caller does).

use std::sync::Arc;

use crate::catalogue::UNFINISHED;
use crate::declared::Declarations;
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::change::ddl::{NewColumn, find_schema, find_table};
use crate::engine::change::declare::plan_declared;
use crate::error::Error;
use crate::relation::RelationReader;
use crate::schema::{Lsn, TableSchema, TableSettings};

/// The table that takes the place of a relation.
#[derive(Debug, Clone)]
pub struct TableOfRelation<'a> {
    /// Its columns but for the time.
    pub columns: &'a [NewColumn<'a>],
    /// Its settings.
    pub settings: TableSettings,
    /// What is declared of it, its time first of all, and of each column.
    pub declared: &'a Declarations,
}

impl Engine {
    /// Makes the table that the rows are copied to.
    pub(crate) fn make_unfinished(
        &self,
        (database, schema): (&str, &str),
        reader: &RelationReader,
        table: &TableOfRelation<'_>,
    ) -> Result<Arc<TableSchema>, Error> {
        let name = &reader.schema().name;
        self.check_declared_table(name, table.columns, table.settings, table.declared)?;
        let copy = format!("{UNFINISHED}r{}", reader.schema().id.0);
        self.alter(|catalogue| {
            let (_, owner) = find_schema(catalogue, database, schema)?;
            // One that an earlier try, or an earlier process, has left.
            let left = catalogue.table_id(owner, &copy);
            let left = left.map(|id| Definition::DropTable { id });
            let planned = plan_declared(
                catalogue,
                (owner, &copy),
                table.columns,
                table.settings,
                table.declared,
            );
            Ok(left.into_iter().chain(planned).collect())
        })?;
        find_table(&self.sequencer.catalogue(), database, schema, &copy)
    }

    /// Gives the copy the name of the relation, which is gone with that. The LSN of what was written to the relation after the copy
    /// was begun, if something was; then nothing is done.
    pub(crate) fn put_in_place_of(
        &self,
        reader: &RelationReader,
        to: &TableSchema,
        seen: Lsn,
    ) -> Result<Option<Lsn>, Error> {
        let from = reader.schema();
        let mut order = self.sequencer.lock();
        let changed = {
            let relations = self.sequencer.relations();
            let now = relations.schema(from.id);
            let is_same = now.is_some_and(|now| now.declared == from.declared);
            let changed = relations.changed_lsn(from.id);
            (!is_same || changed > seen).then_some(changed)
        };
        if changed.is_some() {
            return Ok(changed);
        }
        let renamed = Definition::RenameTable {
            id: to.id,
            name: from.name.clone(),
        };
        self.commit(&mut order, &[renamed])?;
        Ok(None)
    }
}
