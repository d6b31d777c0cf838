//! One zero and one NaN: as in `PostgreSQL`, -0.0 equals 0.0, all NaNs are equal, and NaN is greater than every number.
//!
//! Arrow compares and hashes floats by their bits. `DataFusion` 55.2 evens out the zeros in comparisons, groups and joins, but not
//! in long lists of IN, in CASE, in windows, in sorting or in some functions, and NaNs nowhere; and what a processor makes of
//! infinity less infinity is a NaN with a sign, which sorts below everything.
//!
//! Intervals have keys too: a month is 30 days and a day is 24 hours where they are compared, and Arrow compares months first,
//! then days. Only comparisons, orders and joins take them; what is chosen or grouped stays as it was written.
//!
//! Does: put a function around floats where they are compared, sorted or told apart, and nowhere else. Does not: change a value
//! that is read, stored or returned, except that a group shows its key.
//!
//! It happens twice. Once before the planner's rules, for what is calculated, so that constants are right too. The second time
//! is when all rules are done, for columns: until then a condition on a column is one that the scan understands.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, StructArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Float32Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Case, ScalarFunction, Sort};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// Functions that compare their arguments, or what is in them, with each other.
const COMPARING: [&str; 19] = [
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_sort",
    "array_union",
    "arrays_overlap",
];

/// Functions that answer the greatest or least of their arguments.
const CHOOSING: [&str; 2] = ["greatest", "least"];

/// Aggregates that tell values apart or sort them.
const SORTING: [&str; 9] = [
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "max",
    "median",
    "min",
    "mode",
    "percentile_cont",
    "percentile_disc",
];

static KEY: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(FloatKey::new())));

/// The rule for what is calculated. It comes when types are settled.
#[derive(Debug)]
pub(crate) struct CompareFloats;

impl AnalyzerRule for CompareFloats {
    fn name(&self) -> &'static str {
        "compare_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_something(&plan, Stage::Calculated)? {
            return Ok(plan);
        }
        rewritten(plan, Stage::Calculated)
    }
}

/// The plan with keys in place of all floats that are compared, when no rule is to look at it any more.
pub(crate) fn settle(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    Ok(if has_something(plan, Stage::Columns)? {
        Cow::Owned(rewritten(plan.clone(), Stage::Columns)?)
    } else {
        Cow::Borrowed(plan)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Calculated,
    Columns,
}

/// Most statements compare no floats, and looking is cheaper than taking them apart.
fn has_something(plan: &LogicalPlan, stage: Stage) -> Result<bool> {
    let mut is_asked = false;
    plan.walk(&mut |node| {
        is_asked |= asks(node, stage)?;
        Ok(if is_asked {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(is_asked)
}

fn rewritten(plan: LogicalPlan, stage: Stage) -> Result<LogicalPlan> {
    let plan = plan.replace_up(&mut |node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.replace_expressions(&mut |expr| {
            let name = names.save(&expr);
            let keyed = expr.replace_up(&mut |part| keyed(part, &schema, stage))?;
            Ok(keyed.update_data(|expr| name.restore(expr)))
        })?;
        match stage {
            Stage::Calculated => Ok(node),
            Stage::Columns => node.transform_data(|node| with_keys(node, &schema)),
        }
    })?;
    Ok(plan.data)
}

/// Whether a node may have something to do; only a no is sure.
fn asks(node: &LogicalPlan, stage: Stage) -> Result<bool> {
    let inputs = node.inputs();
    let merged;
    let schema: &DFSchema = match (node, inputs.as_slice()) {
        (LogicalPlan::TableScan(_), _) => return Ok(false),
        (_, [input]) => input.schema().as_ref(),
        _ => {
            merged = merge_schema(&inputs);
            &merged
        }
    };
    if stage == Stage::Columns {
        let has_keys = match node {
            LogicalPlan::Aggregate(aggregate) => {
                let mut groups = aggregate.group_expr.iter();
                groups.any(|expr| matches!(expr, Expr::GroupingSet(_)) || floats(expr, schema))
            }
            LogicalPlan::Sort(sort) => sort.expr.iter().any(|sort| by_key(&sort.expr, schema)),
            LogicalPlan::Join(join) => join.on.iter().any(|(left, _)| by_key(left, schema)),
            _ => false,
        };
        if has_keys {
            return Ok(true);
        }
    }
    let mut found = false;
    node.walk_expressions(&mut |expr| {
        found = found
            || expr.has(&mut |part| {
                Ok(match part {
                    Expr::BinaryExpr(binary) => compares(binary.op) && by_key(&binary.left, schema),
                    Expr::Between(between) => by_key(&between.expr, schema),
                    Expr::InList(list) => by_key(&list.expr, schema),
                    Expr::Case(case) => case.expr.as_ref().is_some_and(|it| by_key(it, schema)),
                    Expr::ScalarFunction(function) => {
                        is_comparing(function.func.name())
                            && function.args.iter().any(|it| floats(it, schema))
                    }
                    Expr::AggregateFunction(function) => {
                        function.params.distinct
                            || !function.params.order_by.is_empty()
                            || SORTING.contains(&function.func.name())
                                && !is_known(function.func.name(), &function.params.args)
                    }
                    Expr::WindowFunction(_) => true,
                    _ => false,
                })
            })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn is_comparing(name: &str) -> bool {
    name == "nullif" || COMPARING.contains(&name) || CHOOSING.contains(&name)
}

/// Whether an operator compares its sides by their order.
pub(super) fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn floats(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| has_floats(&kind))
}

/// Whether values are compared by their keys.
fn by_key(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema)
        .is_ok_and(|kind| is_interval(&kind) || has_floats(&kind))
}

fn is_interval(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(IntervalUnit::MonthDayNano))
}

fn has_floats(kind: &DataType) -> bool {
    match kind {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        _ => false,
    }
}

/// One part of an expression with keys where it compares.
fn keyed(part: Expr, schema: &DFSchema, stage: Stage) -> Result<Transformed<Expr>> {
    let mut is_changed = false;
    let mut change = |expr: &mut Expr, stage: Stage| -> Result<()> {
        if !is_key(expr, schema, stage) && by_key(expr, schema) {
            is_changed = true;
            *expr = key_of_expr(std::mem::take(expr))?;
        }
        Ok(())
    };
    // What is chosen stays as it was written.
    let is_chosen = |expr: &Expr| !floats(expr, schema);
    let part = match part {
        Expr::BinaryExpr(mut binary) if compares(binary.op) => {
            change(&mut binary.left, stage)?;
            change(&mut binary.right, stage)?;
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            change(&mut between.expr, stage)?;
            change(&mut between.low, stage)?;
            change(&mut between.high, stage)?;
            Expr::Between(between)
        }
        Expr::InList(mut list) => {
            change(&mut list.expr, stage)?;
            for item in &mut list.list {
                change(item, stage)?;
            }
            Expr::InList(list)
        }
        Expr::Case(mut case) => {
            if let Some(expr) = &mut case.expr {
                change(expr, Stage::Columns)?;
                for (when, _) in &mut case.when_then_expr {
                    change(when, Stage::Columns)?;
                }
            }
            Expr::Case(case)
        }
        Expr::ScalarFunction(function)
            if function.func.name() == "nullif"
                && function.args.iter().any(|it| floats(it, schema)) =>
        {
            return null_if(function, schema).map(Transformed::yes);
        }
        Expr::ScalarFunction(mut function) => {
            let name = function.func.name();
            if COMPARING.contains(&name) || CHOOSING.contains(&name) {
                for arg in function.args.iter_mut().filter(|arg| !is_chosen(arg)) {
                    change(arg, Stage::Columns)?;
                }
            }
            Expr::ScalarFunction(function)
        }
        Expr::AggregateFunction(mut function) => {
            let name = function.func.name();
            let is_key = !is_known(name, &function.params.args)
                && (SORTING.contains(&name) || function.params.distinct);
            if let Some(first) = function
                .params
                .args
                .first_mut()
                .filter(|first| is_key && !is_chosen(first))
            {
                change(first, Stage::Columns)?;
            }
            for sort in &mut function.params.order_by {
                change(&mut sort.expr, stage)?;
            }
            Expr::AggregateFunction(function)
        }
        Expr::WindowFunction(mut function) => {
            let name = function.fun.name();
            let is_key = is_extreme(name) || SORTING.contains(&name) || function.params.distinct;
            let first = function.params.args.first_mut();
            if let Some(first) = first.filter(|first| is_key && !is_chosen(first)) {
                change(first, stage)?;
            }
            for expr in &mut function.params.partition_by {
                change(expr, stage)?;
            }
            for sort in &mut function.params.order_by {
                change(&mut sort.expr, stage)?;
            }
            Expr::WindowFunction(function)
        }
        part => part,
    };
    Ok(Transformed::new_transformed(part, is_changed))
}

fn is_extreme(name: &str) -> bool {
    matches!(name, "min" | "max")
}

/// Of a column, statistics know the extremes, and ours know what NaN is.
fn is_known(name: &str, args: &[Expr]) -> bool {
    is_extreme(name) && matches!(args, [Expr::Column(_)])
}

/// Whether a value is its own key already, or is left for later.
fn is_key(expr: &Expr, schema: &DFSchema, stage: Stage) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => stage == Stage::Calculated,
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => {
            key(*value).to_bits() == value.to_bits()
        }
        Expr::Literal(value, _) => value.is_null(),
        // Integers and decimals have neither.
        Expr::Cast(cast) => {
            let kind = cast.expr.get_type(schema);
            kind.is_ok_and(|kind| kind.is_integer() || kind.is_decimal())
        }
        Expr::ScalarFunction(function) => Arc::ptr_eq(&function.func, &KEY),
        _ => false,
    }
}

fn key_of_expr(value: Expr) -> Result<Expr> {
    Ok(match value {
        Expr::Literal(value, metadata) => {
            let value = key_of(&value.to_array()?)?;
            Expr::Literal(ScalarValue::try_from_array(&value, 0)?, metadata)
        }
        value => Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&KEY), vec![value])),
    })
}

/// `nullif` returns its first argument as it is.
fn null_if(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let Ok([value, other]) = <[Expr; 2]>::try_from(function.args) else {
        return internal_err!("nullif has two arguments");
    };
    let is_equal = key_of_expr(value.clone())?.eq(key_of_expr(other)?);
    let null = ScalarValue::try_new_null(&value.get_type(schema)?)?;
    let null = Expr::Literal(null, None);
    Ok(Expr::Case(Case::new(
        None,
        vec![(Box::new(is_equal), Box::new(null))],
        Some(Box::new(value)),
    )))
}

/// A node that groups, sorts or joins, by keys.
fn with_keys(node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let as_key = |expr: Expr, schema: &DFSchema| -> Result<Expr> {
        if is_key(&expr, schema, Stage::Columns) || !by_key(&expr, schema) {
            return Ok(expr);
        }
        key_of_expr(expr)
    };
    // Under the name that it had.
    let as_group = |expr: Expr| -> Result<Expr> {
        if !floats(&expr, schema) {
            return Ok(expr);
        }
        let (relation, name) = expr.qualified_name();
        Ok(as_key(expr.unalias(), schema)?.alias_qualified(relation, name))
    };
    Ok(match node {
        LogicalPlan::Sort(mut sort) => {
            for Sort { expr, .. } in &mut sort.expr {
                *expr = as_key(std::mem::take(expr), schema)?;
            }
            Transformed::yes(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.into_iter().map(|expr| match expr {
                Expr::GroupingSet(set) => {
                    let expr = Expr::GroupingSet(set);
                    Ok(expr
                        .map_children(|expr| Ok(Transformed::yes(as_group(expr)?)))?
                        .data)
                }
                expr => as_group(expr),
            });
            let aggregate = Aggregate::try_new_with_schema(
                aggregate.input,
                groups.collect::<Result<_>>()?,
                aggregate.aggr_expr,
                aggregate.schema,
            )?;
            Transformed::yes(LogicalPlan::Aggregate(aggregate))
        }
        LogicalPlan::Join(mut join) => {
            let (left, right) = (
                Arc::clone(join.left.schema()),
                Arc::clone(join.right.schema()),
            );
            for (one, other) in &mut join.on {
                *one = as_key(std::mem::take(one), &left)?;
                *other = as_key(std::mem::take(other), &right)?;
            }
            Transformed::yes(LogicalPlan::Join(join))
        }
        node => Transformed::no(node),
    })
}

/// The function that is put around.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatKey {
    signature: Signature,
}

impl FloatKey {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for FloatKey {
    fn name(&self) -> &'static str {
        "float_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("float_key returns what it is given")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = args.arg_fields else {
            return internal_err!("float_key has one argument");
        };
        let kind = field.data_type().clone();
        Ok(Arc::new(Field::new(self.name(), kind, field.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("float_key has one argument");
        };
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(key_of(array)?),
            ColumnarValue::Scalar(scalar) => {
                let array = key_of(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

/// The value that stands for all that are equal to one.
fn key(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else {
        // Turns -0.0 into 0.0.
        value + 0.0
    }
}

/// The interval of the same length with fewer than 30 days and 24 hours beside its months, so that months, days and the rest
/// compare one after the other.
fn interval_key(value: IntervalMonthDayNano) -> IntervalMonthDayNano {
    const DAY_NS: i128 = 86_400_000_000_000;
    const MONTH_DAYS: i128 = 30;
    let days = i128::from(value.months) * MONTH_DAYS + i128::from(value.days);
    let length_ns = days * DAY_NS + i128::from(value.nanoseconds);
    let days = length_ns.div_euclid(DAY_NS);
    let months = days.div_euclid(MONTH_DAYS);
    // Only months can be too many, by those that the days of the longest interval make.
    let end = if months < 0 { i32::MIN } else { i32::MAX };
    IntervalMonthDayNano {
        months: i32::try_from(months).unwrap_or(end),
        days: i32::try_from(days.rem_euclid(MONTH_DAYS)).unwrap_or_default(),
        nanoseconds: i64::try_from(length_ns.rem_euclid(DAY_NS)).unwrap_or_default(),
    }
}

/// Keys of all values; the array itself if they are that already.
fn key_of(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float64 => of_floats::<Float64Type>(array, |value| {
            let key = key(value);
            (key, key.to_bits() == value.to_bits())
        }),
        DataType::Float32 => of_floats::<Float32Type>(array, |value| {
            let key = if value.is_nan() {
                f32::NAN
            } else {
                value + 0.0
            };
            (key, key.to_bits() == value.to_bits())
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            Arc::new(intervals.unary::<_, IntervalMonthDayNanoType>(interval_key))
        }
        DataType::List(item) if has_floats(item.data_type()) => of_list::<i32>(array, item)?,
        DataType::LargeList(item) if has_floats(item.data_type()) => of_list::<i64>(array, item)?,
        DataType::FixedSizeList(item, length) if has_floats(item.data_type()) => {
            let list = array.as_fixed_size_list();
            let values = key_of(list.values())?;
            let nulls = list.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(
                Arc::clone(item),
                *length,
                values,
                nulls,
            )?)
        }
        DataType::Struct(fields) if has_floats(array.data_type()) => {
            let whole = array.as_struct();
            let columns = whole.columns().iter().map(key_of).collect::<Result<_>>()?;
            let nulls = whole.nulls().cloned();
            Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?)
        }
        _ => Arc::clone(array),
    })
}

/// `key` tells with each key whether it is the value itself.
fn of_floats<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    key: impl Fn(T::Native) -> (T::Native, bool),
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    let differ = |is_same: bool, value: &T::Native| is_same & key(*value).1;
    if floats.values().iter().fold(true, differ) {
        return Arc::clone(array);
    }
    let keys: PrimitiveArray<T> = floats.unary(|value| key(value).0);
    Arc::new(keys)
}

fn of_list<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef) -> Result<ArrayRef> {
    let list = array.as_list::<O>();
    let values = key_of(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    let list = GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?;
    Ok(Arc::new(list))
}
