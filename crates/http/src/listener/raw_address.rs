//! Addresses with characters that an address may not have.
//!
//! Does: escape `"`, `<` and `>` in the first line of a request, which the library that reads heads refuses with an empty
//! 400. Scripts for InfluxDB are full of `curl '.../query?q=DROP DATABASE "x"'`, whose server never minded. Does not: touch
//! anything behind that line, or a line that is no request's.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::Activity;

/// A stream whose requests are read with such addresses.
#[derive(Debug)]
pub(crate) struct RawAddress<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The request whose first line was read, or is being read.
    request: Option<u64>,
    /// Where in that line we are.
    line: Line,
    /// What has become too long for the place it was read into, and how much of it was taken.
    held: (Vec<u8>, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Begins,
    GoesOn,
    IsOver,
}

impl<S> RawAddress<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            request: None,
            line: Line::IsOver,
            held: (Vec::new(), 0),
        }
    }

    /// What of the bytes that came belongs to the first line of a request.
    fn first_line(&mut self, bytes: &[u8]) -> usize {
        let Some(request) = self.activity.awaited_request() else {
            return 0;
        };
        if self.request != Some(request) {
            (self.request, self.line) = (Some(request), Line::Begins);
        }
        if self.line == Line::Begins {
            let is_request = begins_request(bytes);
            self.line = if is_request {
                Line::GoesOn
            } else {
                Line::IsOver
            };
        }
        if self.line == Line::IsOver {
            return 0;
        }
        match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                self.line = Line::IsOver;
                end
            }
            None => bytes.len(),
        }
    }
}

/// A method and an address: whatever else comes there is left to the library, which says what is wrong.
fn begins_request(bytes: &[u8]) -> bool {
    let mut words = bytes.splitn(2, |&byte| byte == b' ');
    let (method, rest) = (words.next().unwrap_or_default(), words.next());
    (1..=8).contains(&method.len())
        && method.iter().all(u8::is_ascii_uppercase)
        && rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>')
}

fn escaped(line: &[u8], out: &mut Vec<u8>) {
    for &byte in line {
        if is_escaped(byte) {
            out.extend_from_slice(match byte {
                b'"' => b"%22",
                b'<' => b"%3C",
                _ => b"%3E",
            });
        } else {
            out.push(byte);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RawAddress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (held, taken) = &mut self.held;
        if let Some(rest) = held.get(*taken..).filter(|rest| !rest.is_empty()) {
            let fit = rest.len().min(into.remaining());
            into.put_slice(rest.get(..fit).unwrap_or_default());
            *taken += fit;
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let new = into.filled().get(before..).unwrap_or_default();
        if new.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let end = self.first_line(new);
        let (line, rest) = new.split_at(end);
        if !line.iter().copied().any(is_escaped) {
            return Poll::Ready(Ok(()));
        }
        let mut all = Vec::with_capacity(new.len() + 64);
        escaped(line, &mut all);
        all.extend_from_slice(rest);
        into.set_filled(before);
        let fit = all.len().min(into.remaining());
        into.put_slice(all.get(..fit).unwrap_or_default());
        self.held = (all, fit);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RawAddress<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Version;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    async fn read(stream: &mut (impl AsyncRead + Unpin), bytes: usize) -> String {
        let mut all = vec![0; bytes];
        stream.read_exact(&mut all).await.unwrap();
        String::from_utf8(all).unwrap()
    }

    /// The first line and nothing else, however it is cut into pieces, of each request of a connection.
    #[tokio::test]
    async fn quotes_in_an_address_are_escaped_and_those_in_heads_and_bodies_are_not() {
        let head = "POST /query?q=a\"<b>\" HTTP/1.1\r\nx: \"<>\"\r\n\r\n\"<body>\"";
        let expected = "POST /query?q=a%22%3Cb%3E%22 HTTP/1.1\r\nx: \"<>\"\r\n\r\n\"<body>\"";
        for cut in 8..head.len() {
            let (mut client, server) = duplex(1024);
            let activity = Arc::new(Activity::default());
            let mut server = RawAddress::new(server, Arc::clone(&activity));
            for _ in 0..3 {
                let (first, second) = head.split_at(cut);
                client.write_all(first.as_bytes()).await.unwrap();
                let mut come = [0; 40];
                let some = server.read(&mut come).await.unwrap();
                client.write_all(second.as_bytes()).await.unwrap();
                let start = std::str::from_utf8(&come[..some]).unwrap().to_owned();
                let rest = read(&mut server, expected.len() - some).await;
                assert_eq!(start + &rest, expected, "cut at {cut}");
                let (_, answering) = activity.begin(Version::HTTP_11, Body::empty());
                // More of the body, which looks like a request and is none.
                client.write_all(b"GET /\" <").await.unwrap();
                assert_eq!(read(&mut server, 8).await, "GET /\" <");
                drop(answering);
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_request_is_left_as_it_is() {
        for text in [
            "\"<>\" / HTTP/1.1\r\n",
            "get /\"\r\n",
            "\r\n\"",
            "GETGETGETGET /\"\r\n",
        ] {
            let (mut client, server) = duplex(1024);
            let mut server = RawAddress::new(server, Arc::new(Activity::default()));
            client.write_all(text.as_bytes()).await.unwrap();
            assert_eq!(read(&mut server, text.len()).await, text);
        }
    }
}
