//! Options of identities, as drivers ask for them beside each column: `(SELECT json_build_object('start', seqstart, ...) FROM pg_sequence
//! WHERE attidentity <> '' AND seqrelid = ...)`.
//!
//! Does: put calls that look a sequence up in the place of the subquery's columns, since no planner here takes a subquery for each row
//! apart. Does not: touch other subqueries of `pg_sequence`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem,
    SetExpr, TableFactor, Value,
};

use super::empty::equal_to;
use super::{call, open};
use crate::walk;

/// The only table of such a subquery.
const SEQUENCES: &str = "pg_sequence";

/// The same without a subquery, if an expression is one.
pub(super) fn options_of(expr: &Expr) -> Option<Expr> {
    let Expr::Subquery(query) = expr else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [from] = select.from.as_slice() else {
        return None;
    };
    let TableFactor::Table { name, .. } = &from.relation else {
        return None;
    };
    let table = name.0.last().and_then(|it| it.as_ident())?;
    let [SelectItem::UnnamedExpr(made) | SelectItem::ExprWithAlias { expr: made, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    if !from.joins.is_empty() || !table.value.eq_ignore_ascii_case(SEQUENCES) {
        return None;
    }
    let Expr::Function(function) = open(made) else {
        return None;
    };
    let name = function.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if !name.ends_with("json_build_object") {
        return None;
    }
    let condition = select.selection.as_ref()?;
    let sequence = equal_to(condition, "seqrelid")?;
    let mut args = Vec::new();
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument else {
            return None;
        };
        args.push(looked_up(value, &sequence));
    }
    let object = call("json_build_object", args);
    let otherwise = rest_of(condition);
    let chosen = match otherwise {
        None => object,
        Some(condition) => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen {
                condition,
                result: object,
            }],
            else_result: None,
        },
    };
    Some(call("__json", vec![chosen]))
}

fn last_name(expr: &Expr) -> Option<String> {
    let name = match open(expr) {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    Some(name.value.to_lowercase())
}

/// An expression with calls in the place of columns of `pg_sequence`.
fn looked_up(value: &Expr, sequence: &Expr) -> Expr {
    let mut value = value.clone();
    let _: ControlFlow<()> = walk::expressions_mut(&mut value, &mut |part| {
        if let Some(name) = last_name(part).filter(|name| name.starts_with("seq")) {
            *part = if name == "seqcycle" {
                call("__pg_sequence_cycles", vec![sequence.clone()])
            } else {
                let name = Expr::value(Value::SingleQuotedString(name));
                call("__pg_sequence_option", vec![sequence.clone(), name])
            };
        }
        ControlFlow::Continue(())
    });
    value
}

/// What has to be met beside the number of the sequence.
fn rest_of(condition: &Expr) -> Option<Expr> {
    let is_of_sequence = |expr: &Expr| last_name(expr).is_some_and(|name| name == "seqrelid");
    match open(condition) {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => match (rest_of(left), rest_of(right)) {
            (Some(left), Some(right)) => Some(Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::And,
                right: Box::new(right),
            }),
            (one, other) => one.or(other),
        },
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } if is_of_sequence(left) || is_of_sequence(right) => None,
        other => Some(other.clone()),
    }
}
