//! A client without a socket: a body that goes piece by piece, and an answer that is taken no faster than allowed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures::stream;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::machine::lock;

/// As much as there is.
pub(crate) const ALL: u64 = u64::MAX;

/// How a body ends when all its pieces are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// The connection breaks before the last piece.
    Breaks,
    /// The client says nothing more, before the last piece.
    Silence,
}

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Feed(Mutex<Fed>);

#[derive(Debug)]
struct Fed {
    pieces: VecDeque<Bytes>,
    ending: Ending,
    allowed: u64,
    waker: Option<Waker>,
}

impl Feed {
    /// A body in so many pieces, none of which has gone yet.
    pub(crate) fn new(body: &[u8], pieces: usize, ending: Ending) -> Arc<Self> {
        let size = body.len().div_ceil(pieces.max(1)).max(1);
        let mut pieces: VecDeque<Bytes> = body.chunks(size).map(Bytes::copy_from_slice).collect();
        if ending != Ending::Whole
            && let Some(last) = pieces.pop_back()
        {
            // Half of a piece may be half of a line.
            pieces.push_back(last.slice(..last.len() / 2));
        }
        Arc::new(Self(Mutex::new(Fed {
            pieces,
            ending,
            allowed: 0,
            waker: None,
        })))
    }

    /// Lets so many more pieces go.
    pub(crate) fn release(&self, pieces: u64) {
        let mut fed = lock(&self.0);
        fed.allowed = fed.allowed.saturating_add(pieces);
        if let Some(waker) = fed.waker.take() {
            waker.wake();
        }
    }

    /// Lets everything go, and ends the body one way or the other.
    pub(crate) fn finish(&self) {
        let mut fed = lock(&self.0);
        if fed.ending == Ending::Silence {
            fed.ending = Ending::Breaks;
        }
        drop(fed);
        self.release(ALL);
    }

    pub(crate) fn body(self: &Arc<Self>) -> Body {
        let feed = Arc::clone(self);
        Body::from_stream(stream::poll_fn(move |context| {
            let mut state = lock(&feed.0);
            if state.allowed > 0 {
                if let Some(piece) = state.pieces.pop_front() {
                    state.allowed -= 1;
                    return Poll::Ready(Some(Ok(piece)));
                }
                match state.ending {
                    Ending::Whole => return Poll::Ready(None),
                    Ending::Breaks => {
                        return Poll::Ready(Some(Err(std::io::Error::other("the client went"))));
                    }
                    Ending::Silence => {}
                }
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

/// What a client has got so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Got {
    pub(crate) status: Option<u16>,
    pub(crate) bytes: Vec<u8>,
    /// Whether the answer ended as it should; `None` = it has not ended.
    pub(crate) whole: Option<bool>,
}

/// Where a client puts what it gets.
#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<Inbox>);

#[derive(Debug, Default)]
struct Inbox {
    got: Got,
    allowed: u64,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn new(allowed: u64) -> Arc<Self> {
        let mailbox = Self::default();
        mailbox.allow(allowed);
        Arc::new(mailbox)
    }

    /// Lets so many more chunks be read.
    pub(crate) fn allow(&self, chunks: u64) {
        let mut inner = lock(&self.0);
        inner.allowed = inner.allowed.saturating_add(chunks);
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn got(&self) -> Got {
        lock(&self.0).got.clone()
    }

    /// The status, if there is an answer.
    pub(crate) fn status(&self) -> Option<u16> {
        lock(&self.0).got.status
    }

    /// Whether the answer is at its end.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.0).got.whole.is_some()
    }

    async fn allowed(&self) {
        std::future::poll_fn(|context| {
            let mut inner = lock(&self.0);
            if inner.allowed > 0 {
                inner.allowed -= u64::from(inner.allowed != ALL);
                return Poll::Ready(());
            }
            inner.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Sends a request and takes the answer.
pub(crate) async fn talk(router: Router, request: Request<Body>, mailbox: Arc<Mailbox>) {
    let response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    lock(&mailbox.0).got.status = Some(response.status().as_u16());
    let mut body = response.into_body();
    let whole = loop {
        mailbox.allowed().await;
        match body.frame().await {
            None => break true,
            Some(Err(_)) => break false,
            Some(Ok(frame)) => {
                let bytes = frame.into_data().unwrap_or_default();
                lock(&mailbox.0).got.bytes.extend_from_slice(&bytes);
            }
        }
    };
    // Whatever the body holds is free before anybody hears that it is at its end.
    drop(body);
    lock(&mailbox.0).got.whole = Some(whole);
}
