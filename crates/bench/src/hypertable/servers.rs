//! The servers that the suite asks: Nilometer and PostgreSQL started for it alone, or any by a connection string.
//!
//! Does: start them on free ports in folders of their own, wait until they answer, end them when the suite ends, however it ends.
//! Does not: tune them: each has its own defaults, which the report states.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::address::Address;
use super::client::Client;
use crate::{Error, Result};

/// Longest wait for a server to answer, or to end. Only a hang gets there.
const WAIT_MAX: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);
/// What Nilometer says of its socket.
const GREETING: &str = "listening on postgresql://";
/// PostgreSQL refuses to run as root; this user comes with its package.
const USER: &str = "postgres";

/// Which database it is, and so what its tables are called and how its sizes are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// This one.
    Nilometer,
    /// PostgreSQL without extensions.
    Postgresql,
    /// PostgreSQL with the extension TimescaleDB.
    Timescaledb,
}

impl Peer {
    /// As tables and errors have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nilometer => "Nilometer",
            Self::Postgresql => "PostgreSQL",
            Self::Timescaledb => "TimescaleDB",
        }
    }
}

/// Where to find a database.
#[derive(Debug, Clone)]
pub enum Place {
    /// Start it: Nilometer's own program, or the folder with PostgreSQL's `initdb` and `postgres`.
    Start(PathBuf),
    /// By a connection string.
    At(String),
}

/// A database that answers. Dropping it ends the process, if we started it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) peer: Peer,
    pub(super) client: Client,
    process: Option<Process>,
}

impl Server {
    /// Starts it, or finds it; `folder` is for its files.
    pub(super) fn open(peer: Peer, place: &Place, folder: &Path) -> Result<Self> {
        let (address, process) = match (place, peer) {
            (Place::At(text), _) => (Address::parse(text)?, None),
            (Place::Start(program), Peer::Nilometer) => {
                let (address, process) = start_nilometer(program, folder)?;
                (address, Some(process))
            }
            (Place::Start(programs), _) => {
                let (address, process) = start_postgresql(peer, programs, folder)?;
                (address, Some(process))
            }
        };
        let mut process = process;
        let client = connect(peer, &address, process.as_mut())?;
        Ok(Self {
            peer,
            client,
            process,
        })
    }

    /// Whether the suite started it.
    pub(super) fn is_own(&self) -> bool {
        self.process.is_some()
    }
}

/// Connects; a server that was started has a while to answer.
fn connect(peer: Peer, address: &Address, process: Option<&mut Process>) -> Result<Client> {
    let Some(process) = process else {
        return Client::connect(peer.name(), address);
    };
    let begun = Instant::now();
    loop {
        match Client::connect(peer.name(), address) {
            Ok(client) => return Ok(client),
            Err(error) if begun.elapsed() > WAIT_MAX || process.has_ended() => {
                return Err(failed(
                    peer,
                    format!("{error}; its log is {}", process.log.display()),
                ));
            }
            Err(_) => thread::sleep(POLL),
        }
    }
}

fn start_nilometer(program: &Path, folder: &Path) -> Result<(Address, Process)> {
    let peer = Peer::Nilometer;
    let log = folder.join("nilometer.log");
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg("--data")
        .arg(folder.join("nilometer"));
    command.args(["--http-bind", "127.0.0.1:0", "--pg-bind", "127.0.0.1:0"]);
    command.args(["--log-level", "warn"]);
    command.stdout(Stdio::piped());
    let mut process = Process::start(peer, &mut command, log)?;
    let said = process.child.stdout.take();
    let mut said = BufReader::new(said.ok_or_else(|| failed(peer, "it says nothing".to_owned()))?);
    let mut line = String::new();
    loop {
        line.clear();
        let read = said
            .read_line(&mut line)
            .map_err(Error::io("read", program))?;
        if read == 0 {
            return Err(failed(
                peer,
                format!(
                    "it ended before it listened for clients of PostgreSQL; its log is {}",
                    process.log.display()
                ),
            ));
        }
        if let Some(address) = line.trim_end().strip_prefix(GREETING) {
            let port = address
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse().ok());
            let port = port.ok_or_else(|| failed(peer, format!("it listens on {address}")))?;
            process.said = Some(said);
            return Ok((Address::new("127.0.0.1", port, "postgres"), process));
        }
    }
}

fn start_postgresql(peer: Peer, programs: &Path, folder: &Path) -> Result<(Address, Process)> {
    let data = folder.join("postgresql");
    fs::create_dir_all(&data).map_err(Error::io("create", &data))?;
    if geteuid().is_root() {
        // The folder is its owner's alone; the user has to get through it.
        let through = fs::set_permissions(folder, Permissions::from_mode(0o711));
        through.map_err(Error::io("open to others", folder))?;
        run(peer, Command::new("chown").arg(USER).arg(&data))?;
    }
    let mut initdb = as_user(&programs.join("initdb"));
    initdb.arg("-D").arg(&data).current_dir("/");
    run(
        peer,
        initdb.args(["-U", USER, "--auth=trust", "--encoding=UTF8", "--no-locale"]),
    )?;
    let port = free_port().map_err(Error::io("find a free port for", &data))?;
    let mut command = as_user(&programs.join("postgres"));
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    command.args(["-c", "listen_addresses=127.0.0.1"]);
    command.args(["-c", "unix_socket_directories="]);
    command.current_dir("/").stdout(Stdio::null());
    let process = Process::start(peer, &mut command, folder.join("postgresql.log"))?;
    Ok((Address::new("127.0.0.1", port, "postgres"), process))
}

fn as_user(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    // It replaces itself by the program, so that the process that we started is the server.
    let mut command = Command::new("setpriv");
    let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
    command.args([user.as_str(), group.as_str(), "--init-groups"]);
    command.arg(program);
    command
}

fn run(peer: Peer, command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| failed(peer, format!("{program}: {source}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(peer, format!("{program}: {}", said.trim())))
}

/// A port that nobody has at this moment.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

/// The newest of the folders in which Debian and others put PostgreSQL's server.
pub fn find_postgresql() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let fixed = ["/usr/local/pgsql/bin", "/usr/pgsql/bin", "/usr/local/bin"].map(PathBuf::from);
    let mut found: Vec<PathBuf> = versions.chain(fixed).collect();
    found.retain(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    found.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name);
        version.and_then(|it| it.to_str()?.parse::<u32>().ok())
    });
    found.pop()
}

/// A process that we started.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
    /// Kept open, so that what it says later does not stop it.
    said: Option<BufReader<ChildStdout>>,
}

impl Process {
    fn start(peer: Peer, command: &mut Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).map_err(Error::io("create", &log))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stderr(file).spawn();
        let child = child.map_err(|source| failed(peer, format!("{program}: {source}")))?;
        Ok(Self {
            child,
            log,
            said: None,
        })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both servers end in good order at this signal.
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| !self.has_ended()) {
            let _ = kill_process(id, Signal::INT);
        }
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < WAIT_MAX {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(peer: Peer, what: String) -> Error {
    Error::Peer {
        server: peer.name().to_owned(),
        what,
    }
}
