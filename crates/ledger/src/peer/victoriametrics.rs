//! `VictoriaMetrics`: the single server, written to in line protocol, read back by its export.
//!
//! Does: put the two fields of a row together again, which are two series there.
//! Does not: ask it to flush. What it acknowledges is in memory first, and on the disk some seconds later, by design.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Cells, LineWriter, Peer, Site, TABLE, Writer, answers, ask};
use crate::batch::read_csv;
use crate::http::encode;

/// The columns of the export.
const FORMAT: &str = "__name__,writer,host,__timestamp__:unix_ms,__value__";

/// `VictoriaMetrics`.
#[derive(Debug)]
pub struct VictoriaMetrics;

impl Peer for VictoriaMetrics {
    fn name(&self) -> &'static str {
        "victoriametrics"
    }

    fn command(&self, site: &Site, address: SocketAddr) -> Command {
        let mut command = Command::new(&site.program);
        command
            .arg(format!("-storageDataPath={}", site.data.display()))
            .arg(format!("-httpListenAddr={address}"));
        command.args(&site.flags);
        command
    }

    fn is_ready(&self, _site: &Site, address: SocketAddr) -> bool {
        answers(address, "/health")
    }

    fn prepare(&self, _site: &Site, _address: SocketAddr) -> Result<()> {
        // Series are made by writing them.
        Ok(())
    }

    fn connect(&self, _site: &Site, address: SocketAddr) -> Result<Box<dyn Writer>> {
        Ok(LineWriter::boxed(address))
    }

    fn read(&self, _site: &Site, address: SocketAddr) -> Result<Vec<Cells>> {
        let (format, series) = (
            encode(FORMAT),
            encode(&format!("{{__name__=~\"{TABLE}_.*\"}}")),
        );
        let target = format!("/api/v1/export/csv?format={format}&match[]={series}");
        rows(&ask(address, "GET", &target, "")?)
    }
}

/// Puts samples together to rows. A sample that is there twice makes its row twice.
fn rows(answer: &str) -> Result<Vec<Cells>> {
    let mut fields: BTreeMap<[String; 3], [Vec<String>; 2]> = BTreeMap::new();
    for record in read_csv(answer) {
        // Newer versions have a line of column names.
        if record.first().is_some_and(|cell| cell == "__name__") {
            continue;
        }
        let [name, writer, host, time, value]: [String; 5] = match record.try_into() {
            Ok(cells) => cells,
            Err(record) => bail!("an exported sample is {record:?}"),
        };
        let field = name
            .strip_prefix(TABLE)
            .context("a series of another name")?;
        let [values, numbers] = fields.entry([time, writer, host]).or_default();
        match field {
            "_value" => values.push(value),
            "_number" => numbers.push(value),
            other => bail!("a series of the name {TABLE}{other}"),
        }
    }
    let mut rows = Vec::new();
    for ([time, writer, host], [values, numbers]) in fields {
        for at in 0..values.len().max(numbers.len()) {
            let cell = |of: &[String]| of.get(at).cloned().unwrap_or_default();
            rows.push([
                time.clone(),
                writer.clone(),
                host.clone(),
                cell(&values),
                cell(&numbers),
            ]);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(cells: [&str; 5]) -> Cells {
        cells.map(str::to_owned)
    }

    #[test]
    fn two_series_are_put_together_by_their_times() {
        let answer = "points_number,w0,a,17,17003\npoints_number,w0,a,18,17004\n\
                      points_value,w0,a,17,41.5\npoints_value,w0,a,18,-2\n";
        let expected = [
            cells(["17", "w0", "a", "41.5", "17003"]),
            cells(["18", "w0", "a", "-2", "17004"]),
        ];
        assert_eq!(rows(answer).unwrap(), expected);
        let with_names = format!("__name__,writer,host,__timestamp__:unix_ms,__value__\n{answer}");
        assert_eq!(rows(&with_names).unwrap(), expected);
    }

    #[test]
    fn a_sample_that_is_there_twice_makes_its_row_twice() {
        let answer = "points_number,w0,a,17,3\npoints_number,w0,a,17,3\npoints_value,w0,a,17,1\npoints_value,w0,a,17,1\n";
        assert_eq!(
            rows(answer).unwrap(),
            vec![cells(["17", "w0", "a", "1", "3"]); 2]
        );
    }

    #[test]
    fn a_row_without_one_series_has_an_empty_field() {
        assert_eq!(
            rows("points_number,w0,a,17,3\n").unwrap(),
            [cells(["17", "w0", "a", "", "3"])]
        );
        assert_eq!(rows("").unwrap(), Vec::<Cells>::new());
    }

    #[test]
    fn other_series_and_errors_are_refused() {
        assert!(rows("other_value,w0,a,17,3\n").is_err());
        assert!(rows("points_other,w0,a,17,3\n").is_err());
        assert!(rows("cannot export data\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = rows(&text);
        }
    }
}
