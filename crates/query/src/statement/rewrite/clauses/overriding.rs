//! `INSERT INTO t (...) OVERRIDING SYSTEM VALUE ...`: whose numbers an identity column takes. The parser does not know it.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Insert, Setting, Value};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name under which the tree keeps it, in a place that no other statement of ours uses.
const NAME: &str = "overriding";

/// Whose numbers a row takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// Those that are written, also where a column is always generated.
    System,
    /// Those of the sequence, whatever is written.
    User,
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Takes the three words away from the tokens of an INSERT.
pub(crate) fn take(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<Overriding>) {
    let mut significant = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    if !significant
        .next()
        .is_some_and(|(_, it)| is_word(it, "insert"))
    {
        return (tokens, None);
    }
    // It stands behind the table and its columns, before what could have words of its own.
    let mut before_rows = significant.take_while(|(_, it)| {
        !is_word(it, "values") && !is_word(it, "select") && !is_word(it, "with")
    });
    let Some((from, _)) = before_rows.find(|(_, it)| is_word(it, "overriding")) else {
        return (tokens, None);
    };
    let whose = match before_rows.next() {
        Some((_, it)) if is_word(it, "system") => Overriding::System,
        Some((_, it)) if is_word(it, "user") => Overriding::User,
        _ => return (tokens, None),
    };
    let Some((to, _)) = before_rows.next().filter(|(_, it)| is_word(it, "value")) else {
        return (tokens, None);
    };
    tokens.drain(from..=to);
    (tokens, Some(whose))
}

/// Keeps it in the tree.
pub(crate) fn put(statement: &mut DfStatement, whose: Overriding) {
    if let DfStatement::Statement(statement) = statement
        && let ast::Statement::Insert(insert) = statement.as_mut()
    {
        insert.settings = Some(vec![Setting {
            key: Ident::new(NAME),
            value: Expr::value(Value::Boolean(whose == Overriding::System)),
        }]);
    }
}

/// What an INSERT says of it, which it then says no more.
pub(crate) fn of(insert: &mut Insert) -> Option<Overriding> {
    let settings = insert
        .settings
        .take_if(|settings| matches!(settings.as_slice(), [only] if only.key.value == NAME))?;
    match settings.first().map(|it| &it.value) {
        Some(Expr::Value(value)) if value.value == Value::Boolean(true) => Some(Overriding::System),
        _ => Some(Overriding::User),
    }
}
