//! Arrow arrays as times, tags and fields of the store.
//!
//! Does: take every type that converts without loss, value by value where the type alone does not say so. Does not: know
//! tables or names; the caller adds them to what is refused.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrowPrimitiveType, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray,
};
use arrow_array::{BinaryArray, BooleanArray};
use arrow_schema::{DataType, TimeUnit};
use nilometer_codec::PhysicalType;
use nilometer_lineproto::{TIME_NS_MAX, TIME_NS_MIN};

use super::super::declared::canonical_integer;
use crate::batch::{Column, Validity, Values};
use crate::declared::TimeKind;
use crate::logical::{LogicalType, Violation};
use crate::schema::ColumnId;
use crate::segment::LARGE_BYTES_MAX;

/// Text of one column of one batch: its offsets are 32 bits, here and in Arrow's arrays on their way out.
const COLUMN_TEXT_BYTES_MAX: usize = 1 << 30;

/// Up to here every integer is a float.
const FLOAT_INTEGERS_MAX: u128 = 1 << 53;

/// Why an array is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its type is none of those that are taken.
    Type { taken: &'static str },
    /// A value of it does not fit, in this row counted from 0.
    Row { row: usize, reason: String },
    /// What was declared of the column refuses a value of it, in this row counted from 0.
    Violation { row: usize, why: Violation },
    /// All of it is too much.
    Text { bytes: usize, max: usize },
}

impl Refusal {
    pub(super) fn violation(row: usize, why: Violation) -> Self {
        Self::Violation { row, why }
    }
}

fn refuse<T>(row: usize, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Row {
        row,
        reason: reason.into(),
    })
}

/// Times of a table's kind, in nanoseconds since 1970.
pub(super) fn times(array: &dyn Array, kind: TimeKind) -> Result<Vec<i64>, Refusal> {
    match (kind, array.data_type()) {
        (TimeKind::TimestampTz | TimeKind::Timestamp, _) => moments(array),
        (TimeKind::Date, DataType::Date32) => {
            let days = array.as_primitive::<Date32Type>();
            let days: PrimitiveArray<Int64Type> = days.unary(i64::from);
            scaled_times::<Int64Type>(&days, DAY_NS)
        }
        (TimeKind::Date, DataType::Int64) => Err(Refusal::Type {
            taken: "the time is a day and is taken as Date32 or as a Timestamp, which is cut to its day",
        }),
        (TimeKind::Date, _) => {
            let mut times = moments(array)?;
            for time in &mut times {
                *time -= time.rem_euclid(DAY_NS);
            }
            Ok(times)
        }
        (TimeKind::Integer { unit_ns }, kind) if kind.is_integer() => {
            let integers = field(array, ColumnId(0), PhysicalType::I64, 0)?;
            let null = (0..array.len()).find(|row| array.is_null(*row));
            match (null, integers.values) {
                (None, Values::I64(values)) => {
                    let values = PrimitiveArray::<Int64Type>::from(values);
                    scaled_times::<Int64Type>(&values, unit_ns)
                }
                (row, _) => refuse(
                    row.unwrap_or(0),
                    "every row needs a time, and this one's is null",
                ),
            }
        }
        (TimeKind::Integer { .. }, _) => Err(Refusal::Type {
            taken: "the time is an integer and is taken as Int8 to Int64, UInt8 to UInt64",
        }),
    }
}

const DAY_NS: i64 = 86_400_000_000_000;

fn moments(array: &dyn Array) -> Result<Vec<i64>, Refusal> {
    match array.data_type() {
        DataType::Int64 => scaled_times::<Int64Type>(array, 1),
        DataType::Timestamp(TimeUnit::Second, _) => {
            scaled_times::<TimestampSecondType>(array, 1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            scaled_times::<TimestampMillisecondType>(array, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            scaled_times::<TimestampMicrosecondType>(array, 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            scaled_times::<TimestampNanosecondType>(array, 1)
        }
        _ => Err(Refusal::Type {
            taken: "the time is taken as Timestamp of any unit and zone, or as Int64 nanoseconds since 1970",
        }),
    }
}

fn scaled_times<T: ArrowPrimitiveType<Native = i64>>(
    array: &dyn Array,
    unit_ns: i64,
) -> Result<Vec<i64>, Refusal> {
    let array = array.as_primitive::<T>();
    let mut times = Vec::with_capacity(array.len());
    for (row, &value) in array.values().iter().enumerate() {
        if array.is_null(row) {
            return refuse(row, "every row needs a time, and this one's is null");
        }
        let time = value.checked_mul(unit_ns);
        match time.filter(|time| (TIME_NS_MIN..=TIME_NS_MAX).contains(time)) {
            Some(time) => times.push(time),
            None => {
                return refuse(
                    row,
                    format!(
                        "{value} units of {unit_ns} ns are outside the times that there are, {TIME_NS_MIN} to {TIME_NS_MAX} ns since 1970"
                    ),
                );
            }
        }
    }
    Ok(times)
}

/// Strings of any of Arrow's layouts.
pub(super) enum Strings<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    FixedBinary(&'a FixedSizeBinaryArray),
    Dictionary {
        array: &'a dyn Array,
        keys: Vec<usize>,
        values: Box<Strings<'a>>,
    },
    Printed(Vec<Option<String>>),
    Nulls,
}

impl<'a> Strings<'a> {
    pub(super) fn text(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Null => Self::Nulls,
            DataType::Utf8 => Self::Utf8(array.as_string()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary_opt()?;
                let values = Self::text(dictionary.values().as_ref())?;
                if dictionary.values().is_empty() {
                    // Then every key is null, and there is nothing that a key could be made to fit.
                    return Some(Self::Nulls);
                }
                Self::Dictionary {
                    array,
                    keys: dictionary.normalized_keys(),
                    values: Box::new(values),
                }
            }
            _ => return None,
        })
    }

    pub(super) fn bytes(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::FixedBinary(array.as_fixed_size_binary()),
            _ => return Self::text(array),
        })
    }

    /// The values of a tag.
    pub(super) fn tag(array: &'a dyn Array) -> Result<Self, Refusal> {
        Self::any_tag(array)
    }

    /// The values of a tag that is integers of a type, in their one form.
    pub(super) fn integer_tag(array: &'a dyn Array, of: LogicalType) -> Result<Self, Refusal> {
        let values = Self::any_tag(array)?;
        let refused = |values: &Self, at: usize| {
            let text = values.get(at).unwrap_or_default();
            let text = std::str::from_utf8(text).unwrap_or_default();
            if text.is_empty() {
                return None;
            }
            canonical_integer(of, text).err()
        };
        // Of a dictionary each text once, where rows are many and texts few. One that no row has may be anything.
        let are_all_fine = match &values {
            Self::Dictionary { array, values, .. } => {
                let distinct = array.as_any_dictionary_opt();
                let distinct = distinct.map_or(0, |it| it.values().len());
                (0..distinct).all(|at| refused(values, at).is_none())
            }
            _ => false,
        };
        let rows = if are_all_fine { 0 } else { array.len() };
        for row in 0..rows {
            if let Some(reason) = refused(&values, row) {
                let kind = crate::error::ConstraintKind::OutOfRange;
                return Err(Refusal::violation(row, Violation { kind, reason }));
            }
        }
        Ok(values)
    }

    fn any_tag(array: &'a dyn Array) -> Result<Self, Refusal> {
        if let Some(text) = Self::text(array) {
            return Ok(text);
        }
        if array.data_type().is_integer()
            && let Some(numbers) = Numbers::of(array)
        {
            let print = |row| match numbers.get(row)? {
                Number::Signed(value) => Some(value.to_string()),
                Number::Unsigned(value) => Some(value.to_string()),
                Number::Float(_) | Number::Decimal(..) => None,
            };
            return Ok(Self::Printed((0..array.len()).map(print).collect()));
        }
        Err(Refusal::Type {
            taken: "a tag is taken as Utf8, LargeUtf8, Utf8View, a Dictionary of one of them, or an integer type",
        })
    }

    /// Which of so many texts each row has, if all of them have one.
    pub(super) fn codes(&self) -> Option<(&[usize], usize)> {
        let Self::Dictionary { array, keys, .. } = self else {
            return None;
        };
        let distinct = array.as_any_dictionary_opt()?.values().len();
        (array.null_count() == 0).then_some((keys.as_slice(), distinct))
    }

    /// Where the values of all rows stand together: their ends and their bytes. `None` = not in one piece, or a row has none.
    fn together(&self) -> Option<(&[i32], &[u8])> {
        match self {
            Self::Utf8(array) if array.null_count() == 0 => {
                Some((array.value_offsets(), array.value_data()))
            }
            Self::Binary(array) if array.null_count() == 0 => {
                Some((array.value_offsets(), array.value_data()))
            }
            _ => None,
        }
    }

    /// The bytes of a row, `None` = null.
    pub(super) fn get(&self, row: usize) -> Option<&[u8]> {
        fn valid<T: Array>(array: &T, row: usize) -> Option<&T> {
            (row < array.len() && array.is_valid(row)).then_some(array)
        }
        match self {
            Self::Utf8(array) => valid(*array, row).map(|array| array.value(row).as_bytes()),
            Self::LargeUtf8(array) => valid(*array, row).map(|array| array.value(row).as_bytes()),
            Self::Utf8View(array) => valid(*array, row).map(|array| array.value(row).as_bytes()),
            Self::Binary(array) => valid(*array, row).map(|array| array.value(row)),
            Self::LargeBinary(array) => valid(*array, row).map(|array| array.value(row)),
            Self::BinaryView(array) => valid(*array, row).map(|array| array.value(row)),
            Self::FixedBinary(array) => valid(*array, row).map(|array| array.value(row)),
            Self::Dictionary {
                array,
                keys,
                values,
            } => {
                let key = keys.get(row).filter(|_| array.is_valid(row))?;
                values.get(*key)
            }
            Self::Printed(values) => values.get(row)?.as_deref().map(str::as_bytes),
            Self::Nulls => None,
        }
    }
}

/// A number of any of Arrow's types.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// Times ten to the power of minus the second.
    Decimal(i128, u32),
}

pub(super) enum Numbers<'a> {
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt8(&'a PrimitiveArray<UInt8Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, u32),
}

impl<'a> Numbers<'a> {
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int8 => Self::Int8(array.as_primitive()),
            DataType::Int16 => Self::Int16(array.as_primitive()),
            DataType::Int32 => Self::Int32(array.as_primitive()),
            DataType::Int64 => Self::Int64(array.as_primitive()),
            DataType::UInt8 => Self::UInt8(array.as_primitive()),
            DataType::UInt16 => Self::UInt16(array.as_primitive()),
            DataType::UInt32 => Self::UInt32(array.as_primitive()),
            DataType::UInt64 => Self::UInt64(array.as_primitive()),
            DataType::Float32 => Self::Float32(array.as_primitive()),
            DataType::Float64 => Self::Float64(array.as_primitive()),
            DataType::Decimal128(_, scale) => {
                Self::Decimal(array.as_primitive(), u32::try_from(*scale).ok()?)
            }
            _ => return None,
        })
    }

    /// The number of a row, `None` = null.
    pub(super) fn get(&self, row: usize) -> Option<Number> {
        fn value<T: ArrowPrimitiveType>(
            array: &PrimitiveArray<T>,
            row: usize,
        ) -> Option<T::Native> {
            let value = array.values().get(row).copied()?;
            array.is_valid(row).then_some(value)
        }
        Some(match self {
            Self::Int8(array) => Number::Signed(value(array, row)?.into()),
            Self::Int16(array) => Number::Signed(value(array, row)?.into()),
            Self::Int32(array) => Number::Signed(value(array, row)?.into()),
            Self::Int64(array) => Number::Signed(value(array, row)?),
            Self::UInt8(array) => Number::Unsigned(value(array, row)?.into()),
            Self::UInt16(array) => Number::Unsigned(value(array, row)?.into()),
            Self::UInt32(array) => Number::Unsigned(value(array, row)?.into()),
            Self::UInt64(array) => Number::Unsigned(value(array, row)?),
            Self::Float32(array) => Number::Float(value(array, row)?.into()),
            Self::Float64(array) => Number::Float(value(array, row)?),
            Self::Decimal(array, scale) => Number::Decimal(value(array, row)?, *scale),
        })
    }

    fn is_float(&self) -> bool {
        matches!(self, Self::Float32(_) | Self::Float64(_))
    }
}

impl Number {
    fn integer(self) -> Option<i128> {
        match self {
            Self::Signed(value) => Some(value.into()),
            Self::Unsigned(value) => Some(value.into()),
            Self::Float(_) => None,
            Self::Decimal(value, scale) => {
                let unit = 10_i128.checked_pow(scale)?;
                (value % unit == 0).then(|| value / unit)
            }
        }
    }

    /// The float that is exactly this number.
    fn float(self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(value),
            // A decimal fraction is a binary one if only twos are left of its tens.
            Self::Decimal(value, scale) => {
                let fives = 5_i128.checked_pow(scale)?;
                let halves = (value % fives == 0).then(|| value / fives)?;
                let halves = small_integer(halves)?;
                Some(halves * 0.5_f64.powi(i32::try_from(scale).ok()?))
            }
            Self::Signed(_) | Self::Unsigned(_) => small_integer(self.integer()?),
        }
    }

    pub(super) fn shown(self) -> String {
        match self {
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Decimal(value, 0) => value.to_string(),
            Self::Decimal(value, scale) => format!("{value}e-{scale}"),
        }
    }
}

/// The integer as a float, if it is one for certain.
fn small_integer(value: i128) -> Option<f64> {
    (value.unsigned_abs() <= FLOAT_INTEGERS_MAX).then_some(value as f64)
}

/// A field: values of the type that it has in the table, each text of so many bytes at most.
pub(super) fn field(
    array: &dyn Array,
    id: ColumnId,
    kind: PhysicalType,
    value_bytes_max: u64,
) -> Result<Column, Refusal> {
    let mut column = Column::new(id, kind);
    if array.data_type() == &DataType::Null {
        column.pad(array.len());
        return Ok(column);
    }
    match (&mut column.values, array.data_type()) {
        (Values::I64(to), DataType::Int64) => {
            to.extend_from_slice(array.as_primitive::<Int64Type>().values());
        }
        (Values::U64(to), DataType::UInt64) => {
            to.extend_from_slice(array.as_primitive::<UInt64Type>().values());
        }
        (Values::F64(to), DataType::Float64) => {
            to.extend_from_slice(array.as_primitive::<Float64Type>().values());
        }
        (Values::Bool(to), DataType::Boolean) => {
            let from: &BooleanArray = array.as_boolean();
            to.extend(from.values().iter());
        }
        (Values::I64(to), _) => {
            let fit = |number: Number| i64::try_from(number.integer()?).ok();
            push_numbers(
                array,
                to,
                fit,
                INTEGERS_TAKEN,
                "a signed integer of 64 bits",
            )?;
        }
        (Values::U64(to), _) => {
            let fit = |number: Number| u64::try_from(number.integer()?).ok();
            push_numbers(
                array,
                to,
                fit,
                INTEGERS_TAKEN,
                "an unsigned integer of 64 bits",
            )?;
        }
        (Values::F64(to), _) => {
            push_numbers(array, to, Number::float, FLOATS_TAKEN, "a float of 64 bits")?;
        }
        (Values::Bool(_), _) => {
            return Err(Refusal::Type {
                taken: "a boolean field is taken as Boolean",
            });
        }
        (Values::Text(to), _) => {
            let taken =
                "a text field is taken as Utf8, LargeUtf8, Utf8View or a Dictionary of one of them";
            push_strings(
                array.len(),
                Strings::text(array),
                to,
                taken,
                value_bytes_max,
            )?;
        }
        (Values::Bytes(to), _) => {
            let taken = "a field of bytes is taken as Binary, LargeBinary, BinaryView, FixedSizeBinary or text";
            push_strings(
                array.len(),
                Strings::bytes(array),
                to,
                taken,
                value_bytes_max,
            )?;
        }
    }
    // What a slot holds whose row is null is nobody's business, and zeros are stored in less room.
    let logical = array.logical_nulls();
    match logical.filter(|nulls| nulls.null_count() > 0) {
        None => column.validity.extend(true, array.len()),
        Some(nulls) => {
            let mut validity = Validity::default();
            for (row, valid) in nulls.iter().enumerate() {
                validity.push(valid);
                if !valid {
                    column.values.clear(row);
                }
            }
            column.validity = validity;
        }
    }
    Ok(column)
}

const INTEGERS_TAKEN: &str =
    "an integer field is taken as Int8 to Int64, UInt8 to UInt64, or Decimal128 without a fraction";
const FLOATS_TAKEN: &str = "a float field is taken as Float32, Float64, an integer type or Decimal128, as far as floats hold the values";

fn push_numbers<T: Default>(
    array: &dyn Array,
    to: &mut Vec<T>,
    fit: impl Fn(Number) -> Option<T>,
    taken: &'static str,
    what: &str,
) -> Result<(), Refusal> {
    let numbers = Numbers::of(array).ok_or(Refusal::Type { taken })?;
    if numbers.is_float() && taken == INTEGERS_TAKEN {
        return Err(Refusal::Type { taken });
    }
    for row in 0..array.len() {
        let value = match numbers.get(row) {
            None => T::default(),
            Some(number) => match fit(number) {
                Some(value) => value,
                None => return refuse(row, format!("{} is not {what}", number.shown())),
            },
        };
        to.push(value);
    }
    Ok(())
}

fn push_strings(
    rows: usize,
    from: Option<Strings<'_>>,
    to: &mut crate::batch::Strings,
    taken: &'static str,
    value_bytes_max: u64,
) -> Result<(), Refusal> {
    let from = from.ok_or(Refusal::Type { taken })?;
    // The format has no room for more.
    let value_bytes_max = value_bytes_max.min(LARGE_BYTES_MAX as u64);
    if let Some((offsets, bytes)) = from.together()
        && offsets.len() == rows + 1
        && bytes.len() <= COLUMN_TEXT_BYTES_MAX
        && offsets
            .array_windows()
            .all(|[start, end]| i64::from(end - start).cast_unsigned() <= value_bytes_max)
        && to.extend_from_arrow(offsets, bytes)
    {
        return Ok(());
    }
    for row in 0..rows {
        let value = from.get(row).unwrap_or_default();
        let bytes = value.len();
        if bytes as u64 > value_bytes_max {
            return refuse(
                row,
                format!(
                    "it has {bytes} bytes, and a value may have {value_bytes_max} (setting value-bytes-max)"
                ),
            );
        }
        let bytes = to.bytes.len() + value.len();
        if bytes > COLUMN_TEXT_BYTES_MAX {
            return Err(Refusal::Text {
                bytes,
                max: COLUMN_TEXT_BYTES_MAX,
            });
        }
        to.push(value);
    }
    Ok(())
}
