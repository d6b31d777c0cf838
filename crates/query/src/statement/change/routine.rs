//! CREATE FUNCTION, CREATE PROCEDURE and their DROPs.
//!
//! Does: read them, refuse other languages than SQL by their names. Does not: look into a body (`statement/routine.rs` does).

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::Fault;
use nilometer_service::define::{Change, NewRoutine, Parameter};

use super::written::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::types;

const ADVICE: &str = "write LANGUAGE SQL and the statements; what needs loops or variables runs in a program, which may call them";

/// Reads what follows CREATE [OR REPLACE] FUNCTION or PROCEDURE.
pub(super) fn create(
    grammar: &mut Grammar<'_>,
    is_procedure: bool,
    or_replace: bool,
) -> Result<WrittenChange, Error> {
    let path = grammar.path()?;
    let mut parameters = parameters(grammar)?;
    let mut returns = String::new();
    if !is_procedure {
        grammar.expect_word("RETURNS")?;
        returns = without_length(value_type(grammar)?);
        for parameter in &mut parameters {
            parameter.of = without_length(std::mem::take(&mut parameter.of));
        }
    }
    let mut language = None;
    let mut body = None;
    let mut is_strict = false;
    loop {
        let at = grammar.position();
        if grammar.word("language") {
            let name = match grammar.next() {
                Token::Word(word) => word.value,
                Token::SingleQuotedString(text) => text,
                _ => return grammar.expected("the name of a language"),
            };
            language = Some(check_language(&name, at)?);
        } else if grammar.word("as") {
            body = Some(text(grammar)?);
        } else if !is_procedure && strict(grammar) {
            is_strict = true;
        } else if !option(grammar, is_procedure, at)? {
            break;
        }
    }
    if language.is_none() {
        return grammar.expected("LANGUAGE SQL");
    }
    let Some(body) = body else {
        return grammar.expected("AS $$ ... $$");
    };
    let body = if is_strict && !parameters.is_empty() {
        null_of_null(&body, parameters.len())
    } else {
        body
    };
    Ok(WrittenChange::of_path(&path, |path| {
        Change::CreateRoutine {
            path,
            or_replace,
            new: NewRoutine {
                is_procedure,
                parameters,
                returns,
                body,
            },
        }
    }))
}

/// Whether a function that is STRICT says so here: of an argument that is NULL it answers NULL.
fn strict(grammar: &mut Grammar<'_>) -> bool {
    grammar.word("strict") || grammar.words(&["returns", "null", "on", "null", "input"])
}

/// The body of such a function.
fn null_of_null(body: &str, parameters: usize) -> String {
    let body = body.trim().trim_end_matches(';').trim_end();
    let any: Vec<String> = (1..=parameters)
        .map(|number| format!("${number} IS NULL"))
        .collect();
    format!(
        "SELECT CASE WHEN {} THEN NULL ELSE ({body}\n) END",
        any.join(" OR ")
    )
}

fn check_language(name: &str, at: Option<Position>) -> Result<(), Error> {
    if name.eq_ignore_ascii_case("sql") {
        return Ok(());
    }
    Err(Error::Definition {
        message: format!("LANGUAGE {name} is not supported: {ADVICE}"),
        fault: Fault::Unsupported,
        position: at,
    })
}

/// What may be said beside that; `false` = nothing of it stands here.
fn option(
    grammar: &mut Grammar<'_>,
    is_procedure: bool,
    at: Option<Position>,
) -> Result<bool, Error> {
    if grammar.words(&["security", "definer"]) {
        return Err(refused(
            "it runs with the rights of whoever calls it, and in a job of whoever made the job; leave SECURITY DEFINER out",
            at,
        ));
    }
    if grammar.word("begin") {
        return Err(refused(
            "write the statements between dollars: AS $$ ... $$",
            at,
        ));
    }
    if grammar.word("set") {
        return Err(refused(
            "it runs with the settings of the server; leave SET out",
            at,
        ));
    }
    if grammar.words(&["security", "invoker"]) {
        return Ok(true);
    }
    if is_procedure {
        return Ok(false);
    }
    // It is evaluated with each statement, from the snapshot of that.
    for word in ["immutable", "stable", "volatile", "leakproof"] {
        if grammar.word(word) {
            return Ok(true);
        }
    }
    if grammar.word("parallel") || grammar.word("cost") {
        grammar.next();
        return Ok(true);
    }
    Ok(grammar.words(&["called", "on", "null", "input"]))
}

/// What stands between the parentheses behind its name.
fn parameters(grammar: &mut Grammar<'_>) -> Result<Vec<Parameter>, Error> {
    grammar.expect(&Token::LParen)?;
    let mut found: Vec<Parameter> = Vec::new();
    if grammar.token(&Token::RParen) {
        return Ok(found);
    }
    loop {
        let at = grammar.position();
        for word in ["out", "inout", "variadic"] {
            if grammar.word(word) {
                return Err(refused(
                    "parameters are given, and answer nothing; write IN",
                    at,
                ));
            }
        }
        grammar.word("in");
        let parameter = parameter(grammar)?;
        if !parameter.name.is_empty() && found.iter().any(|it| it.name == parameter.name) {
            let message = format!("the parameter \"{}\" is named twice", parameter.name);
            return Err(refused(&message, at));
        }
        found.push(parameter);
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    grammar.expect(&Token::RParen)?;
    Ok(found)
}

fn parameter(grammar: &mut Grammar<'_>) -> Result<Parameter, Error> {
    let name = grammar.name()?;
    // A word alone is a type.
    let is_type = matches!(grammar.next_shown().as_str(), "," | ")" | "=");
    let (name, of) = if is_type {
        (String::new(), name.text)
    } else {
        (name.text, value_type(grammar)?)
    };
    let has_default = grammar.word("default") || grammar.token(&Token::Eq);
    let default = if has_default {
        Some(grammar.expression()?.to_string())
    } else {
        None
    };
    Ok(Parameter { name, of, default })
}

/// A type that a value may have, as it is written.
fn value_type(grammar: &mut Grammar<'_>) -> Result<String, Error> {
    let (written, at) = grammar.data_type()?;
    let wrong = |message: &str| Error::Plan {
        message: message.to_owned(),
        position: at,
    };
    match types::read(&written) {
        Ok(types::Written::Tag) => Err(wrong("TAG is no type of a value")),
        Ok(_) => Ok(written.to_string().to_ascii_lowercase()),
        Err(message) => Err(wrong(&message)),
    }
}

/// A type without its length: arguments and answers of functions have none, as in PostgreSQL. The digits of a numeric hold.
fn without_length(of: String) -> String {
    match of.split_once('(') {
        Some((base, _)) if base.contains("char") => base.trim_end().to_owned(),
        _ => of,
    }
}

fn text(grammar: &mut Grammar<'_>) -> Result<String, Error> {
    if let Token::DollarQuotedString(_) = grammar.peek()
        && let Token::DollarQuotedString(text) = grammar.next()
    {
        return Ok(text.value);
    }
    grammar.text()
}

/// Reads what follows DROP FUNCTION or PROCEDURE.
pub(super) fn drop(grammar: &mut Grammar<'_>, is_procedure: bool) -> Result<WrittenChange, Error> {
    let if_exists = grammar.if_exists();
    let path = grammar.path()?;
    if grammar.next_shown() == "(" {
        parameters(grammar)?;
    }
    let _ = grammar.word("cascade") || grammar.word("restrict");
    Ok(WrittenChange::of_path(&path, |path| Change::DropRoutine {
        path,
        is_procedure,
        if_exists,
    }))
}
