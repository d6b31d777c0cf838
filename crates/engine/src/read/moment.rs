//! The store at one moment: what every read is made of.
//!
//! Does: keep rows, names and series of one moment together, so that nothing that comes later shows. Does not: read.

use std::fmt::Debug;
use std::sync::Arc;

use crate::catalogue::{Catalogue, Layers, Names};
use crate::ranked::Read;
use crate::relation::Relations;
use crate::sabotage::Sabotage;
use crate::schema::Lsn;
use crate::state::State;

/// What a snapshot asks of the store that it keeps open.
pub(crate) trait Store: Debug + Send + Sync {
    /// The relations, with the versions that snapshots hold.
    fn relations(&self) -> Read<'_, Relations>;
    /// Whether a compaction could not read a segment, by its file's id, and leaves it alone.
    fn is_damaged(&self, file_id: u64) -> bool;
}

#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) state: State,
    /// The last LSN that is seen.
    pub(crate) visible: Lsn,
    pub(crate) names: Names,
    pub(crate) layers: Arc<Layers>,
    /// A planted bug.
    pub(crate) sabotage: Option<Sabotage>,
}

impl Moment {
    /// Of a state that was taken while `catalogue` stood still.
    pub(crate) fn new(
        catalogue: &Catalogue,
        state: State,
        visible: Lsn,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let (names, layers) = catalogue.as_of_now();
        Self {
            state,
            visible,
            names,
            layers,
            sabotage,
        }
    }
}
