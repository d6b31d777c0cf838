//! Reading the answer to a write: a status, what to do about it, and a text of bounded length.

use std::io::{self, Read};
use std::time::Duration;

/// Status line and headers.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Body of the answer to a write. An error message is far shorter.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The answer to one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
    /// Whether the connection can carry another request.
    pub(crate) keep: bool,
}

/// How the length of a body is given.
enum Framing {
    Length(usize),
    Chunked,
    ToTheEnd,
}

impl Reply {
    /// Reads one answer; `received` is emptied here and filled with what arrives, so that a caller sees whether
    /// anything did.
    pub(super) fn read(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<Self> {
        received.clear();
        let mut seen = 0;
        let head_end = loop {
            if let Some(at) = memchr::memmem::find(&received[seen..], b"\r\n\r\n") {
                break seen + at + 4;
            }
            // The end of the head may lie across two reads.
            seen = received.len().saturating_sub(3);
            if received.len() > HEAD_BYTES_MAX {
                return Err(malformed("the head of the answer does not end"));
            }
            if read_some(stream, received)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head = std::str::from_utf8(&received[..head_end])
            .map_err(|_| malformed("the head is not text"))?;
        let (mut reply, framing) = parse_head(head)?;
        reply.body = match framing {
            Framing::Length(length) => read_length(stream, received, head_end, length)?,
            Framing::Chunked => read_chunked(stream, received, head_end)?,
            Framing::ToTheEnd => read_to_the_end(stream, received, head_end)?,
        };
        Ok(reply)
    }
}

fn parse_head(head: &str) -> io::Result<(Reply, Framing)> {
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut words = status_line.split(' ');
    let version = words.next().unwrap_or_default();
    let status: u16 = words
        .next()
        .and_then(|w| w.parse().ok())
        .ok_or_else(|| malformed("there is no status"))?;
    if !version.starts_with("HTTP/1.") || !(200..600).contains(&status) {
        return Err(malformed("this is not an answer of HTTP/1.1"));
    }
    let mut reply = Reply {
        status,
        retry_after: None,
        body: Vec::new(),
        keep: version == "HTTP/1.1",
    };
    let mut framing = Framing::ToTheEnd;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if !matches!(framing, Framing::Chunked) => {
                let length = value
                    .parse()
                    .map_err(|_| malformed("the length is not a number"))?;
                framing = Framing::Length(length);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                framing = Framing::Chunked;
            }
            "connection" if value.eq_ignore_ascii_case("close") => reply.keep = false,
            // The other form, a date, asks for calendars; no database sends it.
            "retry-after" => reply.retry_after = value.parse().ok().map(Duration::from_secs),
            _ => {}
        }
    }
    if status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    reply.keep &= !matches!(framing, Framing::ToTheEnd);
    Ok((reply, framing))
}

fn read_length(
    stream: &mut impl Read,
    received: &mut Vec<u8>,
    begin: usize,
    length: usize,
) -> io::Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        return Err(malformed("the answer to a write is longer than 1 MiB"));
    }
    while received.len() < begin + length {
        if read_some(stream, received)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(received[begin..begin + length].to_vec())
}

fn read_chunked(
    stream: &mut impl Read,
    received: &mut Vec<u8>,
    begin: usize,
) -> io::Result<Vec<u8>> {
    loop {
        // From the start each time: answers to writes are short, mostly one read.
        if let Some(body) = join_chunks(&received[begin..])? {
            return Ok(body);
        }
        if received.len() - begin > BODY_BYTES_MAX {
            return Err(malformed("the answer to a write is longer than 1 MiB"));
        }
        if read_some(stream, received)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The body in chunks, or `None` if its end is not there yet. Trailers are not looked for: no database sends them.
fn join_chunks(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(line_end) = memchr::memmem::find(rest, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&rest[..line_end])
            .ok()
            .and_then(|line| {
                let digits = line.split(';').next().unwrap_or_default().trim();
                usize::from_str_radix(digits, 16).ok()
            });
        let size = size
            .filter(|n| *n <= BODY_BYTES_MAX)
            .ok_or_else(|| malformed("a chunk has no length"))?;
        let data = &rest[line_end + 2..];
        if data.len() < size + 2 {
            return Ok(None);
        }
        if &data[size..size + 2] != b"\r\n" {
            return Err(malformed("a chunk is longer than it says"));
        }
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&data[..size]);
        rest = &data[size + 2..];
    }
}

fn read_to_the_end(
    stream: &mut impl Read,
    received: &mut Vec<u8>,
    begin: usize,
) -> io::Result<Vec<u8>> {
    while received.len() - begin <= BODY_BYTES_MAX && read_some(stream, received)? > 0 {}
    Ok(received[begin..].to_vec())
}

fn read_some(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(got) => {
                received.extend_from_slice(&piece[..got]);
                return Ok(got);
            }
        }
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::Reply;
    use std::io::Read;
    use std::time::Duration;

    /// Gives out one byte at a time, so that every border falls between two reads.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let (Some(slot), Some((first, rest))) = (out.first_mut(), self.0.split_first()) else {
                return Ok(0);
            };
            *slot = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn read(bytes: &[u8]) -> std::io::Result<Reply> {
        Reply::read(&mut Drip(bytes), &mut Vec::new())
    }

    #[test]
    fn answers_are_read_in_each_framing() {
        let reply = |status, body: &str, keep| Reply {
            status,
            retry_after: None,
            body: body.into(),
            keep,
        };
        assert_eq!(
            read(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(),
            reply(204, "", true)
        );
        assert_eq!(
            read(b"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbadX").unwrap(),
            reply(400, "bad", true)
        );
        assert_eq!(
            read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n").unwrap(),
            reply(200, "abcd", true)
        );
        assert_eq!(
            read(b"HTTP/1.1 500 No\r\n\r\nuntil the end").unwrap(),
            reply(500, "until the end", false)
        );
        assert_eq!(
            read(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap(),
            reply(200, "", false)
        );
        assert_eq!(
            read(b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap(),
            Reply { status: 503, retry_after: Some(Duration::from_secs(2)), body: vec![], keep: false }
        );
    }

    #[test]
    fn answers_that_are_cut_off_or_malformed_are_errors() {
        let chunked: &[u8] =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let counted: &[u8] = b"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad";
        for whole in [chunked, counted] {
            for n in 0..whole.len() {
                assert!(
                    read(&whole[..n]).is_err(),
                    "accepted {n} of {} bytes",
                    whole.len()
                );
            }
        }
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 99 x\r\n\r\n",
            "\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, head: bool, chunked: bool) {
            let mut all = Vec::new();
            if head {
                all.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
                if chunked {
                    all.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                }
                all.extend_from_slice(b"\r\n");
            }
            all.extend_from_slice(&bytes);
            let mut received = Vec::new();
            if let Ok(reply) = Reply::read(&mut all.as_slice(), &mut received) {
                proptest::prop_assert!(reply.body.len() <= received.len());
            }
        }
    }
}
