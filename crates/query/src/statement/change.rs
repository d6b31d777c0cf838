//! Statements that make, change and drop names: databases, schemas, tables, columns, views.
//!
//! Does: read them. Does not: carry them out (`change/run.rs` does).

pub(crate) mod run;
mod table;

use nilometer_engine::{ColumnKind, NewRelation, PhysicalType, TableSettings};

use super::grammar::Grammar;
use super::name::{Name, Path};
use super::settings::{self, Setting};
use super::types::{self, Written};
use crate::error::{Error, Position};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    CreateDatabase {
        name: Name,
        if_not_exists: bool,
    },
    DropDatabase {
        name: Name,
        if_exists: bool,
    },
    RenameDatabase {
        name: Name,
        to: Name,
    },
    SetDefaultSchema {
        database: Name,
        schema: Name,
    },
    CreateSchema {
        path: Path,
        if_not_exists: bool,
        retention_ns: Option<i64>,
    },
    DropSchema {
        path: Path,
        if_exists: bool,
        cascade: bool,
    },
    RenameSchema {
        path: Path,
        to: Name,
    },
    SetSchema {
        path: Path,
        retention_ns: Option<i64>,
    },
    CreateTable(CreateTable),
    CreateRelation {
        path: Path,
        if_not_exists: bool,
        new: NewRelation,
    },
    DropTable {
        path: Path,
        if_exists: bool,
    },
    AlterTable {
        path: Path,
        if_exists: bool,
        change: TableChange,
    },
    CreateView(CreateView),
    DropView {
        path: Path,
        if_exists: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) path: Path,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) settings: TableSettings,
}

/// A tag or a field; the time column is there without saying so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: Name,
    pub(crate) kind: ColumnKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableChange {
    Add { column: Column, if_not_exists: bool },
    Drop { column: Name, if_exists: bool },
    RenameColumn { column: Name, to: Name },
    Type { column: Name, to: PhysicalType },
    Rename { to: Name },
    Set(Vec<Setting>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateView {
    pub(crate) path: Path,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    /// The query as it was written.
    pub(crate) query: String,
}

/// Reads what follows CREATE.
pub(crate) fn create(grammar: &mut Grammar<'_>, sql: &str) -> Result<Option<Change>, Error> {
    let or_replace = grammar.words(&["or", "replace"]);
    if grammar.word("view") {
        return create_view(grammar, sql, or_replace).map(Some);
    }
    if or_replace {
        return Ok(None);
    }
    if grammar.word("database") {
        let if_not_exists = grammar.if_not_exists();
        let name = grammar.path()?.database()?;
        return Ok(Some(Change::CreateDatabase {
            name,
            if_not_exists,
        }));
    }
    if grammar.word("schema") {
        let if_not_exists = grammar.if_not_exists();
        let path = grammar.path()?;
        let retention_ns = if grammar.word("with") {
            settings::of_schema(&settings::parse(grammar)?)?
        } else {
            None
        };
        return Ok(Some(Change::CreateSchema {
            path,
            if_not_exists,
            retention_ns,
        }));
    }
    if grammar.word("table") {
        return table::create(grammar).map(Some);
    }
    Ok(None)
}

/// Reads what follows DROP.
pub(crate) fn drop(grammar: &mut Grammar<'_>) -> Result<Option<Change>, Error> {
    let change = if grammar.word("database") {
        let if_exists = grammar.if_exists();
        let name = grammar.path()?.database()?;
        Change::DropDatabase { name, if_exists }
    } else if grammar.word("schema") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let cascade = grammar.word("cascade");
        grammar.word("restrict");
        Change::DropSchema {
            path,
            if_exists,
            cascade,
        }
    } else if grammar.word("table") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        // A view that reads the table says so when it is asked; nothing else depends on one.
        let _ = grammar.word("cascade") || grammar.word("restrict");
        Change::DropTable { path, if_exists }
    } else if grammar.word("view") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let _ = grammar.word("cascade") || grammar.word("restrict");
        Change::DropView { path, if_exists }
    } else {
        return Ok(None);
    };
    Ok(Some(change))
}

/// Reads what follows ALTER.
pub(crate) fn alter(grammar: &mut Grammar<'_>) -> Result<Option<Change>, Error> {
    let change = if grammar.word("database") {
        let name = grammar.path()?.database()?;
        if grammar.words(&["rename", "to"]) {
            let to = grammar.name()?;
            Change::RenameDatabase { name, to }
        } else if grammar.word("set") {
            let schema = settings::of_database(&settings::parse(grammar)?)?;
            Change::SetDefaultSchema {
                database: name,
                schema,
            }
        } else {
            return grammar.expected("RENAME TO or SET (default_schema = '...')");
        }
    } else if grammar.word("schema") {
        let path = grammar.path()?;
        if grammar.words(&["rename", "to"]) {
            let to = grammar.name()?;
            Change::RenameSchema { path, to }
        } else if grammar.word("set") {
            let retention_ns = settings::of_schema(&settings::parse(grammar)?)?;
            Change::SetSchema { path, retention_ns }
        } else {
            return grammar.expected("RENAME TO or SET (retention = '...')");
        }
    } else if grammar.word("table") {
        let if_exists = grammar.if_exists();
        let path = grammar.path()?;
        let change = alter_table(grammar)?;
        Change::AlterTable {
            path,
            if_exists,
            change,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(change))
}

fn alter_table(grammar: &mut Grammar<'_>) -> Result<TableChange, Error> {
    let change = if grammar.word("add") {
        grammar.word("column");
        let if_not_exists = grammar.if_not_exists();
        let at = grammar.position();
        match table::added_column(grammar)? {
            Some(column) => TableChange::Add {
                column,
                if_not_exists,
            },
            None => return Err(refused("every table has its column time already", at)),
        }
    } else if grammar.word("drop") {
        grammar.word("column");
        let if_exists = grammar.if_exists();
        let column = grammar.name()?;
        let _ = grammar.word("cascade") || grammar.word("restrict");
        TableChange::Drop { column, if_exists }
    } else if grammar.word("rename") {
        if grammar.word("to") {
            let to = grammar.name()?;
            TableChange::Rename { to }
        } else {
            grammar.word("column");
            let column = grammar.name()?;
            grammar.expect_word("TO")?;
            let to = grammar.name()?;
            TableChange::RenameColumn { column, to }
        }
    } else if grammar.word("alter") {
        grammar.word("column");
        let column = grammar.name()?;
        grammar.words(&["set", "data"]);
        grammar.expect_word("TYPE")?;
        let (written, at) = grammar.data_type()?;
        match types::read(&written).map_err(|message| Error::Plan {
            message,
            position: at,
        })? {
            Written::Value(to) => TableChange::Type { column, to },
            Written::Tag | Written::Time => {
                return Err(refused(
                    "a column that is there cannot become a tag or a time; add one and write it again",
                    at,
                ));
            }
        }
    } else if grammar.word("set") {
        TableChange::Set(settings::parse(grammar)?)
    } else {
        return grammar.expected(
            "ADD COLUMN, DROP COLUMN, RENAME COLUMN, RENAME TO, ALTER COLUMN ... TYPE or SET (...)",
        );
    };
    if matches!(grammar.next_shown().as_str(), ",") {
        return Err(refused(
            "one change at a time; send the others in statements of their own",
            grammar.position(),
        ));
    }
    Ok(change)
}

fn create_view(grammar: &mut Grammar<'_>, sql: &str, or_replace: bool) -> Result<Change, Error> {
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
    Ok(Change::CreateView(CreateView {
        path,
        or_replace,
        if_not_exists,
        query,
    }))
}

/// The text from one place to another; to the end if the other is nowhere.
fn between(sql: &str, start: Option<Position>, end: Option<Position>) -> &str {
    let start = start.map_or(0, |at| offset(sql, at));
    let end = end.map_or(sql.len(), |at| offset(sql, at));
    let end = if end <= start { sql.len() } else { end };
    sql.get(start..end).unwrap_or_default()
}

fn offset(sql: &str, at: Position) -> usize {
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

fn refused(message: &str, position: Option<Position>) -> Error {
    Error::Plan {
        message: message.to_owned(),
        position,
    }
}
