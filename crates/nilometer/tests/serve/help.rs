//! The help is true: every command has examples, and every example runs as it is written.
//!
//! The examples run in the order of [`COMMANDS`] in one folder, against one server; what they need beforehand is made by
//! [`prepare`]. An example that cannot run on any machine is named in [`ELSEWHERE`] with the reason, and its arguments are
//! checked all the same.

use std::path::Path;

use tempfile::TempDir;

use crate::support::{Server, bash, gzip, nilometer};

/// Commands whose examples run, in this order: a later one works on what an earlier one made.
const COMMANDS: &[&[&str]] = &[
    &["import"],
    &["sql"],
    &["export"],
    &["pg-schema"],
    &["status"],
    &["bench", "edge"],
    &["bench", "generate"],
    &["bench", "hypertable"],
    &["bench", "load"],
    &["bench", "queries"],
    &["bench", "tstorage"],
    &["completions"],
    &["man"],
    &["config"],
    &["settle"],
    &["check"],
    &["inspect"],
    &["backup"],
    &["restore"],
    &["edge", "key"],
    &["edge", "inspect"],
    &["edge", "push"],
    &["demo"],
    &["serve"],
];

/// Words of examples that need what a test has not, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "example.org",
        "needs a server with a certificate of its own",
    ),
    (
        "serve",
        "runs until it is stopped; every other test starts one",
    ),
    (
        "sql -d d",
        "is the shell, which needs a terminal; the tests of the shell have one",
    ),
    (
        "demo",
        "takes a minute and every core; CI runs it after the tests",
    ),
    (
        "bench tstorage --hosts 3000 --duration 2d",
        "loads 52 million records; the tests of TStorage load fewer",
    ),
    ("curl", "is an example of another program"),
    (
        "pg_dump",
        "needs a server of PostgreSQL; scripts/postgresql/dump.py has one",
    ),
];

#[test]
fn every_command_has_examples_and_they_run_as_they_are_written() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = Server::start(&dir.path().join("server"), &[]);
    prepare(dir.path(), &server);
    let variables = [("NILOMETER_URL", server.url())];
    for command in COMMANDS {
        for example in examples(dir.path(), command) {
            if is_elsewhere(&example) {
                continue;
            }
            let run = bash(dir.path(), &example, &variables);
            assert_eq!(
                run.status,
                Some(0),
                "{example}\n{}\n{}",
                run.stdout,
                run.stderr
            );
        }
    }
}

#[test]
fn no_command_is_missing_from_the_examples() {
    let dir = TempDir::new().expect("a scratch folder");
    let mut all = Vec::new();
    for command in commands_of(dir.path(), &[]) {
        let below = commands_of(dir.path(), &[&command]);
        if below.is_empty() {
            all.push(vec![command]);
        } else {
            all.extend(below.into_iter().map(|name| vec![command.clone(), name]));
        }
    }
    assert!(all.len() > 10, "{all:?}");
    for command in &all {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        assert!(
            !examples(dir.path(), &words).is_empty(),
            "{command:?} has no example"
        );
        assert!(
            COMMANDS.contains(&words.as_slice()),
            "the examples of {command:?} are not run; add it to COMMANDS in help.rs"
        );
    }
}

/// What the examples take for granted.
fn prepare(dir: &Path, server: &Server) {
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.join(name), bytes).expect("a file for the examples");
    };
    file(
        "measurements.csv",
        b"when,city,station,temperature\n2024-01-01T00:00:00Z,Cairo,A,14.5\n2024-01-01T01:00:00Z,Aswan,B,16\n",
    );
    file("report.sql", b"select count(*) from m;\n");
    file(
        "schema.sql",
        b"CREATE TABLE public.t (\n    id bigint NOT NULL\n);\n\nALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_pkey PRIMARY KEY (id);\n",
    );
    file("nilometer.toml", b"data = \"./data\"\n");
    let points = b"m,host=a v=1.5 1700000000\nm,host=b v=2.5 1700000000\n";
    file("points.lp.gz", &gzip(points));
    let export = b"# INFLUXDB EXPORT: a - b\n# DDL\nCREATE DATABASE moved WITH NAME autogen\n# DML\n# CONTEXT-DATABASE:moved\n# CONTEXT-RETENTION-POLICY:autogen\n# writing tsm data\nm,host=a v=1.5 1700000000000000000\n";
    file("influx_inspect-export.gz", &gzip(export));
    file("edge.secret", b"0123456789abcdef0123456789abcdef\n");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1");
    let image = std::fs::read(golden.join("image_unit_1.img"));
    file("flash.img", &image.expect("a golden image"));
    assert_eq!(server.write("edge", "m v=1 1").status, 204);
    std::fs::create_dir(dir.join("exported")).expect("a folder");
    file("exported/m.lp", points);
    for (database, lines) in [
        (
            "weather",
            "air,city=Cairo temperature=14.5 1704067200000000000",
        ),
        ("d", "m,host=a v=1.5 1704067200000000000"),
    ] {
        assert_eq!(server.write(database, lines).status, 204);
    }
}

/// Lines of the help that begin with a program of the examples.
fn examples(dir: &Path, command: &[&str]) -> Vec<String> {
    let help = nilometer(dir, &[command, &["--help"]].concat()).succeeded();
    let after = help.split_once("Example").map_or("", |(_, after)| after);
    let lines = after.lines().skip(1).map(str::trim);
    lines
        .take_while(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_elsewhere(example: &str) -> bool {
    ELSEWHERE.iter().any(|(words, _)| match *words {
        "serve" | "demo" => example.starts_with(&format!("nilometer {words}")),
        "sql -d d" => example == "nilometer sql -d d",
        "curl" => example.starts_with("curl"),
        words => example.contains(words),
    })
}

/// Names in the list of commands of a help; none if the command has no commands below it.
fn commands_of(dir: &Path, command: &[&str]) -> Vec<String> {
    let help = nilometer(dir, &[command, &["--help"]].concat()).succeeded();
    let Some((_, after)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    after
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}
