//! An answer that is sent while it is computed.
//!
//! Does: hold the chunks between whoever computes and the client, let the first decide the status, tell the work when the
//! client goes. Does not: compute, or write in any form.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use nilometer_service::CancellationToken;
use tokio::sync::mpsc;

use crate::error::ErrorResponse;

/// What leaves together. An error before the first chunk decides the status; one after it breaks the connection off, which
/// the client sees.
pub type Chunk = Result<Bytes, ErrorResponse>;

/// Chunks that wait for a slow client; then the work waits too.
const WAITING_MAX: usize = 2;

/// The chunks of one answer, as the client takes them; dropped when they are sent, or when the client goes.
#[derive(Debug)]
pub struct Chunks {
    receiver: mpsc::Receiver<Chunk>,
    work: CancellationToken,
}

impl Chunks {
    /// An answer and where its chunks are put. `work` is cancelled when nobody takes them any more, though the work may be
    /// within a poll that takes long.
    pub fn of(work: CancellationToken) -> (mpsc::Sender<Chunk>, Self) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (sender, Self { receiver, work })
    }

    /// The answer. It has a length when it fits one chunk.
    ///
    /// # Errors
    ///
    /// What the work ended with before its first chunk, and an internal error when it ended without any.
    pub async fn into_response(
        mut self,
        content_type: &'static str,
    ) -> Result<Response, ErrorResponse> {
        let stopped = || {
            ErrorResponse::internal(
                "the query stopped without an answer; the server's log has the details",
            )
        };
        let first = self.receiver.recv().await.ok_or_else(stopped)??;
        let body = match self.receiver.recv().await {
            None => Body::from(first),
            Some(second) => {
                let ready = stream::iter([Ok(first), second]);
                let rest = stream::unfold(self, async |mut chunks| {
                    Some((chunks.receiver.recv().await?, chunks))
                });
                let sent = ready.chain(rest);
                Body::from_stream(sent.map(|chunk| chunk.map_err(|refusal| refusal.error)))
            }
        };
        let content_type = HeaderValue::from_static(content_type);
        Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
    }

    /// Takes all chunks for a client that does not wait for them.
    pub async fn discard(mut self) {
        while self.receiver.recv().await.is_some() {}
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.work.cancel();
    }
}
