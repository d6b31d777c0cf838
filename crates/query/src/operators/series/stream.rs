//! The answer of a series query as a stream of the plan's columns.
//!
//! Does: run the query where it is polled, once another one has chosen what it has to choose. Does not: plan.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context as TaskContext, Poll, ready};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef, TimestampNanosecondType};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::metrics::{BaselineMetrics, Time};
use futures::{Stream, StreamExt};
use nilometer_engine::Snapshot;
use nilometer_series::{
    Batches, Charge, Context, Error as SeriesError, Literal, MemoryFull, SeriesQuery, TagExpr,
};
use nilometer_service::Executor;

use super::context::Over;
use super::parted::Parted;
use crate::limits::scope::{self, Scope};
use crate::planning::recognised::{Columns, limits};

/// Rows in any order that are worth tasks of their own.
const PARTED_ROWS_MIN: u64 = 32_768;

/// What is wrong with a bucket that begins before there are times.
const BEFORE_TIME: &str = "time_bucket: a bucket begins before the earliest time there is";

enum State {
    /// Another query says which values a tag has.
    Choosing(Box<Choosing>),
    Asked,
    Answering(Box<Batches>),
    /// By several tasks.
    Parted(Parted),
    Over,
}

/// Values of a tag while they come.
struct Choosing {
    input: SendableRecordBatchStream,
    tag: Arc<str>,
    column: usize,
    values: BTreeSet<String>,
    charge: Charge,
}

/// The answer, a batch at a time.
pub(crate) struct SeriesStream {
    query: Arc<SeriesQuery>,
    snapshot: Arc<Snapshot>,
    state: State,
    columns: Columns,
    context: Context,
    errors: Errors,
    /// Who reads with several tasks, for whom; `None` = nobody.
    tasks: Option<(Arc<dyn Executor>, Scope)>,
    /// It has buckets, which begin when there are times.
    has_buckets: bool,
    metrics: Option<BaselineMetrics>,
}

impl SeriesStream {
    pub(super) fn new(
        query: Arc<SeriesQuery>,
        snapshot: Arc<Snapshot>,
        columns: Columns,
        (context, over): (Context, Over),
        scope: Option<&Scope>,
    ) -> Self {
        Self {
            has_buckets: query.shape().bucket.is_some(),
            state: State::Asked,
            query,
            snapshot,
            columns,
            context,
            errors: Errors(over),
            tasks: scope.map(|scope| (Arc::clone(scope.stop.executor()), scope.clone())),
            metrics: None,
        }
    }

    /// The same, once a query has said which values a tag has.
    pub(super) fn choosing(
        self,
        input: SendableRecordBatchStream,
        tag: Arc<str>,
        column: usize,
    ) -> Self {
        let choosing = Choosing {
            input,
            tag,
            column,
            values: BTreeSet::new(),
            charge: Charge::new(&self.context.memory),
        };
        Self {
            state: State::Choosing(Box::new(choosing)),
            ..self
        }
    }

    pub(super) fn measured(self, metrics: BaselineMetrics) -> Self {
        Self {
            metrics: Some(metrics),
            ..self
        }
    }

    /// Begins to read, as far as that is done before the first row is asked for.
    fn begin(&mut self) -> Result<()> {
        if !matches!(self.state, State::Asked) {
            return Ok(());
        }
        let batches = scope::aside(|| self.query.run(&self.snapshot, &self.context));
        let batches = batches.map_err(|error| self.errors.of(error))?;
        let threads = self.context.threads.count();
        self.state = match &self.tasks {
            Some(tasks) if threads > 1 && batches.rows_estimate() >= PARTED_ROWS_MIN => {
                let mut parts = batches.parts(threads);
                match (parts.len(), parts.pop()) {
                    (1, Some(only)) => State::Answering(Box::new(only)),
                    (_, last) => {
                        parts.extend(last);
                        let cancel = &self.context.cancel;
                        let with = (&self.columns, &self.errors, cancel);
                        State::Parted(Parted::begin(parts, with, (&tasks.0, &tasks.1)))
                    }
                }
            }
            _ => State::Answering(Box::new(batches)),
        };
        Ok(())
    }

    /// Takes what the other query has said, until it has said all.
    fn choose(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        let State::Choosing(choosing) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        loop {
            match ready!(choosing.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => {
                    if let Err(error) = choosing.take(&batch) {
                        return Poll::Ready(Err(self.choice_error(error)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => break,
            }
        }
        let values = std::mem::take(&mut choosing.values);
        let values = values.iter().map(|value| Literal::from(value.as_str()));
        let one_of = TagExpr::OneOf(choosing.tag.to_string(), values.collect());
        let mut shape = self.query.shape().clone();
        let reads = shape.innermost_mut();
        reads.tags = match std::mem::replace(&mut reads.tags, TagExpr::All) {
            TagExpr::All => one_of,
            tags => TagExpr::And(vec![tags, one_of]),
        };
        let query = SeriesQuery::new(shape, limits());
        self.query = Arc::new(query.map_err(|error| self.errors.of(error))?);
        self.state = State::Asked;
        Poll::Ready(Ok(()))
    }

    fn choice_error(&self, error: ChoiceError) -> DataFusionError {
        match error {
            ChoiceError::Memory(full) => self.errors.of(SeriesError::Memory(full)),
            ChoiceError::Plan(error) => error,
        }
    }

    fn next_batch(&mut self, context: &mut TaskContext<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let Err(error) = self.begin() {
            self.state = State::Over;
            return Poll::Ready(Some(Err(error)));
        }
        let item = match &mut self.state {
            State::Answering(batches) => {
                let item = scope::aside(|| batches.next());
                item.map(|item| match item {
                    Ok(batch) => self.checked(&batch),
                    Err(error) => Err(self.errors.of(error)),
                })
            }
            State::Parted(parted) => ready!(parted.poll_next(context)),
            State::Choosing(_) | State::Asked | State::Over => None,
        };
        if !matches!(item, Some(Ok(_))) {
            self.state = State::Over;
        }
        Poll::Ready(item)
    }

    fn checked(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.has_buckets {
            let starts = batch.column(0).as_primitive::<TimestampNanosecondType>();
            if starts.values().contains(&i64::MIN) {
                return exec_err!("{BEFORE_TIME}");
            }
        }
        self.columns.of(batch)
    }
}

/// What is said of errors.
#[derive(Debug, Clone)]
pub(super) struct Errors(Over);

impl Errors {
    /// What the rules of SQL say of one.
    pub(super) fn of(&self, error: SeriesError) -> DataFusionError {
        match error {
            SeriesError::Memory(_) => {
                let over = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
            SeriesError::OutOfRange {
                operation: nilometer_series::BUCKETS,
                ..
            } => DataFusionError::Execution(BEFORE_TIME.to_owned()),
            SeriesError::Engine(error) => DataFusionError::External(Box::new(error)),
            // The answer knows what has ended the statement.
            SeriesError::Cancelled => {
                DataFusionError::Execution("the statement has to end".to_owned())
            }
            error => DataFusionError::Internal(error.to_string()),
        }
    }
}

enum ChoiceError {
    Memory(MemoryFull),
    Plan(DataFusionError),
}

impl Choosing {
    /// Takes the values of a batch. NULL is equal to no tag.
    fn take(&mut self, batch: &RecordBatch) -> std::result::Result<(), ChoiceError> {
        let column = arrow::compute::cast(batch.column(self.column), &DataType::Utf8);
        let column = column.map_err(|error| ChoiceError::Plan(error.into()))?;
        for value in column.as_string::<i32>().iter().flatten() {
            if !self.values.contains(value) {
                let bytes = value.len() + 2 * size_of::<Literal>();
                self.charge.grow(bytes).map_err(ChoiceError::Memory)?;
                self.values.insert(value.to_owned());
            }
        }
        Ok(())
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
        match self.choose(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                self.state = State::Over;
                return Poll::Ready(Some(Err(error)));
            }
        }
        let elapsed = self.metrics.as_ref().map(|it| it.elapsed_compute().clone());
        let timer = elapsed.as_ref().map(Time::timer);
        let batch = self.next_batch(context);
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
