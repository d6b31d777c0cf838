//! From text to one statement that may run: its size and depth are bounded before anything recurses over it.

mod aggregate;
mod bounds;
pub(crate) mod brief;
mod change;
mod filled;
mod grammar;
pub(crate) mod headings;
pub(crate) mod name;
pub(crate) mod params;
pub(crate) mod rewrite;
pub(crate) mod routine;
pub(crate) mod session;
pub(crate) mod settings;
mod show;
mod timescale;
pub(crate) mod types;

use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, Tokenizer};

use crate::error::{Error, syntax};
use crate::tables::pg_catalog::mentions;
use crate::{Params, SqlOptions};
use bounds::{check_tables, check_tokens, unsupported};
use change::role;
use grammar::{Grammar, NESTING_MAX, ONE_STATEMENT};
use headings::Headings;

pub(crate) use aggregate::{AggregateStatement, WrittenAggregate};
pub(crate) use change::WrittenChange;
pub(crate) use change::role::grant::{Target, WrittenGrant};
pub(crate) use change::role::{RoleName, RoleStatement, WrittenOptions};
pub(crate) use filled::FilledTable;
pub(crate) use routine::ProcedureCall;
pub(crate) use show::{Show, unknown_setting};
pub(crate) use timescale::{Bound, Call, CallOfRows, What, together};

/// How large a statement may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    pub(crate) operators_max: usize,
}

impl Bounds {
    pub(crate) fn of(options: &SqlOptions) -> Self {
        Self {
            bytes_max: options.sql_bytes_max,
            operators_max: options.sql_operators_max,
        }
    }
}

/// One statement, by who carries it out.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(crate) enum Statement {
    /// The planner: it only reads.
    Query(Box<Question>),
    Insert(Box<ast::Insert>),
    Update(Box<ast::Update>),
    Delete(Box<ast::Delete>),
    Merge(Box<ast::Merge>),
    Truncate(Box<ast::Truncate>),
    Show(Show),
    Change(WrittenChange),
    /// A change of roles and of what they may do.
    Role(Box<RoleStatement>),
    /// A table with the rows of a query.
    Fill(Box<FilledTable>),
    /// A call that changes a table.
    Call(Box<Call>),
    /// One for each row of a query.
    CallOfRows(Box<CallOfRows>),
    /// Of a continuous aggregate.
    Aggregate(AggregateStatement),
    /// A call of a procedure of somebody's.
    Procedure(Box<ProcedureCall>),
    /// Ends the query of this number.
    Kill(u64),
}

/// A statement that only reads.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) statement: DfStatement,
    /// What the columns of its answer are called.
    pub(crate) headings: Headings,
}

impl Statement {
    /// Whether it runs a plan; what does not must be answered where memory is short too, to find out why.
    pub(crate) fn needs_memory(&self) -> bool {
        if let Self::Change(written) = self {
            return matches!(
                written.change,
                nilometer_service::define::Change::AlterTable { .. }
            );
        }
        !matches!(
            self,
            Self::Show(_)
                | Self::Role(_)
                | Self::Fill(_)
                | Self::Call(_)
                | Self::CallOfRows(_)
                | Self::Aggregate(_)
                | Self::Procedure(_)
                | Self::Kill(_)
        )
    }

    /// What others are shown of it while it runs; `None` = the statement as it was written.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Role(statement) => statement.shown(),
            _ => None,
        }
    }

    /// Whether it changes something.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self, Self::Query(_) | Self::Show(_))
    }
}

/// The one statement in `sql`, with the values of its parameters in place.
pub(crate) fn parse(sql: &str, bounds: Bounds, params: &Params) -> Result<Statement, Error> {
    parse_tokens(tokens(sql, bounds)?, sql, bounds, params)
}

/// Whether a statement of these tokens asks for names, or for the session that it runs in.
pub(crate) fn asks_names(tokens: &[TokenWithSpan]) -> bool {
    mentions(tokens) || rewrite::casts_to_own(tokens)
}

/// The tokens of `sql`, which are no more than may be parsed.
pub(crate) fn tokens(sql: &str, bounds: Bounds) -> Result<Vec<TokenWithSpan>, Error> {
    if sql.len() > bounds.bytes_max {
        return Err(Error::TooLong {
            limit: bounds.bytes_max,
            bytes: sql.len(),
        });
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| syntax(&error.to_string()))?;
    let tokens = rewrite::acquisition::as_of_acquisition(tokens)?;
    let tokens = rewrite::between_symmetric(rewrite::asof_joins(tokens));
    let tokens = rewrite::question_marks(tokens);
    check_tokens(&tokens, bounds.operators_max)?;
    Ok(tokens)
}

/// Refuses tokens that are more than may be parsed, once calls of functions are written out among them.
pub(crate) fn check_expanded(tokens: &[TokenWithSpan], bounds: Bounds) -> Result<(), Error> {
    check_tokens(tokens, bounds.operators_max)
}

/// The statement of these tokens as it is written, before its parameters have values; `None` = it is one of ours, which take
/// none.
pub(crate) fn parse_unfilled(
    tokens: Vec<TokenWithSpan>,
    sql: &str,
) -> Result<Option<DfStatement>, Error> {
    if own(&tokens, sql)?.is_some() {
        return Ok(None);
    }
    let mut statement = parse_one(tokens)?;
    if let DfStatement::Statement(statement) = &mut statement {
        rewrite::conditions(statement);
    }
    Ok(Some(statement))
}

/// The one statement in `sql`, of which these are the tokens.
pub(crate) fn parse_tokens(
    tokens: Vec<TokenWithSpan>,
    sql: &str,
    bounds: Bounds,
    params: &Params,
) -> Result<Statement, Error> {
    if let Some(own) = own(&tokens, sql)? {
        return Ok(own);
    }
    let asks_names = mentions(&tokens);
    let may_call = timescale::mentions(&tokens);
    let mut statement = parse_one(tokens)?;
    if may_call
        && let DfStatement::Statement(statement) = &mut statement
        && timescale::is_call(statement)
    {
        params::fill(params, statement.as_mut())?;
        if let Some(calls) = timescale::read_rows(statement)? {
            return Ok(Statement::CallOfRows(Box::new(calls)));
        }
        if let Some(call) = timescale::read(statement)? {
            return Ok(Statement::Call(Box::new(call)));
        }
    }
    if let DfStatement::Statement(statement) = &mut statement
        && matches!(statement.as_ref(), ast::Statement::Call(_))
    {
        params::fill(params, statement.as_mut())?;
        if let Some(call) = routine::called(statement)? {
            return Ok(Statement::Procedure(Box::new(call)));
        }
    }
    let headings = prepare(&mut statement, bounds, params, asks_names)?;
    let question = |statement| {
        Statement::Query(Box::new(Question {
            statement,
            headings,
        }))
    };
    let DfStatement::Statement(inner) = statement else {
        return Ok(question(statement));
    };
    Ok(match *inner {
        ast::Statement::Insert(insert) => Statement::Insert(Box::new(insert)),
        ast::Statement::Update(update) => Statement::Update(Box::new(update)),
        ast::Statement::Delete(delete) => Statement::Delete(Box::new(delete)),
        ast::Statement::Merge(merge) => Statement::Merge(Box::new(merge)),
        ast::Statement::Truncate(truncate) => Statement::Truncate(Box::new(truncate)),
        query => question(DfStatement::Statement(Box::new(query))),
    })
}

fn parse_one(tokens: Vec<TokenWithSpan>) -> Result<DfStatement, Error> {
    let may_show = role::may_show_password(&tokens);
    let parsed = parse_shown(tokens);
    if may_show {
        return parsed.map_err(role::without_texts);
    }
    parsed
}

fn parse_shown(tokens: Vec<TokenWithSpan>) -> Result<DfStatement, Error> {
    let (tokens, alias) = rewrite::insert_alias::take(tokens);
    let (tokens, overrides) = rewrite::overriding::take(tokens);
    let tokens = rewrite::merge::spell(tokens);
    let (tokens, explains) = rewrite::explain_options::take(tokens)?;
    let mut statements = DFParserBuilder::new(tokens)
        .with_dialect(&GenericDialect {})
        .with_recursion_limit(NESTING_MAX)
        .build()?
        .parse_statements()?;
    let Some(mut statement) = statements.pop_front() else {
        return Err(Error::Syntax {
            message: "the statement is empty".to_owned(),
            position: None,
        });
    };
    if !statements.is_empty() {
        return Err(Error::Syntax {
            message: ONE_STATEMENT.to_owned(),
            position: None,
        });
    }
    if let Some(alias) = alias {
        rewrite::insert_alias::put(&mut statement, alias);
    }
    if let Some(overrides) = overrides {
        rewrite::overriding::put(&mut statement, overrides);
    }
    if let Some(explains) = explains {
        rewrite::explain_options::put(&mut statement, explains);
    }
    Ok(statement)
}

/// The statement, if it is one that the planner's parser does not know as we do.
fn own(tokens: &[TokenWithSpan], sql: &str) -> Result<Option<Statement>, Error> {
    let own = own_shown(tokens, sql);
    if own.is_err() && role::may_show_password(tokens) {
        return own.map_err(role::without_texts);
    }
    own
}

fn own_shown(tokens: &[TokenWithSpan], sql: &str) -> Result<Option<Statement>, Error> {
    if let Some(error) = session::refuse(tokens) {
        return Err(error);
    }
    let words: Vec<String> = session::words(tokens).take(2).collect();
    let first = words.first().map_or("", String::as_str);
    let is_aggregate = words.get(1).is_some_and(|second| second == "materialized");
    if is_aggregate || aggregate::is_refresh(&words) {
        return of_aggregate(tokens, sql, first);
    }
    if role::is_asked(tokens) {
        let statement = role::read(tokens)?;
        return Ok(Some(Statement::Role(Box::new(statement))));
    }
    if ![
        "create", "alter", "drop", "comment", "show", "describe", "desc", "kill",
    ]
    .contains(&first)
    {
        return Ok(None);
    }
    if words == ["create", "table"]
        && let Some(filled) = filled::read(tokens, sql)?
    {
        return Ok(Some(Statement::Fill(Box::new(filled))));
    }
    let dialect = GenericDialect {};
    let mut grammar = Grammar::new(tokens.to_vec(), &dialect);
    grammar.word(first);
    let found = match first {
        "create" => change::create(&mut grammar, sql)?.map(Statement::Change),
        "alter" => change::alter(&mut grammar)?.map(Statement::Change),
        "drop" => change::drop(&mut grammar)?.map(Statement::Change),
        "comment" => change::comment(&mut grammar)?.map(Statement::Change),
        "show" => match show::show(&mut grammar)? {
            Some(show) => Some(Statement::Show(show)),
            None => return Ok(None),
        },
        "describe" | "desc" => match show::describe(&mut grammar)? {
            Some(show) => Some(Statement::Show(show)),
            None => return Ok(None),
        },
        _ => {
            grammar.word("query");
            Some(Statement::Kill(grammar.number()?))
        }
    };
    let Some(found) = found else {
        return Err(unsupported(&words.join(" ").to_uppercase()));
    };
    grammar.end()?;
    Ok(Some(found))
}

/// A statement of a continuous aggregate.
fn of_aggregate(
    tokens: &[TokenWithSpan],
    sql: &str,
    first: &str,
) -> Result<Option<Statement>, Error> {
    let mut tokens = tokens.to_vec();
    let data = match first {
        "create" => aggregate::take_data(&mut tokens),
        _ => None,
    };
    let dialect = GenericDialect {};
    let mut grammar = Grammar::new(tokens, &dialect);
    grammar.word(first);
    if first != "call" && !grammar.words(&["materialized", "view"]) {
        return grammar.expected("VIEW");
    }
    let found = match first {
        "create" => aggregate::create(&mut grammar, sql, data)?,
        "alter" => aggregate::alter(&mut grammar)?,
        "drop" => aggregate::drop(&mut grammar)?,
        "call" => aggregate::refresh(&mut grammar)?,
        _ => return Ok(None),
    };
    grammar.end()?;
    Ok(Some(Statement::Aggregate(found)))
}

/// Checks a statement of the planner's, and puts values and types where they are missing.
fn prepare(
    statement: &mut DfStatement,
    bounds: Bounds,
    params: &Params,
    asks_names: bool,
) -> Result<Headings, Error> {
    let mut inner = statement;
    let mut writes_too = true;
    while let DfStatement::Explain(explain) = inner {
        inner = &mut explain.statement;
        writes_too = false;
    }
    let DfStatement::Statement(statement) = inner else {
        return Err(unsupported(&first_word(&inner.to_string())));
    };
    let writes = matches!(
        statement.as_ref(),
        ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
            | ast::Statement::Truncate(_)
    );
    if writes && !writes_too {
        return Err(Error::Unsupported {
            statement: format!("EXPLAIN {}", first_word(&statement.to_string())),
            instead: "explain the SELECT that finds the rows",
        });
    }
    if !writes && !reads(statement) {
        return Err(unsupported(&first_word(&statement.to_string())));
    }
    // As the statement was written: values and spellings that take the place of others have no say in names.
    let headings = headings::take(statement);
    params::fill(params, statement.as_mut())?;
    if asks_names {
        rewrite::catalogue::rewrite(statement);
    }
    headings::distinguish(statement);
    rewrite::rewrite(statement)?;
    rewrite::acquisition::refuse_changed(statement)?;
    check_tables(statement, bounds.operators_max)?;
    Ok(if writes_too {
        headings
    } else {
        Headings::default()
    })
}

fn reads(statement: &ast::Statement) -> bool {
    use ast::Statement::{Explain, Query, ShowFunctions};
    match statement {
        Explain { statement, .. } => reads(statement),
        Query(_) | ShowFunctions { .. } => true,
        _ => false,
    }
}

pub(crate) fn first_word(sql: &str) -> String {
    sql.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_uppercase()
}
