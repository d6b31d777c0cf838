//! CSV: text in columns to rows with types.
//!
//! Does: find the separator, look at the first rows for types, turn rows into columns of those types, name the rows that
//! do not fit. Does not: send anything.

use std::io::{BufRead, Read};
use std::sync::Arc;

use anyhow::{Context, bail};
use csv::{ByteRecord, Position, ReaderBuilder, StringRecord, Trim};
use encoding_rs::Encoding;
use nilometer_engine::TIME_COLUMN;

use super::encoding::{decoded, invalid_text};
use crate::import::advice::{advice, blanks};
use crate::import::batch::{Batch, Content, Outlet, Reject, Start};
use crate::import::columns::{Column, ColumnWishes, Columns, decide};
use crate::import::cut::is_cut_off;
use crate::import::plan::Plan;
use crate::import::rewrite::{Rewrite, name_all, skip_preamble};
use crate::import::rows::RowBuilder;
use crate::import::times::now_ns;
use crate::lines::{FieldType, Role};
use crate::print::thousands;

/// Rows whose values decide about types.
const SAMPLE_ROWS: usize = 10_000;

/// Rows of a batch.
const BATCH_ROWS: u64 = 10_000;

/// Bytes of a batch's cells, unless one row is larger.
const BATCH_BYTES: usize = 8 << 20;

/// How a file is read.
#[derive(Debug, Clone, Default)]
pub(in crate::import) struct CsvOptions {
    /// Names for a file that does not begin with them.
    pub(in crate::import) names: Option<Vec<String>>,
    /// `None` = whichever the first line has most of.
    pub(in crate::import) separator: Option<u8>,
    /// `None` = UTF-8, or what a byte order mark says.
    pub(in crate::import) encoding: Option<&'static Encoding>,
    /// Whether blanks at the ends of cells are left out; those of texts are part of them otherwise.
    pub(in crate::import) trims: bool,
    pub(in crate::import) wishes: ColumnWishes,
}

/// A file of which the first rows have been looked at.
pub(in crate::import) struct CsvFile {
    reader: csv::Reader<Box<dyn BufRead + Send>>,
    sample: std::vec::IntoIter<ByteRecord>,
    /// What stood in the way while the sample was read.
    broken: Option<csv::Error>,
    pub(in crate::import) columns: Columns,
    rewrite: Rewrite,
    wishes: ColumnWishes,
    /// The names as they stand in the file, to be put above rejected rows.
    heading: Option<Arc<[u8]>>,
    /// What separates the columns.
    separator: u8,
    /// Lines before the first one that the reader sees.
    lines_before: u64,
    /// Records read so far.
    record: u64,
}

impl CsvFile {
    pub(in crate::import) fn open(
        text: Box<dyn BufRead + Send>,
        options: &CsvOptions,
    ) -> anyhow::Result<Self> {
        let mut text = decoded(text, options.encoding)?;
        let preamble = skip_preamble(&mut text)?;
        let peeked = text.fill_buf()?;
        let wished = options.separator.or(preamble.separator);
        let separator = wished.unwrap_or_else(|| separator(peeked));
        let mut reader = ReaderBuilder::new()
            .delimiter(separator)
            .has_headers(options.names.is_none())
            .flexible(true)
            .trim(if options.trims {
                Trim::Fields
            } else {
                Trim::None
            })
            .from_reader(text);
        let mut heading = None;
        let mut names: Vec<String> = if let Some(names) = &options.names {
            names.clone()
        } else {
            let names = reader
                .byte_headers()
                .context("the first line cannot be read")?;
            if let Some(reason) = invalid_text(names, &[]) {
                bail!("line {}: {reason}", preamble.lines + 1);
            }
            heading = Some(line_of(names, separator).into());
            let names = names.iter().map(String::from_utf8_lossy);
            let names = names.map(|name| name.trim().trim_start_matches('\u{feff}').to_owned());
            names.collect()
        };
        if names.is_empty() || matches!(names.as_slice(), [only] if only.is_empty()) {
            bail!("the file is empty; its first line has the names of the columns");
        }
        let (sample, broken) = first_records(&mut reader);
        name_all(&mut names);
        let mut texts = Vec::with_capacity(sample.len());
        for record in &sample {
            let text = text_of(record, &names).map_err(|reason| {
                let line = preamble.lines + record.position().map_or(0, Position::line);
                anyhow::anyhow!("line {line}: {reason}; nothing of it was imported")
            });
            texts.push(text?);
        }
        let rewrite = Rewrite::of(&mut names, &texts, separator, &options.wishes)?;
        let texts: Vec<StringRecord> = texts.into_iter().map(|it| rewrite.apply(it)).collect();
        let mut columns = decide(&names, &texts, &options.wishes)?;
        let is_other_time = |it: &Column| it.name == TIME_COLUMN && it.role != Role::Time;
        if columns.time.is_some() && columns.all.iter().any(is_other_time) {
            bail!(
                "the file has a column \"time\" that is not its time; give --time time, or other names with --columns"
            );
        }
        let said = advice(&columns.all, &texts, &options.wishes.absent);
        columns.notes.extend(said);
        columns.notes.extend(blanks(&columns.all, &texts));
        Ok(Self {
            reader,
            sample: sample.into_iter(),
            broken,
            columns,
            rewrite,
            wishes: options.wishes.clone(),
            heading,
            separator,
            lines_before: preamble.lines,
            record: 0,
        })
    }

    /// Lets the columns become what is planned for their table.
    pub(in crate::import) fn follow(&mut self, plan: &Plan, table: &str) {
        for column in &mut self.columns.all {
            if column.role != Role::Time
                && let Some(planned) = plan.role(table, &column.name)
            {
                column.role = planned;
            }
        }
    }

    /// Sends all rows from `start` on.
    pub(in crate::import) fn send(
        mut self,
        input: usize,
        table: &str,
        start: Start,
        outlet: &Outlet<'_>,
    ) -> anyhow::Result<()> {
        let columns = &self.columns;
        let named = columns.all.iter();
        let named = named.map(|column| (column.name.clone(), column.role));
        let time = columns.time.as_ref().map(|(_, format)| format.clone());
        let mut builder = RowBuilder::new(named, time, self.wishes.absent.clone(), self.floats());
        let table: Arc<str> = table.into();
        while self.record < start.at && self.next()?.is_some() {}
        loop {
            let begin = self.record;
            let (mut rejected, mut bytes, now) = (Vec::new(), 0, now_ns());
            let mut broken = None;
            while self.record - begin < BATCH_ROWS && bytes < BATCH_BYTES {
                let record = match self.next() {
                    Ok(record) => record,
                    // What came before is in the file, and is sent.
                    Err(error) if is_cut(&error) => {
                        broken = Some(error);
                        None
                    }
                    Err(error) => return Err(error),
                };
                let Some(record) = record else { break };
                bytes += record.as_slice().len();
                if let Err(reason) = self.add(&record, now, &mut builder) {
                    rejected.push(Reject {
                        line: self.lines_before + record.position().map_or(0, Position::line),
                        text: line_of(&record, self.separator),
                        heading: self.heading.clone(),
                        reason,
                    });
                }
            }
            if begin == self.record {
                return broken.map_or(Ok(()), Err);
            }
            let rows = builder.take()?;
            outlet.send(Batch {
                input,
                begin,
                end: self.record,
                rows: rows.num_rows() as u64,
                content: Content::Rows {
                    table: Arc::clone(&table),
                    rows,
                },
                rejected,
            })?;
            if let Some(error) = broken {
                return Err(error);
            }
        }
    }

    /// Columns of floats that the user wants so.
    fn floats(&self) -> Vec<String> {
        let types = self.wishes.types.iter();
        let floats = types.filter(|(_, kind)| *kind == FieldType::Float);
        floats.map(|(name, _)| name.clone()).collect()
    }

    fn add(
        &self,
        record: &ByteRecord,
        now_ns: i64,
        builder: &mut RowBuilder,
    ) -> Result<(), String> {
        let names =
            || -> Vec<String> { self.columns.all.iter().map(|it| it.name.clone()).collect() };
        let record = match StringRecord::from_byte_record(record.clone()) {
            Ok(record) => self.rewrite.apply(record),
            Err(_) => return Err(invalid_text(record, &names()).unwrap_or_default()),
        };
        let columns = self.columns.all.len();
        if record.len() != columns {
            return Err(format!(
                "the row has {} columns, the first line has {columns}",
                record.len()
            ));
        }
        builder.add(record.iter(), now_ns)
    }

    fn next(&mut self) -> anyhow::Result<Option<ByteRecord>> {
        let record = if let Some(record) = self.sample.next() {
            Some(record)
        } else {
            let at = self.record;
            let after = || format!("the file cannot be read on after its row {}", thousands(at));
            if let Some(error) = self.broken.take() {
                return Err(error).with_context(after);
            }
            let mut record = ByteRecord::new();
            let got = self.reader.read_byte_record(&mut record);
            let got = got.with_context(after)?;
            got.then_some(record)
        };
        self.record += u64::from(record.is_some());
        Ok(record)
    }
}

/// Whether the file ends before its end.
fn is_cut(error: &anyhow::Error) -> bool {
    match error.downcast_ref().map(csv::Error::kind) {
        Some(csv::ErrorKind::Io(error)) => is_cut_off(error),
        _ => false,
    }
}

/// The first records, and what stood in the way of more.
fn first_records<R: Read>(reader: &mut csv::Reader<R>) -> (Vec<ByteRecord>, Option<csv::Error>) {
    let mut records = Vec::new();
    while records.len() < SAMPLE_ROWS {
        let mut record = ByteRecord::new();
        match reader.read_byte_record(&mut record) {
            Ok(true) => records.push(record),
            Ok(false) => break,
            Err(error) => return (records, Some(error)),
        }
    }
    (records, None)
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

/// A row as text, or why it is none.
fn text_of(record: &ByteRecord, names: &[String]) -> Result<StringRecord, String> {
    StringRecord::from_byte_record(record.clone())
        .map_err(|_| invalid_text(record, names).unwrap_or_default())
}

/// A row as a line of CSV, to be mended and imported again.
pub(in crate::import) fn line_of(record: &ByteRecord, separator: u8) -> Vec<u8> {
    let mut line = csv::WriterBuilder::new()
        .delimiter(separator)
        .from_writer(Vec::new());
    // Writing into memory does not fail.
    drop(line.write_byte_record(record));
    let mut line = line.into_inner().unwrap_or_default();
    line.truncate(line.trim_ascii_end().len());
    line
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::sync_channel;

    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn batches(text: &'static str, options: &CsvOptions, start: Start) -> Vec<Batch> {
        let file = CsvFile::open(Box::new(text.as_bytes()), options).unwrap();
        let (sender, received) = sync_channel(100);
        let keys = RefCell::default();
        let outlet = Outlet::new(Some(sender), &keys, &STOP);
        file.send(0, "t", start, &outlet).unwrap();
        drop(outlet);
        received.into_iter().collect()
    }

    /// The rows of a batch as CSV, to be compared.
    fn shown_rows(batch: &Batch) -> String {
        let Content::Rows { table, rows } = &batch.content else {
            panic!("{batch:?}");
        };
        assert_eq!(&**table, "t");
        let mut writer = arrow::csv::Writer::new(Vec::new());
        writer.write(rows).unwrap();
        String::from_utf8(writer.into_inner()).unwrap()
    }

    #[test]
    fn rows_get_their_types_and_bad_ones_are_named_by_their_line() {
        let text = "when,host,v,s,n,ok\n2024-05-01T12:00:00Z,a b,1.5,\"x \"\"y\"\"\nz\",3,true\nnever,a b,1,,,\n2024-05-01T12:00:01Z,a b,,,,\n2024-05-01T12:00:02Z,,2\n2024-05-01T12:00:03Z,,2,\\N,-7,false\n2024-05-01T12:00:04Z,c,NaN,,1.5,\n2024-05-01T12:00:04Z,c,inf,,,\n";
        let options = CsvOptions {
            wishes: ColumnWishes {
                tags: Some(vec!["host".to_owned()]),
                time: Some("when".to_owned()),
                time_format: Some(crate::import::times::TimeFormat::Iso),
                types: vec![("n".to_owned(), FieldType::Integer)],
                ..ColumnWishes::default()
            },
            ..CsvOptions::default()
        };
        let batches = batches(text, &options, Start::default());
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        let want = "time,host,v,s,n,ok\n2024-05-01T12:00:00,a b,1.5,\"x \"\"y\"\"\nz\",3,true\n2024-05-01T12:00:01,a b,,,,\n2024-05-01T12:00:03,,2.0,,-7,false\n2024-05-01T12:00:04,c,inf,,,\n";
        assert_eq!(shown_rows(batch), want);
        let rejected: Vec<(u64, &str)> = batch
            .rejected
            .iter()
            .map(|reject| (reject.line, reject.reason.as_str()))
            .collect();
        assert_eq!(
            rejected,
            [
                (4, "\"never\" is no time (RFC 3339, UTC without a zone)"),
                (6, "the row has 3 columns, the first line has 6"),
                (
                    8,
                    "column \"n\" has \"1.5\", which is not of its type integer; if the type is wrong, give --type n=text or another"
                ),
            ]
        );
        assert_eq!((batch.begin, batch.end, batch.rows), (0, 7, 4));
    }

    /// `1e400` was imported as an infinity, with status 0, where line protocol refuses it.
    #[test]
    fn a_number_beyond_every_float_is_a_rejected_row_and_inf_is_a_value() {
        let text = "time,x\n2024-01-01,1e400\n2024-01-02,2.5\n2024-01-03,inf\n2024-01-04,-1e999\n2024-01-05,NaN\n2024-01-06,-Infinity\n";
        let batches = batches(text, &CsvOptions::default(), Start::default());
        let want = "time,x\n2024-01-02T00:00:00,2.5\n2024-01-03T00:00:00,inf\n2024-01-05T00:00:00,NaN\n2024-01-06T00:00:00,-inf\n";
        assert_eq!(shown_rows(&batches[0]), want);
        let rejected = batches[0].rejected.iter();
        let rejected: Vec<(u64, bool)> = rejected
            .map(|it| (it.line, it.reason.contains("beyond the greatest float")))
            .collect();
        assert_eq!(rejected, [(2, true), (5, true)]);
    }

    #[test]
    fn an_import_that_goes_on_leaves_out_what_it_has() {
        let text = "time;v\n1700000000;1\n1700000001;2\n1700000002;3\n";
        let start = Start { at: 2, line: 0 };
        let batches = batches(text, &CsvOptions::default(), start);
        assert_eq!(batches.len(), 1);
        assert_eq!(shown_rows(&batches[0]), "time,v\n2023-11-14T22:13:22,3\n");
        assert_eq!((batches[0].begin, batches[0].end), (2, 3));
    }

    #[test]
    fn a_column_called_time_that_is_not_the_time_is_refused() {
        let options = CsvOptions {
            wishes: ColumnWishes {
                time: Some("when".to_owned()),
                ..ColumnWishes::default()
            },
            ..CsvOptions::default()
        };
        let text = "when,time,v\n2024-05-01,5,1\n";
        let Err(error) = CsvFile::open(Box::new(text.as_bytes()), &options) else {
            panic!("it was taken");
        };
        assert!(error.to_string().contains("--columns"), "{error}");
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
