//! Settings by flag, variable, file and default, and `nilometer config`, which shows them.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Outcome, Server, binary, finish, wait_for};

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn put(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file in a new folder");
        Self::text(path)
    }

    fn text(path: PathBuf) -> String {
        path.into_os_string()
            .into_string()
            .expect("temporary paths are UTF-8")
    }
}

fn nilometer(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let mut command = binary();
    command.args(arguments).envs(variables.iter().copied());
    finish(command)
}

fn shown(arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let all = [&["config", "--format", "json"], arguments].concat();
    let outcome = nilometer(&all, variables);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("JSON on standard output")
}

#[test]
fn a_flag_counts_before_a_variable_before_the_file_before_the_default() {
    let folder = Folder::new();
    let file = folder.put("n.toml", "# settings\nflush-rows = 1000\nqueries-max = 5\nhttp-bind = \"127.0.0.1:1\"\ninsecure = true\n");
    let variables = [
        ("NILOMETER_FLUSH_ROWS", "2000"),
        ("NILOMETER_QUERIES_MAX", "6"),
    ];
    let all = shown(&["--config", &file, "--flush-rows", "3000"], &variables);
    let of = |name: &str| (all[name]["value"].clone(), all[name]["from"].clone());
    assert_eq!(of("flush-rows"), (3000.into(), "flag".into()));
    assert_eq!(
        of("queries-max"),
        (6.into(), "env NILOMETER_QUERIES_MAX".into())
    );
    assert_eq!(
        of("http-bind"),
        ("127.0.0.1:1".into(), format!("{file}:4").into())
    );
    assert_eq!(of("insecure"), (true.into(), format!("{file}:5").into()));
    assert_eq!(of("log-format"), ("text".into(), "default".into()));
    assert_eq!(of("data"), (Value::Null, Value::Null));
    assert_eq!(of("token"), (Value::Null, Value::Null));
    // The variable that names the file does the same.
    let again = shown(&[], &[("NILOMETER_CONFIG", &file)]);
    assert_eq!(again["flush-rows"]["value"], 1000);
}

#[test]
fn the_table_has_a_line_for_each_setting_and_the_toml_is_a_file_again() {
    let folder = Folder::new();
    let token = folder.put("token", "planted-secret-0123456789");
    let outcome = nilometer(
        &["config", "--token-file", &token, "--keys-max", "7"],
        &[("NILOMETER_QUERY_MS_MX", "1")],
    );
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let row = |name: &str| -> Vec<String> {
        let mut lines = outcome
            .stdout
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect());
        lines
            .find(|words: &Vec<String>| words.first().is_some_and(|word| word == name))
            .unwrap_or_else(|| panic!("no {name} in {}", outcome.stdout))
    };
    assert_eq!(row("keys-max"), ["keys-max", "7", "flag"]);
    assert_eq!(row("query-ms-max"), ["query-ms-max", "60000", "default"]);
    assert_eq!(row("token"), ["token", "(set)", token.as_str()]);
    assert!(
        outcome.stdout.contains(
            "note: NILOMETER_QUERY_MS_MX is no setting; did you mean NILOMETER_QUERY_MS_MAX?"
        ),
        "{}",
        outcome.stdout
    );
    assert!(!outcome.stdout.contains("planted"), "{}", outcome.stdout);
    let secret = [("NILOMETER_TOKEN", "planted-secret-0123456789")];
    for format in ["table", "json", "toml"] {
        let outcome = nilometer(&["config", "--format", format], &secret);
        assert!(
            outcome.stdout.contains("(set)") && outcome.stdout.contains("NILOMETER_TOKEN"),
            "{}",
            outcome.stdout
        );
        assert!(!outcome.stdout.contains("planted"), "{}", outcome.stdout);
    }

    let toml = nilometer(
        &[
            "config",
            "--format",
            "toml",
            "--data",
            "a \"b\"",
            "--keys-max",
            "7",
            "--insecure",
        ],
        &[],
    );
    let file = folder.put("again.toml", &toml.stdout);
    let before = shown(&["--data", "a \"b\"", "--keys-max", "7", "--insecure"], &[]);
    let after = shown(&["--config", &file], &[]);
    let (before, after) = (
        before.as_object().expect("an object"),
        after.as_object().expect("an object"),
    );
    assert_eq!(before.len(), after.len());
    for (name, setting) in before {
        assert_eq!(setting["value"], after[name]["value"], "{name}");
    }
    assert!(before.len() > 40, "{} settings", before.len());
}

#[test]
fn a_wrong_file_ends_serve_and_config_with_its_name_line_and_what_would_be_right() {
    let folder = Folder::new();
    let file = folder.put("n.toml", "data = \"unused\"\nflush-row = 1\n");
    for command in ["serve", "config"] {
        let outcome = nilometer(&[command, "--config", &file], &[]);
        assert_eq!(outcome.status.code(), Some(2));
        assert_eq!(
            outcome.stderr,
            format!("error: {file}:2: there is no setting flush-row; did you mean flush-rows?\n")
        );
        // A key is wrong even if a flag makes the value unimportant.
        let file = folder.put("m.toml", "flush-rows = \"many\"\n");
        let outcome = nilometer(&[command, "--config", &file, "--flush-rows", "9"], &[]);
        assert_eq!(
            outcome.stderr,
            format!(
                "error: {file}:1: flush-rows takes a whole number, without quotes, and this is a text\n"
            )
        );
        let absent = format!("{file}.absent");
        let outcome = nilometer(&[command, "--config", &absent], &[]);
        assert_eq!(outcome.status.code(), Some(2));
        assert!(
            outcome.stderr.contains(&absent) && outcome.stderr.contains("--config"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = nilometer(&["serve"], &[]);
    assert_eq!(outcome.status.code(), Some(1));
    for word in ["--data", "NILOMETER_DATA", "--config"] {
        assert!(outcome.stderr.contains(word), "{}", outcome.stderr);
    }
    let outcome = nilometer(&["config", "--http-bind", "0.0.0.0:1"], &[]);
    assert_eq!(
        outcome.status.code(),
        Some(1),
        "what serve refuses, config refuses"
    );
    assert!(
        outcome.stdout.contains("0.0.0.0:1") && outcome.stderr.contains("--insecure"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_server_runs_by_its_file() {
    let folder = Folder::new();
    let data = Folder::text(folder.0.path().join("data"));
    let text = format!(
        "data = {data:?}\nhttp-bind = \"127.0.0.1:0\"\nbody-bytes-max = 100\nlog-format = \"json\"\n"
    );
    let file = folder.put("n.toml", &text);
    let mut command = binary();
    command.args(["serve", "--config", &file]);
    let server = Server::launch(command);
    let response = server.write("d", &"m v=1i 1\n".repeat(20));
    assert_eq!(response.status, 413);
    assert!(
        response.error().contains("100 bytes"),
        "{}",
        response.error()
    );
    // What a server says arrives a little after its answer.
    let said = wait_for("a line of the log", || {
        Some(server.stderr()).filter(|said| !said.is_empty())
    });
    assert!(said.starts_with('{'), "{said}");
    server.stop();
}

#[test]
fn sql_shows_the_settings_in_force_and_where_each_came_from() {
    let folder = Folder::new();
    let data = Folder::text(folder.0.path().join("data"));
    let file = folder.put(
        "n.toml",
        "sql-bytes-max = 5000\nhttp-bind = \"127.0.0.1:0\"\n",
    );
    let mut command = binary();
    command
        .args(["serve", "--data", &data, "--config", &file])
        .args(["--queries-max", "7"])
        .env("NILOMETER_FLUSH_ROWS", "2000");
    let server = Server::launch(command);
    server.write("d", "m v=1i 1\n");
    let rows = server.query("d", "SELECT name, value, source FROM system.settings");
    let of = |name: &str| {
        let mut rows = rows.iter().filter(|row| row["name"] == name);
        let row = rows.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(rows.next().is_none(), "{name} stands there twice");
        let text = |column: &str| row[column].as_str().unwrap_or_default().to_owned();
        (text("value"), text("source"))
    };
    let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(of("queries-max"), pair("7", "flag"));
    assert_eq!(of("flush-rows"), pair("2000", "env NILOMETER_FLUSH_ROWS"));
    assert_eq!(of("sql-bytes-max"), pair("5000", &format!("{file}:1")));
    assert_eq!(of("query-ms-max"), pair("60000", "default"));
    assert_eq!(of("token"), pair("(not set)", ""));
    server.stop();
}
