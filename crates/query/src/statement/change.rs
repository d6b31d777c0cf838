//! Statements that make, change and drop names: databases, schemas, tables, columns, views.
//!
//! Does: read them, and keep where their names stand. Does not: carry them out (`nilometer_service::define` does).

mod alter;
mod enumeration;
mod index;
pub(crate) mod role;
mod routine;
mod sequence;
mod table;
mod written;

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::define::Change;

use super::grammar::Grammar;
use super::settings;
use crate::error::{Error, Position};
pub(crate) use written::WrittenChange;
use written::refused;

/// Reads what follows CREATE.
pub(crate) fn create(grammar: &mut Grammar<'_>, sql: &str) -> Result<Option<WrittenChange>, Error> {
    let or_replace = grammar.words(&["or", "replace"]);
    if grammar.word("view") {
        return create_view(grammar, sql, or_replace).map(Some);
    }
    for (word, is_procedure) in [("function", false), ("procedure", true)] {
        if grammar.word(word) {
            return routine::create(grammar, is_procedure, or_replace).map(Some);
        }
    }
    if or_replace {
        return Ok(None);
    }
    if grammar.word("database") {
        let if_not_exists = grammar.if_not_exists();
        let name = grammar.path()?.database()?;
        return Ok(Some(WrittenChange::of_name(name, |name| {
            Change::CreateDatabase {
                name,
                if_not_exists,
            }
        })));
    }
    if grammar.word("schema") {
        let if_not_exists = grammar.if_not_exists();
        let path = grammar.path()?;
        let retention_ns = if grammar.word("with") {
            settings::of_schema(&settings::parse(grammar)?)?
        } else {
            None
        };
        return Ok(Some(WrittenChange::of_path(&path, |path| {
            Change::CreateSchema {
                path,
                if_not_exists,
                retention_ns,
            }
        })));
    }
    if grammar.word("table") {
        return table::create(grammar).map(Some);
    }
    if grammar.words(&["tstorage", "table"]) {
        return table::create_of_records(grammar).map(Some);
    }
    if grammar.words(&["unique", "index"]) {
        return index::create(grammar, true).map(Some);
    }
    if grammar.word("index") {
        return index::create(grammar, false).map(Some);
    }
    if grammar.word("sequence") {
        return sequence::create(grammar).map(Some);
    }
    if grammar.word("type") {
        return enumeration::create(grammar).map(Some);
    }
    if grammar.word("extension") {
        return index::extension(grammar).map(Some);
    }
    Ok(None)
}

/// Reads what follows COMMENT.
pub(crate) fn comment(grammar: &mut Grammar<'_>) -> Result<Option<WrittenChange>, Error> {
    if !grammar.word("on") {
        return Ok(None);
    }
    let is_column = grammar.word("column");
    if !is_column && !grammar.word("table") {
        return grammar.expected("TABLE or COLUMN");
    }
    let path = grammar.path()?;
    grammar.expect_word("IS")?;
    let text = if grammar.word("null") {
        None
    } else {
        Some(grammar.text()?)
    };
    let (path, column) = if is_column {
        let Some((table, column)) = path.clone().split_last() else {
            return Err(refused(
                "write COMMENT ON COLUMN table.column",
                path.start(),
            ));
        };
        (table, Some(column))
    } else {
        (path, None)
    };
    let at = column.as_ref().and_then(|column| column.position);
    let column = column.map(|column| column.text);
    let written = WrittenChange::of_path(&path, |path| Change::Comment { path, column, text });
    Ok(Some(written.and(at)))
}

/// Reads what follows DROP.
pub(crate) fn drop(grammar: &mut Grammar<'_>) -> Result<Option<WrittenChange>, Error> {
    let change = if grammar.word("database") {
        let if_exists = grammar.if_exists();
        let name = grammar.path()?.database()?;
        WrittenChange::of_name(name, |name| Change::DropDatabase { name, if_exists })
    } else if grammar.word("schema") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let cascade = grammar.word("cascade");
        grammar.word("restrict");
        WrittenChange::of_path(&path, |path| Change::DropSchema {
            path,
            if_exists,
            cascade,
        })
    } else if grammar.word("table") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let mut paths = vec![path.names()];
        while grammar.token(&Token::Comma) {
            paths.push(grammar.path()?.names());
        }
        // A view that reads the table says so when it is asked; nothing else depends on one.
        let _ = grammar.word("cascade") || grammar.word("restrict");
        WrittenChange::of_path(&path, |path| match paths.len() {
            1 => Change::DropTable { path, if_exists },
            _ => Change::DropTables { paths, if_exists },
        })
    } else if grammar.word("view") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let _ = grammar.word("cascade") || grammar.word("restrict");
        WrittenChange::of_path(&path, |path| Change::DropView { path, if_exists })
    } else if grammar.word("index") {
        index::drop(grammar)?
    } else if grammar.word("sequence") {
        sequence::drop(grammar)?
    } else if grammar.word("function") {
        routine::drop(grammar, false)?
    } else if grammar.word("procedure") {
        routine::drop(grammar, true)?
    } else if grammar.word("type") {
        enumeration::drop(grammar)?
    } else {
        return Ok(None);
    };
    Ok(Some(change))
}

/// Reads what follows ALTER.
pub(crate) fn alter(grammar: &mut Grammar<'_>) -> Result<Option<WrittenChange>, Error> {
    let change = if grammar.word("sequence") {
        sequence::alter(grammar)?
    } else if grammar.word("database") {
        let name = grammar.path()?.database()?;
        if grammar.words(&["rename", "to"]) {
            let to = grammar.name()?.text;
            WrittenChange::of_name(name, |name| Change::RenameDatabase { name, to })
        } else if grammar.word("set") {
            let schema = settings::of_database(&settings::parse(grammar)?)?;
            let at = schema.position;
            let schema = schema.text;
            WrittenChange::of_name(name, |database| Change::SetDefaultSchema {
                database,
                schema,
            })
            .and(at)
        } else {
            return grammar.expected("RENAME TO or SET (default_schema = '...')");
        }
    } else if grammar.word("schema") {
        let path = grammar.path()?;
        if grammar.words(&["rename", "to"]) {
            let to = grammar.name()?;
            let at = to.position;
            let to = to.text;
            WrittenChange::of_path(&path, |path| Change::RenameSchema { path, to }).and(at)
        } else if grammar.word("set") {
            let retention_ns = settings::of_schema(&settings::parse(grammar)?)?;
            WrittenChange::of_path(&path, |path| Change::SetSchema { path, retention_ns })
        } else {
            return grammar.expected("RENAME TO or SET (retention = '...')");
        }
    } else if grammar.word("type") {
        enumeration::alter(grammar)?
    } else if grammar.word("table") {
        alter::alter(grammar)?
    } else {
        return Ok(None);
    };
    Ok(Some(change))
}

fn create_view(
    grammar: &mut Grammar<'_>,
    sql: &str,
    or_replace: bool,
) -> Result<WrittenChange, Error> {
    let if_not_exists = grammar.if_not_exists();
    let path = grammar.path()?;
    if grammar.next_shown() == "(" {
        return Err(refused(
            "name the columns in the query, with AS",
            grammar.position(),
        ));
    }
    grammar.expect_word("AS")?;
    let start = grammar.position();
    grammar.query()?;
    let end = grammar.position();
    let query = between(sql, start, end)
        .trim()
        .trim_end_matches(';')
        .trim_end()
        .to_owned();
    Ok(WrittenChange::of_path(&path, |path| Change::CreateView {
        path,
        or_replace,
        if_not_exists,
        query,
    }))
}

/// The text from one place to another; to the end if the other is nowhere.
pub(super) fn between(sql: &str, start: Option<Position>, end: Option<Position>) -> &str {
    let start = start.map_or(0, |at| offset(sql, at));
    let end = end.map_or(sql.len(), |at| offset(sql, at));
    let end = if end <= start { sql.len() } else { end };
    sql.get(start..end).unwrap_or_default()
}

pub(super) fn offset(sql: &str, at: Position) -> usize {
    let mut line = 1;
    let mut column = 1;
    for (offset, letter) in sql.char_indices() {
        if (line, column) == (at.line, at.column) {
            return offset;
        }
        if letter == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    sql.len()
}
