//! Questions about series that need no rows: how many, which values, which are in use.

use std::ops::RangeInclusive;

use super::Snapshot;
use crate::error::Error;
use crate::predicate::TagPredicate;
use crate::scan::series::{live_series, select_series};
use crate::schema::{ColumnId, SeriesId, TableSchema};

impl Snapshot {
    /// Number of series of a table that every predicate keeps, whether or not they have rows now.
    pub fn series_count(&self, table: &TableSchema, tags: &[TagPredicate]) -> u64 {
        let catalogue = self.engine.catalogue();
        let selected = select_series(&catalogue, table, tags);
        catalogue.count_selected(table.id, &selected)
    }

    /// The series of a table that every predicate keeps, ascending, whether or not they have rows now.
    pub fn series(&self, table: &TableSchema, tags: &[TagPredicate]) -> Vec<SeriesId> {
        let catalogue = self.engine.catalogue();
        let selected = select_series(&catalogue, table, tags);
        let ids = catalogue.ids_of(table.id, &selected);
        ids.into_iter().map(SeriesId).collect()
    }

    /// The tags of series: for each its values in the order of `table.tags`, `None` = it has no such tag.
    pub fn series_tags(
        &self,
        table: &TableSchema,
        series: &[SeriesId],
    ) -> Vec<Vec<Option<String>>> {
        let catalogue = self.engine.catalogue();
        let tags: Vec<ColumnId> = table.tags.iter().map(|tag| tag.id).collect();
        series
            .iter()
            .map(|&series| catalogue.tags_of(table.id, &tags, series))
            .collect()
    }

    /// Values of a tag among the series that every predicate keeps: those that start with `prefix`, in the order of
    /// their bytes, the first `limit` of them.
    pub fn tag_values(
        &self,
        table: &TableSchema,
        tag: ColumnId,
        tags: &[TagPredicate],
        prefix: &str,
        limit: usize,
    ) -> Vec<String> {
        let catalogue = self.engine.catalogue();
        let selected = select_series(&catalogue, table, tags);
        catalogue.values_of(table.id, tag, &selected, prefix, limit)
    }

    /// The series of a table that have a row in a range of time, ascending. Exact to the block: of a block that touches
    /// the range every series counts, also one whose own rows lie beside it, and deleted rows count until maintenance
    /// has removed them. Reads directories, and of blocks that several series share the page that says which.
    pub fn live_series(
        &self,
        table: &TableSchema,
        time: &RangeInclusive<i64>,
    ) -> Result<Vec<SeriesId>, Error> {
        let live = live_series(&self.state, self.visible, table.id, time)?;
        Ok(live.into_iter().map(SeriesId).collect())
    }
}
