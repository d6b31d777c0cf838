//! `mod(a, b)` as `a % b`, which `PostgreSQL` defines it to be. The library has no function of that name, and what its operator
//! does about zero and about the least integer is seen to already. Does not: change headings, which have been taken.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};

/// Puts the operator in the place of a plain call. What is anything else is left for the planner to refuse.
pub(crate) fn rewrite(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    if let Some([left, right]) = operands(function) {
        let op = BinaryOperator::Modulo;
        let [left, right] = [left, right].map(|it| Box::new(Expr::Nested(Box::new(it))));
        *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
    }
}

fn operands(function: &Function) -> Option<[Expr; 2]> {
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty();
    if !is_plain || !function.name.to_string().eq_ignore_ascii_case("mod") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
        ] if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
            Some([left.clone(), right.clone()])
        }
        _ => None,
    }
}
