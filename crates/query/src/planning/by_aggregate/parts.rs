//! The plan of a grouped query of stored buckets and raw rows.
//!
//! Does: take stored answers as they are where the query groups as the aggregate does, and combine them where it groups more
//! widely. Does not: choose the aggregate.
//!
//! Both parts have the columns `k0, k1, ...` of the groups and `m0, m1, ...` of the measures. Where groups are the same, each is of
//! one part alone: its bucket is a stored one or it is not.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::provider_as_source;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use nilometer_engine::TimeKind;

use super::asked::{Asked, comparable};
use super::form::{Form, qualified};
use super::keys::{Key, Terms, cast_to, stored_column};
use super::{Candidate, outside};
use crate::statement::name::TableName;
use crate::tables::aggregate::{together, within};
use crate::tables::catalogue::ReadContext;
use crate::tables::table::Table;

/// The bucket among the columns of both parts, where values are chosen by it.
const BUCKET: &str = "bucket";

/// How an aggregate of a query comes of measures, by their place.
enum Combined {
    /// It is the measure.
    Same(usize),
    /// The function again: sums of sums, the least of the least.
    Again(Arc<AggregateUDF>, usize),
    /// A sum of counts.
    Count(usize),
    /// A sum by a count.
    Mean(usize, usize),
    /// The value of the first or the last bucket.
    Bookend(Arc<AggregateUDF>, usize),
}

/// Measures that a query needs, each once.
#[derive(Default)]
struct Measures<'a>(Vec<&'a (Expr, String)>);

impl<'a> Measures<'a> {
    fn place(&mut self, measure: &'a (Expr, String)) -> usize {
        let known = self.0.iter().position(|known| known.0 == measure.0);
        known.unwrap_or_else(|| {
            self.0.push(measure);
            self.0.len() - 1
        })
    }
}

/// The plan in place of a grouped query; `None` = the aggregate cannot answer it.
pub(super) fn answered(
    reading: &ReadContext,
    session: &SessionState,
    asked: &Asked<'_>,
    candidate: &Candidate,
) -> Result<Option<LogicalPlan>> {
    let form = candidate.form.as_ref();
    let (time, kind) = asked.table().table_schema().time();
    let rows = DFSchema::try_from(
        asked
            .table()
            .table_schema()
            .shown_columns()
            .schema
            .as_ref()
            .clone(),
    )?;
    let terms = Terms {
        form,
        rows: &rows,
        time: (time, kind),
        session,
        is_utc: reading.zone.is_utc(),
    };
    let Some(keys) = terms.keys(asked)? else {
        return Ok(None);
    };
    // Without a bucket the statistics of files may answer, without a row.
    if !keys.iter().any(|key| key.is_bucket) {
        return Ok(None);
    }
    let Some(conditions) = terms.conditions(asked)? else {
        return Ok(None);
    };
    let (from, until) = asked.times;
    let (from_bucket, until_bucket) = form.buckets.within(from, until);
    let usable: Vec<(i64, i64)> = candidate
        .usable
        .iter()
        .map(|(start, end)| ((*start).max(from_bucket), (*end).min(until_bucket)))
        .filter(|(start, end)| start < end)
        .collect();
    if usable.is_empty() {
        return Ok(None);
    }
    let has_same_groups = (0..form.keys.len())
        .all(|at| keys.iter().any(|key| key.same_as == Some(at)))
        && keys.iter().all(|key| key.same_as.is_some());
    let mut measures = Measures::default();
    let Some(combined) = combined(asked.node, form, &keys, has_same_groups, &mut measures) else {
        return Ok(None);
    };
    let building = Building {
        reading,
        session,
        asked,
        candidate,
        keys: &keys,
        measures: &measures.0,
        kind,
        has_bucket: combined
            .iter()
            .any(|it| matches!(it, Combined::Bookend(..))),
    };
    let mut plans = vec![building.of_stored(&usable, conditions)?];
    for piece in outside((from, until), &usable) {
        plans.push(building.of_rows(piece)?);
    }
    let both = together(plans)?;
    building.answer(both, &combined, has_same_groups).map(Some)
}

/// How the aggregates of a query come of measures; `None` = one does not.
fn combined<'a>(
    node: &Aggregate,
    form: &'a Form,
    keys: &[Key],
    has_same_groups: bool,
    measures: &mut Measures<'a>,
) -> Option<Vec<Combined>> {
    let has_all_keys = (0..form.keys.len())
        .filter(|at| *at != form.bucket_at)
        .all(|at| keys.iter().any(|key| key.same_as == Some(at)));
    let mut all = Vec::new();
    let types = node.schema.fields().iter().skip(node.group_expr.len());
    for (expr, field) in node.aggr_expr.iter().zip(types) {
        let expr = comparable(expr)?;
        let known = form.measure(&expr);
        if has_same_groups && let Some(measure) = known {
            all.push(Combined::Same(measures.place(measure)));
            continue;
        }
        let Expr::AggregateFunction(AggregateFunction { func, params }) = &expr else {
            return None;
        };
        if params.distinct {
            return None;
        }
        let name = func.name();
        all.push(match (name, known) {
            ("sum" | "min" | "max", Some(known)) => {
                Combined::Again(Arc::clone(func), measures.place(known))
            }
            ("count", Some(known)) => Combined::Count(measures.place(known)),
            // Of rows of one time which is the first is not said, so stored groups must be those of the query.
            ("first" | "last", Some(known)) if has_all_keys && params.order_by.is_empty() => {
                Combined::Bookend(Arc::clone(func), measures.place(known))
            }
            ("avg", _) if *field.data_type() == DataType::Float64 => {
                let of = |name: &str| {
                    let mut all = form.measures.iter();
                    all.find(|(measure, _)| matches!(measure, Expr::AggregateFunction(it) if it.func.name() == name && it.params == *params))
                };
                Combined::Mean(measures.place(of("sum")?), measures.place(of("count")?))
            }
            _ => return None,
        });
    }
    Some(all)
}

/// What the parts of a plan are made of.
struct Building<'a> {
    reading: &'a ReadContext,
    session: &'a SessionState,
    asked: &'a Asked<'a>,
    candidate: &'a Candidate,
    keys: &'a [Key],
    measures: &'a [&'a (Expr, String)],
    kind: TimeKind,
    has_bucket: bool,
}

fn key(at: usize) -> String {
    format!("k{at}")
}

fn measure(at: usize) -> String {
    format!("m{at}")
}

fn column(name: String) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

impl Building<'_> {
    /// The aggregation of the query's rows in some times, by its groups, with the measures.
    fn of_rows(&self, piece: (i64, i64)) -> Result<LogicalPlan> {
        let input = self.asked.node.input.as_ref();
        let (time, _) = self.asked.table().table_schema().time();
        let time = qualified(&column(time.to_owned()), input)?;
        let input = match within(&time, &[piece], self.kind) {
            Some(condition) => LogicalPlanBuilder::from(input.clone())
                .filter(condition)?
                .build()?,
            None => input.clone(),
        };
        self.grouped(input)
    }

    fn grouped(&self, input: LogicalPlan) -> Result<LogicalPlan> {
        let mut groups = self.asked.node.group_expr.clone();
        if self.has_bucket
            && let Some((bucket, _)) = self.candidate.form.keys.get(self.candidate.form.bucket_at)
        {
            groups.push(qualified(bucket, &input)?);
        }
        let measures = self.measures.iter();
        let measures: Vec<Expr> = measures
            .map(|(measure, _)| qualified(measure, &input))
            .collect::<Result<_>>()?;
        let grouped = Aggregate::try_new(Arc::new(input), groups, measures)?;
        let columns = grouped.schema.columns().into_iter().zip(self.names());
        let columns: Vec<Expr> = columns
            .map(|(column, name)| Expr::Column(column).alias(name))
            .collect();
        LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped))
            .project(columns)?
            .build()
    }

    /// What the columns of both parts are called.
    fn names(&self) -> Vec<String> {
        let keys = (0..self.keys.len()).map(key);
        let bucket = self.has_bucket.then(|| BUCKET.to_owned());
        let measures = (0..self.measures.len()).map(measure);
        keys.chain(bucket).chain(measures).collect()
    }

    /// The stored groups of some buckets, with the types that they have of rows.
    fn of_stored(&self, usable: &[(i64, i64)], conditions: Vec<Expr>) -> Result<LogicalPlan> {
        let candidate = self.candidate;
        let aggregate = &candidate.aggregate;
        let table = Table::new(
            Arc::clone(&self.reading.snapshot),
            Arc::clone(&candidate.stored),
            TableName::at(
                None,
                nilometer_service::define::TableName {
                    table: aggregate.stored.clone(),
                    ..aggregate.name.clone()
                },
            ),
            self.reading.shared.options.threads,
        );
        let table = table.of_aggregate(&aggregate.name.table);
        let source = provider_as_source(Arc::new(table));
        let mut plan = LogicalPlanBuilder::scan("stored", source, None)?;
        let (time, _) = candidate.stored.time();
        if let Some(condition) = within(&stored_column(time), usable, self.kind) {
            plan = plan.filter(condition)?;
        }
        for condition in conditions {
            plan = plan.filter(condition)?;
        }
        let types = self.grouped(self.asked.node.input.as_ref().clone())?;
        let mut columns: Vec<Expr> = self.keys.iter().map(|key| key.stored.clone()).collect();
        if self.has_bucket {
            columns.push(stored_column(candidate.form.bucket().unwrap_or_default()));
        }
        let measures = self.measures.iter();
        columns.extend(measures.map(|(_, column)| stored_column(column)));
        let fields = types.schema().fields().iter();
        let columns: Vec<Expr> = columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| cast_to(column, field.data_type().clone()).alias(field.name()))
            .collect();
        plan.project(columns)?.build()
    }

    /// The answer of the query, with its columns as it names them.
    fn answer(
        &self,
        both: LogicalPlan,
        combined: &[Combined],
        has_same_groups: bool,
    ) -> Result<LogicalPlan> {
        let (both, values) = if has_same_groups {
            let of = |it: &Combined| match it {
                Combined::Mean(total, count) => {
                    mean(column(measure(*total)), column(measure(*count)))
                }
                Combined::Same(at)
                | Combined::Again(_, at)
                | Combined::Count(at)
                | Combined::Bookend(_, at) => Ok(column(measure(*at))),
            };
            let values = combined.iter().map(of).collect::<Result<_>>()?;
            (both, values)
        } else {
            self.again(both, combined)?
        };
        let keys = (0..self.keys.len()).map(|at| column(key(at)));
        let of_query = &self.asked.node.schema;
        let columns: Vec<Expr> = keys
            .chain(values)
            .zip(of_query.iter())
            .map(|(value, (qualifier, field))| {
                let kind = value.get_type(both.schema())?;
                let value = if kind == *field.data_type() {
                    value
                } else {
                    cast_to(value, field.data_type().clone())
                };
                Ok(value.alias_qualified(qualifier.cloned(), field.name()))
            })
            .collect::<Result<_>>()?;
        LogicalPlanBuilder::from(both).project(columns)?.build()
    }

    /// Groups of both parts put together, and what the aggregates of the query are then.
    fn again(&self, both: LogicalPlan, combined: &[Combined]) -> Result<(LogicalPlan, Vec<Expr>)> {
        let sum = self.session.udaf("sum")?;
        let (mut aggregates, mut values) = (Vec::new(), Vec::new());
        let mut add = |func: &Arc<AggregateUDF>, args: Vec<Expr>| {
            let name = format!("a{}", aggregates.len());
            aggregates.push(called(func, args).alias(&name));
            column(name)
        };
        for it in combined {
            let of = |at: &usize| column(measure(*at));
            let value = match it {
                Combined::Again(func, at) => add(func, vec![of(at)]),
                // What is the measure itself is so where groups are the same.
                Combined::Same(at) | Combined::Count(at) => add(&sum, vec![of(at)]),
                Combined::Mean(total, count) => {
                    let total = add(&sum, vec![of(total)]);
                    let count = add(&sum, vec![of(count)]);
                    mean(total, count)?
                }
                Combined::Bookend(func, at) => add(func, vec![of(at), column(BUCKET.to_owned())]),
            };
            values.push(value);
        }
        let keys = (0..self.keys.len()).map(|at| column(key(at))).collect();
        let grouped = Aggregate::try_new(Arc::new(both), keys, aggregates)?;
        Ok((LogicalPlan::Aggregate(grouped), values))
    }
}

/// A sum by a count; NULL where nothing was counted.
fn mean(total: Expr, count: Expr) -> Result<Expr> {
    let total = cast_to(total, DataType::Float64);
    let mean = total / cast_to(count.clone(), DataType::Float64);
    when(count.gt(lit(0_i64)), mean).end()
}

fn called(func: &Arc<AggregateUDF>, args: Vec<Expr>) -> Expr {
    Expr::AggregateFunction(AggregateFunction {
        func: Arc::clone(func),
        params: AggregateFunctionParams {
            args,
            distinct: false,
            filter: None,
            order_by: Vec::new(),
            null_treatment: None,
        },
    })
}
