//! Statements that are read in microseconds, told by their tokens: rows of values, few and flat.
//!
//! Does: say whether a statement may be parsed where its client's connection is served. Does not: say that it is carried out
//! there: what needs the planner leaves that thread (`Writing::plan`).

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::Params;

/// Bytes of a text that is looked at on the thread of a connection at all: as long as the shape of a template may be.
const TEXT_BYTES_MAX: usize = 8192;

/// Bytes of the values that come beside it.
const VALUES_BYTES_MAX: usize = 64 << 10;

/// Tokens that are parsed there, spaces among them: some microseconds.
const TOKENS_MAX: usize = 512;

/// Parentheses within each other: a row has one, a call in it a second, and what is deeper takes stack.
const DEPTH_MAX: usize = 3;

/// Whether a text and its values may be looked at on the thread of a connection.
pub(crate) fn is_short(sql: &str, params: &Params) -> bool {
    sql.len() <= TEXT_BYTES_MAX && params.bytes() <= VALUES_BYTES_MAX
}

/// Whether a statement is an INSERT of a few values, without a query.
pub(crate) fn is_few_values(tokens: &[TokenWithSpan]) -> bool {
    if tokens.len() > TOKENS_MAX {
        return false;
    }
    let mut depth = 0usize;
    let mut first = None;
    let mut has_values = false;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return false;
                }
            }
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Word(word) => {
                let keyword = if word.quote_style.is_some() {
                    Keyword::NoKeyword
                } else {
                    word.keyword
                };
                first.get_or_insert(keyword);
                has_values |= keyword == Keyword::VALUES;
                if matches!(keyword, Keyword::SELECT | Keyword::WITH) {
                    return false;
                }
            }
            _ => {}
        }
    }
    has_values && first == Some(Keyword::INSERT)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn is_few(sql: &str) -> bool {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
        is_few_values(&tokens.unwrap())
    }

    #[test]
    fn few_flat_values_are_told_from_anything_else() {
        for sql in [
            "INSERT INTO t VALUES (1, now(), 'SELECT')",
            "insert into \"select\" (a, b) values ($1, ARRAY[1, 2]) ON CONFLICT DO NOTHING",
        ] {
            assert!(is_few(sql), "{sql}");
        }
        for sql in [
            "INSERT INTO t SELECT 1",
            "WITH a AS (VALUES (1)) INSERT INTO t SELECT * FROM a",
            "INSERT INTO t VALUES (((((1)))))",
            "INSERT INTO t VALUES ((SELECT 1))",
            "VALUES (1)",
            "UPDATE t SET a = 1",
            "",
        ] {
            assert!(!is_few(sql), "{sql}");
        }
        assert!(!is_few(&format!(
            "INSERT INTO t VALUES (1){}",
            ", (1)".repeat(200)
        )));
    }

    #[test]
    fn large_values_beside_a_short_text_are_not_short() {
        let mut params = Params::new();
        params.push("a".repeat(VALUES_BYTES_MAX));
        assert!(is_short("SELECT $1", &params));
        params.push("b");
        assert!(!is_short("SELECT $1", &params));
    }
}
