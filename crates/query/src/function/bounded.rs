//! Functions that make much of little: `repeat('x', 1000000000)` asks for a gigabyte in a few bytes, and the function would
//! take it at once, from nobody's budget, or work on it for minutes in one go.
//!
//! Does: find out from the arguments what one call would make, and refuse too much before it is begun. Does not: change
//! what the functions say.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Expr;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Bytes that one call may make, for all rows of a batch together.
const BYTES_MAX: u64 = 32 << 20;

/// Steps that one call may take: some seconds.
const STEPS_MAX: u64 = 1 << 31;

const DAY_NS: i64 = 86_400_000_000_000;

/// What makes much of little, and of which arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument so often as the second says.
    Times,
    /// As long as the second argument says.
    UpTo,
    /// From the first argument to the second, by the third.
    Range,
    /// The third argument for each of the second in the first.
    Replace,
    /// Each character of the first with each of the second.
    Pairs,
}

const FUNCTIONS: [(&str, Growth); 9] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("lpad", Growth::UpTo),
    ("rpad", Growth::UpTo),
    ("array_resize", Growth::UpTo),
    ("range", Growth::Range),
    ("generate_series", Growth::Range),
    ("replace", Growth::Replace),
    ("levenshtein", Growth::Pairs),
];

/// Puts the bounded functions in the place of the others.
pub(super) fn register(session: &mut SessionState) -> Result<()> {
    for (name, growth) in FUNCTIONS {
        let Some(inner) = session.scalar_functions().get(name).cloned() else {
            return Err(DataFusionError::Internal(format!(
                "there is no function {name} to be bounded"
            )));
        };
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(Bounded {
            inner,
            growth,
        })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    fn check(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        // One result, however many rows it is for.
        let rows = if args.args.iter().all(is_scalar) {
            1
        } else {
            args.number_rows
        };
        let arrays: Result<Vec<ArrayRef>> =
            args.args.iter().map(|arg| arg.to_array(rows)).collect();
        let Some(made) = self.growth.made(&arrays?) else {
            return Ok(());
        };
        let (most, what) = match self.growth {
            Growth::Pairs => (STEPS_MAX, "steps"),
            _ => (BYTES_MAX, "bytes"),
        };
        if made > u128::from(most) {
            return Err(DataFusionError::Execution(format!(
                "{} would take {made} {what} for {rows} rows at once, and {most} are allowed; make less of it, or series of rows with FROM generate_series(...)",
                self.inner.name()
            )));
        }
        Ok(())
    }
}

impl Growth {
    /// Bytes, or steps, of all rows; `None` = arguments of other types than those that grow.
    fn made(self, args: &[ArrayRef]) -> Option<u128> {
        let of = |at: usize| args.get(at);
        match self {
            Self::Times => sum([&lengths(of(0)?)?, &numbers(of(1)?)?], |[length, times]| {
                length * times
            }),
            Self::UpTo => sum([&numbers(of(1)?)?], |[length]| length * 8),
            Self::Range => range(args),
            Self::Replace => sum(
                [&lengths(of(0)?)?, &lengths(of(1)?)?, &lengths(of(2)?)?],
                |[text, old, new]| text + text / old.max(1) * new,
            ),
            Self::Pairs => sum([&lengths(of(0)?)?, &lengths(of(1)?)?], |[one, other]| {
                one * other
            }),
        }
    }
}

/// The sum over all rows in which nothing is NULL or negative.
fn sum<const N: usize>(
    columns: [&Int64Array; N],
    of_row: impl Fn([u128; N]) -> u128,
) -> Option<u128> {
    let rows = columns.first()?.len();
    let of_rows = (0..rows).filter_map(|row| {
        let values = columns.map(|column| {
            let value = column.is_valid(row).then(|| column.value(row))?;
            u128::try_from(value).ok()
        });
        values
            .iter()
            .all(Option::is_some)
            .then(|| of_row(values.map(Option::unwrap_or_default)))
    });
    Some(of_rows.fold(0, u128::saturating_add))
}

fn numbers(array: &ArrayRef) -> Option<Int64Array> {
    let is_number = array.data_type().is_integer();
    let numbers = is_number.then(|| cast(array, &DataType::Int64).ok())??;
    Some(numbers.as_primitive::<Int64Type>().clone())
}

/// Bytes of each text; eight for what has no length.
fn lengths(array: &ArrayRef) -> Option<Int64Array> {
    match length(array) {
        Ok(lengths) => Some(
            cast(&lengths, &DataType::Int64)
                .ok()?
                .as_primitive::<Int64Type>()
                .clone(),
        ),
        Err(_) => Some(Int64Array::from(vec![8; array.len()])),
    }
}

/// Eight bytes for each number or time from the first to the last.
fn range(args: &[ArrayRef]) -> Option<u128> {
    let (from, to) = match args {
        [to] => (None, to),
        [from, to, ..] => (Some(from), to),
        [] => return None,
    };
    let to = points(to)?;
    let from = match from {
        Some(from) => points(from)?,
        None => Int64Array::from(vec![0; to.len()]),
    };
    let steps = match args.get(2) {
        Some(steps) => widths(steps)?,
        None => Int64Array::from(vec![1; to.len()]),
    };
    let of_rows = (0..to.len()).filter_map(|row| {
        let value = |column: &Int64Array| column.is_valid(row).then(|| column.value(row));
        let (from, to, step) = (value(&from)?, value(&to)?, value(&steps)?);
        let count = u128::from(from.abs_diff(to)) / u128::from(step.unsigned_abs().max(1)) + 1;
        // Against its direction there is nothing between them.
        let is_empty = (from < to) != (step > 0);
        Some(if is_empty { 0 } else { count * 8 })
    });
    Some(of_rows.fold(0, u128::saturating_add))
}

/// Numbers as they are, times in nanoseconds.
fn points(array: &ArrayRef) -> Option<Int64Array> {
    match array.data_type() {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let in_ns = DataType::Timestamp(TimeUnit::Nanosecond, None);
            let times = cast(array, &in_ns).ok()?;
            let numbers = cast(&times, &DataType::Int64).ok()?;
            Some(numbers.as_primitive::<Int64Type>().clone())
        }
        _ => numbers(array),
    }
}

/// Numbers as they are, intervals in nanoseconds with the shortest months.
fn widths(array: &ArrayRef) -> Option<Int64Array> {
    if *array.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return numbers(array);
    }
    let widths = array.as_primitive::<IntervalMonthDayNanoType>().iter();
    let in_ns = widths.map(|width| {
        let width = width?;
        let days = i64::from(width.months) * 28 + i64::from(width.days);
        Some(
            days.saturating_mul(DAY_NS)
                .saturating_add(width.nanoseconds),
        )
    });
    Some(in_ns.collect())
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
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

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args)?;
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
