//! The program with the TStorage surface: a client in Python, the guide's own, and the same records by InfluxQL.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

mod memory;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The program, stopped when dropped.
struct Program {
    child: Child,
    http: String,
    tstorage: String,
    data: tempfile::TempDir,
}

fn serve(data: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command
        .args([
            "serve",
            "--http-bind",
            "127.0.0.1:0",
            "--pg-bind",
            "off",
            "--data",
        ])
        .arg(data)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Program {
    fn start() -> Self {
        Self::over(tempfile::tempdir().unwrap())
    }

    fn over(data: tempfile::TempDir) -> Self {
        let mut command = serve(data.path(), &["--tstorage-bind", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut http, mut tstorage) = (None, None);
        for line in stdout.lines() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("listening on http://") {
                http = Some(address.to_owned());
            } else if let Some(address) = line.strip_prefix("listening on tstorage://") {
                tstorage = Some(address.to_owned());
                break;
            }
        }
        let (http, tstorage) = (http.unwrap(), tstorage.unwrap());
        Self {
            child,
            http,
            tstorage,
            data,
        }
    }

    /// What the server answers to an InfluxQL statement.
    fn ask(&self, query: &str) -> String {
        self.get("/query", query)
    }

    /// What it answers to an SQL statement that reads.
    fn sql(&self, query: &str) -> String {
        self.get("/api/v3/query_sql", query)
    }

    fn get(&self, path: &str, query: &str) -> String {
        let mut socket = TcpStream::connect(&self.http).unwrap();
        let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        write!(
            socket,
            "GET {path}?db=tstorage&q={query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops a program in order; what is left is its folder.
fn stopped(mut program: Program) -> tempfile::TempDir {
    let process = program.child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    assert!(program.child.wait().unwrap().success());
    std::mem::replace(&mut program.data, tempfile::tempdir().unwrap())
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn assert_ok(output: &Output) {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_client_in_python_speaks_the_protocol() {
    let program = Program::start();
    let script = folder().join("tests/clients/tstorage/test_protocol.py");
    let run = Command::new("python3")
        .arg(script)
        .env("TSTORAGE_ADDRESS", &program.tstorage)
        .output();
    assert_ok(&run.unwrap());
    // After a kill everything that was acknowledged is there, as anywhere.
    let before = program.ask("SELECT count(acq) FROM records");
    assert!(before.contains("\"count\""), "{before}");
    let data = {
        let mut program = program;
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        std::mem::replace(&mut program.data, tempfile::tempdir().unwrap())
    };
    let again = Program::over(data).ask("SELECT count(acq) FROM records");
    let body = |answer: &str| answer.split("\r\n\r\n").nth(1).unwrap().to_owned();
    assert_eq!(body(&again), body(&before));
}

/// What the guide shows, as it stands there.
#[test]
fn the_guide_s_client_sql_and_influxql_read_the_same_record() {
    let program = Program::start();
    let guide = folder().join("../../docs/guide/tstorage.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (before, after) = guide.split_once("## As known at a time").unwrap();
    let blocks = |part: &str| -> String {
        let blocks = part.split("```python\n").skip(1);
        blocks
            .map(|rest| rest.split("```").next().unwrap())
            .collect()
    };
    let port = program.tstorage.rsplit(':').next().unwrap();
    let mut script = blocks(before).replace("connect()", &format!("connect({port})"));
    script.push_str("assert [(key[:4], payload) for key, payload in records] == [((7, 0, 0, cap), struct.pack('>10i', *range(10)))]\nassert records[0][0][4] < acq0\nprint('put', flush=True)\ninput()\n");
    script.push_str(&blocks(after));
    script.push_str("print(closed, flush=True)\n");
    let mut client = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "put");
    let shown = guide
        .split("$ nilometer sql -d tstorage \"")
        .nth(1)
        .unwrap();
    let (query, rest) = shown.split_once("\"\n").unwrap();
    let table = rest.split("```").next().unwrap();
    let asked = Command::new(env!("CARGO_BIN_EXE_nilometer"))
        .args(["sql", "--url", &format!("http://{}", program.http)])
        .args(["-d", "tstorage", query])
        .output()
        .unwrap();
    assert_ok(&asked);
    let printed = String::from_utf8_lossy(&asked.stdout).into_owned();
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(lines(&printed), lines(table));
    let shown = guide.split("'q=").nth(1).unwrap();
    let (query, rest) = shown.split_once("'\n").unwrap();
    let answer = rest.lines().next().unwrap();
    let answered = program.ask(query);
    assert!(answered.contains(answer), "{answered}");
    let rows = program.ask("SELECT acq FROM records");
    assert!(rows.contains("[\"2016-01-01T00:00:00Z\","), "{rows}");
    // What the bill was when it was closed, and what it would be now that a record has come late.
    client.stdin.take().unwrap().write_all(b"\n").unwrap();
    let closed = said.next().unwrap().unwrap();
    assert!(client.wait().unwrap().success());
    let shown: Vec<&str> = after.split("query_sql ").skip(1).collect();
    assert_eq!(shown.len(), 2);
    for shown in shown {
        let (query, rest) = shown.split_once('\n').unwrap();
        let (_, query) = query.split_once("q=").unwrap();
        // Without the quotation mark of the shell at its end.
        let query = query.get(..query.len() - 1).unwrap();
        let answer = rest.lines().next().unwrap();
        let answered = program.sql(&query.replace("$closed", &closed));
        assert!(answered.contains(answer), "{query}: {answered}");
    }
    let refused = program.sql("SELECT count(*) FROM records AS OF ACQUISITION '2200-01-01'");
    assert!(refused.contains("is not complete yet"), "{refused}");
}

/// The suite checks that each answer has as many records as the data set; what it reports is counted here by hand.
#[test]
fn the_benchmark_loads_and_asks_through_the_protocol() {
    let program = Program::start();
    let bench = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_nilometer"))
            .args(["bench", "tstorage", "--address", &program.tstorage])
            .args(["--hosts", "7", "--duration", "1d", "--put-records", "500"])
            .args(["--queries", "5", "--json"])
            .args(more)
            .output()
            .unwrap()
    };
    let loaded = bench(&[]);
    assert_ok(&loaded);
    let figures: serde_json::Value = serde_json::from_slice(&loaded.stdout).unwrap();
    assert_eq!(figures["load"]["records"], 7 * 288);
    let rows: Vec<_> = (0..3).map(|at| &figures["queries"][at]["rows"]).collect();
    assert_eq!(rows, [144, 144, 7 * 144]);
    let counted = program.ask("SELECT count(acq) FROM records");
    assert!(counted.contains(",2016]"), "{counted}");
    // It is there already; once more would be twice as many.
    assert_ok(&bench(&["--loaded"]));
    let twice = bench(&[]);
    let text = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(text.contains("load into an empty table"), "{text}");
}

#[test]
fn a_server_that_would_let_everybody_in_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], words: &str| {
        let output = serve(data.path(), more).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(words), "{text}");
    };
    let here = "127.0.0.1:0";
    refused(&["--tstorage-bind", "0.0.0.0:0"], "--tstorage-client-ca");
    refused(&["--tstorage-bind", here, "--auth"], "--tstorage-role");
    refused(&["--tstorage-bind", here, "--tstorage-tls"], "--tls-cert");
    refused(
        &["--tstorage-bind", here, "--tstorage-table", "records"],
        "database.table",
    );
}
