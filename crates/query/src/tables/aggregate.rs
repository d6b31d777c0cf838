//! Continuous aggregates as the planner sees them: stored answers of valid buckets, and the query for all others.
//!
//! Does: find the buckets whose stored answers may be wrong, put the two parts together as one plan on one snapshot, restrict the
//! scan of the source to some buckets. Does not: store anything (`sql/aggregate.rs` does), or say which queries can be computed so
//! (`planning/incremental.rs` does).
//!
//! Next: docs/decisions/0026-continuous-aggregates.md.

pub(crate) mod buckets;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, ident, lit};
use datafusion::physical_plan::ExecutionPlan;
use nilometer_engine::{AggregateSource, Invalidation, Snapshot, TableId, TimeKind};
use nilometer_service::define::{self, Aggregate};

use crate::error::Error;
use crate::statement::name::TableName;
use crate::tables::planned::scan_at_once;
use buckets::{AggregateBuckets, complement, few};

const DAY_NS: i64 = 86_400_000_000_000;

/// Ranges in which a query is planned for each by itself. More are scanned in one plan.
const PLANS_MAX: usize = 4;
/// Ranges of one plan. More are joined: what lies between is computed too.
const RANGES_MAX: usize = 64;

/// Ranges of buckets [start, end).
pub(crate) type Ranges = Vec<(i64, i64)>;

/// What a continuous aggregate stands for in a statement.
#[derive(Debug, Clone, Default)]
pub(crate) enum Meant {
    /// Its answer.
    #[default]
    Answer,
    /// Of the one of this name its query, in ranges of buckets; of all others their answers.
    Query(Arc<(String, Ranges)>),
    /// Its columns and its time.
    Columns,
}

/// Ranges of buckets that the source of an aggregate is restricted to.
#[derive(Debug, Clone)]
pub(crate) struct Restriction {
    pub(crate) source: String,
    pub(crate) ranges: Ranges,
    pub(crate) kind: TimeKind,
}

/// What the query of an aggregate reads, found while it is planned.
#[derive(Debug, Clone)]
pub(crate) struct Reads {
    /// The source whose time is bucketed; `None` = what is read now concerns all buckets.
    source: Option<String>,
    found: Arc<Mutex<BTreeSet<AggregateSource>>>,
}

impl Reads {
    pub(crate) fn of(source: &define::TableName) -> Self {
        Self {
            source: Some(source.shown()),
            found: Arc::default(),
        }
    }

    /// What was found.
    pub(crate) fn found(&self) -> BTreeSet<AggregateSource> {
        let found = self.found.lock();
        found.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same in the query of an aggregate that is read.
    pub(crate) fn inside(&self, aggregate: &Aggregate) -> Self {
        let is_source = self.source.as_deref() == Some(&aggregate.name.shown());
        Self {
            source: is_source.then(|| aggregate.source.shown()),
            found: Arc::clone(&self.found),
        }
    }

    /// The stored answers of an aggregate that is read.
    pub(crate) fn stored(&self, aggregate: &Aggregate, id: nilometer_engine::TableId) {
        let is_source = self.source.as_deref() == Some(&aggregate.name.shown());
        self.add(if is_source {
            AggregateSource::Times(id)
        } else {
            AggregateSource::Table(id)
        });
    }

    /// A table that is read; `name` = what its times would have to be called.
    pub(crate) fn table(&self, name: &str, id: nilometer_engine::TableId) {
        let is_source = self.source.as_deref() == Some(name);
        self.add(if is_source {
            AggregateSource::Times(id)
        } else {
            AggregateSource::Table(id)
        });
    }

    pub(crate) fn relation(&self, id: nilometer_engine::RelationId) {
        self.add(AggregateSource::Relation(id));
    }

    fn add(&self, source: AggregateSource) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(source);
    }
}

/// A continuous aggregate in the query of another one that is about to be made: its columns and its time, no rows.
#[derive(Debug, Clone)]
pub(crate) struct AggregateTable {
    name: TableName,
    schema: SchemaRef,
    time: (String, TimeKind),
}

impl AggregateTable {
    pub(crate) fn of(snapshot: &Snapshot, aggregate: &Aggregate) -> Option<Self> {
        let name = &aggregate.name;
        let stored = snapshot.table(&name.database, &name.schema, &aggregate.stored)?;
        let (time, kind) = stored.time();
        Some(Self {
            name: TableName::at(None, name.clone()),
            schema: Arc::clone(&stored.shown_columns().schema),
            time: (time.to_owned(), kind),
        })
    }

    pub(crate) fn name(&self) -> &TableName {
        &self.name
    }

    pub(crate) fn time(&self) -> (&str, TimeKind) {
        (&self.time.0, self.time.1)
    }

    fn plan_scan(
        &self,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal(format!(
            "the continuous aggregate {} is only looked at, and was read",
            self.name.shown()
        )))
    }
}

impl TableProvider for AggregateTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    scan_at_once!();
}

/// The buckets of an aggregate that may be wrong, [start, end) in order: where something has changed, or was never computed.
pub(crate) fn invalid(
    snapshot: &Snapshot,
    aggregate: &Aggregate,
    now_ns: i64,
) -> Result<Vec<(i64, i64)>, Error> {
    let chain = Chain::of(snapshot, aggregate)?;
    let sources = snapshot.aggregate_sources(aggregate.key());
    let own = snapshot.own_invalidations(&sources, chain.own().width_ns());
    let mut ranges: Vec<(i64, i64)> = own
        .into_iter()
        .map(|(first, last)| chain.around(first, last))
        .collect();
    let known = snapshot.invalidations(aggregate.key());
    ranges.extend(invalid_of(&chain, snapshot, &known, now_ns, i64::MAX));
    Ok(buckets::merged(ranges))
}

/// The buckets of ranges that may be wrong; those in which nothing was ever computed up to an end only.
pub(crate) fn invalid_of(
    chain: &Chain,
    snapshot: &Snapshot,
    known: &[Invalidation],
    now_ns: i64,
    end_of_new: i64,
) -> Vec<(i64, i64)> {
    let kept_from = chain.kept_from(snapshot, now_ns);
    let around = |it: &Invalidation| {
        let (start, end) = chain.around(it.first_ns, it.last_ns);
        if it.is_new {
            (start, end.min(end_of_new))
        } else {
            (start.max(kept_from), end)
        }
    };
    known.iter().map(around).collect()
}

/// The buckets of an aggregate, and of those that it is made of.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The innermost first.
    all: Vec<AggregateBuckets>,
    own: AggregateBuckets,
    /// The tables whose times are bucketed: stored answers of aggregates, and the innermost, of rows.
    below: Vec<(define::TableName, TableId)>,
}

impl Chain {
    pub(crate) fn of(snapshot: &Snapshot, aggregate: &Aggregate) -> Result<Self, Error> {
        let read = |aggregate: &Aggregate| {
            AggregateBuckets::read(&aggregate.bucket).ok_or_else(|| {
                Error::internal(format!(
                    "the buckets of \"{}\" are kept in a form of another version",
                    aggregate.name.table
                ))
            })
        };
        let own = read(aggregate)?;
        let mut all = vec![own.clone()];
        let mut source = aggregate.source.clone();
        while let Some(inner) =
            define::aggregate(snapshot, &source.database, &source.schema, &source.table)
        {
            all.push(read(&inner)?);
            source = inner.source;
        }
        all.reverse();
        let below = define::tables_below(snapshot, aggregate);
        let below = below
            .into_iter()
            .map(|(name, table)| (name, table.kept_id()));
        let below = below.collect();
        Ok(Self { all, own, below })
    }

    pub(crate) fn own(&self) -> &AggregateBuckets {
        &self.own
    }

    /// The buckets that rows of the innermost table with these times have a say in.
    pub(crate) fn around(&self, first_ns: i64, last_ns: i64) -> (i64, i64) {
        let (mut first, mut last) = (first_ns, last_ns);
        let mut around = (first, last);
        for buckets in &self.all {
            around = buckets.around(first, last);
            first = around.0;
            last = if last == i64::MAX {
                last
            } else {
                buckets.start(last)
            };
        }
        around
    }

    /// The times of rows of the innermost table that have a say in buckets from one up to, without, another one, and in no
    /// others: an inner bucket is counted where it begins, so its rows may lie behind the outer bucket that has it.
    pub(crate) fn times_of(&self, start_ns: i64, end_ns: i64) -> (i64, i64) {
        let inner = self.all.iter().rev().skip(1);
        inner.fold((start_ns, end_ns), |(start, end), buckets| {
            let behind = buckets.first_from(end);
            // No bucket was found behind it: rows before it are in the buckets before it in any case.
            let is_found = behind < i64::MAX;
            (
                buckets.first_from(start),
                if is_found { behind } else { end },
            )
        })
    }

    /// The first bucket all of whose raw rows are kept, and all stored answers of aggregates below; those before stay as they were
    /// computed.
    pub(crate) fn kept_from(&self, snapshot: &Snapshot, now_ns: i64) -> i64 {
        self.first_kept(snapshot, None, now_ns)
    }

    /// The first bucket that is as its query computes it now: all of its rows are kept, and so are its stored answers.
    pub(crate) fn complete_from(
        &self,
        snapshot: &Snapshot,
        aggregate: &Aggregate,
        now_ns: i64,
    ) -> i64 {
        let name = define::TableName {
            table: aggregate.stored.clone(),
            ..aggregate.name.clone()
        };
        let own = snapshot.table(&name.database, &name.schema, &name.table);
        let own = own.map(|table| (name, table.kept_id()));
        self.first_kept(snapshot, own.as_ref(), now_ns)
    }

    fn first_kept(
        &self,
        snapshot: &Snapshot,
        own: Option<&(define::TableName, TableId)>,
        now_ns: i64,
    ) -> i64 {
        let tables = self.below.iter().chain(own);
        let kept = tables.map(|(name, id)| define::rows_kept_from(snapshot, name, *id, now_ns));
        match kept.max() {
            None | Some(i64::MIN) => i64::MIN,
            Some(cutoff) => self.own.within(cutoff, i64::MAX).0,
        }
    }
}

/// The parts of the plan of an aggregate.
pub(crate) struct Parts {
    /// Stored answers.
    pub(crate) stored: Arc<dyn TableProvider>,
    /// The bucket among its columns.
    pub(crate) time: String,
    pub(crate) kind: TimeKind,
    /// The columns as the query has them.
    pub(crate) columns: SchemaRef,
}

impl Parts {
    /// The stored answers of some buckets, with the names and types that the query has.
    pub(crate) fn stored(&self, valid: &[(i64, i64)]) -> PlanResult<LogicalPlan> {
        let source = provider_as_source(Arc::clone(&self.stored));
        let mut plan = LogicalPlanBuilder::scan("stored", source, None)?;
        if valid.is_empty() {
            plan = plan.filter(lit(false))?;
        } else if let Some(condition) = within(&ident(&self.time), valid, self.kind) {
            plan = plan.filter(condition)?;
        }
        let columns: Vec<Expr> = self
            .columns
            .fields()
            .iter()
            .map(|field| {
                let stored = self.stored.schema();
                let kind = stored.field_with_name(field.name());
                let is_same = kind.is_ok_and(|it| it.data_type() == field.data_type());
                let column = ident(field.name());
                let column = if is_same {
                    column
                } else {
                    cast(column, field.data_type().clone())
                };
                column.alias(field.name())
            })
            .collect();
        plan.project(columns)?.build()
    }
}

/// Whether a time lies in one of some ranges [start, end); `None` = it always does.
pub(crate) fn within(time: &Expr, ranges: &[(i64, i64)], kind: TimeKind) -> Option<Expr> {
    let mut all: Option<Expr> = None;
    for &(start, end) in ranges {
        let from = (start > i64::MIN).then(|| time.clone().gt_eq(value(start, kind)));
        let until = (end < i64::MAX).then(|| time.clone().lt(value(end, kind)));
        let one = match (from, until) {
            (Some(from), Some(until)) => from.and(until),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        all = Some(match all {
            Some(others) => others.or(one),
            None => one,
        });
    }
    all
}

/// A time of a bucket's edge as its column has it.
fn value(time_ns: i64, kind: TimeKind) -> Expr {
    lit(match kind {
        TimeKind::TimestampTz => {
            ScalarValue::TimestampNanosecond(Some(time_ns), Some("UTC".into()))
        }
        TimeKind::Timestamp => ScalarValue::TimestampNanosecond(Some(time_ns), None),
        TimeKind::Date => {
            let days = time_ns.div_euclid(DAY_NS);
            ScalarValue::Date32(i32::try_from(days).ok())
        }
        TimeKind::Integer { unit_ns } => {
            ScalarValue::Int64(Some(time_ns.div_euclid(unit_ns.max(1))))
        }
    })
}

/// A source restricted to some buckets.
pub(crate) fn restricted(
    source: &Arc<dyn TableProvider>,
    restriction: &Restriction,
    time: &str,
) -> PlanResult<LogicalPlan> {
    // Each range is a scan of its own, which reads no more than that.
    let scans = restriction.ranges.iter().map(|range| {
        let source = provider_as_source(Arc::clone(source));
        let plan = LogicalPlanBuilder::scan("source", source, None)?;
        match within(&ident(time), &[*range], restriction.kind) {
            Some(condition) => plan.filter(condition)?.build(),
            None => plan.build(),
        }
    });
    let mut scans = scans.collect::<PlanResult<Vec<_>>>()?;
    match scans.pop() {
        Some(only) if scans.is_empty() => Ok(only),
        Some(last) => {
            scans.push(last);
            together(scans)
        }
        None => Err(DataFusionError::Internal(
            "an aggregate is restricted to no bucket".to_owned(),
        )),
    }
}

/// Ranges by the plan that has them, and what they leave.
pub(crate) fn divided(invalid: Ranges) -> (Vec<Ranges>, Ranges) {
    let invalid = few(invalid, RANGES_MAX);
    let valid = complement(&invalid);
    let plans = if invalid.len() > PLANS_MAX {
        vec![invalid]
    } else {
        invalid.into_iter().map(|range| vec![range]).collect()
    };
    (plans, valid)
}

/// Plans with the same columns, one after the other.
pub(crate) fn together(plans: Vec<LogicalPlan>) -> PlanResult<LogicalPlan> {
    let mut all: Option<LogicalPlanBuilder> = None;
    for plan in plans {
        let columns = plan.schema().columns().into_iter();
        let columns: Vec<Expr> = columns
            .map(|column| {
                let name = column.name.clone();
                Expr::Column(column).alias(name)
            })
            .collect();
        let plan = LogicalPlanBuilder::from(plan).project(columns)?;
        all = Some(match all {
            Some(others) => others.union(plan.build()?)?,
            None => plan,
        });
    }
    match all {
        Some(all) => all.build(),
        None => Err(DataFusionError::Internal(
            "no part of an aggregate".to_owned(),
        )),
    }
}
