//! Rows of a relation from a record batch.
//!
//! Does: find columns by name and convert them exactly, as typed writes of tables do. Does not: check keys or nulls (the
//! write does), or write.

use arrow_array::RecordBatch;
use nilometer_lineproto::FIELD_TEXT_BYTES_MAX;

use super::refusal_of;
use super::{arrays, declared};
use crate::batch::Column;
use crate::error::Error;
use crate::relation::{RelationSchema, Rows, Value};
use crate::schema::ColumnId;

impl RelationSchema {
    /// The rows of a batch, whose columns are found by their names, in any order; one that the batch lacks is null.
    pub fn rows_of(&self, batch: &RecordBatch) -> Result<Vec<Vec<Value>>, Error> {
        let refused = |column: &str, reason: &str| Error::TypedColumn {
            table: self.name.clone(),
            column: column.to_owned(),
            reason: reason.to_owned(),
        };
        let given = batch.schema_ref();
        for (at, field) in given.fields().iter().enumerate() {
            let name = field.name();
            if self.columns.iter().all(|column| column.name != *name) {
                return Err(refused(name, "the relation has no such column"));
            }
            let mut before = given.fields().iter().take(at);
            if before.any(|other| other.name() == name) {
                return Err(refused(name, "it is given twice; give each column once"));
            }
        }
        let rows = batch.num_rows();
        let mut columns = Vec::with_capacity(self.columns.len());
        for (position, column) in (0u32..).zip(&self.columns) {
            let id = ColumnId(position);
            let Some(array) = batch.column_by_name(&column.name) else {
                let mut missing = Column::new(id, column.kind);
                missing.pad(rows);
                columns.push(missing);
                continue;
            };
            let most = FIELD_TEXT_BYTES_MAX as u64;
            let field = match self.of(position as usize) {
                None => arrays::field(array, id, column.kind, most),
                Some(of) => declared::field(array, id, of),
            };
            let field = field.map_err(|refusal| {
                refusal_of(&self.name, &column.name, array.data_type(), refusal)
            })?;
            columns.push(field);
        }
        let all = Rows { rows, columns };
        let values = (0..rows).map(|row| {
            let values = all.values(row);
            values.ok_or_else(|| refused("", "a text of it is not UTF-8"))
        });
        values.collect()
    }
}
