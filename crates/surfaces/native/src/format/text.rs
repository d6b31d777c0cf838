//! Answers as text: columnar loops that append to a buffer, batch by batch.
//!
//! Next: `cells.rs` for the types that most answers are made of; Arrow's encoders write batches that have others.

mod cells;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, DurationSecondType, Field, Schema,
    SchemaRef, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, make_encoder};
use arrow::util::pretty::pretty_format_batches_with_schema;
use axum::http::StatusCode;

use self::cells::{Before, Dialect, Kept, Table};
use super::{Format, cannot};
use nilometer_http::ErrorResponse;

/// Writes one answer.
pub(crate) struct Text {
    how: Arc<How>,
    rows: usize,
    pretty_rows_max: usize,
    /// Kept for [`Format::Pretty`], whose columns are as wide as their widest value.
    batches: Vec<RecordBatch>,
}

/// What all batches of an answer are written with, on whichever thread.
#[derive(Debug)]
struct How {
    format: Format,
    schema: SchemaRef,
    /// The time zone that times are shown in; `None` = in UTC, as they come.
    zone: Option<Arc<str>>,
    /// What stands before each column of a row.
    before: Vec<Before>,
    kept: Mutex<Kept>,
}

/// A batch that is to be written, by anybody.
#[derive(Debug)]
pub(crate) struct Piece {
    how: Arc<How>,
    batch: RecordBatch,
    rows_before: usize,
}

impl Piece {
    pub(crate) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        self.how.write(&self.batch, self.rows_before, out)
    }
}

impl Text {
    pub(crate) fn new(
        format: Format,
        schema: SchemaRef,
        pretty_rows_max: usize,
        zone: Option<&str>,
    ) -> Self {
        let zone = zone.map(Arc::from);
        Self {
            how: Arc::new(How {
                before: before(format, &schema),
                kept: Mutex::default(),
                format,
                schema: match &zone {
                    Some(zone) => shown_schema(&schema, zone),
                    None => schema,
                },
                zone,
            }),
            rows: 0,
            pretty_rows_max,
            batches: Vec::new(),
        }
    }

    /// The rows of a batch, to be written after those before them; `None` = they are written with others only.
    pub(crate) fn piece(&mut self, batch: &RecordBatch) -> Option<Piece> {
        if self.how.format == Format::Pretty {
            return None;
        }
        let rows_before = self.rows;
        self.rows += batch.num_rows();
        Some(Piece {
            how: Arc::clone(&self.how),
            batch: batch.clone(),
            rows_before,
        })
    }

    /// Appends the rows of a batch to `out`.
    pub(crate) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorResponse> {
        if self.how.format == Format::Pretty {
            if self.rows + batch.num_rows() > self.pretty_rows_max {
                let limit = self.pretty_rows_max;
                let what = format!(
                    "the format pretty is for at most {limit} rows; use LIMIT, or format=csv"
                );
                return Err(ErrorResponse::limit(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    what,
                    "answer-pretty-rows-max",
                ));
            }
            self.batches.push(self.how.shown(batch)?);
        } else {
            self.how.write(batch, self.rows, out)?;
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Appends what comes after the last row.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<(), ErrorResponse> {
        let schema = &self.how.schema;
        match self.how.format {
            Format::Json => out.extend_from_slice(if self.rows == 0 { b"[]\n" } else { b"]\n" }),
            Format::Csv if self.rows == 0 => {
                let nothing = RecordBatch::new_empty(SchemaRef::clone(schema));
                write_csv(&nothing, true, out).map_err(|error| cannot(&error))?;
            }
            Format::JsonLines | Format::Csv | Format::Arrow | Format::Parquet => {}
            Format::Pretty => {
                let schema = SchemaRef::clone(schema);
                let table = pretty_format_batches_with_schema(schema, &self.batches)
                    .map_err(|error| cannot(&error))?;
                out.extend_from_slice(table.to_string().as_bytes());
                out.push(b'\n');
            }
        }
        Ok(())
    }
}

impl How {
    /// A batch with its times as they are shown.
    fn shown(&self, batch: &RecordBatch) -> Result<RecordBatch, ErrorResponse> {
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            check_times(field.name(), column)?;
        }
        match &self.zone {
            Some(zone) => shown_batch(batch, zone).map_err(|error| cannot(&error)),
            None => Ok(batch.clone()),
        }
    }

    fn write(
        &self,
        batch: &RecordBatch,
        rows_before: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorResponse> {
        let batch = self.shown(batch)?;
        let written = match self.format {
            Format::Json | Format::JsonLines => self.json(&batch, rows_before, out),
            Format::Csv => self.csv(&batch, rows_before, out),
            Format::Pretty | Format::Arrow | Format::Parquet => Ok(()),
        };
        written.map_err(|error| cannot(&error))
    }

    /// The cells of a batch, with what is kept of those before.
    fn table<'a>(&self, batch: &'a RecordBatch, dialect: Dialect) -> Option<Table<'a>> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = lock().clone();
        let table = Table::of(batch, dialect, &mut kept);
        *lock() = kept;
        table
    }

    fn json(
        &self,
        batch: &RecordBatch,
        rows_before: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        let is_lines = self.format == Format::JsonLines;
        let begin = |row: usize, out: &mut Vec<u8>| match rows_before + row {
            _ if is_lines => {}
            0 => out.push(b'['),
            _ => out.extend_from_slice(b",\n"),
        };
        let end = |out: &mut Vec<u8>| {
            if is_lines {
                out.push(b'\n');
            }
        };
        if let Some(mut table) = self.table(batch, Dialect::Json) {
            for row in 0..batch.num_rows() {
                begin(row, out);
                table.row(row, &self.before, out);
                out.push(b'}');
                end(out);
            }
            return Ok(());
        }
        let options = EncoderOptions::default().with_explicit_nulls(true);
        let rows = StructArray::from(batch.clone());
        let field = Field::new_struct("row", batch.schema().fields().clone(), false).into();
        let mut encoder = make_encoder(&field, &rows, &options)?;
        for row in 0..batch.num_rows() {
            begin(row, out);
            encoder.encode(row, out);
            end(out);
        }
        Ok(())
    }

    fn csv(
        &self,
        batch: &RecordBatch,
        rows_before: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        // The names come with the first row, or at the end where there is none: an empty batch has neither.
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Some(mut table) = self.table(batch, Dialect::Csv) else {
            return write_csv(batch, rows_before == 0, out);
        };
        if rows_before == 0 {
            write_csv(&RecordBatch::new_empty(batch.schema()), true, out)?;
        }
        for row in 0..batch.num_rows() {
            let begin = out.len();
            table.row(row, &self.before, out);
            // A line of nothing would be no row.
            if out.len() == begin {
                out.extend_from_slice(b"\"\"");
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

/// What stands before each column of a row: the names of JSON, escaped once, and the commas of CSV.
fn before(format: Format, schema: &Schema) -> Vec<Before> {
    let names = schema.fields().iter().map(|field| field.name());
    let before = names.enumerate().map(|(place, name)| {
        let mut before = Vec::new();
        if matches!(format, Format::Json | Format::JsonLines) {
            before.push(if place == 0 { b'{' } else { b',' });
            cells::text(name, Dialect::Json, &mut before);
            before.push(b':');
        } else if place > 0 {
            before.push(b',');
        }
        Before::new(before)
    });
    before.collect()
}

/// The type of a column as it is shown: times that say when they are, in a zone.
fn shown_type(kind: &DataType, zone: &Arc<str>) -> Option<DataType> {
    match kind {
        DataType::Timestamp(unit, Some(_)) => Some(DataType::Timestamp(*unit, Some(zone.clone()))),
        _ => None,
    }
}

fn shown_schema(schema: &Schema, zone: &Arc<str>) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let field = field.as_ref().clone();
        match shown_type(field.data_type(), zone) {
            Some(kind) => field.with_data_type(kind),
            None => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn shown_batch(batch: &RecordBatch, zone: &Arc<str>) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| match shown_type(column.data_type(), zone) {
            Some(kind) => arrow::compute::cast(column, &kind),
            None => Ok(ArrayRef::clone(column)),
        });
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(
        shown_schema(&batch.schema(), zone),
        columns.collect::<Result<_, _>>()?,
        &rows,
    )
}

/// Seconds in a day.
const DAY_S: i64 = 86_400;

/// Seconds that are still a number of milliseconds, in which durations are written.
const DURATION_S_MAX: i64 = i64::MAX / 1000;

/// Years that text has, with four digits and after the year 0: -1 and 10000 are written in ways that no reader takes.
const SHOWN_S: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// Refuses times that have no text: what would stand there is no JSON, or no time.
fn check_times(name: &str, column: &ArrayRef) -> Result<(), ErrorResponse> {
    let seconds = match column.data_type() {
        // Every number of nanoseconds is a time, and most columns have none.
        DataType::Timestamp(TimeUnit::Second, _) => {
            beyond(column.as_primitive::<TimestampSecondType>(), Some)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            beyond(column.as_primitive::<TimestampMillisecondType>(), |ms| {
                Some(ms.div_euclid(1000))
            })
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            beyond(column.as_primitive::<TimestampMicrosecondType>(), |us| {
                Some(us.div_euclid(1_000_000))
            })
        }
        DataType::Date32 => beyond(column.as_primitive::<Date32Type>(), |days| {
            i64::from(days).checked_mul(DAY_S)
        }),
        DataType::Date64 => beyond(column.as_primitive::<Date64Type>(), |ms| {
            Some(ms.div_euclid(1000))
        }),
        DataType::Time32(TimeUnit::Second) => {
            outside(column.as_primitive::<Time32SecondType>(), 0..=DAY_S - 1)
        }
        DataType::Time32(_) => outside(
            column.as_primitive::<Time32MillisecondType>(),
            0..=DAY_S * 1000 - 1,
        ),
        DataType::Time64(TimeUnit::Microsecond) => outside(
            column.as_primitive::<Time64MicrosecondType>(),
            0..=DAY_S * 1_000_000 - 1,
        ),
        DataType::Time64(_) => outside(
            column.as_primitive::<Time64NanosecondType>(),
            0..=DAY_S * 1_000_000_000 - 1,
        ),
        DataType::Duration(TimeUnit::Second) => outside(
            column.as_primitive::<DurationSecondType>(),
            -DURATION_S_MAX..=DURATION_S_MAX,
        ),
        DataType::List(_) => return check_times(name, column.as_list::<i32>().values()),
        DataType::LargeList(_) => return check_times(name, column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => {
            return check_times(name, column.as_fixed_size_list().values());
        }
        DataType::Dictionary(..) => {
            return check_times(name, column.as_any_dictionary().values());
        }
        DataType::Struct(_) => {
            let mut parts = column.as_struct().columns().iter();
            return parts.try_for_each(|part| check_times(name, part));
        }
        DataType::Map(..) => {
            let mut parts = column.as_map().entries().columns().iter();
            return parts.try_for_each(|part| check_times(name, part));
        }
        _ => return Ok(()),
    };
    match seconds {
        None => Ok(()),
        Some(number) => Err(ErrorResponse::bad_request(format!(
            "the column \"{name}\" has a time that no text has: {number} as {} is outside of the years 0000 to 9999, or of the hours of a day; look at the unit of what was converted",
            column.data_type()
        ))),
    }
}

/// The first value that is outside of the years that text has.
fn beyond<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    seconds: impl Fn(T::Native) -> Option<i64>,
) -> Option<String> {
    let is_beyond = |value: &T::Native| {
        let seconds = seconds(*value);
        !seconds.is_some_and(|seconds| SHOWN_S.contains(&seconds))
    };
    let found = values.iter().flatten().find(is_beyond);
    found.map(|value| format!("{value:?}"))
}

/// The first value that is not in a range.
fn outside<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    range: std::ops::RangeInclusive<i64>,
) -> Option<String>
where
    T::Native: Into<i64>,
{
    let mut values = values.iter().flatten();
    let found = values.find(|value| !range.contains(&(*value).into()));
    found.map(|value| format!("{value:?}"))
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
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
}
