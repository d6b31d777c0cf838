//! The columns of an answer, made of rows.
//!
//! Does: name and type them, and make a batch of a chunk, with what the order of its rows needs. Does not: choose rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nilometer_engine::TIME_COLUMN;

use crate::context::{Charge, Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots, resolve};
use crate::input::{Chunk, Groups, Inputs, tag_column};
use crate::query::{Expr, Shape};
use crate::value::Type;

/// Rows of an answer, and what their order needs.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) batch: RecordBatch,
    pub(super) chunk: Chunk,
    pub(super) charge: Charge,
}

impl Piece {
    pub(super) fn of(
        mut chunk: Chunk,
        (inputs, projection): (&Inputs, &Projection),
        context: &Context,
    ) -> Result<Self, Error> {
        let _timed = context.timed(Step::Operate);
        let mut charge = context.charge();
        let batch = projection.batch(&chunk, &inputs.groups)?;
        charge.grow(batch.get_array_memory_size())?;
        chunk.columns.clear();
        Ok(Self {
            batch,
            chunk,
            charge,
        })
    }
}

/// How the columns of an answer are made.
#[derive(Debug)]
pub(super) struct Projection {
    pub(super) schema: SchemaRef,
    shows_time: bool,
    group: usize,
    columns: Vec<Shown>,
}

#[derive(Debug)]
enum Shown {
    /// A tag as it is; `None` = no input has it.
    Tag(Option<usize>),
    Value(Resolved),
}

fn tag_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

impl Projection {
    /// Of the columns of a query, whose aggregates and neighbours were replaced in `exprs`.
    pub(super) fn new(
        shape: &Shape,
        exprs: &[Expr],
        slots: &Slots,
        shows_time: bool,
    ) -> Result<Self, Error> {
        let mut fields = Vec::new();
        if shows_time {
            fields.push(Field::new(TIME_COLUMN, Type::Time.arrow(), false));
        }
        let tags = shape.group.iter();
        fields.extend(tags.map(|tag| Field::new(tag, tag_type(), true)));
        let mut columns = Vec::with_capacity(exprs.len());
        for (column, expr) in shape.columns.iter().zip(exprs) {
            let shown = match expr {
                Expr::Tag(tag) => {
                    let place = slots.place(&Name::Tag(tag.clone()));
                    let known = place.and_then(|at| slots.all.get(at));
                    Shown::Tag(place.filter(|_| known.is_some_and(|it| it.1.is_some())))
                }
                expr => Shown::Value(resolve(expr, slots, shape.rules)?),
            };
            let kind = match &shown {
                Shown::Tag(_) => tag_type(),
                Shown::Value(resolved) => resolved.arrow_type().arrow(),
            };
            fields.push(Field::new(&column.name, kind, true));
            columns.push(shown);
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            shows_time,
            group: shape.group.len(),
            columns,
        })
    }

    /// A batch of all rows of a chunk.
    pub(super) fn batch(&self, chunk: &Chunk, groups: &Groups) -> Result<RecordBatch, Error> {
        let rows = chunk.rows();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if self.shows_time {
            let times = TimestampNanosecondArray::from(chunk.times.clone());
            arrays.push(Arc::new(times.with_timezone("UTC")));
        }
        for tag in 0..self.group {
            arrays.push(groups.column(tag, &chunk.groups));
        }
        for shown in &self.columns {
            arrays.push(match shown {
                Shown::Tag(place) => {
                    let column = place.and_then(|at| chunk.columns.get(at));
                    let absent = || tag_column(std::iter::repeat_n(None, rows));
                    column.map_or_else(absent, Arc::clone)
                }
                Shown::Value(resolved) => resolved.column(&chunk.columns, rows)?,
            });
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        Ok(batch.expect("the arrays are of the types that the schema was made of"))
    }
}
