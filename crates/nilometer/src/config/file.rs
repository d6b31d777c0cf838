//! The file: `flag-name = value` lines of TOML, each known by its line.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Command;
use nilometer_engine::nearest;
use toml::de::{DeTable, DeValue};

use super::{SERVE, SettingType, settings};
use crate::size::takes_bytes;

/// A setting in the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    value: Value,
}

/// What stands behind the equals sign.
#[derive(Debug)]
enum Value {
    Flag(bool),
    Number(String),
    Text(String),
    /// Something that no setting takes, by its name in TOML.
    Other(&'static str),
}

/// A file that was read; every error names it and the line.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    entries: Vec<Entry>,
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read the settings in {}; check --config or NILOMETER_CONFIG",
                path.display()
            )
        })?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let line_of = |at: usize| {
            let before = text.bytes().take(at);
            1 + before.filter(|&byte| byte == b'\n').count()
        };
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_of(error.span().map_or(0, |span| span.start));
            let reason = error.message().replace('\n', ", ");
            anyhow!(
                "{}:{line}: this is not TOML: {reason}; write lines such as http-bind = \"127.0.0.1:8086\"",
                path.display()
            )
        })?;
        let mut entries: Vec<Entry> = table
            .get_ref()
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                line: line_of(key.span().start),
                value: Value::of(value.get_ref()),
            })
            .collect();
        entries.sort_by_key(|entry| entry.line);
        Ok(Self {
            path: path.to_owned(),
            entries,
        })
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The argument that says the same on the command line; `None` = a flag that is off. An error if there is no such
    /// setting or if it does not take this value.
    pub(super) fn check(&self, command: &Command, entry: &Entry) -> anyhow::Result<Option<String>> {
        let place = format!("{}:{}", self.path.display(), entry.line);
        let key = &entry.key;
        let known = settings(command);
        let Some(arg) = known.iter().find(|arg| arg.get_long() == Some(key)) else {
            let names = known.iter().filter_map(|arg| arg.get_long());
            return Err(anyhow!("{place}: {}", unknown(entry, names)));
        };
        let kind = SettingType::of(arg);
        let argument = match (kind, &entry.value) {
            (SettingType::Flag, Value::Flag(false)) => return Ok(None),
            (SettingType::Flag, Value::Flag(true)) => format!("--{key}"),
            (SettingType::Number, Value::Number(number)) => format!("--{key}={number}"),
            (SettingType::Text, Value::Text(text)) => format!("--{key}={text}"),
            (SettingType::Number, Value::Text(text)) if takes_bytes(arg) => {
                format!("--{key}={text}")
            }
            (_, value) => {
                return Err(anyhow!(
                    "{place}: {key} takes {}, and this is {}",
                    kind.wanted(),
                    value.kind()
                ));
            }
        };
        let name = command.get_name().to_owned();
        let alone = [name, SERVE.to_owned(), argument.clone()];
        match command.clone().try_get_matches_from(alone) {
            Ok(_) => Ok(Some(argument)),
            Err(error) => Err(anyhow!("{place}: {}", reason(&error))),
        }
    }
}

impl Value {
    fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Boolean(value) => Self::Flag(*value),
            DeValue::String(value) => Self::Text(value.to_string()),
            DeValue::Integer(value) => i128::from_str_radix(value.as_str(), value.radix())
                .map_or(Self::Other("a number that is too large"), |number| {
                    Self::Number(number.to_string())
                }),
            DeValue::Float(_) => Self::Other("a number with a fraction"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Array(_) => Self::Other("a list"),
            DeValue::Table(_) => Self::Other("a section"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Other(kind) => kind,
        }
    }
}

/// What to say of a key that is no setting.
fn unknown<'a>(entry: &Entry, names: impl Iterator<Item = &'a str>) -> String {
    let key = &entry.key;
    match (key.as_str(), &entry.value) {
        ("token", _) => {
            return "this file cannot contain the token; put it into a file of its own and name that file with token-file".to_owned();
        }
        ("config", _) => return "a settings file cannot name another one".to_owned(),
        (_, Value::Other("a section")) => {
            return format!(
                "there are no sections; write the settings of [{key}] above the first one"
            );
        }
        _ => {}
    }
    let hint = nearest(key, names).map_or_else(
        || "`nilometer config` lists all".to_owned(),
        |name| format!("did you mean {name}?"),
    );
    format!("there is no setting {key}; {hint}")
}

/// The sentence of an error of the command line's parser, without the help that follows it.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nFor more").next().unwrap_or(&text);
    let words: Vec<&str> = text
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    words.join(" ")
}
