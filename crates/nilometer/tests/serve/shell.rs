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

// "cannot be written as CSV ... Broken pipe" was said of a pipe that `head` had closed.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let scratch = scratch();
    let url = scratch.server.url();
    let select = "select a.busy from cpu a, cpu b, cpu c";
    for (command, first) in [
        (format!("sql --format csv '{select}'"), "busy\n"),
        (format!("sql --format jsonl '{select}'"), "{\"busy\":"),
        (format!("sql --format markdown '{select}'"), "| "),
        (format!("export --format csv --query '{select}'"), "busy\n"),
    ] {
        let line = format!("nilometer {command} --url {url} -d d | head -n 1");
        let run = bash(scratch.dir.path(), &line, &[]);
        assert!(!run.stderr.contains("error"), "{command}: {}", run.stderr);
        let out = run.succeeded();
        assert!(
            out.starts_with(first) && out.lines().count() == 1,
            "{command}: {out}"
        );
    }
}

// `SET TIME ZONE` was refused with the name of a parameter of HTTP that nobody could give in the shell.
#[test]
fn the_time_zone_that_is_set_holds_for_what_follows() {
    let scratch = scratch();
    // 02:00 in Cairo was midnight in UTC, with which the rows begin.
    let first = "select time, busy from cpu where host = 'b' and time >= '1970-01-01 02:00' order by time limit 1;\n";
    let text = format!(
        "set time zone 'Africa/Cairo';\n{first}show timezone;\nset timezone to default;\nshow timezone;\n"
    );
    let wanted =
        "time,busy\n1970-01-01T02:00:00+02:00,5.0\nTimeZone\nAfrica/Cairo\nTimeZone\nUTC\n";
    let csv = ["--format", "csv"];
    assert_eq!(scratch.script(&text, &csv).succeeded(), wanted);
    let out = scratch.script(&text, &[]).succeeded();
    assert!(
        out.starts_with("SET\n") && out.contains("02:00:00+02:00"),
        "{out}"
    );

    // Through -c, -f and files that are included; files for programs have times in UTC.
    let dir = scratch.dir.path();
    std::fs::write(dir.join("zone.sql"), "SET TIME ZONE '+02:00';").expect("a file");
    std::fs::write(dir.join("all.sql"), format!("\\i zone.sql\n{first}")).expect("a file");
    let base = ["sql", "--url", scratch.server.url(), "-d", "d"];
    let run = |flags: &[&str]| nilometer_with(dir, &[&base[..], flags].concat(), b"").succeeded();
    let row = "time,busy\n1970-01-01T02:00:00+02:00,5.0\n";
    assert_eq!(
        run(&["--format", "csv", "-f", "zone.sql", "-f", "all.sql"]),
        row
    );
    let both = ["--format", "csv", "-c", "set time zone 2", "-c", first];
    assert_eq!(run(&both), row);
    let parquet = [
        "--output",
        "out.parquet",
        "-c",
        "set time zone 2",
        "-c",
        first,
    ];
    assert_eq!(run(&parquet), "");
    let chart = run(&["-c", "set time zone 2", "-c", "\\chart cpu"]);
    assert!(chart.contains("time: 1970-01-01 02:00:00 to "), "{chart}");

    // Without a server, and where the zone is none.
    let store = dir.join("store");
    let store = store.to_str().expect("a path of text");
    let lines = b"cpu,host=b busy=5 0";
    let import = ["import", "--data", store, "-d", "d", "-"];
    nilometer_with(dir, &import, lines).succeeded();
    let base = ["sql", "--data", store, "-d", "d", "--format", "csv"];
    let offline = nilometer_with(dir, &base, text.as_bytes()).succeeded();
    assert_eq!(offline, wanted);
    let stderr = scratch
        .script("select 1; set time zone 'Mars'", &csv)
        .failed();
    assert!(
        stderr.contains("statement 2") && stderr.contains("Mars") && stderr.contains("column 15"),
        "{stderr}"
    );
}

// `CREATE TABLE` answered a table with the heading `rows` and a 0 in it.
#[test]
fn a_statement_that_writes_says_what_it_did_and_not_a_table() {
    let scratch = scratch();
    let text = "create table t (time timestamptz not null, h text tag, v bigint);\n\
        insert into t (time, h, v) values ('2026-01-01', 'a', 1), ('2026-01-02', 'a', 2), ('2026-01-03', 'b', 3);\n\
        delete from t where h = 'b';\n\
        create database other;\n\
        drop table t;\n";
    let out = scratch.script(text, &[]).succeeded();
    assert_eq!(
        out,
        "CREATE TABLE\nINSERT 0 3\nDELETE 1\nCREATE DATABASE\nDROP TABLE\n"
    );
    // Programs read a table of one number.
    let csv = scratch
        .script(
            "insert into cpu (time, host, busy) values ('2026-01-01', 'a', 1)",
            &["--format", "csv"],
        )
        .succeeded();
    assert_eq!(csv, "rows\n1\n");
}

// `\n` stood literally in what EXPLAIN and SHOW CREATE TABLE answer.
#[test]
fn answers_of_several_lines_are_shown_on_several_lines() {
    let scratch = scratch();
    for (statement, words) in [
        ("show create table cpu", ["CREATE TABLE", "host TEXT TAG"]),
        (
            "explain select busy from cpu where host = 'a'",
            ["plan", "cpu"],
        ),
    ] {
        for flags in [&[][..], &["--format", "expanded"]] {
            let out = scratch.script(statement, flags).succeeded();
            assert!(!out.contains("\\n"), "{statement}: {out}");
            assert!(out.lines().count() > 4, "{statement}: {out}");
            for word in words {
                assert!(out.contains(word), "{statement}: {out}");
            }
        }
    }
}

#[test]
fn statements_and_files_are_arguments_as_of_psql() {
    let scratch = scratch();
    scratch.file("one.sql", b"select 1 as one;\nselect 2 as two");
    scratch.file("wrong.sql", b"select 1 as one;\nselect nothing from cpu;");
    let base = [
        "sql",
        "--url",
        scratch.server.url(),
        "-d",
        "d",
        "--format",
        "csv",
    ];
    let run = |flags: &[&str]| nilometer(scratch.path(), &[&base[..], flags].concat());
    let out = run(&["-c", "select 3 as three; select 4 as four", "-c", "\\x"]).succeeded();
    assert_eq!(out, "three\n3\nfour\n4\nexpanded display is on\n");
    let out = run(&["-f", "one.sql", "--file", "one.sql"]).succeeded();
    assert_eq!(out, "one\n1\ntwo\n2\none\n1\ntwo\n2\n");
    let stderr = run(&["-f", "wrong.sql"]).failed();
    assert!(
        stderr.contains("wrong.sql") && stderr.contains("statement 2"),
        "{stderr}"
    );
    let stderr = run(&["-f", "missing.sql"]).failed();
    assert!(stderr.contains("missing.sql"), "{stderr}");
    assert_eq!(run(&["-c", "select 1", "select 2"]).status, Some(2));
}

#[test]
fn the_words_of_other_shells_work_in_scripts_too() {
    let scratch = scratch();
    let out = scratch
        .script(
            "select 1 as one;\nexit\nselect 2 as two;",
            &["--format", "csv"],
        )
        .succeeded();
    assert_eq!(out, "one\n1\n");
    let out = scratch
        .script(
            "\\x\nselect 1 as one, 'a' as a;\n\\x off\nselect 2 as two",
            &[],
        )
        .succeeded();
    let want = "expanded display is on\n-[ RECORD 1 ]\none | 1\na   | a\n(1 row)\nexpanded display is off\n two \n-----\n   2 \n(1 row)\n";
    assert_eq!(out, want);
    let stderr = scratch.script("select 1;\n\\e", &[]).failed();
    assert!(stderr.contains("terminal"), "{stderr}");
}

// `--output x.parquet` wrote the text of a table into a file of that name.
#[test]
fn a_file_is_written_in_the_format_of_its_ending() {
    let scratch = scratch();
    let select = "select host, busy from cpu order by time, host limit 1";
    let read = |name: &str| std::fs::read(scratch.path().join(name)).expect("a file");
    for (name, begin, end) in [
        ("x.parquet", "PAR1", "PAR1"),
        ("x.csv", "host,busy\n", "a,0.0\n"),
        ("x.jsonl", "{\"host\":", "}\n"),
        ("x.json", "[{", "}]\n"),
        ("x.md", "| host", "|\n"),
        ("x.txt", " host |", "(1 row)\n"),
    ] {
        let out = scratch.script(select, &["--output", name]).succeeded();
        assert_eq!(out, "");
        let bytes = read(name);
        assert!(
            bytes.starts_with(begin.as_bytes()) && bytes.ends_with(end.as_bytes()),
            "{name}: {}",
            String::from_utf8_lossy(&bytes)
        );
    }
    let stderr = scratch.script(select, &["--output", "x.xls"]).failed();
    assert!(
        stderr.contains(".parquet") && stderr.contains("--format"),
        "{stderr}"
    );
    assert!(!scratch.path().join("x.xls").exists());
    // In the shell, a file has all answers until the next \o; of Parquet it has one.
    let script = format!(
        "\\o y.csv\n{select};\n{select};\n\\o y.parquet\n{select};\nselect 7 as seven;\n\\o y.jsonl\n{select};"
    );
    let out = scratch.script(&script, &[]).succeeded();
    assert_eq!(
        out,
        "wrote y.parquet; answers go to the terminal again\n seven \n-------\n     7 \n(1 row)\n"
    );
    assert_eq!(read("y.csv"), b"host,busy\na,0.0\nhost,busy\na,0.0\n");
    assert!(read("y.parquet").ends_with(b"PAR1"));
    assert_eq!(read("y.jsonl"), b"{\"host\":\"a\",\"busy\":0.0}\n");
}

// A fresh server asked "which database?" of `CREATE DATABASE`.
#[test]
fn a_database_must_be_named_only_where_there_are_several() {
    let scratch = Scratch::new();
    let url = scratch.server.url().to_owned();
    let run = |statement: &str| {
        let arguments = ["sql", "--url", &url, "--format", "csv", statement];
        nilometer(scratch.path(), &arguments)
    };
    let stderr = run("select 1 as one").failed();
    assert!(stderr.contains("CREATE DATABASE"), "{stderr}");
    run("create database d").succeeded();
    assert_eq!(
        scratch
            .server
            .write("d", "cpu busy=1 1\ncpu busy=2 2")
            .status,
        204
    );
    let count = "select count(*) as n from cpu";
    assert_eq!(run(count).succeeded(), "n\n2\n");
    run("create database e").succeeded();
    assert_eq!(run("show databases").succeeded(), "database_name\nd\ne\n");
    let stderr = run(count).failed();
    assert!(stderr.contains("-d") && stderr.contains("d, e"), "{stderr}");
    run("drop database e").succeeded();
    let Scratch { dir, server } = scratch;
    server.stop();
    let arguments = ["sql", "--data", "data", "--format", "csv", count];
    assert_eq!(nilometer(dir.path(), &arguments).succeeded(), "n\n2\n");
}
