//! `x = ANY (array)`: the planner asks whether the array has an equal element and takes no for an answer where an element is NULL.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use crate::statement::types::null;

/// Says it by `IN`, where the elements are written out, and otherwise by `ALL`, which the planner gets right: `x = ANY (a)` is
/// `NOT (x <> ALL (a))`. A parameter is left as it is, because a list of its elements is what indexes are asked by.
pub(crate) fn rewrite(expr: &mut Expr) {
    let Expr::AnyOp {
        left,
        compare_op,
        right,
        ..
    } = expr
    else {
        return;
    };
    let compare_op = match (compare_op, right.as_ref()) {
        (_, Expr::Subquery(_) | Expr::Value(_)) => return,
        (BinaryOperator::Eq, Expr::Array(array)) if !array.elem.is_empty() => {
            *expr = Expr::InList {
                expr: Box::new(std::mem::replace(left, null())),
                list: array.elem.clone(),
                negated: false,
            };
            return;
        }
        (BinaryOperator::Eq, _) => BinaryOperator::NotEq,
        (BinaryOperator::NotEq, _) => BinaryOperator::Eq,
        (BinaryOperator::Lt, _) => BinaryOperator::GtEq,
        (BinaryOperator::LtEq, _) => BinaryOperator::Gt,
        (BinaryOperator::Gt, _) => BinaryOperator::LtEq,
        (BinaryOperator::GtEq, _) => BinaryOperator::Lt,
        _ => return,
    };
    let all = Expr::AllOp {
        left: Box::new(std::mem::replace(left, null())),
        compare_op,
        right: Box::new(std::mem::replace(right, null())),
    };
    *expr = Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(all))),
    };
}
