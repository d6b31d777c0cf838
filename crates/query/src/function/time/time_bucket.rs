//! `time_bucket(width, time [, timezone] [, origin] [, offset])`: the start of the bucket that a time falls into.
//!
//! As in `TimescaleDB`: buckets of a fixed width count from Monday 2000-01-03, months from January 2000, integers from
//! 0, all in both directions. The optional arguments are told apart by their types. Months do not mix with days.
//! After a time zone, NULL is an origin or an offset that was left out; anywhere else NULL makes NULL.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int16Type, Int32Type, Int64Type, IntervalUnit,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use nilometer_series::Bucket;

use super::bucket::{Buckets, DAY_NS, Shift, Width};
use super::text_time;

pub(crate) const NAME: &str = "time_bucket";

const USAGE: &str = "time_bucket(width, time [, timezone] [, origin] [, offset]): width is an interval such as '5 minutes', time a timestamp, a date, or text that is a time or a UUID of version 7; or all are integers";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeBucket {
    signature: Signature,
}

impl TimeBucket {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (Some(width), Some(time)) = (arg_types.first(), arg_types.get(1)) else {
            return plan_err!("{USAGE}");
        };
        // A text beside integers is one: `time_bucket('4', n)`.
        if width.is_integer() || (width.is_string() && time.is_integer()) {
            if arg_types.len() > 3
                || !arg_types
                    .iter()
                    .all(|kind| kind.is_integer() || kind.is_null() || kind.is_string())
            {
                return plan_err!("{USAGE}");
            }
            return Ok(vec![signed(time); arg_types.len()]);
        }
        if arg_types.len() > 5
            || !(width.is_string() || width.is_null() || matches!(width, DataType::Interval(_)))
        {
            return plan_err!("{USAGE}");
        }
        let utc = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let time = match time {
            DataType::Timestamp(..) | DataType::Date32 => time.clone(),
            kind if kind.is_null() => utc(),
            kind if kind.is_string() => DataType::Utf8,
            DataType::Dictionary(_, value) if value.is_string() => DataType::Utf8,
            _ => return plan_err!("{USAGE}"),
        };
        let mut coerced = vec![DataType::Interval(IntervalUnit::MonthDayNano), time];
        for kind in arg_types.iter().skip(2) {
            coerced.push(match kind {
                DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
                DataType::Timestamp(..) | DataType::Date32 => utc(),
                kind if kind.is_string() || kind.is_null() => DataType::Utf8,
                _ => return plan_err!("{USAGE}"),
            });
        }
        Ok(coerced)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.get(1) {
            Some(kind) if kind.is_string() => Ok(DataType::Timestamp(
                TimeUnit::Nanosecond,
                Some("UTC".into()),
            )),
            Some(time) => Ok(time.clone()),
            None => plan_err!("{USAGE}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut args = args.args.into_iter();
        let (Some(width), Some(time)) = (args.next(), args.next()) else {
            return exec_err!("{USAGE}");
        };
        let time = of_text(time)?;
        let time_type = time.data_type();
        let Some(buckets) = buckets(&width, args.as_slice(), &time_type)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&time_type)?));
        };
        match time {
            ColumnarValue::Array(times) => {
                Ok(ColumnarValue::Array(bucket_array(&times, &buckets)?))
            }
            ColumnarValue::Scalar(time) => {
                let bucketed = bucket_array(&time.to_array()?, &buckets)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                    &bucketed, 0,
                )?))
            }
        }
    }
}

/// Texts as the times that they are, anything else as it is.
fn of_text(time: ColumnarValue) -> Result<ColumnarValue> {
    Ok(match time {
        ColumnarValue::Array(texts) if texts.data_type().is_string() => {
            ColumnarValue::Array(Arc::new(text_time::times(texts.as_string(), NAME)?))
        }
        ColumnarValue::Scalar(ScalarValue::Utf8(text)) => {
            let times = text_time::times(&StringArray::from(vec![text]), NAME)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
        }
        time => time,
    })
}

/// The signed integer type that holds the times of a type; for unsigned ones the next wider.
pub(crate) fn signed(kind: &DataType) -> DataType {
    match kind {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => DataType::Int16,
        DataType::UInt16 | DataType::Int32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// A width, and the origin it has by itself; `None` if it is NULL.
pub(crate) fn width(
    width: &ScalarValue,
    time_type: &DataType,
    function: &str,
) -> Result<Option<(Width, Option<i128>)>> {
    let (width, origin) = match width {
        width if width.is_null() => return Ok(None),
        ScalarValue::Int16(Some(width)) => (Width::Fixed(i128::from(*width)), Some(0)),
        ScalarValue::Int32(Some(width)) => (Width::Fixed(i128::from(*width)), Some(0)),
        ScalarValue::Int64(Some(width)) => (Width::Fixed(i128::from(*width)), Some(0)),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let fixed = i128::from(interval.days) * DAY_NS + i128::from(interval.nanoseconds);
            match (interval.months, fixed) {
                (0, fixed) => (Width::Fixed(fixed), None),
                (months, 0) => (Width::Months(months), None),
                _ => {
                    return exec_err!(
                        "{function}: a width of months cannot have days or hours as well"
                    );
                }
            }
        }
        other => return exec_err!("{function}: {other} is no width"),
    };
    match width {
        Width::Fixed(..=0) | Width::Months(..=0) => {
            exec_err!("{function}: the width must be greater than 0")
        }
        Width::Fixed(width) if *time_type == DataType::Date32 && width % DAY_NS != 0 => {
            exec_err!("{function}: the width of a bucket of dates must be whole days")
        }
        width => Ok(Some((width, origin))),
    }
}

/// A time zone by its name or offset.
pub(crate) fn zone(name: &str, function: &str) -> Result<Tz> {
    Tz::from_str(name).or_else(|_| {
        exec_err!(
            "{function}: unknown time zone '{name}'; for an offset, an origin, a start or a finish write its name and =>"
        )
    })
}

/// What the arguments other than the time say, or `None` if one of them is NULL.
fn buckets(
    width: &ColumnarValue,
    optional: &[ColumnarValue],
    time_type: &DataType,
) -> Result<Option<Buckets>> {
    let Some((width, origin)) = self::width(&constant(width)?, time_type, NAME)? else {
        return Ok(None);
    };
    let mut buckets = Buckets {
        width,
        origin,
        offset: Shift::default(),
        zone: None,
    };
    let has_zone = optional
        .iter()
        .any(|argument| matches!(argument, ColumnarValue::Scalar(ScalarValue::Utf8(Some(_)))));
    for argument in optional {
        match constant(argument)? {
            ScalarValue::Int16(Some(offset)) => buckets.offset.fixed = i128::from(offset),
            ScalarValue::Int32(Some(offset)) => buckets.offset.fixed = i128::from(offset),
            ScalarValue::Int64(Some(offset)) => buckets.offset.fixed = i128::from(offset),
            ScalarValue::TimestampNanosecond(Some(origin), _) => {
                buckets.origin = Some(i128::from(origin));
            }
            ScalarValue::IntervalMonthDayNano(Some(offset)) => {
                buckets.offset = Shift {
                    months: offset.months,
                    fixed: i128::from(offset.days) * DAY_NS + i128::from(offset.nanoseconds),
                };
            }
            ScalarValue::Utf8(Some(name)) => buckets.zone = Some(self::zone(&name, NAME)?),
            _ if has_zone => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(buckets))
}

/// The buckets that constants make of times of a type; `None` = one of them is NULL.
pub(crate) fn buckets_of(
    width: &ScalarValue,
    optional: &[ScalarValue],
    time_type: &DataType,
) -> Result<Option<Buckets>> {
    let scalar = |value: &ScalarValue| ColumnarValue::Scalar(value.clone());
    let others: Vec<ColumnarValue> = optional.iter().map(scalar).collect();
    buckets(&scalar(width), &others, time_type)
}

/// The buckets of a time that these arguments make, for a series query; `None` = it has none such, or they are wrong.
pub(crate) fn series_buckets(width: &ScalarValue, optional: &[ScalarValue]) -> Option<Bucket> {
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let buckets = buckets_of(width, optional, &utc).ok()??;
    let zone = optional.iter().find_map(|value| match value {
        ScalarValue::Utf8(Some(name)) => Some(name.as_str()),
        _ => None,
    });
    buckets.of_series(zone)
}

fn constant(value: &ColumnarValue) -> Result<ScalarValue> {
    match value {
        ColumnarValue::Scalar(scalar) => Ok(scalar.clone()),
        ColumnarValue::Array(_) => {
            exec_err!("time_bucket: all arguments except the time must be constants")
        }
    }
}

fn bucket_array(times: &ArrayRef, buckets: &Buckets) -> Result<ArrayRef> {
    Ok(match times.data_type() {
        DataType::Int16 => Arc::new(bucket_all::<Int16Type>(times.as_primitive(), buckets, 1)?),
        DataType::Int32 => Arc::new(bucket_all::<Int32Type>(times.as_primitive(), buckets, 1)?),
        DataType::Int64 => Arc::new(bucket_all::<Int64Type>(times.as_primitive(), buckets, 1)?),
        DataType::Timestamp(TimeUnit::Second, _) => Arc::new(bucket_all::<TimestampSecondType>(
            times.as_primitive(),
            buckets,
            1_000_000_000,
        )?),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Arc::new(bucket_all::<TimestampMillisecondType>(
                times.as_primitive(),
                buckets,
                1_000_000,
            )?)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Arc::new(bucket_all::<TimestampMicrosecondType>(
                times.as_primitive(),
                buckets,
                1_000,
            )?)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Arc::new(bucket_all::<TimestampNanosecondType>(
                times.as_primitive(),
                buckets,
                1,
            )?)
        }
        DataType::Date32 => Arc::new(bucket_all::<Date32Type>(
            times.as_primitive(),
            buckets,
            DAY_NS,
        )?),
        other => return exec_err!("time_bucket: {other} is no time"),
    })
}

/// Neighbours mostly fall into the same bucket, so the edges of the last one answer for them with two comparisons.
fn bucket_all<T>(
    times: &PrimitiveArray<T>,
    buckets: &Buckets,
    unit_ns: i128,
) -> Result<PrimitiveArray<T>>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64> + TryFrom<i64>,
{
    // Empty, so that the first time sets it.
    let (mut start, mut end) = (1i64, 0i64);
    let mut bucket = start;
    let mut starts = Vec::with_capacity(times.len());
    for (row, &time) in times.values().iter().enumerate() {
        let time: i64 = time.into();
        if time < start || time >= end {
            if times.is_null(row) {
                starts.push(T::Native::default());
                continue;
            }
            (bucket, start, end) = edges(time, buckets, unit_ns)?;
        }
        starts.push(T::Native::try_from(bucket).or_else(|_| out_of_range(time))?);
    }
    let starts = PrimitiveArray::<T>::try_new(starts.into(), times.nulls().cloned())?;
    Ok(starts.with_data_type(times.data_type().clone()))
}

/// The bucket of a time and the range [start, end) in which it is known to be the bucket, in the unit of the time.
fn edges(time: i64, buckets: &Buckets, unit_ns: i128) -> Result<(i64, i64, i64)> {
    let Some((start, end)) = buckets.around(i128::from(time) * unit_ns) else {
        return out_of_range(time);
    };
    let Ok(bucket) = i64::try_from(start.div_euclid(unit_ns)) else {
        return out_of_range(time);
    };
    // An edge inside a unit rounds up: the first whole unit on its other side.
    let up = |edge: i128| i64::try_from(-((-edge).div_euclid(unit_ns))).unwrap_or(i64::MAX);
    // In a time zone, or beside an offset of months, nothing is known about the neighbours.
    let start = if buckets.zone.is_some() || buckets.offset.months != 0 {
        time
    } else {
        up(start)
    };
    Ok((bucket, start, up(end)))
}

fn out_of_range<T>(time: i64) -> Result<T> {
    exec_err!("time_bucket: the bucket of {time} begins before the earliest time there is")
}
