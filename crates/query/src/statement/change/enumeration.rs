//! CREATE TYPE ... AS ENUM, ALTER TYPE ... ADD VALUE, DROP TYPE.
//!
//! Does: read them. Does not: make other types than enumerations, or say whether a column is of one (`nilometer_service::define` does).

use datafusion::sql::sqlparser::ast::DataType;
use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::define::{Change, EnumChange};

use super::written::{WrittenChange, refused};
use crate::error::Error;
use crate::statement::grammar::Grammar;
use crate::statement::types;

/// Reads what follows CREATE TYPE.
pub(super) fn create(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let path = grammar.path()?;
    let at = grammar.position();
    if !grammar.words(&["as", "enum"]) {
        return Err(refused(
            "of the types only enumerations are made here: CREATE TYPE mood AS ENUM ('sad', 'happy')",
            at,
        ));
    }
    grammar.expect(&Token::LParen)?;
    let mut labels = Vec::new();
    if !grammar.token(&Token::RParen) {
        loop {
            labels.push(grammar.text()?);
            if !grammar.token(&Token::Comma) {
                break;
            }
        }
        grammar.expect(&Token::RParen)?;
    }
    Ok(WrittenChange::of_path(&path, |path| Change::CreateEnum {
        path,
        labels,
    }))
}

/// Reads what follows ALTER TYPE.
pub(super) fn alter(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let path = grammar.path()?;
    let at = grammar.position();
    if grammar.words(&["owner", "to"]) {
        grammar.name()?;
        let change = EnumChange::Owner;
        return Ok(WrittenChange::of_path(&path, |path| Change::AlterEnum {
            path,
            change,
        }));
    }
    if !grammar.words(&["add", "value"]) {
        return Err(refused(
            "ALTER TYPE ... ADD VALUE is all that changes an enumeration: rows that are there keep their labels",
            at,
        ));
    }
    let if_not_exists = grammar.if_not_exists();
    let label = grammar.text()?;
    let beside = if grammar.word("before") {
        Some((grammar.text()?, true))
    } else if grammar.word("after") {
        Some((grammar.text()?, false))
    } else {
        None
    };
    let change = EnumChange::Add {
        label,
        if_not_exists,
        beside,
    };
    Ok(WrittenChange::of_path(&path, |path| Change::AlterEnum {
        path,
        change,
    }))
}

/// Reads what follows DROP TYPE.
pub(super) fn drop(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_exists = grammar.if_exists();
    let path = grammar.path()?;
    let mut paths = vec![path.names()];
    while grammar.token(&Token::Comma) {
        paths.push(grammar.path()?.names());
    }
    let at = grammar.position();
    if grammar.word("cascade") {
        let alone =
            "columns of the type stay; drop them or their tables first, and leave CASCADE out";
        return Err(refused(alone, at));
    }
    grammar.word("restrict");
    Ok(WrittenChange::of_path(&path, |_| Change::DropTypes {
        paths,
        if_exists,
    }))
}

/// The name of a type that somebody may have made; `None` = it is one that is known, or has modifiers.
pub(super) fn own_type(written: &DataType) -> Option<String> {
    types::own_name(written)
}
