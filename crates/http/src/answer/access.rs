//! The access log: one line for each request, written when its answer has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Method;
use hyper::body::{Frame, SizeHint};

use crate::config::AccessLog;
use crate::http::Http;

/// What the line says.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) request_id: String,
    pub(crate) method: Method,
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) limit: Option<&'static str>,
    /// Why it was refused, in the words of the answer.
    pub(crate) error: Option<String>,
    pub(crate) started: Instant,
}

/// A body that counts itself and writes the line when it goes.
pub(crate) struct Logged {
    body: Body,
    line: Line,
    http: Arc<Http>,
    bytes: u64,
    /// Whether all of it was taken.
    ended: bool,
}

impl Logged {
    pub(crate) fn new(body: Body, line: Line, http: Arc<Http>) -> Self {
        let ended = body.is_end_stream();
        Self {
            body,
            line,
            http,
            bytes: 0,
            ended,
        }
    }
}

impl HttpBody for Logged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.bytes += bytes as u64;
                self.ended |= self.body.is_end_stream();
            }
            Some(Err(_)) => {}
            None => self.ended = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.http.metrics().bytes_sent.add(self.bytes);
        let Line {
            request_id,
            method,
            route,
            status,
            limit,
            error,
            started,
        } = &self.line;
        let error = error.as_deref();
        // Whole microseconds: digits after them are noise.
        let ms = started.elapsed().as_micros() as f64 / 1e3;
        let bytes = self.bytes;
        match status {
            500.. => {
                tracing::warn!(request_id, %method, route, status, ms, bytes, limit, error, "request failed");
            }
            400.. => {
                tracing::info!(request_id, %method, route, status, ms, bytes, limit, error, "request refused");
            }
            _ if !self.ended && *method != Method::HEAD => {
                tracing::info!(request_id, %method, route, status, ms, bytes, "answer not taken to its end");
            }
            _ if self.http.config().access_log == AccessLog::Info => {
                tracing::info!(request_id, %method, route, status, ms, bytes, "request");
            }
            _ => tracing::debug!(request_id, %method, route, status, ms, bytes, "request"),
        }
    }
}
