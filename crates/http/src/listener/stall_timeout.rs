//! Connections of slow and half-closed clients: when to wait, when to close.
//!
//! Does: end the connection when nothing could be written for a time, because answers that nobody reads hold memory, also
//! when their query is long over; keep it while a client that has closed its own direction is owed an answer. Does not:
//! limit how long an answer takes altogether; who takes a little now and then is served.
//!
//! A client that sends no more has gone, or it has said all that it has to say and listens (a half-closed socket). Both
//! look alike until something is sent to it: a system whose program has gone refuses it. So whoever has no byte of his
//! answer yet is sent an interim answer, `100 Continue`, which says nothing and which every client of HTTP/1.1 passes over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::{Activity, Silence};

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// When it is sent, counted from the time before: the first one is what the client's system may refuse, the second one
/// meets the refusal. Some clients take no more than five.
const ASKED_AFTER: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// Who cannot be asked is believed to listen for so long after he took something.
const LISTENS: Duration = Duration::from_secs(1);

/// A stream with a limit on how long a write waits.
#[derive(Debug)]
pub(crate) struct StallTimeout<S> {
    stream: S,
    activity: Arc<Activity>,
    time_max: Duration,
    /// The time limit of the write that waits, if one does.
    waiting: Option<Pin<Box<Sleep>>>,
    silent: Option<Silent>,
}

/// A client that sends no more.
#[derive(Debug)]
struct Silent {
    /// When something is to be done about it.
    wake: Pin<Box<Sleep>>,
    asked: usize,
}

impl<S> StallTimeout<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>, time_max: Duration) -> Self {
        Self {
            stream,
            activity,
            time_max,
            waiting: None,
            silent: None,
        }
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.activity.block(written.is_pending());
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

impl<S: AsyncWrite + Unpin> StallTimeout<S> {
    /// Notes that bytes of an answer go out, or wait.
    fn judge_answer(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.activity.answer();
        if let (Poll::Ready(Ok(_)), Some(silent)) = (&written, &mut self.silent) {
            silent.wake.as_mut().reset(Instant::now() + LISTENS);
        }
        self.judge(context, written)
    }

    /// Whether a client that sends no more has gone; pending = it is owed an answer.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let silent = self.silent.get_or_insert_with(|| Silent {
            wake: Box::pin(sleep(Duration::ZERO)),
            asked: 0,
        });
        loop {
            match self.activity.silence() {
                Silence::IsTheEnd => return Poll::Ready(()),
                Silence::MayListen => {
                    if silent.asked < ASKED_AFTER.len() {
                        silent.asked = ASKED_AFTER.len();
                        silent.wake.as_mut().reset(Instant::now() + LISTENS);
                    }
                    return silent.wake.as_mut().poll(context);
                }
                Silence::MayBeAsked => {}
            }
            if silent.asked >= ASKED_AFTER.len() {
                // It listens; its answer will tell.
                return Poll::Pending;
            }
            std::task::ready!(silent.wake.as_mut().poll(context));
            match Pin::new(&mut self.stream).poll_write(context, INTERIM) {
                Poll::Ready(Ok(written)) if written == INTERIM.len() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
            if let Poll::Ready(Err(_)) = Pin::new(&mut self.stream).poll_flush(context) {
                return Poll::Ready(());
            }
            silent.asked += 1;
            if let Some(after) = ASKED_AFTER.get(silent.asked) {
                silent.wake.as_mut().reset(Instant::now() + *after);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.silent.is_none() {
            let before = into.filled().len();
            std::task::ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
            if into.filled().len() > before || into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_gone(context).map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge_answer(context, written)
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
        self.judge_answer(context, written)
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
        let activity = Arc::new(Activity::default());
        let mut server = StallTimeout::new(server, activity, Duration::from_secs(3));
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
