//! Changes of relations that are put into the log and acknowledged later, together with the writes of others.
//!
//! Does: leave those out that foreign keys have a say in: these are transactions. Does not: wait for the disk (whoever acknowledges
//! does).

use std::sync::Arc;

use nilometer_engine::{Engine, Error, RelationChange, Sequenced, Snapshot};

use super::references::are_concerned;

/// As [`super::references::write_relations`] outside of a transaction, but nobody may hear of the changes before what is returned is
/// acknowledged. `None` = foreign keys have a say, and nothing was done.
pub fn sequence_relations(
    engine: &Arc<Engine>,
    snapshot: Option<&Snapshot>,
    within: (&str, &str),
    changes: &[RelationChange],
) -> Result<Option<Sequenced>, Error> {
    engine.check_relation_values(changes)?;
    if are_concerned(engine, None, within, changes) {
        return Ok(None);
    }
    engine.sequence_relations(snapshot, changes).map(Some)
}
