//! `nilometer config`: the settings in force, and the source of each.

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, Args, Command, ValueEnum};
use nilometer_engine::nearest;
use nilometer_service::ShownSetting;
use serde_json::{Map, Value, json};

use super::{Merged, SettingType, id_of, settings};
use crate::commands::serve::{ServeArgs, TOKEN_VARIABLE};
use crate::print::{self, Table};
use crate::size;

/// The settings that `nilometer serve` would have with the same flags.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer config --config nilometer.toml\n  nilometer config --data ./data --format toml > nilometer.toml"
)]
pub(crate) struct ConfigArgs {
    /// Output format; toml is what --config reads.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
    Toml,
}

/// What stands in the place of a value that there is none of.
const NOT_SET: &str = "(not set)";

/// One line of the answer.
struct Shown {
    name: String,
    kind: SettingType,
    value: Option<String>,
    source: String,
}

/// The settings of a server that starts with this, as `system.settings` has them.
pub(crate) fn in_force(command: &Command, merged: &Merged) -> Vec<ShownSetting> {
    let all = all(command, merged).into_iter();
    let in_force = all.map(|setting| ShownSetting {
        name: setting.name,
        value: setting.value.unwrap_or_else(|| NOT_SET.to_owned()),
        source: setting.source,
    });
    in_force.collect()
}

fn all(command: &Command, merged: &Merged) -> Vec<Shown> {
    let mut all: Vec<Shown> = settings(command)
        .into_iter()
        .map(|arg| shown(arg, merged))
        .collect();
    let token = token(&all);
    all.push(token);
    all
}

pub(crate) fn run(args: &ConfigArgs, command: &Command, merged: &Merged) -> anyhow::Result<()> {
    let all = all(command, merged);
    match args.format {
        Format::Table => {
            print::line(table(&all).to_string().trim_end());
            for note in unknown_variables(command) {
                print::line(note);
            }
        }
        Format::Json => print::line(
            serde_json::to_string_pretty(&object(&all)).context("the settings are JSON")?,
        ),
        Format::Toml => all
            .iter()
            .for_each(|setting| print::line(toml_line(setting))),
    }
    // What no server would take is an error here too, after what led to it.
    args.serve.check()
}

fn shown(arg: &Arg, merged: &Merged) -> Shown {
    let name = arg.get_long().unwrap_or_default().to_owned();
    let matches = merged.of_command();
    let id = id_of(&name);
    let raw = matches.and_then(|matches| matches.get_raw(&id)?.next_back());
    let value = match (SettingType::of(arg), matches) {
        (SettingType::Flag, Some(matches)) => Some(matches.get_flag(&id).to_string()),
        _ => raw.map(|value| size::without_unit(arg, &value.to_string_lossy())),
    };
    let in_file = merged.from_file.iter().find(|it| it.flag == name);
    let source = matches.and_then(|matches| matches.value_source(&id));
    let source = match (in_file, source) {
        (Some(it), _) => format!("{}:{}", it.path.display(), it.line),
        (None, Some(ValueSource::CommandLine)) => "flag".to_owned(),
        (None, Some(ValueSource::EnvVariable)) => {
            let variable = arg.get_env().unwrap_or_default();
            format!("env {}", variable.to_string_lossy())
        }
        (None, Some(_)) => "default".to_owned(),
        (None, None) => String::new(),
    };
    Shown {
        name,
        kind: SettingType::of(arg),
        value,
        source,
    }
}

/// Whether there is a token, never which.
fn token(all: &[Shown]) -> Shown {
    let file = all
        .iter()
        .find(|setting| setting.name == "token-file")
        .and_then(|setting| setting.value.clone());
    let source = match file {
        Some(path) => Some(path),
        None => std::env::var_os(TOKEN_VARIABLE).map(|_| format!("env {TOKEN_VARIABLE}")),
    };
    Shown {
        name: "token".to_owned(),
        kind: SettingType::Text,
        value: source.as_ref().map(|_| "(set)".to_owned()),
        source: source.unwrap_or_default(),
    }
}

fn table(all: &[Shown]) -> Table {
    let mut table = Table::new(&["setting", "value", "from"]);
    for setting in all {
        let value = setting.value.as_deref().unwrap_or(NOT_SET);
        table.row([&setting.name, value, &setting.source].map(str::to_owned));
    }
    table
}

fn object(all: &[Shown]) -> Value {
    let settings = all.iter().map(|setting| {
        let value = setting.value.as_deref().map_or(Value::Null, |text| {
            // What is not a number or a truth in JSON's spelling either is a text.
            match setting.kind {
                SettingType::Text => text.into(),
                _ => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            }
        });
        let source = Some(setting.source.as_str()).filter(|source| !source.is_empty());
        (
            setting.name.clone(),
            json!({ "value": value, "from": source }),
        )
    });
    Value::Object(settings.collect::<Map<_, _>>())
}

/// A line that the file may have; what is not set, and the token, are comments.
fn toml_line(setting: &Shown) -> String {
    let name = &setting.name;
    match &setting.value {
        None => format!("# {name} is not set"),
        Some(value) if name == "token" => format!("# {name} is {value}: {}", setting.source),
        Some(value) => {
            let value = match setting.kind {
                // A text of JSON is one of TOML too.
                SettingType::Text => Value::from(value.as_str()).to_string(),
                _ => value.clone(),
            };
            format!("{name} = {value} # {}", setting.source)
        }
    }
}

/// Variables with our prefix that nothing reads: a misspelt one would be overlooked otherwise.
fn unknown_variables(command: &Command) -> Vec<String> {
    let arguments = command
        .get_subcommands()
        .flat_map(|command| {
            let deeper = command.get_subcommands().flat_map(Command::get_arguments);
            command.get_arguments().chain(deeper)
        })
        .filter_map(|arg| arg.get_env()?.to_str());
    let known: Vec<&str> = arguments.chain([TOKEN_VARIABLE]).collect();
    let mut notes: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("NILOMETER_") && !known.contains(&name.as_str()))
        .map(|name| match nearest(&name, known.iter().copied()) {
            Some(meant) => format!("note: {name} is no setting; did you mean {meant}?"),
            None => format!("note: {name} is no setting"),
        })
        .collect();
    notes.sort();
    notes
}
