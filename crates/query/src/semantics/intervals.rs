//! Calculations with intervals, where `PostgreSQL` differs from the planner: a date and an interval make a timestamp, and an
//! interval may be multiplied with a number and divided by one.
//!
//! The planner cuts the hours off a date, and refuses to multiply. Does: plan these operators. Does not: compare intervals; `float_key`
//! has keys for that.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const DAY_SECONDS: f64 = 86_400.0;
const MONTH_DAYS: f64 = 30.0;
const SECOND_NS: f64 = 1e9;

/// Plans the operators.
#[derive(Debug)]
pub(crate) struct Intervals;

impl ExprPlanner for Intervals {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let (left, right) = match op {
            BinaryOperator::Plus | BinaryOperator::Minus if is_interval(&right, schema) => {
                (on_clock(left, schema), right)
            }
            BinaryOperator::Plus if is_interval(&left, schema) => (left, on_clock(right, schema)),
            BinaryOperator::Multiply if is_interval(&left, schema) => {
                return Ok(PlannerResult::Planned(scaled(left, right, false)));
            }
            BinaryOperator::Multiply if is_interval(&right, schema) => {
                return Ok(PlannerResult::Planned(scaled(right, left, false)));
            }
            BinaryOperator::Divide if is_interval(&left, schema) => {
                return Ok(PlannerResult::Planned(scaled(left, right, true)));
            }
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether it is an interval, or a difference of times. Products of them are calls by now, so that a chain of products is not
/// looked through for each of its operators.
fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    let may_be = match expr {
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Plus | Operator::Minus),
        Expr::Literal(value, _) => !value.data_type().is_numeric(),
        _ => true,
    };
    may_be
        && matches!(
            expr.get_type(schema),
            Ok(DataType::Interval(_) | DataType::Duration(_))
        )
}

/// A date as a timestamp, so that it keeps the hours of an interval.
fn on_clock(expr: Expr, schema: &DFSchema) -> Expr {
    if is_date(&expr, schema) {
        cast(expr, DataType::Timestamp(TimeUnit::Nanosecond, None))
    } else {
        expr
    }
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        // A date and days; with an interval it was made a timestamp.
        Expr::BinaryExpr(binary) => {
            let right = binary.right.get_type(schema);
            right.is_ok_and(|kind| kind.is_integer()) && is_date(&binary.left, schema)
        }
        expr => matches!(expr.get_type(schema), Ok(DataType::Date32)),
    }
}

fn scaled(interval: Expr, number: Expr, is_divided: bool) -> Expr {
    let [multiply, divide] = &*SCALES;
    let function = if is_divided { divide } else { multiply };
    let args = vec![cast(interval, INTERVAL), cast(number, DataType::Float64)];
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

static SCALES: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [false, true].map(|is_divided| {
        let signature = Signature::exact(vec![INTERVAL, DataType::Float64], Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Scale {
            is_divided,
            signature,
        }))
    })
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Scale {
    is_divided: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Scale {
    fn name(&self) -> &'static str {
        if self.is_divided {
            "interval_divide"
        } else {
            "interval_multiply"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [interval, number] = args.args.as_slice() else {
            return internal_err!("{} has two arguments", self.name());
        };
        let is_scalar = [interval, number]
            .iter()
            .all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (intervals, numbers) = (interval.to_array(rows)?, number.to_array(rows)?);
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        let pairs = intervals.zip(numbers.as_primitive::<Float64Type>().iter());
        let scaled = pairs.map(|pair| match pair {
            (Some(_), Some(0.0)) if self.is_divided => Err(ArrowError::DivideByZero.into()),
            (Some(interval), Some(number)) => {
                if let Some(scaled) = scale(interval, number, self.is_divided) {
                    Ok(Some(scaled))
                } else {
                    exec_err!("an interval times or by {number} is out of range")
                }
            }
            _ => Ok(None),
        });
        let scaled: Result<IntervalMonthDayNanoArray> = scaled.collect();
        let scaled = scaled?;
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&scaled, 0)?)
        } else {
            ColumnarValue::Array(Arc::new(scaled))
        })
    }
}

/// As `PostgreSQL` has it: what is left of a month goes on as days of 30, what is left of a day as its time. `None` = too long.
pub(crate) fn scale(
    interval: IntervalMonthDayNano,
    by: f64,
    is_divided: bool,
) -> Option<IntervalMonthDayNano> {
    let times = |value: f64| if is_divided { value / by } else { value * by };
    let months = times(f64::from(interval.months));
    let days = times(f64::from(interval.days));
    let days_of_months = micro((months - months.trunc()) * MONTH_DAYS);
    let part_of_day = days - days.trunc() + days_of_months - days_of_months.trunc();
    let seconds = micro(part_of_day * DAY_SECONDS);
    let days_of_seconds = (seconds / DAY_SECONDS).trunc();
    let seconds = seconds - days_of_seconds * DAY_SECONDS;
    let nanoseconds = times(interval.nanoseconds as f64) + seconds * SECOND_NS;
    let days = days.trunc() + days_of_seconds + days_of_months.trunc();
    Some(IntervalMonthDayNano {
        months: i32::try_from(whole(months)?).ok()?,
        days: i32::try_from(whole(days)?).ok()?,
        nanoseconds: whole(nanoseconds.round_ties_even())?,
    })
}

/// Rounded to a millionth, which takes away what floats add.
fn micro(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn whole(value: f64) -> Option<i64> {
    /// 2^63.
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what does not fit is not answered, and the fraction is to go"
    )]
    let cut = value as i64;
    (-END..END).contains(&value).then_some(cut)
}
