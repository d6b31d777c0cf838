//! Parquet files to rows, with the types that they have in the file.
//!
//! Does: say what each column becomes, convert columns to what their table has without changing a value, name rows that
//! do not fit. Does not: send anything.
//!
//! The library that reads the format panics on some damaged files. Whatever calls it here goes through [`catch_panic`].

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, TimestampNanosecondArray};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimestampNanosecondType};
use arrow::util::display::array_value_to_string;
use csv::{ByteRecord, StringRecord};
use nilometer_engine::TIME_COLUMN;
use nilometer_engine::ingest::is_likely_tag;
use nilometer_lineproto::{FIELD_TEXT_BYTES_MAX, KEY_BYTES_MAX, TIME_NS_MAX, TIME_NS_MIN};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::csv::line_of;
use crate::import::advice::advice;
use crate::import::batch::{Batch, Content, Outlet, Reject, Start};
use crate::import::columns::{Absent, Column, TIME_NAMES};
use crate::import::plan::Plan;
use crate::import::rows::{TAG_BYTES, beyond, is_beyond, too_long};
use crate::import::times::now_ns;
use crate::lines::{FieldType, Role, Wishes, roles, times_of};
use crate::output::digest;
use nilometer_service::catch_panic;

/// Rows that are read together, and that are looked at to say what is a tag.
const READ_ROWS: usize = 10_000;

/// Bytes of a batch, unless one row is larger.
const BATCH_BYTES: usize = 32 << 20;

/// A file whose footer was read.
pub(in crate::import) struct ParquetFile {
    builder: ParquetRecordBatchReaderBuilder<File>,
    /// Names in the file, and what they become.
    pub(in crate::import) columns: Vec<(String, Role)>,
}

impl ParquetFile {
    pub(in crate::import) fn open(path: &Path, wishes: &Wishes) -> anyhow::Result<Self> {
        let file = File::open(path)?;
        let builder = catch_panic(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .ok_or_else(damaged)?
            .context("it is no Parquet file, or a damaged one")?;
        let wishes = with_time(builder.schema(), wishes);
        let columns = roles(builder.schema(), &wishes)?;
        if !columns.iter().any(|(_, role)| *role == Role::Time) {
            bail!(
                "no column has the type of a time; name the one with --time COLUMN (there are {})",
                columns
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        let is_other_time =
            |(name, role): &&(String, Role)| name == TIME_COLUMN && *role != Role::Time;
        if columns.iter().find(is_other_time).is_some() {
            bail!(
                "the file has a column \"time\" that is not its time; give --time time, or rename one of the two"
            );
        }
        Ok(Self { builder, columns })
    }

    /// Compares the file with its checksum, if we wrote it, and looks at the first rows: for texts that are tags, unless the user has named them, and for what else to say.
    pub(in crate::import) fn look(
        path: &Path,
        wishes: &Wishes,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        catch_panic(|| Self::look_into(path, wishes)).ok_or_else(damaged)?
    }

    fn look_into(path: &Path, wishes: &Wishes) -> anyhow::Result<(Self, Vec<String>)> {
        let mut file = Self::open(path, wishes)?;
        let footer = file.builder.metadata().file_metadata();
        digest::verify(&mut File::open(path)?, footer.created_by())?;
        let (schema, rows) = Self::open(path, wishes)?.first_rows()?;
        // Whoever encodes some of the texts, as `export` does with tags, has told them apart already.
        let is_told = file.columns.iter().any(|(_, role)| *role == Role::Tag);
        if wishes.tags.is_none() && !is_told {
            let is_field = |(_, role): &(String, Role)| matches!(role, Role::Field(_));
            let mut fields = file.columns.iter().filter(|it| is_field(it)).count();
            for (at, (_, role)) in file.columns.iter_mut().enumerate() {
                let kind = schema.fields().get(at).map(|it| it.data_type().clone());
                let is_text = matches!(
                    kind,
                    Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
                );
                let values = rows.iter().filter_map(|row| row.get(at));
                let values = values.filter(|text| !text.is_empty());
                if is_text && matches!(role, Role::Field(_)) && fields > 1 && is_likely_tag(values)
                {
                    *role = Role::Tag;
                    fields -= 1;
                }
            }
        }
        let columns: Vec<Column> = file
            .columns
            .iter()
            .map(|(name, role)| Column {
                name: name.clone(),
                role: *role,
                example: String::new(),
            })
            .collect();
        let notes = advice(&columns, &rows, &Absent::default());
        Ok((file, notes.into_iter().collect()))
    }

    /// The first rows as text.
    fn first_rows(self) -> anyhow::Result<(Arc<Schema>, Vec<StringRecord>)> {
        let schema = Arc::clone(self.builder.schema());
        let mut reader = self.builder.with_batch_size(READ_ROWS).build()?;
        let first = reader.next().transpose();
        let first = first.context("the file cannot be read")?;
        let Some(first) = first else {
            return Ok((schema, Vec::new()));
        };
        let texts: Result<Vec<ArrayRef>, _> = first
            .columns()
            .iter()
            .map(|column| match column.data_type() {
                DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_) => {
                    Ok(arrow::array::new_null_array(&DataType::Utf8, column.len()))
                }
                _ => cast(column, &DataType::Utf8),
            })
            .collect();
        let texts = texts?;
        let cell = |column: &ArrayRef, row: usize| {
            let texts = column.as_string::<i32>();
            if texts.is_valid(row) {
                texts.value(row).to_owned()
            } else {
                String::new()
            }
        };
        let rows = (0..first.num_rows())
            .map(|row| texts.iter().map(|column| cell(column, row)).collect())
            .collect();
        Ok((schema, rows))
    }

    /// Lets the columns become what is planned for their table.
    pub(in crate::import) fn follow(&mut self, plan: &Plan, table: &str) {
        for (name, role) in &mut self.columns {
            if *role != Role::Time
                && let Some(planned) = plan.role(table, name)
            {
                *role = planned;
            }
        }
    }

    pub(in crate::import) fn rows(&self) -> u64 {
        u64::try_from(self.builder.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Sends all rows from `start` on; `on_rows` hears how many were read.
    pub(in crate::import) fn send(
        self,
        input: usize,
        table: &str,
        start: Start,
        outlet: &Outlet<'_>,
        on_rows: &dyn Fn(u64),
    ) -> anyhow::Result<()> {
        // From a multiple of what is read together on, so that batches begin where they did when the file was read first.
        let begin = start.at - start.at % READ_ROWS as u64;
        let offset = usize::try_from(begin).context("the file has fewer rows than that")?;
        let reader = self.builder.with_batch_size(READ_ROWS).with_offset(offset);
        let table: Arc<str> = table.into();
        let mut begin = begin;
        let heading = heading(&self.columns);
        let reader = catch_panic(|| reader.build()).ok_or_else(damaged)?;
        let mut reader = reader.context("the file cannot be read")?;
        loop {
            let from = begin;
            let after = || format!("the file cannot be read after row {from}");
            let rows = catch_panic(|| reader.next())
                .ok_or_else(damaged)
                .with_context(after)?;
            let Some(rows) = rows else { return Ok(()) };
            let rows = rows.with_context(after)?;
            for part in parts(&rows) {
                let end = begin + part.num_rows() as u64;
                if begin >= start.at {
                    let mut rejected = Vec::new();
                    let converted = catch_panic(|| {
                        convert(&part, &self.columns, (begin, &heading), &mut rejected)
                    });
                    let rows = converted.ok_or_else(damaged).with_context(after)??;
                    outlet.send(Batch {
                        input,
                        begin,
                        end,
                        rows: rows.num_rows() as u64,
                        content: Content::Rows {
                            table: Arc::clone(&table),
                            rows,
                        },
                        rejected,
                    })?;
                }
                begin = end;
            }
            on_rows(begin);
        }
    }
}

/// The wishes; where no column has the type of a time, one of integers that is called so is it.
fn with_time(schema: &Schema, wishes: &Wishes) -> Wishes {
    let is_time = |kind: &DataType| {
        matches!(
            kind,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
        )
    };
    let mut wishes = wishes.clone();
    if wishes.time.is_none() && !schema.fields().iter().any(|it| is_time(it.data_type())) {
        let called = |name: &&&str| {
            let found = schema
                .fields()
                .iter()
                .find(|it| it.name().eq_ignore_ascii_case(name));
            found.is_some_and(|it| it.data_type().is_integer())
        };
        if let Some(name) = TIME_NAMES.iter().find(called) {
            let mut fields = schema.fields().iter();
            let found = fields.find(|it| it.name().eq_ignore_ascii_case(name));
            wishes.time = found.map(|it| it.name().clone());
        }
    }
    wishes
}

/// What is said when the library has panicked.
fn damaged() -> anyhow::Error {
    anyhow::anyhow!("the file is damaged: its parts contradict each other; take another copy of it")
}

/// The names of the columns, to be put above rejected rows.
fn heading(columns: &[(String, Role)]) -> Arc<[u8]> {
    let names = columns.iter().map(|(name, _)| name.as_bytes());
    line_of(&names.collect(), b',').into()
}

/// A row as a line of CSV.
fn row_text(rows: &RecordBatch, row: usize) -> Vec<u8> {
    let cells = rows.columns().iter().map(|column| {
        let is_there = column.is_valid(row);
        let text = is_there.then(|| array_value_to_string(column, row).unwrap_or_default());
        text.unwrap_or_default()
    });
    let cells: ByteRecord = cells.collect::<Vec<String>>().into();
    line_of(&cells, b',')
}

/// Rows in parts that are small enough to be sent; the same ones for the same rows.
fn parts(rows: &RecordBatch) -> Vec<RecordBatch> {
    let bytes: usize = rows
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    let parts = bytes.div_ceil(BATCH_BYTES).max(1);
    let of_one = rows.num_rows().div_ceil(parts).max(1);
    let starts = (0..rows.num_rows()).step_by(of_one);
    starts
        .map(|at| rows.slice(at, of_one.min(rows.num_rows() - at)))
        .collect()
}

/// Why rows do not fit, by their positions.
struct Refused {
    reasons: Vec<Option<String>>,
}

impl Refused {
    fn add(&mut self, row: usize, reason: impl FnOnce() -> String) {
        if let Some(slot) = self.reasons.get_mut(row) {
            slot.get_or_insert_with(reason);
        }
    }
}

/// The rows with the columns as their table has them; those that do not fit go to `rejected`. `begin` is the place of the
/// first one in the file, beside it what stands above rejected ones.
fn convert(
    rows: &RecordBatch,
    columns: &[(String, Role)],
    (begin, heading): (u64, &Arc<[u8]>),
    rejected: &mut Vec<Reject>,
) -> anyhow::Result<RecordBatch> {
    let mut refused = Refused {
        reasons: vec![None; rows.num_rows()],
    };
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    let mut tag_bytes = vec![0usize; rows.num_rows()];
    for ((name, role), column) in columns.iter().zip(rows.columns()) {
        let (name, array) = match role {
            Role::Time => (TIME_COLUMN, times(column, &mut refused)?),
            Role::Tag => (name.as_str(), tag(column, &mut tag_bytes)?),
            Role::Field(kind) => {
                let array = field(name, *kind, column, &mut refused)?;
                (name.as_str(), array)
            }
        };
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    if !columns.iter().any(|(_, role)| *role == Role::Time) {
        let now = TimestampNanosecondArray::from_value(now_ns(), rows.num_rows());
        fields.push(Field::new(TIME_COLUMN, now.data_type().clone(), true));
        arrays.push(Arc::new(now));
    }
    for (row, bytes) in tag_bytes.into_iter().enumerate() {
        if bytes > KEY_BYTES_MAX {
            refused.add(row, || {
                format!("its tags together have more than {KEY_BYTES_MAX} bytes")
            });
        }
    }
    let converted = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    let fits: BooleanArray = refused
        .reasons
        .iter()
        .map(|reason| Some(reason.is_none()))
        .collect();
    for (row, (line, reason)) in (begin + 1..).zip(refused.reasons).enumerate() {
        rejected.extend(reason.map(|reason| Reject {
            line,
            text: row_text(rows, row),
            heading: Some(Arc::clone(heading)),
            reason,
        }));
    }
    if fits.true_count() == fits.len() {
        return Ok(converted);
    }
    Ok(filter_record_batch(&converted, &fits)?)
}

fn times(column: &ArrayRef, refused: &mut Refused) -> anyhow::Result<ArrayRef> {
    let array = times_of(column)?;
    let times = array.as_primitive::<TimestampNanosecondType>();
    for row in 0..times.len() {
        if times.is_null(row) || !(TIME_NS_MIN..=TIME_NS_MAX).contains(&times.value(row)) {
            refused.add(row, || {
                "the row has no time, or one that does not fit".to_owned()
            });
        }
    }
    Ok(array)
}

fn tag(column: &ArrayRef, bytes: &mut [usize]) -> anyhow::Result<ArrayRef> {
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let text = cast(column, &DataType::Utf8)?;
    let texts = text.as_string::<i32>();
    for (row, bytes) in bytes.iter_mut().enumerate() {
        if texts.is_valid(row) {
            *bytes += texts.value(row).len() + TAG_BYTES;
        }
    }
    Ok(cast(&text, &kind)?)
}

fn field(
    name: &str,
    kind: FieldType,
    column: &ArrayRef,
    refused: &mut Refused,
) -> anyhow::Result<ArrayRef> {
    let from = column.data_type();
    let to = match kind {
        FieldType::Float => DataType::Float64,
        FieldType::Integer => DataType::Int64,
        FieldType::Unsigned => DataType::UInt64,
        FieldType::Boolean => DataType::Boolean,
        FieldType::Text => DataType::Utf8,
        FieldType::Bytes => DataType::Binary,
    };
    if *from == DataType::Null {
        return Ok(arrow::array::new_null_array(&to, column.len()));
    }
    let array = cast(column, &to)
        .with_context(|| format!("column \"{name}\" of type {from} is no {}", kind.name()))?;
    let is_number = |kind: &DataType| kind.is_numeric();
    // A cast of numbers rounds; what comes back as something else was changed by it.
    let same = if is_number(from) && is_number(&to) && *from != to {
        Some(not_distinct(&cast(&array, from)?, column)?)
    } else {
        None
    };
    // Of text, a number that no float has becomes an infinity.
    let floats = array.as_primitive_opt::<Float64Type>();
    let floats = floats.filter(|_| !is_number(from)).into_iter().flatten();
    for (row, value) in floats.enumerate() {
        let Some(value) = value.filter(|value| value.is_infinite()) else {
            continue;
        };
        let text = array_value_to_string(column, row)?;
        if is_beyond(&text, value) {
            refused.add(row, || beyond(name, &text));
        }
    }
    for row in 0..column.len() {
        let is_lost = column.is_valid(row) && array.is_null(row);
        let is_other = same.as_ref().is_some_and(|same| !same.value(row));
        if is_lost || is_other {
            refused.add(row, || {
                let value = array_value_to_string(column, row).unwrap_or_default();
                format!(
                    "column \"{name}\" has {value:?}, which is not of its type {}",
                    kind.name()
                )
            });
        }
    }
    let lengths: &dyn Fn(usize) -> usize = match &to {
        DataType::Utf8 => &|row| array.as_string::<i32>().value(row).len(),
        DataType::Binary => &|row| array.as_binary::<i32>().value(row).len(),
        _ => return Ok(array),
    };
    for row in 0..column.len() {
        if array.is_valid(row) && lengths(row) > FIELD_TEXT_BYTES_MAX {
            refused.add(row, || too_long(name, lengths(row)));
        }
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicBool;

    use arrow::array::{
        Decimal128Array, DictionaryArray, Float64Array, Int64Array, StringArray,
        TimestampMillisecondArray, UInt64Array,
    };
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::output;
    use crate::source::Answer;

    fn converted(columns: Vec<(&str, Role, ArrayRef)>) -> (RecordBatch, Vec<(u64, String)>) {
        let roles: Vec<(String, Role)> = columns
            .iter()
            .map(|(name, role, _)| ((*name).to_owned(), *role))
            .collect();
        let arrays = columns
            .into_iter()
            .map(|(name, _, array)| (name, array, true));
        let rows = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
        let mut rejected = Vec::new();
        let place = (100, &heading(&roles));
        let rows = convert(&rows, &roles, place, &mut rejected).unwrap();
        let rejected = rejected.into_iter().map(|it| (it.line, it.reason));
        (rows, rejected.collect())
    }

    fn times(values: Vec<i64>) -> (&'static str, Role, ArrayRef) {
        let times = TimestampMillisecondArray::from(values).with_timezone("+05:00");
        ("when", Role::Time, Arc::new(times))
    }

    /// A text that is a number beyond every float became an infinity in a table that has floats there.
    #[test]
    fn a_text_beyond_every_float_is_a_rejected_row_and_inf_is_a_value() {
        let texts = StringArray::from(vec!["1e400", "inf", "2.5", "-1e999", "NaN"]);
        let (rows, rejected) = converted(vec![
            times(vec![1, 2, 3, 4, 5]),
            ("x", Role::Field(FieldType::Float), Arc::new(texts)),
        ]);
        let floats = rows.column(1).as_primitive::<Float64Type>();
        let floats: Vec<String> = floats.values().iter().map(f64::to_string).collect();
        assert_eq!(floats, ["inf", "2.5", "NaN"]);
        let lines: Vec<u64> = rejected.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [101, 104]);
        assert!(rejected[0].1.contains("\"1e400\""), "{rejected:?}");
    }

    const ROWS: i64 = 300;

    /// A file of some rows with texts, numbers and nulls.
    fn small_file() -> Vec<u8> {
        let times: Vec<i64> = (0..ROWS).map(|n| 1_700_000_000_000 + n * 1000).collect();
        let hosts: Vec<String> = (0..ROWS).map(|n| format!("h{}", n % 9)).collect();
        let columns: [(&str, ArrayRef); 4] = [
            ("time", Arc::new(TimestampMillisecondArray::from(times))),
            ("host", Arc::new(StringArray::from(hosts))),
            (
                "v",
                Arc::new(
                    (0..ROWS)
                        .map(|n| (n % 7 != 0).then_some(n as f64))
                        .collect::<Float64Array>(),
                ),
            ),
            ("n", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        bytes
    }

    /// Everything that an import does with a file: the rows that it would send, or why there are none.
    fn imported(path: &Path) -> anyhow::Result<u64> {
        let (keys, stop) = (RefCell::default(), AtomicBool::new(false));
        let outlet = Outlet::new(None, &keys, &stop);
        let wishes = Wishes::default();
        ParquetFile::look(path, &wishes)?;
        let file = ParquetFile::open(path, &wishes)?;
        file.send(0, "t", Start::default(), &outlet, &|_| {})?;
        let keys = keys.into_inner();
        Ok(keys.of("t").map_or(0, |of| of.rows))
    }

    /// The rows of a file as an import would send them.
    fn sent(path: &Path) -> anyhow::Result<Vec<RecordBatch>> {
        let (keys, stop) = (RefCell::default(), AtomicBool::new(false));
        let (sender, received) = std::sync::mpsc::sync_channel(100);
        let outlet = Outlet::new(Some(sender), &keys, &stop);
        let wishes = Wishes::default();
        let (file, _) = ParquetFile::look(path, &wishes)?;
        file.send(0, "t", Start::default(), &outlet, &|_| {})?;
        drop(outlet);
        let rows = received.into_iter().map(|batch| match batch.content {
            Content::Rows { rows, .. } => rows,
            Content::Lines { .. } => panic!("lines of a Parquet file"),
        });
        Ok(rows.collect())
    }

    /// A bit that flipped in a page of a file that `export` wrote was imported as another value, with status 0.
    #[test]
    fn a_bit_that_flips_in_an_exported_file_is_an_error_or_changes_nothing() {
        let hosts: DictionaryArray<Int32Type> = (0..ROWS)
            .map(|n| Some(if n % 2 == 0 { "a" } else { "b" }))
            .collect();
        let times = TimestampMillisecondArray::from_iter_values(
            1_700_000_000_000..1_700_000_000_000 + ROWS,
        );
        let columns: [(&str, ArrayRef); 3] = [
            ("time", Arc::new(times)),
            ("host", Arc::new(hosts)),
            (
                "v",
                Arc::new(Float64Array::from_iter_values(
                    (0..ROWS).map(|n| n as f64 / 7.0),
                )),
            ),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let answer = Answer::new(rows.schema(), [Ok(rows)].into_iter());
        let (format, compression) = (output::Format::Parquet, output::Compression::None);
        output::write(answer, format, compression, &mut bytes, &mut |_| {}).unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("t.parquet");
        std::fs::write(&path, &bytes).unwrap();
        let want = sent(&path).unwrap();
        assert_eq!(want.len(), 1);
        assert_eq!(want[0].num_rows() as u64, ROWS.cast_unsigned());
        let mut refused = 0;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            match sent(&path) {
                Ok(rows) => assert_eq!(rows, want, "byte {at} of {}", bytes.len()),
                Err(_) => refused += 1,
            }
        }
        // What is left is damage that hides the checksum itself, in the name of the writer.
        assert!(refused + 16 >= bytes.len(), "{refused} of {}", bytes.len());
    }

    /// Checksums of pages, which other programs write, were not looked at.
    #[test]
    fn a_bit_that_flips_in_a_page_with_a_checksum_of_its_own_is_an_error() {
        use parquet::column::writer::ColumnCloseResult;
        use parquet::file::metadata::ColumnChunkMetaData;
        use parquet::file::writer::SerializedFileWriter;
        /// Of [`DATA`], by `zlib.crc32` of Python.
        const CRC: u32 = 0x00f6_ddb9;
        /// The numbers 1 and 2.
        const DATA: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        // The header in the compact form of Thrift: a data page of 16 bytes with this checksum, 2 values, plain.
        let mut page = vec![0x15, 0, 0x15, 32, 0x15, 32, 0x15];
        let crc = CRC.cast_signed();
        let mut zigzag = ((crc << 1) ^ (crc >> 31)).cast_unsigned();
        while zigzag >= 0x80 {
            page.push(zigzag.to_le_bytes()[0] | 0x80);
            zigzag >>= 7;
        }
        page.push(zigzag.to_le_bytes()[0]);
        page.extend([0x1c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0]);
        page.extend(DATA);
        let bytes = i64::try_from(page.len()).unwrap();
        let schema = "message m { required int64 time; required int64 v; }";
        let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
        let mut file = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::default()).unwrap();
        let described = writer.schema_descr().columns().to_vec();
        let mut group = writer.next_row_group().unwrap();
        for column in described {
            let metadata = ColumnChunkMetaData::builder(column)
                .set_encodings(vec![parquet::basic::Encoding::PLAIN])
                .set_num_values(2)
                .set_total_compressed_size(bytes)
                .set_total_uncompressed_size(bytes)
                .set_data_page_offset(0)
                .build()
                .unwrap();
            let close = ColumnCloseResult {
                bytes_written: page.len() as u64,
                rows_written: 2,
                metadata,
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            let page = bytes::Bytes::from(page.clone());
            group.append_column(&page, close).unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("t.parquet");
        std::fs::write(&path, &file).unwrap();
        assert_eq!(imported(&path).unwrap(), 2);
        let last = memchr::memmem::rfind(&file, &DATA).unwrap();
        for at in last..last + DATA.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            std::fs::write(&path, &damaged).unwrap();
            assert!(imported(&path).is_err(), "byte {at}");
        }
    }

    /// An import of a damaged file ended with a panic.
    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        let whole = small_file();
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("damaged.parquet");
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(imported(&path).unwrap(), ROWS.cast_unsigned());
        let mut state = 15_u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        // The end of a file says what the rest is, so half of the damage goes there.
        let footer = whole.len() - 1500;
        let mut errors = 0;
        for nth in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=nth % 3 {
                let at = match nth % 2 {
                    0 => draw(bytes.len()),
                    _ => footer + draw(1500),
                };
                bytes[at] ^= 1 << draw(8);
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Err(error) = imported(&path) {
                assert!(!format!("{error:#}").is_empty());
                errors += 1;
            }
        }
        assert!(errors > 50, "{errors}");
    }

    #[test]
    fn a_value_is_kept_exactly_or_its_row_is_named() {
        let wide = u64::MAX;
        let (rows, rejected) = converted(vec![
            times(vec![1, 2, 3, 4]),
            (
                "float to integer",
                Role::Field(FieldType::Integer),
                Arc::new(Float64Array::from(vec![
                    Some(3.0),
                    Some(1.5),
                    None,
                    Some(-2.0),
                ])),
            ),
            (
                "unsigned to integer",
                Role::Field(FieldType::Integer),
                Arc::new(UInt64Array::from(vec![7, 7, wide, 7])),
            ),
            (
                "integer to float",
                Role::Field(FieldType::Float),
                Arc::new(Int64Array::from(vec![1, 1, 1, (1 << 53) + 1])),
            ),
            (
                "text to float",
                Role::Field(FieldType::Float),
                Arc::new(StringArray::from(vec!["1.50", "1", "1", "1"])),
            ),
            (
                "decimal",
                Role::Field(FieldType::Float),
                Arc::new(
                    Decimal128Array::from(vec![15, 25, 35, 45])
                        .with_precision_and_scale(10, 1)
                        .unwrap(),
                ),
            ),
        ]);
        let named: Vec<(u64, bool)> = rejected
            .iter()
            .zip([
                "\"float to integer\" has \"1.5\"",
                "\"unsigned to integer\"",
                "\"integer to float\"",
            ])
            .map(|((line, reason), words)| (*line, reason.contains(words)))
            .collect();
        assert_eq!(
            named,
            [(102, true), (103, true), (104, true)],
            "{rejected:?}"
        );
        assert_eq!(rows.num_rows(), 1);
        let floats = |name: &str| {
            let column = rows.column_by_name(name).unwrap();
            column
                .as_primitive::<arrow::datatypes::Float64Type>()
                .value(0)
        };
        assert_eq!((floats("text to float"), floats("decimal")), (1.5, 1.5));
        let time = rows.column_by_name("time").unwrap();
        assert_eq!(
            time.as_primitive::<TimestampNanosecondType>().value(0),
            1_000_000
        );
    }

    #[test]
    fn rows_without_time_and_texts_that_are_too_long_are_named() {
        let long = "x".repeat(FIELD_TEXT_BYTES_MAX + 1);
        let tags = "t".repeat(KEY_BYTES_MAX);
        let time = Int64Array::from(vec![Some(1_700_000_000), None, Some(1), Some(1), Some(1)]);
        let (rows, rejected) = converted(vec![
            ("time", Role::Time, Arc::new(time)),
            (
                "tag",
                Role::Tag,
                Arc::new(StringArray::from(vec![
                    Some("a"),
                    None,
                    None,
                    None,
                    Some(&tags),
                ])),
            ),
            (
                "text",
                Role::Field(FieldType::Text),
                Arc::new(StringArray::from(vec![
                    Some("x"),
                    Some("x"),
                    None,
                    Some(&long),
                    Some("x"),
                ])),
            ),
        ]);
        // The third has no value, and is a row.
        assert_eq!(rows.num_rows(), 2);
        let words = [
            (102, "no time"),
            (104, "1048577 bytes"),
            (105, "its tags together"),
        ];
        assert_eq!(rejected.len(), words.len(), "{rejected:?}");
        for ((at, reason), (line, words)) in rejected.into_iter().zip(words) {
            assert!(at == line && reason.contains(words), "{at} {reason}");
        }
    }

    #[test]
    fn parts_are_small_and_together_everything() {
        let texts: Vec<String> = (0..100).map(|n| format!("{n}").repeat(500_000)).collect();
        let column: ArrayRef = Arc::new(StringArray::from(texts));
        let rows = RecordBatch::try_from_iter([("s", column)]).unwrap();
        let parts = parts(&rows);
        assert!(parts.len() > 1);
        let all: usize = parts.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(all, 100);
        assert_eq!(self::parts(&rows.slice(0, 0)).len(), 0);
    }
}
