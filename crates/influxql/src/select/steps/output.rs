//! Rows as the sets of an answer.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nilometer_service::{Set, SetHead};

use crate::select::planned::plan::Plan;
use crate::select::values::rows::Rows;
use crate::select::values::value::{Kind, Value};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// An answer that is there: its sets in order, as they are asked for.
#[derive(Debug)]
pub(crate) struct Ready {
    rows: Rows,
    schema: SchemaRef,
    kinds: Vec<Kind>,
    next: usize,
}

impl Ready {
    pub(crate) fn new(plan: &Plan, rows: Rows) -> Self {
        let kinds: Vec<Kind> = rows
            .columns
            .iter()
            .map(|column| kind_of_column(column))
            .collect();
        let names = plan.outputs.iter().map(|output| &output.name);
        let mut fields = vec![Field::new(&plan.time_name, time_type(plan), false)];
        fields.extend(
            names
                .zip(&kinds)
                .map(|(name, kind)| Field::new(&**name, arrow_type(*kind), true)),
        );
        Self {
            rows,
            schema: Arc::new(Schema::new(fields)),
            kinds,
            next: 0,
        }
    }
}

/// Timestamps in the zone in which they are shown.
pub(crate) fn time_type(plan: &Plan) -> DataType {
    let zone = plan.zone.as_deref().unwrap_or("UTC");
    DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()))
}

fn arrow_type(kind: Kind) -> DataType {
    match kind {
        Kind::Float => DataType::Float64,
        Kind::Integer => DataType::Int64,
        Kind::Unsigned => DataType::UInt64,
        Kind::Boolean => DataType::Boolean,
        Kind::Text | Kind::Tag => DataType::Utf8,
    }
}

/// The type of a column's values; of numbers of two types a float.
fn kind_of_column(column: &[Value]) -> Kind {
    let mut found: Option<Kind> = None;
    for value in column {
        let kind = match value {
            Value::Null => continue,
            Value::Float(_) => Kind::Float,
            Value::Integer(_) => Kind::Integer,
            Value::Unsigned(_) => Kind::Unsigned,
            Value::Boolean(_) => Kind::Boolean,
            Value::Text(_) => Kind::Text,
        };
        found = Some(found.map_or(kind, |known| known.min(kind)));
        if found == Some(Kind::Float) {
            break;
        }
    }
    found.unwrap_or(Kind::Float)
}

impl Iterator for Ready {
    type Item = Set;

    fn next(&mut self) -> Option<Set> {
        let first = self.next;
        if first >= self.rows.len() {
            return None;
        }
        let set = self.rows.set_of(first);
        let longest = first.saturating_add(BATCH_ROWS).min(self.rows.len());
        let end = (first..longest)
            .find(|row| self.rows.set_of(*row) != set)
            .unwrap_or(longest);
        self.next = end;
        let key = self.rows.sets.key(set);
        let head = SetHead {
            name: Arc::clone(&key.name),
            tags: key.tags.clone(),
        };
        let times = self.rows.times.get(first..end).unwrap_or_default().to_vec();
        let times = TimestampNanosecondArray::from(times)
            .with_data_type(self.schema.field(0).data_type().clone());
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(times)];
        for (column, kind) in self.rows.columns.iter().zip(&self.kinds) {
            arrays.push(array(column.get(first..end).unwrap_or_default(), *kind));
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .expect("the arrays are of the types that the schema was made of");
        Some(Set::new(head, rows))
    }
}

fn array(values: &[Value], kind: Kind) -> ArrayRef {
    macro_rules! collected {
        ($array:ty, $($pattern:pat => $value:expr),*) => {
            Arc::new(values.iter().map(|value| match value {
                $($pattern => $value,)*
                _ => None,
            }).collect::<$array>())
        };
    }
    match kind {
        Kind::Float => Arc::new(values.iter().map(Value::as_float).collect::<Float64Array>()),
        Kind::Integer => collected!(
            Int64Array,
            Value::Integer(value) => Some(*value),
            Value::Unsigned(value) => i64::try_from(*value).ok()
        ),
        Kind::Unsigned => collected!(UInt64Array, Value::Unsigned(value) => Some(*value)),
        Kind::Boolean => collected!(BooleanArray, Value::Boolean(value) => Some(*value)),
        Kind::Text | Kind::Tag => collected!(StringArray, Value::Text(text) => Some(&**text)),
    }
}
