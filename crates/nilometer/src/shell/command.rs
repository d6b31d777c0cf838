//! Commands that begin with a backslash.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

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
    /// `None` = the other of the two.
    Expanded(Option<bool>),
    Pager(Option<bool>),
    /// `None` = the terminal.
    Output(Option<PathBuf>),
    Watch {
        pause: Duration,
        /// `None` = until Ctrl-C.
        count: Option<u64>,
    },
    Edit,
    Include(PathBuf),
    /// `None` = of the last answer.
    Chart(Option<String>),
}

/// How long `\watch` waits between two runs, if nothing else is said.
const WATCH_PAUSE: Duration = Duration::from_secs(2);

/// Every command: how it is written, and what it does.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("\\?", "show this list; help does too"),
    ("\\q", "leave; exit, quit and Ctrl-D do too"),
    ("\\l", "list databases"),
    ("\\c DATABASE", "switch to another database"),
    ("\\dn", "list schemas of this database"),
    ("\\d", "list tables of this database"),
    ("\\d TABLE", "list columns of a table"),
    (
        "\\df [WORD]",
        "list functions, or those whose names contain the word",
    ),
    (
        "\\format [FORMAT]",
        "show rows as table, expanded, csv, json, jsonl or markdown",
    ),
    ("\\x [on|off]", "show each value on a line of its own"),
    ("\\timing [on|off]", "show how long statements take"),
    (
        "\\pager [on|off]",
        "use a pager (NILOMETER_PAGER, PAGER, less) for long answers",
    ),
    (
        "\\o [FILE]",
        "write answers to a file in the format of its ending; without FILE, to the terminal again",
    ),
    (
        "\\chart [TABLE | SELECT ...]",
        "draw the numbers of a table, an answer, or the last answer, over time",
    ),
    (
        "\\watch [SECONDS] [c=COUNT]",
        "repeat the last statement every 2 seconds, until Ctrl-C",
    ),
    (
        "\\e",
        "edit the last statement in $VISUAL or $EDITOR, and run it",
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
        "timing" => Command::Timing(switch(name, rest)?),
        "x" => Command::Expanded(switch(name, rest)?),
        "pager" => Command::Pager(switch(name, rest)?),
        "o" | "out" => Command::Output((!rest.is_empty()).then(|| PathBuf::from(unquoted(rest)))),
        "watch" => watch(rest)?,
        "e" | "edit" if rest.is_empty() => Command::Edit,
        "e" | "edit" => return Err("\\e takes no file; \\i FILE runs one".to_owned()),
        "format" => Command::Format(match rest {
            "" => None,
            rest => Some(format(rest)?),
        }),
        "i" => Command::Include(PathBuf::from(needed("the name of a file")?)),
        "chart" => Command::Chart((!rest.is_empty()).then(|| charted(rest))),
        _ => return Err(format!("there is no command \\{name}; \\? lists them all")),
    })
}

fn switch(name: &str, text: &str) -> Result<Option<bool>, String> {
    match text {
        "" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err(format!("\\{name} takes on, off or nothing")),
    }
}

/// As psql has it: seconds, or `i=SECONDS`, and `c=COUNT`.
fn watch(text: &str) -> Result<Command, String> {
    let (mut pause, mut count) = (WATCH_PAUSE, None);
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or(("i", word));
        let is_known = match name {
            "i" | "interval" => {
                let seconds = value.parse().ok();
                let seconds = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
                pause = seconds.unwrap_or(pause);
                seconds.is_some()
            }
            "c" | "count" => {
                count = value.parse().ok().filter(|count| *count > 0);
                count.is_some()
            }
            _ => false,
        };
        if !is_known {
            return Err(format!(
                "\\watch does not take {word}; write seconds and a count as in \\watch 5 c=10"
            ));
        }
    }
    Ok(Command::Watch { pause, count })
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
            "{} is for files: write the next answer to one with \\o FILE.{}",
            format.name(),
            format.name()
        )),
        Err(_) => Err(format!(
            "there is no format {text}; use table, expanded, csv, json, jsonl or markdown"
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
            ("x", Command::Expanded(None)),
            ("pager off", Command::Pager(Some(false))),
            ("o", Command::Output(None)),
            ("o a.csv", Command::Output(Some(PathBuf::from("a.csv")))),
            (
                "watch",
                Command::Watch {
                    pause: Duration::from_secs(2),
                    count: None,
                },
            ),
            (
                "watch 0.5 c=3",
                Command::Watch {
                    pause: Duration::from_millis(500),
                    count: Some(3),
                },
            ),
            ("e", Command::Edit),
            ("exit", Command::Quit),
            ("help", Command::Help),
            ("c metrics", Command::Connect("metrics".to_owned())),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_wrong_command_is_told_what_is_right() {
        for (text, word) in [
            ("y", "\\?"),
            ("x maybe", "on, off"),
            ("e file", "\\i"),
            ("watch soon", "soon"),
            ("watch -1", "-1"),
            ("watch c=0", "c=0"),
            ("c", "database"),
            ("format parquet", "\\o"),
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
                .replace("FORMAT", "csv")
                .replace("SECONDS", "1")
                .replace("COUNT", "1");
            assert!(parse(text.trim_start_matches('\\')).is_ok(), "{name}");
            assert!(help().contains(name));
        }
    }
}
