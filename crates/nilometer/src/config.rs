//! Sources of settings: flags, environment, one TOML file, defaults, in this order.
//!
//! Does: read the file, check it against the flags of `serve`, hand what counts to the command line's parser as if it
//! had been typed, and show the outcome (`nilometer config`). Does not: know any setting by name; the flags are the list.

mod file;
mod show;

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use file::ConfigFile;
pub(crate) use show::{ConfigArgs, in_force, run};

/// Commands that take the file, and the one whose flags it may set.
const COMMANDS: [&str; 2] = ["serve", "config"];
const SERVE: &str = "serve";

/// The flag that names the file, which the file cannot set.
const FILE_FLAG: &str = "config";

/// The command line with what the file adds.
pub(crate) struct Merged {
    pub(crate) matches: ArgMatches,
    /// What the file says and nothing stronger does.
    from_file: Vec<FileSetting>,
}

/// A setting that counts because of the file.
struct FileSetting {
    flag: String,
    path: PathBuf,
    line: usize,
}

/// Parses a command line, with the file that it or the environment names. A wrong command line ends the program here,
/// with its usage, as clap does; a wrong file is the error.
pub(crate) fn merge(command: &Command, arguments: Vec<OsString>) -> anyhow::Result<Merged> {
    let parse = |arguments: &[OsString]| {
        command
            .clone()
            .try_get_matches_from(arguments)
            .unwrap_or_else(|error| error.exit())
    };
    let matches = parse(&arguments);
    let mut merged = Merged {
        matches,
        from_file: Vec::new(),
    };
    let Some(path) = merged.file() else {
        return Ok(merged);
    };
    let file = ConfigFile::read(&path)?;
    let mut longer = arguments;
    for entry in file.entries() {
        let argument = file.check(command, entry)?;
        if merged.is_given(&entry.key) {
            continue;
        }
        longer.extend(argument.map(OsString::from));
        merged.from_file.push(FileSetting {
            flag: entry.key.clone(),
            path: path.clone(),
            line: entry.line,
        });
    }
    merged.matches = parse(&longer);
    Ok(merged)
}

impl Merged {
    /// The flags of the command, if it is one that takes a file.
    fn of_command(&self) -> Option<&ArgMatches> {
        let (name, matches) = self.matches.subcommand()?;
        COMMANDS.contains(&name).then_some(matches)
    }

    fn file(&self) -> Option<PathBuf> {
        self.of_command()?.get_one::<PathBuf>(FILE_FLAG).cloned()
    }

    /// Whether a flag or its variable says something.
    fn is_given(&self, flag: &str) -> bool {
        let source = self
            .of_command()
            .and_then(|matches| matches.value_source(&id_of(flag)));
        matches!(
            source,
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        )
    }
}

/// What the parser calls a flag.
fn id_of(flag: &str) -> String {
    flag.replace('-', "_")
}

/// The settings of a server: its flags that have a name and a value to set.
fn settings(command: &Command) -> Vec<&Arg> {
    let serve = command.find_subcommand(SERVE);
    serve
        .into_iter()
        .flat_map(Command::get_arguments)
        .filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue))
        .filter(|arg| arg.get_long().is_some_and(|long| long != FILE_FLAG))
        .collect()
}

/// What kind of value a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingType {
    Flag,
    Number,
    Text,
}

impl SettingType {
    fn of(arg: &Arg) -> Self {
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            return Self::Flag;
        }
        let numbers = [
            TypeId::of::<u64>(),
            TypeId::of::<i64>(),
            TypeId::of::<u32>(),
            TypeId::of::<usize>(),
        ];
        let id = arg.get_value_parser().type_id();
        if numbers.iter().any(|number| id == *number) {
            Self::Number
        } else {
            Self::Text
        }
    }

    /// An example of such a value, to say what would be right.
    fn wanted(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a whole number, without quotes",
            Self::Text => "a text in quotes",
        }
    }
}

#[cfg(test)]
mod tests;
