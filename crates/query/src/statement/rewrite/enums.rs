//! Casts to types that somebody has made, `'sad'::mood`: calls that look the type up when the statement runs.

use datafusion::sql::sqlparser::ast::{Expr, TypedString, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::calls::call_of;
use crate::statement::types::{self, ENUM_CAST, null};

/// Rewrites an expression if it is such a cast.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Cast {
            expr: value,
            data_type,
            ..
        } => {
            if let Some(name) = types::own_name(data_type) {
                let value = std::mem::replace(value.as_mut(), null());
                *expr = cast_to(&name, value);
            }
        }
        Expr::TypedString(TypedString {
            data_type, value, ..
        }) => {
            if let Some(name) = types::own_name(data_type) {
                *expr = cast_to(&name, Expr::Value(value.clone()));
            }
        }
        _ => {}
    }
}

fn cast_to(name: &str, value: Expr) -> Expr {
    let name = Expr::value(Value::SingleQuotedString(name.to_owned()));
    call_of(ENUM_CAST, vec![name, value])
}

/// Whether a statement may cast to such a type.
pub(crate) fn casts_to_own(tokens: &[TokenWithSpan]) -> bool {
    let mut last: [Option<&Token>; 2] = [None, None];
    let is_cast = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::CAST);
    let has_cast = tokens.iter().any(is_cast);
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let is_named = |token: &Token| match token {
            Token::Word(word) => {
                word.keyword == Keyword::NoKeyword && types::is_own(&word.value.to_lowercase())
            }
            _ => false,
        };
        match (last[1], &token.token) {
            (Some(Token::DoubleColon), word) if is_named(word) => return true,
            (Some(word), Token::RParen) if has_cast && is_named(word) => {
                let is_as =
                    matches!(last[0], Some(Token::Word(word)) if word.keyword == Keyword::AS);
                if is_as {
                    return true;
                }
            }
            _ => {}
        }
        last = [last[1], Some(&token.token)];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn casts_to_types_that_are_known_are_no_business_of_theirs() {
        for (text, is_own) in [
            ("SELECT 'sad'::mood", true),
            ("SELECT CAST ( x AS mood ) FROM t", true),
            (
                "SELECT x::bigint, y::text, CAST(z AS double precision)",
                false,
            ),
            ("SELECT x::regclass, y::oid", false),
            ("SELECT n FROM (SELECT 1 AS n)", false),
        ] {
            let mut tokens = Tokenizer::new(&GenericDialect {}, text);
            let tokens = tokens.tokenize_with_location().unwrap();
            assert_eq!(casts_to_own(&tokens), is_own, "{text}");
        }
    }
}
