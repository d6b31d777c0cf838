//! `x BETWEEN SYMMETRIC a AND b`: between the two whichever is the greater. The parser does not know the word, so it becomes a
//! call around `a`, and that becomes two conditions, as `PostgreSQL` spells it too. `ASYMMETRIC`, the other way to say what
//! BETWEEN means, goes.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::Error;
use crate::statement::rewrite::rows::Copies;

/// What is called around the first bound. Nobody calls it by name.
const MARKER: &str = "__symmetric";

/// What a copy counts. Conditions in conditions double with each level, and the planner looks at them again and again: as text, 32 KiB
/// of them are enough.
const COST: usize = 32;

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn next_word(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let rest = tokens.iter().enumerate().skip(from);
    let mut words = rest.filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    words.next().map(|(at, _)| at)
}

/// Turns the word among the tokens into a call. Where no second bound follows, all stays for the parser to refuse.
pub(crate) fn between_symmetric(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_asked = |token: &TokenWithSpan| {
        matches!(
            keyword(token),
            Some(Keyword::SYMMETRIC | Keyword::ASYMMETRIC)
        )
    };
    if !tokens.iter().any(is_asked) {
        return tokens;
    }
    let mut dropped = vec![false; tokens.len()];
    let mut opens = vec![false; tokens.len()];
    let mut closes = vec![0usize; tokens.len()];
    for (at, token) in tokens.iter().enumerate() {
        if keyword(token) != Some(Keyword::BETWEEN) {
            continue;
        }
        let Some(word) = next_word(&tokens, at + 1) else {
            continue;
        };
        let is_bound = next_word(&tokens, word + 1)
            .and_then(|next| tokens.get(next))
            .is_none_or(|next| keyword(next) == Some(Keyword::AND));
        match tokens.get(word).and_then(keyword) {
            // A column of that name.
            _ if is_bound => {}
            Some(Keyword::ASYMMETRIC) => mark(&mut dropped, word),
            Some(Keyword::SYMMETRIC) => {
                if let Some(close) = end_of_bound(&tokens, word + 1)
                    && let Some(count) = closes.get_mut(close)
                {
                    *count += 1;
                    mark(&mut opens, word);
                }
            }
            _ => {}
        }
    }
    let mut spelled = Vec::with_capacity(tokens.len() + 8);
    let marks = dropped.into_iter().zip(opens).zip(closes);
    for (token, ((is_dropped, is_open), closed)) in tokens.into_iter().zip(marks) {
        let with = |kind| TokenWithSpan::new(kind, token.span);
        spelled.extend((0..closed).map(|_| with(Token::RParen)));
        if is_open {
            spelled.push(with(Token::Word(Word {
                value: MARKER.to_owned(),
                quote_style: None,
                keyword: Keyword::NoKeyword,
            })));
            spelled.push(with(Token::LParen));
        } else if !is_dropped {
            spelled.push(token);
        }
    }
    spelled
}

fn mark(marks: &mut [bool], at: usize) {
    if let Some(mark) = marks.get_mut(at) {
        *mark = true;
    }
}

/// The AND after a bound, in which AND stands in parentheses or in CASE only.
fn end_of_bound(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match (&token.token, keyword(token)) {
            (Token::LParen | Token::LBracket, _) | (_, Some(Keyword::CASE)) => depth += 1,
            (Token::RParen | Token::RBracket, _) | (_, Some(Keyword::END)) => {
                depth = depth.checked_sub(1)?;
            }
            (_, Some(Keyword::AND)) if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Spells the condition out, with what it holds left for the visitor to find.
pub(crate) fn rewrite(expr: &mut Expr, copies: &mut Copies) -> Result<(), Error> {
    let Expr::Between {
        expr: value,
        negated,
        low,
        high,
    } = expr
    else {
        return Ok(());
    };
    let Some(low) = marked(low) else {
        return Ok(());
    };
    copies.take(&[*value.clone(), low.clone(), *high.clone()], COST)?;
    let between = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: value.clone(),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    let either = Expr::Nested(Box::new(Expr::BinaryOp {
        left: between(low, high),
        op: BinaryOperator::Or,
        right: between(high, low),
    }));
    *expr = if *negated {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(either),
        }
    } else {
        either
    };
    Ok(())
}

/// The bound that is in the call.
fn marked(bound: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = bound else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(bound))]
            if function.name.to_string() == MARKER =>
        {
            Some(bound)
        }
        _ => None,
    }
}
