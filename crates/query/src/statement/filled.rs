//! `CREATE TABLE t AS SELECT ...`: a table with the columns of a query, and its rows.
//!
//! Does: read it. Does not: carry it out (`sql/filled.rs` does), or read `SELECT ... INTO t`.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::aggregate::{Data, take_data};
use super::change::between;
use super::grammar::Grammar;
use super::name::Name;
use crate::error::Error;

/// A table that is made from a query.
#[derive(Debug, Clone)]
pub(crate) struct FilledTable {
    /// Its name, as it is written.
    pub(crate) path: String,
    pub(crate) if_not_exists: bool,
    /// Names of its first columns, where they are not the query's.
    pub(crate) names: Vec<Name>,
    /// What follows the columns: `WITH (...)`, or nothing.
    pub(crate) settings: String,
    pub(crate) query: String,
    /// Whether it gets the rows too.
    pub(crate) with_data: bool,
}

/// Reads the statement; `None` = it is another one.
pub(super) fn read(tokens: &[TokenWithSpan], sql: &str) -> Result<Option<FilledTable>, Error> {
    let mut tokens = tokens.to_vec();
    let data = take_data(&mut tokens);
    let dialect = GenericDialect {};
    let mut grammar = Grammar::new(tokens, &dialect);
    if !grammar.words(&["create", "table"]) {
        return Ok(None);
    }
    let if_not_exists = grammar.if_not_exists();
    let start = grammar.position();
    if grammar.path().is_err() {
        return Ok(None);
    }
    let path = between(sql, start, grammar.position()).trim().to_owned();
    let names = if matches!(grammar.peek(), Token::LParen) {
        match grammar.names() {
            Ok(names) => names,
            Err(_) => return Ok(None),
        }
    } else {
        Vec::new()
    };
    let start = grammar.position();
    let settings = if grammar.word("with") {
        super::settings::parse(&mut grammar)?;
        between(sql, start, grammar.position()).trim().to_owned()
    } else {
        String::new()
    };
    if !grammar.word("as") {
        return Ok(None);
    }
    let start = grammar.position();
    grammar.query()?;
    let end = grammar.position().or_else(|| data.and_then(Data::position));
    grammar.end()?;
    let query = between(sql, start, end).trim();
    Ok(Some(FilledTable {
        path,
        if_not_exists,
        names,
        settings,
        query: query.trim_end_matches(';').trim_end().to_owned(),
        with_data: data.is_none_or(Data::is_with),
    }))
}
