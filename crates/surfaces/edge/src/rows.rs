//! Rows of pages by table, as record batches.
//!
//! Does: put blocks of series into columns, one batch a table as long as columns keep their types; a column that a block lacks is
//! null in its rows. Does not: know pages, or compare columns with those of a table that is there.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
    StringDictionaryBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::ArrowError;
use nilometer_codec::{ColumnBuf, PhysicalType};
use nilometer_service::{DeviceRows, PageBlock};

use crate::page::{Block, TIME};

/// The rows of a request so far.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    batches: Vec<Batch>,
    /// The last batch of each table: rows of one key come in the order of the pages.
    last: HashMap<String, usize>,
    count: usize,
}

#[derive(Debug)]
struct Batch {
    table: String,
    times: Vec<i64>,
    columns: BTreeMap<String, Column>,
    blocks: Vec<PageBlock>,
}

enum Column {
    Tag(StringDictionaryBuilder<Int32Type>),
    I64(Int64Builder),
    U64(UInt64Builder),
    F64(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Column").field(&self.kind()).finish()
    }
}

impl Rows {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many tables there would be with these.
    pub(crate) fn tables_with(&self, blocks: &[Block]) -> usize {
        let mut new: Vec<&str> = blocks.iter().map(|block| block.table.as_str()).collect();
        new.retain(|table| !self.last.contains_key(*table));
        new.sort_unstable();
        new.dedup();
        self.last.len() + new.len()
    }

    /// Adds the rows of a series. `from` says which page they come from, and which block of it, if it is kept.
    pub(crate) fn add(
        &mut self,
        block: &Block,
        from: Option<(usize, usize)>,
    ) -> Result<(), ArrowError> {
        self.count += block.times.len();
        let known = self.last.get(&block.table).copied();
        let fits = |at: &usize| self.batches.get(*at).is_some_and(|batch| batch.fits(block));
        let at = match known.filter(fits) {
            Some(at) => at,
            None => self.begin(&block.table),
        };
        match self.batches.get_mut(at) {
            Some(batch) => {
                batch.note(block, from);
                batch.add(block)
            }
            None => Ok(()),
        }
    }

    /// Begins a batch of a table and says where it is.
    fn begin(&mut self, table: &str) -> usize {
        self.batches.push(Batch {
            table: table.to_owned(),
            times: Vec::new(),
            columns: BTreeMap::new(),
            blocks: Vec::new(),
        });
        let at = self.batches.len() - 1;
        self.last.insert(table.to_owned(), at);
        at
    }

    /// All of them.
    pub(crate) fn finish(self) -> Result<Vec<DeviceRows>, ArrowError> {
        self.batches.into_iter().map(Batch::finish).collect()
    }
}

impl Batch {
    /// Whether each column of a block is new or what it is here.
    fn fits(&self, block: &Block) -> bool {
        let is_tag = |name: &String| {
            let known = self.columns.get(name);
            known.is_none_or(|known| matches!(known, Column::Tag(_)))
        };
        let is_field = |(name, values): &(String, ColumnBuf)| {
            let known = self.columns.get(name);
            known.is_none_or(|known| known.kind() == Some(values.physical_type()))
        };
        block.tags.iter().all(|(name, _)| is_tag(name)) && block.fields.iter().all(is_field)
    }

    /// Notes where the rows of a block of a page are going to be.
    fn note(&mut self, block: &Block, from: Option<(usize, usize)>) {
        self.blocks.extend(from.map(|(page, at)| PageBlock {
            page,
            block: at,
            first_row: self.times.len(),
            fields: block.fields.iter().map(|(name, _)| name.clone()).collect(),
        }));
    }

    fn add(&mut self, block: &Block) -> Result<(), ArrowError> {
        let (before, rows) = (self.times.len(), block.times.len());
        self.times.extend_from_slice(&block.times);
        for (name, value) in &block.tags {
            let column = self.columns.entry(name.clone());
            let column = column
                .or_insert_with(|| Column::Tag(StringDictionaryBuilder::with_capacity(0, 0, 0)));
            column.pad(before);
            if let Column::Tag(builder) = column {
                builder.append_n(value, rows)?;
            }
        }
        for (name, values) in &block.fields {
            let column = self.columns.entry(name.clone());
            let column = column.or_insert_with(|| Column::of(values.physical_type()));
            column.pad(before);
            column.append(values);
        }
        Ok(())
    }

    fn finish(self) -> Result<DeviceRows, ArrowError> {
        let rows = self.times.len();
        let times: ArrayRef = Arc::new(Int64Array::from(self.times));
        let mut columns = vec![(TIME.to_owned(), times)];
        let mut tags = Vec::new();
        for (name, mut column) in self.columns {
            column.pad(rows);
            if matches!(column, Column::Tag(_)) {
                tags.push(name.clone());
            }
            columns.push((name, column.finish()));
        }
        Ok(DeviceRows {
            table: self.table,
            tags,
            blocks: self.blocks,
            // Null where a column is not one of a series.
            rows: RecordBatch::try_from_iter_with_nullable(
                columns
                    .into_iter()
                    .map(|(name, values)| (name, values, true)),
            )?,
        })
    }
}

impl Column {
    fn of(kind: PhysicalType) -> Self {
        // None has room before it has values: a request may name very many columns.
        match kind {
            PhysicalType::I64 => Self::I64(Int64Builder::with_capacity(0)),
            PhysicalType::U64 => Self::U64(UInt64Builder::with_capacity(0)),
            PhysicalType::F64 => Self::F64(Float64Builder::with_capacity(0)),
            PhysicalType::Bool => Self::Bool(BooleanBuilder::with_capacity(0)),
            PhysicalType::Text => Self::Text(StringBuilder::with_capacity(0, 0)),
            PhysicalType::Bytes => Self::Bytes(BinaryBuilder::with_capacity(0, 0)),
        }
    }

    /// The type of a field; `None` = it is a tag.
    fn kind(&self) -> Option<PhysicalType> {
        Some(match self {
            Self::Tag(_) => return None,
            Self::I64(_) => PhysicalType::I64,
            Self::U64(_) => PhysicalType::U64,
            Self::F64(_) => PhysicalType::F64,
            Self::Bool(_) => PhysicalType::Bool,
            Self::Text(_) => PhysicalType::Text,
            Self::Bytes(_) => PhysicalType::Bytes,
        })
    }

    /// Adds nulls up to `rows`.
    fn pad(&mut self, rows: usize) {
        use arrow_array::builder::ArrayBuilder as _;
        macro_rules! pad {
            ($($name:ident),*) => {
                match self {
                    $(Self::$name(builder) => {
                        let missing = rows.saturating_sub(builder.len());
                        if missing > 0 {
                            builder.append_nulls(missing);
                        }
                    })*
                }
            };
        }
        pad!(Tag, I64, U64, F64, Bool, Text, Bytes);
    }

    /// Adds values of its own type.
    fn append(&mut self, values: &ColumnBuf) {
        let (offsets, bytes) = values.text();
        let texts = || {
            let pairs = offsets.array_windows();
            pairs.map(|[start, end]| {
                bytes
                    .get(*start as usize..*end as usize)
                    .unwrap_or_default()
            })
        };
        match self {
            Self::Tag(_) => {}
            Self::I64(builder) => builder.append_slice(values.i64s()),
            Self::U64(builder) => builder.append_slice(values.u64s()),
            Self::F64(builder) => builder.append_slice(values.f64s()),
            Self::Bool(builder) => builder.append_slice(values.bools()),
            Self::Text(builder) => {
                for text in texts() {
                    // The decoder has checked that it is UTF-8.
                    builder.append_value(String::from_utf8_lossy(text));
                }
            }
            Self::Bytes(builder) => texts().for_each(|value| builder.append_value(value)),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Tag(mut builder) => Arc::new(builder.finish()),
            Self::I64(mut builder) => Arc::new(builder.finish()),
            Self::U64(mut builder) => Arc::new(builder.finish()),
            Self::F64(mut builder) => Arc::new(builder.finish()),
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Bytes(mut builder) => Arc::new(builder.finish()),
        }
    }
}
