//! CREATE TABLE: with a time column a table of series, without one a relation.
//!
//! Does: read columns and keys, and refuse what would not be checked. Does not: look names up, or make anything.

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_engine::{
    ColumnKind, Duplicates, NewRelation, PhysicalType, RelationColumn, TIME_COLUMN, nearest,
};
use nilometer_service::define::{Change, Column};

use super::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::Name;
use crate::statement::settings;
use crate::statement::types::{self, Written};

/// A column as it is written.
#[derive(Debug)]
struct WrittenColumn {
    name: Name,
    of: Written,
    /// Where its type stands.
    type_at: Option<Position>,
    is_not_null: bool,
    /// Where it says so.
    not_null_at: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Primary,
    Unique,
}

/// Columns that tell rows apart.
#[derive(Debug)]
struct Key {
    kind: KeyKind,
    columns: Vec<Name>,
    at: Option<Position>,
}

/// What a definition says.
#[derive(Debug, Default)]
struct Body {
    columns: Vec<WrittenColumn>,
    keys: Vec<Key>,
}

/// Reads what follows CREATE TABLE.
pub(super) fn create(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_not_exists = grammar.if_not_exists();
    let path = grammar.path()?;
    let start = grammar.position();
    if grammar.word("as") {
        return Err(refused(
            "a table is made with its columns and then filled: CREATE TABLE t (...), INSERT INTO t SELECT ...",
            start,
        ));
    }
    grammar.expect(&Token::LParen)?;
    let mut body = Body::default();
    loop {
        element(grammar, &mut body)?;
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    let with_at = grammar.position();
    let list = if grammar.word("with") {
        Some(settings::parse(grammar)?)
    } else {
        None
    };
    let has_time = body
        .columns
        .iter()
        .any(|column| column.name.text == TIME_COLUMN && column.of == Written::Time);
    if !has_time {
        let new = relation(body, start)?;
        if list.is_some() {
            return Err(refused(
                "a table without a time column has no settings; leave WITH out",
                with_at,
            ));
        }
        return Ok(WrittenChange::of_path(&path, |path| {
            Change::CreateRelation {
                path,
                if_not_exists,
                new,
            }
        }));
    }
    let mut columns = Vec::new();
    let mut times = 0;
    for written in body.columns {
        let at = written.name.position;
        match with_time(written)? {
            Some(column) => columns.push(column),
            None if times > 0 => return Err(refused("a table has one time", at)),
            None => times += 1,
        }
    }
    let wish = settings::of_new_table(&list.unwrap_or_default())?;
    for tag in wish.tags {
        make_tag(&mut columns, &tag)?;
    }
    let mut settings = wish.settings;
    for key in &body.keys {
        check_key(&key.columns, &columns)?;
        settings.duplicates = Duplicates::Unique;
    }
    Ok(WrittenChange::of_path(&path, |path| Change::CreateTable {
        path,
        if_not_exists,
        columns,
        settings,
    }))
}

/// Reads what follows ALTER TABLE ... ADD COLUMN; `None` = the time column.
pub(super) fn added_column(grammar: &mut Grammar<'_>) -> Result<Option<Column>, Error> {
    let mut body = Body::default();
    column(grammar, &mut body)?;
    if let Some(key) = body.keys.first() {
        return Err(refused("a key is set when the table is made", key.at));
    }
    body.columns.pop().map_or(Ok(None), with_time)
}

/// A column, or a key over several.
fn element(grammar: &mut Grammar<'_>, body: &mut Body) -> Result<(), Error> {
    let at = grammar.position();
    if grammar.word("constraint") {
        // Its name says nothing that counts here.
        grammar.name()?;
    }
    let key_at = grammar.position();
    let kind = if grammar.words(&["primary", "key"]) {
        KeyKind::Primary
    } else if grammar.word("unique") {
        KeyKind::Unique
    } else {
        for word in ["check", "foreign", "exclude", "like", "index"] {
            if grammar.word(word) {
                return Err(not_checked(word, at));
            }
        }
        if at != key_at {
            return grammar.expected("PRIMARY KEY or UNIQUE");
        }
        return column(grammar, body);
    };
    // NULLS [NOT] DISTINCT stands between UNIQUE and its columns, and would change what is equal.
    if grammar.next_shown() != "(" {
        return Err(refused(
            "a key needs its columns: PRIMARY KEY (a, b) or UNIQUE (a, b)",
            key_at,
        ));
    }
    let columns = grammar.names()?;
    body.keys.push(Key {
        kind,
        columns,
        at: key_at,
    });
    Ok(())
}

fn not_checked(word: &str, at: Option<Position>) -> Error {
    let message = format!(
        "{} is not checked here, so it is refused; what is checked is PRIMARY KEY and UNIQUE",
        word.to_uppercase()
    );
    refused(&message, at)
}

/// A column with its type and what it says of itself.
fn column(grammar: &mut Grammar<'_>, body: &mut Body) -> Result<(), Error> {
    let name = grammar.name()?;
    let (written, type_at) = grammar.data_type()?;
    let mut of = types::read(&written).map_err(|message| Error::Plan {
        message,
        position: type_at,
    })?;
    let mut is_not_null = false;
    let mut not_null_at = None;
    loop {
        let at = grammar.position();
        if grammar.word("tag") {
            if of != Written::Value(PhysicalType::Text) && of != Written::Tag {
                return Err(refused("tags are text; write TEXT TAG", at));
            }
            of = Written::Tag;
        } else if grammar.words(&["not", "null"]) {
            is_not_null = true;
            not_null_at = at;
        } else if grammar.words(&["primary", "key"]) {
            body.keys.push(Key {
                kind: KeyKind::Primary,
                columns: vec![name.clone()],
                at,
            });
        } else if grammar.word("unique") {
            body.keys.push(Key {
                kind: KeyKind::Unique,
                columns: vec![name.clone()],
                at,
            });
        } else if grammar.words(&["default", "null"]) || grammar.word("null") {
            // That is how it is.
        } else if grammar.word("default") {
            return Err(refused(
                "there are no defaults; what a row leaves out is NULL",
                at,
            ));
        } else {
            refuse_rest(grammar, at)?;
            break;
        }
    }
    body.columns.push(WrittenColumn {
        name,
        of,
        type_at,
        is_not_null,
        not_null_at,
    });
    Ok(())
}

/// What a column may say in other databases, and what would come of it here.
fn refuse_rest(grammar: &mut Grammar<'_>, at: Option<Position>) -> Result<(), Error> {
    for word in ["check", "references", "collate", "constraint"] {
        if grammar.word(word) {
            return Err(not_checked(word, at));
        }
    }
    for word in ["generated", "identity", "auto_increment", "autoincrement"] {
        if grammar.word(word) {
            return Err(refused(
                "the store fills no column in; give the value with each row",
                at,
            ));
        }
    }
    Ok(())
}

/// A column of a table over time; `None` = its time.
fn with_time(written: WrittenColumn) -> Result<Option<Column>, Error> {
    let WrittenColumn {
        name,
        of,
        type_at,
        is_not_null,
        not_null_at,
    } = written;
    check_name(&name, of, type_at)?;
    if is_not_null && of != Written::Time {
        return Err(refused(
            "beside a time only the time is never null; leave NOT NULL out, a missing value is NULL",
            not_null_at,
        ));
    }
    Ok(match of {
        Written::Time => None,
        Written::Tag => Some(Column {
            name: name.text,
            kind: ColumnKind::Tag,
        }),
        Written::Value(kind) => Some(Column {
            name: name.text,
            kind: ColumnKind::Field(kind),
        }),
    })
}

/// Whether a column that is called time is one, and no other is.
fn check_name(name: &Name, of: Written, type_at: Option<Position>) -> Result<(), Error> {
    match (of, name.text == TIME_COLUMN) {
        (Written::Time, false) => Err(refused(
            "the time column is called time, and there is one; keep other times as BIGINT",
            name.position,
        )),
        (Written::Tag | Written::Value(_), true) => {
            Err(refused("the column time is TIMESTAMPTZ", type_at))
        }
        _ => Ok(()),
    }
}

/// A table without a time column.
fn relation(body: Body, start: Option<Position>) -> Result<NewRelation, Error> {
    let mut primary: Option<Vec<String>> = None;
    let mut unique = Vec::new();
    for key in body.keys {
        for column in &key.columns {
            check_column(&body.columns, column)?;
        }
        let names: Vec<String> = key.columns.into_iter().map(|name| name.text).collect();
        match (key.kind, &primary) {
            (KeyKind::Unique, _) => unique.push(names),
            (KeyKind::Primary, None) => primary = Some(names),
            (KeyKind::Primary, Some(_)) => {
                return Err(refused(
                    "a table has one primary key; write UNIQUE for the others",
                    key.at,
                ));
            }
        }
    }
    let mut columns: Vec<RelationColumn> = Vec::new();
    for column in body.columns {
        check_name(&column.name, column.of, column.type_at)?;
        let Written::Value(kind) = column.of else {
            return Err(refused(
                "tags belong to a time: add a column time TIMESTAMPTZ, or write TEXT",
                column.type_at,
            ));
        };
        let name = column.name.text;
        if columns.iter().any(|known| known.name == name) {
            return Err(refused(
                &format!("the column \"{name}\" is named twice"),
                column.name.position,
            ));
        }
        let mut keys = primary.iter().flatten();
        let is_key = keys.any(|key| *key == name);
        columns.push(RelationColumn {
            nullable: !column.is_not_null && !is_key,
            name,
            kind,
        });
    }
    let Some(primary_key) = primary else {
        return Err(refused(
            "a table needs its time, a column time TIMESTAMPTZ; without one it is a relation and needs a PRIMARY KEY",
            start,
        ));
    };
    Ok(NewRelation {
        columns,
        primary_key,
        unique,
    })
}

fn check_column(columns: &[WrittenColumn], name: &Name) -> Result<(), Error> {
    let names = || columns.iter().map(|column| column.name.text.clone());
    if names().any(|known| known == name.text) {
        return Ok(());
    }
    Err(Error::UnknownColumn {
        name: name.text.clone(),
        nearest: nearest(&name.text, names()),
        position: name.position,
    })
}

/// Makes a tag of a column that the list of tags names.
fn make_tag(columns: &mut [Column], tag: &Name) -> Result<(), Error> {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    match columns.iter_mut().find(|column| column.name == tag.text) {
        None => Err(Error::UnknownColumn {
            name: tag.text.clone(),
            nearest: nearest(&tag.text, names),
            position: tag.position,
        }),
        Some(column) => match column.kind {
            ColumnKind::Tag | ColumnKind::Field(PhysicalType::Text) => {
                column.kind = ColumnKind::Tag;
                Ok(())
            }
            ColumnKind::Field(_) => Err(refused(
                &format!("tags are text; make \"{}\" TEXT", tag.text),
                tag.position,
            )),
        },
    }
}

/// A key is the time and all tags: that is what tells rows apart here.
fn check_key(key: &[Name], columns: &[Column]) -> Result<(), Error> {
    let mut wanted: Vec<&str> = columns
        .iter()
        .filter(|column| column.kind == ColumnKind::Tag)
        .map(|column| column.name.as_str())
        .chain([TIME_COLUMN])
        .collect();
    let mut named: Vec<&str> = key.iter().map(|name| name.text.as_str()).collect();
    wanted.sort_unstable();
    named.sort_unstable();
    if wanted == named {
        return Ok(());
    }
    Err(refused(
        &format!(
            "a key is the time and all tags, here ({}); make the other columns tags or leave the key out",
            wanted.join(", ")
        ),
        key.first().and_then(|name| name.position),
    ))
}
