//! One hostile case: what is sent, and what may come back.
//!
//! Does: say whether an answer is one that the case allows. Does not: look at the server afterwards; every case is
//! followed by the same questions, which `hostile.rs` asks.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) use crate::http::json_text;
use crate::http::{Answer, Client, SILENCE_MAX};

/// The database that hostile requests are for; nothing of the ledger is in it.
pub(super) const DB: &str = "hostile";

/// What the cases can know of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    pub(super) address: SocketAddr,
}

/// What came back.
#[derive(Debug)]
pub(super) enum Seen {
    /// An answer.
    Answer(Answer),
    /// The end of the connection, without one.
    Closed,
    /// Nothing, because nobody listened.
    Unheard,
}

/// What a client does.
pub(super) type Act = Box<dyn Fn(&Stage) -> io::Result<Seen>>;

/// A case.
pub(super) struct Case {
    /// Cases that try the same thing with other numbers.
    pub(super) family: &'static str,
    pub(super) name: String,
    act: Act,
    statuses: Vec<u16>,
    /// Where it is no error, the answer has this in it.
    right: Option<String>,
    /// Where it is an error, the answer has this in it.
    says: Option<&'static str>,
    may_close: bool,
    /// Requests that it sends one after the other, each of which may take as long as an answer may.
    pub(super) requests: u32,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.family, self.name)
    }
}

impl Case {
    /// A case that may be answered with one of these.
    pub(super) fn new(
        family: &'static str,
        name: impl Into<String>,
        statuses: &[u16],
        act: impl Fn(&Stage) -> io::Result<Seen> + 'static,
    ) -> Self {
        Self {
            family,
            name: name.into(),
            act: Box::new(act),
            statuses: statuses.to_vec(),
            right: None,
            says: None,
            may_close: false,
            requests: 1,
        }
    }

    /// The same, with so many requests one after the other.
    pub(super) fn requests(mut self, count: u64) -> Self {
        self.requests = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        self
    }

    /// The same; if there is a right answer, it has this in it.
    pub(super) fn right(mut self, text: impl Into<String>) -> Self {
        self.right = Some(text.into());
        self
    }

    /// The same; if it is refused, this is said.
    pub(super) fn says(mut self, text: &'static str) -> Self {
        self.says = Some(text);
        self
    }

    /// The same; the connection may also just end.
    pub(super) fn may_close(mut self) -> Self {
        self.may_close = true;
        self
    }

    /// Acts, and says what is wrong with what came back, if anything.
    pub(super) fn run(&self, stage: &Stage) -> Option<String> {
        match (self.act)(stage) {
            Ok(Seen::Unheard) => None,
            Ok(Seen::Answer(answer)) => self.judge(&answer),
            Ok(Seen::Closed) if self.may_close => None,
            Ok(Seen::Closed) => Some("the connection ended without an answer".to_owned()),
            Err(e) if crate::http::is_silence(&e) => {
                Some(format!("no answer within {SILENCE_MAX:?}"))
            }
            Err(_) if self.may_close => None,
            Err(e) => Some(format!("the connection broke: {e}")),
        }
    }

    fn judge(&self, answer: &Answer) -> Option<String> {
        let (status, text) = (answer.status, answer.text());
        let complain = |what: &str| Some(format!("{status} {what}: {text:.300}"));
        if !self.statuses.contains(&status) {
            return complain(&format!("and not one of {:?}", self.statuses));
        }
        match (status, &self.right, self.says) {
            (200..300, Some(right), _) if !text.contains(right) => {
                complain(&format!("without {right:?}"))
            }
            (400.., _, Some(says)) if !text.contains(says) => {
                complain(&format!("without {says:?}"))
            }
            // The names of limits end like this, with a hyphen or an underscore.
            (413 | 429 | 503 | 504, _, _) if !names_a_limit(&text) => {
                complain("that names no limit")
            }
            (400.., _, _) if !answer.body.is_empty() && !text.contains("error") => {
                complain("that says no error")
            }
            _ => None,
        }
    }
}

/// Whether a text says which limit was met.
pub(super) fn names_a_limit(text: &str) -> bool {
    ["-max", "_max", " at most ", "limit"]
        .iter()
        .any(|end| text.contains(end))
}

impl Stage {
    /// A connection.
    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, SILENCE_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(stream)
    }

    /// Sends bytes on a new connection, and waits for an answer or the end of the connection.
    pub(super) fn raw(&self, request: &[u8]) -> io::Result<Seen> {
        match Client::new(self.address).raw(request) {
            Ok(answer) => Ok(Seen::Answer(answer)),
            Err(e) if is_end(&e) => Ok(Seen::Closed),
            Err(e) => Err(e),
        }
    }

    /// Posts a body.
    pub(super) fn post(&self, target: &str, head: &str, body: &[u8]) -> io::Result<Seen> {
        let mut request = post_head(target, head, body.len());
        request.extend_from_slice(body);
        self.raw(&request)
    }

    /// Asks in SQL; the answer is CSV.
    pub(super) fn sql(&self, statement: &str) -> io::Result<Seen> {
        let head = "Content-Type: application/json\r\n";
        self.post("/api/v3/query_sql", head, &question(statement, "csv"))
    }

    /// The body of an answer that must be a good one.
    pub(super) fn demand(&self, statement: &str, format: &str) -> io::Result<Vec<u8>> {
        let head = "Content-Type: application/json\r\n";
        match self.post("/api/v3/query_sql", head, &question(statement, format))? {
            Seen::Answer(answer) if answer.status == 200 => Ok(answer.body),
            other => Err(io::Error::other(format!("{statement}: {other:?}"))),
        }
    }
}

/// The head of a POST with a body of this length.
pub(super) fn post_head(target: &str, head: &str, length: usize) -> Vec<u8> {
    format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {length}\r\n\r\n")
        .into_bytes()
}

/// The posted form of a question.
pub(super) fn question(statement: &str, format: &str) -> Vec<u8> {
    format!(
        "{{\"db\":\"{DB}\",\"format\":\"{format}\",\"q\":{}}}",
        json_text(statement)
    )
    .into_bytes()
}

/// Whether an error is the other side's end of a connection, in one of the forms that it has.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// Sends piece by piece, with a pause after each, until all is sent or the other side does not take it any more.
pub(super) fn drip(
    stream: &mut TcpStream,
    bytes: &[u8],
    piece: usize,
    pause: Duration,
) -> io::Result<()> {
    for piece in bytes.chunks(piece.max(1)) {
        stream.write_all(piece)?;
        std::thread::sleep(pause);
    }
    Ok(())
}

/// What is read until the other side ends or has said so much.
pub(super) fn read_up_to(stream: &mut TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = [0; 16 << 10];
    while all.len() < bytes_max {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(got) => all.extend_from_slice(piece.get(..got).unwrap_or_default()),
            Err(e) if is_end(&e) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, text: &str) -> Answer {
        Answer {
            status,
            head: String::new(),
            body: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_answer_counts_only_with_an_allowed_status_the_right_rows_and_the_limits_name() {
        let case = Case::new("f", "n", &[200, 400, 413], |_| Ok(Seen::Unheard)).right("3000");
        let is_right = |status, text: &str| case.judge(&answer(status, text)).is_none();
        assert!(is_right(200, "count\n3000\n"));
        assert!(!is_right(200, "count\n2999\n"));
        assert!(!is_right(500, "{\"error\":\"the server failed\"}"));
        assert!(is_right(400, "{\"error\":\"no\"}"));
        assert!(!is_right(400, "oops"));
        assert!(is_right(
            413,
            "{\"error\":\"too long (setting sql-bytes-max)\"}"
        ));
        assert!(!is_right(413, "{\"error\":\"too long\"}"));
        let strict = Case::new("f", "n", &[504], |_| Ok(Seen::Closed)).says("query-ms-max");
        assert!(strict.judge(&answer(504, "error: write-ms-max")).is_some());
        assert!(strict.judge(&answer(504, "error: query-ms-max")).is_none());
        let stage = Stage {
            address: "127.0.0.1:1".parse().unwrap(),
        };
        assert!(strict.run(&stage).is_some());
        assert!(strict.may_close().run(&stage).is_none());
    }

    #[test]
    fn texts_survive_json() {
        assert_eq!(json_text("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\u0001\"");
    }
}
