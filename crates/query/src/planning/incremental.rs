//! Queries that can be computed bucket by bucket: what a continuous aggregate may be made of.
//!
//! Does: find the bucket and the source of its time, and say what is in the way. Does not: plan a part of the query: rows of
//! other buckets are left out where the source is scanned (`tables/aggregate.rs` does).
//!
//! A query qualifies if every row that is grouped comes from exactly one row of the source, and groups have the bucket of
//! that row's time in their key: then groups of a bucket depend on rows of that bucket alone.

use arrow::datatypes::{DataType, IntervalUnit, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, JoinType, LogicalPlan, TableScan, Volatility,
};
use nilometer_engine::{PhysicalType, TimeKind};
use std::sync::Arc;

use crate::error::Error;
use crate::function::{TIME_BUCKET, buckets_of};
use crate::statement::name::TableName;
use crate::statement::types::name_of_arrow;
use crate::tables::aggregate::AggregateTable;
use crate::tables::aggregate::buckets::AggregateBuckets;
use crate::tables::table::Table;
use crate::walk::{ExprWalk, PlanWalk};

/// What a query says of its buckets.
#[derive(Debug, Clone)]
pub(crate) struct Incremental {
    /// The table, or continuous aggregate, whose time is bucketed.
    pub(crate) source: TableName,
    /// What its time is.
    pub(crate) kind: TimeKind,
    pub(crate) buckets: AggregateBuckets,
    /// Position of the bucket among the columns.
    pub(crate) bucket_at: usize,
    /// The columns.
    pub(crate) schema: SchemaRef,
}

/// Where a column comes from.
struct Origin {
    source: TableName,
    kind: TimeKind,
    is_time: bool,
}

/// What a query says of its buckets, or why it cannot be computed bucket by bucket.
pub(crate) fn incremental(
    plan: &LogicalPlan,
    session: &SessionState,
) -> Result<Incremental, Error> {
    check_deterministic(plan)?;
    let schema = Arc::new(Schema::clone(plan.schema().as_arrow()));
    let aggregate = grouped(plan)?;
    let mut found = None;
    let mut reason = None;
    for (at, group) in aggregate.group_expr.iter().enumerate() {
        if matches!(group, Expr::GroupingSet(_)) {
            return Err(refused(
                "its GROUP BY has GROUPING SETS, ROLLUP or CUBE; group by columns",
            ));
        }
        let Some(args) = bucket(group) else { continue };
        let Some(Expr::Column(time)) = args.get(1).map(bare) else {
            reason = Some(refused("the time of its time_bucket is not a column"));
            continue;
        };
        match origin(&aggregate.input, time) {
            Ok(Some(origin)) if origin.is_time => {
                found = Some((at, args, origin));
                break;
            }
            Ok(_) => {
                reason = Some(refused(
                    "the time of its time_bucket is not the time of a table or of a continuous aggregate",
                ));
            }
            Err(error) => reason = Some(error),
        }
    }
    let Some((group_at, args, origin)) = found else {
        return Err(reason.unwrap_or_else(|| {
            refused(
                "its GROUP BY has no time_bucket of the time of a table: write SELECT time_bucket('1 hour', time) AS hour, ... GROUP BY hour",
            )
        }));
    };
    let scans = scans_of(plan, &origin.source)?;
    if scans != 1 {
        let name = &origin.source.table;
        return Err(refused(&format!(
            "it reads \"{name}\" {scans} times, and rows of other buckets would have a say in a bucket; read it once"
        )));
    }
    let columns = 0..schema.fields().len();
    let bucket_at = columns
        .into_iter()
        .find(|at| leads_to(plan, *at) == Some(group_at))
        .ok_or_else(|| refused("its bucket is not among its columns; SELECT it, with a name"))?;
    let buckets = read_buckets(args, origin.kind, session)?;
    Ok(Incremental {
        source: origin.source,
        kind: origin.kind,
        buckets,
        bucket_at,
        schema,
    })
}

fn refused(reason: &str) -> Error {
    Error::Plan {
        message: format!(
            "the query of a continuous aggregate is computed bucket by bucket: {reason}"
        ),
        position: None,
    }
}

/// Refuses a query that answers otherwise when it is asked again.
fn check_deterministic(plan: &LogicalPlan) -> Result<(), Error> {
    let mut found: Option<String> = None;
    plan.walk(&mut |node| {
        node.walk_expressions(&mut |expr| {
            expr.has(&mut |inner| {
                let (name, volatility) = match inner {
                    Expr::ScalarFunction(call) => {
                        (call.func.name(), call.func.signature().volatility)
                    }
                    Expr::AggregateFunction(call) => {
                        (call.func.name(), call.func.signature().volatility)
                    }
                    Expr::ScalarVariable(..) => ("a variable", Volatility::Volatile),
                    _ => return Ok(false),
                };
                if volatility != Volatility::Immutable && found.is_none() {
                    found = Some(name.to_owned());
                }
                Ok(false)
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match found {
        None => Ok(()),
        Some(name) => Err(Error::Plan {
            message: format!(
                "the query of a continuous aggregate is computed once and read later: {name} may answer otherwise then; leave it out"
            ),
            position: None,
        }),
    }
}

/// The aggregation at the top of a query, under columns, HAVING and an order.
fn grouped(plan: &LogicalPlan) -> Result<&Aggregate, Error> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Ok(aggregate),
        LogicalPlan::Projection(it) => grouped(&it.input),
        LogicalPlan::SubqueryAlias(it) => grouped(&it.input),
        LogicalPlan::Filter(it) => grouped(&it.input),
        LogicalPlan::Sort(it) if it.fetch.is_none() => grouped(&it.input),
        other => Err(refused(in_the_way(other))),
    }
}

fn in_the_way(node: &LogicalPlan) -> &'static str {
    match node {
        LogicalPlan::Limit(_) | LogicalPlan::Sort(_) => {
            "LIMIT chooses among rows of other buckets; leave it out, and write it where the view is read"
        }
        LogicalPlan::Window(_) => {
            "a window function reads rows of other buckets; leave it out, and write it where the view is read"
        }
        LogicalPlan::Distinct(_) => "DISTINCT stands around or in its GROUP BY; leave it out",
        LogicalPlan::Union(_) => "it has a UNION; make a view of each part",
        LogicalPlan::Join(_) => {
            "a join stands above its GROUP BY, or has the table with the time on the side that may be missing; write the join in FROM, and an inner or left join from that table"
        }
        LogicalPlan::Aggregate(_) => {
            "it groups what is grouped already; make a continuous aggregate of the inner query, and one of that"
        }
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
            "it has no GROUP BY; write GROUP BY with a time_bucket"
        }
        _ => {
            "it has a part that needs rows of other buckets; a SELECT with WHERE, joins, GROUP BY and HAVING can be computed so"
        }
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// The arguments of a `time_bucket`.
fn bucket(expr: &Expr) -> Option<&[Expr]> {
    match bare(expr) {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == TIME_BUCKET => {
            Some(args)
        }
        _ => None,
    }
}

/// Where a column of the rows that are grouped comes from; `None` = it is computed.
fn origin(plan: &LogicalPlan, column: &Column) -> Result<Option<Origin>, Error> {
    match plan {
        LogicalPlan::TableScan(scan) => Ok(origin_of(scan, column)),
        LogicalPlan::Filter(it) => origin(&it.input, column),
        LogicalPlan::Sort(it) if it.fetch.is_none() => origin(&it.input, column),
        LogicalPlan::SubqueryAlias(it) => {
            let at = it.schema.index_of_column(column)?;
            let inner = Column::from(it.input.schema().qualified_field(at));
            origin(&it.input, &inner)
        }
        LogicalPlan::Projection(it) => {
            let at = it.schema.index_of_column(column)?;
            match it.expr.get(at).map(bare) {
                Some(Expr::Column(inner)) => origin(&it.input, inner),
                _ => Ok(None),
            }
        }
        LogicalPlan::Join(join) => {
            use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
            let is_left = join.left.schema().has_column(column);
            let stays = if is_left {
                matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti)
            } else {
                matches!(join.join_type, Inner | Right | RightSemi | RightAnti)
            };
            if !stays {
                return Err(refused(in_the_way(plan)));
            }
            origin(if is_left { &join.left } else { &join.right }, column)
        }
        other => Err(refused(in_the_way(other))),
    }
}

fn origin_of(scan: &TableScan, column: &Column) -> Option<Origin> {
    let (source, time, kind) = named(scan)?;
    Some(Origin {
        is_time: time == column.name,
        source,
        kind,
    })
}

/// The table or continuous aggregate of a scan, and its time.
fn named(scan: &TableScan) -> Option<(TableName, String, TimeKind)> {
    let provider = source_as_provider(&scan.source).ok()?;
    if let Some(table) = provider.downcast_ref::<Table>() {
        let (time, kind) = table.table_schema().time();
        return Some((table.name().clone(), time.to_owned(), kind));
    }
    let aggregate = provider.downcast_ref::<AggregateTable>()?;
    let (time, kind) = aggregate.time();
    Some((aggregate.name().clone(), time.to_owned(), kind))
}

fn scans_of(plan: &LogicalPlan, source: &TableName) -> Result<usize, Error> {
    let mut scans = 0;
    plan.walk(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node
            && named(scan).is_some_and(|(name, ..)| name.shown() == source.shown())
        {
            scans += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scans)
}

/// The column of the aggregation that a column of the query is: one of its groups, which are the first, or of its aggregates;
/// `None` = it is another expression.
pub(crate) fn leads_to(plan: &LogicalPlan, at: usize) -> Option<usize> {
    match plan {
        LogicalPlan::Aggregate(_) => Some(at),
        LogicalPlan::Projection(it) => match it.expr.get(at).map(bare)? {
            Expr::Column(column) => {
                leads_to(&it.input, it.input.schema().index_of_column(column).ok()?)
            }
            _ => None,
        },
        LogicalPlan::SubqueryAlias(it) => leads_to(&it.input, at),
        LogicalPlan::Filter(it) => leads_to(&it.input, at),
        LogicalPlan::Sort(it) => leads_to(&it.input, at),
        _ => None,
    }
}

/// The buckets that constants of a `time_bucket` make.
pub(crate) fn read_buckets(
    args: &[Expr],
    of: TimeKind,
    session: &SessionState,
) -> Result<AggregateBuckets, Error> {
    let mut values = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        if at != 1 {
            values.push(constant(arg, session)?);
        }
    }
    let mut values = values.into_iter();
    let width = values.next().unwrap_or(ScalarValue::Null);
    let (unit_ns, kind) = match of {
        TimeKind::Integer { unit_ns } => (unit_ns.max(1), DataType::Int64),
        TimeKind::Date => (1, DataType::Date32),
        TimeKind::TimestampTz | TimeKind::Timestamp => (1, DataType::Null),
    };
    let width = match width {
        width if width.data_type().is_integer() => width.cast_to(&DataType::Int64)?,
        width => width.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))?,
    };
    let optional: Vec<ScalarValue> = values.collect();
    let zone = optional.iter().find_map(|value| match value {
        ScalarValue::Utf8(Some(name)) => Some(name.clone()),
        _ => None,
    });
    let buckets = buckets_of(&width, &optional, &kind)?
        .ok_or_else(|| refused("an argument of its time_bucket is NULL"))?;
    Ok(AggregateBuckets {
        buckets,
        unit_ns,
        zone,
    })
}

fn constant(expr: &Expr, session: &SessionState) -> Result<ScalarValue, Error> {
    let refused = || refused("the arguments of its time_bucket are not constants");
    if !expr.column_refs().is_empty() {
        return Err(refused());
    }
    instant(value_of(expr, session)?)
}

/// The value of an expression; `None` = it has columns, or none.
pub(crate) fn evaluated(expr: &Expr, session: &SessionState) -> Option<ScalarValue> {
    if !expr.column_refs().is_empty() {
        return None;
    }
    value_of(expr, session).ok()
}

fn value_of(expr: &Expr, session: &SessionState) -> Result<ScalarValue, Error> {
    let expr = session.create_physical_expr(bare(expr).clone(), &DFSchema::empty())?;
    let row = arrow::array::RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
    );
    let row = row.map_err(|error| Error::internal(error.to_string()))?;
    match expr.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(values) => Ok(ScalarValue::try_from_array(&values, 0)?),
    }
}

/// Times as `time_bucket` takes them: an origin is an instant.
fn instant(value: ScalarValue) -> Result<ScalarValue, Error> {
    use arrow::datatypes::TimeUnit;
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let value = match value.data_type() {
        DataType::Timestamp(..) | DataType::Date32 => value.cast_to(&utc)?,
        kind if kind.is_integer() => value.cast_to(&DataType::Int64)?,
        kind if kind.is_string() => value.cast_to(&DataType::Utf8)?,
        DataType::Interval(_) => value.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))?,
        _ => value,
    };
    Ok(value)
}

/// How a column of stored answers is kept: its stored type, and the logical one over it.
pub(crate) fn stored_as(
    name: &str,
    kind: &DataType,
) -> Result<(PhysicalType, Option<nilometer_engine::LogicalType>), Error> {
    use PhysicalType::{Bool, Bytes, F64, I64, Text, U64};
    use nilometer_engine::LogicalType as L;
    let plain = |kind| (kind, None);
    let logical = |of: L| (of.physical(), Some(of));
    Ok(match kind {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => plain(I64),
        DataType::UInt64 => plain(U64),
        DataType::Float32 | DataType::Float64 => plain(F64),
        DataType::Boolean => plain(Bool),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => plain(Text),
        DataType::Dictionary(_, value) if value.is_string() => plain(Text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => plain(Bytes),
        DataType::Timestamp(_, Some(_)) => logical(L::TimestampTz),
        DataType::Timestamp(_, None) => logical(L::Timestamp),
        DataType::Date32 => logical(L::Date),
        DataType::Interval(IntervalUnit::MonthDayNano) => logical(L::Interval),
        DataType::Decimal128(precision, scale) if *scale >= 0 => logical(L::Numeric {
            precision: *precision,
            scale: scale.unsigned_abs(),
        }),
        other => {
            let message = format!(
                "the column \"{name}\" is {}, which no table can store; take a number, text or time from it",
                name_of_arrow(other)
            );
            return Err(Error::Plan {
                message,
                position: None,
            });
        }
    })
}
