//! `a IS DISTINCT FROM b AND c`: the parser reads everything behind FROM as the second operand, and so compares `a` with
//! `b AND c`. Here the chain is put together again as `PostgreSQL` reads it: NOT binds tighter than AND, AND than OR.
//!
//! Parentheses stand in the tree, so what they hold stays together.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use crate::statement::types::null;

/// Puts a chain of conditions together that holds such an operand. It is to be called for the whole chain first.
pub(super) fn rebalance(expr: &mut Expr) {
    if !swallows(expr) {
        return;
    }
    let mut parts = Vec::new();
    flatten(std::mem::replace(expr, null()), &mut parts);
    if let Some(whole) = any_of(parts) {
        *expr = whole;
    }
}

/// A piece of a chain in the order of the text.
enum Part {
    Or,
    And,
    Not,
    Operand(Box<Expr>),
}

fn is_joined(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::And | BinaryOperator::Or,
            ..
        }
    )
}

/// Whether the last operand of a chain has taken more of it than is its own.
fn swallows(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, right, .. } if is_joined(expr) => swallows(left) || swallows(right),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => swallows(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => {
            is_joined(right) || swallows(right)
        }
        _ => false,
    }
}

fn flatten(expr: Expr, parts: &mut Vec<Part>) {
    match expr {
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            right,
        } => {
            flatten(*left, parts);
            parts.push(if op == BinaryOperator::And {
                Part::And
            } else {
                Part::Or
            });
            flatten(*right, parts);
        }
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => {
            parts.push(Part::Not);
            flatten(*expr, parts);
        }
        Expr::IsDistinctFrom(left, right) => {
            compared(*left, *right, Expr::IsDistinctFrom, parts);
        }
        Expr::IsNotDistinctFrom(left, right) => {
            compared(*left, *right, Expr::IsNotDistinctFrom, parts);
        }
        operand => parts.push(Part::Operand(Box::new(operand))),
    }
}

/// The comparison with the first operand of what stands at its right, then the rest of that.
fn compared(
    left: Expr,
    right: Expr,
    compare: impl FnOnce(Box<Expr>, Box<Expr>) -> Expr,
    parts: &mut Vec<Part>,
) {
    if begins_with_not(&right) {
        let compared = compare(Box::new(left), Box::new(right));
        parts.push(Part::Operand(Box::new(compared)));
        return;
    }
    let mut rest = Vec::new();
    flatten(right, &mut rest);
    let mut rest = rest.into_iter();
    if let Some(Part::Operand(first)) = rest.next() {
        let compared = compare(Box::new(left), first);
        parts.push(Part::Operand(Box::new(compared)));
    }
    parts.extend(rest);
}

/// Then the text has no operand to compare with in front, and what it has is for the planner to judge.
fn begins_with_not(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, .. } if is_joined(expr) => begins_with_not(left),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            ..
        } => true,
        _ => false,
    }
}

fn any_of(parts: Vec<Part>) -> Option<Expr> {
    let mut any: Option<Expr> = None;
    let mut all: Option<Expr> = None;
    let mut nots = 0usize;
    for part in parts {
        match part {
            Part::Or => any = joined(any, BinaryOperator::Or, all.take()),
            Part::And => {}
            Part::Not => nots += 1,
            Part::Operand(operand) => {
                let mut operand = *operand;
                for _ in 0..std::mem::take(&mut nots) {
                    operand = Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(operand),
                    };
                }
                all = joined(all, BinaryOperator::And, Some(operand));
            }
        }
    }
    joined(any, BinaryOperator::Or, all)
}

fn joined(left: Option<Expr>, op: BinaryOperator, right: Option<Expr>) -> Option<Expr> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        }),
        (left, right) => left.or(right),
    }
}
