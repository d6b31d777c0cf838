//! Form of a continuous aggregate, as other queries can use it: its keys, its measures, and the rows that it leaves out.
//!
//! Does: read it from the plan of the query of an aggregate of one table; remember it. Does not: compare it with a query.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::Column;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

use super::asked::{bucket_args, comparable, spine};
use crate::planning::incremental::{leads_to, read_buckets};
use crate::tables::aggregate::buckets::AggregateBuckets;
use crate::tables::table::Table;

/// Aggregates whose form is remembered.
const FORMS_MAX: usize = 1_000;

/// What an aggregate stores. Columns in expressions have no qualifiers.
#[derive(Debug)]
pub(crate) struct Form {
    /// Conditions that rows of it meet.
    pub(super) filters: Vec<Expr>,
    /// What it groups by, each with its stored column; `None` = it is in none.
    pub(super) keys: Vec<(Expr, Option<String>)>,
    /// Which of them is the bucket.
    pub(super) bucket_at: usize,
    pub(super) buckets: AggregateBuckets,
    /// Aggregates of rows, each with its stored column.
    pub(super) measures: Vec<(Expr, String)>,
}

impl Form {
    /// The stored column of the bucket.
    pub(super) fn bucket(&self) -> Option<&str> {
        self.keys.get(self.bucket_at)?.1.as_deref()
    }

    /// The stored column of an aggregate of rows.
    pub(super) fn measure(&self, expr: &Expr) -> Option<&(Expr, String)> {
        self.measures.iter().find(|(known, _)| known == expr)
    }
}

/// The form of an aggregate; `None` = its query has a part that others cannot use.
pub(super) fn form_of(plan: &LogicalPlan, session: &SessionState) -> Option<Form> {
    let aggregate = ungrouped(plan)?;
    let (table, filters) = spine(&aggregate.input)?;
    let table = table.downcast_ref::<Table>()?;
    let (time, kind) = table.table_schema().time();
    let filters = filters.iter().map(comparable).collect::<Option<_>>()?;
    let keys = aggregate.group_expr.iter().map(comparable);
    let mut keys: Vec<(Expr, Option<String>)> = keys
        .map(|key| key.map(|key| (key, None)))
        .collect::<Option<_>>()?;
    let (mut bucket, mut measures) = (None, Vec::new());
    for (at, (key, _)) in keys.iter().enumerate() {
        if let Some(args) = bucket_args(key, time) {
            bucket = Some((at, read_buckets(args, kind, session).ok()?));
            break;
        }
    }
    for (at, field) in plan.schema().fields().iter().enumerate() {
        let Some(from) = leads_to(plan, at) else {
            continue;
        };
        let name = field.name();
        if let Some((_, column)) = keys.get_mut(from) {
            column.get_or_insert_with(|| name.clone());
        } else if let Some(measure) = aggregate.aggr_expr.get(from - keys.len())
            && let Some(measure) = comparable(measure)
        {
            measures.push((measure, name.clone()));
        }
    }
    let (bucket_at, buckets) = bucket?;
    Some(Form {
        filters,
        keys,
        bucket_at,
        buckets,
        measures,
    })
}

/// The aggregation at the top of a query whose groups all are answers.
fn ungrouped(plan: &LogicalPlan) -> Option<&Aggregate> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        LogicalPlan::Projection(it) => ungrouped(&it.input),
        LogicalPlan::SubqueryAlias(it) => ungrouped(&it.input),
        LogicalPlan::Sort(it) if it.fetch.is_none() => ungrouped(&it.input),
        _ => None,
    }
}

/// An expression without qualifiers, as one of the columns of a plan.
pub(super) fn qualified(expr: &Expr, plan: &LogicalPlan) -> datafusion::common::Result<Expr> {
    use datafusion::common::tree_node::Transformed;

    use crate::walk::ExprWalk;
    let replaced = expr.clone().replace_up(&mut |part| match part {
        Expr::Column(column) if column.relation.is_none() => {
            let found = plan
                .schema()
                .qualified_field_with_unqualified_name(&column.name)?;
            Ok(Transformed::yes(Expr::Column(Column::from(found))))
        }
        other => Ok(Transformed::no(other)),
    });
    replaced.map(|replaced| replaced.data)
}

/// The form of a query, if it has one, and the query.
type Known = (String, Option<Arc<Form>>);

/// Forms by the number of their aggregate, with the query that they are of.
#[derive(Debug, Default)]
pub(crate) struct Forms(Mutex<BTreeMap<i64, Known>>);

impl Forms {
    /// What is known of a query; `None` = nothing is.
    #[expect(
        clippy::option_option,
        reason = "what is known may be that there is none"
    )]
    pub(super) fn get(&self, number: i64, query: &str) -> Option<Option<Arc<Form>>> {
        let forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, form) = forms.get(&number)?;
        (of == query).then(|| form.clone())
    }

    pub(super) fn keep(&self, number: i64, query: String, form: Option<Arc<Form>>) {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if forms.len() >= FORMS_MAX {
            forms.clear();
        }
        forms.insert(number, (query, form));
    }
}
