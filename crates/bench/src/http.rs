//! The two HTTP clients of the benchmark.
//!
//! [`Client`] asks questions, through ureq. [`Connection`] sends batches, and is written here because of what the loader
//! may cost: loader and server share one machine in our runs, so what the loader burns is missing from the server. A
//! general client copies a body into its buffer and from there into the socket; from a batch file this one hands the
//! kernel a range of the file (`sendfile`), so that the text never enters this process. Medians of three alternating
//! rounds on a busy two-core machine, two workers, cached pages, a server that forgets, per million rows of 346 bytes:
//! 0.09 s of processor time this way, 0.13 s copied through 256 KiB, 0.15 s by ureq (`examples/loader_alone.rs` repeats
//! the first). What it speaks is the little that a write needs: HTTP/1.1, one POST at a time, a known
//! length, an answer with a length, in chunks, or up to the end of the connection.
//!
//! Neither does TLS, redirects or proxies: a benchmark measures the database, not the way there.

mod reply;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::time::Duration;

pub(crate) use reply::Reply;

use crate::source::Body;
use crate::{Error, Result};

/// Longest silence of a server while it stores a batch or answers a query. Only a server that hangs gets there.
const SILENCE_MAX: Duration = Duration::from_mins(5);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Bytes of an error's text that are shown.
const SHOWN_BYTES_MAX: usize = 2000;
/// The piece in which text is copied where the kernel cannot send from the file.
const COPY_BYTES: usize = 256 << 10;

/// Where a database listens: host, port, and the path before its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// `host:port`, as the socket and the Host header want it.
    authority: String,
    /// Without a slash at the end.
    base: String,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let refuse = |why| {
            Err(Error::Address {
                url: url.to_owned(),
                why,
            })
        };
        if url.starts_with("https://") {
            return refuse("the benchmark does not speak TLS; use http:// on the machine itself");
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return refuse("it begins with http://, as in http://127.0.0.1:8086");
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            // A colon within brackets belongs to an IPv6 address.
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, "80"),
        };
        if host.is_empty()
            || port.parse::<u16>().is_err()
            || !url.bytes().all(|b| b.is_ascii_graphic())
        {
            return refuse(
                "host and port are missing or malformed; it looks like http://127.0.0.1:8086",
            );
        }
        if authority.contains('@') || base.contains(['?', '#']) {
            return refuse("it has a host, a port and at most a path, as in http://127.0.0.1:8086");
        }
        Ok(Self {
            authority: format!("{host}:{port}"),
            base: base.trim_end_matches('/').to_owned(),
        })
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{}{target}", self.authority, self.base)
    }
}

/// Asks questions over a kept connection.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    address: Address,
}

impl Client {
    pub(crate) fn new(address: &Address) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // The environment may name a proxy, which would be measured along.
            .proxy(None)
            // A request goes out at once, not when the kernel has gathered more.
            .no_delay(true)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(SILENCE_MAX))
            .build();
        Self {
            agent: config.new_agent(),
            address: address.clone(),
        }
    }

    /// Status and whole body of a GET; the error is a text for people.
    pub(crate) fn get(&self, target: &str) -> std::result::Result<(u16, Vec<u8>), String> {
        // A kept connection may have been closed by the server meanwhile. Asking twice is harmless: this only reads.
        self.get_once(target).or_else(|_| self.get_once(target))
    }

    fn get_once(&self, target: &str) -> std::result::Result<(u16, Vec<u8>), String> {
        let mut response = self
            .agent
            .get(self.address.url(target))
            .call()
            .map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        // Without a limit of its own: the widest answers are hundreds of megabytes, and they are asked for.
        let body = response
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_to_vec()
            .map_err(|e| e.to_string())?;
        Ok((status, body))
    }

    /// A SQL query whose rows come back as a JSON array.
    pub(crate) fn query_sql(
        &self,
        database: &str,
        sql: &str,
    ) -> std::result::Result<(u16, Vec<u8>), String> {
        self.get(&query_target(database, sql, "json"))
    }

    /// A SQL query that is asked once, also if the connection breaks, so that its time is that of one request.
    pub(crate) fn query_once(
        &self,
        database: &str,
        sql: &str,
        format: &str,
    ) -> std::result::Result<(u16, Vec<u8>), String> {
        self.get_once(&query_target(database, sql, format))
    }
}

fn query_target(database: &str, sql: &str, format: &str) -> String {
    format!(
        "/api/v3/query_sql?db={}&q={}&format={format}",
        percent_encode(database),
        percent_encode(sql)
    )
}

/// Sends batches over one kept connection.
#[derive(Debug)]
pub(crate) struct Connection {
    address: Address,
    /// Everything of a request's head up to the length.
    head: String,
    stream: Option<TcpStream>,
    /// Bytes of answers, kept to save allocations.
    received: Vec<u8>,
    /// Connections opened so far.
    pub(crate) opened: u64,
}

impl Connection {
    /// Prepares to POST to `target`; connects with the first batch.
    pub(crate) fn new(address: &Address, target: &str) -> Self {
        let head = format!(
            "POST {}{target} HTTP/1.1\r\nHost: {}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             User-Agent: nilometer-bench\r\nContent-Length: ",
            address.base, address.authority
        );
        Self {
            address: address.clone(),
            head,
            stream: None,
            received: Vec::new(),
            opened: 0,
        }
    }

    /// Sends a body and waits for the answer.
    ///
    /// A server may close a kept connection at any time, which shows only in the next request. So a request that fails
    /// on a kept connection before a byte of an answer arrived is sent once more on a new one. A batch that was stored
    /// after all is then written twice, which stores the same points again.
    pub(crate) fn post(&mut self, body: &Body) -> io::Result<Reply> {
        let kept = self.stream.is_some();
        match self.exchange(body) {
            Err(e) if kept && self.received.is_empty() && !is_silence(&e) => self.exchange(body),
            result => result,
        }
    }

    fn exchange(&mut self, body: &Body) -> io::Result<Reply> {
        self.received.clear();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let sent = send(&mut stream, &self.head, body);
        // A server that refuses a body may answer before it has read it all and close, so the answer counts even if
        // sending failed; without one, the failure to send is what happened.
        let reply = match (Reply::read(&mut stream, &mut self.received), sent) {
            (Ok(reply), Ok(())) => reply,
            (Ok(reply), Err(_)) => Reply {
                keep: false,
                ..reply
            },
            (Err(_), Err(e)) | (Err(e), Ok(())) => return Err(e),
        };
        if reply.keep {
            self.stream = Some(stream);
        }
        Ok(reply)
    }

    fn connect(&mut self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address.authority)?;
        // The head goes out at once, not when the kernel has gathered more.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        self.opened += 1;
        Ok(stream)
    }
}

fn send(stream: &mut TcpStream, head: &str, body: &Body) -> io::Result<()> {
    stream.write_all(format!("{head}{}\r\n\r\n", body.bytes()).as_bytes())?;
    match body {
        Body::InMemory(text) => stream.write_all(text),
        Body::InFile {
            file,
            offset,
            bytes,
        } => send_range(stream, file, *offset, *bytes as usize),
    }
}

/// A server that is silent for too long hangs; its connection is not closed.
fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Sends a range of a file, by the kernel where it can.
fn send_range(
    stream: &mut TcpStream,
    file: &File,
    mut offset: u64,
    mut bytes: usize,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    while bytes > 0 {
        match rustix::fs::sendfile(&*stream, file, Some(&mut offset), bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(sent) => bytes -= sent,
            Err(rustix::io::Errno::INTR) => {}
            // Some file systems cannot do it; the loop below can.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let mut piece = vec![0; bytes.min(COPY_BYTES)];
    while bytes > 0 {
        let now = bytes.min(piece.len());
        file.read_exact_at(&mut piece[..now], offset)?;
        stream.write_all(&piece[..now])?;
        offset += now as u64;
        bytes -= now;
    }
    Ok(())
}

/// An answer's text for an error message.
pub(crate) fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)])
        .trim()
        .to_owned();
    if text.is_empty() {
        "(no text)".to_owned()
    } else {
        text
    }
}

/// A value within a query string.
pub(crate) fn percent_encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + value.len() / 2);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to memory does not fail");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Address, percent_encode};

    #[test]
    fn addresses_are_read_or_refused_with_a_reason() {
        let address = Address::parse("http://127.0.0.1:8086").unwrap();
        assert_eq!(address.url("/health"), "http://127.0.0.1:8086/health");
        assert_eq!(
            Address::parse("http://db/base/").unwrap().url("/x"),
            "http://db:80/base/x"
        );
        assert_eq!(
            Address::parse("http://[::1]:9").unwrap().url(""),
            "http://[::1]:9"
        );
        assert_eq!(
            Address::parse("http://[::1]").unwrap().url(""),
            "http://[::1]:80"
        );
        for url in [
            "",
            "127.0.0.1:8086",
            "https://db",
            "http://",
            "http://:1",
            "http://h:x",
            "http://h:99999",
            "http://u@h",
            "http://h/?q",
            "http://h/a\r\nX: y",
        ] {
            assert!(Address::parse(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn query_values_are_encoded() {
        assert_eq!(percent_encode("a-Z_0.~"), "a-Z_0.~");
        assert_eq!(
            percent_encode("max(a) >= 'x' & \u{e9}"),
            "max%28a%29%20%3E%3D%20%27x%27%20%26%20%C3%A9"
        );
    }
}
