//! The answer of another query as the input of a query.
//!
//! Does: hold its batches, find columns in them by name, and give them as chunks. Does not: run it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

use super::chunk::{Chunk, absent_column};
use super::groups::{Key, NO_GROUP};
use crate::context::{Charge, Context};
use crate::error::Error;
use crate::evaluate::{Name, Scalar, Slots, scalar_at};
use crate::value::Type;

/// An answer. Its first column is the time.
#[derive(Debug)]
pub(crate) struct Nested {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Columns after the time that are tags of its groups.
    tags: usize,
    /// By row of all batches.
    pub(crate) groups: Vec<u32>,
    /// The memory of the batches.
    _charge: Charge,
}

/// The tags of a batch: those of its groups, and columns that are tags.
fn own_columns(batch: &RecordBatch, tags: usize) -> Vec<&ArrayRef> {
    let columns = batch.columns().iter().enumerate().skip(1);
    let is_tag = |at: usize, column: &ArrayRef| {
        at <= tags || matches!(column.data_type(), DataType::Dictionary(..))
    };
    let own = columns.filter(|(at, column)| is_tag(*at, column));
    own.map(|(_, column)| column).collect()
}

/// Whether a tag of a row has the code of the row before it.
fn is_as_before(column: &ArrayRef, row: usize) -> bool {
    let Some(tags) = column.as_dictionary_opt::<Int32Type>() else {
        return false;
    };
    let keys = tags.keys();
    let same = |row: usize| keys.is_valid(row).then(|| keys.value(row));
    row > 0 && same(row) == same(row - 1)
}

impl Nested {
    pub(crate) fn new(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        tags: usize,
        charge: Charge,
    ) -> Self {
        Self {
            schema,
            batches,
            tags,
            groups: Vec::new(),
            _charge: charge,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    fn place(&self, name: &Name) -> Option<usize> {
        let is_text =
            |at: usize| matches!(self.schema.field(at).data_type(), DataType::Dictionary(..));
        let found = |name: &str| {
            (1..self.schema.fields().len()).find(|at| self.schema.field(*at).name() == name)
        };
        match name {
            Name::Time => Some(0),
            // A column that is a tag as it is, is one.
            Name::Tag(tag) => found(tag).filter(|at| is_text(*at)),
            Name::Field(field) => found(field).filter(|at| *at > self.tags),
        }
    }

    pub(super) fn kind(&self, name: &Name) -> Option<Type> {
        let field = self.schema.field(self.place(name)?);
        Type::of_arrow(field.data_type())
    }

    pub(super) fn names(&self, tags: bool) -> Vec<String> {
        let fields = self.schema.fields().iter().skip(1);
        let (own, others): (Vec<_>, Vec<_>) =
            fields.enumerate().partition(|(at, _)| *at < self.tags);
        let wanted = if tags { own } else { others };
        wanted
            .iter()
            .map(|(_, field)| field.name().clone())
            .collect()
    }

    /// The group of each row, which `number` makes of its tags and of any other that it asks for.
    pub(super) fn groups(
        &self,
        group: &[String],
        context: &Context,
        mut number: impl FnMut(Key, &dyn Fn(&str) -> Option<Arc<str>>) -> Result<u32, Error>,
    ) -> Result<Vec<u32>, Error> {
        let mut numbers = Vec::with_capacity(self.rows());
        for batch in &self.batches {
            context.check()?;
            let column = |name: &str| {
                let place = self.place(&Name::Tag(name.to_owned()))?;
                batch.columns().get(place)
            };
            let columns: Vec<Option<&ArrayRef>> = group.iter().map(|tag| column(tag)).collect();
            // Rows of a group stand together, mostly: the next row has the codes of the one before.
            let shown = own_columns(batch, self.tags);
            let mut known: Option<u32> = None;
            for row in 0..batch.num_rows() {
                if let Some(number) = known.filter(|_| shown.iter().all(|it| is_as_before(it, row)))
                {
                    numbers.push(number);
                    continue;
                }
                let text = |column: &ArrayRef| match scalar_at(column, row) {
                    Some(Scalar::Text(text)) => Some(text),
                    _ => None,
                };
                let key: Key = columns.iter().map(|column| text((*column)?)).collect();
                let of_tag = |name: &str| text(column(name)?);
                let found = number(key, &of_tag)?;
                known = Some(found);
                numbers.push(found);
            }
        }
        Ok(numbers)
    }

    /// The rows of a batch that lie in a range of time.
    pub(super) fn rows_of(
        &self,
        part: usize,
        (first_ns, last_ns): (i64, i64),
        slots: &Slots,
    ) -> Option<Chunk> {
        let batch = self.batches.get(part)?;
        let before = self.batches.iter().take(part).map(RecordBatch::num_rows);
        let before: usize = before.sum();
        let rows = batch.num_rows();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let groups = self.groups.get(before..before + rows).unwrap_or_default();
        let columns = slots.all.iter().map(|(name, kind)| match self.place(name) {
            Some(place) => Arc::clone(batch.column(place)),
            None => absent_column(name, *kind, rows),
        });
        let chunk = Chunk {
            columns: columns.collect(),
            times: times.values().to_vec(),
            groups: groups.to_vec(),
            ties: (before as u64..).take(rows).collect(),
        };
        let pairs = chunk.times.iter().zip(groups);
        let inside = pairs
            .map(|(time, group)| Some(first_ns <= *time && *time <= last_ns && *group != NO_GROUP));
        let inside: BooleanArray = inside.collect();
        Some(chunk.filtered(&inside))
    }
}
