//! Relations as the planner sees them: tables without time, read from memory.
//!
//! Does: find them by name, and look a row up where the conditions name a whole key. Does not: write them
//! (`write/relation.rs` does), or show the relations that views are kept in.

mod scan;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use nilometer_engine::{RelationReader, RelationSchema, ShownColumns, Snapshot, Value};
use nilometer_service::define;

use crate::statement::name::TableName;
use crate::tables::planned::scan_at_once;
use scan::{RelationScan, Wanted};

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
    /// `database.schema.table`, for EXPLAIN.
    name: String,
}

impl RelationTable {
    pub(crate) fn new(reader: RelationReader, name: String) -> Self {
        Self {
            shown: Arc::new(reader.schema().shown_columns()),
            reader,
            name,
        }
    }

    /// The key whose columns all have a value in these conditions, with its values.
    fn key(&self, filters: &[Expr]) -> Option<(Option<usize>, Vec<Value>)> {
        let schema = self.reader.schema();
        let given: Vec<(usize, Value)> = filters
            .iter()
            .filter_map(|filter| equality(schema, filter))
            .collect();
        let unique = schema.unique.iter().enumerate();
        let keys = std::iter::once((None, &schema.primary_key))
            .chain(unique.map(|(at, key)| (Some(at), key)));
        for (number, key) in keys {
            let values: Option<Vec<Value>> = key
                .iter()
                .map(|&wanted| {
                    let mut given = given.iter();
                    let found = given.find(|(at, _)| *at == wanted as usize)?;
                    Some(found.1.clone())
                })
                .collect();
            if let Some(values) = values {
                return Some((number, values));
            }
        }
        None
    }
}

/// A column and the value that a condition says it has. Floats are left to the planner, whose NaN is no key.
fn equality(schema: &RelationSchema, filter: &Expr) -> Option<(usize, Value)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = filter
    else {
        return None;
    };
    let ((Expr::Column(column), Expr::Literal(literal, _))
    | (Expr::Literal(literal, _), Expr::Column(column))) = (left.as_ref(), right.as_ref())
    else {
        return None;
    };
    let mut columns = schema.columns.iter();
    let at = columns.position(|known| known.name == column.name)?;
    // What is stored otherwise than it is shown is compared by the planner.
    if schema.of(at).is_some_and(|of| !of.is_shown_as_stored()) {
        return None;
    }
    let value = match literal {
        ScalarValue::Int64(Some(value)) => Value::from(*value),
        ScalarValue::UInt64(Some(value)) => Value::from(*value),
        ScalarValue::Boolean(Some(value)) => Value::from(*value),
        ScalarValue::Utf8(Some(value)) => Value::from(value.as_str()),
        ScalarValue::Binary(Some(value)) => Value::from(value.as_slice()),
        _ => return None,
    };
    let kind = schema.columns.get(at)?.kind;
    (value.kind() == Some(kind)).then_some((at, value))
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
            if equality(schema, filter).is_some() {
                TableProviderFilterPushDown::Inexact
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
        let wanted = Wanted {
            reader: self.reader.clone(),
            columns,
            shown: Arc::clone(&self.shown),
            key: self.key(filters),
        };
        Ok(Arc::new(RelationScan::new(
            wanted,
            arrow,
            self.name.clone(),
        )))
    }
}
