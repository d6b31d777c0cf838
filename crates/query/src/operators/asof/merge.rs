//! The merge of an `ASOF` join: one step per row of either side.
//!
//! Both sides come in the order of keys and time. The latest row of the right side that is not past the row of the
//! left side is kept; it matches if its keys are equal. Before the right side moves on to another batch, what was
//! matched so far leaves, so that no more than two batches of it are held.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;

use super::Matching;
use super::exec::sort_options;

/// Of the arrays that a matched row is read from: an earlier batch of the right side, its current one, or NULLs.
const EARLIER: usize = 0;
const CURRENT: usize = 1;
const NOTHING: usize = 2;

/// A batch of a side, with what it is compared by.
struct Sorted {
    batch: RecordBatch,
    /// Keys and time as bytes that compare as they do.
    all: Rows,
    /// The same without the time; `None` if there are no keys.
    keys: Option<Rows>,
    /// NULL where a key or the time is.
    nulls: Option<NullBuffer>,
}

impl Sorted {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

struct Side {
    stream: SendableRecordBatchStream,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    current: Option<Sorted>,
    /// The next row of the current batch.
    row: usize,
    has_ended: bool,
}

/// Whose batch is at its end.
enum Next {
    Left,
    Right,
}

/// Both sides and what is matched.
pub(super) struct Merge {
    left: Side,
    right: Side,
    matching: Matching,
    schema: SchemaRef,
    converters: Option<Converters>,
    /// The batch of the right side before the current one, while the kept row is its last.
    earlier: Option<Sorted>,
    /// The kept row.
    kept: Option<(usize, usize)>,
    /// Rows of the current left batch, and the rows of the right side that they match.
    left_rows: Vec<u32>,
    right_rows: Vec<(usize, usize)>,
}

/// Makes comparable bytes; one for both sides, so that they compare with each other.
struct Converters {
    all: RowConverter,
    keys: Option<RowConverter>,
    types: Vec<DataType>,
}

impl Converters {
    fn new(columns: &[ArrayRef], matching: Matching) -> Result<Self> {
        let last = columns.len().saturating_sub(1);
        let types: Vec<DataType> = columns
            .iter()
            .map(|column| column.data_type().clone())
            .collect();
        let field = |(place, kind): (usize, &DataType)| {
            SortField::new_with_options(kind.clone(), sort_options(matching, place == last))
        };
        let fields: Vec<SortField> = types.iter().enumerate().map(field).collect();
        let keys = fields
            .split_last()
            .map_or(Vec::new(), |(_, keys)| keys.to_vec());
        Ok(Self {
            all: RowConverter::new(fields)?,
            keys: (!keys.is_empty())
                .then(|| RowConverter::new(keys))
                .transpose()?,
            types,
        })
    }
}

impl Merge {
    pub(super) fn new(
        [left, right]: [SendableRecordBatchStream; 2],
        [left_exprs, right_exprs]: [Vec<Arc<dyn PhysicalExpr>>; 2],
        matching: Matching,
        schema: SchemaRef,
    ) -> Self {
        let side = |stream, exprs| Side {
            stream,
            exprs,
            current: None,
            row: 0,
            has_ended: false,
        };
        Self {
            left: side(left, left_exprs),
            right: side(right, right_exprs),
            matching,
            schema,
            converters: None,
            earlier: None,
            kept: None,
            left_rows: Vec::new(),
            right_rows: Vec::new(),
        }
    }

    /// The next batch of the answer.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            let (converters, matching) = (&mut self.converters, self.matching);
            if self.left.current.is_none() {
                match ready!(self.left.load(converters, matching, context)) {
                    Ok(()) if self.left.current.is_none() => return Poll::Ready(None),
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            if self.right.current.is_none() {
                match ready!(self.right.load(converters, matching, context)) {
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            let next = self.walk();
            let written = self.write();
            match next {
                Next::Left => self.left.current = None,
                Next::Right => {
                    let passed = self.right.current.take();
                    if let Some((CURRENT, row)) = self.kept {
                        self.earlier = passed;
                        self.kept = Some((EARLIER, row));
                    }
                }
            }
            if let Some(written) = written.transpose() {
                return Poll::Ready(Some(written));
            }
        }
    }

    /// Walks to the end of the batch of either side, and says of which.
    fn walk(&mut self) -> Next {
        let Some(left) = &self.left.current else {
            return Next::Left;
        };
        while self.left.row < left.batch.num_rows() {
            let row = self.left.row;
            let mut found = None;
            if !left.is_null(row) {
                if let Some(right) = &self.right.current {
                    let here = left.all.row(row);
                    while self.right.row < right.batch.num_rows() {
                        let there = right.all.row(self.right.row);
                        if there > here || (self.matching.is_strict && there == here) {
                            break;
                        }
                        self.kept = Some((CURRENT, self.right.row));
                        self.right.row += 1;
                    }
                    if self.right.row == right.batch.num_rows() {
                        return Next::Right;
                    }
                }
                found = self.kept.filter(|(array, kept)| {
                    let sorted = if *array == CURRENT {
                        &self.right.current
                    } else {
                        &self.earlier
                    };
                    match (&left.keys, sorted.as_ref().map(|sorted| &sorted.keys)) {
                        (Some(here), Some(Some(there))) => here.row(row) == there.row(*kept),
                        (None, Some(None)) => true,
                        _ => false,
                    }
                });
            }
            if found.is_some() || self.matching.keeps_left {
                // A batch has fewer rows than 2^32.
                self.left_rows.push(u32::try_from(row).unwrap_or(u32::MAX));
                self.right_rows.push(found.unwrap_or((NOTHING, 0)));
            }
            self.left.row += 1;
        }
        Next::Left
    }

    /// What was matched since the last time.
    fn write(&mut self) -> Result<Option<RecordBatch>> {
        let left_rows = UInt32Array::from(std::mem::take(&mut self.left_rows));
        let right_rows = std::mem::take(&mut self.right_rows);
        let Some(left) = &self.left.current else {
            return Ok(None);
        };
        if left_rows.is_empty() {
            return Ok(None);
        }
        let mut columns = left
            .batch
            .columns()
            .iter()
            .map(|column| take(column, &left_rows, None))
            .collect::<Result<Vec<_>, _>>()?;
        for (place, field) in self.schema.fields().iter().skip(columns.len()).enumerate() {
            let nothing = new_null_array(field.data_type(), 1);
            let column = |sorted: &Option<Sorted>| match sorted {
                Some(sorted) => Arc::clone(sorted.batch.column(place)),
                None => Arc::clone(&nothing),
            };
            let arrays = [
                column(&self.earlier),
                column(&self.right.current),
                Arc::clone(&nothing),
            ];
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            columns.push(interleave(&arrays, &right_rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(left_rows.len()));
        let schema = Arc::clone(&self.schema);
        Ok(Some(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?))
    }
}

impl Side {
    /// Gets the next batch that has rows, if there is one.
    fn load(
        &mut self,
        converters: &mut Option<Converters>,
        matching: Matching,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        while !self.has_ended {
            match ready!(self.stream.poll_next_unpin(context)) {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    self.current = Some(sorted(batch, &self.exprs, converters, matching)?);
                    self.row = 0;
                    break;
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => self.has_ended = true,
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn sorted(
    batch: RecordBatch,
    exprs: &[Arc<dyn PhysicalExpr>],
    converters: &mut Option<Converters>,
    matching: Matching,
) -> Result<Sorted> {
    let mut columns = exprs
        .iter()
        .map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()))
        .collect::<Result<Vec<_>>>()?;
    let converters = match converters {
        Some(converters) => converters,
        none => none.insert(Converters::new(&columns, matching)?),
    };
    for (column, kind) in columns.iter_mut().zip(&converters.types) {
        if column.data_type() != kind {
            *column = cast(column, kind)?;
        }
    }
    let mut nulls: Option<NullBuffer> = None;
    for column in &columns {
        nulls = NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref());
    }
    let all = converters.all.convert_columns(&columns)?;
    columns.pop();
    let keys = match &mut converters.keys {
        Some(converter) => Some(converter.convert_columns(&columns)?),
        None => None,
    };
    Ok(Sorted {
        batch,
        all,
        keys,
        nulls,
    })
}
