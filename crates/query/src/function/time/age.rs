//! `age(later, earlier)`: the difference of two times in years, months, days and time, as `PostgreSQL` counts it.
//!
//! Does: count by the calendar, in UTC where times are instants. Does not: know what is now; `age(time)` is rewritten.

use std::sync::Arc;

use arrow::array::{AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Its name.
pub(crate) const NAME: &str = "age";

const DAY_NS: i64 = 86_400_000_000_000;

/// The function.
pub(in crate::function) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Age {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Age {
    signature: Signature,
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |kind: &DataType| {
            kind.is_null()
                || matches!(
                    kind,
                    DataType::Timestamp(..)
                        | DataType::Date32
                        | DataType::Date64
                        | DataType::Utf8
                        | DataType::Utf8View
                        | DataType::LargeUtf8
                )
        };
        let [one, other] = arg_types else {
            return plan_err!("age takes two times: age(later, earlier), or one: age(earlier)");
        };
        if !is_time(one) || !is_time(other) {
            return plan_err!("age is of times, not of {one} and {other}");
        }
        let zones = arg_types.iter().find_map(|kind| match kind {
            DataType::Timestamp(_, Some(zone)) => Some(Arc::clone(zone)),
            _ => None,
        });
        Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, zones); 2])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [later, earlier] = args.args.as_slice() else {
            return internal_err!("age has two arguments");
        };
        let is_scalar = [later, earlier]
            .iter()
            .all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (later, earlier) = (later.to_array(rows)?, earlier.to_array(rows)?);
        let later = later.as_primitive::<TimestampNanosecondType>().iter();
        let pairs = later.zip(earlier.as_primitive::<TimestampNanosecondType>().iter());
        let ages = pairs.map(|(later, earlier)| Some(age(later?, earlier?)));
        let ages: IntervalMonthDayNanoArray = ages.collect();
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&ages, 0)?)
        } else {
            ColumnarValue::Array(Arc::new(ages))
        })
    }
}

/// The difference of two times, in nanoseconds since 1970.
fn age(later_ns: i64, earlier_ns: i64) -> IntervalMonthDayNano {
    let (sign, low, high) = if later_ns < earlier_ns {
        (-1, later_ns, earlier_ns)
    } else {
        (1, earlier_ns, later_ns)
    };
    let civil = |ns: i64| DateTime::from_timestamp_nanos(ns).naive_utc();
    let (low, high) = (civil(low), civil(high));
    let in_day = |time: NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let month = |time: NaiveDateTime| time.year() * 12 + time.month0().cast_signed();
    let mut ns = in_day(high) - in_day(low);
    let mut days = high.day().cast_signed() - low.day().cast_signed();
    let mut months = month(high) - month(low);
    if ns < 0 {
        ns += DAY_NS;
        days -= 1;
    }
    // PostgreSQL borrows the days of the month of the earlier of the two as they are given: of its second argument, or of the
    // first where that is the earlier one.
    if days < 0 {
        days += days_in(low.year(), low.month());
        months -= 1;
    }
    IntervalMonthDayNano {
        months: sign * months,
        days: sign * days,
        nanoseconds: i64::from(sign) * ns,
    }
}

fn days_in(year: i32, month: u32) -> i32 {
    let (next_year, next) = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    let first = NaiveDate::from_ymd_opt(year, month, 1);
    let next = NaiveDate::from_ymd_opt(next_year, next, 1);
    match (first, next) {
        (Some(first), Some(next)) => i32::try_from((next - first).num_days()).unwrap_or(30),
        // Beyond what nanoseconds since 1970 reach.
        _ => 30,
    }
}
