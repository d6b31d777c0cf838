//! A database that is none: answers the loader's requests, counts rows, and misbehaves on demand.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// How the server misbehaves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Refuse the write request of this number, from 0, with status 400.
    pub(crate) refuse_write: Option<usize>,
    /// Answer this many write requests with 503 and `Retry-After: 0` first.
    pub(crate) busy_writes: usize,
    /// Close the connection without notice after every answer.
    pub(crate) close_after_answer: bool,
    /// Say that fewer rows than were written can be read.
    pub(crate) hide_rows: u64,
    /// Count every row twice.
    pub(crate) count_twice: bool,
    /// Have a page of figures, with so many bytes a row, each of which was written twice and a half.
    pub(crate) row_bytes_shown: Option<u64>,
    /// Refuse queries of rows, but not of the row count.
    pub(crate) refuse_queries: bool,
}

/// What was asked so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) writes: usize,
    pub(crate) busy: usize,
    pub(crate) rows: u64,
    /// Connections that carried at least one write.
    pub(crate) write_connections: usize,
    pub(crate) targets: Vec<String>,
    /// Bodies of the writes in order of arrival, if they are kept.
    pub(crate) text: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    /// Listens on a free loopback port until the test ends.
    pub(crate) fn start(faults: Faults, keep_text: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback address is there");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                // A client that goes away ends its thread; that is no failure of the test.
                thread::spawn(move || Conversation::new(faults, keep_text, seen).hold(&stream));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no conversation panicked")
    }
}

struct Conversation {
    faults: Faults,
    keep_text: bool,
    seen: Arc<Mutex<Seen>>,
    wrote: bool,
    body: Vec<u8>,
}

impl Conversation {
    fn new(faults: Faults, keep_text: bool, seen: Arc<Mutex<Seen>>) -> Self {
        Self {
            faults,
            keep_text,
            seen,
            wrote: false,
            body: Vec::new(),
        }
    }

    fn hold(&mut self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = BufReader::with_capacity(256 << 10, stream);
        while let Some((target, length)) = read_head(&mut input)? {
            self.body.clear();
            (&mut input).take(length).read_to_end(&mut self.body)?;
            let (status, headers, text) = self.answer(&target);
            let mut output = stream;
            let length = if status == "204 No Content" {
                String::new()
            } else {
                format!("Content-Length: {}\r\n", text.len())
            };
            output.write_all(
                format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n{text}").as_bytes(),
            )?;
            if self.faults.close_after_answer {
                break;
            }
        }
        Ok(())
    }

    fn answer(&mut self, target: &str) -> (&'static str, &'static str, String) {
        let mut seen = self.seen.lock().expect("no conversation panicked");
        seen.targets.push(target.to_owned());
        if target == "/health" {
            return (
                "200 OK",
                "",
                r#"{"status":"pass","durability":"none at all"}"#.to_owned(),
            );
        }
        if let ("/metrics", Some(row_bytes)) = (target, self.faults.row_bytes_shown) {
            let bytes = seen.rows * row_bytes;
            let page = format!(
                "nilometer_segments 1\nnilometer_segment_bytes {}\nnilometer_segment_bytes_written_total {}\n\
                 nilometer_definition_bytes 0\nnilometer_head_rows 0\nnilometer_series 3\nnilometer_series_bytes 9\n",
                bytes,
                bytes * 5 / 2,
            );
            return ("200 OK", "", page);
        }
        if target.starts_with("/api/v3/query_sql?") {
            if target.contains("count%28%2A%29") {
                let rows = seen.rows.saturating_sub(self.faults.hide_rows)
                    * if self.faults.count_twice { 2 } else { 1 };
                return ("200 OK", "", format!(r#"[{{"row_count":{rows}}}]"#));
            }
            if self.faults.refuse_queries {
                return (
                    "400 Bad Request",
                    "",
                    r#"{"error":"no such function"}"#.to_owned(),
                );
            }
            return (
                "200 OK",
                "",
                r#"[{"minute":"a","max":1},{"minute":"b","max":2}]"#.to_owned(),
            );
        }
        if !target.starts_with("/api/v3/write_lp?") {
            return ("404 Not Found", "", "no such route".to_owned());
        }
        if seen.busy < self.faults.busy_writes {
            seen.busy += 1;
            return (
                "503 Service Unavailable",
                "Retry-After: 0\r\n",
                "busy".to_owned(),
            );
        }
        let number = seen.writes;
        seen.writes += 1;
        if self.faults.refuse_write == Some(number) {
            return (
                "400 Bad Request",
                "",
                r#"{"error":"field type conflict"}"#.to_owned(),
            );
        }
        if !std::mem::replace(&mut self.wrote, true) {
            seen.write_connections += 1;
        }
        seen.rows += memchr::memchr_iter(b'\n', &self.body).count() as u64;
        if self.keep_text {
            seen.text.extend_from_slice(&self.body);
        }
        ("204 No Content", "", String::new())
    }
}

/// Target and body length of the next request; `None` when the client is done.
fn read_head(input: &mut impl BufRead) -> io::Result<Option<(String, u64)>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        input.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            None => return Ok(Some((target, length))),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().expect("clients send numbers");
            }
            Some(_) => {}
        }
    }
}
