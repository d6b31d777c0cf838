//! Precedence of `^` and `||` as in `PostgreSQL`: `^` binds tighter than `*`, and `||` looser than `+`. The parser's dialect has `^`
//! as a bitwise operator that binds looser than `+`, and `||` beside `*`, so the operators around them are put together again.
//!
//! Parentheses stand in the tree, so what they hold stays together.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use crate::statement::types::null;

/// Puts a chain of arithmetic together by `PostgreSQL`'s precedence, where the parser has put it together otherwise. It is to be called
/// for the parts first.
pub(crate) fn rebalance(expr: &mut Expr) {
    if !is_otherwise(expr) {
        return;
    }
    let (mut operands, mut operators) = (Vec::new(), Vec::new());
    let chain = std::mem::replace(expr, null());
    flatten(chain, &mut operands, &mut operators);
    let (mut done, mut waiting): (Vec<Expr>, Vec<BinaryOperator>) = (Vec::new(), Vec::new());
    let mut operands = operands.into_iter();
    done.extend(operands.next());
    for (operator, operand) in operators.into_iter().zip(operands) {
        while waiting
            .last()
            .is_some_and(|last| binding(last) >= binding(&operator))
        {
            join(&mut done, &mut waiting);
        }
        waiting.push(operator);
        done.push(operand);
    }
    while !waiting.is_empty() {
        join(&mut done, &mut waiting);
    }
    if let Some(whole) = done.pop() {
        *expr = whole;
    }
}

fn join(done: &mut Vec<Expr>, waiting: &mut Vec<BinaryOperator>) {
    if let (Some(right), Some(left), Some(op)) = (done.pop(), done.pop(), waiting.pop()) {
        done.push(Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        });
    }
}

/// Whether an operator is where the parser puts it and `PostgreSQL` does not: a `^` above others, or a `||` below one that binds tighter.
fn is_otherwise(expr: &Expr) -> bool {
    let Expr::BinaryOp { left, op, right } = expr else {
        return false;
    };
    let is_joined = |side: &Expr| {
        matches!(
            side,
            Expr::BinaryOp {
                op: BinaryOperator::StringConcat,
                ..
            }
        )
    };
    match op {
        BinaryOperator::BitwiseXor => true,
        BinaryOperator::StringConcat => false,
        op => binding(op) > 0 && (is_joined(left) || is_joined(right)),
    }
}

/// How tight an operator binds, or 0 for one that ends the chain: all that bind looser in both grammars.
fn binding(op: &BinaryOperator) -> u8 {
    match op {
        BinaryOperator::BitwiseXor => 4,
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => 3,
        BinaryOperator::Plus | BinaryOperator::Minus => 2,
        BinaryOperator::StringConcat => 1,
        _ => 0,
    }
}

fn flatten(expr: Expr, operands: &mut Vec<Expr>, operators: &mut Vec<BinaryOperator>) {
    match expr {
        Expr::BinaryOp { left, op, right } if binding(&op) > 0 => {
            flatten(*left, operands, operators);
            operators.push(op);
            flatten(*right, operands, operators);
        }
        leaf => operands.push(leaf),
    }
}
