//! `timezone(zone, time)`, which is how `time AT TIME ZONE zone` is called: what the clock of a zone shows at an instant, or when
//! it shows a time.
//!
//! Does: both, by the type of the time, as `PostgreSQL` does. Does not: know the zone of the session; `clocks` makes instants of
//! dates before.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::semantics::clocks;
use crate::semantics::zone::Zone;

/// The name that `PostgreSQL` gave it.
pub(crate) const NAME: &str = "timezone";

const USAGE: &str = "time AT TIME ZONE zone: time is a timestamp or a date, zone a constant text such as 'Europe/Berlin' or '+02:00'";

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtTimeZone {
    signature: Signature,
}

/// The function.
pub(in crate::function) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(AtTimeZone { signature }))
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")))
}

fn clock() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [zone, time] = arg_types else {
            return plan_err!("{USAGE}");
        };
        if !zone.is_string() && !zone.is_null() {
            return plan_err!("{USAGE}");
        }
        let time = match time {
            DataType::Timestamp(_, None) => clock(),
            DataType::Timestamp(_, Some(_))
            | DataType::Date32
            | DataType::Date64
            | DataType::Null => instant(),
            _ => return plan_err!("{USAGE}"),
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, DataType::Timestamp(_, None)] => Ok(instant()),
            [_, DataType::Timestamp(_, Some(_))] => Ok(clock()),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zone, time] = args.args.as_slice() else {
            return plan_err!("{USAGE}");
        };
        let zone = match zone {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => Zone::of(name)
                .map_err(|error| datafusion::common::DataFusionError::External(Box::new(error)))?,
            ColumnarValue::Scalar(_) => {
                return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(
                    args.return_field.data_type(),
                )?));
            }
            ColumnarValue::Array(_) => return exec_err!("{USAGE}"),
        };
        let is_scalar = matches!(time, ColumnarValue::Scalar(_));
        let times = time.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let read = read(&times, &zone)?;
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&read, 0)?)
        } else {
            ColumnarValue::Array(read)
        })
    }
}

fn read(times: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    match times.data_type() {
        DataType::Timestamp(_, None) => clocks::instants(times, zone),
        _ => clocks::clocks(times, zone),
    }
}
