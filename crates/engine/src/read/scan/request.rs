//! Requests for a table's rows.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::predicate::{FieldPredicate, TagPredicate};
use crate::schema::TableSchema;

/// What to read.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The table.
    pub table: Arc<TableSchema>,
    /// Positions in [`TableSchema::arrow_schema`], or [`Self::SERIES`] or [`Self::NTH`], in the order in which they shall
    /// come out.
    pub projection: Vec<usize>,
    /// First and last time in nanoseconds, both included.
    pub time: RangeInclusive<i64>,
    /// All of them must hold.
    pub tags: Vec<TagPredicate>,
    /// More rows than this are not needed; a scan may still return more.
    pub limit: Option<usize>,
}

impl ScanRequest {
    /// A position for the projection beside those of the schema: the id of the row's series, as `_series` of type `UInt32`.
    pub const SERIES: usize = usize::MAX;
    /// Another: the row's place among those of the same series and time, from 0, as `_nth` of type `UInt32`. With the
    /// series and the time it makes a [`crate::RowKey`].
    pub const NTH: usize = usize::MAX - 1;
}

/// Which rows of a request are needed. More of them may come.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Narrowing {
    /// All.
    #[default]
    None,
    /// Those for which all of these hold.
    Fields(Vec<FieldPredicate>),
    /// Of each series so many at its start and so many at its end; rows of one time count as one unless the table
    /// keeps duplicates.
    Ends {
        /// How many of the first.
        first: usize,
        /// How many of the last.
        last: usize,
    },
    /// So many of all rows, by their time.
    Top {
        /// How many.
        rows: usize,
        /// From the last time on backwards, and not from the first on forwards.
        newest: bool,
        /// With all rows of the time at which the last of them stands, and not any of those.
        ties: bool,
    },
}
