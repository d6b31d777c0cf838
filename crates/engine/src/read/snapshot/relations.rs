//! Relations as a snapshot sees them.

use std::sync::Arc;

use super::Snapshot;
use crate::relation::{RelationId, RelationReader};

impl Snapshot {
    /// Names of a schema's relations, sorted; `None` = no such schema.
    pub fn relations(&self, database: &str, schema: &str) -> Option<Vec<String>> {
        let id = self.schema_id(database, schema)?;
        let all = self.store.relations().of_schema(id, self.lsn());
        Some(all.iter().map(|relation| relation.name.clone()).collect())
    }

    /// Whether the transaction that reads has changed a relation.
    pub(crate) fn has_own_rows(&self, id: RelationId) -> bool {
        self.own.as_ref().is_some_and(|own| own.of(id).is_some())
    }

    /// A relation by its name.
    pub fn relation(&self, database: &str, schema: &str, name: &str) -> Option<RelationReader> {
        let id = self.schema_id(database, schema)?;
        let relation = self
            .store
            .relations()
            .named_at(id, name, self.lsn())
            .cloned()?;
        let pin = Arc::clone(&self.pin);
        let own = self.own.as_ref().and_then(|own| own.of(relation.id));
        let reader = RelationReader::new(Arc::clone(&self.store), relation, pin);
        Some(reader.with_own(own))
    }
}
