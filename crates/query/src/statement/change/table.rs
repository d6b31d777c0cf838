//! CREATE TABLE: with a time column a table of series, without one a relation.
//!
//! Does: read columns and keys, and refuse what would not be checked. Does not: look names up, or make anything.

mod added;
mod foreign;
mod keys;
mod times;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_engine::{
    Check, ColumnKind, Declared, DeclaredTable, Duplicates, ENUM_LABEL, LogicalType, PhysicalType,
    TIME_COLUMN,
};
use nilometer_service::define::{Change, Column, Numbered, NumberedBy, TableSetting, new_records};
use nilometer_service::{NewTable, REFERENCES};

use super::enumeration::own_type;
use super::written::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Name, always_quoted, literal};
use crate::statement::settings;
use crate::statement::types::{self, Written};
use crate::walk;
use added::own_schema;
pub(super) use added::{added_column, added_constraint, default_of, is_null};
use keys::{check_column, check_key, make_tag, relation};
use times::{declared_time, interval_ns, time_named, time_of};

/// A column as it is written.
#[derive(Debug)]
struct WrittenColumn {
    name: Name,
    of: Written,
    /// Where its type stands.
    type_at: Option<Position>,
    is_tag: bool,
    is_not_null: bool,
    /// An expression.
    default: Option<String>,
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
    name: Option<String>,
}

/// A condition on rows.
#[derive(Debug)]
struct WrittenCheck {
    /// As it is written; else it is called after the table and the column.
    name: Option<String>,
    column: Option<String>,
    expression: String,
}

/// What a definition says.
#[derive(Debug, Default)]
struct Body {
    columns: Vec<WrittenColumn>,
    keys: Vec<Key>,
    checks: Vec<WrittenCheck>,
}

/// Reads what follows CREATE TABLE.
pub(super) fn create(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_not_exists = grammar.if_not_exists();
    let path = grammar.path()?;
    let start = grammar.position();
    grammar.expect(&Token::LParen)?;
    let mut body = Body::default();
    loop {
        element(grammar, &mut body)?;
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    for default in body.columns.iter_mut().filter_map(|it| it.default.as_mut()) {
        *default = own_schema(default, &path);
    }
    let with_at = grammar.position();
    let mut list = Vec::new();
    if grammar.word("with") {
        list = settings::parse(grammar)?;
        list.retain(|setting| !setting.is_of_storage());
    }
    let has_settings = !list.is_empty();
    let is_bare = !has_settings && body.columns.iter().all(|column| !column.is_tag);
    let wish = settings::of_new_table(&list)?;
    let time = match &wish.time {
        Some(name) => Some(time_named(&body, name)?),
        None => time_of(&body, is_bare),
    };
    let Some(time) = time else {
        if let Some(column) = body.columns.iter().find(|column| column.is_tag) {
            return Err(refused(TAGS_NEED_A_TIME, column.type_at));
        }
        foreign::check_columns(&body)?;
        let checks = named_checks(&path.last.text, std::mem::take(&mut body.checks));
        let (new, mut declared) = relation(body)?;
        declared.table.checks = checks;
        if has_settings {
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
                declared,
            }
        }));
    };
    foreign::refuse_in_table(&body, start)?;
    let mut columns: Vec<Column> = Vec::new();
    let table = path.last.text.as_str();
    let mut declared = DeclaredTable {
        checks: named_checks(table, std::mem::take(&mut body.checks)),
        keys: named_keys(&body.keys),
        ..DeclaredTable::default()
    };
    let is_ordered = !is_in_order(&body, time);
    let mut time_name = TIME_COLUMN.to_owned();
    for (at, written) in body.columns.into_iter().enumerate() {
        let position = is_ordered.then(|| u32::try_from(at).unwrap_or(u32::MAX));
        if at == time {
            time_name.clone_from(&written.name.text);
            declared.time = declared_time(written, position);
            continue;
        }
        columns.push(with_time(written, position)?);
    }
    for tag in wish.tags {
        make_tag(&mut columns, &tag)?;
    }
    let mut settings = wish.settings;
    if let Some(ns) = interval_ns(wish.interval, &declared, wish.is_hypertable)? {
        settings.partition_interval_ns = ns;
    }
    if is_bare && body.keys.is_empty() {
        // What PostgreSQL's users write keeps every row, as they expect.
        settings.duplicates = Duplicates::Keep;
    }
    for key in &body.keys {
        check_key(&key.columns, &columns, &time_name)?;
        settings.duplicates = Duplicates::Unique;
    }
    let payload_at = wish.payload.as_ref().and(with_at);
    let written = WrittenChange::of_path(&path, |path| Change::CreateTable {
        path,
        if_not_exists,
        columns,
        settings,
        declared,
        is_hypertable: wish.is_hypertable,
        payload: wish.payload,
    });
    Ok(written.and(payload_at))
}

/// Reads what follows CREATE TSTORAGE TABLE: a table of records of that protocol, with the numbers that their payloads hold.
pub(super) fn create_of_records(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_not_exists = grammar.if_not_exists();
    let path = grammar.path()?;
    let at = grammar.position();
    let mut payload = None;
    if grammar.word("as") {
        grammar.expect(&Token::LParen)?;
        let mut numbers = Vec::new();
        loop {
            let name = grammar.name()?.text;
            numbers.push(format!("{name} {}", grammar.next()));
            if !grammar.token(&Token::Comma) {
                break;
            }
        }
        grammar.expect(&Token::RParen)?;
        payload = Some(numbers.join(", "));
    }
    let NewTable {
        columns,
        mut settings,
        declared,
    } = new_records();
    if grammar.word("with") {
        let with_at = grammar.position();
        let list = settings::parse(grammar)?;
        for setting in settings::of_table(&list)? {
            match setting {
                TableSetting::TstoragePayload(_) if payload.is_some() => {
                    return Err(refused("the numbers of payloads are there twice", with_at));
                }
                TableSetting::TstoragePayload(text) => payload = Some(text),
                setting => setting.apply(&mut settings),
            }
        }
        if settings.duplicates != Duplicates::Keep {
            let keeps = "records of one key and time are all kept; leave duplicates out";
            return Err(refused(keeps, with_at));
        }
    }
    let written = WrittenChange::of_path(&path, |path| Change::CreateTable {
        path,
        if_not_exists,
        columns,
        settings,
        declared,
        is_hypertable: false,
        payload,
    });
    Ok(written.and(at))
}

const TAGS_NEED_A_TIME: &str =
    "tags belong to a time: add a column time TIMESTAMPTZ, or write TEXT";

/// Whether columns are written as the store has them: the time, tags, fields. Then nobody has to keep their places.
fn is_in_order(body: &Body, time: usize) -> bool {
    let rank = |at: usize, column: &WrittenColumn| {
        if at == time {
            0
        } else {
            2 - u8::from(column.is_tag)
        }
    };
    let ranks = body.columns.iter().enumerate();
    ranks.map(|(at, column)| rank(at, column)).is_sorted()
}

/// A column, or a key over several.
fn element(grammar: &mut Grammar<'_>, body: &mut Body) -> Result<(), Error> {
    let at = grammar.position();
    let mut constraint = None;
    if grammar.word("constraint") {
        constraint = Some(grammar.name()?.text);
    }
    let key_at = grammar.position();
    let kind = if grammar.words(&["primary", "key"]) {
        KeyKind::Primary
    } else if grammar.word("unique") {
        KeyKind::Unique
    } else {
        if grammar.word("check") {
            body.checks.push(check(grammar, constraint)?);
            return Ok(());
        }
        if grammar.words(&["foreign", "key"]) {
            let columns = grammar.names()?;
            grammar.expect_word("REFERENCES")?;
            let check = foreign::references(grammar, columns, constraint)?;
            body.checks.push(check);
            return Ok(());
        }
        for word in ["exclude", "like", "index"] {
            if grammar.word(word) {
                return Err(not_checked(word, at));
            }
        }
        if at != key_at {
            return grammar.expected("PRIMARY KEY, UNIQUE or CHECK");
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
        name: constraint,
    });
    Ok(())
}

/// What follows CHECK: a condition in parentheses, and the one column that it speaks of, if it is one.
fn check(grammar: &mut Grammar<'_>, name: Option<String>) -> Result<WrittenCheck, Error> {
    grammar.expect(&Token::LParen)?;
    let expression = grammar.expression()?;
    grammar.expect(&Token::RParen)?;
    let mut columns = BTreeSet::new();
    let _ = walk::expressions(&expression, &mut |part| {
        if let Expr::Identifier(name) = part {
            columns.insert(Name::from(name).text);
        }
        ControlFlow::Continue(())
    });
    let column = columns.pop_first().filter(|_| columns.is_empty());
    Ok(WrittenCheck {
        name,
        column,
        expression: expression.to_string(),
    })
}

/// The conditions of a table with their names: those that have none are called after the table and their column, as in
/// PostgreSQL.
fn named_checks(table: &str, checks: Vec<WrittenCheck>) -> Vec<Check> {
    let given: Vec<String> = checks.iter().filter_map(|it| it.name.clone()).collect();
    let mut named: Vec<Check> = Vec::new();
    for check in checks {
        let name = check.name.unwrap_or_else(|| {
            let column = check.column.map_or_else(String::new, |it| format!("_{it}"));
            let kind = if check.expression.starts_with(REFERENCES) {
                "fkey"
            } else {
                "check"
            };
            let first = format!("{table}{column}_{kind}");
            let is_taken = |name: &String| {
                given.contains(name) || named.iter().any(|other| other.name == *name)
            };
            let more = (1..).map(|n| format!("{first}{n}"));
            let mut all = std::iter::once(first.clone()).chain(more);
            all.find(|name| !is_taken(name)).unwrap_or_default()
        });
        named.push(Check {
            name,
            expression: check.expression,
        });
    }
    named
}

/// Names that keys were given, by their numbers: the primary key is 0, the others count from 1.
fn named_keys(keys: &[Key]) -> Vec<(u32, String)> {
    let mut unique = 0;
    let numbered = keys.iter().filter_map(|key| {
        let number = match key.kind {
            KeyKind::Primary => 0,
            KeyKind::Unique => {
                unique += 1;
                unique
            }
        };
        Some((number, key.name.clone()?))
    });
    numbered.collect()
}

fn not_checked(word: &str, at: Option<Position>) -> Error {
    let message = format!(
        "{} is not checked here, so it is refused; what is checked is PRIMARY KEY, UNIQUE and CHECK",
        word.to_uppercase()
    );
    refused(&message, at)
}

/// The CHECK that makes a column one of an enumeration; `None` = it is of another type.
pub(super) fn label_check(written: &DataType, column: &str) -> Option<String> {
    let of = own_type(written)?;
    let (of, column) = (literal(&of), always_quoted(column));
    Some(format!("{ENUM_LABEL}({of}, {column})"))
}

/// A column with its type and what it says of itself.
fn column(grammar: &mut Grammar<'_>, body: &mut Body) -> Result<(), Error> {
    let name = grammar.name()?;
    let (written, type_at) = grammar.data_type()?;
    let serial = serial_type(&written);
    let own = serial.is_none().then(|| label_check(&written, &name.text));
    let own = own.flatten();
    if let Some(expression) = &own {
        body.checks.push(WrittenCheck {
            name: None,
            column: Some(name.text.clone()),
            expression: expression.clone(),
        });
    }
    let of = match (serial, own) {
        (Some(serial), _) => Ok(serial),
        // An enumeration is text with that CHECK.
        (None, Some(_)) => Ok(Written::Value(PhysicalType::Text)),
        (None, None) => types::read(&written),
    };
    let of = of.map_err(|message| Error::Plan {
        message,
        position: type_at,
    })?;
    let mut is_not_null = serial.is_some();
    let mut is_tag = of == Written::Tag;
    let mut default = serial.map(|_| Numbered::new(NumberedBy::Default, 1).text());
    let mut constraint = None;
    loop {
        let at = grammar.position();
        if grammar.word("constraint") {
            constraint = Some(grammar.name()?.text);
        }
        if grammar.word("tag") {
            let is_integer = matches!(of, Written::Logical(of) if of.is_integer())
                || of == Written::Value(PhysicalType::I64);
            if of != Written::Value(PhysicalType::Text) && of != Written::Tag && !is_integer {
                return Err(refused(
                    "tags are text or integers; write TEXT TAG or BIGINT TAG",
                    at,
                ));
            }
            is_tag = true;
        } else if grammar.words(&["not", "null"]) {
            is_not_null = true;
        } else if grammar.words(&["primary", "key"]) {
            body.keys.push(Key {
                kind: KeyKind::Primary,
                columns: vec![name.clone()],
                at,
                name: constraint.take(),
            });
        } else if grammar.word("unique") {
            body.keys.push(Key {
                kind: KeyKind::Unique,
                columns: vec![name.clone()],
                at,
                name: constraint.take(),
            });
        } else if grammar.word("check") {
            body.checks.push(check(grammar, constraint.take())?);
        } else if grammar.word("references") {
            let check = foreign::references(grammar, vec![name.clone()], constraint.take())?;
            body.checks.push(check);
        } else if grammar.word("generated") {
            let is_integer = matches!(of, Written::Logical(of) if of.is_integer())
                || of == Written::Value(PhysicalType::I64);
            let (numbered, _) = identity(grammar, at)?;
            if !is_integer || serial.is_some() || default.is_some() {
                return Err(refused(
                    "an identity column is SMALLINT, INTEGER or BIGINT and has no other default",
                    at,
                ));
            }
            default = Some(numbered.text());
            is_not_null = true;
        } else if serial.is_some() && grammar.word("default") {
            return Err(refused("SERIAL is a default itself; write one of them", at));
        } else if grammar.words(&["default", "null"]) || grammar.word("null") {
            // That is how it is.
        } else if grammar.word("default") {
            default = Some(self::default(&grammar.operand()?));
        } else {
            refuse_rest(grammar, at)?;
            break;
        }
    }
    body.columns.push(WrittenColumn {
        name,
        of,
        type_at,
        is_tag,
        is_not_null,
        default,
    });
    Ok(())
}

/// A default as it is kept. The next number of a sequence of the table's schema is kept as that of SERIAL is, so that rows get their
/// numbers many at a time.
fn default(expression: &Expr) -> String {
    let numbered = || {
        let Expr::Function(function) = expression else {
            return None;
        };
        let FunctionArguments::List(list) = &function.args else {
            return None;
        };
        let name = function.name.0.last()?.as_ident()?;
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(sequence))] = list.args.as_slice() else {
            return None;
        };
        let sequence = match sequence {
            Expr::Cast {
                expr, data_type, ..
            } if data_type.to_string().eq_ignore_ascii_case("regclass") => expr,
            other => other,
        };
        let Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(sequence),
            ..
        }) = sequence
        else {
            return None;
        };
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if !name.value.eq_ignore_ascii_case("nextval") || !sequence.chars().all(is_name) {
            return None;
        }
        let mut numbered = Numbered::new(NumberedBy::Default, 1);
        numbered.sequence = sequence.to_ascii_lowercase();
        Some(numbered.text())
    };
    numbered().unwrap_or_else(|| expression.to_string())
}

/// The integers that `SERIAL` and its kin are; `None` = it is another type.
fn serial_type(written: &DataType) -> Option<Written> {
    let DataType::Custom(name, modifiers) = written else {
        return None;
    };
    if !modifiers.is_empty() {
        return None;
    }
    match name.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => Some(Written::Logical(LogicalType::Integer)),
        "bigserial" | "serial8" => Some(Written::Value(PhysicalType::I64)),
        "smallserial" | "serial2" => Some(Written::Logical(LogicalType::SmallInt)),
        _ => None,
    }
}

/// What follows GENERATED: how it numbers rows, and what its sequence is called where that is said.
pub(super) fn identity(
    grammar: &mut Grammar<'_>,
    at: Option<Position>,
) -> Result<(Numbered, Option<String>), Error> {
    let how = if grammar.word("always") {
        NumberedBy::Always
    } else if grammar.words(&["by", "default"]) {
        NumberedBy::Identity
    } else {
        return grammar.expected("ALWAYS or BY DEFAULT");
    };
    grammar.expect_word("AS")?;
    if !grammar.word("identity") {
        return Err(refused(
            "a column calculated from others is not kept here; calculate it in the query, or in a view",
            at,
        ));
    }
    let (mut start, mut sequence) = (1, None);
    if grammar.token(&Token::LParen) {
        while !grammar.token(&Token::RParen) {
            let at = grammar.position();
            if grammar.word("start") {
                grammar.word("with");
                start = i64::try_from(grammar.number()?)
                    .map_err(|_| refused("numbers start at 9223372036854775807 at most", at))?;
            } else if grammar.words(&["sequence", "name"]) {
                sequence = Some(grammar.path()?.last.text);
            } else if grammar.words(&["no", "minvalue"])
                || grammar.words(&["no", "maxvalue"])
                || grammar.words(&["no", "cycle"])
            {
                // That is how it is.
            } else if grammar.word("cache") {
                // Numbers are made durable many at a time in any case.
                grammar.number()?;
            } else if grammar.word("increment") {
                grammar.word("by");
                if grammar.number()? != 1 {
                    return Err(refused("numbers rise by one; leave INCREMENT out", at));
                }
            } else {
                return grammar.expected("START, INCREMENT or SEQUENCE NAME");
            }
        }
    }
    Ok((Numbered::new(how, start), sequence))
}

/// What a column may say in other databases, and what would come of it here.
fn refuse_rest(grammar: &mut Grammar<'_>, at: Option<Position>) -> Result<(), Error> {
    if grammar.word("collate") {
        return Err(not_checked("collate", at));
    }
    for word in ["identity", "auto_increment", "autoincrement"] {
        if grammar.word(word) {
            return Err(refused(
                "a column that numbers its rows is GENERATED BY DEFAULT AS IDENTITY, or SERIAL",
                at,
            ));
        }
    }
    Ok(())
}

/// A column of a table over time, but for its time.
fn with_time(written: WrittenColumn, position: Option<u32>) -> Result<Column, Error> {
    check_name(&written.name, written.type_at)?;
    let of = match written.of {
        // The integers of 64 bits that a field has without saying so.
        Written::Value(PhysicalType::I64) if written.is_tag => Some(LogicalType::BigInt),
        Written::Logical(of) => Some(of),
        Written::Tag | Written::Value(_) => None,
    };
    let kind = match written.of.stored() {
        Some((kind, _)) if !written.is_tag => ColumnKind::Field(kind),
        _ => ColumnKind::Tag,
    };
    Ok(Column {
        name: written.name.text,
        kind,
        declared: Declared {
            of,
            not_null: written.is_not_null,
            default: written.default,
            comment: None,
            position,
        },
    })
}

/// The name of the time is no other column's.
fn check_name(name: &Name, type_at: Option<Position>) -> Result<(), Error> {
    if name.text == TIME_COLUMN {
        return Err(refused(
            "a column called time is the table's time: TIMESTAMPTZ, TIMESTAMP or DATE; give it another name",
            type_at,
        ));
    }
    Ok(())
}
