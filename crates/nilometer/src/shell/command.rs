//! Commands that begin with a backslash.

use std::fmt::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::output::Format;

/// What the shell can do beside SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Quit,
    Databases,
    Schemas,
    Tables,
    Describe(String),
    Functions(Option<String>),
    Connect(String),
    /// `None` = the other of the two.
    Timing(Option<bool>),
    Format(Option<Format>),
    Include(PathBuf),
    /// `None` = of the last answer.
    Chart(Option<String>),
}

/// Every command: how it is written, and what it does.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("\\?", "this list"),
    ("\\q", "leave"),
    ("\\l", "databases"),
    ("\\dn", "schemas of this database"),
    ("\\d", "tables of this database"),
    ("\\d TABLE", "columns of a table"),
    (
        "\\df [WORD]",
        "functions, or those whose names have the word in them",
    ),
    ("\\c DATABASE", "go to another database"),
    ("\\timing [on|off]", "show how long statements take"),
    (
        "\\format [FORMAT]",
        "show rows as table, csv, json, jsonl or markdown",
    ),
    (
        "\\chart [TABLE | SELECT ...]",
        "draw the numbers of a table, an answer, or the last answer, over the time column",
    ),
    ("\\i FILE", "run the statements in a file"),
];

/// Reads a command without its backslash.
pub(crate) fn parse(text: &str) -> Result<Command, String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let needed = |what: &str| match rest {
        "" => Err(format!("\\{name} needs {what}")),
        rest => Ok(unquoted(rest)),
    };
    Ok(match name {
        "?" | "h" | "help" => Command::Help,
        "q" | "quit" | "exit" => Command::Quit,
        "l" => Command::Databases,
        "dn" => Command::Schemas,
        "d" | "dt" | "d+" if rest.is_empty() => Command::Tables,
        "d" | "d+" | "dt" => Command::Describe(unquoted(rest)),
        "df" => Command::Functions((!rest.is_empty()).then(|| rest.to_owned())),
        "c" | "connect" => Command::Connect(needed("the name of a database")?),
        "timing" => Command::Timing(match rest {
            "" => None,
            "on" => Some(true),
            "off" => Some(false),
            _ => return Err("\\timing takes on, off or nothing".to_owned()),
        }),
        "format" => Command::Format(match rest {
            "" => None,
            rest => Some(format(rest)?),
        }),
        "i" => Command::Include(PathBuf::from(needed("the name of a file")?)),
        "chart" => Command::Chart((!rest.is_empty()).then(|| charted(rest))),
        _ => return Err(format!("there is no command \\{name}; \\? lists them all")),
    })
}

/// A statement, or all of a table if only that is named.
fn charted(text: &str) -> String {
    let is_quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    if is_quoted || !text.contains(char::is_whitespace) {
        format!("SELECT * FROM {text}")
    } else {
        text.to_owned()
    }
}

fn format(text: &str) -> Result<Format, String> {
    match Format::from_str(text, true) {
        Ok(format) if !format.is_binary() => Ok(format),
        Ok(format) => Err(format!(
            "{} is for files: run `nilometer sql --format {} --output FILE` or `nilometer export`",
            format.name(),
            format.name()
        )),
        Err(_) => Err(format!(
            "there is no format {text}; use table, csv, json, jsonl or markdown"
        )),
    }
}

fn unquoted(text: &str) -> String {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match inner {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

/// The list of commands.
pub(crate) fn help() -> String {
    let width = COMMANDS
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::from("A statement ends with a semicolon and may take several lines.\n\n");
    for (name, what) in COMMANDS {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {name:width$}  {what}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_what_they_take() {
        for (text, want) in [
            ("q", Command::Quit),
            ("d", Command::Tables),
            ("d \"A \"\"b\"\"\"", Command::Describe("A \"b\"".to_owned())),
            ("d cpu;", Command::Describe("cpu".to_owned())),
            ("timing", Command::Timing(None)),
            ("timing off", Command::Timing(Some(false))),
            ("format PRETTY", Command::Format(Some(Format::Table))),
            ("chart", Command::Chart(None)),
            (
                "chart select 1 ;",
                Command::Chart(Some("select 1".to_owned())),
            ),
            (
                "chart cpu;",
                Command::Chart(Some("SELECT * FROM cpu".to_owned())),
            ),
            (
                "chart \"air temp\"",
                Command::Chart(Some("SELECT * FROM \"air temp\"".to_owned())),
            ),
            ("c metrics", Command::Connect("metrics".to_owned())),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_wrong_command_is_told_what_is_right() {
        for (text, word) in [
            ("x", "\\?"),
            ("c", "database"),
            ("format parquet", "--output"),
            ("format xml", "csv"),
            ("timing maybe", "on, off"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn every_command_that_is_listed_is_known() {
        for (name, _) in COMMANDS {
            let text = name
                .replace(['[', ']'], "")
                .replace("on|off", "on")
                .replace("FORMAT", "csv");
            assert!(parse(text.trim_start_matches('\\')).is_ok(), "{name}");
            assert!(help().contains(name));
        }
    }
}
