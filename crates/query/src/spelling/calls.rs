//! Calls that `PostgreSQL` has and the library does not, or has under another name.
//!
//! Does: write `mod(a, b)` as `a % b`, which it is; what that operator does about zero and about the least integer is seen to already.
//! Give aggregates the name that the library knows them by first: of an alias it makes a column that is called after the call
//! without its FILTER, so that `every(b), every(b) FILTER (WHERE c)` were two columns of one name. Does not: change headings,
//! which have been taken.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName,
};

/// Other names of aggregates, and their first.
const ALIASES: [(&str, &str); 8] = [
    ("covar", "covar_samp"),
    ("every", "bool_and"),
    ("mean", "avg"),
    ("stddev_samp", "stddev"),
    ("var_population", "var_pop"),
    ("var_samp", "var"),
    ("var_sample", "var"),
    ("variance", "var"),
];

/// Puts the operator, or the first name, in the place of a call. What is anything else is left for the planner.
pub(super) fn rewrite(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let name = function.name.to_string().to_lowercase();
    if name == "mod"
        && let Some([left, right]) = operands(function)
    {
        let op = BinaryOperator::Modulo;
        let [left, right] = [left, right].map(|it| Box::new(Expr::Nested(Box::new(it))));
        *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
    } else if let Some((_, first)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        function.name = ObjectName::from(vec![Ident::new(*first)]);
    }
}

fn operands(function: &Function) -> Option<[Expr; 2]> {
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty();
    if !is_plain {
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
