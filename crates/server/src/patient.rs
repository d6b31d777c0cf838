//! A connection that does not wait for ever for a client to take what is ready for it: answers that nobody reads hold
//! memory, also when their query is long over.
//!
//! Does: end the connection when nothing could be written for a time. Does not: limit how long an answer takes altogether; who
//! takes a little now and then is served.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream with a limit on how long a write waits.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    time_max: Duration,
    /// The end of the patience with the write that waits, if one does.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, time_max: Duration) -> Self {
        Self {
            stream,
            time_max,
            waiting: None,
        }
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let time_max = self.time_max;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(time_max)));
        if waiting.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the client took nothing of its answer for {time_max:?} (setting query-ms-max)"
            ),
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_left_and_one_that_takes_little_is_served() {
        let (mut client, server) = duplex(10);
        let mut server = Patient::new(server, Duration::from_secs(3));
        // All of it takes longer than the server waits, and no part does.
        let reads = async {
            let mut all = Vec::new();
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(400)).await;
                let mut some = [0; 10];
                let got = client.read(&mut some).await.unwrap();
                all.extend_from_slice(some.get(..got).unwrap());
            }
            (client, all)
        };
        let (written, (client, all)) = tokio::join!(server.write_all(&[7; 100]), reads);
        written.unwrap();
        assert_eq!(all, [7; 100]);
        let refused = server.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(refused.to_string().contains("query-ms-max"), "{refused}");
        drop(client);
    }
}
