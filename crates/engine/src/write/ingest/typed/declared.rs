//! Arrow arrays as fields of logical types.
//!
//! Does: take every type that SQL could assign to the column, round where SQL does, refuse what is out of range. Does not:
//! know zones: a time without one is one of UTC here.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationNanosecondType, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use nilometer_codec::PhysicalType;
use nilometer_lineproto::FIELD_TEXT_BYTES_MAX;

use super::super::declared::push_stored;
use super::arrays::{self, Number, Numbers, Refusal, Strings};
use super::refusal_of;
use crate::batch::{Column, Values};
use crate::declared::TimeKind;
use crate::error::Error;
use crate::logical::{
    Decimal, Element, LogicalType, Stored, Violation, interval_bytes, texts_of as array_texts,
};
use crate::scan::field_array;
use crate::schema::{ColumnId, TableSchema};

const DAY_NS: i128 = 86_400_000_000_000;
/// Most bytes of a text.
const MOST: u64 = FIELD_TEXT_BYTES_MAX as u64;

impl LogicalType {
    /// What SQL shows of an array once it was written to a column of this type; the names are for what is refused.
    pub fn taken(self, table: &str, column: &str, array: &ArrayRef) -> Result<ArrayRef, Error> {
        let taken = field(array, ColumnId(0), self)
            .map_err(|refusal| refusal_of(table, column, array.data_type(), refusal))?;
        Ok(self.show(&field_array(taken)))
    }
}

/// A field of a logical type.
pub(super) fn field(array: &dyn Array, id: ColumnId, of: LogicalType) -> Result<Column, Refusal> {
    if let Some(texts) = Strings::text(array) {
        return texts_of(&texts, array.len(), id, of);
    }
    match of {
        LogicalType::SmallInt | LogicalType::Integer | LogicalType::BigInt => {
            let mut column = arrays::field(array, id, PhysicalType::I64, MOST)?;
            checked(&mut column, |value| of.checked(value))?;
            Ok(column)
        }
        LogicalType::Real => {
            let mut column = arrays::field(array, id, PhysicalType::F64, MOST)?;
            if let Values::F64(values) = &mut column.values {
                for (row, value) in values.iter_mut().enumerate() {
                    *value =
                        LogicalType::real(*value).map_err(|why| Refusal::violation(row, why))?;
                }
            }
            Ok(column)
        }
        LogicalType::Numeric { .. } => {
            let numbers = Numbers::of(array).ok_or_else(|| taken(of))?;
            each(array.len(), id, of, |row| {
                let Some(number) = numbers.get(row) else {
                    return Ok(None);
                };
                let decimal = match number {
                    Number::Float(value) => return of.numeric_float(value).map(Some),
                    Number::Signed(value) => Some(Decimal::new(value.into(), 0)),
                    Number::Unsigned(value) => Some(Decimal::new(value.into(), 0)),
                    Number::Decimal(value, scale) => u8::try_from(scale)
                        .ok()
                        .map(|scale| Decimal::new(value, scale)),
                };
                match decimal {
                    Some(decimal) => of.numeric(decimal).map(Some),
                    None => Err(Violation::range(of, number.shown())),
                }
            })
        }
        LogicalType::Uuid => {
            let bytes = Strings::bytes(array).ok_or_else(|| taken(of))?;
            each(array.len(), id, of, |row| match bytes.get(row) {
                None => Ok(None),
                Some(value) => match value.try_into() {
                    Ok(value) => Ok(Some(Stored::Bytes(value))),
                    Err(_) => Err(Violation::form(of, &format!("{} bytes", value.len()))),
                },
            })
        }
        LogicalType::Interval => {
            let parts = intervals(array).ok_or_else(|| taken(of))?;
            each(array.len(), id, of, |row| {
                Ok(parts(row).map(|it| Stored::Bytes(interval_bytes(it))))
            })
        }
        LogicalType::Date
        | LogicalType::Timestamp
        | LogicalType::TimestampTz
        | LogicalType::Time => {
            if matches!(of, LogicalType::Timestamp | LogicalType::TimestampTz)
                && let Some(times) = array.as_primitive_opt::<TimestampNanosecondType>()
                && times.null_count() == 0
            {
                // They are what is stored.
                let mut column = Column::new(id, PhysicalType::I64);
                column.validity.extend(true, times.len());
                column.values = Values::I64(times.values().to_vec());
                return Ok(column);
            }
            let times = nanoseconds(array, of == LogicalType::Time).ok_or_else(|| taken(of))?;
            each(array.len(), id, of, |row| {
                let Some(ns) = times(row) else {
                    return Ok(None);
                };
                let value = match of {
                    LogicalType::Date => ns.div_euclid(DAY_NS),
                    _ => ns,
                };
                match i64::try_from(value) {
                    Ok(value) => of.checked(value).map(|it| Some(Stored::I64(it))),
                    Err(_) => Err(Violation::range(of, format!("{ns} ns"))),
                }
            })
        }
        LogicalType::Array(element) => list(array, id, of, element),
        LogicalType::Varchar(_) | LogicalType::Char(_) | LogicalType::Json | LogicalType::Jsonb => {
            Err(taken(of))
        }
    }
}

/// Lists as the texts that arrays are stored as.
fn list(
    array: &dyn Array,
    id: ColumnId,
    of: LogicalType,
    element: Element,
) -> Result<Column, Refusal> {
    if *array.data_type() == DataType::Null {
        return each(array.len(), id, of, |_| Ok(None));
    }
    let list = array.as_list_opt::<i32>().ok_or_else(|| taken(of))?;
    let values = list.values();
    let row_of = |at: usize| {
        let ends = list.value_offsets().iter().skip(1);
        let before = ends.take_while(|end| usize::try_from(**end).is_ok_and(|end| end <= at));
        before.count()
    };
    let values = match element.logical() {
        Some(of) => field(values, id, of),
        None if *values.data_type() == DataType::Null => {
            let mut column = Column::new(id, element.physical());
            column.pad(values.len());
            Ok(column)
        }
        None => arrays::field(values, id, element.physical(), MOST),
    };
    // An error names the row of the table, and not the place among all elements.
    let values = values.map_err(|refusal| match refusal {
        Refusal::Row { row, reason } => Refusal::Row {
            row: row_of(row),
            reason,
        },
        Refusal::Violation { row, why } => Refusal::violation(row_of(row), why),
        Refusal::Type { .. } => taken(of),
        other @ Refusal::Text { .. } => other,
    })?;
    let values = field_array(values);
    let texts = array_texts(element, list, &values).ok_or_else(|| taken(of))?;
    arrays::field(&texts, id, PhysicalType::Text, MOST)
}

fn texts_of(
    texts: &Strings<'_>,
    rows: usize,
    id: ColumnId,
    of: LogicalType,
) -> Result<Column, Refusal> {
    each(rows, id, of, |row| match texts.get(row) {
        None => Ok(None),
        Some(text) if text.len() > FIELD_TEXT_BYTES_MAX => Err(Violation::range(
            of,
            format!("a text of {} bytes", text.len()),
        )),
        Some(text) => {
            let text = std::str::from_utf8(text).unwrap_or_default();
            of.read(text).map(Some)
        }
    })
}

/// A column of the values of rows.
fn each(
    rows: usize,
    id: ColumnId,
    of: LogicalType,
    value: impl Fn(usize) -> Result<Option<Stored>, Violation>,
) -> Result<Column, Refusal> {
    let mut column = Column::new(id, of.physical());
    for row in 0..rows {
        match value(row).map_err(|why| Refusal::violation(row, why))? {
            Some(stored) => push_stored(&mut column, &stored),
            None => column.pad(row + 1),
        }
    }
    Ok(column)
}

/// Times of a table, in nanoseconds since 1970. Where the time is an integer, its digits as text are taken too, as those of other
/// columns of integers are, and its type has a range.
pub(super) fn times(array: &ArrayRef, table: &TableSchema) -> Result<Vec<i64>, Refusal> {
    let kind = table.time().1;
    let TimeKind::Integer { unit_ns } = kind else {
        return arrays::times(array, kind);
    };
    let of = table.time_type().unwrap_or(LogicalType::BigInt);
    let times = match Strings::text(array) {
        Some(texts) => {
            let integers = texts_of(&texts, array.len(), ColumnId(0), of)?;
            arrays::times(&field_array(integers), kind)?
        }
        None => arrays::times(array, kind)?,
    };
    for (row, time) in times.iter().enumerate() {
        of.checked(time / unit_ns.max(1))
            .map_err(|why| Refusal::violation(row, why))?;
    }
    Ok(times)
}

/// Checks the integers that rows have.
fn checked(
    column: &mut Column,
    check: impl Fn(i64) -> Result<i64, Violation>,
) -> Result<(), Refusal> {
    if let Values::I64(values) = &column.values {
        for (row, value) in values.iter().enumerate() {
            // What stands in the place of a null is 0, which every type has.
            check(*value).map_err(|why| Refusal::violation(row, why))?;
        }
    }
    Ok(())
}

fn taken(of: LogicalType) -> Refusal {
    Refusal::Type {
        taken: match of {
            LogicalType::Numeric { .. } => {
                "a numeric field is taken as an integer, Decimal128, a float or text"
            }
            LogicalType::Uuid => "a field of UUIDs is taken as text or 16 bytes",
            LogicalType::Interval => "an interval field is taken as Interval, Duration or text",
            LogicalType::Date | LogicalType::Timestamp | LogicalType::TimestampTz => {
                "a field of times is taken as Timestamp, Date or text; a number has no unit"
            }
            LogicalType::Time => "a time of day is taken as Time or text",
            LogicalType::Array(_) => "an array is taken as a List of its elements or as text",
            _ => "the field is taken as text",
        },
    }
}

/// The value of a row; `None` = null.
type Of<'a, T> = Box<dyn Fn(usize) -> Option<T> + 'a>;

fn primitive<'a, T: ArrowPrimitiveType, V: 'a>(
    array: &'a dyn Array,
    map: impl Fn(T::Native) -> V + 'a,
) -> Of<'a, V> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    Box::new(move |row| {
        let value = array.values().get(row).copied()?;
        array.is_valid(row).then(|| map(value))
    })
}

/// Nanoseconds, since 1970 or since midnight.
fn nanoseconds(array: &dyn Array, of_day: bool) -> Option<Of<'_, i128>> {
    let unit = |unit_ns: i128| move |value: i64| i128::from(value) * unit_ns;
    let short = |unit_ns: i128| move |value: i32| i128::from(value) * unit_ns;
    Some(match (array.data_type(), of_day) {
        (DataType::Date32, false) => primitive::<Date32Type, _>(array, short(DAY_NS)),
        (DataType::Date64, false) => primitive::<Date64Type, _>(array, unit(1_000_000)),
        (DataType::Timestamp(TimeUnit::Second, _), false) => {
            primitive::<TimestampSecondType, _>(array, unit(1_000_000_000))
        }
        (DataType::Timestamp(TimeUnit::Millisecond, _), false) => {
            primitive::<TimestampMillisecondType, _>(array, unit(1_000_000))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, _), false) => {
            primitive::<TimestampMicrosecondType, _>(array, unit(1_000))
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, _), false) => {
            primitive::<TimestampNanosecondType, _>(array, unit(1))
        }
        (DataType::Time32(TimeUnit::Second), true) => {
            primitive::<Time32SecondType, _>(array, short(1_000_000_000))
        }
        (DataType::Time32(_), true) => {
            primitive::<Time32MillisecondType, _>(array, short(1_000_000))
        }
        (DataType::Time64(TimeUnit::Microsecond), true) => {
            primitive::<Time64MicrosecondType, _>(array, unit(1_000))
        }
        (DataType::Time64(_), true) => primitive::<Time64NanosecondType, _>(array, unit(1)),
        (DataType::Null, _) => Box::new(|_| None),
        _ => return None,
    })
}

fn intervals(array: &dyn Array) -> Option<Of<'_, (i32, i32, i64)>> {
    Some(match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType, _>(array, |it| {
                (it.months, it.days, it.nanoseconds)
            })
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            primitive::<IntervalYearMonthType, _>(array, |it| (it, 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            primitive::<IntervalDayTimeType, _>(array, |it| {
                (0, it.days, i64::from(it.milliseconds) * 1_000_000)
            })
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            primitive::<DurationNanosecondType, _>(array, |it| (0, 0, it))
        }
        DataType::Null => Box::new(|_| None),
        _ => return None,
    })
}
