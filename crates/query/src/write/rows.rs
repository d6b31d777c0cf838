//! Rows as the engine takes them: columns fitted to their table, keys of rows.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{CastOptions, cast, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, TimestampNanosecondType, UInt32Type};
use arrow::util::display::FormatOptions;
use nilometer_engine::{Error as EngineError, LogicalType, RowKey, SQL_TYPE, SeriesId};

use crate::error::{Error, Position};
use crate::function::arrays::{element_of, moments};
use crate::semantics::values::bytea::bytes_of_texts;
use crate::semantics::zone::Zone;
use crate::semantics::{clocks, times};

pub(crate) fn execution(error: impl std::fmt::Display) -> Error {
    Error::Execution {
        message: error.to_string(),
    }
}

/// A column as its table takes it: text becomes what the column holds, as a literal in quotes would, everything else is
/// the engine's to take or to refuse.
pub(crate) fn fitted(
    array: &ArrayRef,
    field: &Field,
    position: Option<Position>,
    zone: &Zone,
) -> Result<ArrayRef, Error> {
    let wrong = |message: String| Error::Plan { message, position };
    let wanted = field.data_type();
    let is_time = matches!(wanted, DataType::Timestamp(..));
    let is_text = array.data_type().is_string();
    if is_text && let Some(DataType::Timestamp(_, Some(_))) = element_of(wanted) {
        let lists = moments(array, zone);
        return lists.map_err(|error| {
            let reason = error.strip_backtrace();
            wrong(format!("column \"{}\": {reason}", field.name()))
        });
    }
    if is_time && array.data_type().is_integer() {
        return Err(wrong(
            "a number is no time: write it as text, such as '2026-01-31T12:00:00Z', or to_timestamp_nanos(...)"
                .to_owned(),
        ));
    }
    // What the clock shows is what the text says, whatever zone it names.
    let of_clock = match wanted {
        DataType::Timestamp(_, None) => Some(LogicalType::Timestamp),
        DataType::Date32 => Some(LogicalType::Date),
        _ => None,
    };
    if is_text && let Some(of) = of_clock {
        if field.metadata().contains_key(SQL_TYPE) {
            // The engine reads it, and says what is wrong with it.
            return Ok(Arc::clone(array));
        }
        let taken = of.taken("", field.name(), array);
        return taken.map_err(|error| {
            let reason = match error {
                EngineError::Constraint { reason, .. } => reason,
                other => other.to_string(),
            };
            wrong(format!("column \"{}\": {reason}", field.name()))
        });
    }
    if is_text && *wanted == DataType::Binary {
        let bytes = bytes_of_texts(array);
        return bytes.map_err(|message| wrong(format!("column \"{}\": {message}", field.name())));
    }
    if is_text && is_time {
        let times = times::of_texts(array, zone)
            .map_err(|message| wrong(format!("column \"{}\": {message}", field.name())))?;
        return Ok(Arc::new(times));
    }
    let is_date = matches!(array.data_type(), DataType::Date32 | DataType::Date64);
    let is_of_clock = is_date || matches!(array.data_type(), DataType::Timestamp(_, None));
    if is_of_clock && !zone.is_utc() && matches!(wanted, DataType::Timestamp(_, Some(_))) {
        let times = times::of_clocks(array, zone)
            .map_err(|message| wrong(format!("column \"{}\": {message}", field.name())))?;
        return Ok(Arc::new(times));
    }
    let is_instant = matches!(array.data_type(), DataType::Timestamp(_, Some(_)));
    let target = match wanted {
        // What the clock of the session shows then.
        kind if is_instant && of_clock.is_some() && !zone.is_utc() => {
            let clocks = clocks::clocks(array, zone)?;
            return cast(&clocks, kind)
                .map_err(|error| wrong(format!("column \"{}\": {error}", field.name())));
        }
        DataType::Timestamp(..) if is_date => {
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
        }
        // A declared type is read from its text by the engine, which says what is wrong with it.
        _ if field.metadata().contains_key(SQL_TYPE) => return Ok(Arc::clone(array)),
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Boolean if is_text => {
            wanted.clone()
        }
        _ => return Ok(Arc::clone(array)),
    };
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::default(),
    };
    cast_with_options(array, &target, &options)
        .map_err(|error| wrong(format!("column \"{}\": {error}", field.name())))
}

/// Columns with their names in a table, as a batch for the engine.
pub(crate) fn batch_of(columns: Vec<(Field, ArrayRef)>, rows: usize) -> Result<RecordBatch, Error> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(field, array)| {
            let kind = array.data_type().clone();
            (Field::new(field.name(), kind, true), array)
        })
        .unzip();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// Which rows a batch names: the columns of the series, the time and the place among equals, in this order.
pub(crate) fn row_keys(batch: &RecordBatch, keys: &mut Vec<RowKey>) -> Result<(), Error> {
    let wrong =
        || Error::internal("a scan for changing rows has other columns than it was asked for");
    let [series, time, nth] = [0, 1, 2].map(|at| batch.columns().get(at));
    let series = series.and_then(|it| it.as_primitive_opt::<UInt32Type>());
    let time = time.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
    let nth = nth.and_then(|it| it.as_primitive_opt::<UInt32Type>());
    let (Some(series), Some(time), Some(nth)) = (series, time, nth) else {
        return Err(wrong());
    };
    let rows = series.values().iter().zip(time.values()).zip(nth.values());
    keys.extend(rows.map(|((series, time), nth)| RowKey {
        series: SeriesId(*series),
        time: *time,
        nth: *nth,
    }));
    Ok(())
}

/// Which rows are the first of their key; `None` = all are.
pub(crate) fn first_of_each<K: Hash + Eq>(keys: &[K]) -> Option<BooleanArray> {
    let mut seen = HashSet::with_capacity(keys.len());
    let first: Vec<bool> = keys.iter().map(|key| seen.insert(key)).collect();
    (seen.len() < keys.len()).then(|| first.into())
}

/// A batch without its first columns, and of its rows those that are chosen.
pub(crate) fn without(
    batch: &RecordBatch,
    columns: usize,
    chosen: Option<&BooleanArray>,
) -> Result<RecordBatch, Error> {
    let rest: Vec<usize> = (columns..batch.num_columns()).collect();
    let rest = batch.project(&rest).map_err(execution)?;
    match chosen {
        None => Ok(rest),
        Some(chosen) => filter_record_batch(&rest, chosen).map_err(execution),
    }
}

/// The columns of a batch under names and types that are shown: those of a table, in its order.
pub(crate) fn named_as(batch: &RecordBatch, shown: &Schema) -> Result<RecordBatch, Error> {
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::default(),
    };
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut arrays = Vec::with_capacity(batch.num_columns());
    for (field, array) in shown.fields().iter().zip(batch.columns()) {
        arrays.push(cast_with_options(array, field.data_type(), &options).map_err(execution)?);
        fields.push(field.as_ref().clone().with_nullable(true));
    }
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows)
        .map_err(|error| Error::internal(error.to_string()))
}

/// A batch with the texts of its tags in the place of their codes: every batch has the whole dictionary, and each of them
/// would be counted with it.
pub(crate) fn plain(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut arrays = Vec::with_capacity(batch.num_columns());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let array = match array.data_type() {
            DataType::Dictionary(_, value) => {
                cast_with_options(array, value, &CastOptions::default()).map_err(execution)?
            }
            _ => Arc::clone(array),
        };
        fields.push(Field::new(field.name(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows)
        .map_err(|error| Error::internal(error.to_string()))
}
