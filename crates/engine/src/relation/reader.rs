//! Reading a relation as of one snapshot.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};

use super::pins::Pin;
use super::value::{Row, Value, push};
use super::{OwnRelation, RelationColumn, RelationSchema};
use crate::batch::Column;
use crate::moment::Store;
use crate::scan::field_array;
use crate::schema::{ColumnId, field_type};
use crate::shown::{ShownColumn, ShownColumns};

/// Rows of one Arrow batch.
const BATCH_ROWS: usize = 8192;
/// Text of one Arrow batch, unless one row has more: its offsets are 32 bits.
const BATCH_TEXT_BYTES: usize = 64 << 20;

/// A relation as a snapshot sees it, unchanged by what comes later. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RelationReader {
    store: Arc<dyn Store>,
    schema: Arc<RelationSchema>,
    pin: Arc<Pin>,
    /// What the transaction that reads has changed.
    own: Option<Arc<OwnRelation>>,
}

impl RelationReader {
    pub(crate) fn new(store: Arc<dyn Store>, schema: Arc<RelationSchema>, pin: Arc<Pin>) -> Self {
        Self {
            store,
            schema,
            pin,
            own: None,
        }
    }

    pub(crate) fn with_own(self, own: Option<Arc<OwnRelation>>) -> Self {
        Self { own, ..self }
    }

    /// What the relation is.
    pub fn schema(&self) -> &Arc<RelationSchema> {
        &self.schema
    }

    /// The row with this primary key, its values in the order of the key's columns.
    pub fn get(&self, key: &[Value]) -> Option<Row> {
        self.find(0, key)
    }

    /// The row whose unique key of this number in [`RelationSchema::unique`] has these values.
    pub fn get_unique(&self, unique: usize, key: &[Value]) -> Option<Row> {
        self.find(unique + 1, key)
    }

    fn find(&self, key: usize, values: &[Value]) -> Option<Row> {
        let committed = || {
            let relations = self.store.relations();
            relations.find(self.schema.id, key, values, self.pin.lsn())
        };
        match &self.own {
            Some(own) => own.find(key, values, committed),
            None => committed(),
        }
    }

    /// About how many rows there are: those of now, not of the snapshot.
    pub fn rows_estimate(&self) -> usize {
        self.store.relations().live(self.schema.id)
    }

    /// As [`Self::read`], of the row with these values of the primary key (`None`) or of a unique key of this number.
    pub fn read_key(
        &self,
        unique: Option<usize>,
        key: &[Value],
        projection: &[usize],
    ) -> RelationBatches {
        let found = self.find(unique.map_or(0, |at| at + 1), key);
        self.schema.batches(found.into_iter().collect(), projection)
    }

    /// All rows, in no order that means anything.
    pub fn rows(&self) -> Vec<Row> {
        let committed = self.store.relations().rows(self.schema.id, self.pin.lsn());
        match &self.own {
            Some(own) => own.rows(committed),
            None => committed,
        }
    }

    /// All rows as Arrow, of the columns at these positions.
    pub fn read(&self, projection: &[usize]) -> RelationBatches {
        self.schema.batches(self.rows(), projection)
    }
}

impl RelationColumn {
    fn arrow(&self) -> Field {
        Field::new(&self.name, field_type(self.kind), self.nullable)
    }
}

impl RelationSchema {
    /// The columns as Arrow names and types them.
    pub fn arrow_schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(RelationColumn::arrow).collect();
        Arc::new(Schema::new(fields))
    }

    /// The columns as SQL shows them, in their order.
    pub fn shown_columns(&self) -> ShownColumns {
        self.first_columns(self.named_columns().len())
    }

    /// The same with the number of the row behind them, where rows are numbered.
    pub fn columns_with_number(&self) -> ShownColumns {
        self.first_columns(self.columns.len())
    }

    fn first_columns(&self, shown: usize) -> ShownColumns {
        let arrow = self.arrow_schema();
        let columns = arrow.fields().iter().enumerate().take(shown);
        let columns = ShownColumns::of(columns.map(|(position, field)| {
            let field = field.as_ref().clone();
            match self.of(position) {
                None => ShownColumn::as_stored(position, field),
                Some(of) => ShownColumn::of(position, field, of, false),
            }
        }));
        let declared = self.declared.as_ref();
        columns.with_enumerations(declared.map_or(&[], |it| &it.table.checks))
    }

    /// Rows as Arrow, of the columns at these positions; a row has a value or null for each column of the relation.
    pub fn batches(&self, rows: Vec<Arc<[Value]>>, projection: &[usize]) -> RelationBatches {
        let columns = projection.iter().filter_map(|&at| {
            let position = u32::try_from(at).ok()?;
            Some((position, self.columns.get(at)?.clone()))
        });
        let columns: Vec<(u32, RelationColumn)> = columns.collect();
        let fields: Vec<Field> = columns.iter().map(|(_, column)| column.arrow()).collect();
        RelationBatches {
            rows,
            next: 0,
            columns,
            schema: Arc::new(Schema::new(fields)),
        }
    }
}

/// The rows of a relation, batch by batch.
#[derive(Debug)]
pub struct RelationBatches {
    rows: Vec<Row>,
    next: usize,
    columns: Vec<(u32, RelationColumn)>,
    schema: SchemaRef,
}

impl RelationBatches {
    /// Arrow's schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for RelationBatches {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let rest = self.rows.get(self.next..)?;
        let mut bytes = 0;
        let fits = rest.iter().take(BATCH_ROWS).take_while(|row| {
            bytes += row.iter().map(Value::heap_bytes).sum::<usize>();
            bytes <= BATCH_TEXT_BYTES
        });
        let n = fits.count().max(1);
        let rows = rest.get(..n)?;
        let arrays = self.columns.iter().map(|(position, column)| {
            let mut values = Column::new(ColumnId(*position), column.kind);
            for row in rows {
                push(
                    &mut values,
                    row.get(*position as usize).unwrap_or(&Value::Null),
                );
            }
            field_array(values)
        });
        let arrays = arrays.collect();
        self.next += n;
        let options = RecordBatchOptions::new().with_row_count(Some(n));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        Some(batch.expect("the arrays are built from the columns that the schema is built from"))
    }
}
