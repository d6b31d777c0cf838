//! The balance of rows: read = written + merged + deleted, checked before an edit is applied.
//!
//! Does: count, by table, what goes in, what comes out, and what became of the rest. Does not: count rows of dropped
//! tables, which nobody reads, or decide what becomes of work that does not balance (`engine/maintain/flush.rs` does).
//!
//! What comes out is counted from the footers of the files as they are read back, what goes in from the footers of the
//! files that go and from the runs of the head. Neither number passes through the code that moves the rows.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::schema::TableId;
use crate::segment::Segment;

/// Rows by table.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    tables: BTreeMap<TableId, Rows>,
}

/// What became of the rows of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Went in.
    pub(crate) read: u64,
    /// Came out.
    pub(crate) written: u64,
    /// Became part of a newer row of their key.
    pub(crate) merged: u64,
    /// Were hidden by a delete.
    pub(crate) deleted: u64,
    /// Cannot be read, and are put aside with their file.
    pub(crate) unreadable: u64,
}

impl Balance {
    /// The rows of a table, to be added to.
    pub(crate) fn of(&mut self, table: TableId) -> &mut Rows {
        self.tables.entry(table).or_default()
    }

    /// The rows of a file go in.
    pub(crate) fn read(&mut self, segment: &Segment) {
        for (_, group) in segment.all_groups() {
            self.of(group.table).read += group.rows;
        }
    }

    /// The rows of a file come out.
    pub(crate) fn written(&mut self, segment: &Segment) {
        for (_, group) in segment.all_groups() {
            self.of(group.table).written += group.rows;
        }
    }

    /// Whether rows went because of a delete.
    pub(crate) fn has_deleted(&self) -> bool {
        self.tables.values().any(|rows| rows.deleted > 0)
    }

    /// An error unless every row of every table that is there is accounted for.
    pub(crate) fn check(
        &self,
        work: &'static str,
        is_there: impl Fn(TableId) -> bool,
    ) -> Result<(), Error> {
        for (table, rows) in &self.tables {
            let out = rows.written + rows.merged + rows.deleted + rows.unreadable;
            if rows.read != out && is_there(*table) {
                return Err(Error::RowsUnaccounted {
                    work,
                    table: table.0.into(),
                    read: rows.read,
                    written: rows.written,
                    merged: rows.merged,
                    deleted: rows.deleted + rows.unreadable,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_adds_up_passes_and_dropped_tables_are_nobody_s() {
        let mut balance = Balance::default();
        *balance.of(TableId(7)) = Rows {
            read: 10,
            written: 5,
            merged: 3,
            deleted: 1,
            unreadable: 1,
        };
        assert!(balance.check("a flush", |_| true).is_ok());
        balance.of(TableId(7)).written -= 1;
        let refused = balance.check("a flush", |_| true).unwrap_err().to_string();
        assert!(
            refused.starts_with("a flush is not carried out: of 10 rows of table 7 that went in, 4 would be written, 3 merged with newer ones and 2 deleted"),
            "{refused}"
        );
        assert!(balance.check("a flush", |id| id != TableId(7)).is_ok());
        // Rows too many are as wrong as rows too few.
        balance.of(TableId(7)).written += 2;
        assert!(balance.check("a flush", |_| true).is_err());
    }
}
