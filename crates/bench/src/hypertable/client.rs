//! A client of PostgreSQL's protocol, as far as a benchmark needs one: statements, prepared statements and COPY over a blocking socket.
//!
//! Does: connect by a connection string, log in with or without a password, send one request at a time and read its whole answer.
//! Does not: make TLS, convert values (all are texts, as psql and libpq have them), or try again.
//! Next: `address.rs` for connection strings, `login.rs` for passwords.
#![expect(
    clippy::big_endian_bytes,
    reason = "the protocol of PostgreSQL has numbers in this order"
)]

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::address::Address;
use super::login::Scram;
use crate::{Error, Result};

/// Longest wait for an answer: a COPY or the compression of a chunk takes no longer.
const WAIT_MAX: Duration = Duration::from_mins(10);
/// The largest message that a server is believed; rows of this suite have some hundred bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const PROTOCOL: i32 = 3 << 16;
/// A COPY sends its rows in messages of so many bytes.
const COPY_BYTES: usize = 1 << 16;

/// Rows of an answer, each value as text.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
    message: Vec<u8>,
    server: String,
    /// What the server says of itself: its version.
    pub(super) version: String,
}

impl Client {
    /// Connects and logs in. `server` is what errors call it.
    pub(super) fn connect(server: &str, address: &Address) -> Result<Self> {
        let failed = |source: io::Error| Error::Peer {
            server: server.to_owned(),
            what: format!(
                "nobody answers at {}:{} ({source})",
                address.host, address.port
            ),
        };
        let stream = TcpStream::connect((address.host.as_str(), address.port)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(WAIT_MAX)).map_err(failed)?;
        let mut client = Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            out: Vec::new(),
            message: Vec::new(),
            server: server.to_owned(),
            version: String::new(),
        };
        client.log_in(address)?;
        Ok(client)
    }

    fn log_in(&mut self, address: &Address) -> Result<()> {
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for (name, value) in [("user", &address.user), ("database", &address.database)] {
            put_text(&mut body, name);
            put_text(&mut body, value);
        }
        body.push(0);
        self.out.clear();
        let bytes = i32::try_from(body.len() + 4).unwrap_or(i32::MAX);
        self.out.extend_from_slice(&bytes.to_be_bytes());
        self.out.extend_from_slice(&body);
        self.send()?;
        let mut scram: Option<Scram> = None;
        loop {
            match self.next("the login")? {
                b'Z' => return Ok(()),
                b'R' => {
                    let message = std::mem::take(&mut self.message);
                    self.prove(address, &message, &mut scram)?;
                }
                b'S' => {
                    let mut texts = self.message.split(|byte| *byte == 0);
                    if texts.next() == Some(b"server_version") {
                        let version = texts.next().unwrap_or_default();
                        self.version = String::from_utf8_lossy(version).into_owned();
                    }
                }
                _ => {}
            }
        }
    }

    /// Answers what the server asks of the password.
    fn prove(&mut self, address: &Address, asked: &[u8], scram: &mut Option<Scram>) -> Result<()> {
        let kind = asked.first_chunk().copied().map_or(-1, i32::from_be_bytes);
        let rest = asked.get(4..).unwrap_or_default();
        let reply = match kind {
            0 => return Ok(()),
            3 => {
                let mut reply = address.password.clone().into_bytes();
                reply.push(0);
                reply
            }
            10 if rest
                .split(|byte| *byte == 0)
                .any(|it| it == b"SCRAM-SHA-256") =>
            {
                let begun = Scram::begin().map_err(|what| self.failed(what))?;
                let mut reply = Vec::new();
                put_text(&mut reply, "SCRAM-SHA-256");
                let first = begun.first();
                put_int(&mut reply, first.len());
                reply.extend_from_slice(first.as_bytes());
                *scram = Some(begun);
                reply
            }
            11 => {
                let begun = scram.as_mut().ok_or_else(|| {
                    self.failed("it goes on with a login that nobody began".to_owned())
                })?;
                let last = begun.last(&address.password, rest);
                last.map_err(|what| self.failed(what))?.into_bytes()
            }
            12 => {
                let ended = scram.as_ref().map_or(Ok(()), |scram| scram.check(rest));
                return ended.map_err(|what| self.failed(what));
            }
            _ => {
                return Err(self.failed(format!(
                    "it asks for a login of kind {kind}, which this program does not know; let the user in by trust, password or scram-sha-256"
                )));
            }
        };
        self.out.clear();
        put_message(&mut self.out, b'p', &reply);
        self.send()
    }

    /// Runs a statement; the rows that it answers.
    pub(super) fn run(&mut self, statement: &str) -> Result<Rows> {
        self.out.clear();
        let mut body = Vec::new();
        put_text(&mut body, statement);
        put_message(&mut self.out, b'Q', &body);
        self.send()?;
        let mut rows = Rows::new();
        loop {
            match self.next(statement)? {
                b'Z' => return Ok(rows),
                b'D' => rows.push(values(&self.message)),
                _ => {}
            }
        }
    }

    /// The one value that a statement answers.
    pub(super) fn value(&mut self, statement: &str) -> Result<String> {
        let rows = self.run(statement)?;
        let first = rows.into_iter().next();
        let value = first.and_then(|row| row.into_iter().next().flatten());
        value.ok_or_else(|| self.failed(format!("it answers nothing to {statement}")))
    }

    /// Names a statement with parameters.
    pub(super) fn prepare(&mut self, name: &str, statement: &str) -> Result<()> {
        self.out.clear();
        let mut body = Vec::new();
        put_text(&mut body, name);
        put_text(&mut body, statement);
        // The server finds the types of the parameters.
        body.extend_from_slice(&[0, 0]);
        put_message(&mut self.out, b'P', &body);
        put_message(&mut self.out, b'S', &[]);
        self.send()?;
        while self.next(statement)? != b'Z' {}
        Ok(())
    }

    /// Runs a prepared statement in one round trip; how many rows it answers.
    pub(super) fn execute(&mut self, name: &str, parameters: &[&str]) -> Result<usize> {
        self.out.clear();
        let mut body = vec![0];
        put_text(&mut body, name);
        body.extend_from_slice(&[0, 0]);
        let count = i16::try_from(parameters.len()).unwrap_or(i16::MAX);
        body.extend_from_slice(&count.to_be_bytes());
        for parameter in parameters {
            put_int(&mut body, parameter.len());
            body.extend_from_slice(parameter.as_bytes());
        }
        body.extend_from_slice(&[0, 0]);
        put_message(&mut self.out, b'B', &body);
        put_message(&mut self.out, b'E', &[0, 0, 0, 0, 0]);
        put_message(&mut self.out, b'S', &[]);
        self.send()?;
        let mut rows = 0;
        loop {
            match self.next(name)? {
                b'Z' => return Ok(rows),
                b'D' => rows += 1,
                _ => {}
            }
        }
    }

    /// Sends rows by `COPY ... FROM STDIN`; `fill` adds the next lines, and none when there are no more.
    pub(super) fn copy(
        &mut self,
        statement: &str,
        mut fill: impl FnMut(&mut Vec<u8>, usize),
    ) -> Result<()> {
        self.out.clear();
        let mut body = Vec::new();
        put_text(&mut body, statement);
        put_message(&mut self.out, b'Q', &body);
        self.send()?;
        while self.next(statement)? != b'G' {}
        let mut lines = Vec::with_capacity(COPY_BYTES);
        loop {
            lines.clear();
            fill(&mut lines, COPY_BYTES);
            if lines.is_empty() {
                break;
            }
            self.out.clear();
            put_message(&mut self.out, b'd', &lines);
            self.send()?;
        }
        self.out.clear();
        put_message(&mut self.out, b'c', &[]);
        self.send()?;
        while self.next(statement)? != b'Z' {}
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.stream.get_mut().write_all(&self.out);
        sent.map_err(|source| self.failed(format!("the connection broke ({source})")))
    }

    /// Reads the next message; what it is. Of an error, the rest of the answer is read too.
    fn next(&mut self, statement: &str) -> Result<u8> {
        let kind = self.read()?;
        if kind != b'E' {
            return Ok(kind);
        }
        let what = format!("{}\n{statement}", error_text(&self.message));
        Err(self.failed(what))
    }

    fn read(&mut self) -> Result<u8> {
        let mut head = [0; 5];
        let read = |stream: &mut BufReader<TcpStream>, to: &mut [u8]| {
            stream.read_exact(to).map_err(|source| Error::Peer {
                server: self.server.clone(),
                what: format!("the connection broke ({source})"),
            })
        };
        read(&mut self.stream, &mut head)?;
        let [kind, bytes @ ..] = head;
        let bytes = usize::try_from(i32::from_be_bytes(bytes).saturating_sub(4)).ok();
        let Some(bytes) = bytes.filter(|bytes| *bytes <= MESSAGE_BYTES_MAX) else {
            return Err(Error::Peer {
                server: self.server.clone(),
                what: "what it says is not PostgreSQL's protocol".to_owned(),
            });
        };
        self.message.resize(bytes, 0);
        read(&mut self.stream, &mut self.message)?;
        Ok(kind)
    }

    fn failed(&self, what: String) -> Error {
        Error::Peer {
            server: self.server.clone(),
            what,
        }
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(text.as_bytes());
    to.push(0);
}

fn put_int(to: &mut Vec<u8>, number: usize) {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    to.extend_from_slice(&number.to_be_bytes());
}

fn put_message(to: &mut Vec<u8>, kind: u8, body: &[u8]) {
    to.push(kind);
    put_int(to, body.len() + 4);
    to.extend_from_slice(body);
}

/// The values of a row.
fn values(mut message: &[u8]) -> Vec<Option<String>> {
    let mut take = |bytes: usize| -> Option<&[u8]> {
        let (taken, rest) = message.split_at_checked(bytes)?;
        message = rest;
        Some(taken)
    };
    let Some([a, b]) = take(2).and_then(<[u8]>::first_chunk).copied() else {
        return Vec::new();
    };
    let mut row = Vec::new();
    for _ in 0..u16::from_be_bytes([a, b]) {
        let length = take(4).and_then(<[u8]>::first_chunk).copied();
        let length = length.map_or(-1, i32::from_be_bytes);
        let value = usize::try_from(length).ok().and_then(&mut take);
        row.push(value.map(|it| String::from_utf8_lossy(it).into_owned()));
    }
    row
}

/// Code and text of an error.
fn error_text(message: &[u8]) -> String {
    let field = |wanted: u8| {
        let mut fields = message.split(|byte| *byte == 0);
        let found = fields.find_map(|field| field.strip_prefix(&[wanted]));
        String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
    };
    format!("{} (SQLSTATE {})", field(b'M'), field(b'C'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_errors_are_read_as_the_protocol_writes_them() {
        let row = [
            0, 3, 0, 0, 0, 1, b'7', 255, 255, 255, 255, 0, 0, 0, 2, b'a', b'b',
        ];
        assert_eq!(
            values(&row),
            [Some("7".to_owned()), None, Some("ab".to_owned())]
        );
        // A length that the message does not have is no value, and no panic.
        assert_eq!(values(&[0, 1, 0, 0, 0, 9, b'x']), [None]);
        let error = b"SERROR\0C42P01\0Mno such table\0\0";
        assert_eq!(error_text(error), "no such table (SQLSTATE 42P01)");
    }
}
