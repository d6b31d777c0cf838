//! `LIKE` and `ILIKE` with an `ESCAPE` of their own, which the planner refuses: the pattern is written with a backslash instead.
//!
//! Does: patterns that are literals. Does not: touch others, or a pattern that ends with the escape, which is a mistake.

use datafusion::sql::sqlparser::ast::{Expr, Value};

/// Rewrites the pattern in place.
pub(crate) fn rewrite(expr: &mut Expr) {
    let (Expr::Like {
        pattern,
        escape_char,
        ..
    }
    | Expr::ILike {
        pattern,
        escape_char,
        ..
    }) = expr
    else {
        return;
    };
    let Some(Value::SingleQuotedString(escape)) = escape_char.as_ref().map(|it| &it.value) else {
        return;
    };
    if escape == "\\" || escape.chars().count() > 1 {
        return;
    }
    if let Expr::Value(value) = pattern.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(spelled) = spelled(text, escape.chars().next())
    {
        *text = spelled;
        *escape_char = None;
    }
}

/// The pattern with backslashes for its escapes; `None` = it ends with one.
fn spelled(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut spelled = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_escape = Some(letter) == escape;
        let letter = if is_escape { letters.next()? } else { letter };
        if letter == '\\' || (is_escape && matches!(letter, '%' | '_')) {
            spelled.push('\\');
        }
        spelled.push(letter);
    }
    Some(spelled)
}
