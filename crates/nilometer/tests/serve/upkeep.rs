//! The commands for a data directory: inspect, settle, backup, restore.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Outcome, Server, run};

const TOTALS: &str = "SELECT count(*) AS n, sum(v) AS total FROM m";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn succeed(arguments: &[&str]) -> Outcome {
    let outcome = run(None, arguments);
    assert!(
        outcome.status.success(),
        "{arguments:?} ended with {}: {}",
        outcome.status,
        outcome.stderr
    );
    outcome
}

fn json(arguments: &[&str]) -> Value {
    let stdout = succeed(arguments).stdout;
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

fn fail(arguments: &[&str], word: &str) {
    let outcome = run(None, arguments);
    assert!(!outcome.status.success(), "{arguments:?} succeeded");
    assert!(
        outcome.stderr.contains(word) && !outcome.stderr.contains("panicked"),
        "{word} is not named: {}",
        outcome.stderr
    );
}

/// Writes rows of two hosts at the seconds `times`, and one text.
fn write(server: &Server, times: std::ops::Range<u64>) {
    let lines: Vec<String> = times
        .map(|n| {
            let ns = n * 1_000_000_000;
            format!("m,host=a v={n}i,w=0.5 {ns}\nm,host=b v={n}i {ns}\n")
        })
        .collect();
    let response = server.write("d", &lines.concat());
    assert_eq!(response.status, 204, "{}", response.text());
}

fn totals(data: &Path) -> Value {
    let arguments = [
        "sql",
        "--data",
        text(data),
        "-d",
        "d",
        "--format",
        "json",
        TOTALS,
    ];
    json(&arguments)
}

/// A stopped store of three flushed segments, with rows at the seconds 0 to 3000.
fn three_segments() -> TempDir {
    let directory = TempDir::new().expect("a directory for the data");
    for part in 0..3 {
        let server = Server::start(directory.path(), &["--settle-ms", "0"]);
        write(&server, part * 1000..(part + 1) * 1000);
        server.stop();
    }
    directory
}

fn sum(values: &Value, member: &str) -> u64 {
    let values = values.as_array().expect("an array");
    values
        .iter()
        .map(|it| it[member].as_u64().expect("a number"))
        .sum()
}

#[test]
fn inspect_accounts_for_every_byte_row_and_value() {
    let directory = three_segments();
    let data = text(directory.path());
    let found = json(&["inspect", "--data", data, "--json"]);
    let segments = &found["segments"];
    assert_eq!(segments.as_array().map(Vec::len), Some(3));
    assert_eq!(sum(segments, "rows"), 6000);
    // 6000 of the field v, 3000 of w.
    assert_eq!(found["values"], 9000);

    let on_disk = |name: &str| {
        let files = std::fs::read_dir(directory.path().join(name)).expect("a folder");
        files
            .map(|file| file.expect("an entry").metadata().expect("a size").len())
            .sum::<u64>()
    };
    let manifest = std::fs::metadata(directory.path().join("manifest"));
    let manifest = manifest.expect("a manifest").len();
    assert_eq!(found["bytes_total"], on_disk("segments") + manifest);
    assert_eq!(found["log_bytes"], on_disk("log"));
    let parts = found["bytes"].as_object().expect("an object");
    let parts: u64 = parts.values().filter_map(Value::as_u64).sum();
    assert_eq!(found["bytes_total"], parts);

    let table = &found["tables"][0];
    assert_eq!(
        (&table["name"], &table["rows"]),
        (&"d.public.m".into(), &6000.into())
    );
    let columns = &table["columns"];
    for (name, kind, values) in [
        ("time", "i64", 6000),
        ("v", "i64", 6000),
        ("w", "f64", 3000),
    ] {
        let mut all = columns.as_array().expect("an array").iter();
        let column = all.find(|column| column["name"] == name);
        let column = column.unwrap_or_else(|| panic!("no {name} in {columns}"));
        assert_eq!(
            (&column["type"], &column["values"]),
            (&kind.into(), &values.into())
        );
        assert_eq!(sum(&column["encodings"], "values"), values, "{name}");
        assert_eq!(
            column["bytes"],
            sum(&column["encodings"], "bytes"),
            "{name}"
        );
    }
    assert_eq!(sum(columns, "bytes"), found["bytes"]["pages"]);

    let shown = succeed(&["inspect", "--data", data]).stdout;
    for word in [
        "pages",
        "directory",
        "d.public.m: 6,000 rows",
        "9,000 values",
    ] {
        assert!(shown.contains(word), "no {word:?} in\n{shown}");
    }
}

#[test]
fn inspect_looks_into_the_directory_of_a_running_server() {
    let directory = three_segments();
    let data = text(directory.path());
    let server = Server::start(directory.path(), &["--settle-ms", "0"]);
    let found = json(&["inspect", "--data", data, "--json"]);
    assert_eq!(found["segments"].as_array().map(Vec::len), Some(3));
    server.stop();
}

#[test]
fn settle_makes_segments_fewer_and_says_what_it_wrote() {
    let directory = three_segments();
    let data = text(directory.path());
    let before = totals(directory.path());
    // So few rows would stay among others otherwise.
    let own = ["--partition-rows-min", "1"];
    let done = json(&[&["settle", "--data", data, "--json"], &own[..]].concat());
    assert_eq!(done["before"]["segments"], 3);
    assert_eq!(done["after"]["segments"], 1);
    for state in ["before", "after"] {
        assert_eq!(done[state]["segment_rows"], 6000, "{done}");
        let bytes = |member: &str| done[state][member].as_f64().expect("a number");
        let amplification = bytes("segment_bytes_written") / bytes("segment_bytes");
        assert!(
            (bytes("write_amplification") - amplification).abs() < 1e-9,
            "{done}"
        );
    }
    // What was flushed was written once, and once more by the compaction.
    assert_eq!(done["before"]["write_amplification"], 1.0);
    let bytes = |state: &str, member: &str| done[state][member].as_u64().expect("a number");
    assert_eq!(
        bytes("after", "segment_bytes_written"),
        bytes("before", "segment_bytes") + bytes("after", "segment_bytes")
    );
    assert_eq!(totals(directory.path()), before);
    assert_eq!(json(&["inspect", "--data", data, "--json"])["values"], 9000);
    let again = succeed(&["settle", "--data", data]).stdout;
    assert!(again.contains("write amplification"), "{again}");
}

#[test]
fn a_backup_is_restored_under_another_name_with_every_row() {
    let directory = three_segments();
    let data = text(directory.path());
    let place = TempDir::new().expect("a directory for the backup");
    let (backup, copy) = (place.path().join("backup"), place.path().join("copy"));
    succeed(&["backup", "--data", data, "--to", text(&backup)]);
    let first = totals(directory.path());
    let server = Server::start(directory.path(), &[]);
    write(&server, 3000..3500);
    server.stop();
    succeed(&["restore", "--from", text(&backup), "--data", text(&copy)]);
    assert_eq!(totals(&copy), first, "the store as it was then");

    succeed(&["backup", "--data", data, "--to", text(&backup)]);
    let later = place.path().join("later");
    succeed(&["restore", "--from", text(&backup), "--data", text(&later)]);
    assert_eq!(totals(&later), totals(directory.path()));
    assert_eq!(totals(&later)[0]["n"], 7000);
    fail(
        &["restore", "--from", text(&backup), "--data", text(&later)],
        text(&later),
    );
}

#[test]
fn no_command_makes_a_store_of_a_wrong_path_or_takes_one_from_a_server() {
    let place = TempDir::new().expect("a directory");
    let (nowhere, to) = (place.path().join("nowhere"), place.path().join("to"));
    let (nowhere, to) = (text(&nowhere), text(&to));
    let commands: [&[&str]; 4] = [
        &["inspect", "--data", nowhere],
        &["settle", "--data", nowhere],
        &["backup", "--data", nowhere, "--to", to],
        &["restore", "--from", nowhere, "--data", to],
    ];
    for command in commands {
        fail(command, nowhere);
    }
    let files = std::fs::read_dir(place.path()).expect("the directory");
    assert_eq!(files.count(), 0, "a wrong command made something");

    let data = place.path().join("data");
    let data = text(&data);
    let server = Server::start(Path::new(data), &[]);
    fail(&["settle", "--data", data], data);
    fail(&["backup", "--data", data, "--to", to], data);
    server.stop();
}

/// The ledger's mutations removed the manifest of a backup: `restore` said that there was no data directory, and how to make
/// one.
#[test]
fn a_store_or_a_backup_without_its_manifest_is_refused_by_that_file() {
    let directory = three_segments();
    let data = text(directory.path());
    let place = TempDir::new().expect("a directory for the backup");
    let (backup, to) = (place.path().join("backup"), place.path().join("to"));
    let (backup, to) = (text(&backup), text(&to));
    succeed(&["backup", "--data", data, "--to", backup]);
    for folder in [data, backup] {
        std::fs::remove_file(Path::new(folder).join("manifest")).expect("it was there");
    }
    fail(&["restore", "--from", backup, "--data", to], "`manifest`");
    for command in [
        &["inspect", "--data", data][..],
        &["check", "--data", data],
        &["settle", "--data", data],
    ] {
        fail(command, "`manifest`");
    }
}
