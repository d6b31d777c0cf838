//! One client: requests, one after the other.
//!
//! Does: read headers, have each request answered, tell of an error and close. Does not: know what a request does.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use nilometer_service::{CancellationToken, Error as ServiceError, Principal, Service};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::config::TstorageConfig;
use crate::error::Error;
use crate::get;
use crate::incoming::Incoming;
use crate::put;
use crate::wire::{Command, HEADER_BYTES, KeyBox, Status, put_header};

/// What a request may have beside what it must have. The protocol says that it is to be skipped; more than this is a header
/// that is none.
const SURPLUS_BYTES_MAX: u64 = 64 << 10;

/// What a client that was told of an error may still send, and for how long.
const DRAINED_BYTES_MAX: usize = 64 << 20;
const DRAINED_FOR: Duration = Duration::from_secs(2);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: TstorageConfig,
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// What every client is. Asked anew for each request, so that what was taken away is gone at once.
    pub(crate) fn principal(&self) -> Result<Principal, ServiceError> {
        self.service
            .access()
            .standing_for(self.config.role.as_deref())
    }

    pub(crate) fn stall_max(&self) -> Duration {
        Duration::from_millis(self.config.stall_ms_max.max(1))
    }
}

/// The writing half of a connection.
#[derive(Debug)]
pub(crate) struct Outgoing<W> {
    socket: W,
    stall_max: Duration,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    /// Sends bytes, to a client that takes them.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let limit_ms = u64::try_from(self.stall_max.as_millis()).unwrap_or(u64::MAX);
        while !bytes.is_empty() {
            let sending = self.socket.write(bytes);
            match tokio::time::timeout(self.stall_max, sending).await {
                Err(_) => return Err(Error::NotTaken { limit_ms }),
                Ok(Ok(0) | Err(_)) => return Err(Error::Gone),
                Ok(Ok(sent)) => bytes = bytes.get(sent..).unwrap_or_default(),
            }
        }
        self.socket.flush().await.map_err(|_| Error::Gone)
    }
}

/// Serves a client until it goes, or until a request cannot be answered.
pub(crate) async fn serve<S>(shared: &Arc<Shared>, socket: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let stall_max = shared.stall_max();
    let (read, write) = tokio::io::split(socket);
    let mut incoming = Incoming::new(read, stall_max);
    let mut outgoing = Outgoing {
        socket: write,
        stall_max,
    };
    loop {
        let has_more = shared.stop.run_until_cancelled(incoming.has_more()).await;
        if has_more != Some(true) {
            break;
        }
        let Err(error) = request(shared, &mut incoming, &mut outgoing).await else {
            continue;
        };
        shared.service.counters().limits_hit.note(error.setting());
        if error.can_be_told() {
            tracing::warn!(%error, "a request of a TStorage client was not carried out");
            let mut answer = BytesMut::new();
            put_header(&mut answer, Status::Error, 0);
            if outgoing.send(&answer).await.is_ok() {
                let _ = outgoing.socket.shutdown().await;
                let drained = incoming.drain(DRAINED_BYTES_MAX);
                let _ = tokio::time::timeout(DRAINED_FOR, drained).await;
            }
        } else if matches!(error, Error::NotTaken { .. }) {
            // In the middle of an answer there is no place for a status, so only the log can say it.
            tracing::warn!(%error, "a TStorage client was let go");
        } else {
            tracing::debug!(%error, "a TStorage client was lost within a request");
        }
        return;
    }
    let _ = outgoing.socket.shutdown().await;
}

/// Reads a request and answers it.
async fn request<R, W>(
    shared: &Arc<Shared>,
    incoming: &mut Incoming<R>,
    outgoing: &mut Outgoing<W>,
) -> Result<(), Error>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    incoming.need(HEADER_BYTES).await?;
    let number = incoming.buffer().get_i32_le();
    let size = incoming.buffer().get_u64_le();
    let command = Command::of(number).ok_or(Error::Malformed("there is no such command"))?;
    let fixed = command.fixed_bytes();
    let surplus = size
        .checked_sub(fixed as u64)
        .ok_or(Error::Malformed("it is too short for its keys"))?;
    if surplus > SURPLUS_BYTES_MAX {
        return Err(Error::Malformed("its size is none that a request has"));
    }
    incoming
        .pass(usize::try_from(surplus).unwrap_or_default())
        .await?;
    incoming.need(fixed).await?;
    let mut answer = BytesMut::new();
    match command {
        Command::Put => put::put(shared, incoming, false, &mut answer).await?,
        Command::PutAcq => put::put(shared, incoming, true, &mut answer).await?,
        Command::GetAcq => {
            let asked = KeyBox::get(incoming.buffer());
            get::get_acq(shared, &asked, &mut answer).await?;
        }
        Command::Get => {
            let asked = KeyBox::get(incoming.buffer());
            return get::get(shared, &asked, outgoing).await;
        }
    }
    outgoing.send(&answer).await
}
