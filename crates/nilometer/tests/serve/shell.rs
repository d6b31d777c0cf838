//! The shell where there is no terminal: scripts, commands, formats, errors with the number of their statement.

use crate::support::{Run, Scratch, bash, nilometer, nilometer_with};

fn scratch() -> Scratch {
    let lines = (0..60)
        .map(|n| {
            format!(
                "cpu,host=a busy={n} {0}\ncpu,host=b busy=5,note=\"x\ty\" {0}\n",
                n * 60_000_000_000u64
            )
        })
        .collect::<Vec<_>>()
        .concat();
    Scratch::with(&lines)
}

impl Scratch {
    fn script(&self, text: &str, flags: &[&str]) -> Run {
        let base = ["sql", "--url", self.server.url(), "-d", "d"];
        nilometer_with(
            self.dir.path(),
            &[&base[..], flags].concat(),
            text.as_bytes(),
        )
    }
}

#[test]
fn statements_from_standard_input_run_in_order() {
    let scratch = scratch();
    let text = "select count(*) as n from cpu; -- first;\nselect ';' as semicolon;\n\nselect max(busy) as top from cpu";
    let out = scratch.script(text, &["--format", "csv"]).succeeded();
    assert_eq!(out, "n\n120\nsemicolon\n;\ntop\n59.0\n");
}

#[test]
fn the_first_error_ends_a_script_and_has_its_number() {
    let scratch = scratch();
    let run = scratch.script(
        "select 1 as one;\nselect nothing from cpu;\nselect 2 as two;",
        &["--format", "csv"],
    );
    assert_eq!(run.stdout, "one\n1\n");
    let stderr = run.failed();
    assert!(
        stderr.contains("statement 2") && stderr.contains("nothing"),
        "{stderr}"
    );
}

#[test]
fn commands_describe_what_there_is() {
    let scratch = scratch();
    let out = scratch
        .script("\\l\n\\d\n\\d cpu\n\\df time_bucket\n\\dn\n\\?\n", &[])
        .succeeded();
    for words in [
        "d\n",
        "cpu",
        "host",
        "tag",
        "busy",
        "field",
        "double",
        "time_bucket",
        "public",
        "\\chart",
    ] {
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
    for (command, word) in [
        ("\\nope", "\\?"),
        ("\\d nowhere", "\\d lists"),
        ("\\c nowhere", "nowhere"),
    ] {
        let stderr = scratch.script(command, &[]).failed();
        assert!(stderr.contains(word), "{command}: {stderr}");
    }
}

#[test]
fn a_chart_is_drawn_of_a_statement_or_of_the_last_answer() {
    let scratch = scratch();
    let select = "select time, host, busy from cpu";
    let one = scratch
        .script(&format!("\\chart {select}"), &[])
        .succeeded();
    assert!(
        one.contains("busy host=a") && one.contains("busy host=b"),
        "{one}"
    );
    assert!(
        one.contains("time: 1970-01-01 00:00:00 to 1970-01-01 00:59:00"),
        "{one}"
    );
    let two = scratch
        .script(&format!("{select};\n\\chart\n"), &["--format", "csv"])
        .succeeded();
    assert!(two.ends_with(&one), "{two}");
    let stderr = scratch
        .script("\\chart select count(*) from cpu", &[])
        .failed();
    assert!(stderr.contains("time column"), "{stderr}");
}

#[test]
fn formats_and_files_of_an_answer() {
    let scratch = scratch();
    let select = "select time, host, busy from cpu order by time, host limit 1";
    let table = scratch.script(select, &[]).succeeded();
    let want = " time                 | host | busy \n----------------------+------+------\n 1970-01-01T00:00:00Z | a    |  0.0 \n(1 row)\n";
    assert_eq!(table, want);
    let markdown = scratch
        .script(&format!("\\format markdown\n{select}"), &[])
        .succeeded();
    assert!(
        markdown.contains("| time                 | host | busy |\n|----"),
        "{markdown}"
    );
    // What could steer a terminal does not reach it.
    let tab = scratch
        .script("select note from cpu where host = 'b' limit 1", &[])
        .succeeded();
    assert!(tab.contains("x\\ty"), "{tab}");
    let parquet = scratch
        .script(select, &["--format", "parquet", "--output", "out.parquet"])
        .succeeded();
    assert_eq!(parquet, "");
    let bytes = std::fs::read(scratch.dir.path().join("out.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let stderr = scratch
        .script("select 1; select 2", &["--format", "arrow"])
        .failed();
    assert!(stderr.contains("one statement"), "{stderr}");
}

#[test]
fn a_file_of_statements_is_included() {
    let scratch = scratch();
    std::fs::write(scratch.dir.path().join("two.sql"), "select 2 as two;").expect("a file");
    std::fs::write(scratch.dir.path().join("self.sql"), "\\i self.sql").expect("a file");
    let out = scratch
        .script("\\i two.sql\nselect 3 as three", &["--format", "csv"])
        .succeeded();
    assert_eq!(out, "two\n2\nthree\n3\n");
    let stderr = scratch.script("\\i self.sql", &[]).failed();
    assert!(stderr.contains("include itself"), "{stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let scratch = scratch();
    let url = scratch.server.url();
    let line = format!(
        "nilometer sql --url {url} -d d --format csv 'select a.busy from cpu a, cpu b, cpu c' | head -n 1"
    );
    assert_eq!(bash(scratch.dir.path(), &line, &[]).succeeded(), "busy\n");
}

#[test]
fn a_database_must_be_named_unless_there_is_one_only() {
    let scratch = scratch();
    let url = scratch.server.url().to_owned();
    let stderr = nilometer(scratch.dir.path(), &["sql", "--url", &url, "select 1"]).failed();
    assert!(stderr.contains("-d"), "{stderr}");
    let Scratch { dir, server } = scratch;
    server.stop();
    let arguments = [
        "sql",
        "--data",
        "data",
        "--format",
        "csv",
        "select count(*) as n from cpu",
    ];
    assert_eq!(nilometer(dir.path(), &arguments).succeeded(), "n\n120\n");
}
