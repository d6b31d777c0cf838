//! CREATE INDEX, DROP INDEX, CREATE EXTENSION.
//!
//! Does: read what is kept of an index, and refuse what a key here does not do. Does not: make one, or say what it is good for
//! (`nilometer_service::define` does).

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::define::{Change, NewIndex};

use super::written::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Name, quoted};

/// Reads what follows CREATE [UNIQUE] INDEX.
pub(super) fn create(grammar: &mut Grammar<'_>, is_unique: bool) -> Result<WrittenChange, Error> {
    // Nobody waits for it in any case.
    grammar.word("concurrently");
    let if_not_exists = grammar.if_not_exists();
    let mut name = None;
    if !grammar.word("on") {
        name = Some(grammar.name()?.text);
        grammar.expect_word("ON")?;
    }
    grammar.word("only");
    let path = grammar.path()?;
    let mut method = "btree".to_owned();
    if grammar.word("using") {
        method = grammar.name()?.text;
    }
    let at = grammar.position();
    grammar.expect(&Token::LParen)?;
    let mut columns = Vec::new();
    let mut parts = Vec::new();
    loop {
        let (column, part) = element(grammar)?;
        columns.push(column);
        parts.push(part);
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    let mut definition = format!("USING {} ({})", quoted(&method), parts.join(", "));
    rest(grammar, is_unique, &mut definition)?;
    if is_unique {
        refuse_key(&method, &columns, &parts, at)?;
    }
    let new = NewIndex {
        name,
        if_not_exists,
        is_unique,
        columns,
        definition,
    };
    Ok(WrittenChange::of_path(&path, |path| Change::CreateIndex {
        path,
        new,
    }))
}

/// A column, or an expression in parentheses or of a function, with its order.
fn element(grammar: &mut Grammar<'_>) -> Result<(Option<String>, String), Error> {
    let expression = grammar.operand()?;
    let (column, mut part) = match &expression {
        Expr::Identifier(name) => {
            let name = Name::from(name).text;
            let part = quoted(&name);
            (Some(name), part)
        }
        other => (None, other.to_string()),
    };
    if grammar.word("collate") {
        let collation = grammar.path()?.names();
        part = format!("{part} COLLATE {}", quoted(&collation.last));
    }
    let is_word = |grammar: &mut Grammar<'_>| {
        let next = grammar.next_shown().to_ascii_lowercase();
        !matches!(next.as_str(), "," | ")" | "(" | "asc" | "desc" | "nulls")
    };
    if is_word(grammar) {
        let class = grammar.path()?.names();
        part = format!("{part} {}", quoted(&class.last));
    }
    if grammar.word("desc") {
        part.push_str(" DESC");
    } else {
        grammar.word("asc");
    }
    if grammar.words(&["nulls", "first"]) {
        part.push_str(" NULLS FIRST");
    } else if grammar.words(&["nulls", "last"]) {
        part.push_str(" NULLS LAST");
    }
    Ok((column, part))
}

/// What follows the columns.
fn rest(grammar: &mut Grammar<'_>, is_unique: bool, definition: &mut String) -> Result<(), Error> {
    let at = grammar.position();
    if grammar.word("include") {
        let names = grammar.names()?;
        let names: Vec<String> = names.iter().map(|name| quoted(&name.text)).collect();
        definition.extend([" INCLUDE (", &names.join(", "), ")"]);
    }
    if grammar.words(&["nulls", "not", "distinct"]) {
        return Err(refused(
            "NULL equals nothing in a key here, so NULLS NOT DISTINCT is refused; declare the columns NOT NULL",
            at,
        ));
    }
    grammar.words(&["nulls", "distinct"]);
    if grammar.word("with") {
        // How pages are filled, which means nothing here.
        super::settings::parse(grammar)?;
    }
    if grammar.word("tablespace") {
        grammar.name()?;
    }
    let at = grammar.position();
    if grammar.word("where") {
        if is_unique {
            return Err(refused(
                "a key holds for every row, so a unique index with WHERE is refused; check it with CHECK, or leave UNIQUE out",
                at,
            ));
        }
        let condition = grammar.expression()?;
        definition.extend([" WHERE (", &condition.to_string(), ")"]);
    }
    Ok(())
}

/// A unique index is a key, and a key is of columns alone.
fn refuse_key(
    method: &str,
    columns: &[Option<String>],
    parts: &[String],
    at: Option<Position>,
) -> Result<(), Error> {
    if method != "btree" {
        return Err(refused("a unique index is a btree; leave USING out", at));
    }
    for (column, part) in columns.iter().zip(parts) {
        let Some(column) = column else {
            return Err(refused(
                &format!(
                    "a key is of columns, so a unique index on the expression {part} is refused; keep the value in a column of its own"
                ),
                at,
            ));
        };
        if columns
            .iter()
            .filter(|it| it.as_ref() == Some(column))
            .count()
            > 1
        {
            return Err(refused(&format!("\"{column}\" is named twice"), at));
        }
    }
    Ok(())
}

/// Reads what follows DROP INDEX.
pub(super) fn drop(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    grammar.word("concurrently");
    let if_exists = grammar.if_exists();
    let path = grammar.path()?;
    if matches!(grammar.next_shown().as_str(), ",") {
        return Err(refused(
            "one index at a time; send the others in statements of their own",
            grammar.position(),
        ));
    }
    let _ = grammar.word("cascade") || grammar.word("restrict");
    Ok(WrittenChange::of_path(&path, |path| Change::DropIndex {
        path,
        if_exists,
    }))
}

/// Reads what follows CREATE EXTENSION.
pub(super) fn extension(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    grammar.if_not_exists();
    let name = grammar.name()?;
    grammar.word("with");
    loop {
        let at = grammar.position();
        if grammar.word("schema") {
            grammar.name()?;
        } else if grammar.word("version") {
            return Err(refused(
                "what is there of timescaledb is that of this program; leave VERSION out",
                at,
            ));
        } else if !grammar.word("cascade") {
            break;
        }
    }
    Ok(WrittenChange::of_name(name, |name| {
        Change::CreateExtension { name }
    }))
}
