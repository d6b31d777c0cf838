//! Answers as text: columnar loops that append to a buffer, batch by batch.

use arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, make_encoder};
use arrow::util::pretty::pretty_format_batches_with_schema;
use axum::http::StatusCode;

use super::{Format, cannot};
use crate::error::Refusal;

/// Writes one answer.
pub(crate) struct Text {
    format: Format,
    schema: SchemaRef,
    rows: usize,
    pretty_rows_max: usize,
    /// Kept for [`Format::Pretty`], whose columns are as wide as their widest value.
    batches: Vec<RecordBatch>,
}

impl Text {
    pub(crate) fn new(format: Format, schema: SchemaRef, pretty_rows_max: usize) -> Self {
        Self {
            format,
            schema,
            rows: 0,
            pretty_rows_max,
            batches: Vec::new(),
        }
    }

    /// Appends the rows of a batch to `out`.
    pub(crate) fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self.format {
            Format::Json | Format::JsonLines => {
                self.json(batch, out).map_err(|error| cannot(&error))?;
            }
            Format::Csv => self.csv(batch, out).map_err(|error| cannot(&error))?,
            Format::Pretty => {
                if self.rows + batch.num_rows() > self.pretty_rows_max {
                    let limit = self.pretty_rows_max;
                    let what = format!(
                        "the format pretty is for at most {limit} rows; use LIMIT, or format=csv"
                    );
                    return Err(Refusal::limit(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        what,
                        "answer-pretty-rows-max",
                    ));
                }
                self.batches.push(batch.clone());
            }
            Format::Arrow | Format::Parquet => {}
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Appends what comes after the last row.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self.format {
            Format::Json => out.extend_from_slice(if self.rows == 0 { b"[]\n" } else { b"]\n" }),
            Format::Csv if self.rows == 0 => {
                let nothing = RecordBatch::new_empty(self.schema.clone());
                write_csv(&nothing, true, out).map_err(|error| cannot(&error))?;
            }
            Format::JsonLines | Format::Csv | Format::Arrow | Format::Parquet => {}
            Format::Pretty => {
                let table = pretty_format_batches_with_schema(self.schema, &self.batches)
                    .map_err(|error| cannot(&error))?;
                out.extend_from_slice(table.to_string().as_bytes());
                out.push(b'\n');
            }
        }
        Ok(())
    }

    fn json(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let options = EncoderOptions::default().with_explicit_nulls(true);
        let rows = StructArray::from(batch.clone());
        let field = Field::new_struct("row", batch.schema().fields().clone(), false).into();
        let mut encoder = make_encoder(&field, &rows, &options)?;
        for row in 0..batch.num_rows() {
            match self.format {
                Format::Json if self.rows + row == 0 => out.push(b'['),
                Format::Json => out.extend_from_slice(b",\n"),
                _ => {}
            }
            encoder.encode(row, out);
            if self.format == Format::JsonLines {
                out.push(b'\n');
            }
        }
        Ok(())
    }

    fn csv(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        write_csv(batch, self.rows == 0, out)
    }
}

fn write_csv(batch: &RecordBatch, has_header: bool, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let batch = flat(batch)?;
    WriterBuilder::new()
        .with_header(has_header)
        .build(out)
        .write(&batch)
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
    RecordBatch::try_new_with_options(
        Schema::new(fields).into(),
        columns,
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
}
