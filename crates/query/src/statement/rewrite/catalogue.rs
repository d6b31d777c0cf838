//! `PostgreSQL`'s spellings in statements that read its catalogue.
//!
//! Does: take `pg_catalog.` away from functions, types and operators, and `COLLATE` with its names; make calls of casts to
//! `regclass` and its kin, of `= ANY (array)` and of `ARRAY (SELECT ...)`; leave out what is asked of tables that are always
//! empty here. Does not: touch a statement that has none of the catalogue's words (`tables::pg_catalog::mentions`).

mod empty;
mod hypertables;
mod identity;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use nilometer_service::define::PG_CATALOG;

use crate::statement::types::{cast, null};
use crate::tables::pg_catalog::{NAMED_TYPES, OF_SEQUENCES};
use crate::walk;
use empty::Empty;

/// Rewrites a statement in place.
pub(crate) fn rewrite(statement: &mut ast::Statement) {
    if let ast::Statement::Query(query) = statement {
        hypertables::open(query);
        show_names(query);
    }
    walk::visit_mut(statement, &mut Empty);
    walk::visit_mut(statement, &mut Spellings);
}

/// A column of the answer that is a name shows it; elsewhere it is compared by its number.
fn show_names(query: &mut Query) {
    fn of_body(body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } =
                        item
                        && let Some(named) = name_of(expr)
                    {
                        *expr = named;
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                of_body(left);
                of_body(right);
            }
            SetExpr::Query(query) => of_body(&mut query.body),
            _ => {}
        }
    }
    of_body(&mut query.body);
}

/// The text of what is a number with a name, as a cast or a call makes one.
fn name_of(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Cast { expr: inner, .. } => {
            let name = named_cast(expr)?;
            Some(call(
                &format!("__{name}_name"),
                vec![inner.as_ref().clone()],
            ))
        }
        Expr::Function(function) => {
            let mut named = function.clone();
            bare(&mut named.name);
            let name = named.name.to_string().to_lowercase();
            if !matches!(name.as_str(), "to_regclass" | "to_regtype") {
                return None;
            }
            named.name = ObjectName::from(vec![Ident::new(format!("__{name}_name"))]);
            Some(Expr::Function(named))
        }
        _ => None,
    }
}

/// The name type that an expression is cast to.
fn named_cast(expr: &Expr) -> Option<&'static str> {
    let Expr::Cast { data_type, .. } = expr else {
        return None;
    };
    let name = own_type(data_type)?;
    NAMED_TYPES.into_iter().find(|known| *known == name)
}

/// A type that the parser does not know, in lower case and without `pg_catalog`.
fn own_type(kind: &DataType) -> Option<String> {
    if matches!(kind, DataType::Regclass) {
        return Some("regclass".to_owned());
    }
    let DataType::Custom(name, _) = kind else {
        return None;
    };
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident().map(|it| it.value.to_lowercase()))
        .collect();
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == PG_CATALOG => Some(name.clone()),
        // Its domains are texts, numbers and truths.
        [schema, name] if schema == "information_schema" => Some(match name.as_str() {
            "cardinal_number" => "int4".to_owned(),
            _ => "text".to_owned(),
        }),
        _ => None,
    }
}

/// A type as the planner knows it.
fn known_type(kind: &DataType) -> Option<DataType> {
    if let DataType::Array(ast::ArrayElemTypeDef::SquareBracket(of, size)) = kind {
        let of = known_type(of)?;
        let of = ast::ArrayElemTypeDef::SquareBracket(Box::new(of), *size);
        return Some(DataType::Array(of));
    }
    Some(match own_type(kind)?.as_str() {
        "text" | "name" | "bpchar" | "varchar" | "aclitem" | "cstring" | "char" | "inet"
        | "pg_node_tree" => DataType::Text,
        "oid" | "xid" | "cid" | "int8" | "bigint" | "regclass" | "regtype" | "regproc" => {
            DataType::BigInt(None)
        }
        "int4" | "int" | "integer" => DataType::Integer(None),
        "int2" | "smallint" => DataType::SmallInt(None),
        "bool" | "boolean" => DataType::Boolean,
        "float8" => DataType::DoublePrecision,
        "float4" => DataType::Real,
        "timestamptz" => DataType::Timestamp(None, ast::TimezoneInfo::Tz),
        "timestamp" => DataType::Timestamp(None, ast::TimezoneInfo::None),
        "int2vector" => array(DataType::SmallInt(None)),
        "oidvector" => array(DataType::BigInt(None)),
        _ => return None,
    })
}

fn array(of: DataType) -> DataType {
    DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(of), None))
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args
        .into_iter()
        .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
        .collect();
    Expr::Function(super::calls::function(name, args, Vec::new()))
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(expr),
    }
}

/// Takes `pg_catalog` off a name of two parts.
fn bare(name: &mut ObjectName) {
    let is_qualified = name.0.len() == 2
        && name
            .0
            .first()
            .and_then(|it| it.as_ident())
            .is_some_and(|it| {
                it.value.eq_ignore_ascii_case(PG_CATALOG)
                    || it.value.eq_ignore_ascii_case("information_schema")
            });
    if is_qualified {
        name.0.remove(0);
    }
}

/// `nextval('s'::regclass)` as `nextval('s')`: sequences are known by their names.
fn open_sequence(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let name = function.name.0.last().and_then(|part| part.as_ident());
    let is_sequence = name.is_some_and(|name| {
        let of = OF_SEQUENCES.iter();
        of.clone().any(|it| name.value.eq_ignore_ascii_case(it))
    });
    if !is_sequence {
        return;
    }
    bare(&mut function.name);
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
        && named_cast(first) == Some("regclass")
        && let Expr::Cast { expr: inner, .. } = first
    {
        *first = inner.as_ref().clone();
    }
}

struct Spellings;

impl VisitorMut for Spellings {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        open_sequence(expr);
        // The name behind a number, before the number's own cast is seen.
        if let Expr::Cast {
            expr: inner,
            data_type,
            ..
        } = &*expr
            && is_text(data_type)
            && let Some(named) = name_of(open(inner))
        {
            *expr = named;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        spell(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            alias,
            ..
        } = table
        {
            bare(name);
            let name = name.to_string().to_lowercase();
            if let Some(rows) = rows_of(&name, &args.args, alias.as_ref()) {
                *table = rows;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Words that PostgreSQL keeps to itself and the standard does not, for clients that quote names.
const KEYWORDS: &str = "analyse,analyze,concurrently,freeze,ilike,isnull,limit,notnull,offset,placing,returning,verbose";

/// A function of FROM as a subselect; `None` = it is the planner's.
fn rows_of(
    name: &str,
    args: &[FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Option<TableFactor> {
    let called = alias.map_or(name, |alias| alias.name.value.as_str());
    let column = alias.and_then(|alias| alias.columns.first());
    let column = column.map_or(called, |column| column.name.value.as_str());
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let of_hypertable = hypertables::rows_of(name, args, &quoted(column));
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let rows = match (name, args.as_slice()) {
        _ if of_hypertable.is_some() => of_hypertable.unwrap_or_default(),
        ("generate_series", [from, to]) => {
            format!(
                "SELECT unnest(range({from}, {to} + 1)) AS {}",
                quoted(column)
            )
        }
        ("unnest", [array]) => format!("SELECT unnest({array}) AS {}", quoted(column)),
        ("pg_get_keywords", []) => format!(
            "SELECT unnest(string_to_array('{KEYWORDS}', ',')) AS word, 'R' AS catcode, 'reserved' AS catdesc"
        ),
        _ => return None,
    };
    let text = format!("SELECT 1 FROM ({rows}) AS {}", quoted(called));
    let mut statements = Parser::parse_sql(&GenericDialect {}, &text).ok()?;
    let ast::Statement::Query(query) = statements.pop()? else {
        return None;
    };
    let SetExpr::Select(select) = *query.body else {
        return None;
    };
    Some(select.from.into_iter().next()?.relation)
}

/// `(information_schema._pg_expandarray(keys)).n` and `(keys).x`: numbers and values of an array, each in a row.
fn expanded(root: &Expr, chain: &[ast::AccessExpr]) -> Option<Expr> {
    let [ast::AccessExpr::Dot(Expr::Identifier(field))] = chain else {
        return None;
    };
    let field = field.value.to_lowercase();
    if let Expr::Function(function) = open(root)
        && function.name.to_string().eq_ignore_ascii_case("unnest")
        && let FunctionArguments::List(list) = &function.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] = list.args.as_slice()
    {
        return match field.as_str() {
            "n" => Some(numbers(array)),
            "x" => Some(open(root).clone()),
            _ => None,
        };
    }
    let is_name = matches!(
        open(root),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_)
    );
    (is_name && field == "x").then(|| open(root).clone())
}

/// `typname[0]`: a letter of a name, which PostgreSQL counts from 0.
fn letter(root: &Expr, chain: &[ast::AccessExpr]) -> Option<Expr> {
    let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
        return None;
    };
    let name = match open(root) {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    if !name.value.eq_ignore_ascii_case("typname") {
        return None;
    }
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let from = Expr::BinaryOp {
        left: Box::new(index.clone()),
        op: BinaryOperator::Plus,
        right: Box::new(one()),
    };
    Some(call("substr", vec![root.clone(), from, one()]))
}

/// The places of an array, each in a row.
fn numbers(array: &Expr) -> Expr {
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let end = Expr::BinaryOp {
        left: Box::new(cast(
            call("array_length", vec![array.clone()]),
            DataType::BigInt(None),
        )),
        op: BinaryOperator::Plus,
        right: Box::new(one()),
    };
    call("unnest", vec![call("range", vec![one(), end])])
}

fn open(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => open(inner),
        expr => expr,
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_)
    ) || own_type(kind).is_some_and(|name| matches!(name.as_str(), "text" | "name" | "varchar"))
}

fn spell(expr: &mut Expr) {
    match expr {
        Expr::Collate { expr: inner, .. } => *expr = inner.as_ref().clone(),
        Expr::Cast {
            expr: inner,
            data_type,
            ..
        } => {
            if let Some(name) = own_type(data_type)
                && let Some(name) = NAMED_TYPES.into_iter().find(|known| *known == name)
            {
                *expr = call(name, vec![inner.as_ref().clone()]);
            } else if let Some(known) = known_type(data_type) {
                *expr = match array_literal(inner, &known) {
                    Some(array) => array,
                    None => cast(inner.as_ref().clone(), known),
                };
            }
        }
        Expr::TypedString(typed) => {
            if let Some(known) = known_type(&typed.data_type) {
                typed.data_type = known;
            }
        }
        Expr::BinaryOp { op, right, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                && let Some(known) = operator(parts)
            {
                *op = known;
            }
            if matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
                && let Some(array) = whole_numbers(right)
            {
                **right = array;
            }
        }
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => {
            if let Some(found) = among(left, compare_op, right, &BinaryOperator::Eq) {
                *expr = found;
            }
        }
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => {
            if let Some(found) = among(left, compare_op, right, &BinaryOperator::NotEq) {
                *expr = not(found);
            }
        }
        Expr::Identifier(name)
            if name.quote_style.is_none()
                && matches!(
                    name.value.to_lowercase().as_str(),
                    "current_schema" | "current_role"
                ) =>
        {
            *expr = call(&name.value.to_lowercase(), Vec::new());
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let value = expanded(root, access_chain).or_else(|| letter(root, access_chain));
            if let Some(value) = value {
                *expr = value;
            }
        }
        // A list of privileges beside an empty one.
        Expr::Case {
            conditions,
            else_result: Some(other),
            ..
        } if other.to_string() == "'{}'" => {
            let mut results = conditions.iter().map(|case| case.result.to_string());
            if results.any(|result| result.contains("acldefault(")) {
                **other = null();
            }
        }
        Expr::Function(_) => spell_call(expr),
        _ => {}
    }
}

/// `value = ANY (array)`; a subselect is the planner's.
fn among(value: &Expr, op: &BinaryOperator, array: &Expr, wanted: &BinaryOperator) -> Option<Expr> {
    let is_query = matches!(open(array), Expr::Subquery(_));
    if op != wanted || is_query {
        return None;
    }
    if let Some(items) = items(array) {
        return Some(Expr::InList {
            expr: Box::new(value.clone()),
            list: items,
            negated: false,
        });
    }
    Some(call("array_has", vec![open(array).clone(), value.clone()]))
}

/// The values of an array that is written out.
fn items(array: &Expr) -> Option<Vec<Expr>> {
    match open(array) {
        Expr::Array(array) if !array.elem.is_empty() => Some(array.elem.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => {
                let texts = texts_of(text)?;
                let texts = texts.into_iter().map(Value::SingleQuotedString);
                Some(texts.map(Expr::value).collect())
            }
            _ => None,
        },
        _ => None,
    }
}

/// `'{a,b}'` as texts; `None` = it is another text, or has no value.
fn texts_of(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.is_empty() || inner.contains(['{', '\\']) {
        return None;
    }
    let parts = inner.split(',').map(|part| part.trim().trim_matches('"'));
    Some(parts.map(str::to_owned).collect())
}

/// `'{0}'` as an array of numbers, as it is where it is compared with one.
fn whole_numbers(value: &Expr) -> Option<Expr> {
    let Expr::Value(written) = open(value) else {
        return None;
    };
    let Value::SingleQuotedString(text) = &written.value else {
        return None;
    };
    let texts = texts_of(text)?;
    let is_number = |text: &String| text.parse::<i64>().is_ok();
    if !texts.iter().all(is_number) {
        return None;
    }
    let numbers = texts.into_iter().map(|text| Value::Number(text, false));
    Some(Expr::Array(ast::Array {
        elem: numbers.map(Expr::value).collect(),
        named: true,
    }))
}

/// `'{1,2}'::int2[]` as an array.
fn array_literal(value: &Expr, kind: &DataType) -> Option<Expr> {
    let DataType::Array(ast::ArrayElemTypeDef::SquareBracket(of, _)) = kind else {
        return None;
    };
    let Expr::Value(written) = open(value) else {
        return None;
    };
    let Value::SingleQuotedString(text) = &written.value else {
        return None;
    };
    if text.trim() == "{}" {
        let nothing = Expr::Array(ast::Array {
            elem: Vec::new(),
            named: true,
        });
        return Some(cast(nothing, kind.clone()));
    }
    let items = items(value)?;
    let elem = items
        .into_iter()
        .map(|item| cast(item, of.as_ref().clone()));
    Some(Expr::Array(ast::Array {
        elem: elem.collect(),
        named: true,
    }))
}

/// `OPERATOR(pg_catalog.~)` as `~`.
fn operator(parts: &[String]) -> Option<BinaryOperator> {
    Some(match parts.last()?.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        _ => return None,
    })
}

fn spell_call(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    bare(&mut function.name);
    let name = function.name.to_string().to_lowercase();
    if name == "array"
        && let FunctionArguments::Subquery(query) = &function.args
    {
        if let Some(array) = array_of(query) {
            *expr = array;
        }
        return;
    }
    let FunctionArguments::List(list) = &function.args else {
        return;
    };
    let args: Vec<Expr> = list
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg.clone()),
            _ => None,
        })
        .collect();
    match (name.as_str(), args.as_slice()) {
        ("array_upper", [array, _]) => {
            *expr = cast(
                call("array_length", vec![array.clone()]),
                DataType::Integer(None),
            );
        }
        ("array_lower", [array, _]) => {
            let is_empty = Expr::IsNull(Box::new(call("array_length", vec![array.clone()])));
            *expr = Expr::Case {
                case_token: ast::helpers::attached_token::AttachedToken::empty(),
                end_token: ast::helpers::attached_token::AttachedToken::empty(),
                operand: None,
                conditions: vec![ast::CaseWhen {
                    condition: not(is_empty),
                    result: Expr::value(Value::Number("1".to_owned(), false)),
                }],
                else_result: None,
            };
        }
        ("generate_subscripts", [array, _]) => {
            *expr = numbers(array);
        }
        ("_pg_expandarray", [array]) => *expr = call("unnest", vec![array.clone()]),
        // No table is a part of another.
        ("pg_partition_ancestors", [_]) => *expr = no_rows(),
        _ => {}
    }
}

/// No row of the number of an object, in a SELECT list.
fn no_rows() -> Expr {
    let comma = Expr::value(Value::SingleQuotedString(",".to_owned()));
    let none = call("string_to_array", vec![null(), comma]);
    call("unnest", vec![cast(none, bigints())])
}

fn bigints() -> DataType {
    DataType::Array(ast::ArrayElemTypeDef::SquareBracket(
        Box::new(DataType::BigInt(None)),
        None,
    ))
}

/// `ARRAY (SELECT value ... ORDER BY ...)` as an aggregate in a subselect; `None` = it is of another form.
fn array_of(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    if query.limit_clause.is_some() || query.with.is_some() {
        return None;
    }
    let order = query.order_by.take();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    if select.distinct.is_some() || is_grouped(select) {
        return None;
    }
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let value = value.clone();
    let mut clauses = Vec::new();
    if let Some(OrderBy {
        kind: OrderByKind::Expressions(mut keys),
        ..
    }) = order
    {
        for key in &mut keys {
            let is_first = matches!(&key.expr, Expr::Value(it) if it.to_string() == "1");
            if is_first {
                key.expr = value.clone();
            }
        }
        clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
    let aggregate = Expr::Function(super::calls::function("array_agg", args, clauses));
    select.projection = vec![SelectItem::UnnamedExpr(aggregate)];
    Some(Expr::Subquery(Box::new(query)))
}

fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        ast::GroupByExpr::Expressions(groups, modifiers) => {
            !groups.is_empty() || !modifiers.is_empty()
        }
        ast::GroupByExpr::All(_) => true,
    }
}

fn is_unnest(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|it| it.as_ident());
    last.is_some_and(|it| it.value.eq_ignore_ascii_case("unnest"))
}
