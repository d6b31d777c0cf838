//! `LATERAL (SELECT ... WHERE inner = outer ORDER BY ... LIMIT n)`: the first rows of each, which `DataFusion` cannot
//! take apart itself.
//!
//! Does: count the rows of each value of `inner` in that order, keep the first n, and join them by equality. Does not:
//! touch a lateral join of any other form.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, ScalarValue, TableReference};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{BinaryExpr, Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, FetchType, Filter, Join, JoinConstraint, JoinType, LogicalPlan, Operator, Projection,
    SkipType, SubqueryAlias, Window, WindowFrame, WindowFunctionDefinition, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

const NUMBER: &str = "__number";

/// The rule. It comes before types are settled, which happens to what it makes as to everything else.
#[derive(Debug)]
pub(crate) struct FirstOfEach;

impl AnalyzerRule for FirstOfEach {
    fn name(&self) -> &'static str {
        "first_of_each"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_lateral = false;
        plan.walk(&mut |node| {
            has_lateral |= matches!(node, LogicalPlan::Subquery(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !has_lateral {
            return Ok(plan);
        }
        let joined = plan.replace_up(&mut |node| {
            let LogicalPlan::Join(join) = &node else {
                return Ok(Transformed::no(node));
            };
            match Inner::of(join) {
                Some(inner) => inner.join(join).map(Transformed::yes),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(joined.data)
    }
}

/// The right side of a lateral join, taken apart.
struct Inner {
    alias: Option<TableReference>,
    /// The SELECT list.
    exprs: Vec<Expr>,
    sort: Vec<Sort>,
    skip: usize,
    fetch: usize,
    /// Outer and inner side of each equality.
    keys: Vec<(Expr, Expr)>,
    /// The other conditions.
    rest: Vec<Expr>,
    input: Arc<LogicalPlan>,
}

impl Inner {
    fn of(join: &Join) -> Option<Self> {
        let is_unconditional = join.on.is_empty()
            && join
                .filter
                .as_ref()
                .is_none_or(|filter| *filter == lit(true));
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || !is_unconditional {
            return None;
        }
        let (alias, plan) = match join.right.as_ref() {
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                (Some(alias.clone()), input.as_ref())
            }
            plan => (None, plan),
        };
        let LogicalPlan::Subquery(subquery) = plan else {
            return None;
        };
        let LogicalPlan::Limit(limit) = subquery.subquery.as_ref() else {
            return None;
        };
        let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(Some(fetch)))) =
            (limit.get_skip_type(), limit.get_fetch_type())
        else {
            return None;
        };
        // A sort by what is not selected has a projection above it that takes the column away again.
        let (selected, plan) = match limit.input.as_ref() {
            LogicalPlan::Projection(selected)
                if matches!(selected.input.as_ref(), LogicalPlan::Sort(_)) =>
            {
                (Some(selected), selected.input.as_ref())
            }
            plan => (None, plan),
        };
        let (mut sort, plan) = match plan {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                (sort.expr.clone(), sort.input.as_ref())
            }
            plan => (Vec::new(), plan),
        };
        let LogicalPlan::Projection(projection) = plan else {
            return None;
        };
        let exprs = match selected {
            None => projection.expr.clone(),
            Some(selected) => selected
                .expr
                .iter()
                .map(|expr| {
                    let (relation, name) = expr.qualified_name();
                    Some(below(expr, projection)?.alias_qualified(relation, name))
                })
                .collect::<Option<_>>()?,
        };
        for key in &mut sort {
            key.expr = below(&key.expr, projection)?;
        }
        let LogicalPlan::Filter(filter) = projection.input.as_ref() else {
            return None;
        };
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for conjunct in split_conjunction_owned(filter.predicate.clone()) {
            match key(&conjunct) {
                Some(pair) => keys.push(pair),
                None if conjunct.contains_outer() => return None,
                None => rest.push(conjunct),
            }
        }
        let has_outer = projection.expr.iter().any(Expr::contains_outer)
            || sort.iter().any(|key| key.expr.contains_outer());
        (!keys.is_empty() && !has_outer).then(|| Self {
            alias,
            exprs,
            sort,
            skip,
            fetch,
            keys,
            rest,
            input: Arc::clone(&filter.input),
        })
    }

    fn join(self, join: &Join) -> Result<LogicalPlan> {
        let mut plan = self.input;
        if let Some(rest) = conjunction(self.rest) {
            plan = Arc::new(LogicalPlan::Filter(Filter::try_new(rest, plan)?));
        }
        let (outer, inner): (Vec<Expr>, Vec<Expr>) = self.keys.into_iter().unzip();
        let number = Expr::WindowFunction(Box::new(WindowFunction {
            fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
            params: WindowFunctionParams {
                args: Vec::new(),
                partition_by: inner.clone(),
                window_frame: WindowFrame::new(Some(false)),
                order_by: self.sort,
                filter: None,
                null_treatment: None,
                distinct: false,
            },
        }));
        let window = Window::try_new(vec![number.alias(NUMBER)], plan)?;
        let count =
            |rows: usize| Expr::Literal(ScalarValue::UInt64(u64::try_from(rows).ok()), None);
        let number = || Expr::Column(Column::from_name(NUMBER));
        let mut first = number().lt_eq(count(self.skip.saturating_add(self.fetch)));
        if self.skip > 0 {
            first = first.and(number().gt(count(self.skip)));
        }
        let filter = Filter::try_new(first, Arc::new(LogicalPlan::Window(window)))?;
        let mut exprs = self.exprs;
        let names: Vec<String> = (0..inner.len())
            .map(|place| format!("__key_{place}"))
            .collect();
        exprs.extend(
            inner
                .into_iter()
                .zip(&names)
                .map(|(key, name)| key.alias(name)),
        );
        let mut plan = LogicalPlan::Projection(Projection::try_new(
            exprs,
            Arc::new(LogicalPlan::Filter(filter)),
        )?);
        if let Some(alias) = &self.alias {
            plan =
                LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), alias.clone())?);
        }
        let on = outer
            .into_iter()
            .zip(names)
            .map(|(outer, name)| (outer, Expr::Column(Column::new(self.alias.clone(), name))))
            .collect();
        let joined = Join::try_new(
            Arc::clone(&join.left),
            Arc::new(plan),
            on,
            None,
            join.join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let columns = join
            .schema
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let joined = Arc::new(LogicalPlan::Join(joined));
        Ok(LogicalPlan::Projection(Projection::try_new(
            columns, joined,
        )?))
    }
}

/// An equality between an outer column and an expression without one.
pub(crate) fn key(conjunct: &Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = conjunct
    else {
        return None;
    };
    let outer = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Some(Expr::Column(column.clone())),
        _ => None,
    };
    match (outer(left), outer(right)) {
        (Some(outer), None) if !right.contains_outer() => Some((outer, right.as_ref().clone())),
        (None, Some(outer)) if !left.contains_outer() => Some((outer, left.as_ref().clone())),
        _ => None,
    }
}

/// An expression over a projection's columns as one over its input's.
fn below(expr: &Expr, projection: &Projection) -> Option<Expr> {
    let mut is_known = true;
    let below = expr.clone().replace_up(&mut |inner| {
        let Expr::Column(column) = &inner else {
            return Ok(Transformed::no(inner));
        };
        let place = projection.schema.index_of_column(column).ok();
        if let Some(expr) = place.and_then(|place| projection.expr.get(place)) {
            return Ok(Transformed::yes(expr.clone().unalias()));
        }
        is_known = false;
        Ok(Transformed::no(inner))
    });
    below.ok().map(|below| below.data).filter(|_| is_known)
}
