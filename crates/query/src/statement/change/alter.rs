//! ALTER TABLE: columns, keys, conditions, defaults, names and settings.
//!
//! Does: read one change, or several with commas between them. Does not: look names or rows up (`nilometer_service::define` and
//! `write/declared/altered.rs` do).

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_engine::PhysicalType;
use nilometer_service::define::{Change, TableChange};

use super::table;
use super::written::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Path, always_quoted};
use crate::statement::settings::{self, Setting};
use crate::statement::types::{self, Written};

/// What one change says, beside itself.
#[derive(Default)]
struct Beside {
    settings: Vec<Setting>,
    /// Where its column or constraint stands.
    at: Option<Position>,
}

/// Reads what follows ALTER TABLE.
pub(super) fn alter(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_exists = grammar.if_exists();
    grammar.word("only");
    let path = grammar.path()?;
    grammar.token(&Token::Mul);
    let mut beside = Beside::default();
    let mut changes = vec![one(grammar, &path, &mut beside)?];
    while grammar.next_shown() == "," {
        let at = grammar.position();
        let stands_alone = |it: &TableChange| {
            matches!(
                it,
                TableChange::Set(_)
                    | TableChange::Rename { .. }
                    | TableChange::RenameColumn { .. }
                    | TableChange::RenameConstraint { .. }
            )
        };
        if changes.iter().any(stands_alone) {
            return Err(refused(
                "one change at a time; send the others in statements of their own",
                at,
            ));
        }
        grammar.expect(&Token::Comma)?;
        changes.push(one(grammar, &path, &mut beside)?);
    }
    changes.sort_by_key(pass);
    let only = (changes.len() == 1).then(|| changes.pop()).flatten();
    let change = only.unwrap_or(TableChange::Several(changes));
    let written = WrittenChange::of_path(&path, |path| Change::AlterTable {
        path,
        if_exists,
        change,
        seen: None,
    });
    Ok(written.and(beside.at).with(beside.settings))
}

/// The place of a change among others of one statement, which is that of PostgreSQL: what drops comes first, what is added later may
/// name a column that is added behind it, and defaults are set when their columns have their types.
fn pass(change: &TableChange) -> u8 {
    match change {
        TableChange::Several(_)
        | TableChange::Drop { .. }
        | TableChange::DropConstraint { .. }
        | TableChange::NotNull {
            is_not_null: false, ..
        }
        | TableChange::Default { to: None, .. }
        | TableChange::DropIdentity { .. } => 0,
        TableChange::Type { .. } => 1,
        TableChange::Add { .. } => 2,
        TableChange::NotNull { .. } => 3,
        TableChange::AddKey { .. } => 4,
        TableChange::AddCheck(_) | TableChange::Default { .. } => 5,
        TableChange::Validate { .. }
        | TableChange::RenameConstraint { .. }
        | TableChange::RenameColumn { .. }
        | TableChange::Rename { .. }
        | TableChange::Owner
        | TableChange::Set(_) => 6,
    }
}

/// One change.
fn one(grammar: &mut Grammar<'_>, path: &Path, beside: &mut Beside) -> Result<TableChange, Error> {
    if grammar.word("add") {
        return add(grammar, path);
    }
    if grammar.words(&["drop", "constraint"]) {
        let if_exists = grammar.if_exists();
        let name = named(grammar, beside)?;
        let cascades = grammar.word("cascade");
        grammar.word("restrict");
        return Ok(TableChange::DropConstraint {
            name,
            if_exists,
            cascades,
        });
    }
    if grammar.word("drop") {
        grammar.word("column");
        let if_exists = grammar.if_exists();
        let column = named(grammar, beside)?;
        let _ = grammar.word("cascade") || grammar.word("restrict");
        return Ok(TableChange::Drop { column, if_exists });
    }
    if grammar.words(&["rename", "constraint"]) {
        let name = named(grammar, beside)?;
        grammar.expect_word("TO")?;
        let to = grammar.name()?.text;
        return Ok(TableChange::RenameConstraint { name, to });
    }
    if grammar.words(&["rename", "to"]) {
        let to = grammar.name()?.text;
        return Ok(TableChange::Rename { to });
    }
    if grammar.word("rename") {
        grammar.word("column");
        let column = named(grammar, beside)?;
        grammar.expect_word("TO")?;
        let to = grammar.name()?.text;
        return Ok(TableChange::RenameColumn { column, to });
    }
    if grammar.words(&["validate", "constraint"]) {
        let name = named(grammar, beside)?;
        return Ok(TableChange::Validate { name });
    }
    if grammar.words(&["owner", "to"]) {
        // Privileges are granted, and nobody owns a table.
        grammar.name()?;
        return Ok(TableChange::Owner);
    }
    if grammar.word("alter") {
        grammar.word("column");
        let column = named(grammar, beside)?;
        return of_column(grammar, path, column);
    }
    if grammar.word("set") {
        beside.settings = settings::parse(grammar)?;
        return Ok(TableChange::Set(Vec::new()));
    }
    grammar.expected(
        "ADD, DROP, RENAME or ALTER COLUMN, ADD, DROP, RENAME or VALIDATE CONSTRAINT, RENAME TO, OWNER TO or SET (...)",
    )
}

fn named(grammar: &mut Grammar<'_>, beside: &mut Beside) -> Result<String, Error> {
    let name = grammar.name()?;
    beside.at = name.position;
    Ok(name.text)
}

/// What follows ADD: a constraint or a column.
fn add(grammar: &mut Grammar<'_>, path: &Path) -> Result<TableChange, Error> {
    if let Some(change) = table::added_constraint(grammar)? {
        return Ok(change);
    }
    grammar.word("column");
    let if_not_exists = grammar.if_not_exists();
    let at = grammar.position();
    match table::added_column(grammar, path)? {
        Some((column, with)) => Ok(TableChange::Add {
            column,
            if_not_exists,
            with,
            values: Vec::new(),
        }),
        None => Err(refused("every table has its column time already", at)),
    }
}

/// What follows ALTER COLUMN and its name.
fn of_column(grammar: &mut Grammar<'_>, path: &Path, column: String) -> Result<TableChange, Error> {
    for (words, is_not_null) in [
        (["set", "not", "null"], true),
        (["drop", "not", "null"], false),
    ] {
        if grammar.words(&words) {
            return Ok(TableChange::NotNull {
                column,
                is_not_null,
            });
        }
    }
    let default = |to: Option<String>, sequence: Option<String>| TableChange::Default {
        column: column.clone(),
        to,
        sequence,
    };
    if grammar.words(&["drop", "default"]) {
        return Ok(default(None, None));
    }
    if grammar.words(&["drop", "identity"]) {
        let if_exists = grammar.if_exists();
        return Ok(TableChange::DropIdentity { column, if_exists });
    }
    if grammar.words(&["set", "default"]) {
        let expression = grammar.operand()?;
        let is_null = table::is_null(&expression);
        let to = (!is_null).then(|| table::default_of(&expression, path));
        return Ok(default(to, None));
    }
    let at = grammar.position();
    if grammar.words(&["add", "generated"]) {
        let (numbered, sequence) = table::identity(grammar, at)?;
        return Ok(default(Some(numbered.text()), sequence));
    }
    if grammar.words(&["set", "generated"]) {
        return Err(refused(
            "whether an identity column takes values of its own is said when it is made; DROP IDENTITY and ADD GENERATED make it anew",
            at,
        ));
    }
    for word in ["statistics", "storage", "compression"] {
        if grammar.words(&["set", word]) {
            // Means nothing here.
            grammar.next();
            return Ok(TableChange::Several(Vec::new()));
        }
    }
    grammar.words(&["set", "data"]);
    grammar.expect_word("TYPE")?;
    retype(grammar, column)
}

/// What follows TYPE.
fn retype(grammar: &mut Grammar<'_>, column: String) -> Result<TableChange, Error> {
    let (written, at) = grammar.data_type()?;
    let label = table::label_check(&written, &column);
    let of = match label {
        Some(_) => Ok(Written::Value(PhysicalType::Text)),
        None => types::read(&written),
    };
    let of = of.map_err(|message| Error::Plan {
        message,
        position: at,
    })?;
    let using = if grammar.word("using") {
        Some(grammar.expression()?.to_string())
    } else {
        None
    };
    let (to, of) = match of {
        Written::Value(to) => (to, None),
        Written::Logical(of) => (of.physical(), Some(of)),
        Written::Tag => {
            return Err(refused(
                "a column that is there cannot become a tag or a time; add one and write it again",
                at,
            ));
        }
    };
    let using = using.map(|using| format!("CAST(({using}) AS {written})"));
    let cast = format!("CAST({} AS {written})", always_quoted(&column));
    Ok(TableChange::Type {
        column,
        to,
        of,
        label,
        default: None,
        is_said: using.is_some(),
        using: using.unwrap_or(cast),
        values: None,
    })
}
