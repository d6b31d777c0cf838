//! A sequence as the table of one row that it is to `SELECT last_value, is_called FROM s`.
//!
//! Does not: give numbers.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use nilometer_engine::Snapshot;
use nilometer_service::define;

use crate::statement::name::TableName;

static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("last_value", DataType::Int64, false),
        Field::new("log_cnt", DataType::Int64, false),
        Field::new("is_called", DataType::Boolean, false),
    ]))
});

/// The columns of every sequence.
pub(crate) fn columns() -> SchemaRef {
    Arc::clone(&COLUMNS)
}

/// The sequence of this name; `None` = there is none.
pub(crate) fn find(snapshot: &Snapshot, name: &TableName) -> Option<Arc<dyn TableProvider>> {
    let within = (name.database.as_str(), name.schema.as_str());
    let all = define::sequences(snapshot, within.0, within.1);
    let found = all.into_iter().find(|it| it.name == name.table)?;
    let counting = found.counting(snapshot, within);
    table(found.last(&counting))
}

/// The number that was given last, or comes first if none was given.
fn table((last, is_called): (i64, bool)) -> Option<Arc<dyn TableProvider>> {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![last])),
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(BooleanArray::from(vec![is_called])),
    ];
    let rows = RecordBatch::try_new(columns(), arrays).ok()?;
    let table = MemTable::try_new(columns(), vec![vec![rows]]).ok()?;
    Some(Arc::new(table))
}
