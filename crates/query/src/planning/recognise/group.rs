//! Groups: what a query groups by, its aggregates, and the first or last rows of each group.
//!
//! Does: take over groups by tags and by one bucket of time, and the aggregates whose answers are the same. Does not: take
//! over groups by fields or expressions, FILTER, or aggregates of expressions.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, Sort, WindowFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Window,
    WindowFunctionDefinition,
};
use nilometer_engine::TimeKind;
use nilometer_series::{
    Aggregate as SeriesAggregate, Bucket, Expr as SeriesExpr, Selector, Type, Width,
};

use super::view::{Column, Grouped, View};
use crate::function::{self, Buckets, NUMERIC_MEAN, NUMERIC_SUM, TIME_BUCKET, sums_numeric};
use crate::walk::ExprWalk;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// The first Monday of 1970.
const MONDAY_NS: i64 = 4 * DAY_NS;

/// Rows at the end of each series that are worth being looked for.
pub(super) const END_ROWS_MAX: u64 = 1000;

/// Rows at an end of each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) descending: bool,
    pub(super) skip: u64,
    pub(super) rows: u64,
}

/// The buckets of the time that a call makes.
pub(super) fn bucket(expr: &Expr, view: &View, input: &DFSchema) -> Option<Bucket> {
    let call = match expr {
        Expr::Alias(alias) => return bucket(&alias.expr, view, input),
        Expr::ScalarFunction(call) => call,
        _ => return None,
    };
    if !view.has_clock() {
        return None;
    }
    let is_time = |expr: &Expr| view.column(expr, input) == Some(&Column::Time);
    match (call.func.name(), call.args.as_slice()) {
        (TIME_BUCKET, [Expr::Literal(width, _), time, optional @ ..]) if is_time(time) => {
            let values = optional.iter().map(|expr| match expr {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            });
            let optional: Vec<ScalarValue> = values.collect::<Option<_>>()?;
            // What the calendar of a zone is to what a clock shows is not the same question.
            let has_zone = optional.iter().any(|value| value.data_type().is_string());
            if has_zone && view.names.time != TimeKind::TimestampTz {
                return None;
            }
            function::series_buckets(width, &optional)
        }
        ("date_trunc", [Expr::Literal(unit, _), time]) if is_time(time) => {
            truncated(unit.try_as_str()??)
        }
        _ => None,
    }
}

fn truncated(unit: &str) -> Option<Bucket> {
    let fixed = |width_ns: i64| Some(Bucket::fixed(width_ns));
    match unit.to_ascii_lowercase().as_str() {
        "second" => fixed(SECOND_NS),
        "minute" => fixed(60 * SECOND_NS),
        "hour" => fixed(3600 * SECOND_NS),
        "day" => fixed(DAY_NS),
        "week" => Some(Bucket {
            origin_ns: MONDAY_NS,
            ..Bucket::fixed(7 * DAY_NS)
        }),
        unit => {
            let months = match unit {
                "month" => 1,
                "quarter" => 3,
                "year" => 12,
                _ => return None,
            };
            Some(Buckets::months(months))
        }
    }
}

/// Rows in groups.
pub(super) fn grouped(mut view: View, aggregate: &Aggregate) -> Option<View> {
    let input = aggregate.input.schema();
    if !view.is_rows() {
        view = view.around(input)?;
    }
    // Whatever order rows had is gone.
    view.order = None;
    let mut grouped = Grouped {
        tags: Vec::new(),
        bucket: None,
        ends: None,
    };
    let mut columns = Vec::with_capacity(aggregate.schema.fields().len());
    for expr in &aggregate.group_expr {
        let column = match view.column(expr, input) {
            Some(column) => column.clone(),
            None => Column::Bucket(bucket(expr, &view, input)?),
        };
        match &column {
            Column::Tag(tag) => {
                if !grouped.tags.contains(tag) {
                    grouped.tags.push(*tag);
                }
            }
            Column::Bucket(bucket) => match &grouped.bucket {
                None => grouped.bucket = Some(bucket.clone()),
                // Of buckets in buckets, those within make the groups.
                Some(known) if divides(known, bucket) => {}
                Some(known) if divides(bucket, known) => grouped.bucket = Some(bucket.clone()),
                Some(_) => return None,
            },
            _ => return None,
        }
        columns.push(column);
    }
    let calls: Vec<&AggregateFunction> = aggregate
        .aggr_expr
        .iter()
        .map(call)
        .collect::<Option<_>>()?;
    if let Some(ends) = rows_at_ends(&calls, &view, input, &grouped) {
        for call in calls {
            columns.push(view.column(call.params.args.first()?, input)?.clone());
        }
        grouped.ends = Some(ends);
    } else {
        for call in calls {
            let aggregate = self::aggregate(call, &view, input)?;
            columns.push(Column::Aggregate(SeriesExpr::aggregate(aggregate)));
        }
    }
    view.columns = columns;
    view.grouped = Some(grouped);
    Some(view)
}

/// Whether each bucket of one kind lies in one of another kind.
pub(super) fn divides(fine: &Bucket, coarse: &Bucket) -> bool {
    let start = |bucket: &Bucket| match bucket.width {
        Width::Fixed(width) if bucket.is_contiguous() && bucket.offset.months == 0 => {
            Some((width, bucket.origin_ns.checked_add(bucket.offset.fixed_ns)?))
        }
        _ => None,
    };
    if fine == coarse {
        return true;
    }
    let (Some((fine, first)), Some((coarse, other))) = (start(fine), start(coarse)) else {
        return false;
    };
    coarse % fine == 0 && (i128::from(first) - i128::from(other)) % i128::from(fine) == 0
}

pub(super) fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::AggregateFunction(call) => Some(call),
        _ => None,
    }
}

/// Whether all of a group's columns are of its one first row, or all of its last: by time, which what the group has in common
/// does not change.
fn rows_at_ends(
    calls: &[&AggregateFunction],
    view: &View,
    input: &DFSchema,
    grouped: &Grouped,
) -> Option<Ends> {
    // Which row of an answer is the first of several of one time is nowhere said.
    if grouped.tags.is_empty() || grouped.bucket.is_some() || view.below.is_some() {
        return None;
    }
    let mut found = None;
    for call in calls {
        let is_last = wants_last(call, view, input, &grouped.tags)?;
        if *found.get_or_insert(is_last) != is_last {
            return None;
        }
        // What is shown of the row.
        match view.column(call.params.args.first()?, input)? {
            Column::Time | Column::Tag(_) | Column::Field(_) => {}
            _ => return None,
        }
    }
    Some(Ends {
        descending: found?,
        skip: 0,
        rows: 1,
    })
}

pub(super) fn ignores_nulls(call: &AggregateFunction) -> bool {
    call.params.null_treatment == Some(NullTreatment::IgnoreNulls)
}

/// Whether a function is of the last row by time, or of the first; `None` = of neither.
fn wants_last(
    call: &AggregateFunction,
    view: &View,
    input: &DFSchema,
    group: &[usize],
) -> Option<bool> {
    let params = &call.params;
    if params.distinct || params.filter.is_some() || ignores_nulls(call) {
        return None;
    }
    let is_last = match call.func.name() {
        "first_value" => false,
        "last_value" => true,
        _ => return None,
    };
    Some(descends(&params.order_by, view, input, group)? != is_last)
}

/// Whether an order by time descends; keys that the group has in common order nothing.
fn descends(keys: &[Sort], view: &View, input: &DFSchema, group: &[usize]) -> Option<bool> {
    let mut keys = keys.iter().skip_while(
        |key| matches!(view.column(&key.expr, input), Some(Column::Tag(tag)) if group.contains(tag)),
    );
    let first = keys.next()?;
    let is_time = view.column(&first.expr, input) == Some(&Column::Time);
    // What comes after the time would choose among rows of one time.
    (is_time && (keys.next().is_none() || view.has_one_row_a_time(group))).then_some(!first.asc)
}

fn aggregate(call: &AggregateFunction, view: &View, input: &DFSchema) -> Option<SeriesAggregate> {
    let params = &call.params;
    if params.filter.is_some() || params.distinct || ignores_nulls(call) {
        return None;
    }
    let name = call.func.name();
    let [argument] = params.args.as_slice() else {
        return None;
    };
    if matches!(name, "first_value" | "last_value") {
        if view.below.is_some() {
            return None;
        }
        let descends = descends(&params.order_by, view, input, &[])?;
        let is_last = (name == "last_value") != descends;
        let (_, value) = operand(argument, view, input)?;
        return Some(SeriesAggregate::Select {
            selector: if is_last {
                Selector::Last
            } else {
                Selector::First
            },
            by: SeriesExpr::Time,
            value,
        });
    }
    if !params.order_by.is_empty() {
        return None;
    }
    if let Expr::Literal(value, _) = argument {
        let counts = name == "count" && !value.is_null();
        return counts.then_some(SeriesAggregate::Rows);
    }
    if name == "count"
        && let Some(Column::Tag(tag)) = view.column(argument, input)
    {
        let tag = &view.names.tags.get(*tag)?.name;
        return Some(SeriesAggregate::Count(SeriesExpr::tag(tag)));
    }
    if name == "count"
        && let Some(compared) = compared(argument)
    {
        let (_, of) = operand(compared, view, input)?;
        return Some(SeriesAggregate::Count(of));
    }
    let (kind, of) = match argument {
        // Sums and means are made of the exact values, so a cast to a wider number changes nothing.
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 && name == "avg" => {
            operand(&cast.expr, view, input)?
        }
        argument => operand(argument, view, input)?,
    };
    let is_number = matches!(kind, Some(Type::Int | Type::Unsigned | Type::Float));
    Some(match name {
        "count" => SeriesAggregate::Count(of),
        "sum" | "avg" if sums_numeric(&call.func) && is_number && kind != Some(Type::Float) => {
            return numeric(call, of, input);
        }
        "sum" if is_number => SeriesAggregate::Sum(of),
        "avg" if is_number => SeriesAggregate::Mean(of),
        // Of the time too.
        "min" => SeriesAggregate::Min(of),
        "max" => SeriesAggregate::Max(of),
        _ => return None,
    })
}

/// A sum or mean of integers that is `numeric`; that of an `integer` is a `bigint`.
fn numeric(call: &AggregateFunction, of: SeriesExpr, input: &DFSchema) -> Option<SeriesAggregate> {
    let call = Expr::AggregateFunction(call.clone());
    Some(match call.get_type(input).ok()? {
        kind if kind == NUMERIC_MEAN => SeriesAggregate::NumericMean(of),
        kind if kind == NUMERIC_SUM => SeriesAggregate::NumericSum(of),
        _ => SeriesAggregate::Sum(of),
    })
}

/// What is compared with a value: the outcome is null where it is, and nowhere else.
fn compared(expr: &Expr) -> Option<&Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    let is_comparison = matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
    );
    let is_value = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if !value.is_null());
    if is_comparison && is_value(right) {
        return Some(left);
    }
    (is_comparison && is_value(left)).then_some(right)
}

/// The time or a field, and the field's type.
fn operand(expr: &Expr, view: &View, input: &DFSchema) -> Option<(Option<Type>, SeriesExpr)> {
    match view.column(expr, input)? {
        Column::Time => Some((None, SeriesExpr::Time)),
        Column::Field(field) => {
            let (name, kind) = view.names.value(*field)?;
            Some((Some(kind), SeriesExpr::field(name)))
        }
        _ => None,
    }
}

/// The windows that a condition is about, and the projection between the two, if there is one.
pub(super) fn window_below(plan: &LogicalPlan) -> Option<(&Window, Option<&Projection>)> {
    match plan {
        LogicalPlan::Window(window) => Some((window, None)),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Window(window) => Some((window, Some(projection))),
            _ => None,
        },
        _ => None,
    }
}

/// An expression over the columns of a projection, over those that it projects; `None` = one of them is made of others.
pub(super) fn over_input(expr: &Expr, projection: &Projection) -> Option<Expr> {
    let mut is_plain = true;
    let over = expr.clone().replace_up(&mut |part| {
        let Expr::Column(column) = &part else {
            return Ok(Transformed::no(part));
        };
        let at = projection.schema.maybe_index_of_column(column);
        let below = at.and_then(|at| projection.expr.get(at));
        let below = below.map(|expr| expr.clone().unalias());
        if let Some(below @ Expr::Column(_)) = below {
            Ok(Transformed::yes(below))
        } else {
            is_plain = false;
            Ok(Transformed::no(part))
        }
    });
    over.ok().map(|over| over.data).filter(|_| is_plain)
}

/// `row_number() OVER (PARTITION BY tags ORDER BY time) <= n`, with what a projection between the two leaves, and further
/// conditions on the rows that are left.
pub(super) fn numbered(
    view: View,
    window: &Window,
    between: Option<&Projection>,
    condition: &Expr,
) -> Option<View> {
    let number = window.input.schema().fields().len();
    let is_of_number = |expr: &Expr| {
        let mut columns = expr.column_refs().into_iter();
        columns.any(|column| window.schema.maybe_index_of_column(column) == Some(number))
    };
    let (mut bounds, mut others) = (Vec::new(), Vec::new());
    for conjunct in split_conjunction(condition) {
        let over = match between {
            Some(projection) => over_input(conjunct, projection)?,
            None => conjunct.clone(),
        };
        if is_of_number(&over) {
            bounds.push(over);
        } else {
            others.push(conjunct.clone());
        }
    }
    let mut view = first_rows(view, window, &bounds)?;
    let mut input = &window.schema;
    if let Some(projection) = between {
        view = view.project(&projection.expr, projection.input.schema())?;
        input = &projection.schema;
    }
    match conjunction(others) {
        Some(others) => view.filter(&others, input),
        None => Some(view),
    }
}

fn first_rows(view: View, window: &Window, bounds: &[Expr]) -> Option<View> {
    let [expr] = window.window_expr.as_slice() else {
        return None;
    };
    let params = &row_number(expr)?.params;
    let (mut skip, mut last) = (0_u64, None::<u64>);
    for bound in bounds {
        let (from, to) = places(bound, window)?;
        skip = skip.max(from);
        last = Some(last.unwrap_or(u64::MAX).min(to));
    }
    let last = last.filter(|last| *last <= END_ROWS_MAX)?;
    let keys = (params.partition_by.as_slice(), params.order_by.as_slice());
    let mut view = ends_by(view, keys, window.input.schema())?;
    let ends = view.grouped.as_mut()?.ends.as_mut()?;
    (ends.skip, ends.rows) = (skip, last.saturating_sub(skip));
    view.columns.push(Column::Number);
    Some(view)
}

/// The first row of each group of tags in an order by time.
pub(super) fn ends_by(
    mut view: View,
    (group, order): (&[Expr], &[Sort]),
    input: &DFSchema,
) -> Option<View> {
    if !view.is_rows() || view.below.is_some() {
        return None;
    }
    view.order = None;
    let mut tags: Vec<usize> = Vec::new();
    for expr in group {
        match view.column(expr, input)? {
            Column::Tag(tag) if !tags.contains(tag) => tags.push(*tag),
            _ => return None,
        }
    }
    let ends = Ends {
        descending: descends(order, &view, input, &tags)?,
        skip: 0,
        rows: 1,
    };
    view.grouped = Some(Grouped {
        tags,
        bucket: None,
        ends: Some(ends),
    });
    Some(view)
}

/// The numbers of rows that a condition on the number of a window leaves: after the first, up to the second.
pub(super) fn places(bound: &Expr, window: &Window) -> Option<(u64, u64)> {
    let Expr::BinaryExpr(binary) = bound else {
        return None;
    };
    let (Expr::Column(column), Expr::Literal(ScalarValue::UInt64(Some(bound)), _)) =
        (binary.left.as_ref(), binary.right.as_ref())
    else {
        return None;
    };
    if window.schema.maybe_index_of_column(column)? != window.input.schema().fields().len() {
        return None;
    }
    Some(match binary.op {
        Operator::Eq => (bound.checked_sub(1)?, *bound),
        Operator::Lt => (0, bound.checked_sub(1)?),
        Operator::LtEq => (0, *bound),
        Operator::Gt => (*bound, u64::MAX),
        Operator::GtEq => (bound.checked_sub(1)?, u64::MAX),
        _ => return None,
    })
}

pub(super) fn row_number(expr: &Expr) -> Option<&WindowFunction> {
    match expr {
        Expr::Alias(alias) => row_number(&alias.expr),
        Expr::WindowFunction(call) => {
            let is_number = matches!(&call.fun, WindowFunctionDefinition::WindowUDF(function) if function.name() == "row_number");
            (is_number && call.params.filter.is_none()).then_some(call.as_ref())
        }
        _ => None,
    }
}
