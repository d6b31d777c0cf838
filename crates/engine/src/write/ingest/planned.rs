//! Provisional names of a body: nothing is defined until the whole body has been accepted.
//!
//! A name that has an id keeps it, so a body that is refused must not have given any. A body that brings names is therefore
//! read twice: first with ids that stand for those to come, to its end and against every limit; then, if it is not
//! refused, with ids of the catalogue.
//!
//! Does: give such ids, and know them. Does not: compare with limits; whoever reads the body does, in both readings.

use rustc_hash::FxHashMap;

use crate::catalogue::Catalogue;
use crate::definition::Definition;
use crate::engine::Engine;
use crate::schema::{ColumnId, SchemaId, TableId};

/// Ids from here on stand for others. So many are never given: each takes hundreds of bytes of memory for good.
const FIRST: u32 = 1 << 31;

/// The schema of a database that is not there yet.
pub(super) const PLANNED_SCHEMA: SchemaId = SchemaId(u32::MAX);

/// What the body at hand brings.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// Nothing is defined: this is the first reading.
    is_on: bool,
    tables: FxHashMap<String, TableId>,
    count: u32,
}

impl Planned {
    /// The first reading begins.
    pub(super) fn begin(&mut self) {
        *self = Self {
            is_on: true,
            ..Self::default()
        };
    }

    /// The first reading is over; true = the body brings names, and what was read has ids that are none.
    pub(super) fn end(&mut self) -> bool {
        let brings = self.count > 0;
        *self = Self::default();
        brings
    }

    /// As [`Engine::define_missing`], but in the first reading `stand_in` is what a name is given that has none yet.
    pub(super) fn define<T>(
        &mut self,
        engine: &Engine,
        mut plan: impl FnMut(&Catalogue) -> Result<T, Definition>,
        stand_in: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if !self.is_on {
            return engine.sequencer().define_missing(plan);
        }
        let planned = plan(&engine.sequencer().catalogue());
        planned.unwrap_or_else(|_| stand_in(self))
    }

    /// A table that the body has brought before.
    pub(super) fn find(&self, table: &str) -> Option<TableId> {
        self.tables.get(table).copied()
    }

    pub(super) fn table(&mut self, name: &str) -> TableId {
        let id = TableId(self.next());
        self.tables.insert(name.to_owned(), id);
        id
    }

    pub(super) fn column(&mut self) -> ColumnId {
        ColumnId(self.next())
    }

    fn next(&mut self) -> u32 {
        self.count = self.count.saturating_add(1);
        FIRST.saturating_add(self.count)
    }
}

/// Whether a table is none yet.
pub(super) fn is_planned_table(table: TableId) -> bool {
    table.0 >= FIRST
}

/// Whether a column is none yet.
pub(super) fn is_planned_column(column: ColumnId) -> bool {
    column.0 >= FIRST
}
