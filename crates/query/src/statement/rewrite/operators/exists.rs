//! `?`, `?|` and `?&` of `jsonb`: whether there is a key. To the tokenizer a question mark is a parameter, and ours are `$1`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Question marks as the operators that they are.
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
        if is_mark(&token) {
            token.token = Token::Question;
        }
        kept.push(token);
    }
    kept
}
