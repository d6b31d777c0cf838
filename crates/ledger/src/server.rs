//! A process of the program under trial: start it, alone or under strace, learn its address, kill it or stop it, and
//! never leave it behind.
//!
//! Does: tell whether it said anything on standard error that a server must not say.
//! Does not: link the program; it is a file, and a client's view of it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::http::Client;

/// Longest wait for a server to listen, or to end after it was asked to. Only a hang gets there.
const WAIT_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(1);
/// What the server says first on its standard output.
const GREETING: &str = "listening on http://";
/// The database of every trial.
pub const DB: &str = "ledger";

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The binary.
    pub program: PathBuf,
    /// Its data directory.
    pub data: PathBuf,
    /// Where its output goes: not on the disk under trial.
    pub output: PathBuf,
    /// Flags of `serve`.
    pub flags: Vec<String>,
    /// Arguments of strace, if it runs under it.
    pub strace: Option<Vec<String>>,
}

/// A process that may not be listening yet. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: PathBuf,
    is_over: Option<ExitStatus>,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What became of a start.
#[derive(Debug)]
pub enum Start {
    /// It listens.
    Up(Server),
    /// It ended before.
    Ended(Ended),
}

/// How a process ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it said on standard error.
    pub stderr: String,
}

impl Ended {
    /// A sentence about a panic, if there was one.
    pub fn panic(&self) -> Option<String> {
        let at = self.stderr.find("panicked at")?;
        let said: String = self.stderr.chars().skip(at).take(300).collect();
        Some(format!("the server {said}"))
    }
}

impl Launch {
    /// The same on the same data, under strace.
    #[must_use]
    pub fn under_strace(&self, arguments: &[String]) -> Self {
        Self {
            strace: Some(arguments.to_vec()),
            ..self.clone()
        }
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(&self) -> Result<Process> {
        let mut command = match &self.strace {
            None => Command::new(&self.program),
            Some(arguments) => {
                let mut command = Command::new("strace");
                // The tracer detaches from our process, so that the process that we started is the server.
                command
                    .args(["-D", "-f"])
                    .args(arguments)
                    .arg(&self.program);
                command
            }
        };
        let file = |name: &str| {
            let path = self.output.join(name);
            File::create(&path).with_context(|| path.display().to_string())
        };
        let child = command
            .arg("serve")
            .arg("--data")
            .arg(&self.data)
            .args(["--http-bind", "127.0.0.1:0", "--log-level", "warn"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?)
            .spawn()
            .with_context(|| format!("{} does not start", self.program.display()))?;
        Ok(Process {
            child,
            output: self.output.clone(),
            is_over: None,
        })
    }

    /// Starts the process and waits until it listens or ends.
    pub fn start(&self) -> Result<Start> {
        let mut process = self.spawn()?;
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(address) = process.address() {
                return Ok(Start::Up(Server { process, address }));
            }
            if process.has_ended()? {
                return Ok(Start::Ended(process.end()?));
            }
            if Instant::now() > deadline {
                let stderr = process.stderr();
                bail!("the server did not listen within {WAIT_MAX:?}: {stderr:.2000}");
            }
            thread::sleep(POLL);
        }
    }

    /// Starts a server that nothing hinders; one that does not come up is an error that says why.
    pub fn start_up(&self) -> Result<Server> {
        match self.start()? {
            Start::Up(server) => Ok(server),
            Start::Ended(ended) => bail!(
                "the store does not open: {}: {:.2000}",
                ended.status,
                ended.stderr
            ),
        }
    }
}

impl Process {
    fn address(&self) -> Option<SocketAddr> {
        let said = std::fs::read_to_string(self.output.join("stdout")).ok()?;
        let (line, _) = said.split_once('\n')?;
        line.strip_prefix(GREETING)?.parse().ok()
    }

    /// What it has said on standard error so far.
    pub fn stderr(&self) -> String {
        std::fs::read(self.output.join("stderr")).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// Whether it has ended by itself, or by a signal.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        if self.is_over.is_none() {
            self.is_over = self.child.try_wait()?;
        }
        Ok(self.is_over.is_some())
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // A process that was waited for is gone, and its number may be another's.
        if self.has_ended()? {
            return Ok(());
        }
        let pid = Pid::from_child(&self.child);
        match kill_process(pid, signal) {
            Err(e) if e != rustix::io::Errno::SRCH => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Kills it, if it lives, and waits for its end.
    pub fn kill(mut self) -> Result<Ended> {
        self.signal(Signal::KILL)?;
        self.end()
    }

    fn end(&mut self) -> Result<Ended> {
        let deadline = Instant::now() + WAIT_MAX;
        while !self.has_ended()? {
            if Instant::now() > deadline {
                bail!("the server did not end within {WAIT_MAX:?}");
            }
            thread::sleep(POLL);
        }
        Ok(Ended {
            status: self.is_over.context("it has ended")?,
            stderr: self.stderr(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and a process that has ended is fine.
        if self.signal(Signal::KILL).is_ok() && self.is_over.is_none() {
            let _ = self.child.wait();
        }
    }
}

impl Server {
    /// A client of its own.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.has_ended()?)
    }

    /// Kills it.
    pub fn kill(self) -> Result<Ended> {
        self.process.kill()
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(mut self) -> Result<Ended> {
        self.process.signal(Signal::TERM)?;
        self.process.end()
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process.child)
    }

    /// A figure of `/metrics`; 0 if there is none of that name.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let answer = self.client().get("/metrics")?;
        let text = answer.text();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0.0))
    }
}

/// Where the program is if nobody says so: beside this one, as cargo builds both.
pub fn program_beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let path = own.with_file_name("nilometer");
    is_program(&path)?;
    Ok(path)
}

/// Whether there is such a file.
pub fn is_program(path: &Path) -> Result<()> {
    if !path.is_file() {
        bail!(
            "{} is no program; build it with `make build`, or name one with --program",
            path.display()
        );
    }
    Ok(())
}
