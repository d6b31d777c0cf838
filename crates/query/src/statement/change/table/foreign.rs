//! REFERENCES and FOREIGN KEY in the definition of a table without a time, and of ALTER TABLE.
//!
//! Does: read them into the CHECK that keeps them. Does not: find what they point to (`nilometer_service` does), or defer them.

use nilometer_service::{ForeignKey, OnChange, REFERENCES};

use super::super::written::refused;
use super::keys::check_column;
use super::{Body, WrittenCheck};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::Name;

/// Reads what follows REFERENCES.
pub(super) fn references(
    grammar: &mut Grammar<'_>,
    columns: Vec<Name>,
    name: Option<String>,
) -> Result<WrittenCheck, Error> {
    let path = grammar.path()?;
    let mut to_columns = Vec::new();
    if grammar.next_shown() == "(" {
        to_columns = grammar.names()?;
    }
    let mut key = ForeignKey {
        columns: texts(columns),
        to: path.last.text.clone(),
        to_columns: texts(to_columns),
        on_delete: OnChange::NoAction,
        on_update: OnChange::NoAction,
    };
    loop {
        let at = grammar.position();
        if grammar.words(&["on", "delete"]) {
            key.on_delete = action(grammar, at)?;
        } else if grammar.words(&["on", "update"]) {
            key.on_update = action(grammar, at)?;
        } else if grammar.word("match") {
            if !grammar.word("simple") {
                return Err(refused("of MATCH there is SIMPLE; leave it out", at));
            }
        } else if grammar.words(&["not", "deferrable"])
            || grammar.words(&["initially", "immediate"])
        {
            // That is how it is.
        } else if grammar.word("deferrable") || grammar.words(&["initially", "deferred"]) {
            return Err(refused(
                "a foreign key is checked at the end of each statement; leave DEFERRABLE out",
                at,
            ));
        } else {
            break;
        }
    }
    let column = match key.columns.as_slice() {
        [] => None,
        names => Some(names.join("_")),
    };
    Ok(WrittenCheck {
        name,
        column,
        expression: key.expression(),
    })
}

fn texts(names: Vec<Name>) -> Vec<String> {
    names.into_iter().map(|name| name.text).collect()
}

fn action(grammar: &mut Grammar<'_>, at: Option<Position>) -> Result<OnChange, Error> {
    if grammar.words(&["no", "action"]) || grammar.word("restrict") {
        return Ok(OnChange::NoAction);
    }
    if grammar.word("cascade") {
        return Ok(OnChange::Cascade);
    }
    if grammar.words(&["set", "null"]) {
        return Ok(OnChange::SetNull);
    }
    Err(refused(
        "rows that point to one that goes are in the way (NO ACTION, RESTRICT), go too (CASCADE) or point to nothing (SET NULL)",
        at,
    ))
}

/// Refuses foreign keys of columns that there are not.
pub(super) fn check_columns(body: &Body) -> Result<(), Error> {
    for key in keys(body) {
        for column in key.columns {
            let name = Name {
                text: column,
                position: None,
            };
            check_column(&body.columns, &name)?;
        }
    }
    Ok(())
}

fn keys(body: &Body) -> impl Iterator<Item = ForeignKey> + '_ {
    body.checks.iter().filter_map(|check| {
        ForeignKey::of(&nilometer_engine::Check {
            name: String::new(),
            expression: check.expression.clone(),
        })
    })
}

/// Refuses foreign keys of a table over time, where nobody would look at them.
pub(super) fn refuse_in_table(body: &Body, start: Option<Position>) -> Result<(), Error> {
    let has_some = body
        .checks
        .iter()
        .any(|check| check.expression.starts_with(REFERENCES));
    if has_some {
        return Err(refused(
            "FOREIGN is not checked here, so it is refused: a foreign key belongs to a table without a time, which is found by a PRIMARY KEY that leaves its times out",
            start,
        ));
    }
    Ok(())
}
