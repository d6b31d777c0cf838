//! COPY over a connection: data in both directions.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nilometer_service::{CancellationToken, CopyTarget, Error, Params};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use tokio::io::{AsyncRead, AsyncWrite};

use super::parts::Parts;
use super::{Connection, Stop, violation};
use crate::copy::rows_in::{Filled, RowsIn};
use crate::copy::statement::{self, Copy, Source};
use crate::execution::Piece;
use crate::rows::Encoding;
use crate::sqlstate::{CANCELLED, DUPLICATE_COLUMN, Refused, UNKNOWN_COLUMN};
use crate::values::kind::Kind;
use crate::wire::frames::{Message, ReadError, Received, Refusal};
use crate::wire::replies;

/// Data is read in chunks of this size, away from the socket.
const CHUNK_BYTES: usize = 1 << 20;

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) async fn copy(&mut self, text: &str, characters_before: usize) -> Result<(), Stop> {
        let copy = statement::read(text).map_err(|mut refused| {
            refused.position = refused.position.map(|at| at + characters_before);
            refused
        })?;
        if copy.is_in {
            self.copy_in(copy).await
        } else {
            self.copy_out(&copy).await
        }
    }

    async fn copy_out(&mut self, copy: &Copy) -> Result<(), Stop> {
        let query = match &copy.source {
            Source::Query(query) => query.clone(),
            Source::Table { path, columns } => {
                let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
                let columns = match columns.as_slice() {
                    [] => "*".to_owned(),
                    some => some.iter().map(quoted).collect::<Vec<_>>().join(", "),
                };
                let path = path.iter().map(quoted).collect::<Vec<_>>().join(".");
                format!("SELECT {columns} FROM {path}")
            }
        };
        let encoding = Encoding::Copy(copy.format.clone());
        let mut job = self.job(&query, 0, Params::new(), encoding);
        // What is copied out is read.
        job.session.is_read_only = true;
        job.wanted = Some(usize::MAX);
        let mut running = self.start(job);
        loop {
            match self.piece(&mut running).await? {
                Piece::Columns(columns, _) => {
                    let count = i16::try_from(columns.len()).unwrap_or(i16::MAX);
                    let formats = vec![i16::from(copy.format.code()); columns.len()];
                    let response = CopyOutResponse::new(copy.format.code(), count, formats);
                    replies::put(
                        &mut self.out,
                        &PgWireBackendMessage::CopyOutResponse(response),
                    );
                }
                Piece::Rows { bytes, .. } => self.send_rows(&bytes).await?,
                Piece::Complete { rows } | Piece::Suspended { rows } => {
                    replies::put(
                        &mut self.out,
                        &PgWireBackendMessage::CopyDone(CopyDone::new()),
                    );
                    replies::complete(&mut self.out, &format!("COPY {rows}"));
                    return Ok(());
                }
                Piece::Done { .. } => return Err(violation("a query answered no rows").into()),
                Piece::Failed(refused) => return Err(Stop::Refused(refused)),
            }
        }
    }

    async fn copy_in(&mut self, copy: Copy) -> Result<(), Stop> {
        let Copy { source, format, .. } = copy;
        let Source::Table { path, columns } = source else {
            return Err(violation("a query is copied out").into());
        };
        if self.session.is_read_only {
            return Err(Refused::new(
                "25006",
                "cannot execute COPY FROM in a read-only transaction",
            )
            .into());
        }
        let target = CopyTarget::find(&self.shared.service, &self.session, &path)?;
        let filled = filled(&target, &columns)?;
        let count = i16::try_from(filled.len()).unwrap_or(i16::MAX);
        let formats = vec![i16::from(format.code()); filled.len()];
        let response = CopyInResponse::new(format.code(), count, formats);
        replies::put(
            &mut self.out,
            &PgWireBackendMessage::CopyInResponse(response),
        );
        self.flush().await?;
        let rows = RowsIn::new(target.name(), &filled, format, self.zone);
        let cancelled = self.number.cancel.renew();
        let mut session = self.session.clone();
        session.cancelled = cancelled.clone();
        let shared = &self.shared.service;
        let parts = Parts::new(shared, &self.language, session, target.clone());
        let (rows, parts) = self.receive(rows, parts, &cancelled).await?;
        let count = if parts.has_some() {
            parts.end(rows).await?
        } else {
            self.store(rows, &target).await?
        };
        replies::complete(&mut self.out, &format!("COPY {count}"));
        Ok(())
    }

    /// Stores what a batch takes. Returns the rows.
    async fn store(&mut self, rows: RowsIn, target: &CopyTarget) -> Result<usize, Stop> {
        let service = Arc::clone(&self.shared.service);
        let (batch, rows) = service
            .write(move |_| {
                let mut rows = rows;
                let batch = rows.finish().map_err(Ended::Refused)?;
                Ok::<_, Ended>((batch, rows))
            })
            .await
            .map_err(Ended::refused)?;
        let cancelled = self.number.cancel.renew();
        let batch = if target.is_completed(|name| rows.fills(name)) {
            let mut session = self.session.clone();
            session.cancelled = cancelled.clone();
            let name = target.full_name();
            let completed = self.language.complete(name, batch, &session).await;
            completed.map_err(|error| rows.at_stored(error.into(), 0))?
        } else {
            batch
        };
        loop {
            let (target, batch) = (target.clone(), batch.clone());
            let stored = service.write(move |service| service.copy_in(&target, &batch));
            let Err(error) = stored.await else { break };
            let Some(wait) = error.row_wait() else {
                return Err(rows.at_stored(error.into(), 0).into());
            };
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(Error::Cancelled.into()),
                () = wait.ended() => {}
            }
        }
        Ok(rows.all_rows())
    }

    /// Takes the data of a COPY until the client says that it was all. Parts of more than a batch takes are staged meanwhile.
    async fn receive(
        &mut self,
        rows: RowsIn,
        parts: Parts,
        cancelled: &CancellationToken,
    ) -> Result<(RowsIn, Parts), Stop> {
        let executor = Arc::clone(self.shared.service.executor());
        let mut permit = self.shared.service.body_memory().hold();
        let mut chunk = BytesMut::new();
        // One chunk is read while the next one comes.
        let mut reading = Box::pin(async { Ok((rows, parts)) }) as Reading;
        loop {
            let received = tokio::select! {
                biased;
                () = cancelled.cancelled() => {
                    return Err(Refused::new(
                        CANCELLED,
                        "canceling statement due to user request",
                    )
                    .into());
                }
                received = self.frames.next() => received,
            };
            let message = match received {
                Ok(Received::Frame(frame)) => {
                    let message = Message::of(frame.kind, frame.body);
                    message.map_err(|_| Stop::Gone)?
                }
                Ok(Received::Refused { why, .. }) => {
                    return Err(match why {
                        Refusal::Memory(error) => error.into(),
                        Refusal::TooLong { bytes, bytes_max } => Refused::limit(
                            "pg-message-bytes-max",
                            format!("a message of COPY is limited to {bytes_max} bytes, this one has {bytes} (setting pg-message-bytes-max)"),
                        )
                        .into(),
                    });
                }
                Err(ReadError::Gone | ReadError::Malformed(_)) => return Err(Stop::Gone),
            };
            let is_last = match message {
                Message::CopyData(data) => {
                    chunk.extend_from_slice(&data);
                    false
                }
                Message::CopyDone => true,
                Message::CopyFail(why) => {
                    return Err(
                        Refused::new(CANCELLED, format!("COPY from stdin failed: {why}")).into(),
                    );
                }
                // Some clients send them ahead.
                Message::Sync | Message::Flush => false,
                Message::Terminate => return Err(Stop::Gone),
                _ => {
                    return Err(violation("unexpected message type during COPY from stdin").into());
                }
            };
            if !is_last && chunk.len() < CHUNK_BYTES {
                continue;
            }
            let (rows, mut parts) = reading.await?;
            if rows.rows() == 0 {
                // What a part had is in a file, or counted with its transaction.
                permit = self.shared.service.body_memory().hold();
            }
            permit.cover(rows.bytes() + chunk.len())?;
            let bytes: Bytes = std::mem::take(&mut chunk).freeze();
            let read = executor.block(move || {
                let mut rows = rows;
                rows.feed(bytes).map(|()| rows)
            });
            reading = Box::pin(async move {
                let read = read.await;
                let rows = read.unwrap_or_else(|_| Err(Error::Panicked { what: "COPY" }.into()))?;
                let rows = parts.stage_if_due(rows).await?;
                Ok((rows, parts))
            });
            if is_last {
                return Ok(reading.await?);
            }
        }
    }
}

/// A chunk that is being read, and a part that is being staged.
type Reading = futures::future::BoxFuture<'static, Result<(RowsIn, Parts), Refused>>;

/// Why a COPY was not stored.
pub(super) enum Ended {
    Refused(Refused),
    Failed(Error),
}

impl Ended {
    pub(super) fn refused(self) -> Refused {
        match self {
            Self::Refused(refused) => refused,
            Self::Failed(error) => error.into(),
        }
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The columns of a table that a COPY fills.
fn filled(target: &CopyTarget, names: &[String]) -> Result<Vec<Filled>, Refused> {
    let of = |field: &arrow::datatypes::Field| Filled {
        name: field.name().clone(),
        kind: field.data_type().clone(),
        declared: Kind::of_metadata(field),
        is_nullable: field.is_nullable(),
    };
    let columns = target.columns();
    if names.is_empty() {
        return Ok(columns.fields().iter().map(|field| of(field)).collect());
    }
    let mut filled: Vec<Filled> = Vec::with_capacity(names.len());
    for name in names {
        let Ok(field) = columns.field_with_name(name) else {
            return Err(Refused::new(
                UNKNOWN_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    target.name()
                ),
            ));
        };
        if filled.iter().any(|known| known.name == *name) {
            return Err(Refused::new(
                DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        filled.push(of(field));
    }
    let missing = columns
        .fields()
        .iter()
        .filter(|field| !target.has_default(field.name()))
        .find(|field| !field.is_nullable() && !names.contains(field.name()));
    match missing {
        Some(field) => Err(Refused::new(
            crate::sqlstate::NOT_NULL,
            format!(
                "null value in column \"{}\" violates not-null constraint",
                field.name()
            ),
        )),
        None => Ok(filled),
    }
}
