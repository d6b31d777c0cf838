//! Precedence of `->`, `->>`, `#>`, `#>>`, `#-`, `@>`, `<@`, `?` and `?&` as in `PostgreSQL`: above comparisons, LIKE, IN, BETWEEN and IS,
//! and beside `||`. The parser's dialect has them below all of these, so `j ->> 'k' = 'x'` asks for the key `'k' = 'x'` there.
//!
//! Does: give such an operator the operands next to it, and put what was above them around it. Does not: look into parentheses, which
//! stand in the tree.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use crate::statement::types::null;

/// Puts an operator of these between its own operands. It is to be called for the parts first.
pub(crate) fn rebalance(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else {
        return;
    };
    if !is_of_these(op) {
        return;
    }
    let op = op.clone();
    let mut left = std::mem::replace(left.as_mut(), null());
    let mut right = std::mem::replace(right.as_mut(), null());
    let last = std::mem::replace(last_operand(&mut left), null());
    let first = std::mem::replace(first_operand(&mut right), null());
    let own = Expr::BinaryOp {
        left: Box::new(last),
        op,
        right: Box::new(first),
    };
    // What stands to the right has the whole of what stands to the left as its first operand.
    *last_operand(&mut left) = own;
    *first_operand(&mut right) = left;
    *expr = right;
}

fn is_of_these(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::Arrow
            | B::LongArrow
            | B::HashArrow
            | B::HashLongArrow
            | B::HashMinus
            | B::AtArrow
            | B::ArrowAt
            | B::Question
            | B::QuestionAnd
    )
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq | B::Spaceship
    )
}

/// The operand that stands last in what binds looser, or all of it.
fn last_operand(expr: &mut Expr) -> &mut Expr {
    if matches!(expr, Expr::BinaryOp { op, .. } if !is_comparison(op)) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { right, .. } => last_operand(right),
        Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => last_operand(pattern),
        Expr::Between { high, .. } => last_operand(high),
        other => other,
    }
}

/// The operand that stands first in what binds looser, or beside it, or all of it.
fn first_operand(expr: &mut Expr) -> &mut Expr {
    let ends = |op: &BinaryOperator| !is_comparison(op) && *op != BinaryOperator::StringConcat;
    if matches!(expr, Expr::BinaryOp { op, .. } if ends(op)) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { left: expr, .. }
        | Expr::Like { expr, .. }
        | Expr::ILike { expr, .. }
        | Expr::SimilarTo { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::IsTrue(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotUnknown(expr)
        | Expr::IsDistinctFrom(expr, _)
        | Expr::IsNotDistinctFrom(expr, _)
        | Expr::AnyOp { left: expr, .. }
        | Expr::AllOp { left: expr, .. } => first_operand(expr),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::walk;

    fn parsed(text: &str) -> Expr {
        let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
        parser.unwrap().parse_expr().unwrap()
    }

    /// An expression without its parentheses.
    fn bare(mut expr: Expr) -> Expr {
        let _ = walk::expressions_mut(&mut expr, &mut |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner.as_mut(), null());
            }
            std::ops::ControlFlow::<()>::Continue(())
        });
        expr
    }

    /// Once `WHERE data ->> 'k' = 'x'` was an error: the key was the comparison. The parentheses are those that PostgreSQL 15 adds when it
    /// shows such a condition (`pg_get_constraintdef`), by its table of operator precedence.
    #[test]
    fn an_operator_binds_tighter_than_a_comparison() {
        for (text, meant) in [
            ("j ->> 'k' = 'x'", "(j ->> 'k') = 'x'"),
            ("'x' = j ->> 'k'", "'x' = (j ->> 'k')"),
            (
                "j -> 'a' ->> 'b' = 'x' AND c",
                "(((j -> 'a') ->> 'b') = 'x') AND c",
            ),
            ("j ->> 'k' = i ->> 'm'", "(j ->> 'k') = (i ->> 'm')"),
            ("j ->> 'k' IS NULL", "(j ->> 'k') IS NULL"),
            (
                "j ->> 'k' IS NOT NULL OR j @> i",
                "((j ->> 'k') IS NOT NULL) OR (j @> i)",
            ),
            ("j ->> 'k' LIKE 'x%'", "(j ->> 'k') LIKE 'x%'"),
            ("'x' LIKE j ->> 'k'", "'x' LIKE (j ->> 'k')"),
            ("j ->> 'k' IN ('x', 'y')", "(j ->> 'k') IN ('x', 'y')"),
            ("j -> 'k' @> i -> 'm'", "((j -> 'k') @> i) -> 'm'"),
            ("j ->> 'k' || 'x' = 'yx'", "((j ->> 'k') || 'x') = 'yx'"),
            ("j -> 1 + 1 = i", "(j -> (1 + 1)) = i"),
            (
                "j ->> 'n' BETWEEN 'a' AND 'b'",
                "(j ->> 'n') BETWEEN 'a' AND 'b'",
            ),
            (
                "'b' BETWEEN 'a' AND j ->> 'n'",
                "'b' BETWEEN 'a' AND (j ->> 'n')",
            ),
            ("NOT j @> i", "NOT (j @> i)"),
            ("(j ->> 'k') = 'x'", "(j ->> 'k') = 'x'"),
        ] {
            let mut expr = parsed(text);
            let _ = walk::expressions_mut(&mut expr, &mut |expr| {
                rebalance(expr);
                std::ops::ControlFlow::<()>::Continue(())
            });
            assert_eq!(bare(expr), bare(parsed(meant)), "{text}");
        }
    }
}
