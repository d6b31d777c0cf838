//! Subqueries in conditions, spelled so that the planner can take them apart without losing a NULL.
//!
//! `DataFusion` 55.2 joins them. For `x IN (SELECT ...)` inside of a larger condition the join says whether there is an equal
//! row and takes NULL for no; `x NOT IN (SELECT ...)` that speaks of the outer row has a join of two keys, which it cannot do;
//! and a subquery in ON is pushed below the join before it is taken apart, where names of both sides mean the same.
//!
//! Does: write `IN` as the question whether an equal row exists, and whether one exists that is unknown to be equal; move
//! subqueries from ON to where they can be answered. The same for those that are values, as in the SELECT list. Does not:
//! touch `IN` and `NOT IN` that stand by themselves in WHERE.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, ExprSchema, JoinType, Result, ScalarValue, Spans, TableReference, plan_err,
};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, and, lit, not, or,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// What rows of a subquery are called while they are compared with.
const ROWS: &str = "__rows";

/// The rule. It comes before types are settled, which happens to what it makes as to everything else.
#[derive(Debug)]
pub(crate) struct SpellSubqueries;

impl AnalyzerRule for SpellSubqueries {
    fn name(&self) -> &'static str {
        "spell_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_asked = false;
        plan.walk(&mut |node| {
            node.walk_expressions(&mut |expr| {
                is_asked |= has_subquery(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !is_asked {
            return Ok(plan);
        }
        let spelled = plan.replace_up(&mut |node| match node {
            LogicalPlan::Join(join) => out_of_on(join),
            LogicalPlan::Filter(filter) => spelled(filter),
            node @ (LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)) => spelled_values(node),
            node => Ok(Transformed::no(node)),
        })?;
        Ok(spelled.data)
    }
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.has(&mut |part| {
        Ok(matches!(
            part,
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ) || matches!(part, Expr::ScalarSubquery(query) if !query.outer_ref_columns.is_empty()))
    })
}

/// The join with its subqueries in conditions of their own: above an inner join, below another.
fn out_of_on(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.take() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    if !has_subquery(&filter)? {
        join.filter = Some(filter);
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (mut kept, mut above) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for conjunct in split_conjunction_owned(filter) {
        if !has_subquery(&conjunct)? {
            kept.push(conjunct);
            continue;
        }
        let asks_left = speaks_of(&conjunct, join.left.schema())?;
        let asks_right = speaks_of(&conjunct, join.right.schema())?;
        match join.join_type {
            JoinType::Inner => above.push(conjunct),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti if !asks_left => {
                right.push(conjunct);
            }
            JoinType::LeftSemi if !asks_right => left.push(conjunct),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti if !asks_right => {
                left.push(conjunct);
            }
            JoinType::RightSemi if !asks_left => right.push(conjunct),
            _ => {
                return plan_err!(
                    "a subquery in the ON of an outer join may speak of the side that is filled with NULL only; compute it in a subselect of the other side, and compare with its column"
                );
            }
        }
    }
    join.filter = conjunction(kept);
    join.left = filtered(join.left, left)?;
    join.right = filtered(join.right, right)?;
    let joined = filtered(Arc::new(LogicalPlan::Join(join)), above)?;
    Ok(Transformed::yes(Arc::unwrap_or_clone(joined)))
}

/// Whether a condition, or a subquery in it, has a column of a schema.
fn speaks_of(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    expr.has(&mut |part| {
        let outer = match part {
            Expr::Column(column) => return Ok(schema.has_column(column)),
            Expr::Exists(exists) => &exists.subquery.outer_ref_columns,
            Expr::InSubquery(query) => &query.subquery.outer_ref_columns,
            Expr::ScalarSubquery(query) => &query.outer_ref_columns,
            Expr::SetComparison(comparison) => &comparison.subquery.outer_ref_columns,
            _ => return Ok(false),
        };
        Ok(outer.iter().any(|part| {
            matches!(part, Expr::OuterReferenceColumn(_, column) if schema.has_column(column))
        }))
    })
}

fn filtered(plan: Arc<LogicalPlan>, conditions: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    match conjunction(conditions) {
        None => Ok(plan),
        Some(condition) => {
            let spelled = spelled(Filter::try_new(condition, plan)?)?;
            Ok(Arc::new(spelled.data))
        }
    }
}

/// The condition with its subqueries spelled out.
fn spelled(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    if !has_subquery(&filter.predicate)? {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let schema = merge_schema(&[filter.input.as_ref()]);
    let mut conjuncts = Vec::new();
    for conjunct in split_conjunction_owned(filter.predicate) {
        let (query, negated) = match conjunct {
            Expr::InSubquery(query) => (query, false),
            Expr::Not(inner) => match *inner {
                Expr::InSubquery(query) => (query, true),
                inner => {
                    conjuncts.push(spelled_inside(not(inner), &schema)?);
                    continue;
                }
            },
            other => {
                conjuncts.push(spelled_inside(other, &schema)?);
                continue;
            }
        };
        let is_not_in = query.negated != negated;
        if is_not_in && !query.subquery.outer_ref_columns.is_empty() {
            // True when there is no row that is equal, or unknown to be.
            let rows = Rows::of(&query, &schema)?;
            let Some(rows) = rows else {
                conjuncts.push(Expr::InSubquery(InSubquery {
                    negated: is_not_in,
                    ..query
                }));
                continue;
            };
            let unequal = Expr::IsFalse(Box::new(rows.equal.clone()));
            conjuncts.push(not(rows.exist(Some(not(unequal)))?));
            continue;
        }
        conjuncts.push(Expr::InSubquery(InSubquery {
            negated: is_not_in,
            ..query
        }));
    }
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    let filter = Filter::try_new(predicate, filter.input)?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// The node with the subqueries among its values spelled out; what it puts out is called as before.
fn spelled_values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.replace_expressions(&mut |expr| {
        if !has_subquery(&expr)? {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        let (relation, own_name) = expr.qualified_name();
        let compares = expr.has(&mut |part| Ok(matches!(part, Expr::SetComparison(_))))?;
        let spelled = match spelled_inside(expr, &schema)? {
            // The planner writes a comparison with ANY or ALL anew, and forgets the name that it had.
            expr if compares && !matches!(expr, Expr::Alias(_)) => {
                expr.alias_qualified(relation, own_name)
            }
            expr => name.restore(expr),
        };
        Ok(Transformed::yes(spelled))
    })
}

/// A condition of which `IN` is only a part, so that its NULL counts.
fn spelled_inside(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let spelled = expr.replace_up(&mut |part| {
        let Expr::InSubquery(query) = part else {
            return Ok(Transformed::no(part));
        };
        let Some(rows) = Rows::of(&query, schema)? else {
            return Ok(Transformed::no(Expr::InSubquery(query)));
        };
        let found = rows.exist(Some(rows.equal.clone()))?;
        let has_null = rows.exist(Some(Expr::IsNull(Box::new(rows.value.clone()))))?;
        let is_null = Expr::IsNull(query.expr.clone());
        let unknown = or(has_null, and(is_null, rows.exist(None)?));
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let found = or(found, and(null, unknown));
        Ok(Transformed::yes(if query.negated {
            not(found)
        } else {
            found
        }))
    })?;
    Ok(spelled.data)
}

/// The rows of a subquery beside a value that they are compared with.
struct Rows {
    plan: LogicalPlan,
    spans: Spans,
    /// Whether the subquery speaks of the outer row by itself.
    is_correlated: bool,
    /// The one column.
    value: Expr,
    /// The comparison of it.
    equal: Expr,
}

impl Rows {
    /// `None` = the value is of an outer query's outer query, which the planner cannot take apart.
    fn of(query: &InSubquery, outer: &DFSchema) -> Result<Option<Self>> {
        let rows = query.subquery.subquery.as_ref();
        let [column] = <[Column; 1]>::try_from(rows.schema().columns()).or_else(|columns| {
            plan_err!(
                "a subquery behind IN has one column, and not {}",
                columns.len()
            )
        })?;
        let name = TableReference::bare(ROWS);
        let value = Expr::Column(Column::new(Some(name.clone()), ROWS));
        let mut is_known = true;
        let asked = query.expr.as_ref().clone().replace_up(&mut |part| {
            Ok(match part {
                Expr::Column(column) => {
                    let field = outer.field_from_column(&column)?;
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column))
                }
                Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_) => {
                    is_known = false;
                    Transformed::no(part)
                }
                part => Transformed::no(part),
            })
        })?;
        if !is_known {
            return Ok(None);
        }
        // Of one name, so that nothing outside is meant by it. A projection may get more columns while it is taken apart.
        let named = Expr::Column(column).alias_qualified(Some(name), ROWS);
        let plan = Projection::try_new(vec![named], Arc::new(rows.clone()))?;
        Ok(Some(Self {
            plan: LogicalPlan::Projection(plan),
            spans: query.subquery.spans.clone(),
            is_correlated: !query.subquery.outer_ref_columns.is_empty(),
            equal: value.clone().eq(asked.data),
            value,
        }))
    }

    /// Whether there is a row that meets a condition.
    fn exist(&self, condition: Option<Expr>) -> Result<Expr> {
        let asks_outer = self.is_correlated || condition.as_ref().is_some_and(Expr::contains_outer);
        let mut rows = LogicalPlanBuilder::from(self.plan.clone());
        if let Some(condition) = condition {
            rows = rows.filter(condition)?;
        }
        if !asks_outer {
            // The same for all rows, and one is enough.
            rows = rows.limit(0, Some(1))?;
        }
        let rows = rows.build()?;
        Ok(Expr::Exists(Exists {
            subquery: Subquery {
                outer_ref_columns: rows.all_out_ref_exprs(),
                subquery: Arc::new(rows),
                spans: self.spans.clone(),
            },
            negated: false,
        }))
    }
}
