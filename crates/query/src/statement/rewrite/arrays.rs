//! Arrays in the syntax that the planner lacks: `ARRAY(SELECT ...)`, `x = ANY ('{1,2}')`, slices with one end.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderByKind, Query, Select,
    SelectItem, SetExpr, Subscript, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    Value,
};
use nilometer_engine::array_elements;

use super::calls::{call_of, function, one};
use crate::function::arrays::GIVEN;
use crate::statement::types::{cast, null};

/// More than an array can have.
const LAST: &str = "2147483647";

/// Rewrites an expression if it is one of them.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("array") => {
            if let FunctionArguments::Subquery(query) = &call.args
                && let Some(gathered) = gathered(query)
            {
                *expr = gathered;
            }
        }
        Expr::Function(call) if is_count(call) => {
            // An array without elements has no dimensions, so no length of one.
            let of_dimensions = !call.name.to_string().eq_ignore_ascii_case("cardinality");
            let mut count = std::mem::replace(expr, null());
            if of_dimensions {
                let none = Expr::value(Value::Number("0".to_owned(), false));
                count = call_of("nullif", vec![count, none]);
            }
            *expr = cast(count, DataType::Integer(None));
        }
        Expr::CompoundFieldAccess { access_chain, .. } => {
            for access in access_chain {
                if let AccessExpr::Subscript(Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    ..
                }) = access
                {
                    lower_bound.get_or_insert_with(one);
                    upper_bound
                        .get_or_insert_with(|| Expr::value(Value::Number(LAST.to_owned(), false)));
                }
            }
        }
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } => {
            if let Some(list) = literals(right) {
                *expr = listed(left, list, false);
            }
        }
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } => {
            if let Some(list) = literals(right) {
                *expr = listed(left, list, true);
            }
        }
        _ => {}
    }
}

/// Whether a call counts elements or dimensions, or says a place: an `integer` in `PostgreSQL`, a number without sign in the library.
fn is_count(call: &Function) -> bool {
    let name = call.name.to_string().to_lowercase();
    let counts = [
        "array_length",
        "array_ndims",
        "array_position",
        "cardinality",
    ];
    counts.contains(&name.as_str())
}

fn listed(left: &mut Box<Expr>, list: Vec<Expr>, negated: bool) -> Expr {
    if list.is_empty() {
        return Expr::value(Value::Boolean(negated));
    }
    Expr::InList {
        expr: Box::new(std::mem::replace(left.as_mut(), null())),
        list,
        negated,
    }
}

/// The elements of an array that is written as text, as literals.
fn literals(text: &Expr) -> Option<Vec<Expr>> {
    let Expr::Value(value) = open(text) else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let elements = array_elements(text).ok()?.into_iter();
    let literal = |element: Option<String>| match element {
        Some(text) => Expr::value(Value::SingleQuotedString(text)),
        None => null(),
    };
    Some(elements.map(literal).collect())
}

fn open(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => open(inner),
        expr => expr,
    }
}

/// The values of a query's only column as an array, which is empty where it has no rows.
fn gathered(query: &Query) -> Option<Expr> {
    let array = match sorted(query) {
        Some(query) => query,
        None => within(query)?,
    };
    Some(call_of(GIVEN, vec![Expr::Subquery(Box::new(array))]))
}

fn only_item(select: &Select) -> Option<&Expr> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

/// A query of sorted rows with the order in the aggregate, since a subquery's means nothing.
fn sorted(query: &Query) -> Option<Query> {
    let order = query.order_by.as_ref()?;
    let OrderByKind::Expressions(keys) = &order.kind else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let is_plain = query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.distinct.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    if !is_plain {
        return None;
    }
    let item = only_item(select)?.clone();
    let alias = match select.projection.first() {
        Some(SelectItem::ExprWithAlias { alias, .. }) => Some(alias.clone()),
        _ => None,
    };
    let mut keys = keys.clone();
    for key in &mut keys {
        let is_item = match &key.expr {
            Expr::Value(value) => value.value == Value::Number("1".to_owned(), false),
            Expr::Identifier(name) => alias.as_ref() == Some(name),
            _ => false,
        };
        if is_item {
            key.expr = item.clone();
        }
    }
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(item));
    let clauses = vec![FunctionArgumentClause::OrderBy(keys)];
    let made = Expr::Function(function("array_agg", vec![argument], clauses));
    let mut select = select.as_ref().clone();
    select.projection = vec![SelectItem::UnnamedExpr(made)];
    let mut query = query.clone();
    query.order_by = None;
    query.body = Box::new(SetExpr::Select(Box::new(select)));
    Some(query)
}

/// Any other query as a table of its own.
fn within(query: &Query) -> Option<Query> {
    let first = match query.body.as_ref() {
        SetExpr::Select(select) => {
            only_item(select)?;
            select.as_ref().clone()
        }
        _ => return None,
    };
    let column = Ident::new("__element");
    let alias = TableAlias {
        explicit: true,
        name: Ident::new("__elements"),
        columns: vec![TableAliasColumnDef {
            name: column.clone(),
            data_type: None,
        }],
        at: None,
    };
    let table = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(alias),
        sample: None,
    };
    let made = call_of("array_agg", vec![Expr::Identifier(column)]);
    let mut select = first;
    select.distinct = None;
    select.projection = vec![SelectItem::UnnamedExpr(made)];
    select.from = vec![TableWithJoins {
        relation: table,
        joins: Vec::new(),
    }];
    select.selection = None;
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    select.having = None;
    select.named_window = Vec::new();
    let mut outer = query.clone();
    outer.with = None;
    outer.order_by = None;
    outer.limit_clause = None;
    outer.fetch = None;
    outer.body = Box::new(SetExpr::Select(Box::new(select)));
    Some(outer)
}
