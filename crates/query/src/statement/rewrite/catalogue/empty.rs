//! Tables of the catalogue that never have a row here.
//!
//! Does: leave out subqueries of them, and SELECTs that they leave no row of. Does not: look at other tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query,
    Select, SelectItem, SetExpr, TableFactor, Value, VisitorMut,
};

use super::identity::options_of;
use super::{array, call, is_grouped, is_unnest, open};
use crate::statement::types::{cast, null};
use crate::tables::pg_catalog::table_oid;
use crate::walk;

/// Tables of the catalogue that never have a row: nothing here is what they list.
const EMPTY: [&str; 18] = [
    "pg_aggregate",
    "pg_auth_members",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_event_trigger",
    "pg_foreign_table",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_seclabel",
    "pg_shdescription",
    "pg_statistic_ext",
    "pg_trigger",
];

fn is_nothing(arg: &FunctionArg) -> bool {
    matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_null_column(expr))
}

/// Whether an expression is a column of lists that is always NULL here: options and privileges of PostgreSQL's own.
fn is_null_column(expr: &Expr) -> bool {
    let name = match open(expr) {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => match names.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    let name = name.value.to_lowercase();
    name.ends_with("options") || name.ends_with("acl") || name == "setconfig"
}

/// Whether a query reads a table that is always empty, in a way that leaves no row.
fn reads_empty(select: &Select) -> bool {
    let is_empty = |table: &TableFactor| match table {
        TableFactor::Table {
            name, args: None, ..
        } => {
            let last = name.0.last().and_then(|it| it.as_ident());
            last.is_some_and(|it| EMPTY.contains(&it.value.as_str()))
        }
        TableFactor::Table {
            name,
            args: Some(args),
            ..
        } => {
            let last = name.0.last().and_then(|it| it.as_ident());
            // What it takes are options of servers and wrappers, of which there are none.
            last.is_some_and(|it| it.value.eq_ignore_ascii_case("pg_options_to_table"))
                || is_unnest(name) && args.args.iter().any(is_nothing)
        }
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().any(is_null_column),
        _ => false,
    };
    select.from.iter().any(|from| {
        let mut joins = from.joins.iter();
        let inner = joins.any(|join| {
            is_empty(&join.relation)
                && matches!(
                    join.join_operator,
                    ast::JoinOperator::Join(_)
                        | ast::JoinOperator::Inner(_)
                        | ast::JoinOperator::CrossJoin(_)
                )
        });
        // An outer join of what is empty keeps rows of its other side only where that is the right one.
        let keeps_right = from.joins.iter().any(|join| {
            matches!(
                join.join_operator,
                ast::JoinOperator::Right(_)
                    | ast::JoinOperator::RightOuter(_)
                    | ast::JoinOperator::FullOuter(_)
            )
        });
        !keeps_right && (inner || is_empty(&from.relation))
    })
}

/// Subqueries beside rows that there never are need not be planned, nor may the planner be able to.
pub(super) struct Empty;

impl VisitorMut for Empty {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_tables(select);
            of_select(select);
        }
        of_parts(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        leave_out_kinds(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(default) = default_of(expr).or_else(|| options_of(expr)) {
            *expr = default;
            return ControlFlow::Continue(());
        }
        let query = match &*expr {
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("array") => {
                match &function.args {
                    FunctionArguments::Subquery(query) => query,
                    _ => return ControlFlow::Continue(()),
                }
            }
            Expr::Subquery(query) => query,
            _ => return ControlFlow::Continue(()),
        };
        if let SetExpr::Select(select) = query.body.as_ref()
            && reads_empty(select)
            && !has_aggregate(select)
        {
            let kind = match expr {
                Expr::Function(_) => array(DataType::Text),
                _ => DataType::Text,
            };
            *expr = cast(null(), kind);
        }
        ControlFlow::Continue(())
    }
}

/// `(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = a.attrelid AND adnum = a.attnum AND ...)` as the call that
/// answers it: no planner here takes a subquery for each row apart.
fn default_of(expr: &Expr) -> Option<Expr> {
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
    let last = name.0.last().and_then(|it| it.as_ident())?;
    let is_one = from.joins.is_empty() && select.projection.len() == 1;
    if !is_one || !last.value.eq_ignore_ascii_case("pg_attrdef") {
        return None;
    }
    let text = select.projection.first()?.to_string().to_lowercase();
    if !text.contains("adbin") {
        return None;
    }
    let condition = select.selection.as_ref()?;
    let args = vec![
        equal_to(condition, "adrelid")?,
        equal_to(condition, "adnum")?,
    ];
    Some(call("__pg_attribute_default", args))
}

/// What a column is to be equal to, among conditions that all have to be met.
pub(super) fn equal_to(condition: &Expr, column: &str) -> Option<Expr> {
    let Expr::BinaryOp { left, op, right } = open(condition) else {
        return None;
    };
    let is_column = |expr: &Expr| {
        let name = match open(expr) {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        name.is_some_and(|name| name.value.eq_ignore_ascii_case(column))
    };
    match op {
        BinaryOperator::And => equal_to(left, column).or_else(|| equal_to(right, column)),
        BinaryOperator::Eq if is_column(left) => Some(right.as_ref().clone()),
        BinaryOperator::Eq if is_column(right) => Some(left.as_ref().clone()),
        _ => None,
    }
}

/// `CASE WHEN typtype = 'd' THEN (SELECT ...) END`: there are no domains and no composite types here, of which it asks.
fn leave_out_kinds(expr: &mut Expr) {
    let Expr::Case {
        operand: None,
        conditions,
        else_result,
        ..
    } = &*expr
    else {
        return;
    };
    let [case] = conditions.as_slice() else {
        return;
    };
    let Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq,
        right,
    } = &case.condition
    else {
        return;
    };
    let is_kind = match open(left) {
        Expr::Identifier(name) => name.value.eq_ignore_ascii_case("typtype"),
        Expr::CompoundIdentifier(names) => names
            .last()
            .is_some_and(|name| name.value.eq_ignore_ascii_case("typtype")),
        _ => false,
    };
    let is_none = matches!(right.to_string().as_str(), "'d'" | "'c'");
    let is_query = matches!(open(&case.result), Expr::Subquery(_));
    let has_else = else_result
        .as_ref()
        .is_some_and(|other| !matches!(other.as_ref(), Expr::Value(it) if it.value == Value::Null));
    if !is_kind || !is_none || !is_query || has_else {
        return;
    }
    let text = case.result.to_string();
    // An array of numbers would be one of `oid` there; asyncpg asks for types that it does not know, such as arrays of other numbers, by
    // this very statement, and for ever. It knows arrays of text.
    let kind = if text.contains("array_agg") {
        array(DataType::Text)
    } else {
        DataType::BigInt(None)
    };
    *expr = cast(null(), kind);
}

fn of_parts(body: &mut SetExpr) {
    if let SetExpr::SetOperation { left, right, .. } = body {
        for part in [left, right] {
            if let SetExpr::Select(select) = part.as_mut() {
                name_tables(select);
                of_select(select);
            }
            of_parts(part);
        }
    }
}

/// Puts the number of its table in the place of `tableoid`, where the table is one of the catalogue's.
fn name_tables(select: &mut Select) {
    let mut tables: Vec<(String, i64)> = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for table in std::iter::once(&from.relation).chain(joined) {
            if let TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } = table
                && let Some(last) = name.0.last().and_then(|it| it.as_ident())
                && let Some(oid) = table_oid(&last.value.to_lowercase())
            {
                let called = alias
                    .as_ref()
                    .map_or(&last.value, |alias| &alias.name.value);
                tables.push((called.to_lowercase(), oid));
            }
        }
    }
    if tables.is_empty() {
        return;
    }
    let _: ControlFlow<()> = walk::expressions_mut(select, &mut |expr| {
        let found = match &*expr {
            Expr::Identifier(name) if name.value.eq_ignore_ascii_case("tableoid") => {
                tables.first().map(|(_, oid)| *oid)
            }
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if name.value.eq_ignore_ascii_case("tableoid") => {
                    let table = table.value.to_lowercase();
                    let mut known = tables.iter();
                    known.find(|(name, _)| *name == table).map(|(_, oid)| *oid)
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(oid) = found {
            *expr = cast(
                Expr::value(Value::Number(oid.to_string(), false)),
                DataType::BigInt(None),
            );
        }
        ControlFlow::Continue(())
    });
}

/// An aggregate has a value without rows.
fn has_aggregate(select: &Select) -> bool {
    let mut projection = select.projection.clone();
    let mut found = false;
    for item in &mut projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _: ControlFlow<()> = walk::expressions_mut(expr, &mut |part| {
                if let Expr::Function(function) = part {
                    let name = function.name.to_string().to_lowercase();
                    let name = name.rsplit('.').next().unwrap_or_default();
                    found |= matches!(
                        name,
                        "count"
                            | "sum"
                            | "min"
                            | "max"
                            | "avg"
                            | "array_agg"
                            | "string_agg"
                            | "bool_or"
                            | "bool_and"
                    );
                }
                ControlFlow::Continue(())
            });
        }
    }
    found
}

fn of_select(select: &mut Select) {
    if !reads_empty(select) || is_grouped(select) {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _: ControlFlow<()> = walk::expressions_mut(expr, &mut |part| {
                let kind = match part {
                    Expr::Subquery(_) => DataType::Text,
                    Expr::Function(function)
                        if matches!(function.args, FunctionArguments::Subquery(_)) =>
                    {
                        array(DataType::Text)
                    }
                    _ => return ControlFlow::Continue(()),
                };
                *part = cast(null(), kind);
                ControlFlow::Continue(())
            });
        }
    }
}
