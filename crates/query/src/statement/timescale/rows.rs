//! Calls for each row of a query: `SELECT compress_chunk(c) FROM show_chunks('t') c`, calls of what such a call answers, and their number.
//!
//! Does: part such a statement into the query of its arguments and one call for each row. Does not: carry it out (`sql/call.rs` does).

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem,
    SetExpr, TableFactor, Value,
};

use super::arguments::given;
use super::{Call, NAMES, counted, policies, read, written};
use crate::error::Error;
use crate::statement::name::Name;

/// A call for each row of a query.
#[derive(Debug, Clone)]
pub(crate) struct CallOfRows {
    statement: ast::Statement,
    /// The query whose columns are the arguments at `places`.
    pub(crate) query: String,
    places: Vec<usize>,
    /// What is called of the answer of each call, one after the other: `compress_chunk(decompress_chunk(c))`.
    then: Vec<ast::Statement>,
    /// What the number of the answers is called, where that is asked for and not they.
    pub(crate) counted: Option<Counted>,
}

/// How the answers of calls are counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) heading: String,
    /// Those that are NULL too: by `count(*)`.
    pub(crate) has_nulls: bool,
}

/// The functions whose argument may be what another one answers, and which may be that one.
const OF_CHUNKS: [&str; 3] = ["compress_chunk", "decompress_chunk", "recompress_chunk"];

/// `SELECT count(*) FROM (SELECT call FROM ...) q` as `SELECT count(call) FROM ...`; `None` = it is another statement.
pub(super) fn counted_outside(statement: &ast::Statement) -> Option<ast::Statement> {
    let ast::Statement::Query(query) = statement else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let ([item], [from]) = (select.projection.as_slice(), select.from.as_slice()) else {
        return None;
    };
    let (Expr::Function(count), alias) = (match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
        _ => return None,
    }) else {
        return None;
    };
    let TableFactor::Derived { subquery, .. } = &from.relation else {
        return None;
    };
    // Nothing stands beside the count and the subquery: no WHERE, no GROUP BY, no LIMIT.
    let mut bare = query.clone();
    if let SetExpr::Select(select) = bare.body.as_mut() {
        select.from.clear();
    }
    let is_bare = bare
        .to_string()
        .eq_ignore_ascii_case(&format!("SELECT {item}"));
    if !is_bare || !from.joins.is_empty() || !count.to_string().eq_ignore_ascii_case("count(*)") {
        return None;
    }
    let mut inner = ast::Statement::Query(subquery.clone());
    let called = written(&inner)?;
    if called.is_table || called.is_counted {
        return None;
    }
    let expr = projected(&mut inner)?;
    let mut outer = count.clone();
    if let FunctionArguments::List(list) = &mut outer.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(expr.clone()))];
    }
    let expr = Expr::Function(outer);
    let alias = alias.unwrap_or_else(|| Ident::new("count"));
    if let ast::Statement::Query(query) = &mut inner
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = vec![SelectItem::ExprWithAlias { expr, alias }];
    }
    Some(inner)
}

/// The one expression that a query answers.
fn projected(statement: &mut ast::Statement) -> Option<&mut Expr> {
    if let ast::Statement::Query(query) = statement
        && let SetExpr::Select(select) = query.body.as_mut()
        && let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
            select.projection.as_mut_slice()
    {
        return Some(expr);
    }
    None
}

/// The first argument of a function.
fn first_argument(function: &mut ast::Function) -> Option<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
        | FunctionArg::Named {
            arg: FunctionArgExpr::Expr(value),
            ..
        }
        | FunctionArg::ExprNamed {
            arg: FunctionArgExpr::Expr(value),
            ..
        } => Some(value),
        _ => None,
    }
}

/// Whether a function compresses or decompresses a chunk.
fn is_of_chunks(function: &ast::Function) -> bool {
    let last = function
        .name
        .0
        .last()
        .and_then(ast::ObjectNamePart::as_ident);
    last.is_some_and(|last| OF_CHUNKS.contains(&Name::from(last).text.as_str()))
}

/// The outer of two calls alone, with NULL where its argument goes; the inner one takes its place in the statement.
fn outer(statement: &mut ast::Statement) -> Option<ast::Statement> {
    let mut alone = statement.clone();
    without_rows(&mut alone);
    let Expr::Function(call) = projected(&mut alone)? else {
        return None;
    };
    let inner = first_argument(call)
        .filter(|it| matches!(it, Expr::Function(inner) if is_of_chunks(inner)))?;
    let inner = std::mem::replace(inner, Expr::value(Value::Null));
    if !is_of_chunks(call) {
        return None;
    }
    *projected(statement)? = inner;
    Some(alone)
}

/// A call for no rows.
fn without_rows(statement: &mut ast::Statement) {
    if let ast::Statement::Query(query) = statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.from.clear();
        select.selection = None;
        query.order_by = None;
        query.with = None;
        query.limit_clause = None;
    }
}

/// The calls that a statement makes, one for each row of a query; `None` = it is one call, or another statement.
pub(in crate::statement) fn read_rows(
    statement: &ast::Statement,
) -> Result<Option<CallOfRows>, Error> {
    let outside = counted_outside(statement);
    let has_nulls = outside.is_some();
    let mut statement = outside.unwrap_or_else(|| statement.clone());
    let Some(call) = written(&statement) else {
        return Ok(None);
    };
    let counted = call.is_counted.then(|| Counted {
        heading: call.alias.clone().unwrap_or_else(|| "count".to_owned()),
        has_nulls,
    });
    let has_rows = call.has_rows || call.is_counted;
    if counted.is_some() {
        without_count(&mut statement);
    }
    let mut then = Vec::new();
    while let Some(outer) = outer(&mut statement) {
        then.insert(0, outer);
    }
    let Some(call) = written(&statement).filter(|_| has_rows || !then.is_empty()) else {
        return Ok(None);
    };
    if NAMES.contains(&call.function.as_str()) {
        // Each is refused in a transaction, and so would be several.
        return Ok(None);
    }
    if let Some(refused) = policies::refuse(&call.function) {
        return Err(refused);
    }
    let (mut places, mut columns) = (Vec::new(), Vec::new());
    for (at, argument) in call.arguments.iter().enumerate() {
        let (FunctionArg::Unnamed(value)
        | FunctionArg::Named { arg: value, .. }
        | FunctionArg::ExprNamed { arg: value, .. }) = argument;
        let FunctionArgExpr::Expr(value) = value else {
            continue;
        };
        if given(value, &call.function, call.position).is_ok() {
            continue;
        }
        places.push(at);
        columns.push(SelectItem::UnnamedExpr(name_of_chunk(value)));
    }
    let ast::Statement::Query(query) = &statement else {
        return Ok(None);
    };
    let mut query = query.clone();
    if columns.is_empty() {
        // The same for each row.
        let one = Expr::value(Value::Number("1".to_owned(), false));
        columns.push(SelectItem::ExprWithAlias {
            expr: one,
            alias: Ident::new("one"),
        });
    }
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = columns;
    }
    let query = query.to_string();
    Ok(Some(CallOfRows {
        statement,
        query,
        places,
        then,
        counted,
    }))
}

/// The call in place of `count(call)`.
fn without_count(statement: &mut ast::Statement) {
    if let ast::Statement::Query(query) = statement
        && let SetExpr::Select(select) = query.body.as_mut()
        && let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
            select.projection.as_mut_slice()
        && let Expr::Function(function) = expr
        && let Some(inner) = counted(function)
    {
        *expr = Expr::Function(inner.clone());
    }
}

/// What is cast to the name of a table, as it is: a chunk is none. `format('%I.%I', schema, name)` joins the two: the names of
/// chunks need no quotes.
fn name_of_chunk(value: &Expr) -> Expr {
    match value {
        Expr::Nested(inner) => name_of_chunk(inner),
        Expr::Cast {
            expr, data_type, ..
        } if data_type.to_string().eq_ignore_ascii_case("regclass") => name_of_chunk(expr),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("format") => {
            joined(&function.args).unwrap_or_else(|| value.clone())
        }
        value => value.clone(),
    }
}

/// The two names of `format('%I.%I', schema, name)` with a point between them.
fn joined(arguments: &FunctionArguments) -> Option<Expr> {
    let FunctionArguments::List(list) = arguments else {
        return None;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(pattern))),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(schema)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(name)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let is_known = matches!(&pattern.value, Value::SingleQuotedString(text) if text == "%I.%I" || text == "%s.%s");
    let concat = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    };
    let point = Expr::value(Value::SingleQuotedString(".".to_owned()));
    is_known.then(|| concat(concat(schema.clone(), point), name.clone()))
}

impl CallOfRows {
    /// A call for a row of no values, to be described.
    pub(crate) fn stand_in(&self) -> Result<Call, Error> {
        if let Some(last) = self.then.len().checked_sub(1) {
            return self.of_answer(last, &Value::SingleQuotedString("t".to_owned()));
        }
        let name = written(&self.statement).map(|call| call.function);
        let is_of_job = name.is_some_and(|name| name.ends_with("_job"));
        let value = if is_of_job {
            Value::Number("0".to_owned(), false)
        } else {
            Value::SingleQuotedString("t".to_owned())
        };
        self.of_row(&vec![value; self.places.len()])
    }

    /// The call of a row whose values, as literals, these are.
    pub(crate) fn of_row(&self, values: &[Value]) -> Result<Call, Error> {
        let mut statement = self.statement.clone();
        without_rows(&mut statement);
        if let Some(Expr::Function(function)) = projected(&mut statement)
            && let FunctionArguments::List(list) = &mut function.args
        {
            for (at, value) in self.places.iter().zip(values) {
                let Some(
                    FunctionArg::Unnamed(place)
                    | FunctionArg::Named { arg: place, .. }
                    | FunctionArg::ExprNamed { arg: place, .. },
                ) = list.args.get_mut(*at)
                else {
                    continue;
                };
                *place = FunctionArgExpr::Expr(Expr::value(value.clone()));
            }
        }
        read(&statement)?.ok_or_else(|| Error::internal("a call is none any more"))
    }

    /// How many calls there are of what the call of a row answers.
    pub(crate) fn calls_of_answers(&self) -> usize {
        self.then.len()
    }

    /// One of them for an answer, as a literal.
    pub(crate) fn of_answer(&self, nth: usize, answer: &Value) -> Result<Call, Error> {
        let none = || Error::internal("a call is none any more");
        let mut statement = self.then.get(nth).cloned().ok_or_else(none)?;
        if let Some(Expr::Function(call)) = projected(&mut statement)
            && let Some(place) = first_argument(call)
        {
            *place = Expr::value(answer.clone());
        }
        read(&statement)?.ok_or_else(none)
    }
}
