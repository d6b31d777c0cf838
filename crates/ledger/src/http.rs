//! As much of an HTTP client as the ledger needs: a request, an answer, never a second try behind its back.
//!
//! Does: send any bytes, so that malformed requests can be sent too; read answers with a length or in chunks.
//! Does not: TLS, redirects, retries. A broken connection is an error of this request, and the next one opens another.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that says nothing for so long hangs.
pub const SILENCE_MAX: Duration = Duration::from_mins(1);
const ANSWER_BYTES_MAX: usize = 1 << 30;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// 200 and the like.
    pub status: u16,
    /// Status line and header lines.
    pub head: String,
    /// Without its chunks' frames.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.eq_ignore_ascii_case(name)).then(|| value.trim())
        })
    }
}

/// A client with at most one open connection.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    /// Connects with the first request.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
        }
    }

    /// Sends line protocol; a key makes it one batch however often it is sent.
    pub fn write(&mut self, db: &str, key: Option<&str>, lines: &str) -> io::Result<Answer> {
        let target = format!("/api/v3/write_lp?db={db}&precision=nanosecond");
        let key = key.map_or_else(String::new, |key| format!("Idempotency-Key: {key}\r\n"));
        self.request("POST", &target, &key, lines.as_bytes())
    }

    /// Asks, or tells, in SQL; the answer is CSV.
    pub fn sql(&mut self, db: &str, statement: &str) -> io::Result<Answer> {
        self.ask(db, statement, "csv")
    }

    /// The same in another format.
    pub fn ask(&mut self, db: &str, statement: &str, format: &str) -> io::Result<Answer> {
        let statement = json_text(statement);
        let body = format!("{{\"db\":\"{db}\",\"format\":\"{format}\",\"q\":{statement}}}");
        let head = "Content-Type: application/json\r\n";
        self.request("POST", "/api/v3/query_sql", head, body.as_bytes())
    }

    /// Sends a body with header lines of its own.
    pub fn post(&mut self, target: &str, head: &str, body: &[u8]) -> io::Result<Answer> {
        self.request("POST", target, head, body)
    }

    /// Asks for a page.
    pub fn get(&mut self, target: &str) -> io::Result<Answer> {
        self.request("GET", target, "", b"")
    }

    fn request(
        &mut self,
        method: &str,
        target: &str,
        head: &str,
        body: &[u8],
    ) -> io::Result<Answer> {
        let length = body.len();
        let mut request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{head}Content-Length: {length}\r\n\r\n",
            self.address
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.raw(&request)
    }

    /// Sends these bytes and reads one answer.
    pub fn raw(&mut self, request: &[u8]) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address)?,
        };
        // A server that refuses a body may answer before it has read it all, so the answer counts even if sending fails.
        let sent = stream.write_all(request);
        let (answer, is_kept) = match (read_answer(&mut stream), sent) {
            (Ok(answer), Ok(())) => answer,
            (Ok((answer, _)), Err(_)) => (answer, false),
            (Err(_), Err(e)) | (Err(e), Ok(())) => return Err(e),
        };
        if is_kept {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// A text as JSON has it.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Text as part of a query string.
pub(crate) fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, SILENCE_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// One answer, and whether the connection can carry another request.
fn read_answer(stream: &mut impl Read) -> io::Result<(Answer, bool)> {
    let mut received = Vec::new();
    let head_bytes = loop {
        if let Some(at) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if received.len() > HEAD_BYTES_MAX {
            return Err(malformed("the head of the answer does not end"));
        }
        read_some(stream, &mut received)?;
    };
    let body = received.split_off(head_bytes);
    let head = String::from_utf8(received).map_err(|_| malformed("the head is not text"))?;
    let status: u16 = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| malformed("this is not an answer of HTTP/1.1"))?;
    let mut answer = Answer { status, head, body };
    let is_chunked = answer
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let is_kept = !answer
        .header("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if is_chunked {
        let framed = std::mem::take(&mut answer.body);
        answer.body = read_chunks(stream, framed)?;
        return Ok((answer, is_kept));
    }
    let length = match answer.header("content-length") {
        Some(value) => value
            .parse()
            .map_err(|_| malformed("the length is not a number"))?,
        None => 0,
    };
    if length > ANSWER_BYTES_MAX {
        return Err(malformed("the answer is longer than 1 GiB"));
    }
    while answer.body.len() < length {
        read_some(stream, &mut answer.body)?;
    }
    Ok((answer, is_kept))
}

fn read_chunks(stream: &mut impl Read, mut framed: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let line_end = loop {
            let rest = framed.get(at..).unwrap_or_default();
            if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                break at + end;
            }
            read_some(stream, &mut framed)?;
        };
        let size = framed
            .get(at..line_end)
            .and_then(|line| std::str::from_utf8(line).ok())
            .and_then(|line| usize::from_str_radix(line.trim(), 16).ok())
            .filter(|size| *size <= ANSWER_BYTES_MAX)
            .ok_or_else(|| malformed("a chunk has no length"))?;
        let begin = line_end + 2;
        while framed.len() < begin + size + 2 {
            read_some(stream, &mut framed)?;
        }
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(framed.get(begin..begin + size).unwrap_or_default());
        at = begin + size + 2;
        if body.len() > ANSWER_BYTES_MAX {
            return Err(malformed("the answer is longer than 1 GiB"));
        }
    }
}

fn read_some(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                received.extend_from_slice(piece.get(..got).unwrap_or_default());
                return Ok(());
            }
        }
    }
}

/// Whether an error means that the server said nothing for [`SILENCE_MAX`].
pub fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_has_only_what_may_stand_there() {
        assert_eq!(encode("a b=\"\u{e4}\"_-."), "a%20b%3D%22%C3%A4%22_-.");
    }

    /// Gives out one byte at a time, so that every border falls between two reads.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let (Some(slot), Some((first, rest))) = (out.first_mut(), self.0.split_first()) else {
                return Ok(0);
            };
            *slot = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn answers_are_read_in_each_framing_and_cut_ones_refused() {
        let cases: [(&[u8], u16, &str, bool); 3] = [
            (b"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
            (
                b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbad",
                400,
                "bad",
                false,
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
                200,
                "abcd",
                true,
            ),
        ];
        for (bytes, status, body, kept) in cases {
            let (answer, is_kept) = read_answer(&mut Drip(bytes)).unwrap();
            assert_eq!(
                (answer.status, answer.text().as_str(), is_kept),
                (status, body, kept)
            );
            for n in 0..bytes.len() {
                assert!(read_answer(&mut Drip(bytes.get(..n).unwrap())).is_err());
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, chunked: bool) {
            let mut all = b"HTTP/1.1 200 OK\r\n".to_vec();
            if chunked {
                all.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
            all.extend_from_slice(b"\r\n");
            all.extend_from_slice(&bytes);
            let _ = read_answer(&mut all.as_slice());
            let _ = read_answer(&mut bytes.as_slice());
        }
    }
}
