//! `EXPLAIN (ANALYZE, FORMAT JSON)`: the options of `PostgreSQL`, which the parser has other ones of.
//!
//! Does: take the list of options away, keep ANALYZE, VERBOSE and the format. Does not: answer (`sql::explained` does).

use datafusion::common::format::ExplainFormat;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::Error;

/// What says how much is told of a plan here: nothing more or less.
const IGNORED: [&str; 6] = [
    "buffers",
    "costs",
    "generic_plan",
    "settings",
    "summary",
    "timing",
];

/// What was asked for in a list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    analyze: bool,
    verbose: bool,
    json: bool,
}

fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Number(digits, _) => Some(digits.clone()),
        _ => None,
    }
}

/// Takes the list away from the tokens of an EXPLAIN that has one of `PostgreSQL`'s.
pub(crate) fn take(
    mut tokens: Vec<TokenWithSpan>,
) -> Result<(Vec<TokenWithSpan>, Option<Asked>), Error> {
    let significant: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(at, _)| at)
        .collect();
    let nth = |nth: usize| significant.get(nth).and_then(|at| tokens.get(*at));
    let is_list = nth(0).and_then(word).as_deref() == Some("explain")
        && nth(1).is_some_and(|it| it.token == Token::LParen)
        // A query may be in parentheses too.
        && nth(2).and_then(word).is_some_and(|it| {
            it == "analyze" || it == "verbose" || it == "format" || IGNORED.contains(&it.as_str())
        });
    if !is_list {
        return Ok((tokens, None));
    }
    let mut asked = Asked::default();
    let mut at = 2;
    loop {
        let name = nth(at).and_then(word).unwrap_or_default();
        let value = nth(at + 1).and_then(word);
        at += 1 + usize::from(value.is_some());
        let is_on = !matches!(value.as_deref(), Some("false" | "off" | "0"));
        match (name.as_str(), value.as_deref()) {
            ("analyze", _) => asked.analyze = is_on,
            ("verbose", _) => asked.verbose = is_on,
            ("format", Some("json" | "pgjson")) => asked.json = true,
            ("format", Some("text" | "indent")) => {}
            ("format", value) => {
                return Err(Error::Unsupported {
                    statement: format!("EXPLAIN in the format {}", value.unwrap_or_default()),
                    instead: "write FORMAT TEXT or FORMAT JSON",
                });
            }
            (name, _) if IGNORED.contains(&name) => {}
            // The parser has an option of this name, or says that there is none.
            _ => return Ok((tokens, None)),
        }
        match nth(at).map(|it| &it.token) {
            Some(Token::Comma) => at += 1,
            Some(Token::RParen) => break,
            _ => return Ok((tokens, None)),
        }
    }
    let (Some(&from), Some(&to)) = (significant.get(1), significant.get(at)) else {
        return Ok((tokens, None));
    };
    let mut kept = Vec::new();
    for (is_asked, name, keyword) in [
        (asked.analyze, "ANALYZE", Keyword::ANALYZE),
        (asked.verbose, "VERBOSE", Keyword::VERBOSE),
    ] {
        if is_asked && let Some(place) = tokens.get(from) {
            let word = Word {
                value: name.to_owned(),
                quote_style: None,
                keyword,
            };
            kept.push(TokenWithSpan::new(Token::Word(word), place.span));
        }
    }
    tokens.splice(from..=to, kept);
    Ok((tokens, Some(asked)))
}

/// Puts the format where the tree has its place.
pub(crate) fn put(statement: &mut DfStatement, asked: Asked) {
    if let DfStatement::Explain(explain) = statement
        && asked.json
    {
        explain.options.format = Some(ExplainFormat::PostgresJSON);
    }
}
