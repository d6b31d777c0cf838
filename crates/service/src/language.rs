//! Languages: how a text becomes rows, without saying which language it is in.
//!
//! Does: say what a language has to do, and what a statement answers. Does not: know one. The program hands its languages
//! to the surfaces.

pub(crate) mod advisory;
pub(crate) mod bytea;
pub(crate) mod notices;
pub(crate) mod numbers;
pub(crate) mod params;
pub(crate) mod sets;
pub(crate) mod timings;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::Stream;
use futures::future::BoxFuture;
use nilometer_engine::{Engine, Transaction};
use tokio_util::sync::CancellationToken;

use crate::access::Principal;
use crate::define::TableName;
use crate::error::Error;
use crate::executor::Executor;
use crate::jobs::background::BackgroundJobs;
use crate::limits::statements::Statements;
use crate::options::QueryOptions;
use crate::write::acquisition::Acquisitions;
use advisory::SessionLocks;
use notices::SessionNotices;
use numbers::SessionNumbers;
use params::Params;
use sets::SetStream;
use timings::Timings;

/// What the languages of a service share. The service makes it and gives it to each of them.
#[derive(Debug, Clone)]
pub struct LanguageContext {
    /// What statements read and change.
    pub engine: Arc<Engine>,
    /// Running statements of all languages: each shows and ends those of the others, and shares the memory with them.
    pub statements: Arc<Statements>,
    /// Does their work.
    pub executor: Arc<dyn Executor>,
    /// Limits of statements.
    pub options: QueryOptions,
    /// When the store takes records, for who asks what was known at a time.
    pub acquisitions: Arc<Acquisitions>,
    /// What runs by schedules of its own.
    pub jobs: Arc<BackgroundJobs>,
}

impl LanguageContext {
    /// Nothing runs yet.
    pub fn new(engine: Arc<Engine>, executor: Arc<dyn Executor>, options: QueryOptions) -> Self {
        let statements = Statements::new(&options, engine.budget(), Arc::clone(&executor));
        let jobs = BackgroundJobs::new(Arc::clone(&engine), Arc::clone(&executor));
        Self {
            jobs,
            acquisitions: Acquisitions::new(Arc::clone(&engine)),
            engine,
            statements: Arc::new(statements),
            executor,
            options,
        }
    }
}

/// For whom a statement runs.
#[derive(Debug, Clone)]
pub struct Session {
    /// Where names without a database are looked up.
    pub database: String,
    /// Who asks.
    pub principal: Principal,
    /// The schema of names without one; `None` = the database's default.
    pub schema: Option<String>,
    /// What changes something is refused.
    pub is_read_only: bool,
    /// The time zone of times without an offset; `None` = UTC.
    pub zone: Option<String>,
    /// A statement ends soon after this is cancelled.
    pub cancelled: CancellationToken,
    /// What its client's connection is, for statements that ask; `None` = each statement has a connection of its own.
    pub client: Option<Arc<Client>>,
    /// What statements are part of.
    pub transaction: Option<Arc<Transaction>>,
    /// Where the times of a statement are added up; `None` = nobody shows them, and none are taken.
    pub timings: Option<Arc<Timings>>,
}

/// A connection that is kept, as statements ask for it (`current_user`, `current_setting('work_mem')`).
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// The name that it gave, whether or not anybody asked for a password.
    pub user: String,
    /// The number that it is cancelled by.
    pub process: i32,
    /// Settings by their names in lower case.
    pub settings: BTreeMap<String, String>,
    /// What it was given of sequences.
    pub numbers: Arc<SessionNumbers>,
    /// Its advisory locks.
    pub locks: Arc<SessionLocks>,
    /// What it is told beside answers.
    pub notices: Arc<SessionNotices>,
}

impl Session {
    /// For somebody, in UTC, until they say otherwise.
    pub fn new(database: &str, principal: Principal) -> Self {
        Self {
            database: database.to_owned(),
            principal,
            schema: None,
            is_read_only: false,
            zone: None,
            cancelled: CancellationToken::new(),
            client: None,
            transaction: None,
            timings: None,
        }
    }

    /// Takes over what a statement sets of the session, for who keeps it from one statement to the next; `false` = it is
    /// another statement, to be run.
    pub fn set(&mut self, language: &dyn Language, text: &str) -> Result<bool, Error> {
        let change = language.session_change(text)?;
        let sets = change.is_some();
        if let Some(change) = change {
            self.change(change);
        }
        Ok(sets)
    }

    /// Takes over what was set.
    pub fn change(&mut self, change: SessionChange) {
        match change {
            SessionChange::Zone(zone) => self.zone = zone,
        }
    }

    /// Carries out a statement. One that sets something of the session is refused, as nothing would be left of it:
    /// see [`Session::set`].
    pub async fn run(
        &self,
        language: &dyn Language,
        text: &str,
        parameters: &Params,
    ) -> Result<Outcome, Error> {
        let prepared = language.prepare(text, self)?;
        prepared.run(parameters).await
    }
}

/// What a statement sets of its session, and not of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// The time zone of times without an offset; `None` = the default, UTC.
    Zone(Option<String>),
}

/// A statement that is due by the clock.
pub trait Due: fmt::Debug + Send {
    /// Runs it, and keeps that it ran; what goes wrong is counted and logged, as nobody waits for an answer.
    fn run(self: Box<Self>, cancelled: CancellationToken) -> BoxFuture<'static, ()>;
}

/// Statements that the clock has run since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runs {
    /// Those that ended well.
    pub ok: u64,
    /// Those that failed.
    pub failed: u64,
}

/// What a statement takes and answers, as it is known before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The types of its parameters by number, `$1` first; [`DataType::Null`] = nothing says which, as of a text.
    pub parameters: Vec<DataType>,
    /// Names and types of the columns of its rows; `None` = it answers none.
    pub columns: Option<SchemaRef>,
}

/// A language that statements are written in.
pub trait Language: fmt::Debug + Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// The time zone of this name, as answers are to be told of it.
    fn time_zone(&self, name: &str) -> Result<String, Error>;
    /// What a statement sets of its session; `None` = nothing, it is to be prepared and run.
    fn session_change(&self, _text: &str) -> Result<Option<SessionChange>, Error> {
        Ok(None)
    }
    /// Takes a statement for a session.
    fn prepare(&self, text: &str, session: &Session) -> Result<Box<dyn Prepared>, Error>;
    /// What a statement takes and answers, without running it. `known` has the types that its sender has said of
    /// parameters by number.
    fn describe<'a>(
        &'a self,
        _text: &'a str,
        _known: &'a [Option<DataType>],
        _session: &'a Session,
    ) -> BoxFuture<'a, Result<Description, Error>> {
        let name = self.name();
        Box::pin(async move { Err(Error::Undescribed { name }) })
    }
    /// Rows that somebody streams into a table that is there, with the defaults of the columns that they leave out, once
    /// they meet the conditions of the table: where those are expressions, a language evaluates them.
    fn complete<'a>(
        &'a self,
        _table: &'a TableName,
        rows: RecordBatch,
        _session: &'a Session,
    ) -> BoxFuture<'a, Result<RecordBatch, Error>> {
        Box::pin(async move { Ok(rows) })
    }
    /// Takes a text of several statements with the values of its parameters: what is wrong with the text, or missing among
    /// the values, is told before the first of them runs.
    fn prepare_all(
        &self,
        text: &str,
        _parameters: &Params,
        session: &Session,
    ) -> Result<Vec<Box<dyn Prepared>>, Error> {
        Ok(vec![self.prepare(text, session)?])
    }
    /// Statements of this language that are due at this time, in nanoseconds since 1970.
    fn due(&self, _now_ns: i64) -> Vec<Box<dyn Due>> {
        Vec::new()
    }
    /// What became of those that were due.
    fn runs(&self) -> Runs {
        Runs::default()
    }
}

/// A statement that can run.
pub trait Prepared: fmt::Debug + Send + Sync {
    /// Carries it out on what is there now. What writes is durable when this returns; rows are computed as they are asked
    /// for, so ask where computing is allowed.
    fn run<'a>(&'a self, parameters: &'a Params) -> BoxFuture<'a, Result<Outcome, Error>>;
    /// The statement as its language writes it, if it changes something; for protocols that warn where only reading is
    /// expected. `None` also = it is not known before it runs.
    fn change(&self) -> Option<String> {
        None
    }
}

/// What became of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// It answers rows.
    Rows(RowStream),
    /// It answers rows of several series.
    Sets(SetStream),
    /// It changed something.
    Done {
        /// Rows that it wrote or deleted.
        rows: u64,
    },
}

impl Outcome {
    /// As one table, for who knows nothing else: what was done is its count in a column `rows`. Several series are none,
    /// as each may have columns of its own.
    pub fn into_rows(self) -> Result<RowStream, Error> {
        match self {
            Self::Rows(rows) => Ok(rows),
            Self::Done { rows } => Ok(RowStream::new(Count::of(rows))),
            Self::Sets(_) => Err(Error::NotOneTable),
        }
    }
}

/// Rows of an answer, batch by batch; see [`RowStream`].
pub trait Rows: Stream<Item = Result<RecordBatch, Error>> + Send {
    /// Names and types of the columns.
    fn schema(&self) -> SchemaRef;
    /// Says how many bytes the reader holds of rows that it has taken: they count as the statement's. An error = it may
    /// not hold so many.
    fn hold(&mut self, bytes: usize) -> Result<(), Error>;
    /// The first bytes of what is held, for who takes them along: they count until what is returned is dropped.
    fn hand_over(&mut self, bytes: usize) -> Charged;
}

/// Memory of a statement that its answer's reader has taken over, given back when dropped.
pub struct Charged(
    #[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Any + Send + Sync>,
);

impl Charged {
    /// What gives the memory back when it is dropped.
    pub fn by(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for Charged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Charged")
    }
}

/// The rows of an answer. Dropping it stops the statement.
pub struct RowStream(Box<dyn Rows + Unpin>);

impl RowStream {
    /// Of rows that a language gives.
    pub fn new(rows: impl Rows + Unpin + 'static) -> Self {
        Self(Box::new(rows))
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    /// As [`Rows::hold`].
    pub fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        self.0.hold(bytes)
    }

    /// As [`Rows::hand_over`].
    pub fn hand_over(&mut self, bytes: usize) -> Charged {
        self.0.hand_over(bytes)
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream")
            .field("schema", &self.schema())
            .finish_non_exhaustive()
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0).poll_next(context)
    }
}

/// How many rows something was done to, as a table.
struct Count(SchemaRef, Option<RecordBatch>);

impl Count {
    fn of(rows: u64) -> Self {
        let field = Field::new("rows", DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let rows = Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(rows)])
            .expect("one column of the type that the schema says");
        Self(schema, Some(batch))
    }
}

impl Stream for Count {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.1.take().map(Ok))
    }
}

impl Rows for Count {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.0)
    }

    fn hold(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn hand_over(&mut self, _: usize) -> Charged {
        Charged::by(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    #[test]
    fn what_was_done_is_its_count_where_everything_is_a_table() {
        let mut rows = Outcome::Done { rows: 3 }.into_rows().unwrap();
        assert_eq!(rows.schema().field(0).name(), "rows");
        rows.hold(1 << 40).unwrap();
        let batch = rows.next().now_or_never().unwrap().unwrap().unwrap();
        let count = batch.column(0).as_any().downcast_ref::<Int64Array>();
        assert_eq!(count.unwrap().values(), &[3]);
        assert!(rows.next().now_or_never().unwrap().is_none());
    }
}
