//! Rows of an answer as bytes, in every format of the program.
//!
//! Does: write batch by batch, so that memory stays flat however many rows come. Does not: choose where the bytes go
//! ([`destination`] does), or ask for rows.

pub(crate) mod destination;
mod expanded;
pub(crate) mod pager;
mod parquet;
pub(crate) mod table;
pub(crate) mod zone;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::csv::WriterBuilder as CsvBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, WriterBuilder as JsonBuilder};
use arrow_ipc::writer::StreamWriter;
use clap::ValueEnum;

use crate::source::Answer;

pub(crate) use self::parquet::{Compression, digest};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people.
    #[value(alias = "pretty")]
    Table,
    /// A header line, then one line per row.
    Csv,
    /// An array of objects.
    Json,
    /// One object per line.
    Jsonl,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
    /// A Markdown table.
    Markdown,
    /// One line per value, for rows wider than the terminal.
    Expanded,
}

impl Format {
    /// Whether a terminal would show it as garbage.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Markdown => "markdown",
            Self::Expanded => "expanded",
        }
    }

    /// Whether it is for people, who want to read what a statement did instead of a table of it.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Expanded)
    }

    /// The format that the ending of a file's name says.
    pub(crate) fn of_file(path: &Path) -> anyhow::Result<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        Ok(match ending.as_str() {
            "parquet" => Self::Parquet,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::Jsonl,
            "arrow" | "arrows" => Self::Arrow,
            "md" => Self::Markdown,
            "txt" => Self::Table,
            "lp" => bail!(
                "{}: `nilometer export` writes line protocol; for other formats use the ending .parquet, .csv, .json, .jsonl, .arrow, .md or .txt",
                path.display()
            ),
            _ => bail!(
                "the name {} does not say in which format to write; use the ending .parquet, .csv, .json, .jsonl, .arrow, .md or .txt",
                path.display()
            ),
        })
    }
}

/// Writes an answer to its end; tells how many rows it has had so far.
pub(crate) fn write(
    answer: Answer<'_>,
    format: Format,
    compression: Compression,
    out: &mut (dyn Write + Send),
    on_rows: &mut dyn FnMut(u64),
) -> anyhow::Result<u64> {
    let mut watched = Watched {
        out,
        is_closed: false,
    };
    let written = write_rows(answer, format, compression, &mut watched, on_rows);
    // Writers of formats turn errors into texts of their own, and an error is what a closed pipe is not.
    match written {
        Err(_) if watched.is_closed => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        written => written,
    }
}

/// Where rows go, and whether whoever read them there has gone.
struct Watched<'a> {
    out: &'a mut (dyn Write + Send),
    is_closed: bool,
}

impl Watched<'_> {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done {
            self.is_closed |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        done
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.noted(done)
    }
}

fn write_rows(
    answer: Answer<'_>,
    format: Format,
    compression: Compression,
    out: &mut (dyn Write + Send),
    on_rows: &mut dyn FnMut(u64),
) -> anyhow::Result<u64> {
    let mut rows = 0;
    let schema = answer.schema();
    let counted = answer.map(|batch| {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        on_rows(rows);
        Ok(batch)
    });
    let mut counted: Box<Counted<'_>> = Box::new(counted);
    match format {
        Format::Table => table::write(&schema, &mut counted, &table::ALIGNED, out)?,
        Format::Markdown => table::write(&schema, &mut counted, &table::MARKDOWN, out)?,
        Format::Csv => csv(&schema, &mut counted, out)?,
        Format::Json => {
            json::<JsonArray>(&mut counted, out)?;
            out.write_all(b"\n")?;
        }
        Format::Jsonl => json::<LineDelimited>(&mut counted, out)?,
        Format::Arrow => {
            let mut writer = StreamWriter::try_new(out, &schema)?;
            for batch in counted.by_ref() {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        }
        Format::Expanded => expanded::write(&schema, &mut counted, out)?,
        Format::Parquet => parquet::write(&schema, &mut counted, compression, out)?,
    }
    drop(counted);
    Ok(rows)
}

type Counted<'a> = dyn Iterator<Item = anyhow::Result<RecordBatch>> + 'a;

fn json<F: JsonFormat>(batches: &mut Counted<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut writer = JsonBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, F>(out);
    for batch in batches {
        writer
            .write(&batch?)
            .context("the answer cannot be written as JSON; cast the column to text")?;
    }
    Ok(writer.finish()?)
}

fn csv(schema: &Schema, batches: &mut Counted<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut has_header = true;
    let nothing = RecordBatch::new_empty(schema.clone().into());
    for batch in std::iter::once(Ok(nothing)).chain(batches) {
        let batch = flat(&batch?)?;
        CsvBuilder::new()
            .with_header(std::mem::take(&mut has_header))
            .build(&mut *out)
            .write(&batch)
            .context("the answer cannot be written as CSV; cast the column to text")?;
    }
    Ok(())
}

/// CSV has no lists and structures: they become their text.
fn flat(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let column = match column.data_type() {
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Map(..) => arrow::compute::cast(column, &DataType::Utf8)?,
            _ => ArrayRef::clone(column),
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), true));
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Schema::new(fields).into(), columns, &options)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, DictionaryArray, Float64Array, TimestampNanosecondArray};
    use arrow::datatypes::Int32Type;
    use arrow_ipc::reader::StreamReader;

    use super::*;

    fn rows() -> RecordBatch {
        let times = TimestampNanosecondArray::from(vec![0, 1_500_000_000]).with_timezone("UTC");
        let hosts: DictionaryArray<Int32Type> = vec![Some("a|b"), None].into_iter().collect();
        let values = Float64Array::from(vec![Some(1.5), Some(f64::NAN)]);
        RecordBatch::try_from_iter_with_nullable([
            ("time", Arc::new(times) as ArrayRef, false),
            ("host", Arc::new(hosts) as ArrayRef, true),
            ("v", Arc::new(values) as ArrayRef, true),
        ])
        .unwrap()
    }

    fn written(format: Format) -> Vec<u8> {
        let rows = rows();
        let batches = [rows.slice(0, 1), rows.slice(1, 1)].into_iter().map(Ok);
        let answer = Answer::new(rows.schema(), batches);
        let mut out = Vec::new();
        let mut seen = Vec::new();
        let count = write(answer, format, Compression::None, &mut out, &mut |rows| {
            seen.push(rows);
        });
        assert_eq!((count.unwrap(), seen), (2, vec![1, 2]));
        out
    }

    #[test]
    fn each_text_format_has_all_rows_once() {
        let cases = [
            (
                Format::Csv,
                "time,host,v\n1970-01-01T00:00:00Z,a|b,1.5\n1970-01-01T00:00:01.500Z,,NaN\n",
            ),
            (
                Format::Jsonl,
                "{\"time\":\"1970-01-01T00:00:00Z\",\"host\":\"a|b\",\"v\":1.5}\n{\"time\":\"1970-01-01T00:00:01.500Z\",\"host\":null,\"v\":null}\n",
            ),
            (
                Format::Json,
                "[{\"time\":\"1970-01-01T00:00:00Z\",\"host\":\"a|b\",\"v\":1.5},{\"time\":\"1970-01-01T00:00:01.500Z\",\"host\":null,\"v\":null}]\n",
            ),
            (
                Format::Markdown,
                "| time                     | host |   v |\n|--------------------------|------|----:|\n| 1970-01-01T00:00:00Z     | a\\|b | 1.5 |\n| 1970-01-01T00:00:01.500Z |      | NaN |\n",
            ),
            (
                Format::Expanded,
                "-[ RECORD 1 ]--------------\ntime | 1970-01-01T00:00:00Z\nhost | a|b\nv    | 1.5\n-[ RECORD 2 ]------------------\ntime | 1970-01-01T00:00:01.500Z\nhost | \nv    | NaN\n(2 rows)\n",
            ),
            (
                Format::Table,
                " time                     | host |   v \n--------------------------+------+-----\n 1970-01-01T00:00:00Z     | a|b  | 1.5 \n 1970-01-01T00:00:01.500Z |      | NaN \n(2 rows)\n",
            ),
        ];
        for (format, want) in cases {
            let text = String::from_utf8(written(format)).unwrap();
            assert_eq!(text, want, "{format:?}");
        }
    }

    #[test]
    fn arrow_and_parquet_are_read_back_as_the_same_values() {
        let stream = written(Format::Arrow);
        let mut read: Vec<RecordBatch> = StreamReader::try_new(&stream[..], None)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let file = file_of(&written(Format::Parquet));
        let parquet = ::parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 10);
        read.extend(parquet.unwrap().map(Result::unwrap));
        let total: usize = read.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(total, 4);
        for batch in &read {
            let hosts = arrow::compute::cast(batch.column(1), &DataType::Utf8).unwrap();
            let hosts = hosts.as_string::<i32>();
            let values = batch
                .column(2)
                .as_primitive::<arrow::datatypes::Float64Type>();
            for row in 0..batch.num_rows() {
                let value = values.value(row);
                if value.is_nan() {
                    assert!(hosts.iter().nth(row).unwrap().is_none());
                } else {
                    assert_eq!(
                        (hosts.value(row), value.to_bits()),
                        ("a|b", 1.5f64.to_bits())
                    );
                }
            }
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // `sql --format csv ... | head` said that the answer cannot be written as CSV: the writer of CSV had made a text of
    // the closed pipe.
    #[test]
    fn a_closed_pipe_is_told_as_such_by_every_format() {
        for format in Format::value_variants() {
            let rows = rows();
            let answer = Answer::new(rows.schema(), std::iter::once(Ok(rows)));
            let written = write(answer, *format, Compression::None, &mut Closed, &mut |_| {});
            let error = written.unwrap_err();
            assert!(destination::is_closed_pipe(&error), "{format:?}: {error:#}");
        }
    }

    // EXPLAIN and SHOW CREATE TABLE showed `\n` where a line ends.
    #[test]
    fn lines_of_a_cell_are_lines() {
        let texts = arrow::array::StringArray::from(vec!["one\ntwo\r\n", "x\ty"]);
        let numbers = arrow::array::Int64Array::from(vec![1, 2]);
        let rows = RecordBatch::try_from_iter([
            ("n", Arc::new(numbers) as ArrayRef),
            ("text", Arc::new(texts) as ArrayRef),
        ])
        .unwrap();
        for (format, want) in [
            (
                Format::Table,
                " n | text  \n---+-------\n 1 | one   \n   : two\\r \n 2 | x\\ty  \n(2 rows)\n",
            ),
            (
                Format::Markdown,
                "|  n | text         |\n|---:|--------------|\n|  1 | one<br>two\\r |\n|  2 | x\\ty         |\n",
            ),
            (
                Format::Expanded,
                "-[ RECORD 1 ]\nn    | 1\ntext | one\n     : two\\r\n-[ RECORD 2 ]\nn    | 2\ntext | x\\ty\n(2 rows)\n",
            ),
        ] {
            let answer = Answer::new(rows.schema(), std::iter::once(Ok(rows.clone())));
            let mut out = Vec::new();
            write(answer, format, Compression::None, &mut out, &mut |_| {}).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), want, "{format:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_says_the_format_or_is_refused_with_advice() {
        for (name, want) in [
            ("x.parquet", Format::Parquet),
            ("a/b.CSV", Format::Csv),
            ("x.json", Format::Json),
            ("x.ndjson", Format::Jsonl),
            ("x.y.arrow", Format::Arrow),
            ("x.md", Format::Markdown),
            ("x.txt", Format::Table),
        ] {
            assert_eq!(Format::of_file(Path::new(name)).unwrap(), want, "{name}");
        }
        for (name, advice) in [("x.xls", ".parquet"), ("x", ".csv"), ("x.lp", "export")] {
            let error = Format::of_file(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains(advice) && error.contains(name), "{error}");
        }
    }

    fn file_of(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }
}
