//! `date_part` and `extract`, with the fraction that seconds and milliseconds have, with decades and more, and without a shortcut of `DataFusion`'s that
//! is wrong at the ends of time.
//!
//! The shortcut turns `extract(year FROM time) > 0` into `time >= ...`, where the year 0 is no 64-bit nanoseconds, and so nothing
//! is. What is inside stays a range, which a scan can use.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, FieldRef, Float64Type, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// The function.
pub(in crate::function) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(DatePart { inner: date_part() }))
}

/// Plans `extract` as this function; the planner has another in mind, whatever is registered.
#[derive(Debug)]
pub(crate) struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = ScalarFunction::new_udf(function(), args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

fn mapped(
    value: &ColumnarValue,
    map: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(map(array)?),
        ColumnarValue::Scalar(scalar) => {
            let array = map(&scalar.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        }
    })
}

fn is_span(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_) | DataType::Duration(_))
}

/// Parts that are many years.
#[derive(Debug, Clone, Copy)]
enum Years {
    Decade,
    Century,
    Millennium,
}

impl Years {
    /// Which one a year is in; of an interval, how many there are.
    fn of(self, year: i32, is_span: bool) -> i32 {
        let length = match self {
            Self::Decade => 10,
            Self::Century => 100,
            Self::Millennium => 1000,
        };
        match self {
            _ if is_span => year / length,
            Self::Decade => year.div_euclid(length),
            // The first one began with the year 1.
            _ => (year - 1).div_euclid(length) + 1,
        }
    }
}

fn years_in(part: &ScalarValue) -> Option<Years> {
    let part = part.try_as_str().flatten()?;
    match part.trim_matches(['\'', '"']).to_ascii_lowercase().as_str() {
        "decade" | "decades" => Some(Years::Decade),
        "century" | "centuries" => Some(Years::Century),
        "millennium" | "millennia" => Some(Years::Millennium),
        _ => None,
    }
}

/// Nanoseconds in what is asked for, if it has a fraction.
fn nanoseconds_in(part: &ScalarValue) -> Option<f64> {
    let part = part.try_as_str().flatten()?;
    match part.trim_matches(['\'', '"']).parse() {
        Ok(IntervalUnit::Second) => Some(1e9),
        Ok(IntervalUnit::Millisecond) => Some(1e6),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DatePart {
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

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let part = args.scalar_arguments.first().copied().flatten();
        let has_fraction = part.and_then(nanoseconds_in).is_some();
        let field = self.inner.return_field_from_args(args)?;
        Ok(if has_fraction {
            let field = field.as_ref().clone();
            Arc::new(field.with_data_type(DataType::Float64))
        } else {
            field
        })
    }

    /// Of seconds and milliseconds the library has whole ones only, and of nanoseconds all since the minute began.
    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let part = match args.args.first() {
            Some(ColumnarValue::Scalar(part)) => Some(part),
            _ => None,
        };
        if let Some(years) = part.and_then(years_in) {
            if let Some(part) = args.args.first_mut() {
                *part = ColumnarValue::Scalar(ScalarValue::from("year"));
            }
            let is_span = args.args.get(1).is_some_and(|it| is_span(&it.data_type()));
            let found = self.inner.invoke_with_args(args)?;
            return mapped(&found, |found| {
                let found = cast(found, &DataType::Int32)?;
                let found = found.as_primitive::<Int32Type>();
                let in_spans = found.unary::<_, Int32Type>(|year| years.of(year, is_span));
                Ok(Arc::new(in_spans) as ArrayRef)
            });
        }
        let Some(unit) = part.and_then(nanoseconds_in) else {
            return self.inner.invoke_with_args(args);
        };
        if let Some(part) = args.args.first_mut() {
            *part = ColumnarValue::Scalar(ScalarValue::from("nanosecond"));
        }
        let field = args.return_field.as_ref().clone();
        args.return_field = Arc::new(field.with_data_type(DataType::Int64));
        let found = self.inner.invoke_with_args(args)?;
        mapped(&found, |found| {
            let found = cast(found, &DataType::Int64)?;
            let found = found.as_primitive::<Int64Type>();
            let in_units = found.unary::<_, Float64Type>(|ns| ns as f64 / unit);
            Ok(Arc::new(in_units) as ArrayRef)
        })
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        Ok(match self.inner.preimage(args, literal, info)? {
            PreimageResult::Range { interval, .. }
                if interval.lower().is_null() || interval.upper().is_null() =>
            {
                PreimageResult::None
            }
            found => found,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
