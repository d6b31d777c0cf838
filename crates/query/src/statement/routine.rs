//! Bodies of functions and procedures, as texts: their statements, arguments in the place of parameters, calls written out.
//!
//! Does: cut a body into statements, find where a parameter stands. Does not: know what is kept, or run anything
//! (`sql/routine.rs` does both).

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement as SqlStatement, Visitor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::change::{between, offset};
use super::name::{Name, Path, position};
use super::{Bounds, parse_unfilled, tokens};
use crate::error::{Error, Position, syntax};
use crate::walk;

/// What stands in the place of a parameter.
#[derive(Debug)]
pub(crate) struct Argument {
    /// What the parameter is called; empty = it has no name.
    pub(crate) name: String,
    /// An expression of the parameter's type.
    pub(crate) text: String,
}

/// A CALL of a procedure.
#[derive(Debug, Clone)]
pub(crate) struct ProcedureCall {
    pub(crate) path: Path,
    /// By place, or by name.
    pub(crate) arguments: Vec<(Option<String>, String)>,
}

/// Reads a CALL; `None` = it is another statement.
pub(super) fn called(statement: &SqlStatement) -> Result<Option<ProcedureCall>, Error> {
    let SqlStatement::Call(function) = statement else {
        return Ok(None);
    };
    let path = Path::of(&function.name)?;
    let mut arguments = Vec::new();
    if let ast::FunctionArguments::List(list) = &function.args {
        for argument in &list.args {
            let (name, value) = match argument {
                ast::FunctionArg::Unnamed(value) => (None, value),
                ast::FunctionArg::Named { name, arg, .. }
                | ast::FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg,
                    ..
                } => (Some(Name::from(name).text), arg),
                ast::FunctionArg::ExprNamed { name, .. } => {
                    return Err(Error::Plan {
                        message: format!("{name} is not the name of a parameter"),
                        position: path.start(),
                    });
                }
            };
            arguments.push((name, value.to_string()));
        }
    }
    Ok(Some(ProcedureCall { path, arguments }))
}

/// The statements of a body, as they are written.
pub(crate) fn statements(body: &str, bounds: Bounds) -> Result<Vec<String>, Error> {
    if body.len() > bounds.bytes_max {
        return Err(Error::TooLong {
            limit: bounds.bytes_max,
            bytes: body.len(),
        });
    }
    let all = Tokenizer::new(&GenericDialect {}, body)
        .tokenize_with_location()
        .map_err(|error| syntax(&error.to_string()))?;
    let mut found = Vec::new();
    let mut start: Option<Position> = None;
    for token in &all {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => {
                if let Some(from) = start.take() {
                    found.push(
                        between(body, Some(from), position(token.span))
                            .trim()
                            .to_owned(),
                    );
                }
            }
            _ => start = start.or(position(token.span)),
        }
    }
    if let Some(from) = start {
        found.push(between(body, Some(from), None).trim().to_owned());
    }
    Ok(found)
}

/// A statement of a body with arguments in the place of parameters: `$1`, and their names where no column has the name.
/// `has_column` = whether a table has a column of a name.
pub(crate) fn bound(
    text: &str,
    bounds: Bounds,
    (routine, arguments): (&str, &[Argument]),
    has_column: &dyn Fn(&ObjectName, &str) -> bool,
) -> Result<String, Error> {
    let tokens = tokens(text, bounds)?;
    let mut places: Vec<(usize, usize, &str)> = Vec::new();
    for token in &tokens {
        let Token::Placeholder(written) = &token.token else {
            continue;
        };
        let at = position(token.span);
        let number = written
            .strip_prefix('$')
            .and_then(|it| it.parse::<usize>().ok());
        let argument = number.and_then(|number| arguments.get(number.checked_sub(1)?));
        let argument = argument.ok_or_else(|| Error::Parameter {
            name: written.clone(),
            reason: format!("{routine} has {} parameters", arguments.len()),
            position: at,
        })?;
        if let Some(at) = at {
            let from = offset(text, at);
            places.push((from, from + written.len(), &argument.text));
        }
    }
    if let Some(DfStatement::Statement(statement)) = parse_unfilled(tokens, text)? {
        let scope = Scope::of(&statement);
        let is_taken = |name: &str| scope.tables.iter().any(|table| has_column(table, name));
        let mut wrong = None;
        let _ = walk::expressions(statement.as_ref(), &mut |expr| {
            let named = match expr {
                Expr::Identifier(name) => Some((name, name)),
                // With the name of the procedure in front it is the parameter in any case.
                Expr::CompoundIdentifier(names) => match names.as_slice() {
                    [of, name] if Name::from(of).text == routine => Some((of, name)),
                    _ => None,
                },
                _ => None,
            };
            let Some((first, name)) = named else {
                return ControlFlow::Continue(());
            };
            let wanted = Name::from(name).text;
            let argument = arguments
                .iter()
                .find(|it| !it.name.is_empty() && it.name == wanted);
            let Some(argument) = argument else {
                return ControlFlow::Continue(());
            };
            let is_alone = std::ptr::eq(first, name);
            if is_alone && is_taken(&wanted) {
                return ControlFlow::Continue(());
            }
            if is_alone && scope.inner.contains(&wanted) {
                wrong = Some(Error::Plan {
                    message: format!(
                        "\"{wanted}\" is a parameter and a column of a subquery; write {routine}.{wanted}, or give the column another name"
                    ),
                    position: position(name.span),
                });
                return ControlFlow::Break(());
            }
            if let (Some(from), Some(last)) = (position(first.span), position(name.span)) {
                places.push((
                    offset(text, from),
                    offset(text, last) + width(name),
                    &argument.text,
                ));
            }
            ControlFlow::Continue(())
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
    }
    places.sort_unstable();
    places.dedup();
    let mut out = String::new();
    let mut done = 0;
    for (from, to, argument) in places {
        out.push_str(text.get(done..from).unwrap_or_default());
        out.push_str(argument);
        done = to;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

/// Bytes of a name as it is written.
fn width(name: &Ident) -> usize {
    match name.quote_style {
        None => name.value.len(),
        Some(quote) => name.value.len() + name.value.matches(quote).count() + 2,
    }
}

/// What names of a statement may mean beside parameters.
#[derive(Default)]
struct Scope {
    /// Tables whose columns may be meant.
    tables: Vec<ObjectName>,
    /// Columns that subqueries name.
    inner: Vec<String>,
}

impl Scope {
    fn of(statement: &SqlStatement) -> Self {
        let mut scope = Self::default();
        match statement {
            // The values of an INSERT see no row of its table.
            SqlStatement::Insert(insert) if insert.on.is_none() && insert.returning.is_none() => {
                if let Some(source) = &insert.source {
                    walk::visit(source, &mut scope);
                }
            }
            statement => walk::visit(statement, &mut scope),
        }
        scope
    }

    fn inner(&mut self, query: &Query) {
        if let SetExpr::Select(select) = query.body.as_ref() {
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item {
                    self.inner.push(Name::from(alias).text);
                }
            }
        }
    }
}

impl Visitor for Scope {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.tables.push(name.clone());
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.inner(&table.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Derived { subquery, .. } = factor {
            self.inner(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// A call without arguments.
#[derive(Debug)]
pub(crate) struct BareCall {
    /// Its first token.
    pub(crate) from: usize,
    /// The one behind its last.
    pub(crate) to: usize,
    /// A schema, if one is said.
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

/// The words that statements begin with in which functions are called.
const CALLING: [&str; 7] = [
    "select", "with", "insert", "update", "delete", "explain", "values",
];

/// The calls without arguments of a statement.
pub(crate) fn bare_calls(tokens: &[TokenWithSpan]) -> Vec<BareCall> {
    let own: Vec<(usize, &Token)> = tokens
        .iter()
        .enumerate()
        .map(|(at, token)| (at, &token.token))
        .filter(|(_, token)| !matches!(token, Token::Whitespace(_)))
        .collect();
    let begins = own.iter().find_map(|(_, token)| match token {
        Token::Word(word) => Some(word.value.to_ascii_lowercase()),
        _ => None,
    });
    if !begins.is_some_and(|word| CALLING.contains(&word.as_str())) {
        return Vec::new();
    }
    let name = |token: &Token| match token {
        Token::Word(word) => Some(match word.quote_style {
            None => word.value.to_ascii_lowercase(),
            Some(_) => word.value.clone(),
        }),
        _ => None,
    };
    let mut found = Vec::new();
    for (nth, window) in own.windows(3).enumerate() {
        let [(at, word), (_, Token::LParen), (last, Token::RParen)] = window else {
            continue;
        };
        let Some(called) = name(word) else { continue };
        let before = |back: usize| nth.checked_sub(back).and_then(|at| own.get(at));
        let (from, schema) = match (before(1), before(2)) {
            (Some((_, Token::Period)), Some((from, schema))) => (*from, name(schema)),
            _ => (*at, None),
        };
        found.push(BareCall {
            from,
            to: last + 1,
            schema,
            name: called,
        });
    }
    found
}
