//! Bodies of functions and procedures, as texts: their statements, arguments in the place of parameters, calls written out.
//!
//! Does: cut a body into statements, find where a parameter stands. Does not: know what is kept, or run anything
//! (`sql/routine.rs` does both).

mod calls;

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
pub(crate) use calls::{Call, calls};

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
    let names: Vec<&str> = arguments.iter().map(|it| it.name.as_str()).collect();
    let found = parameters(text, bounds, (routine, &names), has_column)?;
    let mut out = String::new();
    let mut done = 0;
    for place in found.places {
        out.push_str(text.get(done..place.from).unwrap_or_default());
        out.push_str(
            arguments
                .get(place.parameter)
                .map_or("", |it| it.text.as_str()),
        );
        done = place.to;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

/// Where a parameter stands in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Its first byte.
    pub(crate) from: usize,
    /// The byte behind its last.
    pub(crate) to: usize,
    /// Which parameter, from 0.
    pub(crate) parameter: usize,
}

/// A statement of a body, read.
pub(crate) struct Parameters {
    /// In their order.
    pub(crate) places: Vec<Place>,
    /// Its tokens.
    pub(crate) tokens: Vec<TokenWithSpan>,
    /// The statement; `None` = it is none.
    pub(crate) statement: Option<Box<SqlStatement>>,
    /// Tables that it reads.
    pub(crate) tables: Vec<ObjectName>,
    /// Names that it gives to tables, and to columns of subqueries.
    pub(crate) given: Vec<String>,
}

/// Where the parameters of these names stand in a statement of a body.
pub(crate) fn parameters(
    text: &str,
    bounds: Bounds,
    (routine, names): (&str, &[&str]),
    has_column: &dyn Fn(&ObjectName, &str) -> bool,
) -> Result<Parameters, Error> {
    let tokens = tokens(text, bounds)?;
    let mut found = Parameters {
        places: Vec::new(),
        tokens: tokens.clone(),
        statement: None,
        tables: Vec::new(),
        given: Vec::new(),
    };
    for token in &tokens {
        let Token::Placeholder(written) = &token.token else {
            continue;
        };
        let at = position(token.span);
        let number = written
            .strip_prefix('$')
            .and_then(|it| it.parse::<usize>().ok());
        let parameter = number.and_then(|number| number.checked_sub(1));
        let parameter = parameter.filter(|it| *it < names.len());
        let parameter = parameter.ok_or_else(|| Error::Parameter {
            name: written.clone(),
            reason: format!("{routine} has {} parameters", names.len()),
            position: at,
        })?;
        if let Some(at) = at {
            let from = offset(text, at);
            let to = from + written.len();
            found.places.push(Place {
                from,
                to,
                parameter,
            });
        }
    }
    if let Some(DfStatement::Statement(statement)) = parse_unfilled(tokens, text)? {
        let scope = Scope::of(&statement);
        let by_name = named_places(text, &statement, (routine, names), &scope, has_column)?;
        found.places.extend(by_name);
        found.tables = scope.tables;
        found.given = scope.inner;
        found.given.extend(scope.aliases);
        found.statement = Some(statement);
    }
    found.places.sort_unstable();
    found.places.dedup();
    Ok(found)
}

/// Where parameters stand by their names.
fn named_places(
    text: &str,
    statement: &SqlStatement,
    (routine, names): (&str, &[&str]),
    scope: &Scope,
    has_column: &dyn Fn(&ObjectName, &str) -> bool,
) -> Result<Vec<Place>, Error> {
    let is_taken = |name: &str| scope.tables.iter().any(|table| has_column(table, name));
    let mut places = Vec::new();
    let mut wrong = None;
    let _ = walk::expressions(statement, &mut |expr| {
        let parts = match expr {
            Expr::Identifier(name) => Some((name, name)),
            // With the name of the procedure in front it is the parameter in any case.
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [of, name] if Name::from(of).text == routine => Some((of, name)),
                _ => None,
            },
            _ => None,
        };
        let Some((first, name)) = parts else {
            return ControlFlow::Continue(());
        };
        let wanted = Name::from(name).text;
        let mut all = names.iter();
        let parameter = all.position(|it| !it.is_empty() && **it == wanted);
        let Some(parameter) = parameter else {
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
            places.push(Place {
                from: offset(text, from),
                to: offset(text, last) + width(name),
                parameter,
            });
        }
        ControlFlow::Continue(())
    });
    wrong.map_or(Ok(places), Err)
}

/// The byte at which a position of a statement is.
pub(crate) fn offset_of(text: &str, at: Position) -> usize {
    offset(text, at)
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
    /// Other names of tables.
    aliases: Vec<String>,
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

    fn alias(&mut self, alias: Option<&ast::TableAlias>) {
        if let Some(alias) = alias {
            self.aliases.push(Name::from(&alias.name).text);
            let columns = alias.columns.iter();
            self.inner
                .extend(columns.map(|column| Name::from(&column.name).text));
        }
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
            self.aliases.push(Name::from(&table.alias.name).text);
            self.inner(&table.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        match factor {
            ast::TableFactor::Derived {
                subquery, alias, ..
            } => {
                self.alias(alias.as_ref());
                self.inner(subquery);
            }
            ast::TableFactor::Table { alias, .. } => self.alias(alias.as_ref()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
