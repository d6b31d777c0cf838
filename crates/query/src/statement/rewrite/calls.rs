//! Calls, names and intervals that rewrites are made of.
//!
//! Does: build parts of a statement. Does not: look at one.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
};

use crate::statement::types::cast;

pub(super) fn one() -> Expr {
    Expr::value(Value::Number("1".to_owned(), false))
}

pub(super) fn of_one(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

pub(super) fn call(name: &str, args: Vec<FunctionArg>) -> Expr {
    Expr::Function(function(name, args, Vec::new()))
}

/// A call of a function with these values.
pub(crate) fn call_of(name: &str, values: Vec<Expr>) -> Expr {
    let args = values.into_iter();
    let args = args.map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    call(name, args.collect())
}

/// A call with what stands behind its arguments, as in `array_agg(x ORDER BY y)`.
pub(super) fn function(
    name: &str,
    args: Vec<FunctionArg>,
    clauses: Vec<FunctionArgumentClause>,
) -> Function {
    Function {
        name: of_one(name),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// A text as an interval; an integer offset of an integer time keeps its type.
pub(super) fn interval(expr: Expr) -> Expr {
    match &expr {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => cast(
            expr,
            DataType::Interval {
                fields: None,
                precision: None,
            },
        ),
        _ => expr,
    }
}

pub(super) fn named(argument: &FunctionArg) -> Option<(&Ident, &FunctionArgExpr)> {
    match argument {
        FunctionArg::Named { name, arg, .. }
        | FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg,
            ..
        } => Some((name, arg)),
        _ => None,
    }
}
