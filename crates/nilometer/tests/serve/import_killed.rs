//! Imports that are killed, at every moment that a connection can see, and go on: every row is there once.
//!
//! Does: stand between an import and its server, and hold it where it is to be killed. Does not: kill servers (`kill.rs`
//! does).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::{Scratch, nilometer};

/// Where an import is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// It has asked for the first time: nothing is written down yet.
    Asking,
    /// It has sent its n-th batch, and the server does not have it.
    Sent(usize),
    /// The server has the n-th batch, and the import has not heard so.
    Taken(usize),
}

/// Passes requests on to a server, until the moment comes.
struct Between {
    url: String,
    moment: Arc<Mutex<Option<Moment>>>,
    reached: Receiver<()>,
}

impl Between {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        let server = server.trim_start_matches("http://").to_owned();
        let moment: Arc<Mutex<Option<Moment>>> = Arc::default();
        let (tell, reached) = sync_channel(16);
        let kept = Arc::clone(&moment);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, moment, tell) = (server.clone(), Arc::clone(&kept), tell.clone());
                thread::spawn(move || pass(&client, &server, &moment, &tell));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}"),
            moment,
            reached,
        }
    }

    /// Runs a command, and kills it at a moment.
    fn kill_at(&self, moment: Moment, scratch: &Scratch, command: &[&str]) {
        *self.moment.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
        let mut child = Command::new(env!("CARGO_BIN_EXE_nilometer"))
            .args(command)
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let reached = self.reached.recv_timeout(Duration::from_mins(2));
        reached.unwrap_or_else(|_| panic!("{moment:?} did not come"));
        child.kill().expect("a signal");
        child.wait().expect("the program ends");
    }
}

/// Passes one request on. At the moment it says so, and then neither the server nor the client hears more of it.
fn pass(
    mut client: &TcpStream,
    server: &str,
    moment: &Mutex<Option<Moment>>,
    tell: &SyncSender<()>,
) {
    let Some((is_write, request)) = read_request(client) else {
        return;
    };
    let at = turn(moment, is_write);
    let is_now = |now: Moment| at == Some(now);
    if is_now(Moment::Asking) || is_now(Moment::Sent(0)) {
        tell.send(()).expect("the test waits");
        return wait_for_end(client);
    }
    let mut upstream = TcpStream::connect(server).expect("the server is there");
    upstream.write_all(&request).expect("the server reads");
    let mut answer = Vec::new();
    upstream
        .read_to_end(&mut answer)
        .expect("the server answers");
    if is_now(Moment::Taken(0)) {
        tell.send(()).expect("the test waits");
        return wait_for_end(client);
    }
    // Whoever was killed reads no answer.
    let _ = client.write_all(&answer);
    let _ = client.shutdown(Shutdown::Both);
}

/// Counts this request; the moment with 0 is this request's own, and then it is over.
fn turn(moment: &Mutex<Option<Moment>>, is_write: bool) -> Option<Moment> {
    let mut next = moment.lock().unwrap_or_else(PoisonError::into_inner);
    let now = *next;
    *next = match now {
        Some(Moment::Sent(n)) if is_write => n.checked_sub(1).map(Moment::Sent),
        Some(Moment::Taken(n)) if is_write => n.checked_sub(1).map(Moment::Taken),
        Some(Moment::Asking) | None => None,
        _ => return None,
    };
    now
}

fn wait_for_end(mut client: &TcpStream) {
    let _ = client.read(&mut [0]);
}

/// A request with the wish that its connection ends with the answer, and whether it writes rows.
fn read_request(client: &TcpStream) -> Option<(bool, Vec<u8>)> {
    let mut input = BufReader::new(client);
    let mut request = Vec::new();
    let mut length = 0;
    let mut first = String::new();
    input
        .read_line(&mut first)
        .ok()
        .filter(|bytes| *bytes > 0)?;
    request.extend_from_slice(first.as_bytes());
    request.extend_from_slice(b"connection: close\r\n");
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        match line.to_ascii_lowercase().split_once(": ") {
            Some(("connection", _)) => continue,
            Some(("content-length", value)) => length = value.trim().parse().expect("a length"),
            _ => {}
        }
        request.extend_from_slice(line.as_bytes());
        if line.trim_end().is_empty() {
            break;
        }
    }
    let head = request.len();
    request.resize(head + length, 0);
    input.read_exact(request.get_mut(head..)?).ok()?;
    Some((first.contains("/api/v3/write"), request))
}

/// Every moment of so many batches.
fn all_of(batches: usize) -> Vec<Moment> {
    (0..batches)
        .flat_map(|n| [Moment::Sent(n), Moment::Taken(n)])
        .collect()
}

/// Kills an import at each moment and lets it go on, each in a database of its own.
fn kill_and_go_on(
    scratch: &Scratch,
    name: &str,
    arguments: &[&str],
    moments: &[Moment],
    rows: u64,
) {
    let between = Between::start(scratch.server.url());
    for (nth, &moment) in moments.iter().enumerate() {
        let database = format!("{name}{nth}");
        let made = "CREATE TABLE t (time TIMESTAMPTZ NOT NULL) WITH (duplicates = 'keep')";
        let sql = |database: &str, statement: &str| {
            let arguments = ["sql", "--url", scratch.server.url(), "-d", database];
            nilometer(scratch.path(), &[&arguments[..], &[statement]].concat()).succeeded();
        };
        sql("d", &format!("CREATE DATABASE {database}"));
        sql(&database, made);
        let senders = if nth % 2 == 0 { "1" } else { "3" };
        let mut command = vec!["import", "--url", &between.url, "-d", &database];
        command.extend(["--senders", senders]);
        command.extend(arguments);
        between.kill_at(moment, scratch, &command);
        command.push("--resume");
        let run = nilometer(scratch.path(), &command);
        let goes_on = run.stderr.contains("going on after");
        assert_eq!(
            goes_on,
            moment != Moment::Asking,
            "{moment:?}: {}",
            run.stderr
        );
        run.succeeded();
        let count = "SELECT count(*) AS rows, count(DISTINCT v) AS different FROM t";
        assert_eq!(
            json!(scratch.server.query(&database, count)),
            json!([{"rows": rows, "different": rows}]),
            "{moment:?}"
        );
        let left = std::fs::read_dir(scratch.path()).expect("the folder");
        let names = left.map(|entry| entry.expect("an entry").file_name());
        let states = names.filter(|name| name.to_string_lossy().contains("import-state"));
        assert_eq!(states.count(), 0, "{moment:?}");
    }
}

/// An attacker killed imports in their first second, when they had written no state, and had rows twice after `--resume`.
#[test]
fn an_import_of_csv_that_is_killed_anywhere_goes_on_and_no_row_is_there_twice() {
    let scratch = Scratch::with("m v=1 1");
    let mut next = 0;
    let mut file = |name: &str, rows: u32| {
        // All rows have one time.
        let lines: Vec<String> = (next..next + rows)
            .map(|n| format!("2024-05-01,{n}\n"))
            .collect();
        next += rows;
        scratch.file(name, format!("time,v\n{}", lines.concat()).as_bytes());
    };
    for name in ["a.csv", "b.csv", "c.csv"] {
        file(name, 30);
    }
    // Two batches.
    file("d.csv", 10_050);
    let arguments = ["--table", "t", "a.csv", "b.csv", "c.csv"];
    let moments = [vec![Moment::Asking], all_of(3)].concat();
    kill_and_go_on(&scratch, "small", &arguments, &moments, 90);
    let arguments = ["--table", "t", "d.csv"];
    let moments = [Moment::Taken(0), Moment::Sent(1)];
    kill_and_go_on(&scratch, "large", &arguments, &moments, 10_050);
}

#[test]
fn an_import_of_lines_that_is_killed_anywhere_goes_on_and_no_row_is_there_twice() {
    let scratch = Scratch::with("m v=1 1");
    let lines: Vec<String> = (0..20_050).map(|n| format!("t v={n}i 1\n")).collect();
    scratch.file("t.lp", lines.concat().as_bytes());
    kill_and_go_on(&scratch, "lines", &["t.lp"], &all_of(3), 20_050);
}

/// Where the rows in the middle of an export belong is said far before them.
#[test]
fn an_import_of_an_export_that_is_killed_goes_on_in_the_right_retention_policy() {
    let scratch = Scratch::with("m v=1 1");
    let between = Between::start(scratch.server.url());
    let row = |n: u32| format!("m v={n}i {n}\n");
    let rows = |count: u32| (0..count).map(row).collect::<Vec<_>>().concat();
    // Four batches: the first policy, and the second until the 10,000th line, the 20,000th, and the end.
    for (nth, moment) in all_of(4).into_iter().enumerate() {
        let context = |policy: &str| {
            format!("# CONTEXT-DATABASE:d{nth}\n# CONTEXT-RETENTION-POLICY:{policy}\n")
        };
        let (first, second) = (context("first"), context("second"));
        let define = format!(
            "CREATE DATABASE d{nth} WITH NAME first\nCREATE RETENTION POLICY second ON d{nth} DURATION 0s REPLICATION 1\n"
        );
        let text = format!(
            "# INFLUXDB EXPORT: a - b\n# DDL\n{define}# DML\n{first}{}{second}{}",
            rows(5_000),
            rows(20_000)
        );
        scratch.file("out.lp", text.as_bytes());
        let command = ["import", "--url", &between.url, "--senders", "1", "out.lp"];
        between.kill_at(moment, &scratch, &command);
        nilometer(scratch.path(), &[&command[..], &["--resume"]].concat()).succeeded();
        let count = |schema: &str| {
            let sql = format!("SELECT count(*) AS n FROM {schema}.m");
            json!(scratch.server.query(&format!("d{nth}"), &sql))
        };
        let counts = (count("first"), count("second"));
        assert_eq!(
            counts,
            (json!([{"n": 5_000}]), json!([{"n": 20_000}])),
            "{moment:?}"
        );
    }
}

#[test]
fn an_import_that_can_write_no_state_says_so_before_it_begins() {
    let scratch = Scratch::with("m v=1 1");
    scratch.file("t.lp", b"t v=1 1\n");
    // A folder stands where the file would be, so that nobody's rights matter.
    std::fs::create_dir_all(scratch.path().join("t.lp.import-state.partial")).expect("a folder");
    let arguments = ["import", "--url", scratch.server.url(), "-d", "d", "t.lp"];
    let run = nilometer(scratch.path(), &arguments);
    assert!(
        run.stderr.contains("cannot go on") && run.stderr.contains("--resume=FILE"),
        "{}",
        run.stderr
    );
    run.succeeded();
    let again = [&arguments[..], &["--resume"]].concat();
    let stderr = nilometer(scratch.path(), &again).failed();
    assert!(
        stderr.contains("cannot write t.lp.import-state"),
        "{stderr}"
    );
}
