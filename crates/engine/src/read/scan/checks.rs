//! Checks of all rows before a change of a table: whether another type keeps their values, whether files have merged them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use nilometer_codec::PhysicalType;

use super::Scan;
use super::request::{Narrowing, ScanRequest};
use crate::cast::{Value, converts};
use crate::error::Error;
use crate::moment::Moment;
use crate::schema::{Duplicates, TableSchema};

/// A value that does not convert without loss.
#[derive(Debug, PartialEq)]
pub(crate) struct Loss {
    pub(crate) time: i64,
    /// As text, for a person.
    pub(crate) value: String,
}

/// The first value of a field, in the order of a scan, that does not convert to `to`; `None` = all do.
pub(crate) fn first_loss(
    moment: &Moment,
    table: &Arc<TableSchema>,
    field: usize,
    to: PhysicalType,
) -> Result<Option<Loss>, Error> {
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: vec![0, 1 + table.tags.len() + field],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = Scan::plan(moment, &request, &Narrowing::None)?;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            if let Some(loss) = loss_in(&batch?, to) {
                return Ok(Some(loss));
            }
        }
    }
    Ok(None)
}

fn loss_in(batch: &RecordBatch, to: PhysicalType) -> Option<Loss> {
    let [times, values] = batch.columns() else {
        return None;
    };
    let row = (0..batch.num_rows()).find(|&row| {
        let value = values.is_valid(row).then(|| value_at(values.as_ref(), row));
        value.flatten().is_some_and(|value| !converts(value, to))
    })?;
    let times = times.as_primitive_opt::<TimestampNanosecondType>()?;
    Some(Loss {
        time: times.value(row),
        value: shown(value_at(values.as_ref(), row)?),
    })
}

fn value_at(array: &dyn Array, row: usize) -> Option<Value<'_>> {
    if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        return Some(Value::I64(values.value(row)));
    }
    if let Some(values) = array.as_primitive_opt::<UInt64Type>() {
        return Some(Value::U64(values.value(row)));
    }
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        return Some(Value::F64(values.value(row)));
    }
    if let Some(values) = array.as_boolean_opt() {
        return Some(Value::Bool(values.value(row)));
    }
    if let Some(values) = array.as_string_opt::<i32>() {
        return Some(Value::Text(values.value(row).as_bytes()));
    }
    let values = array.as_binary_opt::<i32>()?;
    Some(Value::Bytes(values.value(row)))
}

/// Bytes of a text that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

fn shown(value: Value<'_>) -> String {
    match value {
        Value::I64(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(bytes) | Value::Bytes(bytes) => {
            let start = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
            format!("{:?}", String::from_utf8_lossy(start))
        }
    }
}

/// Whether a table has rows that are merged only when they are read. Reads the times of all its rows.
pub(crate) fn has_unmerged(moment: &Moment, table: &Arc<TableSchema>) -> Result<bool, Error> {
    let kept = table.changed(|table| table.settings.duplicates = Duplicates::Keep);
    Ok(count_rows(moment, table)? != count_rows(moment, &Arc::new(kept))?)
}

fn count_rows(moment: &Moment, table: &Arc<TableSchema>) -> Result<usize, Error> {
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: vec![0],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = Scan::plan(moment, &request, &Narrowing::None)?;
    let mut rows = 0;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            rows += batch?.num_rows();
        }
    }
    Ok(rows)
}

/// Whether a table has a row.
pub(crate) fn has_rows(moment: &Moment, table: &Arc<TableSchema>) -> Result<bool, Error> {
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: vec![0],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: Some(1),
    };
    let scan = Scan::plan(moment, &request, &Narrowing::None)?;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            if batch?.num_rows() > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
