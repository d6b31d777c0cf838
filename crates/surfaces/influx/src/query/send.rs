//! The answer of statements on its way to the client.
//!
//! Does: run statements one after the other, encode their series as they come, send what has gathered, charge what waits to
//! the statement. Does not: hold an answer: a part that is encoded leaves, unless its form cannot be written in parts.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use nilometer_http::{ErrorResponse, Http};
use nilometer_service::{
    Charged, Error as ServiceError, Laps, Outcome, Params, Prepared, Sabotage, Set, SetHead,
    SetStream, TimedStep,
};
use tokio::sync::mpsc;

use super::request::Asked;
use crate::encode::{Encode, Form, Message, ResultEnd};
use nilometer_http::Chunk;

/// What has gathered leaves when it is this much.
const CHUNK_BYTES: usize = 256 << 10;

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    /// The client went before.
    Unwanted,
}

/// The client is gone.
struct Gone;

/// Why a statement has no more series.
enum Broken {
    Gone,
    By(ServiceError),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<ServiceError> for Broken {
    fn from(error: ServiceError) -> Self {
        Self::By(error)
    }
}

/// Encodes and sends.
pub(super) struct Sender {
    chunks: mpsc::Sender<Chunk>,
    encoder: Box<dyn Encode>,
    /// Rows of a chunk; `None` = the answer is one document.
    chunk_rows: Option<usize>,
    /// Whether statements that change something are warned of.
    is_read_only: bool,
    out: Vec<u8>,
    has_sent: bool,
    /// Where the time goes.
    laps: Laps,
    /// Where in `out` the result of the statement begins; `None` = a part of it has left.
    result_at: Option<usize>,
}

/// The series that is being written.
struct Open {
    head: Arc<SetHead>,
    rows: usize,
}

impl Sender {
    pub(super) fn new(
        asked: &Asked,
        form: Form,
        chunks: mpsc::Sender<Chunk>,
        is_read_only: bool,
        laps: Laps,
    ) -> Self {
        Self {
            chunks,
            encoder: form.encoder(asked.times, asked.is_pretty),
            chunk_rows: asked.chunk_rows,
            is_read_only,
            out: Vec::new(),
            has_sent: false,
            laps,
            result_at: None,
        }
    }

    /// Is ready when nobody waits for the answer any more.
    pub(super) fn gone(&self) -> impl Future<Output = ()> + use<> {
        let chunks = self.chunks.clone();
        async move { chunks.closed().await }
    }

    /// Breaks the answer off.
    pub(super) async fn fail(&self, refusal: ErrorResponse) {
        // Whoever does not listen any more does not need the error either.
        let _ = self.chunks.send(Err(refusal)).await;
    }

    /// Runs all statements and sends what they answer.
    pub(super) async fn run(
        &mut self,
        http: &Arc<Http>,
        statements: &[Box<dyn Prepared>],
        parameters: &Params,
    ) -> Sent {
        match self.run_all(http, statements, parameters).await {
            Ok(()) => Sent::Whole,
            Err(Gone) => Sent::Unwanted,
        }
    }

    async fn run_all(
        &mut self,
        http: &Arc<Http>,
        statements: &[Box<dyn Prepared>],
        parameters: &Params,
    ) -> Result<(), Gone> {
        if self.chunk_rows.is_none() {
            self.encoder.begin(statements.len(), &mut self.out);
        }
        let mut has_failed = false;
        for (nth, statement) in statements.iter().enumerate() {
            let messages = self.messages(&**statement);
            if has_failed {
                self.begin_result(nth, &[]);
                self.end_result(Some("not executed"));
                continue;
            }
            let time_max = http.service().options().query.query_ms_max;
            // A statement looks at the time when it is asked for rows, and nobody asks while a client does not read.
            let work = self.statement(http, nth, &**statement, parameters, &messages);
            let executor = http.service().executor();
            let done = executor.within(Duration::from_millis(time_max), work).await;
            let done = done
                .unwrap_or_else(|| Err(Broken::By(ServiceError::QueryTime { limit_ms: time_max })));
            match done {
                Ok(()) => {}
                Err(Broken::Gone) => return Err(Gone),
                Err(Broken::By(error)) => {
                    has_failed = true;
                    self.fail_statement(nth, &error);
                }
            }
            if self.chunk_rows.is_some() || self.out.len() >= CHUNK_BYTES {
                self.flush(None).await?;
            }
        }
        if self.chunk_rows.is_none() {
            self.encoder.end(&mut self.out);
        }
        self.flush(None).await?;
        if !self.has_sent {
            // CSV of statements that answer nothing is empty, and an answer all the same.
            self.chunks.send(Ok(Bytes::new())).await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    /// What a client is told that asks in a way meant for reading.
    fn messages(&self, statement: &dyn Prepared) -> Vec<Message> {
        let change = self.is_read_only.then(|| statement.change()).flatten();
        change
            .map(|text| Message {
                level: "warning",
                text: format!(
                    "deprecated use of '{text}' in a read only context, please use a POST request instead"
                ),
            })
            .into_iter()
            .collect()
    }

    fn begin_result(&mut self, nth: usize, messages: &[Message]) {
        if self.chunk_rows.is_some() {
            self.encoder.begin(1, &mut self.out);
        }
        self.result_at = Some(self.out.len());
        self.encoder.begin_result(nth, messages, &mut self.out);
    }

    fn end_result(&mut self, error: Option<&str>) {
        self.end_part(ResultEnd {
            is_partial: false,
            error,
        });
    }

    fn end_part(&mut self, end: ResultEnd<'_>) {
        self.encoder.end_result(end, &mut self.out);
        if self.chunk_rows.is_some() {
            self.encoder.end(&mut self.out);
        }
    }

    /// Ends the result of a statement with an error. What it has answered before stays only if it has left already.
    fn fail_statement(&mut self, nth: usize, error: &ServiceError) {
        tracing::debug!(%error, "statement ended");
        let text = error.to_string();
        if let Some(at) = self.result_at.take() {
            self.out.truncate(at);
            self.encoder.take_back_result();
            self.encoder.begin_result(nth, &[], &mut self.out);
        }
        self.end_result(Some(&text));
    }

    async fn statement(
        &mut self,
        http: &Arc<Http>,
        nth: usize,
        statement: &dyn Prepared,
        parameters: &Params,
        messages: &[Message],
    ) -> Result<(), Broken> {
        self.begin_result(nth, messages);
        if http.service().has(Sabotage::DropForgotten) && statement.change().is_some() {
            self.end_result(None);
            return Ok(());
        }
        let timings = Arc::clone(self.laps.timings());
        let planned = timings.spent(TimedStep::Plan);
        self.laps.leave_out();
        let outcome = statement.run(parameters).await;
        let planning = timings.spent(TimedStep::Plan).saturating_sub(planned);
        self.laps.end_without(TimedStep::Read, planning);
        match outcome? {
            Outcome::Done { .. } => self.end_result(None),
            Outcome::Sets(sets) => self.sets(http, nth, sets).await?,
            Outcome::Rows(_) => return Err(ServiceError::NotOneTable.into()),
        }
        Ok(())
    }

    async fn sets(
        &mut self,
        http: &Arc<Http>,
        nth: usize,
        mut sets: SetStream,
    ) -> Result<(), Broken> {
        let mut open: Option<Open> = None;
        let mut rows = 0u64;
        while let Some(set) = sets.next().await {
            self.laps.end(TimedStep::Read);
            let set = set?;
            if http.service().has(Sabotage::SeriesLeftOut)
                && open.as_ref().is_some_and(|open| open.head != set.head)
            {
                continue;
            }
            rows += set.rows.len() as u64;
            self.set(nth, &set, &mut open, &mut sets).await?;
            sets.hold(self.out.capacity())?;
            self.laps.end(TimedStep::Encode);
            if self.out.len() >= CHUNK_BYTES && !self.encoder.holds_results() {
                self.flush(Some(&mut sets)).await?;
                // Whoever reads the answer takes as long as they like.
                self.laps.leave_out();
            }
        }
        self.laps.end(TimedStep::Read);
        if open.is_some() {
            self.encoder.end_series(false, &mut self.out);
        }
        self.end_result(None);
        self.laps.end(TimedStep::Encode);
        http.service().counters().rows_answered.add(rows);
        Ok(())
    }

    /// Writes rows of a series, in parts where the client wants chunks.
    async fn set(
        &mut self,
        nth: usize,
        set: &Set,
        open: &mut Option<Open>,
        sets: &mut SetStream,
    ) -> Result<(), Broken> {
        let goes_on = |open: &Open| Arc::ptr_eq(&open.head, &set.head) || open.head == set.head;
        if !open.as_ref().is_some_and(goes_on) {
            if open.take().is_some() {
                self.encoder.end_series(false, &mut self.out);
                self.next_chunk(nth, sets).await?;
            }
            self.begin_series(set);
            *open = Some(Open {
                head: Arc::clone(&set.head),
                rows: 0,
            });
        }
        let Some(open) = open else { return Ok(()) };
        let mut rest = set.rows.clone();
        while let Some(chunk_rows) = self.chunk_rows
            && open.rows + rest.len() > chunk_rows
        {
            // Known to go on only now that there is another row.
            let fit = rest.start..rest.start + chunk_rows - open.rows;
            rest.start = fit.end;
            self.encoder.rows(&set.batch, fit, &mut self.out);
            self.encoder.end_series(true, &mut self.out);
            self.next_chunk(nth, sets).await?;
            self.begin_series(set);
            open.rows = 0;
        }
        open.rows += rest.len();
        self.encoder.rows(&set.batch, rest, &mut self.out);
        Ok(())
    }

    fn begin_series(&mut self, set: &Set) {
        let columns = set.batch.schema_ref();
        self.encoder.begin_series(&set.head, columns, &mut self.out);
    }

    /// Where the client wants chunks, a series, or the part of one that a chunk may have, is a document of its own.
    async fn next_chunk(&mut self, nth: usize, sets: &mut SetStream) -> Result<(), Broken> {
        if self.chunk_rows.is_none() {
            return Ok(());
        }
        self.end_part(ResultEnd {
            is_partial: true,
            error: None,
        });
        sets.hold(self.out.capacity())?;
        self.flush(Some(sets)).await?;
        self.begin_result(nth, &[]);
        Ok(())
    }

    /// Sends what has gathered. Its memory is the statement's until the last byte is in the hands of the system.
    async fn flush(&mut self, sets: Option<&mut SetStream>) -> Result<(), Gone> {
        if self.out.is_empty() {
            return Ok(());
        }
        (self.result_at, self.has_sent) = (None, true);
        let bytes = std::mem::take(&mut self.out);
        let memory = sets.map(|sets| sets.hand_over(bytes.capacity()));
        let mut written = Bytes::from_owner(Written {
            bytes,
            _memory: memory,
        });
        while !written.is_empty() {
            let chunk = written.split_to(written.len().min(CHUNK_BYTES));
            self.chunks.send(Ok(chunk)).await.map_err(|_| Gone)?;
        }
        Ok(())
    }
}

/// What is written, with the memory that it has.
struct Written {
    bytes: Vec<u8>,
    _memory: Option<Charged>,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
