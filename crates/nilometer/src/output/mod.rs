//! Rows of an answer as bytes, in every format of the program.
//!
//! Does: write batch by batch, so that memory stays flat however many rows come. Does not: choose where the bytes go
//! ([`destination`] does), or ask for rows.

pub(crate) mod destination;
mod parquet;
pub(crate) mod table;

use std::io::Write;

use anyhow::Context;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::csv::WriterBuilder as CsvBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, WriterBuilder as JsonBuilder};
use arrow_ipc::writer::StreamWriter;
use clap::ValueEnum;

use crate::source::Answer;

pub(crate) use self::parquet::Compression;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people.
    #[value(alias = "pretty")]
    Table,
    /// A header line, then a line a row.
    Csv,
    /// An array of objects.
    Json,
    /// An object a line.
    Jsonl,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
    /// A table for Markdown.
    Markdown,
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
        }
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

    fn file_of(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }
}
