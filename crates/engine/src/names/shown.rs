//! Columns as SQL shows them: the declared order, names and types, over those that leave the engine.
//!
//! Does: say which column that leaves the engine stands where, and turn stored arrays into shown ones. Does not:
//! read anything.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, PrimitiveArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::declared::{Check, DeclaredTime, TimeKind, enum_of_check};
use crate::logical::LogicalType;

/// The key in a field's metadata of the name that SQL has for its declared type.
pub const SQL_TYPE: &str = "sql_type";

/// What stands in it before the name of an enumeration.
pub const ENUM_TYPE: &str = "enum ";

const DAY_NS: i64 = 86_400_000_000_000;

/// The columns of a table or a relation as SQL shows them.
#[derive(Debug)]
pub struct ShownColumns {
    /// Names and types.
    pub schema: SchemaRef,
    columns: Vec<ShownColumn>,
}

/// A column as it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownColumn {
    /// Its position among the columns that leave the engine.
    position: usize,
    how: How,
}

/// How stored values become shown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    AsStored,
    Type(LogicalType),
    Time(TimeKind),
    /// A tag whose texts are integers.
    Integer,
}

impl ShownColumns {
    /// The same, with the enumerations that columns are of.
    pub(crate) fn with_enumerations(mut self, checks: &[Check]) -> Self {
        let enums: Vec<(String, String)> = checks.iter().filter_map(enum_of_check).collect();
        if enums.is_empty() {
            return self;
        }
        let fields = self.schema.fields().iter().map(|field| {
            let found = enums.iter().find(|(_, column)| column == field.name());
            let mut field = field.as_ref().clone();
            if let Some((of, _)) = found {
                let named = (SQL_TYPE.to_owned(), format!("{ENUM_TYPE}{of}"));
                field.set_metadata(HashMap::from([named]));
            }
            field
        });
        self.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The position among the columns that leave the engine of what is shown at `at`.
    pub fn position(&self, at: usize) -> Option<usize> {
        self.columns.get(at).map(|column| column.position)
    }

    /// Where the column that leaves the engine at `position` is shown.
    pub fn shown_at(&self, position: usize) -> Option<usize> {
        let mut columns = self.columns.iter();
        columns.position(|column| column.position == position)
    }

    /// The position among the columns that leave the engine of what is shown under this name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.position(self.schema.index_of(name).ok()?)
    }

    /// Whether values of what is shown at `at` are shown as they are stored, so that the store understands conditions on them.
    pub fn is_as_stored(&self, at: usize) -> bool {
        self.columns.get(at).is_none_or(|column| match column.how {
            How::AsStored => true,
            How::Type(of) => of.is_shown_as_stored(),
            How::Time(kind) => kind == TimeKind::TimestampTz,
            How::Integer => false,
        })
    }

    /// Whether nothing was declared that SQL shows: columns are what leaves the engine, in its order.
    pub fn is_plain(&self) -> bool {
        let mut columns = self.columns.iter().enumerate();
        columns.all(|(at, column)| at == column.position && column.how == How::AsStored)
    }

    /// Stored values of what is shown at `at`, as they are shown.
    pub fn show(&self, at: usize, stored: &ArrayRef) -> ArrayRef {
        match self.columns.get(at).map(|column| column.how) {
            None | Some(How::AsStored) => Arc::clone(stored),
            Some(How::Type(of)) => of.show(stored),
            Some(How::Time(kind)) => show_time(kind, stored),
            Some(How::Integer) => show_integers(stored),
        }
    }
}

/// Times as a column of this kind shows them.
pub fn show_time(kind: TimeKind, stored: &ArrayRef) -> ArrayRef {
    let Some(times) = stored.as_primitive_opt::<TimestampNanosecondType>() else {
        return Arc::clone(stored);
    };
    match kind {
        TimeKind::TimestampTz => Arc::clone(stored),
        TimeKind::Timestamp => Arc::new(times.clone().with_data_type(shown_time_type(kind))),
        TimeKind::Date => {
            // A day of nanoseconds fits 32 bits.
            let days = times
                .iter()
                .map(|it| i32::try_from(it?.div_euclid(DAY_NS)).ok());
            Arc::new(days.collect::<PrimitiveArray<arrow_array::types::Date32Type>>())
        }
        TimeKind::Integer { unit_ns } => {
            let units: Int64Array = times.unary(|it| it.div_euclid(unit_ns.max(1)));
            Arc::new(units)
        }
    }
}

/// Texts of integers, as tags have them, maybe by dictionary, as integers.
pub fn show_integers(stored: &ArrayRef) -> ArrayRef {
    let texts = |array: &ArrayRef| -> Int64Array {
        match array.as_string_opt::<i32>() {
            Some(texts) => texts.iter().map(|it| it?.parse().ok()).collect(),
            None => Int64Array::new_null(array.len()),
        }
    };
    let Some(dictionary) = stored.as_any_dictionary_opt() else {
        return Arc::new(texts(stored));
    };
    let values = texts(dictionary.values());
    if values.is_empty() {
        return Arc::new(Int64Array::new_null(stored.len()));
    }
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    let integers = keys.map(|(row, key)| {
        let is_there = stored.is_valid(row) && values.is_valid(key);
        is_there.then(|| values.value(key))
    });
    let integers: PrimitiveArray<Int64Type> = integers.collect();
    Arc::new(integers)
}

/// Arrow's type of a time column.
pub fn shown_time_type(kind: TimeKind) -> DataType {
    match kind {
        TimeKind::TimestampTz => crate::schema::time_type(),
        TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        TimeKind::Date => DataType::Date32,
        TimeKind::Integer { .. } => DataType::Int64,
    }
}

impl ShownColumn {
    /// One that is shown as it leaves the engine.
    pub(crate) fn as_stored(position: usize, field: Field) -> (Field, Self) {
        let how = How::AsStored;
        (field, Self { position, how })
    }

    /// One of a logical type; of a tag, its texts are integers.
    pub(crate) fn of(
        position: usize,
        field: Field,
        of: LogicalType,
        is_tag: bool,
    ) -> (Field, Self) {
        let how = if is_tag { How::Integer } else { How::Type(of) };
        let said = [(SQL_TYPE.to_owned(), of.to_string())];
        let field = field
            .with_data_type(of.shown_type())
            .with_metadata(said.into());
        (field, Self { position, how })
    }

    /// The time column.
    pub(crate) fn time(position: usize, field: Field, time: &DeclaredTime) -> (Field, Self) {
        let how = How::Time(time.kind);
        let mut field = field
            .with_name(&time.name)
            .with_data_type(shown_time_type(time.kind));
        if let Some(of) = time.column.of {
            field = field.with_metadata([(SQL_TYPE.to_owned(), of.to_string())].into());
        }
        (field, Self { position, how })
    }
}

impl ShownColumns {
    pub(crate) fn of(columns: impl Iterator<Item = (Field, ShownColumn)>) -> Self {
        let (fields, columns): (Vec<Field>, Vec<ShownColumn>) = columns.unzip();
        Self {
            schema: Arc::new(Schema::new(fields)),
            columns,
        }
    }
}
