//! The command line: statements against a server or a stopped store, and what a wrong command is told.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Outcome, Server, run};

/// How `nilometer sql` is told where the server is.
const SERVER_FLAG: &str = "--url";

const TOTALS: &str = "SELECT count(*) AS n, sum(v) AS total FROM m WHERE host <> 'c'";

fn load(server: &Server) {
    let response = server.write("d", "m,host=a v=41i 1\nm,host=b v=1i 2\nm,host=c v=100i 3");
    assert_eq!(response.status, 204, "{}", response.text());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// The outcome is a success that says both numbers of `TOTALS`.
fn assert_totals(outcome: &Outcome) {
    assert!(
        outcome.status.success(),
        "ended with {}: {}",
        outcome.status,
        outcome.stderr
    );
    let words: Vec<&str> = outcome
        .stdout
        .split(|c: char| !c.is_alphanumeric())
        .collect();
    for word in ["n", "total", "2", "42"] {
        assert!(words.contains(&word), "no {word:?} in:\n{}", outcome.stdout);
    }
}

fn assert_failed(outcome: &Outcome, word: &str) {
    assert!(
        outcome.status.code().is_some_and(|code| code != 0),
        "ended with {}",
        outcome.status
    );
    assert!(
        outcome.stderr.contains(word),
        "{word} is not named: {}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn sql_asks_a_server() {
    let directory = TempDir::new().expect("a directory for the data");
    let server = Server::start(directory.path(), &[]);
    load(&server);
    assert_totals(&run(
        None,
        &["sql", SERVER_FLAG, server.url(), "-d", "d", TOTALS],
    ));
    assert_failed(
        &run(
            None,
            &[
                "sql",
                SERVER_FLAG,
                server.url(),
                "-d",
                "d",
                "SELECT x FROM m",
            ],
        ),
        "x",
    );
    assert_failed(
        &run(
            None,
            &[
                "sql",
                SERVER_FLAG,
                server.url(),
                "-d",
                "nowhere",
                "SELECT 1",
            ],
        ),
        "nowhere",
    );

    let json = run(
        None,
        &[
            "sql",
            SERVER_FLAG,
            server.url(),
            "-d",
            "d",
            "--format",
            "json",
            TOTALS,
        ],
    );
    assert!(
        json.status.success(),
        "ended with {}: {}",
        json.status,
        json.stderr
    );
    let rows: Value = serde_json::from_str(&json.stdout).expect("JSON on standard output");
    assert_eq!(rows, serde_json::json!([{"n": 2, "total": 42}]));

    let url = server.url().to_owned();
    server.stop();
    assert_failed(
        &run(None, &["sql", SERVER_FLAG, &url, "-d", "d", TOTALS]),
        &url,
    );
}

#[test]
fn sql_asks_a_stopped_store_from_its_log_and_from_its_segments() {
    let directory = TempDir::new().expect("a directory for the data");
    let data = text(directory.path());
    let server = Server::start(directory.path(), &[]);
    load(&server);
    assert_failed(
        &run(None, &["sql", "--data", data, "-d", "d", TOTALS]),
        data,
    );
    server.kill();
    assert_totals(&run(None, &["sql", "--data", data, "-d", "d", TOTALS]));

    let server = Server::start(directory.path(), &[]);
    assert_eq!(
        server.query("d", TOTALS)[0]["total"],
        42,
        "reading a stopped store changed it"
    );
    server.stop();
    assert_totals(&run(None, &["sql", "--data", data, "-d", "d", TOTALS]));
    assert_failed(
        &run(None, &["sql", "--data", data, "-d", "nowhere", "SELECT 1"]),
        "nowhere",
    );
}

#[test]
fn a_wrong_command_ends_with_2_and_shows_the_usage() {
    let wrong: [&[&str]; 5] = [
        &[],
        &["no-such-command"],
        &["serve", "--no-such-flag"],
        &["serve", "--data", "unused", "--http-bind", "no address"],
        &["serve", "--data", "unused", "--flush-rows", "many"],
    ];
    for arguments in wrong {
        let outcome = run(None, arguments);
        assert_eq!(
            outcome.status.code(),
            Some(2),
            "{arguments:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stdout.is_empty(),
            "{arguments:?}: {}",
            outcome.stdout
        );
        let help = outcome.stderr.to_lowercase();
        assert!(
            help.contains("usage") || help.contains("--help"),
            "{arguments:?}: no help: {}",
            outcome.stderr
        );
    }
    assert!(
        !Path::new("unused").exists(),
        "a wrong command made a directory"
    );
}

#[test]
fn help_and_version_are_answers_and_not_errors() {
    for (arguments, word) in [
        (&["--help"], "serve"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let outcome = run(None, arguments);
        assert_eq!(
            outcome.status.code(),
            Some(0),
            "{arguments:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stdout.contains(word),
            "{arguments:?}: {}",
            outcome.stdout
        );
    }
}
