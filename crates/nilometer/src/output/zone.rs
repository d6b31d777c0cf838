//! Times of an answer in the time zone of the session, for formats of text.
//!
//! Does: change what a column of times says of its zone; the values stay. Does not: touch times that name no zone, or Arrow
//! and Parquet, which are for programs.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::source::Answer;

/// The same answer with its times in this zone.
pub(crate) fn in_zone<'a>(answer: Answer<'a>, zone: &str) -> Answer<'a> {
    let zone: Arc<str> = Arc::from(zone);
    let schema = schema_in(&answer.schema(), &zone);
    Answer::new(
        schema,
        answer.map(move |batch| Ok(batch_in(&batch?, &zone)?)),
    )
}

fn type_in(kind: &DataType, zone: &Arc<str>) -> Option<DataType> {
    match kind {
        DataType::Timestamp(unit, Some(_)) => {
            Some(DataType::Timestamp(*unit, Some(Arc::clone(zone))))
        }
        _ => None,
    }
}

fn schema_in(schema: &Schema, zone: &Arc<str>) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let field = field.as_ref().clone();
        match type_in(field.data_type(), zone) {
            Some(kind) => field.with_data_type(kind),
            None => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn batch_in(batch: &RecordBatch, zone: &Arc<str>) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter();
    let columns = columns.map(|column| match type_in(column.data_type(), zone) {
        Some(kind) => cast(column, &kind),
        None => Ok(ArrayRef::clone(column)),
    });
    RecordBatch::try_new_with_options(
        schema_in(&batch.schema(), zone),
        columns.collect::<Result<_, _>>()?,
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
}
