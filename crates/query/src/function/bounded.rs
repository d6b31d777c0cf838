//! Functions that make much of little: `repeat('x', 1000000000)` asks for a gigabyte in a few bytes, and the function would
//! take it at once, from nobody's budget, or work on it for minutes in one go.
//!
//! Does: find out from the arguments what one call would make, and refuse too much before it is begun. Does not: change
//! what the functions say.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, max};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Schema, TimeUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::functions::regex::regexpcount::regexp_count_func;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{BinaryExpr, Expr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinaryExpr, Column};

/// Bytes that one call may make of constants. The planner computes it and has it in the plan from then on, where each rule
/// copies, compares and writes it out: ten megabytes inside four calls cost half a minute.
const BYTES_MAX: u64 = 8 << 20;

/// The same for all rows of a batch together, where there are columns in it: what is long there came from the tables, as a rule.
const BATCH_BYTES_MAX: u64 = 64 << 20;

/// A statement with more calls than this has as much for all of them together.
const CALLS_FREE: u64 = 2;

/// What a pattern's letter can stand for, in letters.
const PATTERN_TIMES: u128 = 16;

/// What a table of hashes takes for each byte of numbers that it is made of.
const HASH_TIMES: u128 = 4;

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
    /// Each character of the first with each of the second, or each element.
    Pairs,
    /// All arguments one after the other.
    Sum,
    /// The same with the first between the others.
    SumWith,
    /// Twice the first.
    Twice,
    /// The first argument's elements as text, with the second between them.
    Text,
    /// The first argument's text in pieces.
    Pieces,
    /// A text by a pattern, each part of which may stand for a longer one.
    Pattern,
    /// The first argument with the third for some of its elements.
    Elements,
    /// Tables of hashes of both arguments.
    Hashes,
    /// A text by what a regular expression finds.
    Regexp,
}

const FUNCTIONS: [(&str, Growth); 32] = [
    ("||", Growth::Sum),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::SumWith),
    ("overlay", Growth::Sum),
    ("make_array", Growth::Sum),
    ("array_concat", Growth::Sum),
    ("array_append", Growth::Sum),
    ("array_prepend", Growth::Sum),
    ("encode", Growth::Twice),
    ("array_to_string", Growth::Text),
    ("string_to_array", Growth::Pieces),
    ("to_char", Growth::Pattern),
    ("date_format", Growth::Pattern),
    ("array_replace", Growth::Elements),
    ("array_replace_n", Growth::Elements),
    ("array_replace_all", Growth::Elements),
    ("array_has_all", Growth::Pairs),
    ("array_has_any", Growth::Pairs),
    ("array_except", Growth::Hashes),
    ("array_union", Growth::Hashes),
    ("array_intersect", Growth::Hashes),
    ("array_distinct", Growth::Hashes),
    ("regexp_replace", Growth::Regexp),
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

/// Puts the bounded functions in the place of the others, before anything is computed, constants included. What the
/// planner writes by itself, such as `[a, b]` and `a || b`, has not been looked up by its name; so the plan is changed.
#[derive(Debug)]
pub(crate) struct BoundFunctions {
    join: Arc<ScalarUDF>,
}

impl BoundFunctions {
    pub(crate) fn new() -> Self {
        Self {
            join: Arc::new(ScalarUDF::new_from_impl(Join::new())),
        }
    }

    /// `left || right`, as one more part of what is joined already: a chain is one call, because the planner walks through
    /// calls within calls again for each of them.
    fn joined(&self, left: Expr, right: Expr, calls: usize) -> Expr {
        let call = match left {
            Expr::ScalarFunction(mut call) if self.is_join(&call.func) => {
                call.args.push(right);
                call
            }
            left => {
                let join = ScalarUDF::new_from_impl(Bounded {
                    inner: Arc::clone(&self.join),
                    growth: Growth::Sum,
                    calls,
                });
                ScalarFunction::new_udf(Arc::new(join), vec![left, right])
            }
        };
        Expr::ScalarFunction(call)
    }

    fn is_join(&self, function: &ScalarUDF) -> bool {
        let bounded = function.inner().downcast_ref::<Bounded>();
        bounded.is_some_and(|bounded| Arc::ptr_eq(&bounded.inner, &self.join))
    }

    fn bounded(&self, expr: Expr, calls: usize) -> Transformed<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::StringConcat,
                right,
            }) => Transformed::yes(self.joined(*left, *right, calls)),
            Expr::ScalarFunction(mut call) => match growth_of(&call.func) {
                Some(growth) => {
                    let inner = call.func;
                    call.func = Arc::new(ScalarUDF::new_from_impl(Bounded {
                        inner,
                        growth,
                        calls,
                    }));
                    Transformed::yes(Expr::ScalarFunction(call))
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            },
            other => Transformed::no(other),
        }
    }
}

/// Whether an expression is one whose parts are joined by `||`.
fn joins(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat)
}

/// How a function grows that is not bounded yet.
fn growth_of(function: &ScalarUDF) -> Option<Growth> {
    if function.inner().downcast_ref::<Bounded>().is_some() {
        return None;
    }
    let name = function.name();
    let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
    known.map(|(_, growth)| *growth)
}

/// Whether it is a call that is to be bounded; a chain of `||` is one, which its first pair stands for.
fn grows(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => joins(expr) && !joins(&binary.left),
        Expr::ScalarFunction(call) => growth_of(&call.func).is_some(),
        _ => false,
    }
}

impl AnalyzerRule for BoundFunctions {
    fn name(&self) -> &'static str {
        "bound_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements call none of them, and looking is cheaper than taking them apart.
        let mut calls = 0;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|inner| {
                    calls += usize::from(grows(inner));
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if calls == 0 {
            return Ok(plan);
        }
        let bounded = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let bounded = expr.transform_up(|inner| Ok(self.bounded(inner, calls)))?;
                Ok(bounded.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(bounded.data)
    }
}

/// `a || b` as a function, so that it can be bounded.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Join {
    signature: Signature,
}

impl Join {
    fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Join {
    fn name(&self) -> &'static str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let whole = self.return_type(arg_types)?;
        Ok(vec![whole; arg_types.len()])
    }

    /// The type of the parts that are joined, each with all before it.
    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [first, rest @ ..] = arg_types else {
            return plan_err!("|| takes two values");
        };
        rest.iter().try_fold(first.clone(), |joined, part| {
            BinaryTypeCoercer::new(&joined, &Operator::StringConcat, part).get_result_type()
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_scalar);
        let rows = if is_constant { 1 } else { args.number_rows };
        let parts: Result<Vec<ArrayRef>> = args.args.iter().map(|arg| arg.to_array(rows)).collect();
        let joined = join_all(parts?)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)
        } else {
            ColumnarValue::Array(joined)
        })
    }
}

/// Neighbours first, so that a long chain copies each part a few times and not once for each part after it.
fn join_all(mut parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    while parts.len() > 1 {
        let mut left = parts.into_iter();
        parts = Vec::with_capacity(left.len().div_ceil(2));
        while let Some(first) = left.next() {
            parts.push(match left.next() {
                Some(second) => join(first, second)?,
                None => first,
            });
        }
    }
    parts
        .pop()
        .map_or_else(|| plan_err!("|| takes two values"), Ok)
}

fn join(left: ArrayRef, right: ArrayRef) -> Result<ArrayRef> {
    let field = |column: &ArrayRef| Field::new("", column.data_type().clone(), true);
    let schema = Schema::new(vec![field(&left), field(&right)]);
    let rows = left.len();
    let batch = RecordBatch::try_new(Arc::new(schema), vec![left, right])?;
    let joined = PhysicalBinaryExpr::new(
        Arc::new(Column::new("", 0)),
        Operator::StringConcat,
        Arc::new(Column::new("", 1)),
    );
    joined.evaluate(&batch)?.into_array(rows)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    /// How many such calls the statement has, which may all hold what they made at one time.
    calls: usize,
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
        let Some(made) = self.growth.of_values(&args.args, rows)? else {
            return Ok(());
        };
        let (most, what) = match self.growth {
            Growth::Pairs => (STEPS_MAX, "steps"),
            _ if rows > 1 => (BATCH_BYTES_MAX, "bytes"),
            _ => (BYTES_MAX, "bytes"),
        };
        let most = match self.growth {
            Growth::Pairs => most,
            _ => most / (self.calls as u64).div_ceil(CALLS_FREE),
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
    fn of_values(self, args: &[ColumnarValue], rows: usize) -> Result<Option<u128>> {
        // What can be told without a copy of each constant for each row.
        let bytes = |at: usize| args.get(at).map_or(Ok(0), |arg| bytes_of(arg, rows));
        let sum = || (0..args.len()).map(bytes).sum::<Result<u128>>();
        match self {
            Self::Sum => return sum().map(Some),
            Self::SumWith => return Ok(Some(sum()? + bytes(0)? * args.len() as u128)),
            Self::Twice => return Ok(Some(bytes(0)? * 2)),
            Self::Pattern => return Ok(Some(bytes(1)? * PATTERN_TIMES)),
            Self::Hashes => return Ok(Some(sum()? * HASH_TIMES)),
            _ => {}
        }
        let arrays: Result<Vec<ArrayRef>> = args.iter().map(|arg| arg.to_array(rows)).collect();
        let arrays = arrays?;
        Ok(match self {
            Self::Regexp => regexp(&arrays)?,
            _ => self.made(&arrays),
        })
    }

    fn made(self, args: &[ArrayRef]) -> Option<u128> {
        let of = |at: usize| args.get(at);
        match self {
            Self::Times => sum([&lengths(of(0)?)?, &numbers(of(1)?)?], |[length, times]| {
                length * times
            }),
            Self::UpTo => {
                let longest = of(2).and_then(lengths).and_then(|it| max(&it));
                let unit = longest.and_then(|it| u128::try_from(it).ok()).unwrap_or(0);
                sum([&numbers(of(1)?)?], |[length]| length * unit.max(8))
            }
            Self::Range => range(args),
            Self::Replace => {
                let (text, old, new) = (of(0)?, of(1)?, of(2)?);
                let found = found(text, old)?;
                sum(
                    [&lengths(text)?, &found, &lengths(new)?],
                    |[text, found, new]| text + found * new,
                )
            }
            Self::Pieces => {
                let found = found(of(0)?, of(1)?)?;
                sum([&lengths(of(0)?)?, &found], |[text, found]| {
                    text + found * 8
                })
            }
            Self::Pairs => sum([&lengths(of(0)?)?, &lengths(of(1)?)?], |[one, other]| {
                one * other
            }),
            Self::Text => {
                let text = of(0)?.to_data().get_slice_memory_size().ok()? as u128;
                let between = sum(
                    [&lengths(of(0)?)?, &lengths(of(1)?)?],
                    |[count, between]| count * between,
                );
                Some(text * 3 + between?)
            }
            Self::Elements => sum([&lengths(of(0)?)?, &lengths(of(2)?)?], |[count, new]| {
                count * new.max(8)
            }),
            _ => None,
        }
    }
}

/// Bytes of an argument's values in all rows.
fn bytes_of(arg: &ColumnarValue, rows: usize) -> Result<u128> {
    let (array, times) = match arg {
        ColumnarValue::Scalar(_) => (arg.to_array(1)?, rows),
        ColumnarValue::Array(array) => (ArrayRef::clone(array), 1),
    };
    // A dictionary's values are few, and each row will have one of them.
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(&array, values)?,
        _ => array,
    };
    let bytes = match array.data_type() {
        // What a view points to is counted for nobody else.
        DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum(),
        DataType::BinaryView => array
            .as_binary_view()
            .iter()
            .flatten()
            .map(<[u8]>::len)
            .sum(),
        DataType::List(field) | DataType::LargeList(field)
            if matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView) =>
        {
            array.get_array_memory_size()
        }
        _ => array.to_data().get_slice_memory_size()?,
    };
    Ok(bytes as u128 * times as u128)
}

/// How often each text has the other in it. Looked for only where it could be too often.
fn found(texts: &ArrayRef, parts: &ArrayRef) -> Option<Int64Array> {
    let texts = cast(texts, &DataType::Utf8).ok()?;
    let parts = cast(parts, &DataType::Utf8).ok()?;
    let pairs = texts
        .as_string::<i32>()
        .iter()
        .zip(parts.as_string::<i32>());
    let counts = pairs.map(|(text, part)| {
        let (text, part) = text.zip(part)?;
        let count = if part.is_empty() {
            text.len() + 1
        } else {
            text.matches(part).count()
        };
        i64::try_from(count).ok()
    });
    Some(counts.collect())
}

/// The text, and what stands for each place where the pattern is found. What the replacement takes from there is in it once
/// for each time that it says so.
fn regexp(args: &[ArrayRef]) -> Result<Option<u128>> {
    let [texts, patterns, news, rest @ ..] = args else {
        return Ok(None);
    };
    let as_text = |array: &ArrayRef| cast(array, &DataType::Utf8);
    let (texts, patterns, news) = (as_text(texts)?, as_text(patterns)?, as_text(news)?);
    let flags = rest.first().map(as_text).transpose()?;
    let references = |new: &str| new.bytes().filter(|byte| b"\\$".contains(byte)).count();
    let mut most = 0u128;
    let mut counted = Vec::with_capacity(texts.len());
    let columns = texts.as_string::<i32>().iter().zip(news.as_string::<i32>());
    for (row, (text, new)) in columns.enumerate() {
        let flags = flags.as_ref().map(AsArray::as_string::<i32>);
        let is_global = flags.is_some_and(|it| it.is_valid(row) && it.value(row).contains('g'));
        let (text, new) = (text.unwrap_or_default(), new.unwrap_or_default());
        let taken = text.len() as u128 * (1 + references(new)) as u128;
        let times = if is_global { text.len() + 1 } else { 1 };
        most += taken + times as u128 * new.len() as u128;
        counted.push((taken, is_global, new.len() as u128));
    }
    let is_any_global = counted.iter().any(|(_, is_global, _)| *is_global);
    if most <= u128::from(BYTES_MAX) || !is_any_global {
        return Ok(Some(most));
    }
    // It is worth to look how often.
    let places = regexp_count_func(&[texts, patterns])?;
    let places = places.as_primitive::<Int64Type>();
    let made = counted
        .into_iter()
        .enumerate()
        .map(|(row, (taken, is_global, new))| {
            let found = if places.is_valid(row) {
                places.value(row)
            } else {
                0
            };
            let found = u128::try_from(found).unwrap_or(0);
            taken + new * if is_global { found } else { found.min(1) }
        });
    Ok(Some(made.fold(0, u128::saturating_add)))
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

/// Bytes of each text, elements of each list; eight for what has no length.
fn lengths(array: &ArrayRef) -> Option<Int64Array> {
    let of_bytes = |bytes: usize| i64::try_from(bytes).ok();
    match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view().iter();
            Some(texts.map(|text| of_bytes(text?.len())).collect())
        }
        DataType::BinaryView => {
            let values = array.as_binary_view().iter();
            Some(values.map(|bytes| of_bytes(bytes?.len())).collect())
        }
        DataType::Dictionary(_, values) => lengths(&cast(array, values).ok()?),
        _ => match length(array) {
            Ok(lengths) => Some(
                cast(&lengths, &DataType::Int64)
                    .ok()?
                    .as_primitive::<Int64Type>()
                    .clone(),
            ),
            Err(_) => Some(Int64Array::from(vec![8; array.len()])),
        },
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

    /// What it would be simplified to is not bounded.
    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
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
