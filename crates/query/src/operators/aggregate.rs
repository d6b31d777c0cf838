//! Aggregates from statistics and rollups, without decoding rows where possible.
//!
//! Does: find a whole aggregation (count, sum, avg, min, max of fields, grouped by tags and by buckets of whole hours)
//! right above a scan whose filters are all the engine's, and put one operator in its place. Does not: touch
//! aggregations of expressions, with a filter or DISTINCT, by other groups, or by buckets finer than an hour: those
//! decode every row anyway, and the planner's own operators do that well.
//!
//! It looks at the physical plan, so whichever language the statement was written in makes no difference.

mod groups;
mod operator;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use nilometer_engine::{AggregateRequest, ColumnSource, Narrowing};

use crate::function::{BUCKET_ORIGIN_NS, TIME_BUCKET};
use crate::operators::scan::SeriesScan;
use operator::TsAggregate;

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// Up to so many series it does not matter how many rows each has.
const SERIES_MANY: u64 = 1024;

/// Rows of a series from which on it has blocks of its own.
const ROWS_OF_SERIES_MIN: u64 = 128;

/// The rule that finds them.
#[derive(Debug)]
pub(crate) struct AggregateFromStatistics;

impl PhysicalOptimizerRule for AggregateFromStatistics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| match replacement(&plan)? {
            Some(aggregate) => Ok(Transformed::yes(Arc::new(aggregate) as Arc<_>)),
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "aggregate_from_statistics"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What one column of the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Position of a tag among the table's tags.
    Tag(usize),
    Bucket,
    /// Number of rows.
    Rows,
    /// Of one of the aggregation's fields.
    Count(usize),
    Sum(usize),
    Average(usize),
    Min(usize),
    Max(usize),
}

/// The operator that answers what `plan` asks, if there is one.
fn replacement(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<TsAggregate>> {
    let Some((aggregate, schema)) = whole_aggregation(plan) else {
        return Ok(None);
    };
    let scan = aggregate.input().downcast_ref::<SeriesScan>();
    // Rows that a limit or a narrowing leaves are not all, and statistics are.
    let Some(scan) =
        scan.filter(|scan| scan.request().limit.is_none() && *scan.narrowing() == Narrowing::None)
    else {
        return Ok(None);
    };
    let Some(asked) = AggregateSpec::of(aggregate, scan, &schema) else {
        return Ok(None);
    };
    let request = scan.request();
    let wanted = AggregateRequest {
        table: Arc::clone(&request.table),
        fields: asked.fields,
        time: request.time.clone(),
        tags: request.tags.clone(),
        bucket_ns: asked.bucket_ns,
    };
    let aggregation = scan
        .snapshot()
        .aggregate_showing(&wanted, &operator::group_tags(&asked.outputs))
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    // Series of few rows share blocks, which have no statistics: one by one they would only cost more.
    let series = aggregation.series() as u64;
    if series > SERIES_MANY && scan.rows_estimate() / series < ROWS_OF_SERIES_MIN {
        return Ok(None);
    }
    let shown = scan.shown().to_owned();
    Ok(Some(TsAggregate::new(
        aggregation,
        asked.outputs,
        schema,
        asked.bucket_ns,
        scan.threads_worth(),
        shown,
    )))
}

/// The aggregation that reads rows, and the schema of the one that is done: the same one, or the last of a pair.
fn whole_aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<(&AggregateExec, SchemaRef)> {
    let last = plan.downcast_ref::<AggregateExec>()?;
    if last.limit_options().is_some() {
        return None;
    }
    match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some((last, last.schema())),
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let first = last.input().downcast_ref::<AggregateExec>()?;
            (*first.mode() == AggregateMode::Partial && first.limit_options().is_none())
                .then(|| (first, last.schema()))
        }
        _ => None,
    }
}

/// An aggregation in the engine's terms.
struct AggregateSpec {
    /// By column of the answer.
    outputs: Vec<Output>,
    /// Positions of fields in the table's schema, each once.
    fields: Vec<usize>,
    bucket_ns: Option<i64>,
}

impl AggregateSpec {
    fn of(aggregate: &AggregateExec, scan: &SeriesScan, schema: &SchemaRef) -> Option<Self> {
        let groups = aggregate.group_expr();
        if !groups.is_true_no_grouping() && !groups.is_single() {
            return None;
        }
        let mut asked = Self {
            outputs: Vec::with_capacity(schema.fields().len()),
            fields: Vec::new(),
            bucket_ns: None,
        };
        for (expr, _) in groups.expr() {
            let output = asked.group(expr, scan)?;
            asked.outputs.push(output);
        }
        let filters = aggregate.filter_expr();
        for (function, filter) in aggregate.aggr_expr().iter().zip(filters) {
            if filter.is_some() {
                return None;
            }
            let output = asked.function(function, scan)?;
            asked.outputs.push(output);
        }
        // Every column of the answer has a type that is known how to be made.
        let fits = asked.outputs.len() == schema.fields().len()
            && asked
                .outputs
                .iter()
                .zip(schema.fields())
                .all(|(output, field)| groups::makes(*output, field.data_type()));
        fits.then_some(asked)
    }

    fn group(&mut self, expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan) -> Option<Output> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            let position = scan.table_position(column.index())?;
            return match scan.request().table.source(position)? {
                // In the table's schema the time comes first, then the tags.
                ColumnSource::Tag(_) => Some(Output::Tag(position.checked_sub(1)?)),
                ColumnSource::Time | ColumnSource::Field(_) => None,
            };
        }
        let width = bucket_width(expr.downcast_ref::<ScalarFunctionExpr>()?, scan)?;
        // One bucket, so that each row of the aggregation has one start.
        if self.bucket_ns.replace(width).is_some() {
            return None;
        }
        Some(Output::Bucket)
    }

    fn function(&mut self, function: &AggregateFunctionExpr, scan: &SeriesScan) -> Option<Output> {
        if function.is_distinct() || !function.order_bys().is_empty() {
            return None;
        }
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else {
            return None;
        };
        let name = function.fun().name();
        if let Some(literal) = argument.downcast_ref::<Literal>() {
            let counts_rows = name == "count" && !literal.value().is_null();
            return counts_rows.then_some(Output::Rows);
        }
        // Sums and averages are made of the field's own exact values, so a cast to a wider number changes nothing.
        let column = match argument.downcast_ref::<CastExpr>() {
            Some(cast) if matches!(name, "sum" | "avg") && is_widest(cast.cast_type()) => {
                cast.expr().downcast_ref::<Column>()?
            }
            _ => argument.downcast_ref::<Column>()?,
        };
        let position = scan.table_position(column.index())?;
        let ColumnSource::Field(_) = scan.request().table.source(position)? else {
            return None;
        };
        let known = self.fields.iter().position(|&field| field == position);
        let field = known.unwrap_or(self.fields.len());
        let output = match name {
            "count" => Output::Count(field),
            "sum" => Output::Sum(field),
            "avg" => Output::Average(field),
            "min" => Output::Min(field),
            "max" => Output::Max(field),
            _ => return None,
        };
        if known.is_none() {
            self.fields.push(position);
        }
        Some(output)
    }
}

fn is_widest(kind: &DataType) -> bool {
    matches!(kind, DataType::Float64 | DataType::Int64 | DataType::UInt64)
}

/// The width of the buckets that a function of the time makes, if they are those that the engine counts: whole hours,
/// from the epoch.
fn bucket_width(function: &ScalarFunctionExpr, scan: &SeriesScan) -> Option<i64> {
    let [first, time] = function.args() else {
        return None;
    };
    let time = time.downcast_ref::<Column>()?;
    let position = scan.table_position(time.index())?;
    if !matches!(scan.request().table.source(position)?, ColumnSource::Time) {
        return None;
    }
    let literal = first.downcast_ref::<Literal>()?.value();
    let width = match (function.name(), literal) {
        (TIME_BUCKET, ScalarValue::IntervalMonthDayNano(Some(width))) if width.months == 0 => {
            let days = i64::from(width.days).checked_mul(DAY_NS)?;
            days.checked_add(width.nanoseconds)?
        }
        ("date_trunc", literal) => match literal.try_as_str()?? {
            "hour" => HOUR_NS,
            "day" => DAY_NS,
            _ => return None,
        },
        _ => return None,
    };
    let is_counted = width > 0
        && width % HOUR_NS == 0
        && (function.name() != TIME_BUCKET || BUCKET_ORIGIN_NS % i128::from(width) == 0);
    is_counted.then_some(width)
}
