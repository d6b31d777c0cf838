//! Names of columns that stand before the query: `CREATE MATERIALIZED VIEW v (bucket, mean) WITH (timescaledb.continuous) AS ...`.
//!
//! Does: give them to what the query selects, and put what had another name by `AS` in place of that name in its GROUP BY, HAVING and ORDER BY. Does not:
//! look at types.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
};

use crate::error::Error;
use crate::statement::name::Name;
use crate::walk;

/// The query with these names for its first columns.
pub(super) fn named(mut query: Query, names: &[Name]) -> Result<Query, Error> {
    let wrong = |name: Option<&Name>, message: &str| Error::Plan {
        message: message.to_owned(),
        position: name.and_then(|name| name.position),
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(wrong(
            names.first(),
            "names of columns need a query that is one SELECT; write AS in it",
        ));
    };
    let mut old = Vec::new();
    let mut items = select.projection.iter_mut();
    for name in names {
        let Some(item) = items.next() else {
            return Err(wrong(Some(name), "too many column names were specified"));
        };
        let alias = Ident::with_quote('"', &name.text);
        let expr = match std::mem::replace(
            item,
            SelectItem::UnnamedExpr(Expr::Identifier(alias.clone())),
        ) {
            SelectItem::UnnamedExpr(expr) => expr,
            SelectItem::ExprWithAlias { expr, alias } => {
                old.push((Name::from(&alias).text, expr.clone()));
                expr
            }
            _ => {
                return Err(wrong(
                    Some(name),
                    "names of columns need the columns that are selected, one by one, and no *",
                ));
            }
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    in_groups(select, &old);
    if let Some(order) = &mut query.order_by {
        let _ = walk::expressions_mut(order, &mut |expr| spelled(expr, &old));
    }
    Ok(query)
}

fn in_groups(select: &mut Select, old: &[(String, Expr)]) {
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        for group in groups {
            let _ = spelled(group, old);
        }
    }
    if let Some(having) = &mut select.having {
        let _ = walk::expressions_mut(having, &mut |expr| spelled(expr, old));
    }
}

/// What a name stood for, in place of the name.
fn spelled(expr: &mut Expr, old: &[(String, Expr)]) -> ControlFlow<()> {
    if let Expr::Identifier(name) = expr {
        let name = Name::from(&*name).text;
        if let Some((_, meant)) = old.iter().find(|(known, _)| *known == name) {
            *expr = meant.clone();
        }
    }
    ControlFlow::Continue(())
}
