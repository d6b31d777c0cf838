//! Floods: more series, tables and columns than anybody has, sent as fast as they are taken.

use std::fmt::Write as _;
use std::io;
use std::time::Instant;

use super::CASE_MAX;
use super::case::{Case, Seen, Stage};
use crate::http::Client;

/// Bodies of a flood, of this many lines each.
const BODY_LINES: usize = 20_000;
/// The store may say that it has no more room for names.
const ENOUGH: &[u16] = &[204, 413, 503];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut flood = |name: &'static str, lines: u64, line: fn(&mut String, u64)| {
        let case = Case::new("floods", name, ENOUGH, move |stage: &Stage| {
            pour(stage, lines, line)
        });
        cases.push(case.requests(lines.div_ceil(BODY_LINES as u64)));
    };
    flood("a million new series", 1_000_000, |text, n| {
        let _ = writeln!(text, "flood,id=device-{n},site=s{} v=1 {n}", n % 97);
    });
    flood("a million series of long tags", 1_000_000, |text, n| {
        let _ = writeln!(
            text,
            "wide,id={n},a={0:060x},b={0:060x},c={0:060x} v=1 {n}",
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        );
    });
    flood("100,000 tables", 100_000, |text, n| {
        let _ = writeln!(text, "table_{n} v=1 {n}");
    });
    flood("100,000 fields of a table", 100_000, |text, n| {
        let _ = writeln!(text, "fields f{n}=1 {n}");
    });
    flood("20,000 tags of a table", 20_000, |text, n| {
        let _ = writeln!(text, "tagged,t{n}=a v=1 {n}");
    });
    cases.push(Case::new(
        "floods",
        "a million new series in one body",
        &[204, 413, 503],
        |stage| {
            let mut text = String::new();
            for n in 0..1_000_001 {
                let _ = writeln!(text, "once,id={n} v=1 {n}");
            }
            stage.post("/api/v3/write_lp?db=floods", "", text.as_bytes())
        },
    ));
    for bodies in [8, 40] {
        cases.push(Case::new(
            "floods",
            format!("{bodies} bodies of 30 MiB at once"),
            &[204, 400, 413, 503],
            move |stage| at_once(stage, bodies),
        ));
    }
    cases
}

/// Sends until everything is in or the store has had enough; the last answer is the one that counts.
fn pour(stage: &Stage, lines: u64, line: fn(&mut String, u64)) -> io::Result<Seen> {
    let mut client = Client::new(stage.address);
    let mut last = Err(io::ErrorKind::InvalidInput.into());
    for first in (0..lines).step_by(BODY_LINES) {
        let mut text = String::new();
        for n in first..lines.min(first + BODY_LINES as u64) {
            line(&mut text, n);
        }
        let begun = Instant::now();
        let answer = client.write("floods", None, &text)?;
        let took = begun.elapsed();
        if took > CASE_MAX {
            return Err(io::Error::other(format!("one answer took {took:.1?}")));
        }
        let status = answer.status;
        last = Ok(Seen::Answer(answer));
        if status != 204 {
            break;
        }
    }
    last
}

/// Bodies of one long bad line each, at one time; the worst answer counts.
fn at_once(stage: &Stage, bodies: usize) -> io::Result<Seen> {
    let answers: Vec<io::Result<Seen>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..bodies)
            .map(|_| {
                scope.spawn(|| {
                    let body = vec![b'x'; 30 << 20];
                    stage.post("/api/v3/write_lp?db=floods", "", &body)
                })
            })
            .collect();
        senders
            .into_iter()
            .map(|sender| {
                sender
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a sender failed")))
            })
            .collect()
    });
    let mut worst = Err(io::ErrorKind::InvalidInput.into());
    for answer in answers {
        match &answer {
            Ok(Seen::Answer(found)) if matches!(found.status, 204 | 400 | 413 | 503) => {
                worst = answer;
            }
            _ => return answer,
        }
    }
    worst
}
