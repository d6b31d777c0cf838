//! Columns and constraints that ALTER TABLE adds, and defaults that it sets.
//!
//! Does: read them as CREATE TABLE does. Does not: look at rows that are there.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_engine::TIME_COLUMN;
use nilometer_service::define::{Column, NewCheck, Numbered, NumberedBy, TableChange};

use super::super::written::refused;
use super::{Body, Key, KeyKind, WrittenCheck, column, default, element, with_time};
use crate::error::Error;
use crate::statement::grammar::Grammar;
use crate::statement::name::Path;

/// Reads what follows ALTER TABLE ... ADD COLUMN, with its keys and conditions; `None` = the time column.
pub(in crate::statement::change) fn added_column(
    grammar: &mut Grammar<'_>,
    path: &Path,
) -> Result<Option<(Column, Vec<TableChange>)>, Error> {
    let mut body = Body::default();
    column(grammar, &mut body)?;
    let with = added(
        std::mem::take(&mut body.keys),
        std::mem::take(&mut body.checks),
        true,
    );
    let Some(mut written) = body.columns.pop() else {
        return Ok(None);
    };
    if written.name.text == TIME_COLUMN && written.of.time().is_some() {
        return Ok(None);
    }
    if let Some(default) = &mut written.default {
        *default = own_schema(default, path);
    }
    Ok(Some((with_time(written, None)?, with)))
}

/// Reads a constraint that ALTER TABLE adds; `None` = it is a column that follows.
pub(in crate::statement::change) fn added_constraint(
    grammar: &mut Grammar<'_>,
) -> Result<Option<TableChange>, Error> {
    let words = [
        "constraint",
        "primary",
        "unique",
        "check",
        "foreign",
        "exclude",
    ];
    let mut all = words.iter();
    let is_constraint = matches!(grammar.peek(), Token::Word(word)
        if word.quote_style.is_none() && all.any(|it| word.value.eq_ignore_ascii_case(it)));
    if !is_constraint {
        return Ok(None);
    }
    let mut body = Body::default();
    let at = grammar.position();
    element(grammar, &mut body)?;
    if !body.columns.is_empty() {
        return Err(refused(
            "a constraint is a key, a CHECK or a FOREIGN KEY",
            at,
        ));
    }
    let is_valid = !grammar.words(&["not", "valid"]);
    Ok(added(body.keys, body.checks, is_valid).pop())
}

/// Keys and conditions as ALTER TABLE adds them.
fn added(keys: Vec<Key>, checks: Vec<WrittenCheck>, is_valid: bool) -> Vec<TableChange> {
    let keys = keys.into_iter().map(|key| TableChange::AddKey {
        name: key.name,
        columns: key.columns.into_iter().map(|name| name.text).collect(),
        is_primary: key.kind == KeyKind::Primary,
    });
    let checks = checks.into_iter().map(|check| {
        TableChange::AddCheck(NewCheck {
            name: check.name,
            column: check.column,
            expression: check.expression,
            is_valid,
        })
    });
    keys.chain(checks).collect()
}

/// A default as it is kept, of a column of a table of this path.
pub(in crate::statement::change) fn default_of(expression: &Expr, path: &Path) -> String {
    own_schema(&default(expression), path)
}

/// Whether an expression is NULL itself.
pub(in crate::statement::change) fn is_null(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Value(ValueWithSpan {
            value: Value::Null,
            ..
        })
    )
}

/// The default with a sequence of the table's own schema by its name alone, as it is kept.
pub(super) fn own_schema(default: &str, path: &Path) -> String {
    let named = path.names();
    let schema = named.before.last().map_or("public", String::as_str);
    let name = || {
        let rest = default.strip_prefix("nextval('")?;
        let rest = rest.strip_prefix(schema)?.strip_prefix('.')?;
        let mut ends = ["'::REGCLASS)", "'::regclass)", "')"].into_iter();
        let name = ends.find_map(|end| rest.strip_suffix(end))?;
        let bare = name.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let is_plain = |name: &str| {
            name.chars()
                .all(|it| it.is_ascii_alphanumeric() || it == '_')
        };
        match bare {
            Some(bare) if !bare.contains('"') => Some(bare.to_owned()),
            None if is_plain(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        }
    };
    match name() {
        Some(sequence) => {
            let mut numbered = Numbered::new(NumberedBy::Default, 1);
            numbered.sequence = sequence;
            numbered.text()
        }
        None => default.to_owned(),
    }
}
