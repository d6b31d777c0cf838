//! A unique key for a relation that is there.
//!
//! Does: say what the relation is with the key. Does not: put it in the place of what it was (`swap.rs` does).

use std::sync::Arc;

use crate::declared::Declarations;
use crate::engine::Engine;
use crate::engine::change::relations::RelationChange;
use crate::engine::change::swap::{Beside, Swapped};
use crate::error::Error;
use crate::relation::{RelationId, RelationSchema};

impl Engine {
    /// Adds a unique key to a relation under this name; two rows that share it are an error, and nothing is done. The relation gets
    /// another id, as if it had been made with the key and filled; `beside` makes changes of other relations of that, from the id
    /// that it had to the one that it gets, which come with it or not at all. Writers wait meanwhile, as long as its rows take.
    /// Durable on return.
    pub fn add_unique_key(
        &self,
        relation: (&str, &str, &str),
        (key, columns): (&str, &[String]),
        mut beside: impl FnMut(RelationId, RelationId) -> Vec<RelationChange>,
    ) -> Result<RelationId, Error> {
        self.swap_relation(
            relation,
            None,
            |known, rows| {
                let (schema, declared) = with_key(known, key, columns)?;
                Ok(Swapped {
                    schema,
                    declared,
                    rows: rows.iter().map(|row| row.to_vec()).collect(),
                })
            },
            |from, to| Beside {
                rows: beside(from, to),
                declared: Vec::new(),
            },
        )
    }
}

/// The same relation with one key more.
fn with_key(
    known: &Arc<RelationSchema>,
    key: &str,
    columns: &[String],
) -> Result<(RelationSchema, Declarations), Error> {
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
    let mut made = RelationSchema::clone(known);
    made.unique.push(positions);
    let mut declared: Declarations = known.declared.as_deref().cloned().unwrap_or_default();
    let number = u32::try_from(made.unique.len()).unwrap_or(u32::MAX);
    declared.table.keys.push((number, key.to_owned()));
    Ok((made, declared))
}
