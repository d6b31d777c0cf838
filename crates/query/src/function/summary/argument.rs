//! Arguments of two-step aggregates and their functions: the types that they are read as, and their values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampNanosecondType,
};
use chrono::{DateTime, Months};
use datafusion::common::{Result, exec_err, internal_err};
use nilometer_summaries::{Scalar, ScalarKind};

const DAY_NS: i64 = 86_400_000_000_000;

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Argument {
    Number,
    Whole,
    Time,
    Interval,
    Text,
    Summary,
    /// A value of a column, of one of the types that summaries hold.
    Value,
}

/// The type of times in answers.
pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")))
}

pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl Argument {
    /// The type that a value is read as, if it can be that.
    pub(super) fn read_as(self, kind: &DataType) -> Option<DataType> {
        let is_time = matches!(
            kind,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
        );
        let is_open = kind.is_string() || kind.is_null();
        match self {
            Self::Number => (kind.is_numeric() || kind.is_null()).then_some(DataType::Float64),
            Self::Whole => (kind.is_integer() || kind.is_null()).then_some(DataType::Int64),
            Self::Time => (is_time || is_open).then(time_type),
            Self::Interval => (is_open
                || matches!(kind, DataType::Interval(_) | DataType::Duration(_)))
            .then_some(INTERVAL),
            Self::Text => is_open.then_some(DataType::Utf8),
            Self::Summary => {
                let is_bytes = matches!(
                    kind,
                    DataType::Binary | DataType::LargeBinary | DataType::BinaryView
                );
                (is_bytes || kind.is_null()).then_some(DataType::Binary)
            }
            Self::Value => kind_of(kind)
                .map(type_of)
                .or(kind.is_null().then_some(DataType::Utf8)),
        }
    }
}

/// What values of a type are in a summary.
pub(super) fn kind_of(kind: &DataType) -> Option<ScalarKind> {
    match kind {
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::Boolean => Some(ScalarKind::Bool),
        kind if kind.is_integer() => Some(ScalarKind::Int),
        kind if kind.is_numeric() => Some(ScalarKind::Float),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Some(ScalarKind::Time),
        kind if kind.is_string() => Some(ScalarKind::Text),
        _ => None,
    }
}

pub(super) fn type_of(kind: ScalarKind) -> DataType {
    match kind {
        ScalarKind::Bool => DataType::Boolean,
        ScalarKind::Int => DataType::Int64,
        ScalarKind::Float => DataType::Float64,
        ScalarKind::Time => time_type(),
        ScalarKind::Text => DataType::Utf8,
    }
}

/// A value of a column of one of those types.
pub(super) fn scalar(array: &ArrayRef, row: usize) -> Result<Option<Scalar>> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::Boolean => Scalar::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Scalar::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Scalar::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Scalar::Time(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Utf8 => Scalar::Text(array.as_string::<i32>().value(row).into()),
        DataType::Null => return Ok(None),
        other => return internal_err!("{other} is no value of a summary"),
    }))
}

pub(super) fn number(array: &ArrayRef, row: usize) -> Option<f64> {
    let values = array.as_primitive_opt::<Float64Type>()?;
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn whole(array: &ArrayRef, row: usize) -> Option<i64> {
    let values = array.as_primitive_opt::<Int64Type>()?;
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn time(array: &ArrayRef, row: usize) -> Option<i64> {
    let values = array.as_primitive_opt::<TimestampNanosecondType>()?;
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn interval(array: &ArrayRef, row: usize) -> Option<IntervalMonthDayNano> {
    let values = array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    let values = array.as_string_opt::<i32>()?;
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn bytes(array: &ArrayRef, row: usize) -> Option<&[u8]> {
    let values = array.as_binary_opt::<i32>()?;
    values.is_valid(row).then(|| values.value(row))
}

/// A time and what is an interval later; months as they are in UTC.
pub(super) fn later(time: i64, by: IntervalMonthDayNano) -> Result<i64> {
    let months = match u32::try_from(by.months) {
        Ok(0) => Some(time),
        Ok(months) => DateTime::from_timestamp_nanos(time)
            .checked_add_months(Months::new(months))
            .and_then(|at| at.timestamp_nanos_opt()),
        Err(_) => None,
    };
    let days = i64::from(by.days).checked_mul(DAY_NS);
    let at = months
        .zip(days)
        .and_then(|(at, days)| at.checked_add(days)?.checked_add(by.nanoseconds));
    if let Some(at) = at {
        Ok(at)
    } else {
        exec_err!("an interval leads beyond the times that there are, or is negative in months")
    }
}
