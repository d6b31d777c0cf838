//! PostgreSQL: a cluster of its own by `initdb`, spoken to by `psql`, both from beside the server's binary.
//!
//! Does: send each batch as one INSERT, which is one transaction, and take the line that `psql` prints of it, which it
//! does once the server has committed, for the acknowledgement.
//! Does not: change any setting but port, address and sockets; `fsync` and `synchronous_commit` are on by default.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, geteuid};

use super::{Cells, Peer, Site, TABLE, Writer};
use crate::batch::read_csv;
use crate::disk::run;
use crate::life::Outcome;
use crate::peer::content::Row;

/// The server refuses to run as root; this user comes with Debian's package.
const USER: &str = "postgres";

/// PostgreSQL.
#[derive(Debug)]
pub struct PostgreSql;

impl Peer for PostgreSql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn create(&self, site: &Site) -> Result<()> {
        fs::create_dir(&site.data).with_context(|| site.data.display().to_string())?;
        if geteuid().is_root() {
            // The folder of a trial is its owner's alone; the user has to get through it.
            fs::set_permissions(&site.output, Permissions::from_mode(0o711))?;
            run(Command::new("chown").arg(USER).arg(&site.data)).map_err(anyhow::Error::msg)?;
        }
        let mut initdb = as_user(&site.program.with_file_name("initdb"));
        initdb.arg("-D").arg(&site.data);
        initdb.args(["-U", USER, "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        run(initdb.current_dir("/")).map_err(anyhow::Error::msg)
    }

    fn command(&self, site: &Site, address: SocketAddr) -> Command {
        let mut command = as_user(&site.program);
        command.arg("-D").arg(&site.data);
        command.args(["-p", &address.port().to_string()]);
        command.args(["-c", &format!("listen_addresses={}", address.ip())]);
        command.args(["-c", "unix_socket_directories="]);
        command.args(&site.flags);
        command
    }

    fn is_ready(&self, site: &Site, address: SocketAddr) -> bool {
        psql(site, address, "SELECT 1").is_ok()
    }

    fn prepare(&self, site: &Site, address: SocketAddr) -> Result<()> {
        let statement = format!(
            "CREATE TABLE {TABLE} (time timestamptz NOT NULL, writer text NOT NULL, host text NOT NULL, \
             value double precision, number bigint, PRIMARY KEY (writer, time))"
        );
        psql(site, address, &statement).map(drop)
    }

    fn connect(&self, site: &Site, address: SocketAddr) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Session::open(site, address)?))
    }

    fn read(&self, site: &Site, address: SocketAddr) -> Result<Vec<Cells>> {
        let statement = format!(
            "COPY (SELECT (extract(epoch FROM time) * 1000)::bigint, writer, host, value, number FROM {TABLE}) \
             TO STDOUT WITH (FORMAT csv)"
        );
        rows(&psql(site, address, &statement)?)
    }

    fn stop_signal(&self) -> Signal {
        // "Fast": sessions that are still open are ended.
        Signal::INT
    }
}

fn as_user(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    // It replaces itself by the program, so that the process that we started is the server.
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={USER}"),
        &format!("--regid={USER}"),
        "--init-groups",
    ]);
    command.arg(program);
    command
}

fn client(site: &Site, address: SocketAddr) -> Command {
    let mut command = Command::new(site.program.with_file_name("psql"));
    command.args([
        "-X",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        USER,
        "-d",
        "postgres",
    ]);
    command.args([
        "-h",
        &address.ip().to_string(),
        "-p",
        &address.port().to_string(),
    ]);
    command
}

/// Runs one statement to its end.
fn psql(site: &Site, address: SocketAddr, statement: &str) -> Result<String> {
    let output = client(site, address)
        .args(["-c", statement])
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!(
            "{statement}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A `psql` that takes statements as long as the server lives.
#[derive(Debug)]
struct Session {
    child: Child,
    statements: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Session {
    fn open(site: &Site, address: SocketAddr) -> Result<Self> {
        let mut child = client(site, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("psql")?;
        let statements = child.stdin.take().context("its input was piped")?;
        let said = BufReader::new(child.stdout.take().context("its output was piped")?);
        Ok(Self {
            child,
            statements,
            said,
        })
    }

    fn run(&mut self, statement: &str) -> io::Result<String> {
        let mut line = String::new();
        let sent = self.statements.write_all(statement.as_bytes());
        let is_over = sent.is_err() || self.said.read_line(&mut line)? == 0;
        if is_over {
            let mut why = String::new();
            if let Some(stderr) = &mut self.child.stderr {
                stderr.read_to_string(&mut why)?;
            }
            return Err(io::Error::other(format!("psql ended: {}", why.trim())));
        }
        Ok(line)
    }
}

impl Writer for Session {
    fn write(&mut self, rows: &[Row]) -> Outcome {
        match self.run(&insert(rows)) {
            Ok(line) if line.trim_end() == format!("INSERT 0 {}", rows.len()) => Outcome::Done,
            Ok(line) => Outcome::Refused(line),
            Err(e) => Outcome::Silent(e),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It is idle or has ended; either way nothing is lost with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One statement on one line. A row that is there already is overwritten, as it is elsewhere.
fn insert(rows: &[Row]) -> String {
    let mut statement = format!("INSERT INTO {TABLE} (time, writer, host, value, number) VALUES ");
    for (at, row) in rows.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let Row {
            time,
            writer,
            host,
            value,
            number,
        } = row;
        let (seconds, ms) = (time.div_euclid(1000), time.rem_euclid(1000));
        write!(
            statement,
            "{comma}(to_timestamp({seconds}) + interval '{ms} ms', 'w{writer}', '{host}', {value}, {number})"
        )
        .expect("a string takes all");
    }
    statement.push_str(
        " ON CONFLICT (writer, time) DO UPDATE SET host = excluded.host, value = excluded.value, \
         number = excluded.number;\n",
    );
    statement
}

fn rows(answer: &str) -> Result<Vec<Cells>> {
    let rows = read_csv(answer).into_iter();
    rows.map(|record| {
        record
            .try_into()
            .map_err(|record| anyhow::anyhow!("a row is {record:?}"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_statement_on_one_line() {
        let row = |number| Row {
            time: 1_700_000_000_123,
            writer: 2,
            host: "c",
            value: -41.5,
            number,
        };
        assert_eq!(
            insert(&[row(1), row(2)]),
            "INSERT INTO points (time, writer, host, value, number) VALUES \
             (to_timestamp(1700000000) + interval '123 ms', 'w2', 'c', -41.5, 1), \
             (to_timestamp(1700000000) + interval '123 ms', 'w2', 'c', -41.5, 2) \
             ON CONFLICT (writer, time) DO UPDATE SET host = excluded.host, value = excluded.value, \
             number = excluded.number;\n"
        );
    }

    #[test]
    fn rows_have_five_cells() {
        let row = ["1700000000123", "w0", "a", "41.5", "17003"].map(str::to_owned);
        assert_eq!(rows("1700000000123,w0,a,41.5,17003\n").unwrap(), [row]);
        assert_eq!(rows("").unwrap(), Vec::<Cells>::new());
        assert!(rows("1,2\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = rows(&text);
        }
    }
}
