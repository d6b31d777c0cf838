//! Columns of the answer while they grow, and their end as Arrow arrays.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int32Array,
    Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{
    BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use nilometer_codec::PhysicalType;

use super::plan::{OutputColumn, Plan};
use super::source::{Data, Piece, Rows};
use crate::batch::{Column, Strings, TableRows, Validity, Values};
use crate::catalogue::TagColumn;
use crate::schema::{ColumnId, TableId};

/// Rows on their way out.
#[derive(Debug)]
pub(crate) struct Output {
    times: Vec<i64>,
    /// (position in the plan's series, rows up to its end).
    series: Vec<(usize, usize)>,
    fields: Vec<Column>,
    kinds: Vec<(ColumnId, PhysicalType)>,
    /// Bytes of text from which on later rows stand in another batch.
    text_bytes_max: usize,
    /// Rows that stand in batches before.
    before: VecDeque<Part>,
}

/// Rows that are a batch of their own.
#[derive(Debug)]
struct Part {
    times: Vec<i64>,
    series: Vec<(usize, usize)>,
    fields: Vec<Column>,
}

impl Output {
    pub(crate) fn new(fields: &[(ColumnId, PhysicalType)]) -> Self {
        Self {
            times: Vec::new(),
            series: Vec::new(),
            fields: empty(fields),
            kinds: fields.to_vec(),
            text_bytes_max: usize::MAX,
            before: VecDeque::new(),
        }
    }

    /// The same for batches that have not much more text than this.
    pub(super) fn in_parts(fields: &[(ColumnId, PhysicalType)], text_bytes_max: usize) -> Self {
        let is_text = |kind: PhysicalType| matches!(kind, PhysicalType::Text | PhysicalType::Bytes);
        let has_text = fields.iter().any(|(_, kind)| is_text(*kind));
        Self {
            text_bytes_max: if has_text { text_bytes_max } else { usize::MAX },
            ..Self::new(fields)
        }
    }

    /// Lets the next row, which is of another key than the last one, begin a batch if this one has enough text.
    pub(crate) fn part_text(&mut self) {
        if self.text_bytes_max < usize::MAX && self.text_bytes() >= self.text_bytes_max {
            self.before.push_back(Part {
                times: std::mem::take(&mut self.times),
                series: std::mem::take(&mut self.series),
                fields: std::mem::replace(&mut self.fields, empty(&self.kinds)),
            });
        }
    }

    /// Rows of all batches that are not taken yet.
    pub(super) fn all_rows(&self) -> usize {
        let before = self.before.iter().map(|part| part.times.len());
        before.sum::<usize>() + self.rows()
    }

    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Appends a piece as it is.
    pub(crate) fn extend(&mut self, piece: &Piece, position: usize) {
        let times = piece.data.times();
        match &piece.rows {
            Rows::Range(range) => self
                .times
                .extend_from_slice(times.get(range.clone()).unwrap_or_default()),
            Rows::Picked(rows) => self
                .times
                .extend(rows.iter().filter_map(|&row| times.get(row as usize))),
        }
        for (at, to) in self.fields.iter_mut().enumerate() {
            match (piece.data.column(at), &piece.rows) {
                (None, _) => to.pad(self.times.len()),
                (Some(from), Rows::Range(range)) => to.extend_range(from, range.clone()),
                (Some(from), Rows::Picked(rows)) => to.extend_picked(from, rows),
            }
        }
        self.note_series(position);
    }

    /// Appends one row: of each field the first value that `versions`, newest first, have.
    pub(crate) fn push_merged<'a>(
        &mut self,
        time: i64,
        position: usize,
        versions: &(impl Iterator<Item = (&'a Data, usize)> + Clone),
    ) {
        self.times.push(time);
        for (at, to) in self.fields.iter_mut().enumerate() {
            let newest = versions.clone().find_map(|(data, row)| {
                let column = data.column(at)?;
                column.validity.is_valid(row).then_some((column, row))
            });
            match newest {
                Some((column, row)) => to.extend_range(column, row..row + 1),
                None => to.pad(self.times.len()),
            }
        }
        self.note_series(position);
    }

    fn note_series(&mut self, position: usize) {
        let end = self.times.len();
        match self.series.last_mut() {
            Some((last, rows)) if *last == position => *rows = end,
            _ => self.series.push((position, end)),
        }
    }

    /// Rows of the last series, as far as they were appended one after another.
    pub(crate) fn last_stretch(&self) -> usize {
        let before = self.series.len().checked_sub(2);
        let start = before
            .and_then(|at| self.series.get(at))
            .map_or(0, |(_, end)| *end);
        self.times.len() - start
    }

    /// Bytes of text so far.
    pub(crate) fn text_bytes(&self) -> usize {
        let text = |column: &Column| match &column.values {
            Values::Text(strings) | Values::Bytes(strings) => strings.bytes.len(),
            _ => 0,
        };
        self.fields.iter().map(text).sum()
    }

    /// Everything so far as rows of a table; `ids` are the series by position. Fields that no row has are left out.
    pub(crate) fn take_rows(&mut self, table: TableId, ids: &[u32]) -> TableRows {
        let rows = self.times.len();
        let mut series = Vec::with_capacity(rows);
        for (position, end) in std::mem::take(&mut self.series) {
            series.resize(end, ids.get(position).copied().unwrap_or(0));
        }
        let mut columns = std::mem::replace(&mut self.fields, empty(&self.kinds));
        columns.retain(|column| column.validity.nulls() < rows);
        TableRows {
            table,
            series,
            times: std::mem::take(&mut self.times),
            columns,
        }
    }

    /// The next batch: everything so far, or what comes before a part.
    pub(super) fn take(&mut self, plan: &Plan) -> RecordBatch {
        let Some(part) = self.before.pop_front() else {
            return self.take_rest(plan);
        };
        let times = std::mem::replace(&mut self.times, part.times);
        let series = std::mem::replace(&mut self.series, part.series);
        let fields = std::mem::replace(&mut self.fields, part.fields);
        let batch = self.take_rest(plan);
        (self.times, self.series, self.fields) = (times, series, fields);
        batch
    }

    fn take_rest(&mut self, plan: &Plan) -> RecordBatch {
        let rows = self.times.len();
        let mut fields: Vec<Option<ArrayRef>> =
            std::mem::replace(&mut self.fields, empty(&self.kinds))
                .into_iter()
                .map(|column| Some(field_array(column)))
                .collect();
        let times = std::mem::take(&mut self.times);
        let series = std::mem::take(&mut self.series);
        let nth = plan
            .columns
            .iter()
            .any(|it| matches!(it, OutputColumn::Nth));
        let mut nth = nth.then(|| nth_array(&times, &series));
        let times = time_array(times);
        let mut absent = None;
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for column in &plan.columns {
            arrays.push(match column {
                OutputColumn::Time => Arc::clone(&times),
                OutputColumn::Series => series_array(&series, &plan.series),
                OutputColumn::Nth => match nth.take() {
                    Some(array) => array,
                    None => continue,
                },
                OutputColumn::Tag(tag) if is_absent(&series, tag) => {
                    // One for all such tags: a table may have thousands of which these rows have none.
                    Arc::clone(absent.get_or_insert_with(|| absent_array(rows)))
                }
                OutputColumn::Tag(tag) => tag_array(&series, tag),
                OutputColumn::Field(at) => match fields.get(*at).and_then(Clone::clone) {
                    Some(array) => array,
                    None => continue,
                },
            });
        }
        fields.clear();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&plan.schema), arrays, &options)
            .expect("the arrays are built from the plan that the schema is built from")
    }
}

fn empty(fields: &[(ColumnId, PhysicalType)]) -> Vec<Column> {
    fields
        .iter()
        .map(|(id, kind)| Column::new(*id, *kind))
        .collect()
}

fn time_array(times: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
}

fn series_array(series: &[(usize, usize)], ids: &[u32]) -> ArrayRef {
    let mut all: Vec<u32> = Vec::new();
    for &(position, end) in series {
        all.resize(end, ids.get(position).copied().unwrap_or(0));
    }
    Arc::new(UInt32Array::from(all))
}

/// The place of each row among those of its series and time, which stand together; a batch never parts them.
fn nth_array(times: &[i64], series: &[(usize, usize)]) -> ArrayRef {
    let mut all: Vec<u32> = Vec::with_capacity(times.len());
    for &(_, end) in series {
        let mut before: Option<(i64, u32)> = None;
        for &time in times.get(all.len()..end).unwrap_or_default() {
            let nth = match before {
                Some((same, nth)) if same == time => nth + 1,
                _ => 0,
            };
            before = Some((time, nth));
            all.push(nth);
        }
    }
    Arc::new(UInt32Array::from(all))
}

/// Whether none of the rows has a tag.
fn is_absent(series: &[(usize, usize)], tag: &TagColumn) -> bool {
    tag.values.is_empty()
        || series
            .iter()
            .all(|&(position, _)| tag.code(position).is_none())
}

fn absent_array(rows: usize) -> ArrayRef {
    let values: [&str; 0] = [];
    let values = Arc::new(StringArray::from_iter_values(values));
    dictionary(&[(0, rows)], |_| None, &values)
}

/// What the rows have of a tag. The dictionary is the tag's own, shared between batches, unless that is longer than the
/// batch: what stands above may look at each value of it for every batch, which made a grouping by a tag of a million values
/// take the square of them.
fn tag_array(series: &[(usize, usize)], tag: &TagColumn) -> ArrayRef {
    let rows = series.last().map_or(0, |(_, end)| *end);
    let code = |position: usize| tag.code(position);
    if tag.values.len() <= rows {
        return dictionary(series, code, &tag.values);
    }
    let mut used: Vec<u32> = series
        .iter()
        .filter_map(|&(position, _)| code(position))
        .collect();
    used.sort_unstable();
    used.dedup();
    let values = used.iter().map(|&code| tag.values.value(code as usize));
    let values = Arc::new(StringArray::from_iter_values(values));
    let renamed = |position: usize| {
        let at = used.binary_search(&code(position)?).ok()?;
        u32::try_from(at).ok()
    };
    dictionary(series, renamed, &values)
}

fn dictionary(
    series: &[(usize, usize)],
    code: impl Fn(usize) -> Option<u32>,
    values: &Arc<StringArray>,
) -> ArrayRef {
    let rows = series.last().map_or(0, |(_, end)| *end);
    let code = |position: usize| code(position).and_then(|code| i32::try_from(code).ok());
    let mut keys: Vec<i32> = Vec::with_capacity(rows);
    let mut is_there = None;
    for &(position, end) in series {
        let code = code(position);
        let start = keys.len();
        keys.resize(end, code.unwrap_or(0));
        // Most rows have most tags.
        if code.is_none() {
            let bits = is_there.get_or_insert_with(|| BooleanBufferBuilder::new(rows));
            bits.append_n(start - bits.len(), true);
            bits.append_n(end - start, false);
        }
    }
    let nulls = is_there.map(|mut bits| {
        bits.append_n(rows - bits.len(), true);
        NullBuffer::new(bits.finish())
    });
    let keys = Int32Array::new(ScalarBuffer::from(keys), nulls);
    let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values) as ArrayRef);
    Arc::new(array.expect("codes are positions in the tag's dictionary"))
}

fn nulls(validity: &Validity) -> Option<NullBuffer> {
    let bits = validity.bitmap()?;
    let buffer = BooleanBuffer::new(Buffer::from(bits), 0, validity.rows());
    Some(NullBuffer::new(buffer))
}

/// The values of a column as Arrow holds them.
pub(crate) fn field_array(column: Column) -> ArrayRef {
    let nulls = nulls(&column.validity);
    match column.values {
        Values::I64(values) => Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls)),
        Values::U64(values) => Arc::new(UInt64Array::new(ScalarBuffer::from(values), nulls)),
        Values::F64(values) => Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls)),
        Values::Bool(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)),
        Values::Text(strings) => {
            let (offsets, bytes) = buffers(strings);
            let array = StringArray::try_new(offsets, bytes, nulls);
            Arc::new(array.expect("text is checked to be UTF-8 before it enters a batch"))
        }
        Values::Bytes(strings) => {
            let (offsets, bytes) = buffers(strings);
            Arc::new(BinaryArray::new(offsets, bytes, nulls))
        }
    }
}

fn buffers(strings: Strings) -> (OffsetBuffer<i32>, Buffer) {
    let offsets: Vec<i32> = strings
        .offsets
        .iter()
        .map(|&at| i32::try_from(at).expect("a batch of the answer has less than 2 GiB of text"))
        .collect();
    (
        OffsetBuffer::new(ScalarBuffer::from(offsets)),
        Buffer::from(strings.bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::merge;
    use crate::scan::source::DataSource;
    use crate::schema::Duplicates;

    /// The rows of one series were one batch whatever their text, and an array of more than 2 GiB of it is none: the scan
    /// ended in a panic.
    #[test]
    fn rows_of_much_text_are_parted() {
        let kinds = [(ColumnId(1), PhysicalType::Text)];
        let mut output = Output::in_parts(&kinds, 10);
        let piece = |times: [i64; 2]| {
            let mut column = Column::new(ColumnId(1), PhysicalType::Text);
            if let Values::Text(strings) = &mut column.values {
                strings.push(b"four");
                strings.push(b"more");
            }
            column.validity.extend(true, 2);
            let source = DataSource::Block {
                times: times.to_vec(),
                columns: vec![Some(column)],
            };
            Piece {
                rank: 0,
                data: Arc::new(Data { source }),
                rows: Rows::Range(0..2),
            }
        };
        let pieces = vec![piece([1, 2]), piece([3, 4]), piece([5, 6])];
        merge::append(pieces, 0, Duplicates::Last, &mut output);
        // Two pieces have 16 bytes of text, which is enough for a batch.
        assert_eq!((output.all_rows(), output.rows()), (6, 2));
        // Rows of one key stay together, and what was parted is before them.
        let pieces = vec![piece([7, 7]), piece([7, 9])];
        merge::append(pieces, 0, Duplicates::Keep, &mut output);
        assert_eq!((output.all_rows(), output.rows()), (10, 1));
        let before: Vec<&[i64]> = output
            .before
            .iter()
            .map(|part| part.times.as_slice())
            .collect();
        assert_eq!(before, [&[1, 2, 3, 4][..], &[5, 6, 7, 7, 7]]);
    }
}
