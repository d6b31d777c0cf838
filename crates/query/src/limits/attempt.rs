//! Execution of a plan, repeated with smaller batches where a function would exceed its bound.
//!
//! How much functions make of a row is known when they are called. Does: begin again, as long as nothing was answered, with
//! as many rows in a batch as fit. Does not: begin again for a row that is too much by itself; that is the statement's error.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::{Stream, StreamExt};

use crate::error::{Error, TooManyRows};
use crate::limits::batch_size;
use crate::limits::cooperate::cooperate;
use crate::limits::scope::Scope;

/// What a plan is run with.
pub(crate) struct Attempt {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Rows of a batch.
    pub(crate) rows: usize,
    pub(crate) session_id: String,
    pub(crate) config: SessionConfig,
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) scope: Scope,
}

impl Attempt {
    /// The answer of the plan, from the attempt that has one.
    pub(crate) fn start(self) -> Result<SendableRecordBatchStream, Error> {
        let batches = self.run()?;
        Ok(Box::pin(Attempts {
            schema: batches.schema(),
            batches: Some(batches),
            attempt: self,
            has_answered: false,
        }))
    }

    fn run(&self) -> Result<SendableRecordBatchStream, Error> {
        let default = self.config.batch_size();
        let plan = batch_size::with_rows(Arc::clone(&self.plan), self.rows, default)?;
        let plan = cooperate(plan, &self.scope)?;
        // Lists of all functions are only for what lists them: a plan that runs has found its own.
        let task = TaskContext::new(
            None,
            self.session_id.clone(),
            self.config.clone().with_batch_size(self.rows),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            Arc::clone(&self.runtime),
        );
        // Some operators start their tasks here.
        Ok(self.scope.run(|| execute_stream(plan, Arc::new(task)))?)
    }

    /// With fewer rows, if that can help.
    fn again(&mut self, error: &DataFusionError) -> Option<Result<SendableRecordBatchStream>> {
        let DataFusionError::External(inner) = error.find_root() else {
            return None;
        };
        let rows = inner.downcast_ref::<TooManyRows>()?.rows_fit;
        if self.rows <= 1 {
            return None;
        }
        self.rows = rows.clamp(1, self.rows / 2);
        let run = reset_plan_states(Arc::clone(&self.plan)).map(|plan| self.plan = plan);
        let run = run.and_then(|()| {
            self.run()
                .map_err(|error| DataFusionError::External(Box::new(error)))
        });
        Some(run)
    }
}

struct Attempts {
    schema: SchemaRef,
    /// `None` = it is over.
    batches: Option<SendableRecordBatchStream>,
    attempt: Attempt,
    has_answered: bool,
}

impl Stream for Attempts {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(batches) = &mut self.batches else {
                return Poll::Ready(None);
            };
            let item = ready!(batches.poll_next_unpin(context));
            if let Some(Err(error)) = &item
                && !self.has_answered
            {
                // What was taken by the first attempt is given back before the next.
                self.batches = None;
                match self.attempt.again(error) {
                    Some(Ok(batches)) => {
                        self.batches = Some(batches);
                        continue;
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => {}
                }
            }
            self.has_answered = true;
            return Poll::Ready(item);
        }
    }
}

impl RecordBatchStream for Attempts {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
