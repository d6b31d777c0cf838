//! InfluxDB 1: `influxd`, written to in line protocol, read back in InfluxQL.
//!
//! Does: say by variables where its folders are and where it listens, and that it reports to nobody; everything else is
//! as the program has it, among that `wal-fsync-delay = "0s"`, by which a write is synced before it is answered.
//! Does not: read a file with settings. Variables that are set elsewhere reach it, such as `INFLUXDB_DATA_WAL_FSYNC_DELAY`.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Cells, DB, LineWriter, Peer, Site, TABLE, Writer, answers, ask};
use crate::batch::read_csv;
use crate::http::encode;

/// What a table of an answer begins with.
const HEADER: [&str; 7] = ["name", "tags", "time", "writer", "host", "value", "number"];

/// Longest wait for the database that it makes for itself.
const OWN_DATABASE_MAX: Duration = Duration::from_secs(40);

/// InfluxDB.
#[derive(Debug)]
pub struct InfluxDb;

impl Peer for InfluxDb {
    fn name(&self) -> &'static str {
        "influxdb"
    }

    fn command(&self, site: &Site, address: SocketAddr) -> Command {
        let mut command = Command::new(&site.program);
        command
            .args(["run", "-config", "/dev/null"])
            .args(&site.flags)
            .env("INFLUXDB_META_DIR", site.data.join("meta"))
            .env("INFLUXDB_DATA_DIR", site.data.join("data"))
            .env("INFLUXDB_DATA_WAL_DIR", site.data.join("wal"))
            .env("INFLUXDB_HTTP_BIND_ADDRESS", address.to_string())
            .env("INFLUXDB_BIND_ADDRESS", "127.0.0.1:0")
            .env("INFLUXDB_REPORTING_DISABLED", "true");
        command
    }

    fn is_ready(&self, _site: &Site, address: SocketAddr) -> bool {
        answers(address, "/ping")
    }

    fn prepare(&self, _site: &Site, address: SocketAddr) -> Result<()> {
        let target = format!("/query?q={}", encode(&format!("CREATE DATABASE {DB}")));
        let answer = ask(address, "POST", &target, "")?;
        if answer.contains("error") {
            bail!("CREATE DATABASE: {answer:.500}");
        }
        // It makes a database for figures of itself, too, some seconds after its start, and has aged only then.
        let deadline = Instant::now() + OWN_DATABASE_MAX;
        let target = format!("/query?q={}", encode("SHOW DATABASES"));
        while !ask(address, "GET", &target, "")?.contains("_internal") {
            if Instant::now() > deadline {
                bail!("there is no database _internal after {OWN_DATABASE_MAX:?}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn connect(&self, _site: &Site, address: SocketAddr) -> Result<Box<dyn Writer>> {
        Ok(LineWriter::boxed(address))
    }

    fn read(&self, _site: &Site, address: SocketAddr) -> Result<Vec<Cells>> {
        let query = encode(&format!("SELECT writer, host, value, number FROM {TABLE}"));
        let target = format!("/query?db={DB}&epoch=ms&q={query}");
        rows(&ask(
            address,
            "GET",
            &target,
            "Accept: application/csv\r\n",
        )?)
    }
}

/// Rows of an answer. A measurement that is not there has an empty one.
fn rows(answer: &str) -> Result<Vec<Cells>> {
    let mut rows = Vec::new();
    for (at, record) in read_csv(answer).into_iter().enumerate() {
        // Long answers are made of several tables.
        if record == HEADER {
            continue;
        }
        let [_, _, time, writer, host, value, number]: [String; 7] = match record.try_into() {
            Ok(cells) if at > 0 => cells,
            _ => bail!("this is no answer with rows: {answer:.300}"),
        };
        rows.push([time, writer, host, value, number]);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_one_table_or_several() {
        let header = "name,tags,time,writer,host,value,number\n";
        let line = "points,,1700000000123,w0,a,41.5,17003\n";
        let row = || ["1700000000123", "w0", "a", "41.5", "17003"].map(str::to_owned);
        assert_eq!(rows(&format!("{header}{line}")).unwrap(), [row()]);
        let twice = format!("{header}{line}{header}{line}");
        assert_eq!(rows(&twice).unwrap(), [row(), row()]);
        assert_eq!(rows("").unwrap(), Vec::<Cells>::new());
    }

    #[test]
    fn a_field_that_is_not_there_is_empty() {
        let answer = "name,tags,time,writer,host,value,number\npoints,,17,w0,a,,3\n";
        assert_eq!(
            rows(answer).unwrap(),
            [["17", "w0", "a", "", "3"].map(str::to_owned)]
        );
    }

    #[test]
    fn an_error_is_not_taken_for_no_rows() {
        assert!(rows("error\ndatabase not found: ledger\n").is_err());
        assert!(rows("points,,17,w0,a,1,3\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = rows(&text);
        }
    }
}
