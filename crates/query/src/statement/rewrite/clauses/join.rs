//! `a ASOF [LEFT] JOIN b ON ...` as a join that the parser knows: the word goes, and its condition calls a marker
//! that the rule of `asof` looks for. `MATCH_CONDITION (...)`, if there is one, becomes part of the condition.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

use crate::operators::asof::MARKER;

/// Rewrites every `ASOF` join among the tokens. If one of them has no condition, all stay as they are, for the parser to
/// refuse: without the word it would be a join of another kind.
pub(crate) fn asof_joins(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(token, Keyword::ASOF)) {
        return tokens;
    }
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 16);
    // Depths of parentheses at which an ASOF join waits for its condition.
    let mut waiting: Vec<usize> = Vec::new();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let is_awaited = waiting.last() == Some(&depth);
        if is(token, Keyword::ASOF) && is_join(tokens.get(at..).unwrap_or_default()) {
            waiting.push(depth);
            continue;
        }
        if is_awaited && is(token, Keyword::MATCH_CONDITION) {
            waiting.pop();
            let end = end_of_parentheses(&tokens, at);
            add(
                &mut rewritten,
                token,
                [keyword("ON", Keyword::ON), space(), marker()],
            );
            rewritten.extend(tokens.get(at..end).unwrap_or_default().iter().cloned());
            at = end;
            let next = end + spaces(tokens.get(end..).unwrap_or_default());
            if tokens.get(next).is_some_and(|token| is(token, Keyword::ON)) {
                add(
                    &mut rewritten,
                    token,
                    [space(), keyword("AND", Keyword::AND), space()],
                );
                at = next + 1;
            }
            continue;
        }
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if is_awaited => return tokens,
            _ if is_awaited && is(token, Keyword::USING) => return tokens,
            _ => {}
        }
        rewritten.push(token.clone());
        if is_awaited && is(token, Keyword::ON) {
            waiting.pop();
            add(&mut rewritten, token, [space(), marker(), Token::LParen]);
            add(
                &mut rewritten,
                token,
                [keyword("TRUE", Keyword::TRUE), Token::RParen],
            );
            add(
                &mut rewritten,
                token,
                [space(), keyword("AND", Keyword::AND), space()],
            );
        }
    }
    if waiting.is_empty() {
        rewritten
    } else {
        tokens
    }
}

fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// Whether what follows the word `ASOF` makes it the start of a join, and not the name of something.
fn is_join(after: &[TokenWithSpan]) -> bool {
    let mut words = after.iter().filter_map(|token| match &token.token {
        Token::Whitespace(_) => None,
        Token::Word(word) => Some(word.keyword),
        _ => Some(Keyword::NoKeyword),
    });
    loop {
        match words.next() {
            Some(Keyword::INNER | Keyword::LEFT | Keyword::OUTER) => {}
            Some(Keyword::JOIN) => return true,
            _ => return false,
        }
    }
}

fn spaces(tokens: &[TokenWithSpan]) -> usize {
    tokens
        .iter()
        .take_while(|token| matches!(token.token, Token::Whitespace(_)))
        .count()
}

/// Where the parentheses that open next end; the place after the last token if they never do.
fn end_of_parentheses(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth <= 1 => return at + 1,
            Token::RParen => depth -= 1,
            Token::Whitespace(_) => {}
            _ if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Adds tokens at the place of another, so that an error points there.
fn add<const N: usize>(to: &mut Vec<TokenWithSpan>, place: &TokenWithSpan, tokens: [Token; N]) {
    to.extend(tokens.map(|token| TokenWithSpan {
        token,
        span: place.span,
    }));
}

fn keyword(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word {
        value: value.to_owned(),
        quote_style: None,
        keyword,
    })
}

fn marker() -> Token {
    keyword(MARKER, Keyword::NoKeyword)
}

fn space() -> Token {
    Token::Whitespace(Whitespace::Space)
}
