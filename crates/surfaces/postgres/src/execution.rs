//! A statement that runs: apart from the connection, where computing is allowed, as far as the client wants its rows.
//!
//! Does: take a turn, run the statement, write its rows as they are asked for, end with the client's wish, its time or the
//! client itself. Does not: touch a socket.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arrow::error::ArrowError;
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt};
use nilometer_service::{
    BegunTask, Charged, Error, Language, Outcome, Params, Prepared, RowStream, Service, Session,
    Turn,
};
use tokio::sync::mpsc;

use crate::rows::{Encoder, Encoding};
use crate::sqlstate::{CANCELLED, PROTOCOL_VIOLATION, Refused};
use crate::values::kind::Format;
use crate::values::moment::Zone;
use crate::wire::replies::ColumnOf;

/// Written rows are handed over when there is so much of them.
const CHUNK_BYTES: usize = 64 << 10;

/// Pieces that wait for the socket.
const PIECES_WAITING_MAX: usize = 4;

/// What runs, and how it is answered.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) session: Session,
    pub(crate) text: String,
    /// Characters of the query's text before the statement.
    pub(crate) characters_before: usize,
    pub(crate) values: Params,
    pub(crate) encoding: Encoding,
    pub(crate) zone: Zone,
    /// The session's own limit.
    pub(crate) time_max: Option<Duration>,
    /// So many rows are wanted whatever the columns are; `None` = that is said when they are known.
    pub(crate) wanted: Option<usize>,
}

/// What comes of it, one after the other.
#[derive(Debug)]
pub(crate) enum Piece {
    /// It answers rows with these columns. Nothing more comes before they are asked for.
    Columns(Vec<ColumnOf>, Vec<Format>),
    Rows {
        bytes: Bytes,
        /// The statement's memory of them.
        _held: Charged,
    },
    /// As many rows as were asked for; there may be more.
    Suspended {
        rows: u64,
    },
    /// The last row was written.
    Complete {
        rows: u64,
    },
    /// It changed something.
    Done {
        rows: u64,
    },
    Failed(Box<Refused>),
}

/// A statement that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    service: Arc<Service>,
    /// The work, as long as the connection does it itself.
    begun: BegunTask,
    pieces: mpsc::Receiver<Vec<Piece>>,
    /// Those that came together, as far as they were not taken.
    received: VecDeque<Piece>,
    demands: mpsc::Sender<usize>,
}

impl Running {
    pub(crate) fn start(service: &Arc<Service>, language: Arc<dyn Language>, job: Job) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        let (demands, wanted) = mpsc::channel(1);
        let task = run(Arc::clone(service), language, job, sender, wanted);
        Self {
            begun: BegunTask::new(service.executor(), task),
            service: Arc::clone(service),
            pieces,
            received: VecDeque::new(),
            demands,
        }
    }

    /// Asks for so many rows more.
    pub(crate) async fn want(&self, rows: usize) {
        // What has ended says so by itself.
        let _ = self.demands.send(rows).await;
    }

    /// What comes next. Nothing is lost if the caller stops waiting.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.received.pop_front() {
                return Some(piece);
            }
            if !self.begun.is_here() {
                self.received.extend(self.pieces.recv().await?);
                continue;
            }
            tokio::select! {
                biased;
                () = &mut self.begun => {}
                pieces = self.pieces.recv() => {
                    self.received.extend(pieces?);
                    // While the client reads, and where it wants no more for now, nobody asks here.
                    self.begun.leave();
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.begun.is_here() {
            self.service.counters().queries_cancelled.add(1);
        }
    }
}

async fn run(
    service: Arc<Service>,
    language: Arc<dyn Language>,
    job: Job,
    pieces: mpsc::Sender<Vec<Piece>>,
    mut demands: mpsc::Receiver<usize>,
) {
    let limit = Duration::from_millis(service.options().query.query_ms_max);
    let time_max = job.time_max.map_or(limit, |own| own.min(limit));
    let executor = Arc::clone(service.executor());
    let work = async {
        let mut begun = Progress {
            wanted: job.wanted,
            ..Progress::default()
        };
        loop {
            let with = (&pieces, &mut demands);
            let done = work(&service, &*language, &job, with, &mut begun).await;
            // It has given its turn back: the transaction that it waits for needs one to end.
            let wait = match &done {
                Err(Ended::Failed(error)) if !begun.has_rows => error.row_wait(),
                _ => None,
            };
            let Some(wait) = wait else { return done };
            tokio::select! {
                biased;
                () = job.session.cancelled.cancelled() => {
                    return Err(Ended::Failed(Error::Cancelled));
                }
                () = wait.ended() => {}
            }
        }
    };
    let work = executor.within(time_max, AssertUnwindSafe(work).catch_unwind());
    let ended = tokio::select! {
        // In this order, so that nothing is begun for a client that is gone.
        biased;
        () = pieces.closed() => {
            service.counters().queries_cancelled.add(1);
            return;
        }
        ended = work => ended,
    };
    if job.session.transaction.is_none()
        && let Some(client) = &job.session.client
    {
        client.locks.end_transaction();
    }
    let refused = match ended {
        Some(Ok(Ok(()))) => return,
        Some(Ok(Err(Ended::Refused(refused)))) => *refused,
        Some(Ok(Err(Ended::Failed(error)))) => {
            Refused::of(&error, &job.text, job.characters_before)
        }
        Some(Err(_)) => Refused::from(Error::Panicked { what: "statement" }),
        None if time_max < limit => {
            Refused::new(CANCELLED, "canceling statement due to statement timeout")
        }
        None => Refused::from(Error::QueryTime {
            limit_ms: service.options().query.query_ms_max,
        }),
    };
    // Whoever does not listen any more does not need the error.
    let _ = pieces.send(vec![Piece::Failed(Box::new(refused))]).await;
}

/// How far a statement came before it had to wait for another's transaction and begin again.
#[derive(Debug, Default)]
struct Progress {
    /// The client knows the columns.
    is_described: bool,
    /// It wants so many rows.
    wanted: Option<usize>,
    /// It has some.
    has_rows: bool,
    /// What it gets with what is ready next: each message wakes the connection's task.
    outgoing: Vec<Piece>,
}

impl Progress {
    /// Hands over what is there; `false` = nobody takes it.
    async fn hand_over(&mut self, pieces: &mpsc::Sender<Vec<Piece>>) -> bool {
        self.outgoing.is_empty()
            || pieces
                .send(std::mem::take(&mut self.outgoing))
                .await
                .is_ok()
    }
}

/// Why a statement ended before its last row.
enum Ended {
    Failed(Error),
    Refused(Box<Refused>),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<ArrowError> for Ended {
    fn from(error: ArrowError) -> Self {
        Self::Refused(Box::new(Refused::new("22000", error.to_string())))
    }
}

async fn work(
    service: &Service,
    language: &dyn Language,
    job: &Job,
    (pieces, demands): (&mpsc::Sender<Vec<Piece>>, &mut mpsc::Receiver<usize>),
    begun: &mut Progress,
) -> Result<(), Ended> {
    let mut turn = Some(service.turn_for(&job.text).await?);
    let _running = service.counters().queries_running.enter();
    let prepared: Box<dyn Prepared> = language.prepare(&job.text, &job.session)?;
    let rows = match prepared.run(&job.values).await? {
        Outcome::Rows(rows) => rows,
        Outcome::Done { rows } => {
            begun.outgoing.push(Piece::Done { rows });
            begun.hand_over(pieces).await;
            return Ok(());
        }
        other @ Outcome::Sets(_) => other.into_rows()?,
    };
    let Some(encoder) = Encoder::new(&rows.schema(), &job.encoding, job.zone) else {
        return Err(Ended::Refused(Box::new(Refused::new(
            PROTOCOL_VIOLATION,
            "the message Bind has another number of result formats than the statement has columns",
        ))));
    };
    let (columns, formats) = (encoder.columns().to_vec(), encoder.formats().to_vec());
    if !std::mem::replace(&mut begun.is_described, true) {
        begun.outgoing.push(Piece::Columns(columns, formats));
    }
    let with = (pieces, demands);
    let sent = send(service, &mut turn, (&encoder, rows), with, begun).await?;
    service.counters().rows_answered.add(sent);
    Ok(())
}

/// The written rows as a piece, if there are any.
fn rows_of(answer: &mut RowStream, out: &mut BytesMut) -> Result<Option<Piece>, Error> {
    if out.is_empty() {
        return Ok(None);
    }
    answer.hold(out.capacity())?;
    let bytes = std::mem::take(out).freeze();
    let held = answer.hand_over(bytes.len());
    Ok(Some(Piece::Rows { bytes, _held: held }))
}

/// Writes rows as far as they are wanted. Returns how many. While more of them are not wanted, others have the turn: as many
/// cursors as there are turns, each of a client that writes beside it, would wait for each other.
async fn send(
    service: &Service,
    turn: &mut Option<Turn>,
    (encoder, mut answer): (&Encoder, RowStream),
    (pieces, demands): (&mpsc::Sender<Vec<Piece>>, &mut mpsc::Receiver<usize>),
    begun: &mut Progress,
) -> Result<u64, Ended> {
    let mut out = BytesMut::new();
    encoder.begin(&mut out);
    let mut all = 0u64;
    let mut first = begun.wanted;
    if first.is_none() {
        begun.hand_over(pieces).await;
        first = demands.recv().await;
    }
    begun.wanted = first;
    let Some(mut wanted) = first else {
        return Ok(all);
    };
    let mut since = 0u64;
    loop {
        let ready = answer.next().now_or_never();
        let next = if let Some(next) = ready {
            next
        } else {
            // It may take long.
            begun.hand_over(pieces).await;
            answer.next().await
        };
        let Some(batch) = next else { break };
        let batch = batch?;
        let columns = encoder.batch(&batch)?;
        let mut row = 0;
        while row < batch.num_rows() {
            if wanted == 0 {
                begun.has_rows = true;
                begun.outgoing.extend(rows_of(&mut answer, &mut out)?);
                begun.outgoing.push(Piece::Suspended { rows: since });
                if !begun.hand_over(pieces).await {
                    return Ok(all);
                }
                *turn = None;
                let Some(more) = demands.recv().await else {
                    return Ok(all);
                };
                *turn = Some(service.turn_again().await?);
                (wanted, since) = (more, 0);
            }
            encoder.row(&columns, row, &mut out)?;
            row += 1;
            all += 1;
            since += 1;
            wanted = wanted.saturating_sub(usize::from(wanted != usize::MAX));
            if out.len() >= CHUNK_BYTES {
                begun.has_rows = true;
                begun.outgoing.extend(rows_of(&mut answer, &mut out)?);
                if !begun.hand_over(pieces).await {
                    return Ok(all);
                }
            }
        }
    }
    encoder.end(&mut out);
    begun.outgoing.extend(rows_of(&mut answer, &mut out)?);
    begun.outgoing.push(Piece::Complete { rows: since });
    begun.hand_over(pieces).await;
    Ok(all)
}
