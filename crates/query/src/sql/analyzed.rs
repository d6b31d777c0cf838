//! Times of a statement's steps in EXPLAIN ANALYZE, below the plan with its metrics.
//!
//! Does: add a row with the times of its steps to the answer, once the statement has run. Does not: measure.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as DfStatement;
use futures::{StreamExt, stream};
use nilometer_service::{TimedStep, Timings};

/// Steps that are shown. What is written in the form of an answer is the plan, so that the statement's own rows never are.
const SHOWN: [TimedStep; 5] = [
    TimedStep::Parse,
    TimedStep::Plan,
    TimedStep::Prune,
    TimedStep::Decode,
    TimedStep::Operate,
];

/// Whether a statement is an EXPLAIN ANALYZE.
pub(super) fn is_analyze(statement: &DfStatement) -> bool {
    matches!(statement, DfStatement::Explain(explain) if explain.options.analyze)
}

/// The answer, and behind it a row of the statement's times.
pub(super) fn with_times(
    batches: SendableRecordBatchStream,
    timings: &Arc<Timings>,
    planned: Duration,
) -> SendableRecordBatchStream {
    let schema = batches.schema();
    let timings = Arc::clone(timings);
    let of = Arc::clone(&schema);
    let last = stream::once(async move {
        let steps = SHOWN.map(|step| {
            let spent = match step {
                TimedStep::Plan => planned,
                step => timings.spent(step),
            };
            format!("{}={spent:?}", step.name())
        });
        let cells = ["Times", &steps.join(", ")].map(|text| {
            let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
            text
        });
        Ok(RecordBatch::try_new(of, cells.to_vec())?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.chain(last)))
}
