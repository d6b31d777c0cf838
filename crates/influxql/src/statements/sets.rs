//! Tables of an answer, column by column.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{Field, Schema};
use nilometer_service::{Set, SetHead};

/// A table that is made.
#[derive(Debug, Default)]
pub(super) struct Table {
    name: String,
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl Table {
    /// Without columns; an empty name is not shown.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn column(mut self, name: &str, column: ArrayRef) -> Self {
        let data_type = column.data_type().clone();
        self.fields.push(Field::new(name, data_type, true));
        self.columns.push(column);
        self
    }

    pub(super) fn texts<T: AsRef<str>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values = StringArray::from_iter_values(values);
        self.column(name, Arc::new(values))
    }

    pub(super) fn ints(self, name: &str, values: Vec<i64>) -> Self {
        self.column(name, Arc::new(Int64Array::from(values)))
    }

    pub(super) fn flags(self, name: &str, values: Vec<bool>) -> Self {
        self.column(name, Arc::new(BooleanArray::from(values)))
    }

    /// Times as texts in any case: those of shards are none that the client asks to have as numbers.
    pub(super) fn times(self, name: &str, values: Vec<i64>) -> Self {
        let values = TimestampNanosecondArray::from(values).with_timezone("UTC");
        self.column(name, Arc::new(values))
    }

    pub(super) fn set(self) -> Set {
        self.tagged(std::iter::empty::<(&str, &str)>())
    }

    /// With tags, in the order in which they are shown.
    pub(super) fn tagged<N: AsRef<str>, V: AsRef<str>>(
        self,
        tags: impl IntoIterator<Item = (N, V)>,
    ) -> Set {
        let rows = self.columns.first().map_or(0, |column| column.len());
        let schema = Arc::new(Schema::new(self.fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(schema, self.columns, &options)
            .expect("columns of one length and of the types that the schema has from them");
        let tags = tags.into_iter();
        let tags = tags.map(|(name, value)| (name.as_ref().into(), value.as_ref().into()));
        let (name, tags) = (self.name.into(), tags.collect());
        Set::new(SetHead { name, tags }, rows)
    }
}

/// The part of a list that LIMIT and OFFSET leave; a limit of 0 is none.
pub(super) fn window<T>(
    rows: impl IntoIterator<Item = T>,
    limit: u64,
    offset: u64,
) -> impl Iterator<Item = T> {
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let limit = if limit == 0 { usize::MAX } else { count(limit) };
    rows.into_iter().skip(count(offset)).take(limit)
}

/// Whether LIMIT and OFFSET leave the only row of a list.
pub(super) fn is_left(limit: u64, offset: u64) -> bool {
    window([()], limit, offset).next().is_some()
}
