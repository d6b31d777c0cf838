//! `t AS OF ACQUISITION time`: the records that a table had at an acquisition time. The parser does not know the clause, so it becomes
//! an argument of the table, and that the version that the tree has a place for (`planning::acquisition` carries it out).

use datafusion::sql::sqlparser::ast::{
    self, FromTable, FunctionArgExpr, TableFactor, TableVersion, TableWithJoins,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::calls::named;
use crate::error::Error;
use crate::statement::name::position;

/// The argument that the time is. Nobody names it so.
const MARKER: &str = "__as_of_acquisition";

/// Words of a type before its text, as in `TIMESTAMP WITH TIME ZONE '...'`.
const WORDS_MAX: usize = 4;

fn is(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Whether a statement asks what was known at a time.
pub(crate) fn asks_acquisition(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is(token, MARKER))
}

/// The place of the next token that says something, from `from` on.
fn next(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let rest = tokens.get(from..)?.iter();
    let filling = rest.take_while(|token| matches!(token.token, Token::Whitespace(_)));
    let at = from + filling.count();
    (at < tokens.len()).then_some(at)
}

/// Turns each clause among the tokens into an argument of its table.
pub(crate) fn as_of_acquisition(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, Error> {
    if !tokens.iter().any(|token| is(token, "acquisition")) {
        return Ok(tokens);
    }
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let Some(time) = clause(&tokens, at) else {
            rewritten.push(token.clone());
            at += 1;
            continue;
        };
        let refused = |message: &str| Error::Syntax {
            message: message.to_owned(),
            position: position(token.span),
        };
        let before = rewritten.iter().rev();
        let mut before = before.filter(|it| !matches!(it.token, Token::Whitespace(_)));
        if !matches!(before.next().map(|it| &it.token), Some(Token::Word(_))) {
            return Err(refused(
                "AS OF ACQUISITION stands behind the name of a table",
            ));
        }
        let Some(end) = end_of_time(&tokens, time) else {
            return Err(refused(
                "AS OF ACQUISITION needs a time: AS OF ACQUISITION '2026-01-31 12:00:00Z'",
            ));
        };
        let with = |kind| TokenWithSpan::new(kind, token.span);
        rewritten.push(with(Token::LParen));
        rewritten.push(with(Token::Word(Word {
            value: MARKER.to_owned(),
            quote_style: None,
            keyword: Keyword::NoKeyword,
        })));
        rewritten.push(with(Token::RArrow));
        rewritten.extend(tokens.get(time..end).unwrap_or_default().iter().cloned());
        rewritten.push(with(Token::RParen));
        at = end;
    }
    Ok(rewritten)
}

/// Where the time of a clause begins, if one begins here.
fn clause(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut place = at;
    for wanted in ["as", "of", "acquisition"] {
        if !is(tokens.get(place)?, wanted) {
            return None;
        }
        place = next(tokens, place + 1).unwrap_or(tokens.len());
    }
    Some(place)
}

/// Where a time ends: a text with or without a type before or behind it, a parameter, or whatever stands in parentheses or is a call.
fn end_of_time(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut at = from;
    let mut words = 0;
    let mut end = loop {
        match &tokens.get(at)?.token {
            Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::Number(..) => {
                break at + 1;
            }
            Token::LParen => break end_of_parentheses(tokens, at)?,
            Token::Word(word) if word.quote_style.is_none() && words < WORDS_MAX => {
                words += 1;
                at = next(tokens, at + 1)?;
            }
            _ => return None,
        }
    };
    while let Some(cast) = next(tokens, end)
        && tokens.get(cast)?.token == Token::DoubleColon
    {
        end = next(tokens, cast + 1)? + 1;
        for word in ["with", "time", "zone"] {
            match next(tokens, end) {
                Some(at) if tokens.get(at).is_some_and(|it| is(it, word)) => end = at + 1,
                _ => break,
            }
        }
    }
    Some(end)
}

fn end_of_parentheses(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth <= 1 => return Some(at + 1),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The time that is the argument of a table.
pub(crate) fn time_of(table: &TableFactor) -> Option<&ast::Expr> {
    let TableFactor::Table {
        args: Some(args), ..
    } = table
    else {
        return None;
    };
    let [argument] = args.args.as_slice() else {
        return None;
    };
    match named(argument) {
        Some((name, FunctionArgExpr::Expr(time))) if name.value == MARKER => Some(time),
        _ => None,
    }
}

/// Puts the time where the tree has a place for it.
pub(super) fn rewrite(table: &mut TableFactor) {
    let Some(time) = time_of(table).cloned() else {
        return;
    };
    if let TableFactor::Table { args, version, .. } = table {
        *args = None;
        *version = Some(TableVersion::ForSystemTimeAsOf(time));
    }
}

/// Refuses to change the rows that were known at a time.
pub(crate) fn refuse_changed(statement: &ast::Statement) -> Result<(), Error> {
    let has_version = |tables: &[TableWithJoins]| {
        let mut tables = tables.iter().map(|it| &it.relation);
        tables.any(|it| {
            matches!(
                it,
                TableFactor::Table {
                    version: Some(_),
                    ..
                }
            )
        })
    };
    let is_changed = match statement {
        ast::Statement::Update(update) => has_version(std::slice::from_ref(&update.table)),
        ast::Statement::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => {
                has_version(tables)
            }
        },
        _ => false,
    };
    if is_changed {
        return Err(Error::Unsupported {
            statement: "AS OF ACQUISITION behind the table whose rows change".to_owned(),
            instead: "what was known cannot be changed; find the rows in a sub-select",
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(sql: &str) -> Result<String, Error> {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
        let tokens = as_of_acquisition(tokens.unwrap())?;
        Ok(tokens.iter().map(|it| it.token.to_string()).collect())
    }

    #[test]
    fn the_clause_becomes_an_argument_of_its_table() {
        for (time, rest) in [
            ("'2026-01-01'", " a WHERE x"),
            ("$1", ", u"),
            ("'2026-01-01'::timestamptz", ""),
            ("'2026-01-01'::timestamp with time zone", " JOIN u ON true"),
            ("TIMESTAMP WITH TIME ZONE '2026-01-01'", " AS a"),
            ("CAST($1 AS TIMESTAMPTZ)", ")"),
            ("($1)", " WITH"),
        ] {
            let sql = format!("FROM \"T\" as  of\nAcquisition {time}{rest}");
            let expected = format!("FROM \"T\" ({MARKER}=>{time}){rest}");
            assert_eq!(rewritten(&sql).unwrap(), expected);
        }
        for other in ["SELECT acquisition AS of", "SELECT a AS \"of\" acquisition"] {
            assert_eq!(rewritten(other).unwrap(), other);
        }
    }

    #[test]
    fn a_clause_in_a_wrong_place_or_without_a_time_is_refused() {
        for (sql, words) in [
            ("FROM t AS OF ACQUISITION", "needs a time"),
            ("FROM t AS OF ACQUISITION , u", "needs a time"),
            ("FROM t AS OF ACQUISITION (1", "needs a time"),
            ("FROM (SELECT 1) AS OF ACQUISITION '1'", "behind the name"),
            ("AS OF ACQUISITION '1'", "behind the name"),
        ] {
            let refused = rewritten(sql).unwrap_err().to_string();
            assert!(refused.contains(words), "{sql}: {refused}");
        }
    }
}
