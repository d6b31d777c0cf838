//! `SIMILAR TO` as the regular expression that it stands for. The planner takes the pattern as one already, so `%` would be
//! a percent sign.
//!
//! `%` is any text and `_` any character; `|`, `*`, `+`, `?`, `{m,n}`, `(...)` and `[...]` are those of regular expressions,
//! the other signs are themselves, and the whole text has to match (SQL:2016, 8.6; `PostgreSQL`'s manual, 9.7.2).

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use crate::error::Error;

use crate::statement::types::null;

/// Turns the comparison into `~`, if the pattern is a literal.
pub(crate) fn rewrite(expr: &mut Expr) -> Result<(), Error> {
    let Expr::SimilarTo {
        negated,
        expr: value,
        pattern,
        escape_char,
    } = expr
    else {
        return Ok(());
    };
    let escape = match escape_char {
        None => Some('\\'),
        Some(escape) => text(&escape.value).and_then(|escape| escape.chars().next()),
    };
    let Some(regular) = of_literal(pattern, escape) else {
        return Err(Error::Unsupported {
            statement: "SIMILAR TO a pattern that is not a literal".to_owned(),
            instead: "write the pattern as a literal or a parameter, or compare with ~, which takes a regular expression",
        });
    };
    let negated = *negated;
    let matches = Expr::BinaryOp {
        left: std::mem::replace(value, Box::new(null())),
        op: BinaryOperator::PGRegexMatch,
        right: Box::new(regular),
    };
    *expr = if negated {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(matches))),
        }
    } else {
        Expr::Nested(Box::new(matches))
    };
    Ok(())
}

/// The regular expression for a pattern that is a literal; of NULL it is NULL.
fn of_literal(pattern: &Expr, escape: Option<char>) -> Option<Expr> {
    match pattern {
        Expr::Nested(inner) => of_literal(inner, escape),
        Expr::Value(value) if matches!(value.value, Value::Null) => Some(null()),
        Expr::Value(value) => {
            let regular = regular(text(&value.value)?, escape);
            Some(Expr::value(Value::SingleQuotedString(regular)))
        }
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

/// The pattern as a regular expression for the whole of a text; `escape` makes the next character mean itself.
fn regular(pattern: &str, escape: Option<char>) -> String {
    let mut regular = String::from("(?s)^(?:");
    let mut in_class = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let itself = characters.next().unwrap_or(character);
            push_sign(itself, &mut regular);
            continue;
        }
        match character {
            '^' if in_class && regular.ends_with('[') => regular.push('^'),
            ']' => {
                in_class = false;
                regular.push(']');
            }
            '\\' => push_sign('\\', &mut regular),
            // What joins sets of characters is a sign like others in SQL.
            '&' | '~' | '[' | '^' if in_class => push_sign(character, &mut regular),
            _ if in_class => regular.push(character),
            '[' => {
                in_class = true;
                regular.push('[');
            }
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            '(' => regular.push_str("(?:"),
            '|' | '*' | '+' | '?' | '{' | '}' | ')' => regular.push(character),
            other => push_sign(other, &mut regular),
        }
    }
    regular.push_str(")$");
    regular
}

/// A character that stands for itself. Letters after a backslash, and `<`, would mean something else.
fn push_sign(character: char, regular: &mut String) {
    if r"\.+*?()|[]{}^$#&-~".contains(character) {
        regular.push('\\');
    }
    regular.push(character);
}
