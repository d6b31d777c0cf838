//! CSV: text in columns to points.
//!
//! Does: find the separator, look at the first rows for types, turn each row into line protocol, name the rows that do
//! not fit. Does not: send anything.

use std::io::BufRead;

use anyhow::{Context, bail};
use csv::{ByteRecord, Position, ReaderBuilder, StringRecord};
use nilometer_lineproto::{FieldValue, write_line};

use super::batch::{Batch, Lines, Outlet, Reject, Start};
use super::columns::{ColumnWishes, Columns, boolean, decide, is_absent};
use crate::lines::{Kind, Role};

/// Rows whose values decide about types.
const SAMPLE_ROWS: usize = 10_000;

/// Rows of a batch.
const BATCH_ROWS: u64 = 10_000;

/// Bytes of a rejected row that are shown.
const SHOWN_BYTES: usize = 1_000;

/// How a file is read.
#[derive(Debug, Clone, Default)]
pub(super) struct CsvOptions {
    /// Names for a file that does not begin with them.
    pub(super) names: Option<Vec<String>>,
    /// `None` = whichever the first line has most of.
    pub(super) separator: Option<u8>,
    pub(super) wishes: ColumnWishes,
}

/// A file of which the first rows have been looked at.
pub(super) struct CsvFile {
    reader: csv::Reader<Box<dyn BufRead + Send>>,
    sample: std::vec::IntoIter<StringRecord>,
    /// What stood in the way while the sample was read.
    broken: Option<csv::Error>,
    pub(super) columns: Columns,
    /// Records read so far.
    record: u64,
}

impl CsvFile {
    pub(super) fn open(
        mut text: Box<dyn BufRead + Send>,
        options: &CsvOptions,
    ) -> anyhow::Result<Self> {
        let peeked = text.fill_buf()?;
        let separator = options.separator.unwrap_or_else(|| separator(peeked));
        let mut reader = ReaderBuilder::new()
            .delimiter(separator)
            .has_headers(options.names.is_none())
            .flexible(true)
            .from_reader(text);
        let names = if let Some(names) = &options.names {
            names.clone()
        } else {
            let names = reader.headers().context("the first line cannot be read")?;
            let names = names
                .iter()
                .map(|name| name.trim().trim_start_matches('\u{feff}'));
            names.map(str::to_owned).collect()
        };
        if names.is_empty() {
            bail!("the file is empty; its first line has the names of the columns");
        }
        let (mut sample, mut broken) = (Vec::new(), None);
        while sample.len() < SAMPLE_ROWS {
            let mut record = ByteRecord::new();
            match reader.read_byte_record(&mut record) {
                Ok(true) => sample.push(lossy(&record)),
                Ok(false) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        let columns = decide(&names, &sample, &options.wishes)?;
        Ok(Self {
            reader,
            sample: sample.into_iter(),
            broken,
            columns,
            record: 0,
        })
    }

    /// Sends all rows from `start` on.
    pub(super) fn send(
        mut self,
        input: usize,
        table: &str,
        start: Start,
        outlet: &Outlet,
    ) -> anyhow::Result<()> {
        while self.record < start.at && self.next()?.is_some() {}
        loop {
            let begin = self.record;
            let mut batch = Batch {
                input,
                begin,
                end: begin,
                text: Vec::new(),
                rows: 0,
                lines: Lines::Listed(Vec::new()),
                rejected: Vec::new(),
                values_left_out: 0,
            };
            let mut lines = Vec::new();
            while self.record - begin < BATCH_ROWS {
                let Some(record) = self.next()? else { break };
                let line = record.position().map_or(0, Position::line);
                let printed_before = batch.text.len();
                match self.print(&record, table, &mut batch.text) {
                    Ok(values_left_out) => {
                        batch.rows += 1;
                        let printed = batch.text.get(printed_before..).unwrap_or_default();
                        lines.extend(memchr::memchr_iter(b'\n', printed).map(|_| line));
                        batch.values_left_out += values_left_out;
                    }
                    Err(reason) => batch.rejected.push(Reject {
                        line,
                        text: shown(&record),
                        reason,
                    }),
                }
            }
            batch.end = self.record;
            batch.lines = Lines::Listed(lines);
            if batch.begin == batch.end {
                return Ok(());
            }
            outlet.send(batch)?;
        }
    }

    fn next(&mut self) -> anyhow::Result<Option<StringRecord>> {
        let record = if let Some(record) = self.sample.next() {
            Some(record)
        } else {
            if let Some(error) = self.broken.take() {
                return Err(error).context("the file cannot be read on");
            }
            let mut record = ByteRecord::new();
            let got = self.reader.read_byte_record(&mut record);
            let got = got.context("the file cannot be read on")?;
            got.then(|| lossy(&record))
        };
        self.record += u64::from(record.is_some());
        Ok(record)
    }

    /// Appends a row as a line; how many values were left out, or why there is no line.
    fn print(&self, record: &StringRecord, table: &str, out: &mut Vec<u8>) -> Result<u64, String> {
        let all = &self.columns.all;
        if record.len() != all.len() {
            return Err(format!(
                "the row has {} columns, the first line has {}",
                record.len(),
                all.len()
            ));
        }
        let time = match &self.columns.time {
            None => None,
            Some((at, format)) => {
                let cell = record.get(*at).unwrap_or_default();
                let time = format.read(cell);
                Some(time.ok_or_else(|| format!("{cell:?} is no time ({})", format.name()))?)
            }
        };
        let (mut tags, mut fields, mut left_out) = (Vec::new(), Vec::new(), 0);
        for (column, cell) in all.iter().zip(record) {
            let trimmed = cell.trim();
            if is_absent(trimmed) {
                continue;
            }
            match column.role {
                Role::Time => {}
                Role::Tag => tags.push((column.name.as_str(), trimmed)),
                Role::Field(kind) => match value(kind, trimmed) {
                    Some(FieldValue::Float(number)) if !number.is_finite() => left_out += 1,
                    Some(value) => fields.push((column.name.as_str(), value)),
                    None => {
                        return Err(format!(
                            "column \"{}\" has {trimmed:?}, which is not of its type {}; if the type is wrong, give --type {}=text or another",
                            column.name,
                            kind.name(),
                            column.name
                        ));
                    }
                },
            }
        }
        match write_line(out, table, &tags, &fields, time) {
            Ok(()) => Ok(left_out),
            Err(_) if fields.is_empty() => Err("the row has no value in any field".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn value(kind: Kind, cell: &str) -> Option<FieldValue<'_>> {
    Some(match kind {
        Kind::Float => FieldValue::Float(cell.parse().ok()?),
        Kind::Integer => FieldValue::Integer(cell.parse().ok()?),
        Kind::Unsigned => FieldValue::Unsigned(cell.parse().ok()?),
        Kind::Boolean => FieldValue::Boolean(boolean(cell)?),
        Kind::Text => FieldValue::Text(cell.into()),
    })
}

/// The byte among the usual ones that the first line has most of.
fn separator(text: &[u8]) -> u8 {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| memchr::memchr_iter(wanted, first).count();
    // Of equals the last counts, and the comma is what is meant when there is none.
    let candidates = [b'|', b'\t', b';', b','];
    candidates
        .into_iter()
        .max_by_key(|byte| count(*byte))
        .unwrap_or(b',')
}

/// Text in another encoding is shown and kept with replacement characters; a field of it is better than none.
fn lossy(record: &ByteRecord) -> StringRecord {
    let mut out = match StringRecord::from_byte_record(record.clone()) {
        Ok(text) => text,
        Err(_) => record.iter().map(String::from_utf8_lossy).collect(),
    };
    out.set_position(record.position().cloned());
    out
}

fn shown(record: &StringRecord) -> String {
    let text: Vec<&str> = record.iter().collect();
    text.join(",").chars().take(SHOWN_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn batches(text: &'static str, options: &CsvOptions, start: Start) -> Vec<Batch> {
        let file = CsvFile::open(Box::new(text.as_bytes()), options).unwrap();
        let (sender, received) = sync_channel(100);
        file.send(0, "t", start, &Outlet::new(sender)).unwrap();
        received.into_iter().collect()
    }

    #[test]
    fn rows_become_points_and_bad_ones_are_named_by_their_line() {
        let text = "time,host,v,s\n2024-05-01T12:00:00Z,a b,1.5,\"x \"\"y\"\"\nz\"\nnever,a b,1,\n2024-05-01T12:00:01Z,a b,,\n2024-05-01T12:00:02Z,,2\n2024-05-01T12:00:03Z,,2,\\N\n";
        let options = CsvOptions {
            wishes: ColumnWishes {
                tags: Some(vec!["host".to_owned()]),
                time: Some("time".to_owned()),
                time_format: Some(super::super::times::TimeFormat::Iso),
                ..ColumnWishes::default()
            },
            ..CsvOptions::default()
        };
        let batches = batches(text, &options, Start::default());
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        let lines = String::from_utf8(batch.text.clone()).unwrap();
        let want = "t,host=a\\ b v=1.5,s=\"x \\\"y\\\"\nz\" 1714564800000000000\nt v=2 1714564803000000000\n";
        assert_eq!(lines, want);
        let rejected: Vec<(u64, &str)> = batch
            .rejected
            .iter()
            .map(|reject| (reject.line, reject.reason.as_str()))
            .collect();
        assert_eq!(
            rejected,
            [
                (4, "\"never\" is no time (RFC 3339, UTC without a zone)"),
                (5, "the row has no value in any field"),
                (6, "the row has 3 columns, the first line has 4"),
            ]
        );
        assert_eq!((batch.begin, batch.end, batch.rows), (0, 5, 2));
    }

    #[test]
    fn an_import_that_goes_on_leaves_out_what_it_has() {
        let text = "time;v\n1700000000;1\n1700000001;2\n1700000002;3\n";
        let start = Start { at: 2, line: 0 };
        let batches = batches(text, &CsvOptions::default(), start);
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].text, b"t v=3i 1700000002000000000\n");
        assert_eq!(batches[0].lines.of(1), 4);
    }

    #[test]
    fn the_separator_is_the_one_that_the_first_line_has_most_of() {
        for (text, want) in [
            ("a,b;c,d\n", b','),
            ("a;b\n,,,", b';'),
            ("a\tb", b'\t'),
            ("a", b','),
        ] {
            assert_eq!(separator(text.as_bytes()), want, "{text:?}");
        }
    }
}
