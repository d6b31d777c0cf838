//! Answers of several series: what InfluxQL answers, and Prometheus after it.
//!
//! Does: carry the parts of such an answer as a stream, count what its reader holds, end it when its statement has to end.
//! Does not: sort or merge series (the language gives them in order), or encode them (a surface does).

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, stream};

use super::Charged;
use crate::error::Error;
use crate::limits::statements::{Ended, MemoryTaken, Running};

/// What identifies a series of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetHead {
    /// Its name, such as that of a measurement; empty = it has none.
    pub name: Arc<str>,
    /// Its tags, in the order in which they are shown. Their names are those of all series of an answer.
    pub tags: Vec<(Arc<str>, Arc<str>)>,
}

/// Rows of one series. Neighbours with the same head are one series, whose rows go on; they have the same columns.
#[derive(Debug, Clone)]
pub struct Set {
    /// Whose rows they are.
    pub head: Arc<SetHead>,
    /// What has the rows, with those of other series before and behind them: an answer of a thousand series of a row each is one
    /// batch. Times are timestamps in nanoseconds, in the zone in which they are shown. Columns may share a name.
    pub batch: Arc<RecordBatch>,
    /// Which of its rows they are; none if the series has none.
    pub rows: Range<usize>,
}

impl Set {
    /// All rows of a batch.
    pub fn new(head: SetHead, rows: RecordBatch) -> Self {
        Self {
            head: Arc::new(head),
            rows: 0..rows.num_rows(),
            batch: Arc::new(rows),
        }
    }

    /// Its rows by themselves.
    pub fn alone(&self) -> RecordBatch {
        self.batch.slice(self.rows.start, self.rows.len())
    }
}

/// Series of an answer, part by part; see [`SetStream`].
pub trait Sets: Stream<Item = Result<Set, Error>> + Send {
    /// As [`Rows::hold`](super::Rows::hold).
    fn hold(&mut self, bytes: usize) -> Result<(), Error>;
    /// As [`Rows::hand_over`](super::Rows::hand_over).
    fn hand_over(&mut self, bytes: usize) -> Charged;
}

/// An answer of several series. Dropping it stops the statement.
pub struct SetStream(Box<dyn Sets + Unpin>);

impl SetStream {
    /// Of series that a language gives.
    pub fn new(sets: impl Sets + Unpin + 'static) -> Self {
        Self(Box::new(sets))
    }

    /// Of series that are computed as they are asked for, for a statement on the list of those that run.
    pub fn running(
        running: Running,
        sets: impl Stream<Item = Result<Set, Error>> + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Self::new(RunningSets::new(running, sets.boxed())?))
    }

    /// Of series that are there already.
    pub fn of(running: Running, sets: Vec<Set>) -> Result<Self, Error> {
        Self::running(running, stream::iter(sets.into_iter().map(Ok)))
    }

    /// As [`Rows::hold`](super::Rows::hold).
    pub fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        self.0.hold(bytes)
    }

    /// As [`Rows::hand_over`](super::Rows::hand_over).
    pub fn hand_over(&mut self, bytes: usize) -> Charged {
        self.0.hand_over(bytes)
    }
}

impl fmt::Debug for SetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetStream")
    }
}

impl Stream for SetStream {
    type Item = Result<Set, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0).poll_next(context)
    }
}

/// The series of a statement that runs: its reader's memory is its own, and what ends it ends them.
struct RunningSets {
    sets: Option<stream::BoxStream<'static, Result<Set, Error>>>,
    held: MemoryTaken,
    /// Wakes a reader that waits for rows when the statement has to end.
    due: BoxFuture<'static, ()>,
    running: Running,
}

impl RunningSets {
    fn new(
        running: Running,
        sets: stream::BoxStream<'static, Result<Set, Error>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            sets: Some(sets),
            held: running.memory().take(0)?,
            due: running.stop().due(),
            running,
        })
    }
}

impl Stream for RunningSets {
    type Item = Result<Set, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(sets) = &mut self.sets else {
            return Poll::Ready(None);
        };
        let item = sets.poll_next_unpin(context);
        // An end is an end, however late: what was asked for is there.
        let is_last = matches!(item, Poll::Ready(None));
        let is_due = !is_last && {
            let is_late = self.running.ended().is_some();
            is_late || item.is_pending() && self.due.poll_unpin(context).is_ready()
        };
        if is_due {
            self.sets = None;
            let ended = self.running.ended().unwrap_or(Ended::Cancelled);
            return Poll::Ready(Some(Err(ended.into())));
        }
        if is_last || matches!(item, Poll::Ready(Some(Err(_)))) {
            self.sets = None;
        }
        item
    }
}

impl Sets for RunningSets {
    fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        Ok(self.held.resize(bytes)?)
    }

    fn hand_over(&mut self, bytes: usize) -> Charged {
        Charged::by(self.held.split(bytes))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_schema::{DataType, Field, Schema};
    use nilometer_engine::{MemoryBudget, MemoryUse};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::executor::Threads;
    use crate::limits::statements::Statements;
    use crate::options::QueryOptions;

    fn set(name: &str) -> Set {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1, 2]))]);
        let (name, tags) = (name.into(), Vec::new());
        Set::new(SetHead { name, tags }, rows.unwrap())
    }

    fn started(options: &QueryOptions) -> (Arc<Statements>, MemoryBudget, CancellationToken) {
        let budget = MemoryBudget::new(80 << 20);
        let statements = Arc::new(Statements::new(options, &budget, Threads::of_caller()));
        (statements, budget, CancellationToken::new())
    }

    #[tokio::test]
    async fn what_a_reader_holds_counts_as_the_statements_until_the_last_byte_is_let_go() {
        let (statements, budget, caller) = started(&QueryOptions::default());
        let running = statements.start("d", "SHOW SERIES", &caller);
        let mut sets = SetStream::of(running, vec![set("a"), set("b")]).unwrap();
        let mut names = Vec::new();
        while let Some(set) = sets.next().await {
            names.push(set.unwrap().head.name.clone());
        }
        assert_eq!(names, ["a".into(), "b".into()]);
        sets.hold(3 << 20).unwrap();
        assert_eq!(statements.list()[0].memory_bytes, 3 << 20);
        let taken_along = sets.hand_over(2 << 20);
        sets.hold(0).unwrap();
        drop(sets);
        assert!(statements.list().is_empty());
        assert_eq!(budget.used(MemoryUse::Query), 2 << 20);
        drop(taken_along);
        assert_eq!(budget.used(MemoryUse::Query), 0);
    }

    #[tokio::test]
    async fn a_statement_that_is_ended_while_its_reader_waits_says_so_at_once() {
        let (statements, _, caller) = started(&QueryOptions::default());
        let running = statements.start("d", "SELECT v FROM m", &caller);
        let sets = stream::iter([Ok(set("a"))]).chain(stream::pending());
        let mut sets = SetStream::running(running, sets).unwrap();
        sets.next().await.unwrap().unwrap();
        let id = statements.list()[0].id;
        let ended = async {
            let next = sets.next();
            assert!(statements.kill(id));
            next.await
        };
        let error = ended.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Killed { id: killed } if killed == id));
        assert!(sets.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_waits_longer_than_the_statement_may_run_is_told_the_limit() {
        let options = QueryOptions {
            query_ms_max: 20,
            ..QueryOptions::default()
        };
        let (statements, _, caller) = started(&options);
        let running = statements.start("d", "SELECT v FROM m", &caller);
        let mut sets = SetStream::running(running, stream::pending()).unwrap();
        let error = sets.next().await.unwrap().unwrap_err();
        assert_eq!(error.setting(), Some("query-ms-max"));
    }

    /// Rows of several series would stand under the columns of the first.
    #[tokio::test]
    async fn an_answer_of_several_series_is_refused_where_everything_is_a_table() {
        let (statements, _, caller) = started(&QueryOptions::default());
        let running = statements.start("d", "SELECT v FROM a, b", &caller);
        let sets = SetStream::of(running, vec![set("a"), set("b")]).unwrap();
        let refused = crate::Outcome::Sets(sets).into_rows().unwrap_err();
        assert_eq!(refused.class(), crate::Class::Unsupported);
        assert!(refused.to_string().contains("/query"), "{refused}");
        assert!(statements.list().is_empty(), "it has ended");
    }
}
