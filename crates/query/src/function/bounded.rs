//! Functions that make much of little: `repeat('x', 1000000000)` asks for a gigabyte in a few bytes, and the function would
//! take it at once, from nobody's budget, or work on it for minutes in one go.
//!
//! Does: find out from the arguments what one call would make, and refuse too much before it is begun. Does not: change
//! what the functions say.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::{CastOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, Expr, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinaryExpr, Column};
use nilometer_service::MemoryTaken;

use super::arrays::{element_of, written};
use super::growth::{Growth, growth_of};
use crate::SqlOptions;
use crate::error::TooManyRows;
use crate::limits::scope;
use crate::walk::{ExprWalk, PlanWalk};

/// Of a query's memory, the part that one call may make of constants, 8 MiB by default: a row has all of it.
const PART_OF_CONSTANTS: u64 = 64;

/// The same for all rows of a batch together, where there are columns in it, 64 MiB by default: what is long there came from
/// the tables, as a rule.
const PART_OF_BATCH: u64 = 8;

/// A statement with more calls than this has as much for all of them together.
const CALLS_FREE: u64 = 2;

/// Of constants, what a plan may have in it: each rule copies and compares it.
const FOLDED_MAX: usize = 64 << 10;

/// What a call makes is taken from the query's memory before it is made, from this on.
const RESERVED_FROM: usize = 1 << 20;

/// Steps that one call may take for each millisecond that a query has: some seconds of a minute.
const STEPS_PER_MS: u64 = 1 << 15;

/// Puts the bounded functions in the place of the others, before anything is computed, constants included. What the
/// planner writes by itself, such as `[a, b]` and `a || b`, has not been looked up by its name; so the plan is changed.
#[derive(Debug)]
pub(crate) struct BoundFunctions {
    join: Arc<ScalarUDF>,
    limits: Limits,
}

/// What one call may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Limits {
    /// Bytes of constants.
    constant: u64,
    /// Bytes for the rows of a batch.
    batch: u64,
    steps: u64,
}

impl BoundFunctions {
    pub(crate) fn new(options: &SqlOptions) -> Self {
        let bytes = options.query_memory_bytes_max as u64;
        Self {
            join: Arc::new(ScalarUDF::new_from_impl(Join::new())),
            limits: Limits {
                constant: bytes / PART_OF_CONSTANTS,
                batch: bytes / PART_OF_BATCH,
                steps: options.query_ms_max.saturating_mul(STEPS_PER_MS),
            },
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
                let join = Arc::clone(&self.join);
                return bounded_call(join, Growth::Sum, vec![left, right], calls, self.limits);
            }
        };
        Expr::ScalarFunction(call)
    }

    fn is_join(&self, function: &ScalarUDF) -> bool {
        let bounded = function.inner().downcast_ref::<Bounded>();
        bounded.is_some_and(|bounded| Arc::ptr_eq(&bounded.inner, &self.join))
    }

    fn bounded(&self, mut expr: Expr, schema: &DFSchema, calls: usize) -> Transformed<Expr> {
        if let Expr::ScalarFunction(call) = &mut expr
            && let Some((kind, is_safe)) = casts_to_text(call, schema)
        {
            let value = call.args.swap_remove(0);
            return Transformed::yes(as_text(value, &kind, is_safe, calls, self.limits));
        }
        match expr {
            Expr::Cast(Cast { expr, field })
                if is_text(field.data_type()) && is_nested(&expr, schema) =>
            {
                Transformed::yes(as_text(*expr, field.data_type(), false, calls, self.limits))
            }
            Expr::TryCast(TryCast { expr, field })
                if is_text(field.data_type()) && is_nested(&expr, schema) =>
            {
                Transformed::yes(as_text(*expr, field.data_type(), true, calls, self.limits))
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::StringConcat,
                right,
            }) => Transformed::yes(self.joined(*left, *right, calls)),
            Expr::ScalarFunction(call) => match unbounded(&call.func) {
                Some(growth) => {
                    let ScalarFunction { func, args, .. } = call;
                    Transformed::yes(bounded_call(func, growth, args, calls, self.limits))
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            },
            other => Transformed::no(other),
        }
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether a value has parts. One whose type is not known yet is refused by what comes next.
fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| kind.is_nested())
}

fn as_text(expr: Expr, kind: &DataType, is_safe: bool, calls: usize, limits: Limits) -> Expr {
    let cast = ScalarUDF::new_from_impl(AsText {
        kind: kind.clone(),
        is_safe,
        signature: Signature::any(1, Volatility::Immutable),
    });
    bounded_call(Arc::new(cast), Growth::Text, vec![expr], calls, limits)
}

/// The kind of text that the library's cast by name makes of a value with parts, and whether what is none becomes NULL.
fn casts_to_text(call: &ScalarFunction, schema: &DFSchema) -> Option<(DataType, bool)> {
    let is_safe = match call.func.name() {
        "arrow_cast" | "cast_to_type" => false,
        "arrow_try_cast" | "try_cast_to_type" => true,
        _ => return None,
    };
    let [value, kind] = call.args.as_slice() else {
        return None;
    };
    let kind: DataType = match kind {
        Expr::Literal(name, _) if call.func.name().starts_with("arrow_") => {
            name.try_as_str()??.parse().ok()?
        }
        like => like.get_type(schema).ok()?,
    };
    (is_text(&kind) && is_nested(value, schema)).then_some((kind, is_safe))
}

/// Whether an expression is one whose parts are joined by `||`.
fn joins(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat)
}

/// How a function grows that is not bounded yet, nor by itself.
fn unbounded(function: &ScalarUDF) -> Option<Growth> {
    if function.inner().downcast_ref::<Bounded>().is_some() {
        return None;
    }
    growth_of(function).filter(|growth| !growth.is_bounded())
}

/// What a row of a call has, where that depends on the values that it is given: of constants what they make, and so much
/// where nobody has seen them.
pub(crate) fn row_bytes(function: &ScalarUDF, unknown: usize) -> usize {
    match function.inner().downcast_ref::<Bounded>() {
        Some(bounded) if bounded.late_bytes > 0 => bounded.late_bytes,
        Some(bounded) if bounded.growth.is_by_value() => unknown,
        _ => 0,
    }
}

/// Whether there is such a function, because it is known what it makes.
pub(super) fn is_allowed(function: &ScalarUDF) -> bool {
    growth_of(function).is_some()
}

/// Whether it is a call that is to be bounded; a chain of `||` is one, which its first pair stands for.
fn grows(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => joins(expr) && !joins(&binary.left),
        Expr::Cast(cast) => is_text(cast.field.data_type()),
        Expr::TryCast(cast) => is_text(cast.field.data_type()),
        Expr::ScalarFunction(call) => {
            unbounded(&call.func).is_some() || call.func.name().contains("cast")
        }
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
        plan.walk(&mut |node| {
            node.walk_expressions(&mut |expr| {
                expr.apply(|inner| {
                    calls += usize::from(grows(inner));
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if calls == 0 {
            return Ok(plan);
        }
        let bounded = plan.replace_up(&mut |node| {
            let names = NamePreserver::new(&node);
            let schema = if node.inputs().is_empty() {
                DFSchema::clone(node.schema())
            } else {
                merge_schema(&node.inputs())
            };
            node.replace_expressions(&mut |expr| {
                let name = names.save(&expr);
                let bounded =
                    expr.replace_up(&mut |inner| Ok(self.bounded(inner, &schema, calls)))?;
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

/// Lists and what has parts, as text. A cast of its own would make it without asking.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsText {
    kind: DataType,
    is_safe: bool,
    signature: Signature,
}

impl ScalarUDFImpl for AsText {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.kind.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return plan_err!("a cast has a value");
        };
        let options = CastOptions {
            safe: self.is_safe,
            ..CastOptions::default()
        };
        if element_of(&value.data_type()).is_none() {
            return value.cast_to(&self.kind, Some(&options));
        }
        // An array has the text of PostgreSQL.
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let texts = written(&value.to_array(if is_scalar { 1 } else { args.number_rows })?)?;
        let texts = cast(&texts, &self.kind)?;
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?)
        } else {
            ColumnarValue::Array(texts)
        })
    }
}

/// A length below nothing is none, as in `PostgreSQL`. The library takes it for an enormous one.
fn without_negatives(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    let Some(length) = args.args.get_mut(1) else {
        return Ok(args);
    };
    if !length.data_type().is_signed_integer() {
        return Ok(args);
    }
    let is_scalar = matches!(length, ColumnarValue::Scalar(_));
    let lengths = cast(&length.to_array(1)?, &DataType::Int64)?;
    let lengths = lengths.as_primitive::<Int64Type>();
    if lengths.iter().flatten().all(|length| length >= 0) {
        return Ok(args);
    }
    let lengths: Int64Array = lengths.unary(|length| length.max(0));
    let lengths = cast(&lengths, &length.data_type())?;
    *length = if is_scalar {
        ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?)
    } else {
        ColumnarValue::Array(lengths)
    };
    Ok(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    /// How many such calls the statement has, which may all hold what they made at one time.
    calls: usize,
    limits: Limits,
    /// Bytes that it makes of constants, where that is too much to have in a plan; it is computed for each batch then.
    late_bytes: usize,
    signature: Signature,
}

/// A function with its bound, called with these arguments.
fn bounded_call(
    inner: Arc<ScalarUDF>,
    growth: Growth,
    args: Vec<Expr>,
    calls: usize,
    limits: Limits,
) -> Expr {
    let late_bytes = late_bytes(growth, &args, limits);
    let mut signature = inner.signature().clone();
    if late_bytes > 0 {
        // The planner leaves alone what is another each time.
        signature.volatility = Volatility::Volatile;
    }
    let bounded = Bounded {
        inner,
        growth,
        calls,
        limits,
        late_bytes,
        signature,
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(
        Arc::new(ScalarUDF::new_from_impl(bounded)),
        args,
    ))
}

/// What a call makes of constants, if it is much.
fn late_bytes(growth: Growth, args: &[Expr], limits: Limits) -> usize {
    if !growth.is_by_value() || args.iter().any(|arg| !is_constant(arg)) {
        return 0;
    }
    let literals = args.iter().map(|arg| match arg {
        Expr::Literal(value, _) => Some(ColumnarValue::Scalar(value.clone())),
        _ => None,
    });
    let Some(literals) = literals.collect::<Option<Vec<_>>>() else {
        // The planner computes what is in it first, unless that is left to each batch.
        let has_late = args
            .iter()
            .any(|arg| arg.has(&mut |arg| Ok(is_late(arg))).unwrap_or(true));
        let most = usize::try_from(limits.constant).unwrap_or(usize::MAX);
        return if has_late { most } else { 0 };
    };
    let made = growth.of_values(&literals, 1).ok().flatten().unwrap_or(0);
    let made = usize::try_from(made).unwrap_or(usize::MAX);
    if made > FOLDED_MAX { made } else { 0 }
}

fn is_late(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if row_bytes(&call.func, 0) > 0)
}

/// Whether it is the same for all rows.
fn is_constant(expr: &Expr) -> bool {
    let has_other = expr.has(&mut |expr| {
        Ok(matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Placeholder(_)
        ))
    });
    !has_other.unwrap_or(true)
}

fn too_many(rows: TooManyRows) -> DataFusionError {
    DataFusionError::External(Box::new(rows))
}

impl Bounded {
    /// Takes what a call makes from the query's memory. For fewer rows it may be there.
    fn reserve(bytes: usize, args: &ScalarFunctionArgs) -> Result<Option<MemoryTaken>> {
        if bytes < RESERVED_FROM {
            return Ok(None);
        }
        let rows = args.number_rows;
        scope::reserve(bytes).map_err(|over| {
            if rows <= 1 {
                return DataFusionError::External(Box::new(over));
            }
            too_many(TooManyRows {
                message: over.to_string(),
                over: Some(over),
                rows_fit: rows / 8,
            })
        })
    }

    /// Bytes that a call makes, if there may be so many.
    fn check(&self, args: &ScalarFunctionArgs) -> Result<usize> {
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        // One result, however many rows it is for.
        let is_constant = args.args.iter().all(is_scalar);
        let rows = if is_constant { 1 } else { args.number_rows };
        let Some(made) = self.growth.of_values(&args.args, rows)? else {
            return Ok(0);
        };
        let Limits {
            constant,
            batch,
            steps,
        } = self.limits;
        let (most, what, setting) = match self.growth {
            Growth::Pairs => (steps, "steps", "query-ms-max"),
            _ if is_constant => (constant, "bytes", "query-memory-bytes-max"),
            _ => (batch, "bytes", "query-memory-bytes-max"),
        };
        let most = match self.growth {
            Growth::Pairs => most,
            _ => most / (self.calls as u64).div_ceil(CALLS_FREE),
        };
        if made > u128::from(most) {
            let message = format!(
                "{} would take {made} {what} for {rows} rows at once, and {most} are allowed; make less of it, or series of rows with FROM generate_series(...), or raise {setting}",
                self.inner.name()
            );
            if rows <= 1 || self.growth == Growth::Pairs {
                return Err(DataFusionError::Execution(message));
            }
            let rows_fit = u128::from(most) * rows as u128 / made;
            return Err(too_many(TooManyRows {
                message,
                over: None,
                rows_fit: usize::try_from(rows_fit).unwrap_or(rows),
            }));
        }
        let bytes = if self.growth == Growth::Pairs {
            0
        } else {
            made
        };
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
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
        &self.signature
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
        scope::check()?;
        let args = if self.growth == Growth::UpTo {
            without_negatives(args)?
        } else {
            args
        };
        let bytes = self.check(&args)?;
        let _taken = Self::reserve(bytes, &args)?;
        scope::long(|| self.inner.invoke_with_args(args))
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
