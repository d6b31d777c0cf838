//! Which statements speak of the catalogue.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::define::{INFORMATION_SCHEMA, PG_CATALOG};

/// Words that only the catalogue or a session answers, besides those that begin with `pg_` and `has_`.
const WORDS: [&str; 40] = [
    "acldefault",
    "array_lower",
    "array_upper",
    "col_description",
    "current_catalog",
    "current_database",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "generate_subscripts",
    "getdatabaseencoding",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "information_schema",
    "obj_description",
    "parse_ident",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "regclass",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
    "session_user",
    "set_config",
    "shobj_description",
    "to_regclass",
    "to_regtype",
    "txid_current",
    "user",
    "version",
];

/// Whether a schema is one of the catalogue's.
pub(crate) fn is_catalogue(schema: &str) -> bool {
    schema == PG_CATALOG || schema == INFORMATION_SCHEMA
}

/// Whether a statement may speak of the catalogue, or of the session that it runs in.
pub(crate) fn mentions(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Word(word) => is_word(&word.value),
        _ => false,
    })
}

fn is_word(word: &str) -> bool {
    let starts = |with: &str| {
        word.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    if starts("pg_") || starts("has_") || starts("_pg_") {
        return true;
    }
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_users_are_not_taken_for_those_of_tools() {
        assert!(WORDS.is_sorted());
        for word in ["PG_CLASS", "has_table_privilege", "Version", "regclass"] {
            assert!(is_word(word), "{word}");
        }
        for word in ["cpu", "host", "versions", "p", "username"] {
            assert!(!is_word(word), "{word}");
        }
    }
}
