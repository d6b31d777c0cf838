//! Other databases under the same faults: how each is started, written to and read back, with its default settings.
//!
//! Does: hold what the drivers have in common, and what they are asked to do. A driver is a client like any other.
//! Does not: install anything, change a setting that decides what survives, or say that one promise is as good as another.
//! Next: `trial/peers.rs` for the faults, `peer/account.rs` for what is judged.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::http::{Answer, Client};
use crate::life::Outcome;

pub mod account;
pub mod content;
pub mod influxdb;
pub mod life;
pub mod nilometer;
pub mod postgresql;
pub mod process;
pub mod victoriametrics;

use content::Row;

/// The database, and the table or measurement in it.
const DB: &str = "ledger";
const TABLE: &str = "points";

/// Where one store lives.
#[derive(Debug, Clone)]
pub struct Site {
    /// The server's binary.
    pub program: PathBuf,
    /// Its data, which may not be there yet.
    pub data: PathBuf,
    /// What the server says: not on the disk under trial.
    pub output: PathBuf,
    /// Arguments that somebody adds by hand, to see what a setting changes.
    pub flags: Vec<String>,
}

/// A row as it came back, in text: time in milliseconds, writer, host, value, number. A field that is not there is empty.
pub type Cells = [String; 5];

/// What a driver does.
pub trait Peer: fmt::Debug + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Makes the folder of its data, where the server does not do that by itself.
    fn create(&self, _site: &Site) -> Result<()> {
        Ok(())
    }

    /// What starts the server: paths, ports, and nothing about durability.
    fn command(&self, site: &Site, address: SocketAddr) -> Command;

    /// Whether it takes writes and questions.
    fn is_ready(&self, site: &Site, address: SocketAddr) -> bool;

    /// Makes the table or the database of it, where a write does not do that.
    fn prepare(&self, site: &Site, address: SocketAddr) -> Result<()>;

    /// A client that writes.
    fn connect(&self, site: &Site, address: SocketAddr) -> Result<Box<dyn Writer>>;

    /// All rows that it shows.
    fn read(&self, site: &Site, address: SocketAddr) -> Result<Vec<Cells>>;

    /// What asks it to stop in good order.
    fn stop_signal(&self) -> Signal {
        Signal::TERM
    }
}

/// A connection that sends one batch after the other.
pub trait Writer: fmt::Debug {
    /// Sends a batch and waits for the answer.
    fn write(&mut self, rows: &[Row]) -> Outcome;
}

/// The driver of that name.
pub fn named(name: &str) -> Result<&'static dyn Peer> {
    let all: [&'static dyn Peer; 4] = [
        &nilometer::Nilometer,
        &influxdb::InfluxDb,
        &victoriametrics::VictoriaMetrics,
        &postgresql::PostgreSql,
    ];
    match all.iter().find(|peer| peer.name() == name) {
        Some(peer) => Ok(*peer),
        None => bail!(
            "there is no driver for {name}; there are {}",
            all.map(Peer::name).join(", ")
        ),
    }
}

/// Writes line protocol to `/write`, as three of the four take it, with times in milliseconds. An acknowledgement is 204.
#[derive(Debug)]
struct LineWriter(Client);

impl LineWriter {
    fn boxed(address: SocketAddr) -> Box<dyn Writer> {
        Box::new(Self(Client::new(address)))
    }
}

impl Writer for LineWriter {
    fn write(&mut self, rows: &[Row]) -> Outcome {
        let body: String = rows.iter().map(|row| row.line(TABLE)).collect();
        let target = format!("/write?db={DB}&precision=ms");
        match request(&mut self.0, "POST", &target, "", &body) {
            Ok(answer) if answer.status == 204 => Outcome::Done,
            Ok(answer) => {
                let said = format!("{}: {:.300}", answer.status, answer.text());
                match answer.status {
                    400..500 => Outcome::Refused(said),
                    _ => Outcome::Unavailable(said),
                }
            }
            Err(e) => Outcome::Silent(e),
        }
    }
}

/// A request with header lines of its own.
fn request(
    client: &mut Client,
    method: &str,
    target: &str,
    head: &str,
    body: &str,
) -> io::Result<Answer> {
    let length = body.len();
    client.raw(
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {length}\r\n\r\n{body}")
            .as_bytes(),
    )
}

/// Asks with 200 as the only good answer.
fn ask(address: SocketAddr, method: &str, target: &str, head: &str) -> Result<String> {
    let answer = request(&mut Client::new(address), method, target, head, "")?;
    if answer.status != 200 {
        bail!("{target}: {}: {:.500}", answer.status, answer.text());
    }
    Ok(answer.text())
}

/// Whether a page is answered with a status of success.
fn answers(address: SocketAddr, target: &str) -> bool {
    let answer = Client::new(address).get(target);
    answer.is_ok_and(|answer| (200..300).contains(&answer.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_peer_is_refused_with_the_names_of_those_there_are() {
        assert_eq!(named("influxdb").unwrap().name(), "influxdb");
        let said = named("oracle").unwrap_err().to_string();
        assert!(
            said.contains("nilometer, influxdb, victoriametrics, postgresql"),
            "{said}"
        );
    }
}
