//! Relations as the planner sees them: tables without time, read from memory.
//!
//! Does: find them by name, answer simple conditions (`relation/condition.rs`), and look rows up where those name a whole key.
//! Does not: write them (`write/relation.rs` does), or show the relations that views are kept in.

mod condition;
mod scan;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use nilometer_engine::{RelationReader, RelationSchema, ShownColumns, Snapshot};
use nilometer_service::define;

use crate::statement::name::TableName;
use crate::tables::planned::scan_at_once;
pub(crate) use condition::Condition;
pub(crate) use scan::{RelationScan, Wanted, few_rows};

/// A relation by its name, as a snapshot has it.
pub(crate) fn find(snapshot: &Snapshot, name: &TableName) -> Option<RelationReader> {
    define::find_relation(snapshot, &name.database, &name.schema, &name.table)
}

/// What a column is, in a word: `key` if it is of the primary key, else `column`.
pub(crate) fn kind_of(relation: &RelationSchema, position: usize) -> &'static str {
    let mut key = relation.primary_key.iter();
    if key.any(|&at| at as usize == position) {
        "key"
    } else {
        "column"
    }
}

/// A relation in a plan.
#[derive(Debug)]
pub(crate) struct RelationTable {
    reader: RelationReader,
    shown: Arc<ShownColumns>,
    name: TableName,
}

impl RelationTable {
    /// What it is, as the store has it.
    pub(crate) fn relation(&self) -> &Arc<RelationSchema> {
        self.reader.schema()
    }

    pub(crate) fn new(reader: RelationReader, name: TableName) -> Self {
        Self {
            shown: Arc::new(reader.schema().shown_columns()),
            reader,
            name,
        }
    }

    /// The same with the number of each row behind its columns, for statements that change rows.
    pub(crate) fn with_row_number(mut self, changes: bool) -> Self {
        if changes {
            self.shown = Arc::new(self.reader.schema().columns_with_number());
        }
        self
    }
}

impl TableProvider for RelationTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shown.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let schema = self.reader.schema();
        let pushed = filters.iter().map(|filter| {
            if Condition::of(schema, filter).is_some() {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        });
        Ok(pushed.collect())
    }

    scan_at_once!();
}

impl RelationTable {
    fn plan_scan(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection
            .cloned()
            .unwrap_or_else(|| (0..self.shown.len()).collect());
        let arrow = Arc::new(self.shown.schema.project(&columns)?);
        let schema = self.reader.schema();
        // What was a condition when the relation was asked whether it answers it may be a constant since: IS NOT NULL is, of a column
        // of a join that turned out to be an inner one.
        let open = filters.iter().filter(|filter| !is_true(filter));
        let conditions = open.map(|filter| Condition::of(schema, filter));
        let Some(conditions) = conditions.collect() else {
            return internal_err!("a relation is asked for what it does not answer");
        };
        let wanted = Wanted {
            reader: self.reader.clone(),
            columns,
            shown: Arc::clone(&self.shown),
            conditions,
        };
        Ok(Arc::new(RelationScan::new(
            wanted,
            arrow,
            self.name.clone(),
        )))
    }
}

fn is_true(filter: &Expr) -> bool {
    matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}
