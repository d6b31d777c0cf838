//! Casts to `json` and `jsonb`, and aggregates that make them: calls of functions (`function::json`).

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TypedString,
};

use super::calls::{call_of, of_one};
use crate::statement::types::null;

/// Rewrites an expression if it is one of them.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Cast {
            expr: value,
            data_type,
            ..
        } => {
            if let Some(name) = name_of(data_type) {
                let value = std::mem::replace(value.as_mut(), null());
                *expr = call_of(name, vec![value]);
            }
        }
        Expr::TypedString(TypedString {
            data_type, value, ..
        }) => {
            if let Some(name) = name_of(data_type) {
                *expr = call_of(name, vec![Expr::Value(value.clone())]);
            }
        }
        Expr::Function(function) => {
            if let Some(made) = aggregate(function) {
                *expr = made;
            }
        }
        _ => {}
    }
}

fn name_of(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::JSON => Some("__json"),
        DataType::JSONB => Some("__jsonb"),
        _ => None,
    }
}

/// `jsonb_agg(x)` as the JSON of the array of all `x`, and `jsonb_object_agg(k, v)` as that of both arrays.
fn aggregate(function: &Function) -> Option<Expr> {
    let name = function.name.to_string().to_lowercase();
    let (of, is_object) = match name.as_str() {
        "json_agg" => ("json", false),
        "jsonb_agg" => ("jsonb", false),
        "json_object_agg" => ("json", true),
        "jsonb_object_agg" => ("jsonb", true),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let mut values = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    // The same aggregate of another value: its order, its filter and its window stay.
    let array = |value: Expr| {
        let mut function = function.clone();
        function.name = of_one("array_agg");
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
        }
        Expr::Function(function)
    };
    let json = |value: Expr| call_of(&format!("to_{of}"), vec![value]);
    let first = values.next().flatten()?;
    let made = if is_object {
        let second = values.next().flatten()?;
        let arrays = vec![array(first), array(json(second))];
        call_of(&format!("__{of}_of_pairs"), arrays)
    } else {
        call_of(&format!("__{of}_of_array"), vec![array(json(first))])
    };
    values.next().is_none().then_some(made)
}
