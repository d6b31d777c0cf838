//! A database that is none: answers the loader's requests, counts rows, and misbehaves on demand.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// How the server misbehaves.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault of its own, and tests combine them"
)]
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
    /// Close the connection instead of an answer to the query of rows of this number, from 0.
    pub(crate) hang_up_on_query: Option<usize>,
    /// Answer in JSON, whatever was asked for.
    pub(crate) json_only: bool,
}

/// What was asked so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) writes: usize,
    pub(crate) busy: usize,
    pub(crate) rows: u64,
    /// Rows of each table.
    pub(crate) tables: BTreeMap<String, u64>,
    /// Connections that carried at least one write.
    pub(crate) write_connections: usize,
    /// Queries of rows.
    pub(crate) queries: usize,
    /// Connections that carried at least one query of rows.
    pub(crate) query_connections: usize,
    pub(crate) targets: Vec<String>,
    /// Bodies of the writes in order of arrival, if they are kept.
    pub(crate) text: Vec<u8>,
}

impl Seen {
    /// Rows of the table that a count names, without those hidden, which are all of the first table.
    fn rows_shown(&self, target: &str, hidden: u64) -> u64 {
        let quoted = |name: &str| target.contains(&format!("%22{name}%22"));
        let first = self.tables.keys().next();
        let shown = self.tables.iter().find(|(name, _)| quoted(name));
        shown.map_or(0, |(name, rows)| {
            rows.saturating_sub(if first == Some(name) { hidden } else { 0 })
        })
    }
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
    asked: bool,
    body: Vec<u8>,
}

impl Conversation {
    fn new(faults: Faults, keep_text: bool, seen: Arc<Mutex<Seen>>) -> Self {
        Self {
            faults,
            keep_text,
            seen,
            wrote: false,
            asked: false,
            body: Vec::new(),
        }
    }

    fn hold(&mut self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = BufReader::with_capacity(256 << 10, stream);
        while let Some((target, length)) = read_head(&mut input)? {
            self.body.clear();
            (&mut input).take(length).read_to_end(&mut self.body)?;
            if self.hangs_up(&target) {
                break;
            }
            let (status, headers, text) = self.answer(&target);
            let mut output = stream;
            let length = if status == "204 No Content" {
                String::new()
            } else {
                format!("Content-Length: {}\r\n", text.len())
            };
            output.write_all(format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n").as_bytes())?;
            output.write_all(&text)?;
            if self.faults.close_after_answer {
                break;
            }
        }
        Ok(())
    }

    /// Notes a query of rows, and says whether it gets no answer.
    fn hangs_up(&mut self, target: &str) -> bool {
        if !is_query_of_rows(target) {
            return false;
        }
        let mut seen = self.seen.lock().expect("no conversation panicked");
        let number = seen.queries;
        seen.queries += 1;
        if !std::mem::replace(&mut self.asked, true) {
            seen.query_connections += 1;
        }
        let hangs_up = self.faults.hang_up_on_query == Some(number);
        if hangs_up {
            seen.targets.push(target.to_owned());
        }
        hangs_up
    }

    fn answer(&mut self, target: &str) -> (&'static str, &'static str, Vec<u8>) {
        if is_query_of_rows(target)
            && target.ends_with("&format=arrow")
            && !self.faults.json_only
            && !self.faults.refuse_queries
        {
            let mut seen = self.seen.lock().expect("no conversation panicked");
            seen.targets.push(target.to_owned());
            return (
                "200 OK",
                "",
                include_bytes!("../data/three-rows.arrow").to_vec(),
            );
        }
        let (status, headers, text) = self.answer_in_text(target);
        (status, headers, text.into_bytes())
    }

    fn answer_in_text(&mut self, target: &str) -> (&'static str, &'static str, String) {
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
            if !is_query_of_rows(target) {
                let rows = seen.rows_shown(target, self.faults.hide_rows)
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
        for line in self.body.split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b',').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            *seen.tables.entry(name).or_default() += 1;
            seen.rows += 1;
        }
        if self.keep_text {
            seen.text.extend_from_slice(&self.body);
        }
        ("204 No Content", "", String::new())
    }
}

fn is_query_of_rows(target: &str) -> bool {
    target.starts_with("/api/v3/query_sql?") && !target.contains("count%28%2A%29%20as%20row_count")
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
