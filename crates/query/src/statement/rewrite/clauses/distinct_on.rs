//! `DISTINCT ON (a, b) ... ORDER BY b, a`: PostgreSQL takes its expressions in any order, and an ORDER BY that names fewer of them. The
//! library wants both lists alike from their start.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    Value,
};

/// Puts the expressions of DISTINCT ON into the order of ORDER BY, and those that it lacks behind its own where it has no others.
pub(crate) fn in_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let Some(order) = &mut query.order_by else {
        return;
    };
    let OrderByKind::Expressions(keys) = &mut order.kind else {
        return;
    };
    let Some(Distinct::On(on)) = &select.distinct else {
        return;
    };
    let mut rest = on.clone();
    let mut ordered: Vec<Expr> = Vec::with_capacity(on.len());
    for key in keys.iter() {
        let meant = meant(&key.expr, select);
        if ordered.iter().any(|it| meant_is(it, meant, select)) {
            continue;
        }
        let Some(at) = rest.iter().position(|it| meant_is(it, meant, select)) else {
            break;
        };
        let found = rest.remove(at);
        ordered.push(self::meant(&found, select).clone());
    }
    let is_whole = keys.iter().all(|key| {
        ordered
            .iter()
            .any(|it| meant_is(it, meant(&key.expr, select), select))
    });
    if ordered.is_empty() || !(rest.is_empty() || is_whole) {
        // Then it is an error, and the library says so.
        return;
    }
    // Of groups that are equal so far any order will do.
    keys.extend(rest.iter().map(|expr| OrderByExpr {
        expr: expr.clone(),
        options: OrderByOptions::default(),
        with_fill: None,
    }));
    ordered.append(&mut rest);
    select.distinct = Some(Distinct::On(ordered));
}

fn meant_is(expr: &Expr, other: &Expr, select: &Select) -> bool {
    let own = meant(expr, select);
    own == other || own.to_string() == other.to_string()
}

/// What a number or a name of a column of the answer stands for.
fn meant<'a>(expr: &'a Expr, select: &'a Select) -> &'a Expr {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number
                .parse::<usize>()
                .ok()
                .and_then(|nth| select.projection.get(nth.checked_sub(1)?))
                .and_then(expr_of)
                .unwrap_or(expr),
            _ => expr,
        },
        Expr::Identifier(name) => {
            let named = select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => {
                    Some(expr)
                }
                _ => None,
            });
            named.unwrap_or(expr)
        }
        _ => expr,
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
