//! `INSERT INTO t AS a`: the parser's dialect does not know the alias, and the tree has a place for it.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{self, Ident, TableAliasWithoutColumns};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Takes the alias away from the tokens of an INSERT.
pub(crate) fn take(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<Ident>) {
    let mut significant = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let mut next = || significant.next();
    for wanted in [Keyword::INSERT, Keyword::INTO] {
        match next() {
            Some((_, token)) if keyword(token) == Some(wanted) => {}
            _ => return (tokens, None),
        }
    }
    // The table's name, of which the parts have points between them.
    let found = loop {
        let (Some((_, part)), Some((at, after))) = (next(), next()) else {
            break None;
        };
        if !matches!(part.token, Token::Word(_)) {
            break None;
        }
        match &after.token {
            Token::Period => {}
            _ if keyword(after) == Some(Keyword::AS) => break next().map(|(to, it)| (at, to, it)),
            _ => break None,
        }
    };
    let Some((
        from,
        to,
        TokenWithSpan {
            token: Token::Word(word),
            span,
        },
    )) = found
    else {
        return (tokens, None);
    };
    let alias = word.to_ident(*span);
    tokens.drain(from..=to);
    (tokens, Some(alias))
}

/// Puts it where the tree has its place.
pub(crate) fn put(statement: &mut DfStatement, alias: Ident) {
    if let DfStatement::Statement(statement) = statement
        && let ast::Statement::Insert(insert) = statement.as_mut()
    {
        insert.table_alias = Some(TableAliasWithoutColumns {
            explicit: true,
            alias,
        });
    }
}
