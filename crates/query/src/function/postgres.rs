//! Two functions of `PostgreSQL` that users' statements call: `pg_typeof`, and `to_char` of times with its patterns.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit, TimestampNanosecondType};
use chrono::{DateTime, TimeZone};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::time::pattern::Pattern;

const USAGE: &str = "to_char(time, pattern): time is a timestamp or a date, pattern a text such as 'YYYY-MM-DD HH24:MI:SS'";

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    signature: Signature,
}

/// Both.
pub(super) fn functions() -> [Arc<ScalarUDF>; 2] {
    [
        Arc::new(ScalarUDF::new_from_impl(TypeOf {
            signature: Signature::any(1, Volatility::Immutable),
        })),
        Arc::new(ScalarUDF::new_from_impl(ToChar {
            signature: Signature::user_defined(Volatility::Immutable),
        })),
    ]
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &'static str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(field) = args.arg_fields.first() else {
            return plan_err!("pg_typeof(value)");
        };
        let name = type_name(field.data_type());
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }
}

/// What `PostgreSQL` calls a type; `DataFusion`'s name for what it does not have.
fn type_name(kind: &DataType) -> String {
    let name = match kind {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        kind if kind.is_string() => "text",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(
            IntervalUnit::MonthDayNano | IntervalUnit::DayTime | IntervalUnit::YearMonth,
        )
        | DataType::Duration(_) => "interval",
        DataType::Null => "unknown",
        DataType::Dictionary(_, value) => return type_name(value),
        DataType::List(item) | DataType::LargeList(item) => {
            return format!("{}[]", type_name(item.data_type()));
        }
        other => return other.to_string(),
    };
    name.to_owned()
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &'static str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let time = match arg_types {
            [DataType::Timestamp(_, zone), _] => {
                DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())
            }
            [DataType::Date32 | DataType::Date64 | DataType::Null, _] => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            _ => return plan_err!("{USAGE}"),
        };
        Ok(vec![time, DataType::Utf8])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [times, pattern] = args.args.as_slice() else {
            return plan_err!("{USAGE}");
        };
        let is_scalar = matches!(times, ColumnarValue::Scalar(_));
        let pattern = match pattern {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(pattern))) => Pattern::new(pattern),
            ColumnarValue::Scalar(_) => {
                return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None)));
            }
            ColumnarValue::Array(_) => return exec_err!("to_char: the pattern must be a constant"),
        };
        let times = times.to_array(if is_scalar { 1 } else { rows })?;
        let texts = texts(&times, &pattern)?;
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &texts, 0,
            )?));
        }
        Ok(ColumnarValue::Array(texts))
    }
}

fn texts(times: &ArrayRef, pattern: &Pattern) -> Result<ArrayRef> {
    let zone = match times.data_type() {
        DataType::Timestamp(_, Some(zone)) => zone.parse::<Tz>()?,
        _ => "+00:00".parse::<Tz>()?,
    };
    let kind = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let times = match times.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Arc::clone(times),
        _ => cast(times, &kind)?,
    };
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut texts = StringBuilder::new();
    for time in times {
        if let Some(time) = time {
            let time = zone.from_utc_datetime(&DateTime::from_timestamp_nanos(time).naive_utc());
            // Writing to the builder cannot fail; a pattern that chrono cannot write can.
            if pattern.write(&time, &mut texts).is_err() {
                return exec_err!("to_char: the pattern has a part that cannot be written");
            }
            texts.append_value("");
        } else {
            texts.append_null();
        }
    }
    Ok(Arc::new(texts.finish()))
}
