//! Groups of series and buckets during aggregation, and their result columns.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, exec_err};
use nilometer_engine::{AggregateRow, AggregateSum, AggregateValue, FieldAggregate, float_order};

use super::Output;

/// The tags that a group of series has in common, in the order of the answer's tag columns.
pub(super) type GroupTags = Vec<Option<String>>;

/// Whether a column of this type can be made.
pub(super) fn makes(output: Output, kind: &DataType) -> bool {
    match output {
        Output::Tag(_) => match kind {
            DataType::Dictionary(_, values) => **values == DataType::Utf8,
            kind => *kind == DataType::Utf8,
        },
        Output::Bucket => matches!(kind, DataType::Timestamp(TimeUnit::Nanosecond, _)),
        Output::Rows | Output::Count(_) => *kind == DataType::Int64,
        Output::Average(_) => *kind == DataType::Float64,
        Output::Sum(_) => matches!(kind, DataType::Int64 | DataType::UInt64 | DataType::Float64),
        Output::Min(_) | Output::Max(_) => matches!(
            kind,
            DataType::Int64
                | DataType::UInt64
                | DataType::Float64
                | DataType::Boolean
                | DataType::Utf8
                | DataType::Binary
        ),
    }
}

/// Aggregates by (group of series, bucket).
#[derive(Debug, Default)]
pub(super) struct Groups {
    fields: usize,
    places: std::collections::HashMap<(u32, i64), usize>,
    keys: Vec<(u32, i64)>,
    rows: Vec<u64>,
    /// By key, then by field.
    cells: Vec<Option<Merged>>,
    /// Bytes of texts among the cells.
    text_bytes: usize,
}

/// What is known of one field in one group.
#[derive(Debug)]
struct Merged {
    count: u64,
    sum: Option<AggregateSum>,
    min: AggregateValue,
    max: AggregateValue,
}

impl Groups {
    pub(super) fn new(fields: usize) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        // A place in the map has a key, a position and a control byte, and one in eight is free.
        let place = (size_of::<((u32, i64), usize)>() + 1) * 8 / 7;
        self.places.capacity() * place
            + self.keys.capacity() * size_of::<(u32, i64)>()
            + self.rows.capacity() * size_of::<u64>()
            + self.cells.capacity() * size_of::<Option<Merged>>()
            + self.text_bytes
    }

    fn place(&mut self, key: (u32, i64)) -> usize {
        let new = self.keys.len();
        let place = *self.places.entry(key).or_insert(new);
        if place == new {
            self.keys.push(key);
            self.rows.push(0);
            let cells = self.cells.len() + self.fields;
            self.cells.resize_with(cells, || None);
        }
        place
    }

    fn join(&mut self, place: usize, field: usize, other: Merged) {
        let Some(cell) = self.cells.get_mut(place * self.fields + field) else {
            return;
        };
        let before = cell.as_ref().map_or(0, Merged::text_bytes);
        if let Some(known) = cell {
            known.join(other);
        } else {
            *cell = Some(other);
        }
        let after = cell.as_ref().map_or(0, Merged::text_bytes);
        self.text_bytes = self.text_bytes + after - before;
    }

    /// Adds what is known of one series and bucket.
    pub(super) fn add(&mut self, group: u32, row: AggregateRow) {
        let place = self.place((group, row.bucket));
        if let Some(rows) = self.rows.get_mut(place) {
            *rows += row.rows;
        }
        for (field, found) in row.fields.into_iter().enumerate() {
            if let Some(found) = found {
                self.join(place, field, Merged::from(found));
            }
        }
    }

    /// Adds other groups of the same fields.
    pub(super) fn append(&mut self, other: Self) {
        if self.keys.is_empty() {
            *self = other;
            return;
        }
        let mut cells = other.cells.into_iter();
        for (key, rows) in other.keys.into_iter().zip(other.rows) {
            let place = self.place(key);
            if let Some(sum) = self.rows.get_mut(place) {
                *sum += rows;
            }
            for field in 0..self.fields {
                if let Some(Some(merged)) = cells.next() {
                    self.join(place, field, merged);
                }
            }
        }
    }

    /// The one row of an aggregation without groups, which is there even if nothing was added.
    pub(super) fn ensure_one(&mut self) {
        if self.keys.is_empty() {
            self.place((0, i64::MIN));
        }
    }

    /// Number of rows of the answer.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Some rows of the answer.
    pub(super) fn batch(
        &self,
        range: std::ops::Range<usize>,
        tags: &[GroupTags],
        outputs: &[Output],
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let mut tag_columns = 0..;
        let columns: Result<Vec<ArrayRef>> = outputs
            .iter()
            .zip(schema.fields())
            .map(|(&output, field)| {
                let kind = field.data_type();
                match output {
                    Output::Tag(_) => {
                        let at = tag_columns.next().unwrap_or_default();
                        self.tag_column(range.clone(), at, tags, kind)
                    }
                    Output::Bucket => self.bucket_column(range.clone(), kind),
                    Output::Rows => {
                        let rows = self.rows.get(range.clone()).unwrap_or_default();
                        Ok(Arc::new(Int64Array::from_iter_values(
                            rows.iter().map(|&rows| rows as i64),
                        )) as ArrayRef)
                    }
                    Output::Count(at) => Ok(Arc::new(Int64Array::from_iter_values(
                        self.fields_of(range.clone(), at)
                            .map(|cell| cell.map_or(0, |cell| cell.count as i64)),
                    )) as ArrayRef),
                    Output::Average(at) => {
                        let averages = self.fields_of(range.clone(), at);
                        let averages = averages.map(|cell| cell?.average());
                        Ok(Arc::new(averages.collect::<Float64Array>()) as ArrayRef)
                    }
                    Output::Sum(at) => {
                        let sums = self.fields_of(range.clone(), at).map(|cell| cell?.sum);
                        sum_column(sums, field.name(), kind)
                    }
                    Output::Min(at) => {
                        let values = self.fields_of(range.clone(), at);
                        Ok(value_column(values.map(|cell| Some(&cell?.min)), kind))
                    }
                    Output::Max(at) => {
                        let values = self.fields_of(range.clone(), at);
                        Ok(value_column(values.map(|cell| Some(&cell?.max)), kind))
                    }
                }
            })
            .collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(range.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns?,
            &options,
        )?)
    }

    fn fields_of(
        &self,
        range: std::ops::Range<usize>,
        field: usize,
    ) -> impl Iterator<Item = Option<&Merged>> {
        range.map(move |place| self.cells.get(place * self.fields + field)?.as_ref())
    }

    fn tag_column(
        &self,
        range: std::ops::Range<usize>,
        at: usize,
        tags: &[GroupTags],
        kind: &DataType,
    ) -> Result<ArrayRef> {
        let keys = self.keys.get(range).unwrap_or_default();
        let values: StringArray = keys
            .iter()
            .map(|(group, _)| tags.get(*group as usize)?.get(at)?.as_deref())
            .collect();
        Ok(cast(&values, kind)?)
    }

    fn bucket_column(&self, range: std::ops::Range<usize>, kind: &DataType) -> Result<ArrayRef> {
        let keys = self.keys.get(range).unwrap_or_default();
        if keys.iter().any(|(_, bucket)| *bucket == i64::MIN) {
            return exec_err!("a bucket begins before the earliest time there is");
        }
        let starts = keys.iter().map(|(_, bucket)| *bucket);
        let starts = PrimitiveArray::<TimestampNanosecondType>::from_iter_values(starts);
        Ok(Arc::new(starts.with_data_type(kind.clone())))
    }
}

impl From<FieldAggregate> for Merged {
    fn from(found: FieldAggregate) -> Self {
        Self {
            count: found.count,
            sum: found.sum,
            min: found.min,
            max: found.max,
        }
    }
}

impl Merged {
    fn text_bytes(&self) -> usize {
        let bytes = |value: &AggregateValue| match value {
            AggregateValue::Text(bytes) | AggregateValue::Bytes(bytes) => bytes.capacity(),
            _ => 0,
        };
        bytes(&self.min) + bytes(&self.max)
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.sum = match (self.sum, other.sum) {
            (Some(AggregateSum::Int(a)), Some(AggregateSum::Int(b))) => {
                Some(AggregateSum::Int(a + b))
            }
            (Some(AggregateSum::Unsigned(a)), Some(AggregateSum::Unsigned(b))) => {
                Some(AggregateSum::Unsigned(a + b))
            }
            (Some(AggregateSum::Float(a)), Some(AggregateSum::Float(b))) => {
                Some(AggregateSum::Float(a + b))
            }
            // Values of one field have one type, so sums of two kinds do not meet.
            _ => None,
        };
        if compare(&other.min, &self.min) == Ordering::Less {
            self.min = other.min;
        }
        if compare(&other.max, &self.max) == Ordering::Greater {
            self.max = other.max;
        }
    }

    fn average(&self) -> Option<f64> {
        let sum = match self.sum? {
            AggregateSum::Int(sum) => sum as f64,
            AggregateSum::Unsigned(sum) => sum as f64,
            AggregateSum::Float(sum) => sum,
        };
        Some(sum / self.count as f64)
    }
}

/// The order of two values of one field.
fn compare(a: &AggregateValue, b: &AggregateValue) -> Ordering {
    match (a, b) {
        (AggregateValue::Int(a), AggregateValue::Int(b)) => a.cmp(b),
        (AggregateValue::Unsigned(a), AggregateValue::Unsigned(b)) => a.cmp(b),
        (AggregateValue::Float(a), AggregateValue::Float(b)) => float_order(*a, *b),
        (AggregateValue::Bool(a), AggregateValue::Bool(b)) => a.cmp(b),
        (AggregateValue::Text(a), AggregateValue::Text(b))
        | (AggregateValue::Bytes(a), AggregateValue::Bytes(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

fn sum_column(
    sums: impl Iterator<Item = Option<AggregateSum>>,
    name: &str,
    kind: &DataType,
) -> Result<ArrayRef> {
    if *kind == DataType::Float64 {
        let sums = sums.map(|sum| {
            sum.map(|sum| match sum {
                AggregateSum::Int(sum) => sum as f64,
                AggregateSum::Unsigned(sum) => sum as f64,
                AggregateSum::Float(sum) => sum,
            })
        });
        return Ok(Arc::new(sums.collect::<Float64Array>()));
    }
    let mut whole = Vec::new();
    for sum in sums {
        whole.push(match sum {
            None => None,
            Some(AggregateSum::Int(sum)) => Some(sum),
            // More than i128 holds is more than 64 bits hold.
            Some(AggregateSum::Unsigned(sum)) => Some(i128::try_from(sum).unwrap_or(i128::MAX)),
            Some(AggregateSum::Float(_)) => {
                return exec_err!("{name}: a sum of floats is no integer");
            }
        });
    }
    let beyond = || exec_err!("{name} is beyond 64 bits; sum a cast of it to DOUBLE instead");
    if *kind == DataType::UInt64 {
        let fits: Option<Vec<Option<u64>>> = whole
            .into_iter()
            .map(|sum| sum.map(u64::try_from).transpose().ok())
            .collect();
        return match fits {
            Some(sums) => Ok(Arc::new(UInt64Array::from(sums))),
            None => beyond(),
        };
    }
    let fits: Option<Vec<Option<i64>>> = whole
        .into_iter()
        .map(|sum| sum.map(i64::try_from).transpose().ok())
        .collect();
    match fits {
        Some(sums) => Ok(Arc::new(Int64Array::from(sums))),
        None => beyond(),
    }
}

fn value_column<'a>(
    values: impl Iterator<Item = Option<&'a AggregateValue>>,
    kind: &DataType,
) -> ArrayRef {
    match kind {
        DataType::Int64 => {
            let values = values.map(|value| match value? {
                AggregateValue::Int(value) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<Int64Array>())
        }
        DataType::UInt64 => {
            let values = values.map(|value| match value? {
                AggregateValue::Unsigned(value) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<UInt64Array>())
        }
        DataType::Boolean => {
            let values = values.map(|value| match value? {
                AggregateValue::Bool(value) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Utf8 => {
            let values = values.map(|value| match value? {
                AggregateValue::Text(value) => std::str::from_utf8(value).ok(),
                _ => None,
            });
            Arc::new(values.collect::<StringArray>())
        }
        DataType::Binary => {
            let values = values.map(|value| match value? {
                AggregateValue::Bytes(value) => Some(value.as_slice()),
                _ => None,
            });
            Arc::new(values.collect::<BinaryArray>())
        }
        _ => {
            let values = values.map(|value| match value? {
                AggregateValue::Float(value) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<Float64Array>())
        }
    }
}
