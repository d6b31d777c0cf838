//! Calls of functions of the store, written out in the statements that make them.
//!
//! Does: put the body of a function in the place of its call, as an expression where it is one and else as a subquery, with the
//! arguments in the place of its parameters. Does not: change what an argument means: one whose columns the body would take for its
//! own is refused.

use std::ops::ControlFlow;

use datafusion::logical_expr::Volatility;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, ObjectNamePart, SelectItem, SetExpr, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use nilometer_engine::Snapshot;
use nilometer_service::define::{self, Routine};

use super::{has_column, matched, query_of};
use crate::error::{Error, Position};
use crate::sql::Sql;
use crate::statement::name::{Name, NameScope, Path, always_quoted, position};
use crate::statement::routine::{self, Call, Parameters, calls};
use crate::statement::{self, Bounds};
use crate::walk;

/// Functions that call each other inside each other.
const DEPTH_MAX: usize = 8;

/// Tokens of a statement with its functions written out: functions that call each other several times would be without bound.
const TOKENS_MAX: usize = 1 << 16;

/// What is the same for all calls of a statement.
struct Expansion<'a> {
    snapshot: &'a Snapshot,
    database: &'a str,
    schema: &'a str,
    bounds: Bounds,
}

impl Expansion<'_> {
    /// What names without a database or a schema mean.
    fn place(&self) -> NameScope {
        NameScope {
            database: self.database.to_owned(),
            schema: self.schema.to_owned(),
        }
    }
}

/// The last part of a name.
fn name_of(name: &ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(|last| Name::from(last).text).unwrap_or_default()
}

impl Sql {
    /// The tokens of a statement with the calls of functions of the store written out, and whether there were any.
    pub(in crate::sql) fn expanded(
        &self,
        database: &str,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<(Vec<TokenWithSpan>, bool), Error> {
        if calls(&tokens, false, &|_, name| self.may_be_own(name)).is_empty() {
            return Ok((tokens, false));
        }
        let snapshot = self.shared().engine.snapshot();
        let schema = self.schema_of(&snapshot, database);
        let bounds = Bounds::of(self.options());
        let expansion = Expansion {
            snapshot: &snapshot,
            database,
            schema: &schema,
            bounds,
        };
        let (tokens, is_expanded) = self.expanded_within(&expansion, &tokens, (0, false))?;
        if is_expanded {
            statement::check_expanded(&tokens, bounds)?;
        }
        Ok((tokens, is_expanded))
    }

    /// Whether no other function has a name.
    fn may_be_own(&self, name: &str) -> bool {
        let session = self.shared().session();
        !session.scalar_functions().contains_key(name)
            && !session.aggregate_functions().contains_key(name)
            && !session.window_functions().contains_key(name)
    }

    fn function(
        &self,
        within: &Expansion<'_>,
        schema: Option<&str>,
        name: &str,
    ) -> Option<Routine> {
        if !self.may_be_own(name) {
            return None;
        }
        let schema = schema.unwrap_or(within.schema);
        let found = define::routine(within.snapshot, within.database, schema, name);
        found.filter(|it| !it.is_procedure)
    }

    fn expanded_within(
        &self,
        within: &Expansion<'_>,
        tokens: &[TokenWithSpan],
        (depth, is_part): (usize, bool),
    ) -> Result<(Vec<TokenWithSpan>, bool), Error> {
        let is_own =
            |schema: Option<&str>, name: &str| self.function(within, schema, name).is_some();
        let calls = calls(tokens, is_part, &is_own);
        let mut out = Vec::with_capacity(tokens.len());
        let mut done = 0;
        for call in &calls {
            let Some(function) = self.function(within, call.schema.as_deref(), &call.name) else {
                continue;
            };
            let at = tokens
                .get(call.tokens.start)
                .and_then(|token| position(token.span));
            if depth == DEPTH_MAX {
                return Err(Error::Plan {
                    message: format!(
                        "functions call each other more than {DEPTH_MAX} times, \"{}\" at last; one of them may call itself",
                        call.name
                    ),
                    position: at,
                });
            }
            let own = self.written_out(within, (&function, call), tokens, depth)?;
            out.extend_from_slice(tokens.get(done..call.tokens.start).unwrap_or_default());
            out.extend(own);
            done = call.tokens.end;
            if out.len() > TOKENS_MAX {
                return Err(Error::Plan {
                    message: format!(
                        "with its functions written out the statement has more than {TOKENS_MAX} words; call \"{}\" less often, or once in a subquery",
                        call.name
                    ),
                    position: at,
                });
            }
        }
        let is_expanded = done > 0;
        out.extend_from_slice(tokens.get(done..).unwrap_or_default());
        Ok((out, is_expanded))
    }

    /// What stands in the place of a call.
    fn written_out(
        &self,
        within: &Expansion<'_>,
        (function, call): (&Routine, &Call),
        tokens: &[TokenWithSpan],
        depth: usize,
    ) -> Result<Vec<TokenWithSpan>, Error> {
        let span = tokens.get(call.tokens.start).map(|token| token.span);
        let span = span.unwrap_or_else(Span::empty);
        let at = position(span);
        let arguments = self.arguments_of(within, (function, call), (tokens, at), depth)?;
        let names = function.parameters.iter().map(|it| it.name.as_str());
        let names: Vec<&str> = names.collect();
        let place = within.place();
        let has_column = |table: &ObjectName, column: &str| {
            let name = Path::of(table).ok().and_then(|it| it.table(&place).ok());
            name.is_some_and(|it| has_column(within.snapshot, &it.name(), column))
        };
        let of = (function.name.table.as_str(), names.as_slice());
        let body = routine::parameters(query_of(function), within.bounds, of, &has_column)?;
        for (nth, argument) in arguments.iter().enumerate() {
            let count = body.places.iter().filter(|it| it.parameter == nth).count();
            if count > 0 {
                self.check_argument(within, &body, (argument, count), (function, at))?;
            }
        }
        let is_expression = !call.is_table && self.is_expression(&body);
        let own = placed(
            query_of(function),
            &body,
            (&arguments, function),
            span,
            within.bounds,
        )?;
        let (own, _) = self.expanded_within(within, &own, (depth + 1, true))?;
        let mut out = Writing {
            tokens: Vec::new(),
            span,
        };
        // A subquery alone, and not one in another: what an argument names of the statement is one step outside.
        if call.is_table {
            out.put([Token::LParen, Token::make_keyword("SELECT"), space()]);
        }
        out.put([Token::make_keyword("CAST"), Token::LParen, Token::LParen]);
        let select = |token: &TokenWithSpan| is_word(&token.token, "select");
        let begins = own.iter().position(select).filter(|_| is_expression);
        let begins = begins.map_or(0, |at| at + 1);
        out.tokens
            .extend_from_slice(own.get(begins..).unwrap_or_default());
        out.put([Token::RParen, space(), Token::make_keyword("AS"), space()]);
        out.text(&function.returns, within.bounds)?;
        out.put([Token::RParen]);
        // A column has the name of the function that it is of.
        if call.is_table || (call.is_column && depth == 0) {
            out.put([space(), Token::make_keyword("AS"), space()]);
            out.text(&always_quoted(&function.name.table), within.bounds)?;
        }
        if call.is_table {
            out.put([Token::RParen]);
        }
        Ok(out.tokens)
    }

    /// What a call gives for each parameter, with the calls in it written out.
    fn arguments_of(
        &self,
        within: &Expansion<'_>,
        (function, call): (&Routine, &Call),
        (tokens, at): (&[TokenWithSpan], Option<Position>),
        depth: usize,
    ) -> Result<Vec<Vec<TokenWithSpan>>, Error> {
        let given: Vec<Option<&String>> = call
            .arguments
            .iter()
            .map(|(name, _)| name.as_ref())
            .collect();
        let mut arguments = Vec::new();
        for (parameter, given) in function
            .parameters
            .iter()
            .zip(matched(function, &given, at)?)
        {
            let argument = given.and_then(|nth| call.arguments.get(nth));
            let own = if let Some((_, range)) = argument {
                tokens.get(range.clone()).unwrap_or_default().to_vec()
            } else {
                let default = parameter.default.as_deref().unwrap_or("NULL");
                without_end(statement::tokens(default, within.bounds)?)
            };
            let (own, _) = self.expanded_within(within, &own, (depth, true))?;
            arguments.push(own);
        }
        Ok(arguments)
    }

    /// Refuses an argument that would mean something else in the body.
    fn check_argument(
        &self,
        within: &Expansion<'_>,
        body: &Parameters,
        (argument, count): (&[TokenWithSpan], usize),
        (function, at): (&Routine, Option<Position>),
    ) -> Result<(), Error> {
        let refused = |message: &str| Error::Plan {
            message: format!("an argument of {}: {message}", function.name.table),
            position: at,
        };
        let mut text = vec![
            TokenWithSpan::wrap(Token::make_keyword("SELECT")),
            TokenWithSpan::wrap(space()),
        ];
        text.extend_from_slice(argument);
        let Some(DfStatement::Statement(parsed)) = statement::parse_unfilled(text, "")? else {
            return Ok(());
        };
        let mut wrong = None;
        let _ = walk::expressions(parsed.as_ref(), &mut |expr| {
            wrong = self.wrong_in_body(within, (body, count), expr);
            if wrong.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        wrong.map_or(Ok(()), |message| Err(refused(&message)))
    }

    /// Why a part of an argument would mean something else in a body that uses the argument so often; `None` = it would not.
    fn wrong_in_body(
        &self,
        within: &Expansion<'_>,
        (body, count): (&Parameters, usize),
        expr: &Expr,
    ) -> Option<String> {
        match expr {
            Expr::Function(called) => {
                let name = name_of(&called.name);
                let session = self.shared().session();
                let is_volatile = session
                    .scalar_functions()
                    .get(&name)
                    .is_some_and(|it| it.signature().volatility == Volatility::Volatile);
                let is_of_many =
                    called.over.is_some() || session.aggregate_functions().contains_key(&name);
                let reads_tables = !body.tables.is_empty() || !body.given.is_empty();
                if is_volatile && count > 1 {
                    return Some(format!(
                        "{name}() answers anew each time, and the function uses it {count} times; compute it in a subquery first"
                    ));
                }
                (is_of_many && reads_tables).then(|| {
                    format!(
                        "{name}() is computed from many rows, and the function reads tables; compute it in a subquery first"
                    )
                })
            }
            Expr::Identifier(name) => {
                let name = Name::from(name).text;
                let place = within.place();
                let may_have = |table: &ObjectName| {
                    let path = Path::of(table).ok();
                    let table = path.and_then(|path| path.table(&place).ok());
                    table.is_none_or(|table| may_have_column(within.snapshot, &table.name(), &name))
                };
                let is_taken = body.given.contains(&name) || body.tables.iter().any(may_have);
                is_taken.then(|| {
                    format!(
                        "the function may have a column \"{name}\" of its own; write the column with the name of its table, as in t.{name}"
                    )
                })
            }
            Expr::CompoundIdentifier(parts) => {
                let of = parts.first().map(|name| Name::from(name).text);
                let of = of.unwrap_or_default();
                let is_taken =
                    body.given.contains(&of) || body.tables.iter().any(|it| name_of(it) == of);
                is_taken.then(|| {
                    format!(
                        "the function reads a table \"{of}\" too; give the one of the statement another name (FROM {of} AS a)"
                    )
                })
            }
            _ => None,
        }
    }

    /// Whether a body is one expression of its parameters, and no query of tables.
    fn is_expression(&self, body: &Parameters) -> bool {
        let Some(SqlStatement::Query(query)) = body.statement.as_deref() else {
            return false;
        };
        let SetExpr::Select(select) = query.body.as_ref() else {
            return false;
        };
        let is_bare = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && select.distinct.is_none()
            && select.from.is_empty()
            && select.selection.is_none()
            && select.having.is_none()
            && matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
        let [SelectItem::UnnamedExpr(expression)] = select.projection.as_slice() else {
            return false;
        };
        let session = self.shared().session();
        let found = walk::expressions(expression, &mut |expr| match expr {
            Expr::Function(called) => {
                let name = name_of(&called.name);
                if called.over.is_some() || session.aggregate_functions().contains_key(&name) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
            _ => ControlFlow::Continue(()),
        });
        is_bare && found.is_continue()
    }
}

/// Whether something may have a column; of a view, and of what is not there, nobody knows it without planning it.
fn may_have_column(snapshot: &Snapshot, name: &define::TableName, column: &str) -> bool {
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    let is_known = snapshot.table(database, schema, table).is_some()
        || define::find_relation(snapshot, database, schema, table).is_some();
    !is_known || has_column(snapshot, name, column)
}

/// The tokens of a body with arguments in the places of its parameters.
fn placed(
    text: &str,
    body: &Parameters,
    (arguments, function): (&[Vec<TokenWithSpan>], &Routine),
    span: Span,
    bounds: Bounds,
) -> Result<Vec<TokenWithSpan>, Error> {
    let mut out = Writing {
        tokens: Vec::new(),
        span,
    };
    let mut places = body.places.iter().peekable();
    let mut until = 0;
    for token in &body.tokens {
        let Some(at) = position(token.span) else {
            continue;
        };
        let at = routine::offset_of(text, at);
        if at < until || matches!(token.token, Token::EOF) {
            continue;
        }
        let Some(place) = places.next_if(|place| place.from == at) else {
            out.put([token.token.clone()]);
            continue;
        };
        until = place.to;
        out.put([Token::make_keyword("CAST"), Token::LParen, Token::LParen]);
        let argument = arguments.get(place.parameter);
        out.tokens.extend(argument.into_iter().flatten().cloned());
        out.put([Token::RParen, space(), Token::make_keyword("AS"), space()]);
        let of = function.parameters.get(place.parameter);
        out.text(of.map_or("text", |it| &it.of), bounds)?;
        out.put([Token::RParen]);
    }
    Ok(out.tokens)
}

/// Tokens of the store's own that stand where a call stood: what is wrong in them is shown there.
struct Writing {
    tokens: Vec<TokenWithSpan>,
    span: Span,
}

impl Writing {
    fn put(&mut self, tokens: impl IntoIterator<Item = Token>) {
        let span = self.span;
        let tokens = tokens.into_iter();
        self.tokens
            .extend(tokens.map(|token| TokenWithSpan { token, span }));
    }

    fn text(&mut self, text: &str, bounds: Bounds) -> Result<(), Error> {
        let tokens = without_end(statement::tokens(text, bounds)?);
        self.put(tokens.into_iter().map(|token| token.token));
        Ok(())
    }
}

fn without_end(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    tokens.retain(|token| token.token != Token::EOF);
    tokens
}

fn space() -> Token {
    Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space)
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
