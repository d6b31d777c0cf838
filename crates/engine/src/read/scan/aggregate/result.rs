//! Answer of an aggregation that nobody else folds: a row for each series and bucket.
//!
//! Does: name what is known of each. Does not: add up (`bucket.rs`).

use crate::schema::SeriesId;

/// Aggregates of some series, ordered by (series, bucket). A bucket without rows is not there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aggregates {
    /// One for each series and bucket.
    pub rows: Vec<AggregateRow>,
    /// Where they came from.
    pub used: AggregateSources,
}

/// Aggregates of one series and bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateRow {
    /// The series.
    pub series: SeriesId,
    /// Its position among the series of the aggregation.
    pub position: usize,
    /// When the bucket starts; `i64::MIN` = it has all time, or started before there was time.
    pub bucket: i64,
    /// Number of rows.
    pub rows: u64,
    /// By requested field; `None` = no row has a value.
    pub fields: Vec<Option<FieldAggregate>>,
}

/// Aggregates of the values of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldAggregate {
    /// Number of values.
    pub count: u64,
    /// The smallest value. Of floats -0.0 is below 0.0 and NaN above everything, text by its bytes, and false is below true.
    pub min: AggregateValue,
    /// The largest value.
    pub max: AggregateValue,
    /// The sum of numbers, the number of true booleans; `None` for text and bytes.
    pub sum: Option<AggregateSum>,
    /// Time and value of the first value. Of several at one time, the one that was written first.
    pub first: (i64, AggregateValue),
    /// Time and value of the last value. Of several at one time, the one that was written last.
    pub last: (i64, AggregateValue),
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum AggregateValue {
    /// Of an integer field.
    Int(i64),
    /// Of an unsigned field.
    Unsigned(u64),
    /// Of a float field.
    Float(f64),
    /// Of a boolean field.
    Bool(bool),
    /// Of a text field, UTF-8.
    Text(Vec<u8>),
    /// Of a bytes field.
    Bytes(Vec<u8>),
}

/// A sum, wide enough never to overflow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AggregateSum {
    /// Of integers.
    Int(i128),
    /// Of unsigned integers and of booleans.
    Unsigned(u128),
    /// Of floats.
    Float(f64),
}

/// Where aggregates came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AggregateSources {
    /// Hours that a rollup stood for.
    pub rollups: u64,
    /// Blocks that statistics stood for.
    pub statistics: u64,
    /// Blocks of several series that were read, or stood for, as wholes.
    pub shared: u64,
    /// Rows that rollups and statistics stood for.
    pub rows_known: u64,
    /// Blocks that were decoded; one that several morsels need is decoded by each.
    pub blocks: u64,
    /// Rows that were looked at.
    pub rows: u64,
}

impl AggregateSources {
    /// Adds another part's.
    pub fn add(&mut self, other: &Self) {
        self.rollups += other.rollups;
        self.statistics += other.statistics;
        self.shared += other.shared;
        self.rows_known += other.rows_known;
        self.blocks += other.blocks;
        self.rows += other.rows;
    }
}
