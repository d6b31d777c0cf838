//! Rows that a COPY brings, chunk by chunk.
//!
//! Does: find records in chunks that end anywhere, read their values into columns, say line and column of what is wrong. Does
//! not: store them; until all have come nothing is.

use std::borrow::Cow;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::{Bytes, BytesMut};

use super::binary::{self, Tuple};
use super::format::CopyFormat;
use super::target::{Target, shown};
use crate::sqlstate::{BAD_COPY, Refused};
use crate::values::kind::Kind;
use crate::values::moment::Zone;

/// The values of one record, `None` = NULL.
pub(super) type Record<'a> = Vec<Option<Cow<'a, [u8]>>>;

/// A format of lines.
pub(super) trait Records {
    /// The next record without its end, and the bytes that it takes; `None` = it has not come whole.
    fn cut<'a>(&self, bytes: &'a [u8], is_last: bool) -> Option<(&'a [u8], usize)>;
    /// Its values.
    fn values<'a>(&self, line: &'a [u8], record: &mut Record<'a>) -> Result<(), &'static str>;
    /// Whether it says that there is no further one.
    fn is_end(&self, line: &[u8]) -> bool;
    /// Whether the first record names the columns.
    fn has_header(&self) -> bool;
}

/// A column to be filled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filled {
    pub(crate) name: String,
    pub(crate) kind: DataType,
    /// The type that SQL has for it, if another is stored.
    pub(crate) declared: Option<Kind>,
    pub(crate) is_nullable: bool,
}

/// What has come of a COPY.
#[derive(Debug)]
pub(crate) struct RowsIn {
    table: String,
    format: CopyFormat,
    columns: Vec<Target>,
    /// Of the last record that is not whole.
    pending: BytesMut,
    /// Records so far, a header included.
    lines: u64,
    rows: usize,
    /// Rows that were taken away as parts.
    taken: usize,
    texts: usize,
    has_begun: bool,
    has_ended: bool,
}

impl RowsIn {
    pub(crate) fn new(table: &str, columns: &[Filled], format: CopyFormat, zone: Zone) -> Self {
        let columns = columns
            .iter()
            .map(|of| Target::new(&of.name, &of.kind, of.declared, of.is_nullable, zone));
        Self {
            table: table.to_owned(),
            format,
            columns: columns.collect(),
            pending: BytesMut::new(),
            lines: 0,
            rows: 0,
            taken: 0,
            texts: 0,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Whether a column is among those that it fills.
    pub(crate) fn fills(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// Rows that it holds.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// All rows, with those that were taken away.
    pub(crate) fn all_rows(&self) -> usize {
        self.taken + self.rows
    }

    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        let row: usize = self.columns.iter().map(Target::value_bytes).sum();
        self.rows * row + self.texts + self.pending.len()
    }

    /// Reads a chunk.
    pub(crate) fn feed(&mut self, chunk: Bytes) -> Result<(), Refused> {
        if self.has_ended {
            return Ok(());
        }
        let bytes = if self.pending.is_empty() {
            chunk
        } else {
            self.pending.extend_from_slice(&chunk);
            std::mem::take(&mut self.pending).freeze()
        };
        let read = self.read(&bytes, false)?;
        if !self.has_ended {
            self.pending
                .extend_from_slice(bytes.get(read..).unwrap_or_default());
        }
        Ok(())
    }

    /// Reads what was left, and gives all rows.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, Refused> {
        let rest = std::mem::take(&mut self.pending).freeze();
        if !self.has_ended {
            let read = self.read(&rest, true)?;
            if read < rest.len() || (self.format == CopyFormat::Binary && !self.has_begun) {
                return Err(self.at_row(Refused::new(BAD_COPY, "unexpected EOF in COPY data")));
            }
        }
        self.take()
    }

    /// Takes the rows away that have come whole.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, Refused> {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Target::finish).collect();
        let fields = self.columns.iter().zip(&arrays);
        let fields =
            fields.map(|(of, array)| Field::new(&of.name, array.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.taken += std::mem::take(&mut self.rows);
        self.texts = 0;
        RecordBatch::try_new_with_options(schema.into(), arrays, &options)
            .map_err(|error| Refused::new("XX000", error.to_string()))
    }

    /// Reads the records that are whole. Returns their bytes.
    fn read(&mut self, bytes: &[u8], is_last: bool) -> Result<usize, Refused> {
        match self.format.clone() {
            CopyFormat::Text(format) => self.lines(&format, bytes, is_last),
            CopyFormat::Csv(format) => self.lines(&format, bytes, is_last),
            CopyFormat::Binary => self.tuples(bytes),
        }
    }

    fn lines(
        &mut self,
        format: &impl Records,
        bytes: &[u8],
        is_last: bool,
    ) -> Result<usize, Refused> {
        let mut read = 0;
        let mut record = Record::new();
        while let Some((line, length)) = format.cut(bytes.get(read..).unwrap_or_default(), is_last)
        {
            read += length;
            self.lines += 1;
            if self.lines == 1 && format.has_header() {
                continue;
            }
            if format.is_end(line) {
                self.has_ended = true;
                return Ok(read);
            }
            record.clear();
            if let Err(why) = format.values(line, &mut record) {
                return Err(self.at_line(Refused::new(BAD_COPY, why), line));
            }
            self.row(&record)
                .map_err(|(column, refused)| match column {
                    Some(column) => self.at_column(refused, column, record.get(column)),
                    None => self.at_line(refused, line),
                })?;
        }
        Ok(read)
    }

    /// Adds a row; an error says of which column.
    fn row(&mut self, record: &Record<'_>) -> Result<(), (Option<usize>, Refused)> {
        if record.len() > self.columns.len() {
            let refused = Refused::new(BAD_COPY, "extra data after last expected column");
            return Err((None, refused));
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let Some(value) = record.get(at) else {
                let refused = Refused::new(
                    BAD_COPY,
                    format!("missing data for column \"{}\"", column.name),
                );
                return Err((None, refused));
            };
            column
                .text(value.as_deref())
                .map_err(|refused| (Some(at), refused))?;
            if column.is_text() {
                self.texts += value.as_ref().map_or(0, |value| value.len());
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn tuples(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let mut read = 0;
        if !self.has_begun {
            let Some(length) = binary::header(bytes)? else {
                return Ok(0);
            };
            self.has_begun = true;
            read = length;
        }
        let mut values = Vec::with_capacity(self.columns.len());
        loop {
            let at = self.lines + 1;
            let rest = bytes.get(read..).unwrap_or_default();
            match binary::tuple(rest, self.columns.len(), &mut values) {
                Ok(Tuple::Cut) => return Ok(read),
                Ok(Tuple::End) => {
                    self.has_ended = true;
                    return Ok(read + 2);
                }
                Ok(Tuple::Row(length)) => {
                    self.lines = at;
                    for (nth, (column, value)) in self.columns.iter_mut().zip(&values).enumerate() {
                        if column.is_text() {
                            self.texts += value.map_or(0, <[u8]>::len);
                        }
                        if let Err(refused) = column.binary(*value) {
                            return Err(self.at_column(refused, nth, None));
                        }
                    }
                    self.rows += 1;
                    read += length;
                }
                Err(refused) => {
                    self.lines = at;
                    return Err(self.at_row(refused));
                }
            }
        }
    }

    /// What is wrong with a row of what was taken last, in its place; `from` = rows before those in which it is counted.
    pub(crate) fn at_stored(&self, mut refused: Refused, from: usize) -> Refused {
        if let Some(about) = refused.about.as_deref() {
            let header = u64::from(match &self.format {
                CopyFormat::Text(format) => format.has_header(),
                CopyFormat::Csv(format) => format.has_header(),
                CopyFormat::Binary => false,
            });
            let column = match &about.column {
                Some(column) => format!(", column {column}"),
                None => String::new(),
            };
            refused.place = Some(format!(
                "COPY {}, line {}{column}",
                self.table,
                (from + about.row) as u64 + header
            ));
        }
        refused
    }

    fn at_row(&self, mut refused: Refused) -> Refused {
        refused.place = Some(format!("COPY {}, line {}", self.table, self.lines));
        refused
    }

    fn at_line(&self, mut refused: Refused, line: &[u8]) -> Refused {
        refused.place = Some(format!(
            "COPY {}, line {}: \"{}\"",
            self.table,
            self.lines,
            shown(line)
        ));
        refused
    }

    fn at_column(
        &self,
        mut refused: Refused,
        column: usize,
        value: Option<&Option<Cow<'_, [u8]>>>,
    ) -> Refused {
        let name = self.columns.get(column).map_or("", |of| of.name.as_str());
        let value = match value {
            Some(Some(value)) => format!(": \"{}\"", shown(value)),
            Some(None) => ": null input".to_owned(),
            None => String::new(),
        };
        refused.place = Some(format!(
            "COPY {}, line {}, column {name}{value}",
            self.table, self.lines
        ));
        refused
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;
    use bytes::BufMut;
    use proptest::prelude::*;

    use super::super::format::{CsvFormat, SIGNATURE, TextFormat};
    use super::*;

    fn columns() -> Vec<Filled> {
        let column = |name: &str, kind, is_nullable| Filled {
            name: name.to_owned(),
            kind,
            declared: None,
            is_nullable,
        };
        let time = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some("UTC".into()));
        let tag = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        vec![
            column("time", time, false),
            column("host", tag, true),
            column("v", DataType::Float64, true),
            column("note", DataType::Utf8, true),
        ]
    }

    fn csv() -> CopyFormat {
        CopyFormat::Csv(CsvFormat {
            delimiter: b',',
            null: String::new(),
            quote: b'"',
            escape: b'"',
            has_header: true,
        })
    }

    /// Reads bytes in chunks of a size.
    fn read(bytes: &[u8], format: CopyFormat, size: usize) -> Result<Vec<Vec<String>>, Refused> {
        let mut rows = RowsIn::new("t", &columns(), format, Zone::Utc);
        for chunk in bytes.chunks(size) {
            rows.feed(Bytes::copy_from_slice(chunk))?;
        }
        let batch = rows.finish()?;
        assert_eq!(batch.num_rows(), rows.all_rows());
        let shown = (0..batch.num_rows()).map(|row| {
            let values = batch.columns().iter();
            values
                .map(|column| {
                    if column.is_null(row) {
                        "NULL".to_owned()
                    } else {
                        array_value_to_string(column, row).unwrap()
                    }
                })
                .collect()
        });
        Ok(shown.collect())
    }

    const TEXT: &[u8] = b"2024-05-01 00:00:00+00\ta\t1.5\tline\\none\\ttab\\\\\n2024-05-01T00:00:00.000000001Z\t\\N\tNaN\t\\N\r\n1970-01-01\tb\t-0\tx\\\ny\n";
    const CSV: &[u8] = b"time,host,v,note\n2024-05-01 00:00:00Z,a,1.5,\"line\none, \"\"two\"\"\"\r\n2024-05-01,,,\"\"\n";

    #[test]
    fn rows_are_the_same_wherever_chunks_end() {
        for size in 1..TEXT.len() {
            let rows = read(TEXT, CopyFormat::default(), size).unwrap();
            assert_eq!(
                rows[0],
                ["2024-05-01T00:00:00Z", "a", "1.5", "line\none\ttab\\"]
            );
            assert_eq!(
                rows[1],
                ["2024-05-01T00:00:00.000000001Z", "NULL", "NaN", "NULL"]
            );
            assert_eq!(rows[2], ["1970-01-01T00:00:00Z", "b", "-0.0", "x\ny"]);
            assert_eq!(rows.len(), 3);
        }
        for size in 1..CSV.len() {
            let rows = read(CSV, csv(), size).unwrap();
            assert_eq!(
                rows[0],
                ["2024-05-01T00:00:00Z", "a", "1.5", "line\none, \"two\""]
            );
            assert_eq!(rows[1], ["2024-05-01T00:00:00Z", "NULL", "NULL", ""]);
            assert_eq!(rows.len(), 2);
        }
    }

    fn binary() -> Vec<u8> {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(SIGNATURE);
        bytes.put_i64(0);
        for host in [Some(&b"a"[..]), None] {
            bytes.put_i16(4);
            bytes.put_i32(8);
            bytes.put_i64(1);
            match host {
                Some(host) => {
                    bytes.put_i32(1);
                    bytes.extend_from_slice(host);
                }
                None => bytes.put_i32(-1),
            }
            bytes.put_i32(8);
            bytes.put_f64(2.5);
            bytes.put_i32(2);
            bytes.extend_from_slice(b"no");
        }
        bytes.put_i16(-1);
        bytes.to_vec()
    }

    #[test]
    fn parts_that_are_taken_are_the_rows_in_their_order_and_count_on() {
        for size in 1..TEXT.len() {
            let mut rows = RowsIn::new("t", &columns(), CopyFormat::default(), Zone::Utc);
            let mut notes = Vec::new();
            let mut note = |batch: RecordBatch| {
                let values = (0..batch.num_rows())
                    .map(|row| array_value_to_string(batch.column(1), row).unwrap());
                notes.extend(values);
            };
            for chunk in TEXT.chunks(size) {
                rows.feed(Bytes::copy_from_slice(chunk)).unwrap();
                note(rows.take().unwrap());
            }
            let before = rows.all_rows();
            note(rows.finish().unwrap());
            assert!(rows.rows() == 0 && before <= 3);
            assert_eq!(rows.all_rows(), 3);
            assert_eq!(notes, ["a", "", "b"], "chunks of {size}");
        }
    }

    #[test]
    fn binary_rows_are_read_and_a_cut_end_is_told() {
        let bytes = binary();
        for size in 1..bytes.len() {
            let rows = read(&bytes, CopyFormat::Binary, size).unwrap();
            assert_eq!(rows[0], ["2000-01-01T00:00:00.000001Z", "a", "2.5", "no"]);
            assert_eq!(rows[1][1], "NULL");
        }
        // Some clients leave the end out (pgx): a whole row may be the last.
        let whole = [19, 56];
        for cut in (0..bytes.len() - 2).filter(|cut| !whole.contains(cut)) {
            let error = read(&bytes[..cut], CopyFormat::Binary, 1000).unwrap_err();
            assert_eq!(error.code, "22P04", "cut at {cut}");
        }
        let error = read(b"PGCOPX\n\xff\r\n\0", CopyFormat::Binary, 100).unwrap_err();
        assert!(error.message.contains("signature"), "{error:?}");
    }

    #[test]
    fn what_is_wrong_has_its_line_and_column() {
        let line = |line: &str| format!("2024-05-01\ta\t1\tx\n{line}\n").into_bytes();
        for (text, code, place) in [
            (
                "2024-05-01\ta\tmuch\tx",
                "22P02",
                "COPY t, line 2, column v: \"much\"",
            ),
            (
                "2024-13-01\ta\t1\tx",
                "22008",
                "COPY t, line 2, column time: \"2024-13-01\"",
            ),
            (
                "soon\ta\t1\tx",
                "22007",
                "COPY t, line 2, column time: \"soon\"",
            ),
            (
                "\\N\ta\t1\tx",
                "23502",
                "COPY t, line 2, column time: null input",
            ),
            (
                "2024-05-01\ta\t1",
                "22P04",
                "COPY t, line 2: \"2024-05-01\ta\t1\"",
            ),
            (
                "2024-05-01\ta\t1\tx\ty",
                "22P04",
                "COPY t, line 2: \"2024-05-01\ta\t1\tx\ty\"",
            ),
        ] {
            let error = read(&line(text), CopyFormat::default(), 7).unwrap_err();
            assert_eq!(
                (error.code, error.place.as_deref()),
                (code, Some(place)),
                "{text}"
            );
        }
        let error = read(b"time,host,v,note\n2024-05-01,\"a", csv(), 100).unwrap_err();
        assert!(error.message.contains("unterminated"), "{error:?}");
        let ended = read(b"\\.\nnothing of this\n", CopyFormat::default(), 3).unwrap();
        assert!(ended.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1usize..50) {
            for format in [CopyFormat::default(), csv(), CopyFormat::Binary] {
                let _ = read(&bytes, format, size);
            }
            let mut binary = binary();
            binary.truncate(19);
            binary.extend(bytes);
            let _ = read(&binary, CopyFormat::Binary, size);
        }

        /// What one COPY writes another reads.
        #[test]
        fn texts_that_were_written_are_read_again(text in "\\PC{0,20}", other in "[a\\\\\"',\t\n\r.N]{0,8}") {
            use arrow::array::StringArray;
            use crate::values::column::Column;
            use crate::values::kind::{Format, Kind};
            use super::super::format::CopyWriter;
            for format in [
                CopyFormat::Text(TextFormat { delimiter: b'\t', null: "\\N".to_owned(), has_header: false }),
                CopyFormat::Csv(CsvFormat { delimiter: b',', null: String::new(), quote: b'"', escape: b'"', has_header: false }),
            ] {
                let array: ArrayRef = std::sync::Arc::new(StringArray::from(vec![Some(text.as_str()), Some(other.as_str()), None]));
                let column = Column::new(&array, Kind::TEXT, Format::Text, Zone::Utc).unwrap();
                let writer = CopyWriter::new(format.clone());
                let mut rows = RowsIn::new("t", &[Filled { name: "x".to_owned(), kind: DataType::Utf8, declared: None, is_nullable: true }], format, Zone::Utc);
                for row in 0..3 {
                    let mut out = BytesMut::new();
                    writer.row(std::slice::from_ref(&column), row, &mut out).unwrap();
                    rows.feed(out.split_off(5).freeze()).unwrap();
                }
                let batch = rows.finish().unwrap();
                prop_assert_eq!(batch.column(0).as_ref(), array.as_ref());
            }
        }
    }
}
