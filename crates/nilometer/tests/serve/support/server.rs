//! A process of the binary under test: start, learn its port, stop or kill it, and never leave it behind.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use ureq::Agent;

use super::{Response, Row, WAIT_MAX, http, wait_for};

/// What the server says first, and nothing else, on its standard output.
const GREETING: &str = "listening on ";

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    url: String,
    agent: Agent,
}

/// How a process of the binary ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Server {
    /// Starts a server on a data directory and a free port, and waits until it is healthy.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Self {
        let server = Self::launch(serve(data, flags));
        wait_for("a healthy server", || server.is_healthy().then_some(()));
        server
    }

    /// Starts a server and waits until it listens, with which protocol soever.
    pub(crate) fn launch(command: Command) -> Self {
        let (mut process, stdout) = Process::spawn(command);
        let (sender, first_line) = mpsc::sync_channel(1);
        process.readers.push(thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // Nobody may be waiting any more, and the rest is read only to keep the pipe from filling.
            drop(sender.send(lines.next()));
            lines.for_each(drop);
        }));
        let url = Self::learn_url(&mut process, &first_line);
        Self {
            process,
            url,
            agent: http::agent(),
        }
    }

    /// Starts a server and kills it before it is known to be up: while it opens the directory, or soon after.
    pub(crate) fn start_and_kill(data: &Path, flags: &[&str], pause: impl FnOnce()) {
        let (mut process, _stdout) = Process::spawn(serve(data, flags));
        pause();
        process.kill();
    }

    fn learn_url(process: &mut Process, first_line: &Receiver<Option<String>>) -> String {
        let line = match first_line.recv_timeout(WAIT_MAX) {
            Ok(Some(line)) => line,
            Ok(None) => {
                let status = process.wait();
                panic!(
                    "the server ended with {status} before it listened: {}",
                    process.stderr()
                )
            }
            Err(error) => panic!(
                "no first line on standard output: {error}; stderr: {}",
                process.stderr()
            ),
        };
        let url = line
            .strip_prefix(GREETING)
            .unwrap_or_else(|| panic!("unexpected first line {line:?}"));
        let port = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"))
            .and_then(|address| address.parse::<SocketAddr>().ok())
            .map(|address| address.port());
        assert!(
            port.is_some_and(|port| port != 0),
            "no port in the first line {line:?}"
        );
        url.to_owned()
    }

    /// Where the server listens: `http://127.0.0.1:PORT`, or `https`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether `/health` answers 200.
    pub(crate) fn is_healthy(&self) -> bool {
        self.get("/health", &[])
            .is_ok_and(|response| response.status == 200)
    }

    /// Asks for a page.
    pub(crate) fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Response, ureq::Error> {
        http::get(&self.agent, &format!("{}{path}", self.url), parameters)
    }

    /// Sends a body to a page.
    pub(crate) fn post(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        encoding: Option<&str>,
        body: &[u8],
    ) -> Result<Response, ureq::Error> {
        http::post(
            &self.agent,
            &format!("{}{path}", self.url),
            parameters,
            encoding,
            body,
        )
    }

    /// Sends line protocol; an `Err` is a broken connection, every status is `Ok`.
    pub(crate) fn try_write(
        &self,
        db: &str,
        lines: &[u8],
        encoding: Option<&str>,
    ) -> Result<Response, ureq::Error> {
        self.post(
            "/api/v3/write_lp",
            &[("db", db), ("precision", "ns")],
            encoding,
            lines,
        )
    }

    /// Sends line protocol to a server that lives.
    pub(crate) fn write(&self, db: &str, lines: &str) -> Response {
        self.try_write(db, lines.as_bytes(), None)
            .unwrap_or_else(|error| self.fail("write", &error))
    }

    /// Asks in SQL; an `Err` is a broken connection, every status is `Ok`.
    pub(crate) fn try_query(
        &self,
        db: &str,
        sql: &str,
        format: &str,
    ) -> Result<Response, ureq::Error> {
        self.get(
            "/api/v3/query_sql",
            &[("db", db), ("q", sql), ("format", format)],
        )
    }

    /// Asks in SQL for JSON, of a server that lives, a question that it can answer.
    pub(crate) fn query(&self, db: &str, sql: &str) -> Vec<Row> {
        let response = self
            .try_query(db, sql, "json")
            .unwrap_or_else(|error| self.fail(sql, &error));
        rows(sql, &response)
    }

    /// Asks in SQL for what cannot be answered.
    pub(crate) fn refused_query(&self, db: &str, sql: &str) -> Response {
        let response = self
            .try_query(db, sql, "json")
            .unwrap_or_else(|error| self.fail(sql, &error));
        assert!(
            response.status >= 400,
            "{sql}: accepted with {}: {}",
            response.status,
            response.text()
        );
        response
    }

    /// The value of a metric, summed over its label sets.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let response = self
            .get("/metrics", &[])
            .unwrap_or_else(|error| self.fail("/metrics", &error));
        let text = response.text();
        let values: Vec<f64> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name))
            .filter(|rest| rest.starts_with([' ', '{']))
            .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
            .collect();
        assert!(!values.is_empty(), "no metric {name} in:\n{text}");
        values.iter().sum()
    }

    /// Asks the process to end (SIGTERM) and waits until it did, with success.
    pub(crate) fn stop(mut self) {
        kill_process(self.process.pid(), Signal::TERM).expect("the server is running");
        let status = self.process.wait();
        assert!(
            status.success(),
            "after SIGTERM the server ended with {status}: {}",
            self.process.stderr()
        );
    }

    /// Ends the process as a power cut would (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    /// The process id, for a signal from beside.
    pub(crate) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// What the server has said on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.process.stderr()
    }

    fn fail(&self, what: &str, error: &ureq::Error) -> ! {
        panic!(
            "{what}: {error}; the server said: {}",
            self.process.stderr()
        )
    }
}

/// The rows of a successful JSON answer.
pub(crate) fn rows(sql: &str, response: &Response) -> Vec<Row> {
    assert_eq!(response.status, 200, "{sql}: {}", response.text());
    let Value::Array(rows) = response.json() else {
        panic!("{sql}: no array: {}", response.text())
    };
    rows.into_iter()
        .map(|row| match row {
            Value::Object(row) => row,
            other => panic!("{sql}: a row is {other}"),
        })
        .collect()
}

/// The binary, to be given arguments and variables.
pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nilometer"))
}

/// Runs the binary, or another program, to its end.
pub(crate) fn run<S: AsRef<OsStr>>(program: Option<&str>, arguments: &[S]) -> Outcome {
    let mut command = program.map_or_else(binary, Command::new);
    command.args(arguments);
    finish(command)
}

/// Runs a command to its end.
pub(crate) fn finish(command: Command) -> Outcome {
    let (mut process, mut stdout) = Process::spawn(command);
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let status = process.wait();
    let stdout = reader
        .join()
        .expect("the reader does not panic")
        .expect("standard output is UTF-8");
    let stderr = process.stderr();
    Outcome {
        status,
        stdout,
        stderr,
    }
}

/// `nilometer serve` on a data directory and a free port.
pub(crate) fn serve(data: &Path, flags: &[&str]) -> Command {
    let mut command = binary();
    command
        .arg("serve")
        .arg("--data")
        .arg(data)
        .args(["--http-bind", "127.0.0.1:0", "--pg-bind", "off"])
        .args(flags);
    command
}

/// A child process whose standard error is kept, and which ends when this value does.
#[derive(Debug)]
struct Process {
    child: Child,
    program: PathBuf,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    fn spawn(mut command: Command) -> (Self, std::process::ChildStdout) {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = PathBuf::from(command.get_program());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let stdout = child.stdout.take().expect("standard output was piped");
        let mut pipe = child.stderr.take().expect("standard error was piped");
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&bytes[..count]);
            }
        });
        (
            Self {
                child,
                program,
                stderr,
                readers: vec![reader],
            },
            stdout,
        )
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn wait(&mut self) -> ExitStatus {
        let status = wait_for(&format!("the end of {}", self.program.display()), || {
            self.child
                .try_wait()
                .expect("the child is ours to wait for")
        });
        // The pipes close with the process, so that the readers end and have everything.
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader does not panic");
        }
        status
    }

    fn kill(&mut self) {
        self.child.kill().expect("the child is ours to kill");
        self.wait();
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either may fail because the child has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
