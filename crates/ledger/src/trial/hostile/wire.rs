//! Hostile ways to speak HTTP: too slow, too many, too large, cut short, or not HTTP at all.

use std::io::{self, Write as _};
use std::time::Duration;

use super::case::{Case, DB, Seen, Stage, drip, is_end, post_head, question, read_up_to};
use crate::http::Client;

const PING: &[u8] = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LINES: &str = "/api/v3/write_lp?db=hostile";
/// So many sockets as the server takes, and some that have to wait for it.
const IDLE_SOCKETS: usize = 1024;
/// More than the queries that run at one time.
const MUTE_READERS: usize = 70;

/// All of them. `rows` is what the large table has.
pub(super) fn cases(rows: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    slow(&mut cases);
    many(&mut cases, rows);
    cut(&mut cases);
    heads(&mut cases);
    lengths(&mut cases);
    junk(&mut cases);
    cases
}

/// A request whose bytes come one by one, far slower than the server waits.
fn slow(cases: &mut Vec<Case>) {
    for (name, piece, ms) in [("byte by byte", 1, 100), ("a header now and then", 16, 700)] {
        let case = Case::new("slow heads", name, &[408], move |stage| {
            let mut stream = stage.connect()?;
            let head = format!(
                "GET /ping HTTP/1.1\r\nHost: localhost\r\n{}",
                "X-A: b\r\n".repeat(200)
            );
            answer_to(
                drip(
                    &mut stream,
                    head.as_bytes(),
                    piece,
                    Duration::from_millis(ms),
                ),
                &mut stream,
            )
        });
        cases.push(case.may_close());
    }
    for (name, head) in [
        (
            "with a length",
            format!("POST {LINES} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"),
        ),
        (
            "in chunks",
            format!(
                "POST {LINES} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
        ),
        (
            "of Arrow",
            "POST /api/v3/write_arrow?db=hostile&table=slow HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/vnd.apache.arrow.stream\r\nContent-Length: 100000\r\n\r\n"
                .to_owned(),
        ),
        (
            "of a question",
            "POST /api/v3/query_sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
                .to_owned(),
        ),
    ] {
        let case = Case::new("slow bodies", name, &[408, 413], move |stage| {
            let mut stream = stage.connect()?;
            stream.write_all(head.as_bytes())?;
            // A chunk of one byte is also a body of six bytes.
            let sent = drip(
                &mut stream,
                &b"1\r\nx\r\n".repeat(60),
                6,
                Duration::from_millis(200),
            );
            answer_to(sent, &mut stream)
        });
        cases.push(case.may_close());
    }
}

/// What is said after the sending stopped, whether or not it came to its end.
fn answer_to(sent: io::Result<()>, stream: &mut std::net::TcpStream) -> io::Result<Seen> {
    match sent {
        Err(e) if !is_end(&e) => return Err(e),
        _ => {}
    }
    let said = read_up_to(stream, 1 << 20)?;
    let text = String::from_utf8_lossy(&said).into_owned();
    let status = text
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    Ok(match status {
        None => Seen::Closed,
        Some(status) => {
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            Seen::Answer(crate::http::Answer {
                status,
                head: head.to_owned(),
                body: body.as_bytes().to_vec(),
            })
        }
    })
}

fn many(cases: &mut Vec<Case>, rows: u64) {
    for (name, first) in [
        ("that say nothing", &b""[..]),
        ("that have begun a head", b"GET /ping HTTP/1.1\r\nHo"),
        ("that have asked once", PING),
    ] {
        cases.push(
            Case::new(
                "idle sockets",
                format!("{IDLE_SOCKETS} {name}"),
                &[200],
                move |stage| {
                    let mut sockets = Vec::with_capacity(IDLE_SOCKETS);
                    for _ in 0..IDLE_SOCKETS {
                        let mut socket = stage.connect()?;
                        match socket.write_all(first) {
                            Err(e) if !is_end(&e) => return Err(e),
                            _ => sockets.push(socket),
                        }
                    }
                    // Somebody who wants something waits until the server has had enough of those who do not.
                    let seen = stage.sql("SELECT 20 + 22 AS n");
                    drop(sockets);
                    seen
                },
            )
            .right("42"),
        );
    }
    for format in ["csv", "json", "arrow", "parquet"] {
        let case = Case::new(
            "clients that do not read",
            format!("{MUTE_READERS} of {format}"),
            &[200],
            move |stage| {
                let mut mute = Vec::with_capacity(MUTE_READERS);
                for _ in 0..MUTE_READERS {
                    let mut socket = stage.connect()?;
                    let body = question("SELECT * FROM big", format);
                    socket.write_all(&post_head("/api/v3/query_sql", "", body.len()))?;
                    socket.write_all(&body)?;
                    mute.push(socket);
                }
                // Whoever asks beside them may be told to wait until they have been cut off, and is served then.
                let beside = stage.sql("SELECT count(*) AS n FROM big")?;
                drop(mute);
                match &beside {
                    Seen::Answer(answer) if matches!(answer.status, 503 | 504) => {
                        stage.sql("SELECT count(*) AS n FROM big")
                    }
                    _ => Ok(beside),
                }
            },
        );
        cases.push(case.right(rows.to_string()));
    }
}

/// Connections that end in the middle: nothing of what they have begun may be seen.
fn cut(cases: &mut Vec<Case>) {
    let body = "cut,host=a v=1 1\n".repeat(5000);
    let mut request = post_head(LINES, "", body.len());
    request.extend_from_slice(body.as_bytes());
    let whole = request.len();
    for at in [1, 20, 60, 100, whole / 3, whole / 2, whole - 1] {
        let request = request.get(..at).unwrap_or_default().to_vec();
        cases.push(Case::new(
            "cut requests",
            format!("after {at} bytes of {whole}"),
            &[400],
            move |stage| {
                let mut stream = stage.connect()?;
                stream.write_all(&request)?;
                drop(stream);
                // Nothing of it may be there.
                stage.sql("SELECT count(*) FROM cut")
            },
        ));
    }
    for (format, bytes) in [
        ("csv", 1),
        ("csv", 100_000),
        ("json", 5000),
        ("arrow", 5000),
        ("parquet", 4),
        ("pretty", 100),
    ] {
        cases.push(Case::new(
            "cut answers",
            format!("after {bytes} bytes of {format}"),
            &[],
            move |stage| {
                let mut stream = stage.connect()?;
                let body = question("SELECT * FROM big", format);
                stream.write_all(&post_head("/api/v3/query_sql", "", body.len()))?;
                stream.write_all(&body)?;
                read_up_to(&mut stream, bytes)?;
                Ok(Seen::Unheard)
            },
        ));
    }
    cases.push(Case::new(
        "cut requests",
        "200 connections that end at once",
        &[204],
        |stage| {
            for _ in 0..200 {
                drop(stage.connect()?);
            }
            stage.raw(PING)
        },
    ));
}

fn heads(cases: &mut Vec<Case>) {
    let mut head = |name: String, statuses: &[u16], request: Vec<u8>| {
        let case = Case::new("large heads", name, statuses, move |stage: &Stage| {
            stage.raw(&request)
        });
        cases.push(case.may_close());
    };
    for bytes in [40_000, 70_000, 1 << 20, 16 << 20] {
        head(
            format!("an address of {bytes} bytes"),
            &[414, 431],
            format!(
                "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "a".repeat(bytes)
            )
            .into_bytes(),
        );
        head(
            format!("a header of {bytes} bytes"),
            &[431],
            format!(
                "GET /ping HTTP/1.1\r\nHost: localhost\r\nX-A: {}\r\n\r\n",
                "a".repeat(bytes)
            )
            .into_bytes(),
        );
        head(
            format!("a header's name of {bytes} bytes"),
            &[431, 400],
            format!(
                "GET /ping HTTP/1.1\r\nHost: localhost\r\n{}: a\r\n\r\n",
                "a".repeat(bytes)
            )
            .into_bytes(),
        );
    }
    for count in [101, 1000, 100_000] {
        head(
            format!("{count} headers"),
            &[431],
            format!("GET /ping HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count)).into_bytes(),
        );
    }
    for count in [1000, 7000, 20_000] {
        head(
            format!("{count} parameters"),
            // Those that nobody knows are not looked at.
            &[200, 400, 414],
            format!(
                "GET /api/v3/query_sql?db={DB}&{}q=select+1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "a=b&".repeat(count)
            )
            .into_bytes(),
        );
    }
    for (name, address) in [
        ("percents without digits", "/write?db=%&precision=%zz"),
        ("a NUL", "/write?db=%00"),
        ("broken UTF-8", "/write?db=%ff%fe"),
        ("dots", "/../../../../etc/passwd"),
        ("dots in disguise", "/%2e%2e/%2e%2e/etc/passwd"),
        ("another server's", "http://elsewhere/nothing"),
    ] {
        head(
            name.to_owned(),
            // Who is asked for under a name that is not his own refuses as such.
            &[400, 403, 404],
            format!("POST {address} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
                .into_bytes(),
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn lengths(cases: &mut Vec<Case>) {
    let mut case = |name: &str, statuses: &[u16], head: &str, body: &str| {
        let request =
            format!("POST {LINES} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{body}").into_bytes();
        let case = Case::new("lengths that lie", name, statuses, move |stage: &Stage| {
            stage.raw(&request)
        });
        cases.push(case.may_close());
    };
    case(
        "more than comes",
        &[408, 400],
        "Content-Length: 100\r\n",
        "lie v=1",
    );
    case(
        "less than comes",
        &[204, 400],
        "Content-Length: 8\r\n",
        "lies v=1 and more that is no request",
    );
    case("gigabytes", &[413], "Content-Length: 99999999999\r\n", "");
    case(
        "over 64 bits",
        &[400, 413],
        "Content-Length: 99999999999999999999999\r\n",
        "",
    );
    case("negative", &[400], "Content-Length: -1\r\n", "");
    case("no number", &[400], "Content-Length: many\r\n", "");
    case(
        "two of them",
        &[400],
        "Content-Length: 8\r\nContent-Length: 9\r\n",
        "lies v=1\n",
    );
    case(
        "a length and chunks",
        &[400, 204],
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
    );
    let chunked = "Transfer-Encoding: chunked\r\n";
    case(
        "a chunk without a length",
        &[400],
        chunked,
        "\r\nabc\r\n0\r\n\r\n",
    );
    case(
        "a chunk of letters",
        &[400],
        chunked,
        "zzz\r\nabc\r\n0\r\n\r\n",
    );
    case(
        "a chunk of 2^64 bytes",
        &[400, 413],
        chunked,
        "10000000000000000\r\nabc\r\n0\r\n\r\n",
    );
    case(
        "a chunk of 2^63 bytes",
        &[400, 408, 413],
        chunked,
        "8000000000000000\r\nabc\r\n0\r\n\r\n",
    );
    case(
        "a negative chunk",
        &[400],
        chunked,
        "-1\r\nabc\r\n0\r\n\r\n",
    );
    case(
        "a chunk that is longer than it says",
        &[400],
        chunked,
        "1\r\nabc\r\n0\r\n\r\n",
    );
    case("no last chunk", &[408, 400], chunked, "3\r\nabc\r\n");
    case(
        "a chunk with 1 MiB of extensions",
        &[400, 431],
        chunked,
        &format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(1 << 20)),
    );
    case(
        "trailers of 1 MiB",
        &[400, 431, 204],
        chunked,
        &format!("0\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
    );
    case(
        "a million chunks of a byte",
        &[400, 413],
        chunked,
        &("1\r\nx\r\n".repeat(1_000_000) + "0\r\n\r\n"),
    );
    case(
        "an encoding that nobody knows",
        &[400, 501],
        "Transfer-Encoding: gzip, chunked, cake\r\n",
        "",
    );
}

fn junk(cases: &mut Vec<Case>) {
    let mut case = |name: &str, statuses: &[u16], request: Vec<u8>| {
        let case = Case::new("no HTTP", name, statuses, move |stage: &Stage| {
            stage.raw(&request)
        });
        cases.push(case.may_close());
    };
    case("zeros", &[400], vec![0; 100_000]);
    case("high bytes", &[400], vec![0xff; 100_000]);
    case(
        "a handshake of TLS",
        &[400],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20),
    );
    case(
        "the preface of HTTP/2",
        &[400, 505],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    );
    case("HTTP/0.9", &[400], b"GET /\r\n\r\n".to_vec());
    case(
        "HTTP/9.9",
        &[400, 505],
        b"GET /ping HTTP/9.9\r\nHost: localhost\r\n\r\n".to_vec(),
    );
    case(
        "a method of 100,000 letters",
        &[400, 404, 405, 414, 431],
        [b"A".repeat(100_000), b" / HTTP/1.1\r\n\r\n".to_vec()].concat(),
    );
    case(
        "a header without a colon",
        &[400],
        b"GET /ping HTTP/1.1\r\nHost\r\n\r\n".to_vec(),
    );
    case(
        "a header that goes on",
        &[400, 204],
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n".to_vec(),
    );
    case(
        "a NUL in a header",
        &[400],
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nA: b\0c\r\n\r\n".to_vec(),
    );
    case(
        "spaces around a name",
        &[400],
        b"GET /ping HTTP/1.1\r\nHost : h\r\n\r\n".to_vec(),
    );
    for method in [
        "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW",
    ] {
        for path in ["/write", "/api/v3/query_sql", "/health"] {
            case(
                &format!("{method} {path}"),
                &[400, 404, 405, 204],
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
                    .into_bytes(),
            );
        }
    }
    for (name, tail) in [
        ("junk", b"\0\xff nonsense\r\n\r\n".to_vec()),
        ("half a request", b"GET /ping HTT".to_vec()),
        ("a thousand requests", PING.repeat(1000)),
        ("a megabyte of newlines", b"\r\n".repeat(1 << 19)),
    ] {
        let request = [PING, &tail].concat();
        cases.push(Case::new(
            "requests behind requests",
            format!("{name} behind a good one"),
            &[204],
            move |stage| {
                let mut client = Client::new(stage.address);
                // The first answer is that to the good one.
                Ok(Seen::Answer(client.raw(&request)?))
            },
        ));
    }
}
