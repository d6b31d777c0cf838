//! `to_timestamp` and its like, with an error for a number that is no time.
//!
//! `DataFusion` 55.2 makes 1970 of NaN, 2262 of every number that is too large, and of large integers times that have no
//! spelling. What is a time is left to `DataFusion`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, FieldRef, Float64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use chrono::DateTime;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

const NAMES: [&str; 4] = [
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_seconds",
];

/// Puts them in place of those that a session has.
pub(in crate::function) fn register(session: &mut SessionState) -> Result<()> {
    for name in NAMES {
        let inner = session.udf(name)?;
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(Epoch { inner })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Epoch {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        let inner = Arc::new(inner);
        Some(ScalarUDF::new_from_impl(Self { inner }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.name() == "to_timestamp"
            && let Some(number) = args.args.first()
            && number.data_type().is_floating()
        {
            let rows = args.number_rows;
            let number = number.to_array(rows)?;
            check_seconds(&number)?;
        }
        let times = self.inner.invoke_with_args(args)?;
        let is_time = match &times {
            ColumnarValue::Array(times) => are_times(times),
            ColumnarValue::Scalar(time) => are_times(&time.to_array()?),
        };
        if !is_time {
            return exec_err!(
                "{}: a number is outside of the years that a time can have",
                self.name()
            );
        }
        Ok(times)
    }
}

/// Seconds from the epoch whose nanoseconds are a time.
fn check_seconds(numbers: &ArrayRef) -> Result<()> {
    /// 2^63 nanoseconds.
    const END: f64 = 9_223_372_036.854_776;
    let numbers = cast(numbers, &DataType::Float64)?;
    for number in numbers.as_primitive::<Float64Type>().iter().flatten() {
        if !(number > -END && number < END) {
            return exec_err!(
                "to_timestamp: {number} seconds from 1970 is no time from 1677-09-21 to 2262-04-11"
            );
        }
    }
    Ok(())
}

/// Whether all can be written with a year.
fn are_times(times: &ArrayRef) -> bool {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            let times = times.as_primitive::<TimestampSecondType>();
            let mut times = times.iter().flatten();
            times.all(|time| DateTime::from_timestamp(time, 0).is_some())
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let times = times.as_primitive::<TimestampMillisecondType>();
            let mut times = times.iter().flatten();
            times.all(|time| DateTime::from_timestamp_millis(time).is_some())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let times = times.as_primitive::<TimestampMicrosecondType>();
            let mut times = times.iter().flatten();
            times.all(|time| DateTime::from_timestamp_micros(time).is_some())
        }
        _ => true,
    }
}
