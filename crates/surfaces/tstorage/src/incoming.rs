//! Incoming bytes of a client, through a buffer of fixed size.
//!
//! Does: wait for so many bytes, pass over bytes, hand payloads out in pieces; give up on a client that does not go on. Does not:
//! know what the bytes mean, or make room for as many as a number among them says.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::Error;

/// What a socket is read in.
const BUFFER_BYTES: usize = 256 << 10;

/// What a connection that waits for its next request keeps.
const IDLE_BYTES: usize = 4 << 10;

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    socket: R,
    buffer: BytesMut,
    stall_max: Duration,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(socket: R, stall_max: Duration) -> Self {
        Self {
            socket,
            buffer: BytesMut::with_capacity(IDLE_BYTES),
            stall_max,
        }
    }

    /// Waits, for as long as it takes, for the first byte of a request; `false` = the client is gone. Nothing is lost if nobody
    /// waits for it any more.
    pub(crate) async fn has_more(&mut self) -> bool {
        if !self.buffer.is_empty() {
            return true;
        }
        if self.buffer.capacity() > IDLE_BYTES {
            self.buffer = BytesMut::with_capacity(IDLE_BYTES);
        }
        !matches!(self.socket.read_buf(&mut self.buffer).await, Ok(0) | Err(_))
    }

    /// Waits until so many bytes are here, which are few.
    pub(crate) async fn need(&mut self, bytes: usize) -> Result<(), Error> {
        while self.buffer.len() < bytes {
            self.read().await?;
        }
        Ok(())
    }

    /// Reads what comes next.
    async fn read(&mut self) -> Result<(), Error> {
        if self.buffer.capacity() - self.buffer.len() < BUFFER_BYTES / 4 {
            self.buffer.reserve(BUFFER_BYTES);
        }
        let limit_ms = u64::try_from(self.stall_max.as_millis()).unwrap_or(u64::MAX);
        let reading = self.socket.read_buf(&mut self.buffer);
        match tokio::time::timeout(self.stall_max, reading).await {
            Err(_) => Err(Error::Stalled { limit_ms }),
            Ok(Ok(0) | Err(_)) => Err(Error::Gone),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// What is here, to look at.
    pub(crate) fn here(&self) -> &[u8] {
        &self.buffer
    }

    /// Goes on behind so many bytes, which are here.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.buffer.advance(bytes.min(self.buffer.len()));
    }

    /// What is here.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Hands so many bytes out as they come, in pieces.
    pub(crate) async fn pieces(
        &mut self,
        mut bytes: usize,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while bytes > 0 {
            if self.buffer.is_empty() {
                self.read().await?;
            }
            let here = bytes.min(self.buffer.len());
            take(self.buffer.get(..here).unwrap_or_default())?;
            self.buffer.advance(here);
            bytes -= here;
        }
        Ok(())
    }

    /// Reads past so many bytes.
    pub(crate) async fn pass(&mut self, bytes: usize) -> Result<(), Error> {
        self.pieces(bytes, |_| Ok(())).await
    }

    /// Reads past what a client that was told of an error still sends, up to so many bytes. Closed with bytes unread, the socket
    /// would take the answer back.
    pub(crate) async fn drain(&mut self, mut bytes: usize) {
        while bytes > 0 {
            self.buffer.clear();
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => bytes = bytes.saturating_sub(read),
            }
        }
    }
}
