//! SET and RESET of what a session has: its time zone.
//!
//! Does: read them, for who keeps a session from one statement to the next, and refuse them for who does not. Does not: keep
//! anything (`nilometer_service::Session` does).

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::SessionChange;

use super::grammar::Grammar;
use super::{Bounds, tokens};
use crate::SqlOptions;
use crate::error::{Error, Position};
use crate::semantics::zone::Zone;

/// Minutes in an hour.
const HOUR_MIN: f64 = 60.0;

/// What a statement sets of its session, such as `SET TIME ZONE 'Europe/Berlin'`; `None` = it is another statement. For who
/// keeps a session from one statement to the next; carried out by itself, such a statement is refused.
pub fn session_change(sql: &str) -> Result<Option<SessionChange>, Error> {
    // A long INSERT is not read twice.
    let first = first_word(sql);
    if !["set", "reset"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
    {
        return Ok(None);
    }
    let tokens = tokens(sql, Bounds::of(&SqlOptions::default()))?;
    if !sets_zone(&tokens) {
        return Ok(None);
    }
    let dialect = GenericDialect {};
    let mut grammar = Grammar::new(tokens, &dialect);
    let resets = grammar.word("reset");
    if !resets {
        grammar.word("set");
    }
    let at = grammar.position();
    if grammar.word("local") {
        return Err(Error::Plan {
            message: "each statement is a transaction of its own, and SET LOCAL would end with it; write SET TIME ZONE"
                .to_owned(),
            position: at,
        });
    }
    grammar.word("session");
    let in_words = grammar.words(&["time", "zone"]);
    if !in_words {
        grammar.word("timezone");
    }
    let zone = if resets {
        None
    } else {
        if !in_words && !grammar.token(&Token::Eq) && !grammar.word("to") {
            return grammar.expected("= or TO");
        }
        zone(&mut grammar)?
    };
    grammar.end()?;
    Ok(Some(SessionChange::Zone(zone)))
}

/// What is said where each statement is a session of its own; `None` = the statement sets nothing of a session.
pub(super) fn refuse(tokens: &[TokenWithSpan]) -> Option<Error> {
    let first = words(tokens).next()?;
    sets_zone(tokens).then(|| Error::Unsupported {
        statement: format!("{} of the time zone", first.to_uppercase()),
        instead: "each request is a session of its own: send the parameter timezone with it (Europe/Berlin, or +02:00); SHOW timezone answers which one it has",
    })
}

/// The first word of a text behind blanks and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let behind = if rest.starts_with("--") {
            rest.split_once('\n').map(|(_, behind)| behind)
        } else if rest.starts_with("/*") {
            // One within another ends too early, at what is no word.
            rest.split_once("*/").map(|(_, behind)| behind)
        } else {
            break;
        };
        rest = behind.unwrap_or_default().trim_start();
    }
    let end = rest.find(|letter: char| !letter.is_ascii_alphabetic());
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// The first words of a statement in lower case; what is no word is an empty one.
pub(super) fn words(tokens: &[TokenWithSpan]) -> impl Iterator<Item = String> {
    tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
        Token::Whitespace(_) => None,
        _ => Some(String::new()),
    })
}

fn sets_zone(tokens: &[TokenWithSpan]) -> bool {
    let words: Vec<String> = words(tokens).take(4).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["set" | "reset", rest @ ..] = words.as_slice() else {
        return false;
    };
    let (["session" | "local", rest @ ..] | rest) = rest;
    matches!(rest, ["timezone", ..] | ["time", "zone", ..])
}

/// A zone by its name or offset, as it is called; `None` = the default.
fn zone(grammar: &mut Grammar<'_>) -> Result<Option<String>, Error> {
    let at = grammar.position();
    // As in PostgreSQL these two are the same: the server's.
    if grammar.word("default") || grammar.word("local") {
        return Ok(None);
    }
    let is_interval = grammar.word("interval");
    let is_negative = grammar.token(&Token::Minus);
    let is_signed = is_negative || grammar.token(&Token::Plus);
    let name = match grammar.next() {
        Token::Number(hours, _) if !is_interval => offset(&hours, is_negative),
        Token::SingleQuotedString(name) if !is_signed => Some(name),
        Token::Word(word) if !is_signed && !is_interval => Some(word.value),
        _ => None,
    };
    let Some(name) = name else {
        return Err(Error::Syntax {
            message: "Expected: a time zone, such as 'Europe/Berlin' or '+02:00', or DEFAULT"
                .to_owned(),
            position: at,
        });
    };
    if is_interval {
        grammar.words(&["hour", "to", "minute"]);
    }
    let zone = Zone::of(&name).map_err(|error| placed(error, at))?;
    Ok((!zone.is_utc()).then(|| zone.name().to_string()))
}

/// An offset from hours east of Greenwich.
fn offset(hours: &str, is_negative: bool) -> Option<String> {
    let minutes = hours.parse::<f64>().ok()? * HOUR_MIN;
    if minutes.fract() != 0.0 || minutes >= 24.0 * HOUR_MIN {
        return None;
    }
    let sign = if is_negative { '-' } else { '+' };
    let hours = (minutes / HOUR_MIN).floor();
    let minutes = minutes - hours * HOUR_MIN;
    Some(format!("{sign}{hours:02}:{minutes:02}"))
}

fn placed(error: Error, position: Option<Position>) -> Error {
    match error {
        Error::Plan { message, .. } => Error::Plan { message, position },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_zone_is_set_in_every_way_that_postgresql_has() {
        for (sql, zone) in [
            ("SET TIME ZONE 'Europe/Berlin'", Some("Europe/Berlin")),
            (
                "set session time zone \"Europe/Berlin\";",
                Some("Europe/Berlin"),
            ),
            ("SET timezone = 'Europe/Berlin'", Some("Europe/Berlin")),
            ("SET TimeZone TO 'Europe/Berlin'", Some("Europe/Berlin")),
            (
                "-- a note\n/* and more */ SET timezone='+05:30'",
                Some("+05:30"),
            ),
            ("SET TIME ZONE -7", Some("-07:00")),
            ("SET TIME ZONE +5.5", Some("+05:30")),
            (
                "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE",
                Some("-08:00"),
            ),
            ("SET TIME ZONE UTC", None),
            ("SET timezone TO DEFAULT", None),
            ("SET TIME ZONE LOCAL", None),
            ("RESET timezone", None),
            ("RESET TIME ZONE", None),
        ] {
            let wanted = SessionChange::Zone(zone.map(str::to_owned));
            assert_eq!(session_change(sql).unwrap(), Some(wanted), "{sql}");
        }
        for sql in [
            "SELECT 'SET TIME ZONE'",
            "SET search_path = public",
            "UPDATE t SET timezone = 'UTC'",
            "SHOW timezone",
            "/* SET TIME ZONE 'UTC' */",
            "",
        ] {
            assert_eq!(session_change(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn a_zone_that_there_is_not_is_refused_with_its_place() {
        for (sql, text, column) in [
            (
                "SET TIME ZONE 'Mars/Olympus'",
                "unknown time zone \"Mars/Olympus\"",
                15,
            ),
            ("SET TIME ZONE 25", "Expected: a time zone", 15),
            ("SET TIME ZONE -'UTC'", "Expected: a time zone", 15),
            ("SET timezone 'UTC'", "Expected: = or TO", 14),
            (
                "SET timezone = Europe/Berlin",
                "unknown time zone \"Europe\"",
                16,
            ),
            (
                "SET timezone = 'UTC' x",
                "Expected: the end of the statement",
                22,
            ),
            ("SET LOCAL timezone = 'UTC'", "write SET TIME ZONE", 5),
        ] {
            let error = session_change(sql).unwrap_err();
            assert!(error.to_string().contains(text), "{sql}: {error}");
            let place = error.position().map(|at| (at.line, at.column));
            assert_eq!(place, Some((1, column)), "{sql}: {error}");
        }
    }
}
