//! Calculations over the columns of groups that a series query can take over: the answer is the same, and no error.
//!
//! Does: take over the quotient of an integer and a whole number. Does not: take over sums and products, which end in other
//! words where they overflow, or floats, which the planner divides by zero.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use nilometer_series::{Binary, Expr as SeriesExpr, Type, Value};

use super::view::{Column, View};

impl View {
    /// An expression over columns of groups, or over those of a question below.
    pub(super) fn calculated(&self, expr: &Expr, input: &DFSchema) -> Option<SeriesExpr> {
        if self.grouped.is_none() && self.below.is_none() {
            return None;
        }
        let (of, kind) = typed(expr, self, input)?;
        (kind == Type::Int).then_some(of)
    }
}

fn typed(expr: &Expr, view: &View, input: &DFSchema) -> Option<(SeriesExpr, Type)> {
    match expr {
        Expr::Alias(alias) => typed(&alias.expr, view, input),
        Expr::Column(_) => match view.column(expr, input)? {
            Column::Field(field) if view.grouped.is_none() => {
                let (name, kind) = view.names.value(*field)?;
                Some((SeriesExpr::field(name), kind))
            }
            Column::Aggregate(of) => Some((of.clone(), view.type_of(of)?)),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Divide,
            right,
        }) => {
            let Expr::Literal(ScalarValue::Int64(Some(by)), _) = right.as_ref() else {
                return None;
            };
            let (of, kind) = typed(left, view, input)?;
            // The quotient by -1 may be beyond all integers.
            let is_safe = *by > 0 && kind == Type::Int;
            let by = SeriesExpr::literal(Value::Int(*by));
            is_safe.then(|| (SeriesExpr::binary(Binary::Divide, of, by), kind))
        }
        _ => None,
    }
}
