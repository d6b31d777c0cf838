//! `FROM unnest((SELECT lttb(time, value, points) FROM ...))`: the points of a chart as rows, as `TimescaleDB`'s users
//! write it.
//!
//! Does: put a sub-select in the place of the call, with the columns `time` and `value`. Does not: touch the unnesting of
//! anything else.

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The aggregates whose points become rows.
const CHARTS: [&str; 3] = ["lttb", "asap_smooth", "timevector"];

/// What is put in the place of the call; the query of the call goes where `q` is.
const ROWS: &str = "SELECT 1 FROM (SELECT p['time'] AS \"time\", p['value'] AS \"value\" FROM (SELECT unnest(points) AS p FROM (SELECT 1) AS q) AS r) AS lttb";

/// Rewrites a table of a query if it is such a call.
pub(super) fn rewrite(table: &mut TableFactor) {
    let TableFactor::UNNEST {
        array_exprs,
        alias,
        with_offset: false,
        with_ordinality: false,
        ..
    } = table
    else {
        return;
    };
    let [Expr::Subquery(query)] = array_exprs.as_mut_slice() else {
        return;
    };
    if !name_points(query) {
        return;
    }
    if let Some(rows) = rows(query, alias.take()) {
        *table = rows;
    }
}

/// Whether a query selects the points of a chart and nothing else; then they are named.
fn name_points(query: &mut Query) -> bool {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return false;
    };
    let [item] = select.projection.as_mut_slice() else {
        return false;
    };
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else {
        return false;
    };
    let is_lttb = matches!(
        expr,
        Expr::Function(function)
            if CHARTS.contains(&function.name.to_string().to_lowercase().as_str())
    );
    if is_lttb {
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::new("points"),
        };
    }
    is_lttb
}

fn rows(points: &Query, named: Option<TableAlias>) -> Option<TableFactor> {
    let mut statements = Parser::parse_sql(&GenericDialect {}, ROWS).ok()?;
    let ast::Statement::Query(mut around) = statements.pop()? else {
        return None;
    };
    let mut outer = only_table(&mut around)?.clone();
    let TableFactor::Derived {
        subquery, alias, ..
    } = &mut outer
    else {
        return None;
    };
    if named.is_some() {
        *alias = named;
    }
    let TableFactor::Derived {
        subquery: inner, ..
    } = only_table(subquery)?
    else {
        return None;
    };
    let TableFactor::Derived {
        subquery: place, ..
    } = only_table(inner)?
    else {
        return None;
    };
    **place = points.clone();
    Some(outer)
}

fn only_table(query: &mut Query) -> Option<&mut TableFactor> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    Some(&mut select.from.first_mut()?.relation)
}
