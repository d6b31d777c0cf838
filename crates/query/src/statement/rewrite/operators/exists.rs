//! `?`, `?|` and `?&` of `jsonb`: whether there is a key. To the tokenizer a question mark is a parameter, and ours are `$1`.
//!
//! Does: tell the operator from a parameter, which whoever reads parameters refuses with the way to write it.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words before which no operand has ended.
const BEFORE_OPERANDS: [Keyword; 22] = [
    Keyword::SELECT,
    Keyword::DISTINCT,
    Keyword::ALL,
    Keyword::WHERE,
    Keyword::HAVING,
    Keyword::ON,
    Keyword::AND,
    Keyword::OR,
    Keyword::NOT,
    Keyword::IN,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::BETWEEN,
    Keyword::CASE,
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::BY,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::RETURNING,
    Keyword::INTERVAL,
];

/// Whether an operand may end with a token.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some() || !BEFORE_OPERANDS.contains(&word.keyword),
        Token::RParen | Token::RBracket | Token::SingleQuotedString(_) | Token::Number(..) => true,
        Token::Placeholder(name) => name != "?",
        _ => false,
    }
}

/// Question marks as the operators that they are, where an operand stands before them.
pub(crate) fn question_marks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_mark =
        |token: &TokenWithSpan| matches!(&token.token, Token::Placeholder(it) if it == "?");
    if !tokens.iter().any(is_mark) {
        return tokens;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for mut token in tokens.drain(..) {
        let joined = match (kept.last().map(|last| &last.token), &token.token) {
            (Some(Token::Question), Token::Pipe) => Some(Token::QuestionPipe),
            (Some(Token::Question), Token::Ampersand) => Some(Token::QuestionAnd),
            _ => None,
        };
        if let Some(joined) = joined
            && let Some(last) = kept.last_mut()
        {
            last.token = joined;
            continue;
        }
        let mut before = kept.iter().rev().map(|kept| &kept.token);
        let before = before.find(|token| !matches!(token, Token::Whitespace(_)));
        if is_mark(&token) && before.is_some_and(ends_operand) {
            token.token = Token::Question;
        }
        kept.push(token);
    }
    kept
}
