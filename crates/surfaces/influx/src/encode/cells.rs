//! Columns of rows, cell by cell.
//!
//! Does: look a column's type up once a batch, so that a cell costs one branch. Does not: copy values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};

/// A value of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Null,
    /// Nanoseconds since 1970, and the zone in which they are shown; `None` = UTC.
    Time(i64, Option<Tz>),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

/// The columns of the batch that rows were taken from last: series of few rows share one.
#[derive(Debug, Default)]
pub(super) struct Known {
    batch: Option<Arc<RecordBatch>>,
    cells: Vec<Cells>,
}

impl Known {
    /// All columns of a batch.
    pub(super) fn of(&mut self, batch: &Arc<RecordBatch>) -> &[Cells] {
        let is_same = |known: &Arc<RecordBatch>| Arc::ptr_eq(known, batch);
        if !self.batch.as_ref().is_some_and(is_same) {
            self.batch = Some(Arc::clone(batch));
            self.cells = Cells::of(batch);
        }
        &self.cells
    }
}

/// A column that can be asked for its cells.
#[derive(Debug)]
pub(super) struct Cells {
    column: ArrayRef,
    has_nulls: bool,
    values: Values,
}

#[derive(Debug)]
enum Values {
    None,
    Time(TimestampNanosecondArray, Option<Tz>),
    Int(Int64Array),
    Unsigned(UInt64Array),
    Float(Float64Array),
    Bool(BooleanArray),
    Text(StringArray),
    Words(DictionaryArray<Int32Type>, StringArray),
}

impl Cells {
    /// All columns of a batch.
    pub(super) fn of(batch: &RecordBatch) -> Vec<Self> {
        batch.columns().iter().map(Self::of_column).collect()
    }

    fn of_column(column: &ArrayRef) -> Self {
        let values = match column.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let zone = zone.as_deref().filter(|zone| !is_utc(zone));
                let zone = zone.and_then(|zone| zone.parse().ok());
                Values::Time(
                    column.as_primitive::<TimestampNanosecondType>().clone(),
                    zone,
                )
            }
            DataType::Int64 => Values::Int(column.as_primitive::<Int64Type>().clone()),
            DataType::UInt64 => Values::Unsigned(column.as_primitive::<UInt64Type>().clone()),
            DataType::Float64 => Values::Float(column.as_primitive::<Float64Type>().clone()),
            DataType::Boolean => Values::Bool(column.as_boolean().clone()),
            DataType::Utf8 => Values::Text(column.as_string::<i32>().clone()),
            DataType::Dictionary(_, _) => column
                .as_dictionary_opt::<Int32Type>()
                .and_then(|words| Some((words, words.values().as_string_opt::<i32>()?)))
                .map_or(Values::None, |(words, texts)| {
                    Values::Words(words.clone(), texts.clone())
                }),
            _ => Values::None,
        };
        Self {
            column: Arc::clone(column),
            has_nulls: column.null_count() > 0,
            values,
        }
    }

    /// The words of the column, if there are no more of them than rows.
    pub(super) fn few_words(&self) -> Option<&DictionaryArray<Int32Type>> {
        match &self.values {
            Values::Words(words, texts) if texts.len() <= words.len() => Some(words),
            _ => None,
        }
    }

    /// The integers of the column, if every row has one.
    pub(super) fn ints(&self) -> Option<&Int64Array> {
        match &self.values {
            Values::Int(ints) if !self.has_nulls => Some(ints),
            _ => None,
        }
    }

    /// The value in a row.
    #[inline]
    pub(super) fn cell(&self, row: usize) -> Cell<'_> {
        if self.has_nulls && self.column.is_null(row) {
            return Cell::Null;
        }
        match &self.values {
            Values::None => Cell::Null,
            Values::Time(times, zone) => Cell::Time(times.value(row), *zone),
            Values::Int(values) => Cell::Int(values.value(row)),
            Values::Unsigned(values) => Cell::Unsigned(values.value(row)),
            Values::Float(values) => Cell::Float(values.value(row)),
            Values::Bool(values) => Cell::Bool(values.value(row)),
            Values::Text(values) => Cell::Text(values.value(row)),
            Values::Words(words, texts) => {
                let word = words.key(row).filter(|&word| texts.is_valid(word));
                word.map_or(Cell::Null, |word| Cell::Text(texts.value(word)))
            }
        }
    }
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "Z")
}
