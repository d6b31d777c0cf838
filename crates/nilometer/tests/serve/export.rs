//! What goes out comes back: every format, every type, every character that needs an escape.

use serde_json::Value;

use crate::support::{Scratch, gzip, nilometer, nilometer_with};

/// Every type of field, absent fields, absent tags, names and texts with all that has a meaning in line protocol.
const ODD: &str = r#"odd\ table\,=,tag\ one=a\ b\,c\=d,zwei=UMLAUT f=1.5,i=-9223372036854775808i,u=18446744073709551615u,b=true,s="say \"hi\" \\ there, a=b" 1
odd\ table\,=,zwei=a\b f=-0,s="" 2
odd\ table\,= f=1e300,field\ \,\=two="two
lines" 3
odd\ table\,=,tag\ one=x b=false,i=0i -4
"#;

/// With a letter beyond ASCII, which a raw string cannot escape.
fn odd() -> String {
    ODD.replace("UMLAUT", "\u{fc}")
}

const TABLE: &str = "odd table,=";

impl Scratch {
    fn run(&self, command: &str, database: &str, arguments: &[&str]) -> String {
        let base = [command, "--url", self.server.url(), "-d", database];
        nilometer(self.path(), &[&base[..], arguments].concat()).succeeded()
    }

    /// All rows of the odd table, with all their columns, in an order of their own.
    fn odd_rows(&self, database: &str) -> Vec<String> {
        let statement = format!("SELECT * FROM \"{TABLE}\" ORDER BY time");
        let rows = self.server.query(database, &statement);
        rows.into_iter()
            .map(|row| {
                let mut columns: Vec<(String, Value)> = row.into_iter().collect();
                columns.sort_by(|a, b| a.0.cmp(&b.0));
                format!("{columns:?}")
            })
            .collect()
    }
}

#[test]
fn line_protocol_and_parquet_are_imported_to_the_same_rows() {
    let scratch = Scratch::with(&odd());
    let want = scratch.odd_rows("d");
    assert_eq!(want.len(), 4);
    for file in ["out.lp", "out.parquet"] {
        scratch.run("export", "d", &[TABLE, "--output", file]);
        let database = file.replace('.', "_");
        let arguments = ["--table", TABLE, file];
        scratch.run("import", &database, &arguments);
        assert_eq!(scratch.odd_rows(&database), want, "{file}");
    }
}

/// An export writes nanoseconds, and an import took each time for the unit that its size tells: 200 s after 1970 came back
/// as the year 1976, with status 0.
#[test]
fn times_near_1970_come_back_from_line_protocol_as_they_were() {
    let times = [
        -1,
        1,
        5_000_000_000,
        200_000_000_000,
        1_714_564_800_000_000_000_i64,
    ];
    for chosen in [&times[..], &times[..1], &times[1..2], &times[3..4]] {
        let lines: Vec<String> = chosen.iter().map(|time| format!("m v=1 {time}")).collect();
        let lines = lines.join("\n");
        let scratch = Scratch::new();
        scratch.file("a.lp", lines.as_bytes());
        scratch.run("import", "d", &["--precision", "ns", "a.lp"]);
        let statement = "SELECT time::bigint AS ns FROM m ORDER BY time";
        let rows = |database: &str| scratch.server.query(database, statement);
        let want: Vec<Value> = chosen.iter().map(|time| (*time).into()).collect();
        let shown = |database: &str| -> Vec<Value> {
            rows(database)
                .into_iter()
                .map(|row| row["ns"].clone())
                .collect()
        };
        assert_eq!(shown("d"), want);
        scratch.run("export", "d", &["m", "--output", "e.lp"]);
        let text = std::fs::read(scratch.path().join("e.lp")).expect("an export");
        assert!(text.starts_with(b"# precision: ns\nm "), "{text:?}");
        scratch.file("g.lp.gz", &gzip(&text));
        for file in ["e.lp", "g.lp.gz"] {
            let database = file.replace('.', "_");
            scratch.run("import", &database, &[file]);
            assert_eq!(shown(&database), want, "{file} of {chosen:?}");
        }
        let arguments = ["import", "--url", scratch.server.url(), "-d", "piped", "-"];
        nilometer_with(scratch.path(), &arguments, &text).succeeded();
        assert_eq!(shown("piped"), want, "from a pipe");
    }
}

/// Lines that were rejected go to a file of their own, which must not lose the unit of theirs.
#[test]
fn rejected_lines_keep_the_unit_of_their_file() {
    let scratch = Scratch::new();
    scratch.file("a.lp", b"# precision: ms\nm v=1 1\nm v=oops 2\n");
    let base = ["import", "--url", scratch.server.url(), "-d", "d"];
    let arguments = [&base[..], &["--rejects", "bad.lp", "a.lp"]].concat();
    nilometer(scratch.path(), &arguments).failed();
    let bad = std::fs::read_to_string(scratch.path().join("bad.lp")).expect("rejects");
    assert!(bad.starts_with("# precision: ms\n# a.lp:3: "), "{bad}");
    scratch.file("bad.lp", bad.replace("oops", "2").as_bytes());
    scratch.run("import", "d", &["bad.lp"]);
    // What the command line says counts before what the file says.
    scratch.run("import", "d", &["--precision", "s", "bad.lp"]);
    let rows = scratch
        .server
        .query("d", "SELECT time::bigint AS ns FROM m ORDER BY time");
    let times: Vec<Value> = rows.into_iter().map(|row| row["ns"].clone()).collect();
    assert_eq!(times, [1_000_000_i64, 2_000_000, 2_000_000_000]);
}

/// A row whose only value was set to NULL was exported, and the import of the file rejected it.
#[test]
fn a_row_without_any_value_is_imported_as_it_was_exported() {
    let scratch = Scratch::with("m,a=x f=1 1\nm,a=y f=2 2\nm,a=y f=2 3");
    let update = ["sql", "--url", scratch.server.url(), "-d", "d"];
    let statement = "UPDATE m SET f = NULL WHERE a = 'y'";
    nilometer(scratch.path(), &[&update[..], &[statement]].concat()).succeeded();
    let rows = |database: &str| {
        scratch
            .server
            .query(database, "SELECT * FROM m ORDER BY time")
    };
    let want = rows("d");
    assert_eq!(want.len(), 3);
    for file in ["m.parquet", "m.csv"] {
        scratch.run("export", "d", &["m", "--output", file]);
        for kind in ["last", "keep", "unique"] {
            let database = format!("{kind}_{}", file.replace('.', "_"));
            let tags = ["--duplicates", kind, "--tags", "a", file];
            scratch.run("import", &database, &tags);
            assert_eq!(rows(&database), want, "{database}");
        }
        // What an import makes by itself is another kind in the end.
        let database = file.replace('.', "_");
        scratch.run("import", &database, &["--tags", "a", file]);
        assert_eq!(rows(&database), want, "{file}");
    }
    // Line protocol has no text for it, and the export says so.
    let arguments = ["export", "--url", scratch.server.url(), "-d", "d", "m"];
    let arguments = [&arguments[..], &["--output", "m.lp"]].concat();
    let run = nilometer(scratch.path(), &arguments);
    let said = run.stderr.clone();
    run.succeeded();
    assert!(said.contains("2 rows without any value"), "{said}");
}

#[test]
fn a_range_has_its_first_time_and_not_its_last() {
    let scratch = Scratch::with(&odd());
    let range = [
        "--from",
        "1970-01-01T00:00:00.000000001Z",
        "--to",
        "1970-01-01T00:00:00.000000003Z",
    ];
    let text = scratch.run(
        "export",
        "d",
        &[&[TABLE, "--format", "jsonl"][..], &range].concat(),
    );
    let times: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["time"].clone())
        .collect();
    assert_eq!(
        times,
        [
            "1970-01-01T00:00:00.000000001Z",
            "1970-01-01T00:00:00.000000002Z"
        ]
    );
}

#[test]
fn a_query_is_exported_in_its_own_columns_and_order() {
    let scratch = Scratch::with(&odd());
    let query = format!("SELECT i, b FROM \"{TABLE}\" WHERE i IS NOT NULL ORDER BY i DESC");
    let csv = scratch.run("export", "d", &["--query", &query, "--format", "csv"]);
    assert_eq!(csv, "i,b\n0,false\n-9223372036854775808,true\n");
}

#[test]
fn a_stopped_store_is_exported_without_a_server() {
    let scratch = Scratch::with(&odd());
    let Scratch { dir, server } = scratch;
    server.stop();
    let arguments = [
        "export", "--data", "data", "-d", "d", TABLE, "--format", "lp",
    ];
    let text = nilometer(dir.path(), &arguments).succeeded();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // The first says the unit.
    assert_eq!(lines.len(), 1 + ODD.lines().count());
    assert!(
        text.contains("odd\\ table\\,\\=,tag\\ one=a\\ b\\,c\\=d,zwei=\u{fc} "),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_whole_does_not_come_to_be() {
    let scratch = Scratch::with(&odd());
    let base = ["export", "--url", scratch.server.url(), "-d", "d"];
    for (arguments, word) in [
        (&["nowhere", "--output", "out.csv"][..], "nowhere"),
        (&[TABLE, "--output", "out.xyz"], "--format"),
        (&[TABLE, "--output", "no/such/folder.csv"], "--output"),
        (&["--query", "SELECT 1 / 0", "--output", "out.csv"], "zero"),
    ] {
        let stderr = nilometer(scratch.path(), &[&base[..], arguments].concat()).failed();
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    }
    let names: Vec<String> = std::fs::read_dir(scratch.path())
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(names, ["data"]);
}
