//! Files that people have come in whole: every format, every compression, and what does not fit is named.

use std::io::Write;

use serde_json::json;
use tempfile::TempDir;

use crate::fake_server::FakeServer;
use crate::support::{Scratch, gzip, nilometer, nilometer_with};

const CSV: &str = "time,city,temperature,note\n\
    2024-05-01 00:00:00,Cairo,21.5,\"clear, dry\"\n\
    2024-05-01 01:00:00,Aswan,twenty,\n\
    2024-05-01 02:00:00,Cairo,20.25,\n\
    soon,Cairo,20,\n\
    2024-05-01 03:00:00,Aswan,27,hot\n";

impl Scratch {
    fn count(&self, database: &str, table: &str) -> u64 {
        let rows = self
            .server
            .query(database, &format!("SELECT count(*) AS n FROM {table}"));
        rows[0]["n"].as_u64().expect("a count")
    }
}

#[test]
fn csv_comes_in_and_bad_rows_are_named_with_their_lines() {
    let scratch = Scratch::new();
    scratch.file("weather.csv", CSV.as_bytes());
    let arguments = [
        "import",
        "--url",
        scratch.server.url(),
        "-d",
        "w",
        "--tags",
        "city",
        "--type",
        "temperature=float",
        "--time-format",
        "rfc3339",
        "--time",
        "time",
        "--rejects",
        "rejects.txt",
        "weather.csv",
    ];
    let run = nilometer(scratch.path(), &arguments);
    assert!(run.stdout.contains("imported 3 rows"), "{}", run.stdout);
    let stderr = run.failed();
    assert!(
        stderr.contains("weather.csv:3:") && stderr.contains("weather.csv:5:"),
        "{stderr}"
    );
    assert!(
        stderr.contains("2 lines were rejected, the rest is imported"),
        "{stderr}"
    );
    let read =
        |name: &str| std::fs::read_to_string(scratch.path().join(name)).expect("a file of rejects");
    let want = "time,city,temperature,note\n2024-05-01 01:00:00,Aswan,twenty,\nsoon,Cairo,20,\n";
    assert_eq!(read("rejects.txt"), want);
    let reasons = read("rejects.txt.reasons");
    let reasons: Vec<&str> = reasons.lines().collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].starts_with("weather.csv:3: ") && reasons[0].contains("twenty"),
        "{reasons:?}"
    );
    assert!(
        reasons[1].starts_with("weather.csv:5: ") && reasons[1].contains("soon"),
        "{reasons:?}"
    );
    let rows = scratch.server.query(
        "w",
        "SELECT city, temperature, note FROM weather ORDER BY time",
    );
    let want = json!([
        {"city": "Cairo", "temperature": 21.5, "note": "clear, dry"},
        {"city": "Cairo", "temperature": 20.25, "note": null},
        {"city": "Aswan", "temperature": 27.0, "note": "hot"},
    ]);
    assert_eq!(json!(rows), want);
}

#[test]
fn a_dry_run_shows_the_schema_and_sends_nothing() {
    let scratch = Scratch::new();
    scratch.file("air.csv", CSV.as_bytes());
    let run = nilometer(
        scratch.path(),
        &[
            "import",
            "--url",
            scratch.server.url(),
            "-d",
            "w",
            "--dry-run",
            "air.csv",
        ],
    );
    let shown = run.stderr.clone();
    run.succeeded();
    for words in ["table air", "city", "tag", "temperature"] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    let refused = scratch.server.refused_query("w", "SELECT 1");
    assert_eq!(refused.status, 404);
}

#[test]
fn line_protocol_comes_in_from_files_folders_and_pipes_in_every_compression() {
    let scratch = Scratch::new();
    let lines = |table: &str| -> String {
        (0..25_000)
            .map(|n| format!("{table},host=h{} v={n}i {n}\n", n % 7))
            .collect::<Vec<_>>()
            .concat()
    };
    std::fs::create_dir_all(scratch.path().join("in/deeper")).expect("folders");
    scratch.file("in/a.lp", lines("a").as_bytes());
    scratch.file("in/b.lp.gz", &gzip(lines("b").as_bytes()));
    let packed = zstd::encode_all(lines("c").as_bytes(), 1).expect("zstd packs");
    scratch.file("in/deeper/c.lp.zst", &packed);
    scratch.file("in/notes.txt", b"not to be imported");
    let url = scratch.server.url();
    let base = ["import", "--url", url, "-d", "lp", "--precision", "s"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    nilometer(scratch.path(), &with(&["in"])).succeeded();
    nilometer_with(scratch.path(), &with(&["-"]), lines("d").as_bytes()).succeeded();
    for table in ["a", "b", "c", "d"] {
        assert_eq!(scratch.count("lp", table), 25_000, "{table}");
    }
    assert!(!scratch.path().join("in/a.lp.import-state").exists());
}

#[test]
fn bad_lines_are_named_by_their_place_in_the_whole_file() {
    let scratch = Scratch::new();
    let mut text = (0..12_000)
        .map(|n| format!("m v={n} {n}\n"))
        .collect::<Vec<_>>()
        .concat();
    text.push_str("m v=oops 1\n");
    text.push_str("m v=\"text\" 2\nm v=5 3\n");
    scratch.file("m.lp", text.as_bytes());
    let url = scratch.server.url();
    let arguments = [
        "import",
        "--url",
        url,
        "-d",
        "d",
        "--precision",
        "s",
        "m.lp",
    ];
    let stderr = nilometer(scratch.path(), &arguments).failed();
    assert!(
        stderr.contains("m.lp:12001: ") && stderr.contains("m.lp:12002: "),
        "{stderr}"
    );
    assert_eq!(scratch.count("d", "m"), 12_000);
}

#[test]
fn a_directory_takes_files_without_a_server() {
    let dir = TempDir::new().expect("a scratch folder");
    std::fs::write(
        dir.path().join("weather.csv"),
        CSV.replace("twenty", "20").replace("soon", "2024-05-02"),
    )
    .expect("a file");
    let arguments = ["import", "--data", "data", "-d", "w", "weather.csv"];
    nilometer(dir.path(), &arguments).succeeded();
    let arguments = [
        "sql",
        "--data",
        "data",
        "-d",
        "w",
        "--format",
        "csv",
        "SELECT count(*) AS n FROM weather",
    ];
    assert_eq!(nilometer(dir.path(), &arguments).succeeded(), "n\n5\n");
}

#[test]
fn an_import_that_broke_off_goes_on_with_the_same_keys_and_no_row_twice() {
    let dir = TempDir::new().expect("a scratch folder");
    let text = (0..60_000)
        .map(|n| format!("m v={n} {n}\n"))
        .collect::<Vec<_>>()
        .concat();
    std::fs::write(dir.path().join("m.lp"), &text).expect("a file");
    let fake = FakeServer::start();
    let url = fake.url();
    let arguments = ["import", "--url", &url, "-d", "d", "--senders", "2", "m.lp"];
    fake.refuse_after(3);
    let stderr = nilometer(dir.path(), &arguments).failed();
    assert!(
        stderr.contains("--resume") && stderr.contains("no more today"),
        "{stderr}"
    );
    assert!(dir.path().join("m.lp.import-state").exists());
    let first = fake.take();
    fake.refuse_after(usize::MAX);
    let again = [&arguments[..], &["--resume"]].concat();
    let run = nilometer(dir.path(), &again);
    assert!(run.stderr.contains("going on after"), "{}", run.stderr);
    run.succeeded();
    assert!(!dir.path().join("m.lp.import-state").exists());
    let second = fake.take();
    // Whatever was sent twice has the same key both times, and together everything was sent.
    let mut by_key = std::collections::BTreeMap::new();
    for (key, body) in first.iter().chain(&second) {
        let known = by_key.entry(key).or_insert(body);
        assert_eq!(known, &body, "{key}");
    }
    let mut bodies: Vec<&String> = by_key.into_values().collect();
    bodies.sort_by_key(|body| {
        let number = body.split(['=', ' ']).nth(2);
        number.and_then(|number| number.parse::<u32>().ok())
    });
    assert!(bodies.into_iter().cloned().collect::<String>() == text);
    assert!(second.len() < 6, "{} batches were sent again", second.len());
}

#[test]
fn a_server_that_is_busy_is_asked_again_with_the_same_key() {
    let dir = TempDir::new().expect("a scratch folder");
    std::fs::write(dir.path().join("m.lp"), "m v=1 1\n").expect("a file");
    let fake = FakeServer::start();
    fake.be_busy(2);
    let url = fake.url();
    nilometer(dir.path(), &["import", "--url", &url, "-d", "d", "m.lp"]).succeeded();
    let sent = fake.take();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|it| *it == sent[0]), "{sent:?}");
}

#[test]
fn what_cannot_be_imported_says_what_to_do() {
    let scratch = Scratch::new();
    scratch.file("a.csv", b"x,y\n1,2\n");
    scratch.file("b.parquet", b"PAR1 but no more");
    std::fs::create_dir(scratch.path().join("empty")).expect("a folder");
    let mut file = std::fs::File::create(scratch.path().join("cut.lp.gz")).expect("a file");
    file.write_all(&gzip(b"m v=1 1\n")[..12])
        .expect("half a file");
    let url = scratch.server.url();
    for (path, word) in [
        ("nowhere.lp", "cannot read nowhere.lp"),
        ("a.csv", "--time"),
        ("b.parquet", "b.parquet"),
        ("empty", "name the files themselves"),
        ("cut.lp.gz", "cut.lp.gz"),
    ] {
        let arguments = ["import", "--url", url, "-d", "d", path];
        let stderr = nilometer(scratch.path(), &arguments).failed();
        assert!(stderr.contains(word), "{path}: {stderr}");
    }
    let arguments = ["import", "--url", "http://127.0.0.1:1", "-d", "d", "-"];
    let stderr = nilometer(scratch.path(), &arguments).failed();
    assert!(stderr.contains("nilometer serve"), "{stderr}");
}
