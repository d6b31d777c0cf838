//! Hostile Arrow streams: a good one, asked of the server itself, with bits, lengths and parts of it changed.
//!
//! A changed stream may still be a good one with other rows, and is then taken. It goes to tables of its own.

use std::io;

use super::case::{Case, Stage};
use crate::random::Random;

/// What rows have: times, tags as dictionaries, floats, integers.
const ROWS: &str = "SELECT time, host, v, n FROM big WHERE n < 500";
const HEAD: &str = "Content-Type: application/vnd.apache.arrow.stream\r\n";
/// Flips, each in a stream of its own, that make one case.
const FLIPS: u64 = 20;

/// What is done to a stream before it is sent.
type Change = Box<dyn Fn(&mut Vec<u8>)>;

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
pub(super) fn cases(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.push(
        Case::new("Arrow streams", "a good one", &[200], |stage| {
            send(stage, |_| {})
        })
        .right("\"rows_written\":500"),
    );
    let mut case = |name: String, statuses: &[u16], change: Change| {
        cases.push(Case::new(
            "Arrow streams",
            name,
            statuses,
            move |stage: &Stage| send(stage, &change),
        ));
    };
    let any: &[u16] = &[200, 400, 409, 413, 503];
    for cut in [0, 1, 4, 7, 8, 100, 1000] {
        case(
            format!("cut after {cut} bytes"),
            &[200, 400],
            Box::new(move |stream| stream.truncate(cut)),
        );
    }
    for parts in [2, 3, 5, 50] {
        case(
            format!("cut after 1/{parts}"),
            &[200, 400],
            Box::new(move |stream| stream.truncate(stream.len() / parts)),
        );
    }
    for said in [
        0,
        1,
        7,
        8,
        1 << 20,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fffe_u32,
    ] {
        case(
            format!("a first message of {said} bytes"),
            any,
            Box::new(move |stream| put(stream, 4, said)),
        );
        case(
            format!("a second message of {said} bytes"),
            any,
            Box::new(move |stream| {
                // The first message's length stands behind its mark, and the second one right behind the first.
                let length = stream
                    .get(4..8)
                    .and_then(|four| four.try_into().ok())
                    .map_or(0, u32::from_le_bytes);
                put(stream, 12 + usize::try_from(length).unwrap_or(0), said);
            }),
        );
    }
    case(
        "without its first message".to_owned(),
        &[400],
        Box::new(|stream| {
            let length = stream
                .get(4..8)
                .and_then(|four| four.try_into().ok())
                .map_or(0, u32::from_le_bytes);
            drop(stream.drain(..(8 + length as usize).min(stream.len())));
        }),
    );
    case(
        "twice".to_owned(),
        any,
        Box::new(|stream| stream.extend_from_within(..)),
    );
    case(
        "with garbage behind it".to_owned(),
        any,
        Box::new(|stream| stream.extend([0x55; 1000])),
    );
    case(
        "zeros".to_owned(),
        &[200, 400],
        Box::new(|stream| stream.fill(0)),
    );
    case(
        "ones".to_owned(),
        &[200, 400, 413],
        Box::new(|stream| stream.fill(0xff)),
    );
    // The first 2,000 bytes are schema and dictionaries, where a bit says what everything else is.
    for n in 0..20 {
        let random = Random::of(&[seed, 0xa220, n]);
        let near = n.is_multiple_of(2);
        cases.push(Case::new(
            "flipped Arrow streams",
            format!("{FLIPS} streams with flipped bits, number {n}"),
            any,
            move |stage| {
                let mut random = random.clone();
                let mut last = Err(io::ErrorKind::Other.into());
                for _ in 0..FLIPS {
                    let bits = 1 + random.below(3);
                    let mut flips = random.clone();
                    last = send(stage, |stream| {
                        for _ in 0..bits {
                            let end = if near {
                                stream.len().min(2000)
                            } else {
                                stream.len()
                            };
                            let at = flips.index(end);
                            if let Some(byte) = stream.get_mut(at) {
                                *byte ^= 1 << flips.clone().below(8);
                            }
                        }
                    });
                    random.draw();
                    match &last {
                        Ok(super::case::Seen::Answer(answer)) if any.contains(&answer.status) => {}
                        _ => return last,
                    }
                }
                last
            },
        ));
    }
    for (name, query) in [
        (
            "a table's name of 30,000 bytes",
            format!("db=hostile&table={}", "t".repeat(30_000)),
        ),
        ("an empty table's name", "db=hostile&table=".to_owned()),
        (
            "10,000 tags",
            format!("db=hostile&table=tags&tags={}", "a,".repeat(10_000)),
        ),
        (
            "a time that is a tag",
            "db=hostile&table=other&time=host".to_owned(),
        ),
        (
            "a time that is not there",
            "db=hostile&table=other&time=nothing".to_owned(),
        ),
    ] {
        cases.push(Case::new(
            "Arrow streams",
            name,
            &[200, 400, 413],
            move |stage: &Stage| {
                let stream = stage.demand(ROWS, "arrow")?;
                stage.post(&format!("/api/v3/write_arrow?{query}"), HEAD, &stream)
            },
        ));
    }
    cases
}

fn send(stage: &Stage, mut change: impl FnMut(&mut Vec<u8>)) -> io::Result<super::case::Seen> {
    let mut stream = stage.demand(ROWS, "arrow")?;
    change(&mut stream);
    stage.post(
        "/api/v3/write_arrow?db=junk&table=arrows&add_columns=true",
        HEAD,
        &stream,
    )
}

fn put(stream: &mut [u8], at: usize, value: u32) {
    if let Some(four) = stream.get_mut(at..at + 4) {
        four.copy_from_slice(&value.to_le_bytes());
    }
}
