//! Series queries that need no rows: counts, tag values, series in use.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::StringArray;

use super::Snapshot;
use crate::catalogue::{Layers, TagColumn};
use crate::error::Error;
use crate::predicate::TagPredicate;
use crate::scan::series::{conditions, find_series, live_series};
use crate::schema::{ColumnId, SeriesId, TableSchema};

/// One tag of some series.
#[derive(Debug, Clone)]
pub struct SeriesTag(Option<Arc<TagColumn>>);

impl SeriesTag {
    /// The value of the series at a position among those that were asked for; `None` = it has no such tag.
    pub fn value(&self, position: usize) -> Option<&str> {
        self.0.as_ref()?.value(position)
    }

    /// The place among [`Self::values`] of that value; `None` = it has no such tag.
    pub fn code(&self, position: usize) -> Option<u32> {
        self.0.as_ref()?.code(position)
    }

    /// The values that the series have, each once, in no order; `None` = none of them has the tag.
    pub fn values(&self) -> Option<&Arc<StringArray>> {
        self.0.as_ref().map(|tag| &tag.values)
    }
}

impl Snapshot {
    /// Number of series of a table that every predicate keeps, whether or not they have rows now.
    pub fn series_count(&self, table: &TableSchema, tags: &[TagPredicate]) -> Result<u64, Error> {
        match self.layers_of(table) {
            Some(layers) => layers.count(table.id, &conditions(table, tags)),
            None => Ok(0),
        }
    }

    /// The series of a table that every predicate keeps, ascending, whether or not they have rows now.
    pub fn series(
        &self,
        table: &TableSchema,
        tags: &[TagPredicate],
    ) -> Result<Vec<SeriesId>, Error> {
        let Some(layers) = self.layers_of(table) else {
            return Ok(Vec::new());
        };
        let ids = find_series(layers, table, tags)?;
        Ok(ids.into_iter().map(SeriesId).collect())
    }

    /// The tags of series: for each its values in the order of `table.tags`, `None` = it has no such tag.
    pub fn series_tags(
        &self,
        table: &TableSchema,
        series: &[SeriesId],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        let mut all = vec![Vec::with_capacity(table.tags.len()); series.len()];
        let mut ids: Vec<u32> = series.iter().map(|series| series.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let layers = self.layers_of(table);
        for tag in &table.tags {
            let column = match &layers {
                Some(layers) => Some(layers.tag_column(table.id, tag.id, &ids)?),
                None => None,
            };
            for (tags, series) in all.iter_mut().zip(series) {
                let at = ids.binary_search(&series.0).unwrap_or(usize::MAX);
                let value = column.as_ref().and_then(|column| column.value(at));
                tags.push(value.map(str::to_owned));
            }
        }
        Ok(all)
    }

    /// One tag of series, which ascend.
    pub fn series_tag(
        &self,
        table: &TableSchema,
        tag: ColumnId,
        series: &[SeriesId],
    ) -> Result<SeriesTag, Error> {
        let Some(layers) = self.layers_of(table) else {
            return Ok(SeriesTag(None));
        };
        let ids: Vec<u32> = series.iter().map(|series| series.0).collect();
        let column = layers.tag_column(table.id, tag, &ids)?;
        Ok(SeriesTag(Some(Arc::new(column))))
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
    ) -> Result<Vec<String>, Error> {
        match self.layers_of(table) {
            Some(layers) => layers.values(table.id, tag, &conditions(table, tags), prefix, limit),
            None => Ok(Vec::new()),
        }
    }

    /// Where the series of a table are; `None` = the snapshot has no such table.
    fn layers_of(&self, table: &TableSchema) -> Option<&Layers> {
        self.moment.names.table(table.id)?;
        Some(&self.moment.layers)
    }

    /// The series of a table that have a row in a range of time, ascending. Exact to the block: of a block that touches
    /// the range every series counts, also one whose own rows lie beside it, and deleted rows count until maintenance
    /// has removed them. Reads directories, and of blocks that several series share the page that says which.
    pub fn live_series(
        &self,
        table: &TableSchema,
        time: &RangeInclusive<i64>,
    ) -> Result<Vec<SeriesId>, Error> {
        let live = live_series(&self.moment.state, self.lsn(), table.id, time)?;
        Ok(live.into_iter().map(SeriesId).collect())
    }
}
