//! The answer of a series query as a stream of the plan's columns.
//!
//! Does: run the query where it is polled, and put its columns into the plan's order. Does not: wait.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context as TaskContext, Poll};

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;
use nilometer_engine::Snapshot;
use nilometer_series::{Batches, Context, Error as SeriesError, SeriesQuery};

use super::context::Over;
use crate::limits::scope;

/// The columns of a plan, and where they are in the answer.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) schema: SchemaRef,
    pub(crate) places: Arc<[usize]>,
}

impl Columns {
    pub(super) fn project(&self, projection: &[usize]) -> Result<Self> {
        let places = projection.iter().map(|at| self.places.get(*at).copied());
        let Some(places) = places.collect::<Option<Vec<usize>>>() else {
            return internal_err!("a column that a series query does not have");
        };
        Ok(Self {
            schema: Arc::new(self.schema.project(projection)?),
            places: places.into(),
        })
    }

    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .places
            .iter()
            .map(|at| batch.columns().get(*at).cloned());
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
            return internal_err!("a column that a series query does not have");
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

#[derive(Debug)]
enum State {
    Asked(Arc<SeriesQuery>, Arc<Snapshot>),
    Answering(Box<Batches>),
    Over,
}

/// The answer, a batch at a time.
#[derive(Debug)]
pub(crate) struct SeriesStream {
    state: State,
    columns: Columns,
    context: Context,
    over: Over,
    /// It has buckets, which begin when there are times.
    has_buckets: bool,
    metrics: Option<BaselineMetrics>,
}

impl SeriesStream {
    pub(super) fn new(
        query: Arc<SeriesQuery>,
        snapshot: Arc<Snapshot>,
        columns: Columns,
        context: Context,
        over: Over,
    ) -> Self {
        Self {
            has_buckets: query.shape().bucket.is_some(),
            state: State::Asked(query, snapshot),
            columns,
            context,
            over,
            metrics: None,
        }
    }

    pub(super) fn measured(self, metrics: BaselineMetrics) -> Self {
        Self {
            metrics: Some(metrics),
            ..self
        }
    }

    /// Begins to read, as far as that is done before the first row is asked for, and says how many rows are still to be
    /// read, at most.
    pub(crate) fn begin(&mut self) -> Result<u64> {
        if let State::Asked(query, snapshot) = &self.state {
            let batches = scope::aside(|| query.run(snapshot, &self.context));
            let batches = batches.map_err(|error| self.error(error))?;
            self.state = State::Answering(Box::new(batches));
        }
        Ok(match &self.state {
            State::Answering(batches) => batches.rows_estimate(),
            State::Asked(..) | State::Over => 0,
        })
    }

    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        if let Err(error) = self.begin() {
            self.state = State::Over;
            return Some(Err(error));
        }
        let State::Answering(batches) = &mut self.state else {
            return None;
        };
        let item = scope::aside(|| batches.next())?;
        let item = match item {
            Ok(batch) => self.checked(&batch),
            Err(error) => Err(self.error(error)),
        };
        if item.is_err() {
            self.state = State::Over;
        }
        Some(item)
    }

    fn checked(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.has_buckets {
            let starts = batch.column(0).as_primitive::<TimestampNanosecondType>();
            if starts.values().contains(&i64::MIN) {
                return exec_err!("time_bucket: a bucket begins before the earliest time there is");
            }
        }
        self.columns.of(batch)
    }

    /// What the rules of SQL say of an error.
    fn error(&self, error: SeriesError) -> DataFusionError {
        match error {
            SeriesError::Memory(_) => {
                let over = *self.over.lock().unwrap_or_else(PoisonError::into_inner);
                match over {
                    Some(over) => DataFusionError::External(Box::new(over)),
                    None => DataFusionError::Execution("the memory is full".to_owned()),
                }
            }
            SeriesError::OutOfRange {
                operation: "sum", ..
            } => DataFusionError::Execution(
                "a sum is beyond 64 bits; sum a cast to DOUBLE or to DECIMAL(38,0) instead"
                    .to_owned(),
            ),
            SeriesError::Engine(error) => DataFusionError::External(Box::new(error)),
            // The answer knows what has ended the statement.
            SeriesError::Cancelled => {
                DataFusionError::Execution("the statement has to end".to_owned())
            }
            error => DataFusionError::Internal(error.to_string()),
        }
    }
}

impl Stream for SeriesStream {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Self::Item>> {
        if scope::is_turn_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Err(over) = scope::check() {
            self.state = State::Over;
            return Poll::Ready(Some(Err(over)));
        }
        let elapsed = self.metrics.as_ref().map(|it| it.elapsed_compute().clone());
        let timer = elapsed.as_ref().map(|elapsed| elapsed.timer());
        let batch = Poll::Ready(self.next_batch());
        drop(timer);
        match &self.metrics {
            Some(metrics) => metrics.record_poll(batch),
            None => batch,
        }
    }
}

impl RecordBatchStream for SeriesStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns.schema)
    }
}
