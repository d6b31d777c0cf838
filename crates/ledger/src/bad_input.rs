//! Invalid requests, and the answer that each must get.
//!
//! Does: a list of wrong requests of every kind, and endless damaged ones of a seed.
//! Does not: write into a table of the ledger; what a damaged body leaves goes to a database of its own.

use std::io;

use crate::batch::Content;
use crate::http::{Answer, Client};
use crate::random::Random;

/// The database that damaged bodies are for.
const JUNK: &str = "junk";
/// The flag below makes this the largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Flags that make limits cheap to reach.
pub const FLAGS: [&str; 2] = ["--body-bytes-max", "1048576"];

/// A request that must be refused, with the status.
struct Wrong {
    status: u16,
    head: &'static str,
    body: Vec<u8>,
}

/// Lines, all of which are wrong, for a table that must therefore never come to be.
const LINES: &[&str] = &[
    "bad",
    "bad v=",
    "bad v=1.5.5",
    "bad v=1i5",
    "bad v=\"open",
    "bad v=1 x",
    "bad v=1 99999999999999999999999",
    "bad,=x v=1",
    "bad,host= v=1",
    "bad,host v=1",
    "bad =1",
    "bad v",
    "bad,,host=a v=1",
    " v=1",
    ",host=a v=1",
    "bad v=9223372036854775808i",
    "bad v=-1u",
    "bad v=tru",
    "bad v=nan",
    "bad v=1 -9223372036854775808",
    "bad\u{0}v=1 v",
    "bad v=1,v2=",
    "bad v='x'",
];
const STATEMENTS: &[&str] = &[
    "",
    "selec 1",
    "SELECT",
    "SELECT * FROM nothing_of_this_name",
    "SELECT nothing FROM points",
    "SELECT * FROM points WHERE",
    "SELECT * FROM points; DROP TABLE points",
    "INSERT INTO points (time, slot) VALUES (1, 'x')",
    "INSERT INTO points VALUES (1)",
    "DELETE FROM nothing_of_this_name",
    "SELECT 1/0 FROM points WHERE slot = 'x'::bigint",
    "SELECT sum(note) FROM points",
    "DROP TABLE nothing_of_this_name",
    "ALTER TABLE points ALTER COLUMN note TYPE BIGINT",
];

/// Statements that the state of the store forbids.
const CONFLICTS: &[&str] = &[
    "CREATE TABLE points (time TIMESTAMPTZ NOT NULL)",
    "CREATE VIEW newest AS SELECT 1",
];

fn wrong_requests() -> Vec<Wrong> {
    let write = "POST /api/v3/write_lp?db=ledger HTTP/1.1\r\nHost: localhost\r\n";
    let old = "POST /write?db=ledger HTTP/1.1\r\nHost: localhost\r\n";
    let sql =
        "POST /api/v3/query_sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let wrong = |status, head, body: &[u8]| Wrong {
        status,
        head,
        body: body.to_vec(),
    };
    let mut list: Vec<Wrong> = Vec::new();
    for line in LINES {
        list.push(wrong(400, write, line.as_bytes()));
        list.push(wrong(400, old, line.as_bytes()));
    }
    for statement in STATEMENTS {
        let body = format!("{{\"db\":\"ledger\",\"q\":\"{statement}\"}}");
        list.push(wrong(400, sql, body.as_bytes()));
    }
    for statement in CONFLICTS {
        let body = format!("{{\"db\":\"ledger\",\"q\":\"{statement}\"}}");
        list.push(wrong(409, sql, body.as_bytes()));
    }
    list.push(wrong(400, sql, b"{\"db\":\"ledger\",\"q\":"));
    list.push(wrong(400, sql, &[b'['; 5000]));
    list.push(wrong(404, sql, b"{\"db\":\"nobody\",\"q\":\"select 1\"}"));
    list.push(wrong(413, write, &vec![b'x'; BODY_BYTES_MAX + 1]));
    list.push(wrong(400, write, b"bad v=\xff\xfe\n"));
    list.push(wrong(
        400,
        "POST /api/v3/write_lp HTTP/1.1\r\nHost: localhost\r\n",
        b"bad v=1\n",
    ));
    list.push(wrong(
        400,
        "POST /api/v3/write_lp?db=ledger&precision=fortnight HTTP/1.1\r\nHost: localhost\r\n",
        b"bad v=1\n",
    ));
    list.push(wrong(
        400,
        "POST /api/v3/write_lp?db=ledger HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n",
        b"this is no gzip",
    ));
    list.push(wrong(
        415,
        "POST /api/v3/write_arrow?db=ledger&table=points HTTP/1.1\r\nHost: localhost\r\n",
        b"this is no stream",
    ));
    // Its first bytes say that a message of gigabytes follows.
    list.push(wrong(
        413,
        "POST /api/v3/write_arrow?db=ledger&table=points HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/vnd.apache.arrow.stream\r\n",
        b"this is no stream",
    ));
    list.push(wrong(
        404,
        "POST /nothing HTTP/1.1\r\nHost: localhost\r\n",
        b"",
    ));
    list.push(wrong(
        405,
        "POST /health HTTP/1.1\r\nHost: localhost\r\n",
        b"",
    ));
    list
}

/// How many different requests the list has; the rest is damaged bodies.
pub fn listed() -> u64 {
    wrong_requests().len() as u64
}

/// Sends the wrong request of this number, and says what is wrong with the answer, if anything.
pub fn send(client: &mut Client, seed: u64, number: u64) -> io::Result<Option<String>> {
    let list = wrong_requests();
    // Half of what is sent is of the list.
    let at = usize::try_from(number % (2 * list.len() as u64)).unwrap_or(usize::MAX);
    let Some(wrong) = list.get(at) else {
        let body = damaged(seed, number);
        let head = format!("POST /api/v3/write_lp?db={JUNK} HTTP/1.1\r\nHost: localhost\r\n");
        let (answer, request) = exchange(client, &head, &body)?;
        let is_right = matches!(answer.status, 204 | 400 | 413);
        return Ok((!is_right).then(|| complaint(&answer, "204, 400 or 413", &request)));
    };
    let (answer, request) = exchange(client, wrong.head, &wrong.body)?;
    let is_right = answer.status == wrong.status;
    Ok((!is_right).then(|| complaint(&answer, &wrong.status.to_string(), &request)))
}

fn exchange(client: &mut Client, head: &str, body: &[u8]) -> io::Result<(Answer, Vec<u8>)> {
    let mut request = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    Ok((client.raw(&request)?, request))
}

/// Whether an answer says that the store takes no writes at all, which is right after a failed disk operation.
pub fn is_unavailable(story: &str) -> bool {
    story.contains("was answered with 503") || story.contains("was answered with 507")
}

/// Whether an answer says that the disk failed while the store looked something up, and with which error: a write of names
/// that memory does not have reads index files.
pub fn is_read_error(story: &str) -> bool {
    story.contains("was answered with 500") && story.contains("(os error ")
}

fn complaint(answer: &Answer, want: &str, request: &[u8]) -> String {
    let sent: String = String::from_utf8_lossy(request).chars().take(300).collect();
    format!(
        "bad input was answered with {} and not {want}: {:.200}; it was {sent:?}",
        answer.status,
        answer.text()
    )
}

/// A body that was right until a few bytes of it were changed, removed or doubled.
fn damaged(seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random::of(&[seed, 0xbad, number]);
    let content = Content {
        seed: random.draw(),
        rows_mean: 3,
    };
    let mut body = content.lines(0, number % 10_000).into_bytes();
    for _ in 0..=random.below(4) {
        let at = random.index(body.len());
        let to = (at + random.index(20)).min(body.len());
        match random.below(3) {
            0 => {
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => drop(body.drain(at..to)),
            _ => {
                let piece = body.get(at..to).unwrap_or_default().to_vec();
                body.splice(at..at, piece);
            }
        }
    }
    body
}
