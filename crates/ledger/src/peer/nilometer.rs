//! Our own server, under the reduced load that the others get.
//!
//! Does: write to the route that clients of InfluxDB 1 use, and without keys, as there are none elsewhere.
//! Does not: set any flag but where the data is and where to listen. `trial/kills.rs` asks much more of it.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Result, bail};

use super::{Cells, DB, LineWriter, Peer, Site, TABLE, Writer, answers};
use crate::batch::read_csv;
use crate::http::Client;

/// Nilometer.
#[derive(Debug)]
pub struct Nilometer;

impl Peer for Nilometer {
    fn name(&self) -> &'static str {
        "nilometer"
    }

    fn command(&self, site: &Site, address: SocketAddr) -> Command {
        let mut command = Command::new(&site.program);
        command.arg("serve").arg("--data").arg(&site.data);
        command.args(["--http-bind", &address.to_string(), "--log-level", "warn"]);
        command.args(&site.flags);
        command
    }

    fn is_ready(&self, _site: &Site, address: SocketAddr) -> bool {
        answers(address, "/ping")
    }

    fn prepare(&self, _site: &Site, address: SocketAddr) -> Result<()> {
        let statement = format!("CREATE DATABASE IF NOT EXISTS {DB}");
        sql(address, &statement).map(drop)
    }

    fn connect(&self, _site: &Site, address: SocketAddr) -> Result<Box<dyn Writer>> {
        Ok(LineWriter::boxed(address))
    }

    fn read(&self, _site: &Site, address: SocketAddr) -> Result<Vec<Cells>> {
        let statement = format!(
            "SELECT CAST(time AS BIGINT) / 1000000 AS at_ms, writer, host, value, number FROM {TABLE}"
        );
        rows(&sql(address, &statement)?)
    }
}

fn sql(address: SocketAddr, statement: &str) -> Result<String> {
    let answer = Client::new(address).sql(DB, statement)?;
    if answer.status != 200 {
        bail!("{statement}: {}: {:.500}", answer.status, answer.text());
    }
    Ok(answer.text())
}

fn rows(answer: &str) -> Result<Vec<Cells>> {
    let mut records = read_csv(answer).into_iter();
    let header = records.next().unwrap_or_default();
    if header != ["at_ms", "writer", "host", "value", "number"] {
        bail!("the answer does not begin with its columns: {answer:.200}");
    }
    records
        .map(|record| {
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
    fn rows_are_read_below_their_columns_and_nowhere_else() {
        let answer = "at_ms,writer,host,value,number\n1700000000123,w0,a,41.5,17003\n";
        let row = ["1700000000123", "w0", "a", "41.5", "17003"].map(str::to_owned);
        assert_eq!(rows(answer).unwrap(), [row]);
        assert!(rows("").is_err());
        assert!(rows("at_ms,writer,host,value,number\n1,2\n").is_err());
    }
}
