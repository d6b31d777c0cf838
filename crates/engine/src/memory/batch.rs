//! Rows on their way in: columns grouped by table, as the log writes them and the head keeps them.
//!
//! Does: own typed columns with optional validity, append, pad, gather. Does not: know names or files.

mod validity;

use std::sync::Arc;

use nilometer_codec::{ColumnBuf, ColumnRef, PhysicalType, ValuesRef};

use crate::kept_page::KeptPage;
use crate::relation;
use crate::schema::{ColumnId, TableId};
use crate::tombstone::Tombstone;
pub(crate) use validity::Validity;

/// The values of one column, dense: a slot for every row, whatever stands in a null one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// Signed integers.
    I64(Vec<i64>),
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Floats, kept bit for bit.
    F64(Vec<f64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Text: row i is `bytes[offsets[i]..offsets[i + 1]]`.
    Text(Strings),
    /// Bytes, laid out as text.
    Bytes(Strings),
}

/// Strings of bytes one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strings {
    /// One more than there are rows; the first is 0.
    pub(crate) offsets: Vec<u32>,
    /// What they point into.
    pub(crate) bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }
}

impl Strings {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The bytes of one row; empty when there is no such row.
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        let (Some(&start), Some(&end)) = (self.offsets.get(row), self.offsets.get(row + 1)) else {
            return &[];
        };
        self.bytes
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.offsets.push(self.end());
    }

    /// Adds all rows of an array of Arrow's; false = its offsets are none, and nothing was added.
    pub(crate) fn extend_from_arrow(&mut self, offsets: &[i32], bytes: &[u8]) -> bool {
        let place = |at: &i32| u32::try_from(*at).ok();
        let (Some(first), Some(last)) = (
            offsets.first().and_then(place),
            offsets.last().and_then(place),
        ) else {
            return false;
        };
        let Some(bytes) = bytes.get(first as usize..last as usize) else {
            return false;
        };
        let start = self.end();
        self.bytes.extend_from_slice(bytes);
        // All that follow are below this one, which is checked.
        let _ = self.end();
        let ends = offsets.get(1..).unwrap_or_default();
        let ends = ends.iter().map(|end| start + (end.cast_unsigned() - first));
        self.offsets.extend(ends);
        true
    }

    fn end(&self) -> u32 {
        // A batch and a head run are limited far below 4 GiB of text; see `BATCH_TEXT_BYTES_MAX`.
        u32::try_from(self.bytes.len()).expect("less than 4 GiB of text in one column of one run")
    }

    fn extend(&mut self, other: &Self, rows: std::ops::Range<usize>) {
        // A row that is not there is an empty one.
        let there = rows.start.min(other.len())..rows.end.min(other.len());
        let offsets = other.offsets.get(there.start..=there.end);
        self.append(offsets.unwrap_or_default(), &other.bytes);
        for _ in there.len()..rows.len() {
            self.push(&[]);
        }
    }

    /// Adds rows whose first begins at the first of the offsets, which are one more than there are rows.
    fn append(&mut self, offsets: &[u32], bytes: &[u8]) {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
            return;
        };
        let start = self.end();
        let rows = bytes.get(first as usize..last as usize);
        self.bytes.extend_from_slice(rows.unwrap_or_default());
        // All that follow are below this one, which is checked.
        let _ = self.end();
        let ends = offsets.get(1..).unwrap_or_default();
        self.offsets
            .extend(ends.iter().map(|end| start + (end - first)));
    }
}

impl Values {
    /// No rows of this type.
    pub(crate) fn new(kind: PhysicalType) -> Self {
        match kind {
            PhysicalType::I64 => Self::I64(Vec::new()),
            PhysicalType::U64 => Self::U64(Vec::new()),
            PhysicalType::F64 => Self::F64(Vec::new()),
            PhysicalType::Bool => Self::Bool(Vec::new()),
            PhysicalType::Text => Self::Text(Strings::default()),
            PhysicalType::Bytes => Self::Bytes(Strings::default()),
        }
    }

    /// Their type.
    pub(crate) fn kind(&self) -> PhysicalType {
        match self {
            Self::I64(_) => PhysicalType::I64,
            Self::U64(_) => PhysicalType::U64,
            Self::F64(_) => PhysicalType::F64,
            Self::Bool(_) => PhysicalType::Bool,
            Self::Text(_) => PhysicalType::Text,
            Self::Bytes(_) => PhysicalType::Bytes,
        }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(strings) | Self::Bytes(strings) => strings.len(),
        }
    }

    /// Memory in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::I64(values) => values.len() * 8,
            Self::U64(values) => values.len() * 8,
            Self::F64(values) => values.len() * 8,
            Self::Bool(values) => values.len(),
            Self::Text(strings) | Self::Bytes(strings) => {
                strings.bytes.len() + strings.offsets.len() * 4
            }
        }
    }

    /// Shortens to `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::I64(values) => values.truncate(rows),
            Self::U64(values) => values.truncate(rows),
            Self::F64(values) => values.truncate(rows),
            Self::Bool(values) => values.truncate(rows),
            Self::Text(strings) | Self::Bytes(strings) => {
                strings.offsets.truncate(rows + 1);
                let end = strings.offsets.last().copied().unwrap_or(0);
                strings.bytes.truncate(end as usize);
            }
        }
    }

    /// Appends rows of another column of the same type; another type appends nothing and returns false.
    pub(crate) fn extend_range(&mut self, other: &Self, rows: std::ops::Range<usize>) -> bool {
        match (self, other) {
            (Self::I64(to), Self::I64(from)) => extend_slice(to, from, rows),
            (Self::U64(to), Self::U64(from)) => extend_slice(to, from, rows),
            (Self::F64(to), Self::F64(from)) => extend_slice(to, from, rows),
            (Self::Bool(to), Self::Bool(from)) => extend_slice(to, from, rows),
            (Self::Text(to), Self::Text(from)) | (Self::Bytes(to), Self::Bytes(from)) => {
                to.extend(from, rows);
            }
            _ => return false,
        }
        true
    }

    /// Appends picked rows of another column of the same type; another type appends nothing and returns false.
    pub(crate) fn extend_picked(&mut self, other: &Self, rows: &[u32]) -> bool {
        match (self, other) {
            (Self::I64(to), Self::I64(from)) => extend_picked(to, from, rows),
            (Self::U64(to), Self::U64(from)) => extend_picked(to, from, rows),
            (Self::F64(to), Self::F64(from)) => extend_picked(to, from, rows),
            (Self::Bool(to), Self::Bool(from)) => extend_picked(to, from, rows),
            (Self::Text(to), Self::Text(from)) | (Self::Bytes(to), Self::Bytes(from)) => {
                for &row in rows {
                    to.push(from.get(row as usize));
                }
            }
            _ => return false,
        }
        true
    }

    /// Adds `rows` slots for null rows.
    pub(crate) fn extend_default(&mut self, rows: usize) {
        match self {
            Self::I64(values) => values.resize(values.len() + rows, 0),
            Self::U64(values) => values.resize(values.len() + rows, 0),
            Self::F64(values) => values.resize(values.len() + rows, 0.0),
            Self::Bool(values) => values.resize(values.len() + rows, false),
            Self::Text(strings) | Self::Bytes(strings) => {
                let end = strings.offsets.last().copied().unwrap_or(0);
                strings.offsets.resize(strings.offsets.len() + rows, end);
            }
        }
    }

    /// Makes the number of a null row what null rows have; text of a null row is empty already.
    pub(crate) fn clear(&mut self, row: usize) {
        match self {
            Self::I64(values) => put_default(values, row),
            Self::U64(values) => put_default(values, row),
            Self::F64(values) => put_default(values, row),
            Self::Bool(values) => put_default(values, row),
            Self::Text(_) | Self::Bytes(_) => {}
        }
    }

    /// Takes the values that a page decoded to.
    pub(crate) fn from_page(page: &ColumnBuf) -> Self {
        match page.physical_type() {
            PhysicalType::I64 => Self::I64(page.i64s().to_vec()),
            PhysicalType::U64 => Self::U64(page.u64s().to_vec()),
            PhysicalType::F64 => Self::F64(page.f64s().to_vec()),
            PhysicalType::Bool => Self::Bool(page.bools().to_vec()),
            PhysicalType::Text => Self::Text(strings_of(page)),
            PhysicalType::Bytes => Self::Bytes(strings_of(page)),
        }
    }

    /// Appends the rows of a page of the same type; another type appends nothing and returns false.
    pub(crate) fn extend_from_page(&mut self, page: &ColumnBuf) -> bool {
        match (self, page.as_column().values) {
            (Self::I64(to), ValuesRef::I64(from)) => to.extend_from_slice(from),
            (Self::U64(to), ValuesRef::U64(from)) => to.extend_from_slice(from),
            (Self::F64(to), ValuesRef::F64(from)) => to.extend_from_slice(from),
            (Self::Bool(to), ValuesRef::Bool(from)) => to.extend_from_slice(from),
            (Self::Text(to), ValuesRef::Text { offsets, bytes })
            | (Self::Bytes(to), ValuesRef::Bytes { offsets, bytes }) => to.append(offsets, bytes),
            _ => return false,
        }
        true
    }

    /// Makes room for so many rows, of which text has so many bytes.
    pub(crate) fn reserve(&mut self, rows: usize, text_bytes: usize) {
        match self {
            Self::I64(values) => values.reserve_exact(rows),
            Self::U64(values) => values.reserve_exact(rows),
            Self::F64(values) => values.reserve_exact(rows),
            Self::Bool(values) => values.reserve_exact(rows),
            Self::Text(strings) | Self::Bytes(strings) => {
                strings.offsets.reserve_exact(rows);
                strings.bytes.reserve_exact(text_bytes);
            }
        }
    }

    /// The rows `rows` as the codec takes them.
    pub(crate) fn slice(&self, rows: std::ops::Range<usize>) -> ValuesRef<'_> {
        match self {
            Self::I64(values) => ValuesRef::I64(values.get(rows).unwrap_or_default()),
            Self::U64(values) => ValuesRef::U64(values.get(rows).unwrap_or_default()),
            Self::F64(values) => ValuesRef::F64(values.get(rows).unwrap_or_default()),
            Self::Bool(values) => ValuesRef::Bool(values.get(rows).unwrap_or_default()),
            Self::Text(strings) => ValuesRef::Text {
                offsets: strings
                    .offsets
                    .get(rows.start..=rows.end)
                    .unwrap_or_default(),
                bytes: &strings.bytes,
            },
            Self::Bytes(strings) => ValuesRef::Bytes {
                offsets: strings
                    .offsets
                    .get(rows.start..=rows.end)
                    .unwrap_or_default(),
                bytes: &strings.bytes,
            },
        }
    }
}

fn strings_of(page: &ColumnBuf) -> Strings {
    let (offsets, bytes) = page.text();
    Strings {
        offsets: offsets.to_vec(),
        bytes: bytes.to_vec(),
    }
}

fn put_default<T: Default>(values: &mut [T], row: usize) {
    if let Some(value) = values.get_mut(row) {
        *value = T::default();
    }
}

fn extend_slice<T: Copy>(to: &mut Vec<T>, from: &[T], rows: std::ops::Range<usize>) {
    to.extend_from_slice(from.get(rows).unwrap_or_default());
}

fn extend_picked<T: Copy + Default>(to: &mut Vec<T>, from: &[T], rows: &[u32]) {
    to.extend(
        rows.iter()
            .map(|&row| from.get(row as usize).copied().unwrap_or_default()),
    );
}

/// One column of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Which column.
    pub(crate) id: ColumnId,
    /// Its values, a slot for every row.
    pub(crate) values: Values,
    /// Which of them count.
    pub(crate) validity: Validity,
}

impl Column {
    /// No rows.
    pub(crate) fn new(id: ColumnId, kind: PhysicalType) -> Self {
        Self {
            id,
            values: Values::new(kind),
            validity: Validity::default(),
        }
    }

    /// Adds null rows until there are `rows`.
    pub(crate) fn pad(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.values.len());
        if missing > 0 {
            self.values.extend_default(missing);
            self.validity.extend(false, missing);
        }
    }

    /// Takes back rows past `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.validity.truncate(rows);
    }

    /// Appends rows of a column of the same type, or nulls when it is of another.
    pub(crate) fn extend_range(&mut self, other: &Self, rows: std::ops::Range<usize>) {
        let n = rows.len();
        if !self.values.extend_range(&other.values, rows.clone()) {
            self.pad(self.values.len() + n);
            return;
        }
        self.validity.extend_range(&other.validity, rows);
    }

    /// Appends picked rows of a column of the same type, or nulls when it is of another.
    pub(crate) fn extend_picked(&mut self, other: &Self, rows: &[u32]) {
        if !self.values.extend_picked(&other.values, rows) {
            self.pad(self.values.len() + rows.len());
            return;
        }
        self.validity.extend_picked(&other.validity, rows);
    }

    /// All of it as the codec takes it.
    pub(crate) fn as_ref(&self) -> ColumnRef<'_> {
        ColumnRef {
            values: self.values.slice(0..self.values.len()),
            validity: self.validity.bitmap(),
        }
    }

    /// Rows `rows` for the codec; `bitmap` is scratch for a bitmap that starts inside a byte.
    pub(crate) fn slice<'a>(
        &'a self,
        rows: std::ops::Range<usize>,
        bitmap: &'a mut Vec<u8>,
    ) -> ColumnRef<'a> {
        let values = self.values.slice(rows.clone());
        let has_null =
            self.validity.nulls() > 0 && rows.clone().any(|row| !self.validity.is_valid(row));
        if !has_null {
            return ColumnRef {
                values,
                validity: None,
            };
        }
        bitmap.clear();
        bitmap.resize(rows.len().div_ceil(8), 0);
        for (at, row) in rows.enumerate() {
            if let (true, Some(byte)) = (self.validity.is_valid(row), bitmap.get_mut(at / 8)) {
                *byte |= 1 << (at % 8);
            }
        }
        ColumnRef {
            values,
            validity: Some(bitmap),
        }
    }
}

/// Rows of one table, in the order in which they arrived.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRows {
    /// The table.
    pub(crate) table: TableId,
    /// The series of each row.
    pub(crate) series: Vec<u32>,
    /// The time of each row, in the table's unit (nanoseconds).
    pub(crate) times: Vec<i64>,
    /// Fields that at least one of the rows has, in any order, each of the length of `times`.
    pub(crate) columns: Vec<Column>,
}

impl TableRows {
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Some of the rows, by position.
    pub(crate) fn picked(&self, rows: &[u32]) -> Self {
        let mut picked = Self {
            table: self.table,
            series: Vec::new(),
            times: Vec::new(),
            columns: Vec::new(),
        };
        extend_picked(&mut picked.series, &self.series, rows);
        extend_picked(&mut picked.times, &self.times, rows);
        for column in &self.columns {
            let mut own = Column::new(column.id, column.values.kind());
            own.extend_picked(column, rows);
            picked.columns.push(own);
        }
        picked
    }

    /// Memory in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let columns: usize = self
            .columns
            .iter()
            .map(|column| column.values.bytes())
            .sum();
        columns + self.rows() * 12
    }
}

/// What a table costs in memory beside its values, however few rows of it there are: a run of its own, and columns.
pub(crate) const TABLE_BYTES: usize = 512;

/// What one write does: visible as a whole or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Batch {
    /// Rows by table; a table stands here once.
    pub(crate) tables: Vec<TableRows>,
    /// Rows that are gone; those of this batch stay. Their LSN is 0 until the batch has one.
    pub(crate) tombstones: Vec<Tombstone>,
    /// What happens to relations, in this order.
    pub(crate) relations: Vec<relation::Change>,
    /// A batch with the same key is the same batch, sent again.
    pub(crate) key: Option<BatchKey>,
    /// Flash pages that some of the rows come from.
    pub(crate) pages: Vec<Arc<KeptPage>>,
}

/// What tells a batch that is sent again from a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchKey {
    /// As the writer gave it.
    pub(crate) key: [u8; 16],
    /// When the store first saw it, in nanoseconds since 1970; it is forgotten some time after.
    pub(crate) accepted_ns: i64,
}

impl Batch {
    /// Number of rows in all tables.
    pub(crate) fn rows(&self) -> usize {
        self.tables.iter().map(TableRows::rows).sum()
    }

    /// Whether it would change nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.tombstones.is_empty() && self.relations.is_empty()
    }

    /// Whether it makes nothing that was not there: such a batch is written even when the disk is nearly full.
    pub(crate) fn only_removes(&self) -> bool {
        use relation::Change;
        let removes = |it: &Change| matches!(it, Change::Drop(_) | Change::Delete(..));
        self.tables.is_empty() && self.relations.iter().all(removes)
    }

    /// Memory in use, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = self.tables.iter().map(|rows| TABLE_BYTES + rows.bytes());
        let deletes = self.tombstones.iter().map(Tombstone::bytes);
        let pages = self.pages.iter().map(|page| page.memory());
        rows.chain(deletes)
            .chain(pages)
            .map(|bytes| bytes as u64)
            .sum()
    }
}
