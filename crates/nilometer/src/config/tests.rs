use std::path::Path;

use clap::CommandFactory;
use clap::Parser;

use super::file::ConfigFile;
use super::{SettingType, settings};
use crate::Cli;

/// What a file with this text asks for, or the first error.
fn arguments(text: &str) -> Result<Vec<Option<String>>, String> {
    let command = Cli::command();
    let file = ConfigFile::parse(Path::new("n.toml"), text).map_err(|error| error.to_string())?;
    file.entries()
        .iter()
        .map(|entry| {
            file.check(&command, entry)
                .map_err(|error| error.to_string())
        })
        .collect()
}

#[test]
fn every_setting_has_a_variable_named_as_its_flag() {
    let command = Cli::command();
    for arg in settings(&command) {
        let flag = arg.get_long().unwrap();
        let variable = arg.get_env().unwrap().to_str().unwrap();
        let expected = format!("NILOMETER_{}", flag.replace('-', "_").to_uppercase());
        // The level is what the variable for logging has always been about.
        let expected = expected.replace("NILOMETER_LOG_LEVEL", "NILOMETER_LOG");
        assert_eq!(variable, expected);
    }
    let command = Cli::command();
    let numbers = settings(&command)
        .into_iter()
        .filter(|arg| SettingType::of(arg) == SettingType::Number)
        .count();
    assert!(numbers > 30, "{numbers} settings are numbers");
}

#[test]
fn a_file_says_what_flags_say() {
    let text = "# comment\ninsecure = true\nflush-rows = 0x10\n\nhttp-bind = \"127.0.0.1:0\"\nlog-format = 'json'\n";
    let expected = [
        "--insecure",
        "--flush-rows=16",
        "--http-bind=127.0.0.1:0",
        "--log-format=json",
    ];
    assert_eq!(
        arguments(text).unwrap(),
        expected.map(|argument| Some(argument.to_owned()))
    );
    assert_eq!(arguments("insecure = false").unwrap(), [None]);
    assert_eq!(arguments("").unwrap(), []);
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line_and_what_would_be_right() {
    for (text, error) in [
        (
            "\nflush_rows = 1",
            "n.toml:2: there is no setting flush_rows; did you mean flush-rows?",
        ),
        (
            "flsh-rows = 1",
            "n.toml:1: there is no setting flsh-rows; did you mean flush-rows?",
        ),
        (
            "wat = 1",
            "n.toml:1: there is no setting wat; `nilometer config` lists all",
        ),
        (
            "token = \"s3cret\"",
            "n.toml:1: this file cannot contain the token; put it into a file of its own and name that file with token-file",
        ),
        (
            "config = \"x\"",
            "n.toml:1: a settings file cannot name another one",
        ),
        (
            "[serve]\nflush-rows = 1",
            "n.toml:1: there are no sections; write the settings of [serve] above the first one",
        ),
        (
            "flush-rows = \"1\"",
            "n.toml:1: flush-rows takes a whole number, without quotes, and this is a text",
        ),
        (
            "flush-rows = 1.5",
            "n.toml:1: flush-rows takes a whole number, without quotes, and this is a number with a fraction",
        ),
        (
            "data = 1",
            "n.toml:1: data takes a text in quotes, and this is a number",
        ),
        (
            "insecure = \"yes\"",
            "n.toml:1: insecure takes true or false, and this is a text",
        ),
        (
            "data = [1]",
            "n.toml:1: data takes a text in quotes, and this is a list",
        ),
        (
            "flush-rows = -1",
            "n.toml:1: invalid value '-1' for '--flush-rows <N>': invalid digit found in string",
        ),
        (
            "log-format = \"xml\"",
            "n.toml:1: invalid value 'xml' for '--log-format <LOG_FORMAT>' [possible values: text, json]",
        ),
    ] {
        assert_eq!(arguments(text).unwrap_err(), error, "{text}");
    }
    for (text, place) in [
        ("a = ", "n.toml:1: this is not TOML"),
        ("\n\nx\n", "n.toml:3: this is not TOML"),
        ("data = \"a\"\ndata = \"b\"", "n.toml:2: this is not TOML"),
    ] {
        let error = arguments(text).unwrap_err();
        assert!(error.starts_with(place), "{error}");
    }
}

#[test]
fn the_command_line_is_one_that_clap_accepts() {
    Cli::command().debug_assert();
    assert!(Cli::try_parse_from(["nilometer", "serve"]).is_ok());
}
