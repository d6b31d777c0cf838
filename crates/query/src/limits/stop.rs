//! Stop conditions of a statement in the conditions of joins, for long work between two polls.
//!
//! Whoever polls an answer asks before each batch. A join whose condition hardly any pair meets can work for hours before
//! it has one; so its condition asks too, each time it is evaluated, and leaves its thread to others when it takes long. Does
//! not: interrupt anything else.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;
use nilometer_service::Stop;

use crate::limits::scope;

/// The condition of a join, which from now on fails when the statement has to end.
pub(crate) fn watch_condition(stop: &Stop, filter: &JoinFilter) -> JoinFilter {
    let watched = Watched {
        condition: Arc::clone(filter.expression()),
        stop: stop.clone(),
    };
    JoinFilter::new(
        Arc::new(watched),
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    )
}

/// The error says nothing: the answer that it reaches knows what has ended the statement.
fn check(stop: &Stop) -> Result<()> {
    if stop.is_due() {
        return Err(DataFusionError::Execution(
            "the statement has to end".to_owned(),
        ));
    }
    Ok(())
}

/// A condition that fails when its statement has to end, and else is what it was.
#[derive(Debug)]
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    stop: Stop,
}

// Two are the same if their conditions are: there is one statement in a plan.
impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check(&self.stop)?;
        scope::check()?;
        scope::long(|| self.condition.evaluate(batch))
    }

    fn evaluate_selection(
        &self,
        batch: &RecordBatch,
        selection: &BooleanArray,
    ) -> Result<ColumnarValue> {
        check(&self.stop)?;
        scope::check()?;
        scope::long(|| self.condition.evaluate_selection(batch, selection))
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [condition] = <[_; 1]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("a condition is one expression".to_owned()))?;
        let stop = self.stop.clone();
        Ok(Arc::new(Self { condition, stop }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
