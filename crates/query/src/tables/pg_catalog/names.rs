//! Detection of statements that name the catalogue.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::define::{INFORMATION_SCHEMA, PG_CATALOG, TIMESCALEDB_INFORMATION};

/// Types whose values are numbers with names.
pub(crate) const NAMED_TYPES: [&str; 11] = [
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// Words that only the catalogue or a session answers, wherever they stand.
const WORDS: [&str; 8] = [
    "current_catalog",
    "current_role",
    "current_schema",
    "current_user",
    "information_schema",
    "session_user",
    "timescaledb_information",
    "user",
];

/// The same of functions: a column may have such a name.
const CALLS: [&str; 37] = [
    "acldefault",
    "approximate_row_count",
    "array_lower",
    "array_upper",
    "chunk_columnstore_stats",
    "chunk_compression_stats",
    "chunks_detailed_size",
    "col_description",
    "current_database",
    "current_schemas",
    "current_setting",
    "currval",
    "format_type",
    "generate_subscripts",
    "getdatabaseencoding",
    "hypertable_columnstore_stats",
    "hypertable_compression_stats",
    "hypertable_detailed_size",
    "hypertable_size",
    "lastval",
    "nextval",
    "obj_description",
    "parse_ident",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "set_config",
    "setval",
    "shobj_description",
    "show_chunks",
    "timescaledb_post_restore",
    "timescaledb_pre_restore",
    "to_regclass",
    "to_regtype",
    "txid_current",
    "txid_current_if_assigned",
    "version",
];

/// Whether a schema is one of the catalogue's.
pub(crate) fn is_catalogue(schema: &str) -> bool {
    [PG_CATALOG, INFORMATION_SCHEMA, TIMESCALEDB_INFORMATION].contains(&schema)
}

/// Whether a statement may speak of the catalogue, or of the session that it runs in.
pub(crate) fn mentions(tokens: &[TokenWithSpan]) -> bool {
    let mut significant = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .peekable();
    while let Some(token) = significant.next() {
        let is_called = matches!(significant.peek(), Some(Token::LParen));
        if let Token::Word(word) = token
            && is_word(&word.value, is_called)
        {
            return true;
        }
    }
    false
}

fn is_word(word: &str, is_called: bool) -> bool {
    let starts = |with: &str| {
        word.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    let among = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    starts("pg_")
        || starts("_pg_")
        || among(&WORDS)
        || among(&NAMED_TYPES)
        || is_called && (starts("has_") || starts("inet_") || among(&CALLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_users_are_not_taken_for_those_of_tools() {
        assert!(WORDS.is_sorted() && CALLS.is_sorted());
        for word in ["PG_CLASS", "Version", "has_table_privilege", "regclass"] {
            assert!(is_word(word, true), "{word}");
        }
        for word in ["cpu", "has_error", "version", "p", "username"] {
            assert!(!is_word(word, false), "{word}");
        }
    }
}
