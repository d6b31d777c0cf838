//! Values of relations: rows in memory, equality of keys.
//!
//! Does: compare and hash keys, turn rows into columns and back. Does not: know relations.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use super::Rows;
use crate::batch::{Column, Values};
use crate::schema::ColumnId;

/// A value of a relation, or none.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A float.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Text(Box<str>),
    /// Bytes.
    Bytes(Box<[u8]>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::U64(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::I64(value) => write!(f, "{value}"),
            Self::U64(value) => write!(f, "{value}"),
            Self::F64(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Bytes(value) => {
                f.write_str("0x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl Value {
    /// Its type; null has none.
    pub fn kind(&self) -> Option<PhysicalType> {
        Some(match self {
            Self::Null => return None,
            Self::I64(_) => PhysicalType::I64,
            Self::U64(_) => PhysicalType::U64,
            Self::F64(_) => PhysicalType::F64,
            Self::Bool(_) => PhysicalType::Bool,
            Self::Text(_) => PhysicalType::Text,
            Self::Bytes(_) => PhysicalType::Bytes,
        })
    }

    /// Bytes of it outside of the row.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(value) => value.len(),
            Self::Bytes(value) => value.len(),
            _ => 0,
        }
    }

    /// Whether two values make keys equal: floats as numbers, every NaN as one, null as nothing.
    pub(super) fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, _) => false,
            (Self::F64(a), Self::F64(b)) => float_key(*a) == float_key(*b),
            _ => self == other,
        }
    }

    /// Hashes alike whatever [`Self::matches`].
    pub(crate) fn hash_key(&self, state: &mut impl Hasher) {
        match self {
            Self::Null => {}
            Self::I64(value) => value.hash(state),
            Self::U64(value) => value.hash(state),
            Self::F64(value) => float_key(*value).hash(state),
            Self::Bool(value) => value.hash(state),
            Self::Text(value) => value.hash(state),
            Self::Bytes(value) => value.hash(state),
        }
    }
}

/// Equal for floats that are one key.
fn float_key(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        // Turns -0.0 into 0.0.
        (value + 0.0).to_bits()
    }
}

/// A row of a relation, a value for each of its columns.
pub(crate) type Row = Arc<[Value]>;

impl Rows {
    /// The values of one row. `None` = text that is not UTF-8, or no such row.
    pub(super) fn row(&self, row: usize) -> Option<Row> {
        self.values(row).map(Into::into)
    }

    /// As [`Self::row`], to be changed.
    pub(crate) fn values(&self, row: usize) -> Option<Vec<Value>> {
        let values = self.columns.iter().map(|column| value_at(column, row));
        values.collect()
    }

    /// Numbers the rows that have no number yet, in the column at a place.
    pub(crate) fn number(&mut self, at: usize, mut next: i64) {
        let Some(column) = self.columns.get_mut(at) else {
            return;
        };
        let mut numbered = Column::new(column.id, column.values.kind());
        for row in 0..self.rows {
            let known = value_at(column, row).filter(|value| *value != Value::Null);
            let value = known.unwrap_or_else(|| {
                next += 1;
                Value::I64(next - 1)
            });
            push(&mut numbered, &value);
        }
        *column = numbered;
    }

    /// The largest number in the column at a place.
    pub(super) fn largest(&self, at: usize) -> Option<i64> {
        match &self.columns.get(at)?.values {
            Values::I64(values) => values.iter().copied().max(),
            _ => None,
        }
    }

    /// Rows with the values of `rows` at these positions, of these types; the caller has checked that they fit.
    pub(crate) fn of<'a>(
        positions: impl IntoIterator<Item = (u32, PhysicalType)>,
        rows: impl ExactSizeIterator<Item = &'a [Value]>,
    ) -> Self {
        let columns = positions
            .into_iter()
            .map(|(position, kind)| Column::new(ColumnId(position), kind));
        let mut all = Self {
            rows: rows.len(),
            columns: columns.collect(),
        };
        for row in rows {
            for (column, value) in all.columns.iter_mut().zip(row) {
                push(column, value);
            }
        }
        all
    }
}

/// Adds a value; one of another type is null.
pub(super) fn push(column: &mut Column, value: &Value) {
    match (&mut column.values, value) {
        (Values::I64(to), Value::I64(value)) => to.push(*value),
        (Values::U64(to), Value::U64(value)) => to.push(*value),
        (Values::F64(to), Value::F64(value)) => to.push(*value),
        (Values::Bool(to), Value::Bool(value)) => to.push(*value),
        (Values::Text(to), Value::Text(value)) => to.push(value.as_bytes()),
        (Values::Bytes(to), Value::Bytes(value)) => to.push(value),
        (to, _) => {
            to.extend_default(1);
            column.validity.push(false);
            return;
        }
    }
    column.validity.push(true);
}

fn value_at(column: &Column, row: usize) -> Option<Value> {
    if !column.validity.is_valid(row) {
        return Some(Value::Null);
    }
    Some(match &column.values {
        Values::I64(values) => Value::I64(*values.get(row)?),
        Values::U64(values) => Value::U64(*values.get(row)?),
        Values::F64(values) => Value::F64(*values.get(row)?),
        Values::Bool(values) => Value::Bool(*values.get(row)?),
        Values::Text(values) => Value::Text(std::str::from_utf8(values.get(row)).ok()?.into()),
        Values::Bytes(values) => Value::Bytes(values.get(row).into()),
    })
}
