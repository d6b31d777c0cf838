//! `GROUP BY i, i::text`: a value beside itself in another type. The planner knows a cast by the name of what is in it, and
//! refuses two groups of one name. Such a cast gets a name of its own here, as `CASE WHEN 1 = 1 THEN i::text END`, which the
//! planner takes away again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Value,
    helpers::attached_token::AttachedToken,
};

use crate::statement::types::null;
use crate::walk;

/// Names casts that are groups beside what they cast, wherever the query has them.
pub(super) fn rewrite(query: &mut Query) {
    let mut casts = Vec::new();
    of_body(&query.body, &mut casts);
    of_calls(query, &mut casts);
    if casts.is_empty() {
        return;
    }
    // Parts come before the whole, so that none is visited again in what it became.
    let _: ControlFlow<()> = walk::expressions_mut(query, &mut |expr| {
        if let Some(at) = casts.iter().position(|cast| is_same_cast(cast, expr)) {
            *expr = named(std::mem::replace(expr, null()), at + 1);
        }
        ControlFlow::Continue(())
    });
}

fn of_body(body: &SetExpr, casts: &mut Vec<Expr>) {
    match body {
        SetExpr::Select(select) => of_select(select, casts),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, casts);
            of_body(right, casts);
        }
        _ => {}
    }
}

/// Casts among the groups that share their name with another group.
fn of_select(select: &Select, casts: &mut Vec<Expr>) {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return;
    };
    let groups: Vec<&Expr> = groups.iter().map(|group| meant(group, select)).collect();
    for (at, group) in groups.iter().enumerate() {
        let is_cast = matches!(group, Expr::Cast { .. });
        let others = groups.iter().enumerate().filter(|(other, _)| *other != at);
        let mut same = others.filter(|(_, other)| **other != *group && is_same(group, other));
        if is_cast && same.next().is_some() && !casts.contains(group) {
            casts.push((*group).clone());
        }
    }
}

/// Casts in calls that are the same but for their casts, such as `max(i)` and `max(i::text)`: aggregates of one name.
fn of_calls(query: &Query, casts: &mut Vec<Expr>) {
    let mut calls: BTreeMap<String, Vec<Expr>> = BTreeMap::new();
    let _: ControlFlow<()> = walk::expressions(query, &mut |expr| {
        if let Expr::Function(_) = expr {
            let alike = calls.entry(without_any_casts(expr)).or_default();
            if !alike.contains(expr) {
                alike.push(expr.clone());
            }
        }
        ControlFlow::Continue(())
    });
    for call in calls
        .into_values()
        .filter(|alike| alike.len() > 1)
        .flatten()
    {
        let _: ControlFlow<()> = walk::expressions(&call, &mut |expr| {
            // What a cast makes of a literal is one, and some arguments have to be.
            if let Expr::Cast { expr: inner, .. } = expr
                && !matches!(open(inner), Expr::Value(_))
                && !casts.contains(expr)
            {
                casts.push(expr.clone());
            }
            ControlFlow::Continue(())
        });
    }
}

fn without_any_casts(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _: ControlFlow<()> = walk::expressions_mut(&mut expr, &mut |part| {
        if let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = part {
            *part = inner.as_ref().clone();
        } else if let Some(name) = column(part) {
            *part = Expr::Identifier(Ident::new(name));
        }
        ControlFlow::Continue(())
    });
    expr.to_string().to_lowercase()
}

/// The expression that a group is, by its place or its name.
fn meant<'a>(group: &'a Expr, select: &'a Select) -> &'a Expr {
    let item = match group {
        Expr::Nested(inner) => return meant(inner, select),
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => {
                let place = place.parse().ok().and_then(|it: usize| it.checked_sub(1));
                place.and_then(|at| select.projection.get(at))
            }
            _ => None,
        },
        Expr::Identifier(name) => select
            .projection
            .iter()
            .find(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias == name)),
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => open(expr),
        _ => group,
    }
}

fn open(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => open(inner),
        expr => expr,
    }
}

/// Whether two are the same but for their casts; a column's table may be left out.
fn is_same(one: &Expr, other: &Expr) -> bool {
    let (one, other) = (without_casts(one), without_casts(other));
    match (column(one), column(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn is_same_cast(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (
            Expr::Cast {
                data_type: one_type,
                expr: one,
                ..
            },
            Expr::Cast {
                data_type: other_type,
                expr: other,
                ..
            },
        ) => one_type == other_type && is_same(one, other),
        _ => false,
    }
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => without_casts(inner),
        expr => expr,
    }
}

fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.to_lowercase()),
        _ => None,
    }
}

fn named(cast: Expr, number: usize) -> Expr {
    let number = || Box::new(Expr::value(Value::Number(number.to_string(), false)));
    let condition = Expr::BinaryOp {
        left: number(),
        op: BinaryOperator::Eq,
        right: number(),
    };
    let result = cast;
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    }
}
