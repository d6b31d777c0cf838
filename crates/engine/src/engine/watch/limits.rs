//! Limits of one batch: rows, columns, and the series that it makes; and of a table: its tags.
//!
//! Does: compare with the options, and name what was passed. Does not: count; whoever builds the batch does.

use crate::budget::MemoryUse;
use crate::engine::site::Site;
use crate::error::Error;

impl Site {
    /// Whether a batch may have so many rows and columns: asked before what it lacks is made.
    pub(in crate::engine) fn check_batch(&self, rows: usize, columns: usize) -> Result<(), Error> {
        self.check_batch_rows(rows as u64)?;
        self.check_batch_columns(columns as u64)
    }

    /// Whether a batch may have so many rows.
    pub(crate) fn check_batch_rows(&self, rows: u64) -> Result<(), Error> {
        check(
            "the rows of one batch",
            rows,
            self.options().batch_rows_max,
            "send smaller batches",
        )
    }

    /// Whether a batch may have so many columns, those of all its tables together.
    pub(crate) fn check_batch_columns(&self, columns: u64) -> Result<(), Error> {
        check(
            "the columns of one batch",
            columns,
            self.options().batch_columns_max,
            "send smaller batches, and look whether values have become names of columns",
        )
    }

    /// Whether a table may have so many tags. For every 1024 series the index has a block for each of them, whether a
    /// series has the tag or not; so they are not only counted where they are made.
    pub(crate) fn check_table_tags(&self, tags: u64) -> Result<(), Error> {
        check(
            "the number of tags of one table",
            tags,
            self.options().table_tags_max,
            "write values that differ from row to row as fields or as values of one tag",
        )
    }

    /// Whether a batch may make so many series.
    pub(crate) fn check_batch_series(&self, series: u64) -> Result<(), Error> {
        check(
            "the new series of one batch",
            series,
            self.options().batch_series_max,
            "send smaller batches, and look whether a tag has values that never come again",
        )
    }

    /// Whether rows of so many bytes, with room for what is absent, could ever be held. Asked while they are collected,
    /// because a small body may name a column a row, and then each of them has room for every row.
    pub(crate) fn check_batch_bytes(&self, bytes: u64) -> Result<(), Error> {
        self.budget().check(MemoryUse::Head, 0, bytes)
    }
}

fn check(what: &'static str, needed: u64, limit: u64, remedy: &'static str) -> Result<(), Error> {
    if needed <= limit {
        return Ok(());
    }
    Err(Error::Limit {
        what,
        limit,
        needed,
        remedy,
    })
}
