//! Statements of continuous aggregates.
//!
//! Does: read `CREATE`, `ALTER` and `DROP MATERIALIZED VIEW` and `CALL refresh_continuous_aggregate`. Does not: say whether a query
//! can be computed bucket by bucket (`planning/incremental.rs` does), or carry anything out (`sql/aggregate.rs` does).

mod columns;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::change::between;
use super::grammar::Grammar;
use super::name::{Path, position};
use super::settings::{self, Setting};
use crate::error::{Error, Position};

const REFRESH: &str = "refresh_continuous_aggregate";
const USAGE: &str =
    "CALL refresh_continuous_aggregate('view', from, until), with NULL for no bound";

/// A statement of a continuous aggregate.
#[derive(Debug, Clone)]
pub(crate) enum AggregateStatement {
    Create(Box<WrittenAggregate>),
    Refresh {
        view: Path,
        from: Box<Expr>,
        until: Box<Expr>,
        /// Whether what has not changed is computed too.
        is_forced: bool,
    },
    SetStoredOnly(Path, bool),
    Drop {
        view: Path,
        if_exists: bool,
    },
}

/// A continuous aggregate as it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenAggregate {
    pub(crate) view: Path,
    pub(crate) if_not_exists: bool,
    pub(crate) is_stored_only: bool,
    pub(crate) query: String,
    /// Whether it is computed at once.
    pub(crate) with_data: bool,
}

/// `WITH [NO] DATA` at the end of a statement, which the parser would take for a part of its GROUP BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Data {
    with: bool,
    position: Option<Position>,
}

impl Data {
    pub(super) fn is_with(self) -> bool {
        self.with
    }

    pub(super) fn position(self) -> Option<Position> {
        self.position
    }
}

/// Takes it off.
pub(super) fn take_data(tokens: &mut Vec<TokenWithSpan>) -> Option<Data> {
    let is_word = |token: &Token, wanted: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    let significant: Vec<usize> = (0..tokens.len())
        .rev()
        .filter(|at| {
            let token = tokens.get(*at).map(|token| &token.token);
            !matches!(
                token,
                None | Some(Token::Whitespace(_) | Token::SemiColon | Token::EOF)
            )
        })
        .take(3)
        .collect();
    let word = |nth: usize, wanted: &str| {
        let token = significant.get(nth).and_then(|at| tokens.get(*at));
        token.is_some_and(|token| is_word(&token.token, wanted))
    };
    if !word(0, "data") {
        return None;
    }
    let (nth, with) = match (word(1, "with"), word(1, "no") && word(2, "with")) {
        (true, _) => (1, true),
        (_, true) => (2, false),
        _ => return None,
    };
    let start = *significant.get(nth)?;
    let position = tokens.get(start).and_then(|token| position(token.span));
    tokens.truncate(start);
    Some(Data { with, position })
}

/// Reads what follows CREATE MATERIALIZED VIEW.
pub(super) fn create(
    grammar: &mut Grammar<'_>,
    sql: &str,
    data: Option<Data>,
) -> Result<AggregateStatement, Error> {
    let if_not_exists = grammar.if_not_exists();
    let view = grammar.path()?;
    let names = if matches!(grammar.peek(), Token::LParen) {
        grammar.names()?
    } else {
        Vec::new()
    };
    let at = grammar.position();
    let settings = if grammar.word("with") {
        settings::parse(grammar)?
    } else {
        Vec::new()
    };
    let wish = settings::of_aggregate(&settings)?;
    if !wish.is_continuous {
        return Err(Error::Plan {
            message: "write CREATE MATERIALIZED VIEW ... WITH (timescaledb.continuous) AS ...; materialized views of PostgreSQL are not supported".to_owned(),
            position: at,
        });
    }
    grammar.expect_word("AS")?;
    let position = grammar.position();
    let parsed = grammar.query()?;
    let end = grammar
        .position()
        .or_else(|| data.and_then(|data| data.position));
    let query = between(sql, position, end).trim();
    let query = match names.as_slice() {
        [] => query.trim_end_matches(';').trim_end().to_owned(),
        names => columns::named(*parsed, names)?.to_string(),
    };
    Ok(AggregateStatement::Create(Box::new(WrittenAggregate {
        view,
        if_not_exists,
        is_stored_only: wish.is_stored_only.unwrap_or(false),
        query,
        with_data: data.is_none_or(|data| data.with),
    })))
}

/// Reads what follows ALTER MATERIALIZED VIEW.
pub(super) fn alter(grammar: &mut Grammar<'_>) -> Result<AggregateStatement, Error> {
    let view = grammar.path()?;
    if !grammar.word("set") {
        return grammar.expected("SET (timescaledb.materialized_only = true or false)");
    }
    let at = grammar.position();
    let settings: Vec<Setting> = settings::parse(grammar)?;
    match settings::of_aggregate(&settings)?.is_stored_only {
        Some(is_stored_only) => Ok(AggregateStatement::SetStoredOnly(view, is_stored_only)),
        None => Err(Error::Plan {
            message: "only timescaledb.materialized_only can be changed".to_owned(),
            position: at,
        }),
    }
}

/// Reads what follows DROP MATERIALIZED VIEW.
pub(super) fn drop(grammar: &mut Grammar<'_>) -> Result<AggregateStatement, Error> {
    let if_exists = grammar.if_exists();
    let view = grammar.path()?;
    let _ = grammar.word("cascade") || grammar.word("restrict");
    Ok(AggregateStatement::Drop { view, if_exists })
}

/// Whether a statement is a call of a refresh.
pub(super) fn is_refresh(words: &[String]) -> bool {
    matches!(words, [call, name, ..] if call == "call" && name == REFRESH)
}

/// Reads what follows CALL.
pub(super) fn refresh(grammar: &mut Grammar<'_>) -> Result<AggregateStatement, Error> {
    grammar.word(REFRESH);
    let at = grammar.position();
    grammar.expect(&Token::LParen)?;
    let mut places: Vec<Expr> = Vec::new();
    let mut named: Vec<(String, Expr)> = Vec::new();
    loop {
        let at = grammar.position();
        let written = grammar.expression()?;
        let name = match &written {
            Expr::Identifier(name) => Some(name.value.to_ascii_lowercase()),
            _ => None,
        };
        match name {
            Some(name) if grammar.token(&Token::RArrow) => {
                named.push((name, grammar.expression()?));
            }
            _ if named.is_empty() => places.push(written),
            _ => {
                return Err(Error::Plan {
                    message: "an argument without a name comes after one with a name".to_owned(),
                    position: at,
                });
            }
        }
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    let wrong = |message: String| Error::Plan {
        message,
        position: at,
    };
    let known = [
        "continuous_aggregate",
        "window_start",
        "window_end",
        "force",
    ];
    let mut given: [Option<Expr>; 4] = [None, None, None, None];
    let numbered = places.into_iter().enumerate();
    let by_name = named.into_iter().map(|(name, value)| {
        let place = known.iter().position(|it| *it == name);
        (place.unwrap_or(usize::MAX), value)
    });
    for (place, value) in numbered.chain(by_name) {
        match given.get_mut(place) {
            Some(slot @ None) => *slot = Some(value),
            _ => return Err(wrong(format!("write {USAGE}"))),
        }
    }
    let [Some(view), Some(from), Some(until), force] = given else {
        return Err(wrong(format!("write {USAGE}")));
    };
    let is_forced = match force.map(|force| force.to_string().to_ascii_lowercase()) {
        None => false,
        Some(force) if force == "true" || force == "false" => force == "true",
        Some(_) => return Err(wrong("force is true or false".to_owned())),
    };
    let view = named_view(&view).ok_or_else(|| wrong(format!("write {USAGE}")))?;
    Ok(AggregateStatement::Refresh {
        view,
        from: Box::new(from),
        until: Box::new(until),
        is_forced,
    })
}

/// The view that a text names, alone or as a regclass.
fn named_view(written: &Expr) -> Option<Path> {
    use datafusion::sql::sqlparser::ast::Value;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    match written {
        Expr::Cast { expr, .. } => named_view(expr),
        Expr::Value(value) => {
            let Value::SingleQuotedString(text) = &value.value else {
                return None;
            };
            let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).ok()?;
            Path::of(&parser.parse_object_name(false).ok()?).ok()
        }
        _ => None,
    }
}
