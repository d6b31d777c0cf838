//! The range of a gap filling without explicit bounds, from the conditions on time in WHERE.
//!
//! Reads comparisons that are joined by AND, of the time with what has no columns, wherever between the GROUP BY and
//! the table they stand. A comparison of anything else says nothing.

use datafusion::common::Column;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, Expr, JoinType, LogicalPlan, Operator};

/// Ends of a range; the flag is that of [`super::Bound`].
#[derive(Debug, Default)]
pub(super) struct Range {
    pub(super) starts: Vec<(Expr, bool)>,
    pub(super) finishes: Vec<(Expr, bool)>,
}

impl Range {
    /// What a plan says about one of its columns.
    pub(super) fn of(plan: &LogicalPlan, column: &Column) -> Self {
        let mut range = Self::default();
        range.walk(plan, column);
        range
    }

    fn walk(&mut self, plan: &LogicalPlan, column: &Column) {
        match plan {
            LogicalPlan::Filter(filter) => {
                self.all(&filter.predicate, column);
                self.walk(&filter.input, column);
            }
            LogicalPlan::SubqueryAlias(alias) => {
                if let Ok(place) = alias.schema.index_of_column(column) {
                    let inner = Column::from(alias.input.schema().qualified_field(place));
                    self.walk(&alias.input, &inner);
                }
            }
            LogicalPlan::Projection(projection) => {
                let place = projection.schema.index_of_column(column).ok();
                if let Some(Expr::Column(inner)) =
                    place.and_then(|place| projection.expr.get(place)).map(bare)
                {
                    self.walk(&projection.input, inner);
                }
            }
            LogicalPlan::Join(join) => {
                if let (JoinType::Inner, Some(filter)) = (join.join_type, &join.filter) {
                    self.all(filter, column);
                }
                for side in [&join.left, &join.right] {
                    if side.schema().has_column(column) {
                        self.walk(side, column);
                    }
                }
            }
            LogicalPlan::Sort(_) | LogicalPlan::Distinct(_) | LogicalPlan::Subquery(_) => {
                for input in plan.inputs() {
                    self.walk(input, column);
                }
            }
            _ => {}
        }
    }

    fn all(&mut self, predicate: &Expr, column: &Column) {
        for conjunct in split_conjunction(predicate) {
            self.consider(conjunct, column);
        }
    }

    fn consider(&mut self, conjunct: &Expr, column: &Column) {
        match conjunct {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (op, value) = if is_column(left, column) {
                    (*op, right)
                } else if let (true, Some(op)) = (is_column(right, column), op.swap()) {
                    (op, left)
                } else {
                    return;
                };
                if !is_constant(value) {
                    return;
                }
                let value = value.as_ref().clone();
                match op {
                    Operator::Gt => self.starts.push((value, true)),
                    Operator::GtEq => self.starts.push((value, false)),
                    Operator::Lt => self.finishes.push((value, false)),
                    Operator::LtEq => self.finishes.push((value, true)),
                    _ => {}
                }
            }
            Expr::Between(Between {
                expr,
                negated: false,
                low,
                high,
            }) if is_column(expr, column) && is_constant(low) && is_constant(high) => {
                self.starts.push((low.as_ref().clone(), false));
                self.finishes.push((high.as_ref().clone(), true));
            }
            _ => {}
        }
    }
}

/// Without the names and the casts between times that the planner puts around a column.
fn bare(mut expr: &Expr) -> &Expr {
    loop {
        expr = match expr {
            Expr::Alias(alias) => &alias.expr,
            Expr::Cast(cast) if cast.field.data_type().is_temporal() => &cast.expr,
            other => return other,
        }
    }
}

fn is_column(expr: &Expr, column: &Column) -> bool {
    matches!(bare(expr), Expr::Column(found) if found == column)
}

pub(super) fn is_constant(expr: &Expr) -> bool {
    expr.column_refs().is_empty() && !expr.contains_outer()
}
