//! Arrow rows as line protocol.
//!
//! Does: say what each column of rows is (time, tag, field), print rows so that reading them gives the same values.
//! Does not: read line protocol, or send it. What line protocol has no text for (NaN, infinities, names that end in a
//! backslash) is left out and counted.

use anyhow::{Context, bail};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, Schema, TimeUnit, TimestampNanosecondType, UInt64Type,
};
use nilometer_lineproto::{FieldValue, Precision, write_line};

/// What the first line of a file of line protocol says before the unit of its times; to other readers it is a comment.
const UNIT_SAID: &str = "precision:";

/// The line that says the unit of times, without its line feed.
pub(crate) fn unit_line(unit: &str) -> String {
    format!("# {UNIT_SAID} {unit}")
}

/// The unit that such a line says.
pub(crate) fn said_unit(line: &[u8]) -> Option<Precision> {
    let line = std::str::from_utf8(line).ok()?;
    let said = line
        .strip_prefix('#')?
        .trim_start()
        .strip_prefix(UNIT_SAID)?;
    Precision::from_v3(said.trim())
}

/// A unit as it is said.
pub(crate) fn unit_name(unit: Precision) -> &'static str {
    match unit {
        Precision::Auto => "auto",
        Precision::Second => "s",
        Precision::Millisecond => "ms",
        Precision::Microsecond => "us",
        _ => "ns",
    }
}

/// What a column becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Time,
    Tag,
    Field(FieldType),
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    Float,
    Integer,
    Unsigned,
    Boolean,
    Text,
    /// Line protocol has none; rows that come with types do.
    Bytes,
}

impl FieldType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::Boolean => "boolean",
            Self::Text => "text",
            Self::Bytes => "bytes",
        }
    }
}

/// What became of the rows of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) rows: u64,
    /// Rows without any value that could be printed.
    pub(crate) rows_left_out: u64,
    /// NaN and infinities.
    pub(crate) values_left_out: u64,
}

/// What is known of columns before the rows come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// The time column; else one of a type of times, the one called `time` first.
    pub(crate) time: Option<String>,
    /// Exactly these are tags; else what is dictionary-encoded.
    pub(crate) tags: Option<Vec<String>>,
}

/// Hears of each row, by its position in the batch, its text or why there is none.
pub(crate) type OnRow<'a> = &'a mut dyn FnMut(usize, Result<&[u8], String>);

/// Prints rows of one schema as points of one table.
#[derive(Debug)]
pub(crate) struct LinePrinter {
    table: String,
    columns: Vec<(String, Role)>,
}

impl LinePrinter {
    pub(crate) fn new(schema: &Schema, table: &str, wishes: &Wishes) -> anyhow::Result<Self> {
        let columns = roles(schema, wishes)?;
        let bytes = Role::Field(FieldType::Bytes);
        if let Some((name, _)) = columns.iter().find(|(_, role)| *role == bytes) {
            bail!(
                "column \"{name}\" has bytes, which line protocol has no text for; leave it out or cast it, with --query"
            );
        }
        Ok(Self {
            table: table.to_owned(),
            columns,
        })
    }

    /// The columns and what they become.
    pub(crate) fn columns(&self) -> &[(String, Role)] {
        &self.columns
    }

    /// Calls columns otherwise, by their position.
    pub(crate) fn rename(&mut self, names: impl IntoIterator<Item = String>) {
        for (column, name) in self.columns.iter_mut().zip(names) {
            column.0 = name;
        }
    }

    /// Appends the rows of a batch to `out`. Of each row `on_row` hears its text, or why there is none.
    pub(crate) fn print(
        &self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
        on_row: OnRow<'_>,
    ) -> anyhow::Result<Printed> {
        let mut times = None;
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for ((name, role), column) in self.columns.iter().zip(batch.columns()) {
            match role {
                Role::Time => times = Some(times_of(column)?),
                Role::Tag => tags.push((name.as_str(), cast(column, &DataType::Utf8)?)),
                Role::Field(kind) => fields.push((name.as_str(), Values::new(*kind, column)?)),
            }
        }
        let mut printed = Printed::default();
        let (mut row_tags, mut row_fields) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            row_tags.clear();
            row_fields.clear();
            for (name, column) in &tags {
                let texts = column.as_string::<i32>();
                // An empty tag is no tag: that is what it is in line protocol.
                if texts.is_valid(row) && !texts.value(row).is_empty() {
                    row_tags.push((*name, texts.value(row)));
                }
            }
            for (name, values) in &fields {
                match values.get(row) {
                    Some(FieldValue::Float(value)) if !value.is_finite() => {
                        printed.values_left_out += 1;
                    }
                    Some(value) => row_fields.push((*name, value)),
                    None => {}
                }
            }
            let time = match &times {
                Some(times) if times.is_null(row) => {
                    printed.rows_left_out += 1;
                    on_row(
                        row,
                        Err("the row has no time, or one that does not fit".to_owned()),
                    );
                    continue;
                }
                Some(times) => Some(times.as_primitive::<TimestampNanosecondType>().value(row)),
                None => None,
            };
            let begin = out.len();
            match write_line(out, &self.table, &row_tags, &row_fields, time) {
                Ok(()) => {
                    printed.rows += 1;
                    on_row(row, Ok(out.get(begin..).unwrap_or_default()));
                }
                Err(error) => {
                    printed.rows_left_out += 1;
                    let none = row_fields.is_empty();
                    let none = none.then(|| "the row has no value in any field".to_owned());
                    on_row(row, Err(none.unwrap_or_else(|| error.to_string())));
                }
            }
        }
        Ok(printed)
    }
}

/// What the columns of a schema become.
pub(crate) fn roles(schema: &Schema, wishes: &Wishes) -> anyhow::Result<Vec<(String, Role)>> {
    let time = time_column(schema, wishes.time.as_deref())?;
    for tag in wishes.tags.iter().flatten() {
        if schema.index_of(tag).is_err() {
            bail!(
                "there is no column \"{tag}\" to make a tag of; there are {}",
                names(schema)
            );
        }
    }
    let mut columns = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        let is_tag = match &wishes.tags {
            Some(tags) => tags.contains(name),
            None => matches!(field.data_type(), DataType::Dictionary(..)),
        };
        let role = if Some(at) == time {
            Role::Time
        } else if is_tag {
            Role::Tag
        } else {
            Role::Field(kind_of(field.data_type()).with_context(|| {
                format!(
                    "column \"{name}\" has the type {}, which no field has; leave it out or cast it, with --query where that is a choice",
                    field.data_type()
                )
            })?)
        };
        columns.push((name.clone(), role));
    }
    let is_field = |(_, role): &(String, Role)| matches!(role, Role::Field(_));
    if !columns.iter().any(is_field) {
        bail!("there is no column left for a field, and a point has at least one");
    }
    Ok(columns)
}

/// The values of a field's column.
enum Values {
    Float(ArrayRef),
    Integer(ArrayRef),
    Unsigned(ArrayRef),
    Boolean(ArrayRef),
    Text(ArrayRef),
}

impl Values {
    fn new(kind: FieldType, column: &ArrayRef) -> anyhow::Result<Self> {
        Ok(match kind {
            FieldType::Float => Self::Float(cast(column, &DataType::Float64)?),
            FieldType::Integer => Self::Integer(cast(column, &DataType::Int64)?),
            FieldType::Unsigned => Self::Unsigned(cast(column, &DataType::UInt64)?),
            FieldType::Boolean => Self::Boolean(cast(column, &DataType::Boolean)?),
            FieldType::Text | FieldType::Bytes => Self::Text(cast(column, &DataType::Utf8)?),
        })
    }

    fn get(&self, row: usize) -> Option<FieldValue<'_>> {
        match self {
            Self::Float(column) => {
                let values = column.as_primitive::<Float64Type>();
                values
                    .is_valid(row)
                    .then(|| FieldValue::Float(values.value(row)))
            }
            Self::Integer(column) => {
                let values = column.as_primitive::<Int64Type>();
                values
                    .is_valid(row)
                    .then(|| FieldValue::Integer(values.value(row)))
            }
            Self::Unsigned(column) => {
                let values = column.as_primitive::<UInt64Type>();
                values
                    .is_valid(row)
                    .then(|| FieldValue::Unsigned(values.value(row)))
            }
            Self::Boolean(column) => {
                let values = column.as_boolean();
                values
                    .is_valid(row)
                    .then(|| FieldValue::Boolean(values.value(row)))
            }
            Self::Text(column) => {
                let values = column.as_string::<i32>();
                values
                    .is_valid(row)
                    .then(|| FieldValue::Text(values.value(row).into()))
            }
        }
    }
}

/// Where the time stands; `None` = nowhere, and points get the time of their arrival.
fn time_column(schema: &Schema, wished: Option<&str>) -> anyhow::Result<Option<usize>> {
    if let Some(name) = wished {
        return match schema.index_of(name) {
            Ok(at) => Ok(Some(at)),
            Err(_) => bail!(
                "there is no column \"{name}\" for the time; there are {}",
                names(schema)
            ),
        };
    }
    let is_time = |kind: &DataType| {
        matches!(
            kind,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
        )
    };
    let mut times = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| is_time(field.data_type()));
    let first = times.clone().next();
    let named = times.find(|(_, field)| field.name() == "time");
    Ok(named.or(first).map(|(at, _)| at))
}

/// Times in nanoseconds. Numbers are taken for the unit that their size tells.
pub(crate) fn times_of(column: &ArrayRef) -> anyhow::Result<ArrayRef> {
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let column = match column.data_type() {
        kind if kind.is_integer() => {
            let numbers = cast(column, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            let auto = nilometer_lineproto::Precision::Auto;
            let times = numbers.unary_opt::<_, Int64Type>(|number| auto.nanoseconds(number));
            return Ok(cast(&times, &nanoseconds)?);
        }
        // With its zone it would be shifted to another wall clock; the instant is what counts.
        DataType::Timestamp(unit, Some(_)) => cast(column, &DataType::Timestamp(*unit, None))?,
        _ => ArrayRef::clone(column),
    };
    cast(&column, &nanoseconds).context("the time column cannot be read as times")
}

pub(crate) fn kind_of(kind: &DataType) -> Option<FieldType> {
    Some(match kind {
        DataType::Dictionary(_, values) => kind_of(values)?,
        DataType::Boolean => FieldType::Boolean,
        kind if kind.is_signed_integer() => FieldType::Integer,
        kind if kind.is_unsigned_integer() => FieldType::Unsigned,
        kind if kind.is_numeric() => FieldType::Float,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Null => FieldType::Text,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => FieldType::Bytes,
        _ => return None,
    })
}

fn names(schema: &Schema) -> String {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
        StringArray, TimestampMillisecondArray, UInt8Array,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    fn column(name: &str, values: impl Array + 'static) -> (String, ArrayRef, bool) {
        (name.to_owned(), Arc::new(values), true)
    }

    fn printed(
        columns: Vec<(String, ArrayRef, bool)>,
        wishes: &Wishes,
    ) -> anyhow::Result<(String, Printed, Vec<usize>)> {
        let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
        let printer = LinePrinter::new(&rows.schema(), "t", wishes)?;
        let (mut text, mut refused) = (Vec::new(), Vec::new());
        let mut on_row = |row: usize, printed: Result<&[u8], String>| {
            if printed.is_err() {
                refused.push(row);
            }
        };
        let counted = printer.print(&rows, &mut text, &mut on_row)?;
        Ok((String::from_utf8(text)?, counted, refused))
    }

    #[test]
    fn every_type_is_printed_as_its_own_kind_of_field() {
        let hosts: DictionaryArray<Int32Type> = vec![Some("a b"), None].into_iter().collect();
        let (text, counted, refused) = printed(
            vec![
                column("host", hosts),
                column("f", Float64Array::from(vec![Some(1.5), Some(f64::NAN)])),
                column("i", Int32Array::from(vec![Some(-3), None])),
                column("u", UInt8Array::from(vec![255, 0])),
                column("b", BooleanArray::from(vec![true, false])),
                column("s", StringArray::from(vec!["x\"y", ""])),
                column(
                    "when",
                    TimestampMillisecondArray::from(vec![1, 2]).with_timezone("+02:00"),
                ),
            ],
            &Wishes::default(),
        )
        .unwrap();
        let want = "t,host=a\\ b f=1.5,i=-3i,u=255u,b=true,s=\"x\\\"y\" 1000000\nt u=0u,b=false,s=\"\" 2000000\n";
        assert_eq!(text, want);
        assert_eq!((counted.rows, counted.values_left_out), (2, 1));
        assert!(refused.is_empty());
    }

    #[test]
    fn rows_without_value_or_time_are_left_out_and_named() {
        let (text, counted, refused) = printed(
            vec![
                column(
                    "time",
                    Int64Array::from(vec![Some(1_700_000_000), None, Some(1_700_000_001)]),
                ),
                column("v", Float64Array::from(vec![None, Some(1.0), Some(2.0)])),
            ],
            &Wishes {
                time: Some("time".to_owned()),
                tags: None,
            },
        )
        .unwrap();
        assert_eq!(text, "t v=2 1700000001000000000\n");
        assert_eq!((counted.rows, counted.rows_left_out), (1, 2));
        assert_eq!(refused, [0, 1]);
    }

    #[test]
    fn what_the_user_wants_of_columns_is_checked() {
        let columns = || {
            vec![
                column("name", StringArray::from(vec!["a"])),
                column("v", Int64Array::from(vec![1])),
            ]
        };
        let wishes = |time: Option<&str>, tags: &[&str]| Wishes {
            time: time.map(str::to_owned),
            tags: Some(tags.iter().map(|&tag| tag.to_owned()).collect()),
        };
        let (text, ..) = printed(columns(), &wishes(None, &["name"])).unwrap();
        assert_eq!(text, "t,name=a v=1i\n");
        for (wishes, word) in [
            (wishes(Some("nope"), &[]), "there are name, v"),
            (wishes(None, &["nope"]), "there are name, v"),
            (wishes(None, &["name", "v"]), "at least one"),
        ] {
            let error = printed(columns(), &wishes).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let bytes = vec![column("b", BinaryArray::from(vec![&b"x"[..]]))];
        let error = printed(bytes, &Wishes::default()).unwrap_err().to_string();
        assert!(error.contains("--query"), "{error}");
    }
}
