//! Hostile line protocol: bytes that are no text, names and numbers without end, times at the edge of what there is.

use std::fmt::Write as _;

use super::case::{Case, Stage};

const V3: &str = "/api/v3/write_lp?db=hostile";
const V1: &str = "/write?db=hostile";
const MIB: usize = 1 << 20;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    bytes(&mut cases);
    long(&mut cases);
    numbers(&mut cases);
    times(&mut cases);
    cases
}

fn body(
    cases: &mut Vec<Case>,
    family: &'static str,
    name: impl Into<String>,
    statuses: &[u16],
    make: impl Fn() -> Vec<u8> + 'static,
) {
    cases.push(Case::new(family, name, statuses, move |stage: &Stage| {
        stage.post(V3, "", &make())
    }));
}

fn bytes(cases: &mut Vec<Case>) {
    let places: [(&str, &[u8], &[u8]); 6] = [
        ("a table's name", b"bad", b" v=1 1\n"),
        ("a tag's name", b"bad,a", b"=b v=1 1\n"),
        ("a tag's value", b"bad,a=b", b" v=1 1\n"),
        ("a field's name", b"bad v", b"=1 1\n"),
        ("a text", b"bad v=\"", b"\" 1\n"),
        ("a number", b"bad v=1", b" 1\n"),
    ];
    for (place, before, after) in places {
        for (what, junk) in [
            ("a lone byte of UTF-8", &b"\x80"[..]),
            ("an overlong NUL", b"\xc0\x80"),
            ("half a surrogate", b"\xed\xa0\x80"),
            ("a letter cut in two", b"\xe2\x82"),
        ] {
            let bytes = [before, junk, after].concat();
            body(
                cases,
                "bytes that are no text",
                format!("{what} in {place}"),
                &[400],
                move || bytes.clone(),
            );
        }
        let bytes = [before, b"\0", after].concat();
        // A NUL is a letter like others in a text, and none in a number.
        body(
            cases,
            "bytes that are no text",
            format!("a NUL in {place}"),
            &[204, 400],
            move || bytes.clone(),
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn long(cases: &mut Vec<Case>) {
    const FAMILY: &str = "lines without end";
    for mib in [1, 64, 250] {
        body(
            cases,
            FAMILY,
            format!("{mib} MiB without a newline"),
            &[400, 413, 503],
            move || vec![b'a'; mib * MIB],
        );
    }
    body(cases, FAMILY, "300 MiB", &[413], || vec![b'\n'; 300 * MIB]);
    for (name, unit) in [
        ("commas", ","),
        ("equals signs", "a="),
        ("backslashes", "\\"),
        ("quotes", "a v=\""),
        ("spaces", " "),
        ("bad lines", "x\n"),
    ] {
        body(
            cases,
            FAMILY,
            format!("8 MiB of {name}"),
            &[204, 400, 413],
            move || unit.repeat(8 * MIB / unit.len()).into_bytes(),
        );
    }
    for (name, unit) in [("empty lines", "\n"), ("comments", "# no\n")] {
        body(
            cases,
            FAMILY,
            format!("8 MiB of {name}"),
            &[204],
            move || unit.repeat(8 * MIB / unit.len()).into_bytes(),
        );
    }
    for bytes in [70_000, MIB, 2 * MIB] {
        let name = move || "n".repeat(bytes);
        body(
            cases,
            FAMILY,
            format!("a table's name of {bytes} bytes"),
            &[400, 413],
            move || format!("{} v=1 1", name()).into_bytes(),
        );
        body(
            cases,
            FAMILY,
            format!("a tag's name of {bytes} bytes"),
            &[400, 413],
            move || format!("long,{}=a v=1 1", name()).into_bytes(),
        );
        body(
            cases,
            FAMILY,
            format!("a tag's value of {bytes} bytes"),
            &[400, 413],
            move || format!("long,a={} v=1 1", name()).into_bytes(),
        );
        body(
            cases,
            FAMILY,
            format!("a field's name of {bytes} bytes"),
            &[204, 400, 413],
            move || format!("long {}=1 1", name()).into_bytes(),
        );
        body(
            cases,
            FAMILY,
            format!("a text of {bytes} bytes"),
            &[204, 400, 413],
            move || format!("long v=\"{}\" 1", name()).into_bytes(),
        );
    }
    for count in [10_000, 100_000] {
        body(
            cases,
            FAMILY,
            format!("a point of {count} fields"),
            &[204, 400, 413, 503],
            move || {
                let fields: Vec<String> = (0..count).map(|n| format!("f{n}=1")).collect();
                format!("wide_{count} {} 1", fields.join(",")).into_bytes()
            },
        );
        body(
            cases,
            FAMILY,
            format!("a point of {count} tags"),
            &[204, 400, 413],
            move || {
                let tags: Vec<String> = (0..count).map(|n| format!("t{n}=a")).collect();
                format!("tagged,{} v=1 1", tags.join(",")).into_bytes()
            },
        );
        body(
            cases,
            FAMILY,
            format!("a tag {count} times"),
            &[400, 413],
            move || format!("tagged{} v=1 1", ",t=a".repeat(count)).into_bytes(),
        );
    }
    // Room for one value in every row and column.
    body(
        cases,
        FAMILY,
        "10,000 rows of a column each",
        &[204, 400, 413, 503],
        || {
            let mut text = String::new();
            for n in 0..10_000 {
                let _ = writeln!(text, "sparse f{n}=1 {n}");
            }
            text.into_bytes()
        },
    );
}

fn numbers(cases: &mut Vec<Case>) {
    let digits = |n: usize| "7".repeat(n);
    for count in [400, 10_000, 1_000_000] {
        for (name, number, statuses) in [
            ("an integer", format!("{}i", digits(count)), &[400][..]),
            ("an unsigned integer", format!("{}u", digits(count)), &[400]),
            // Its value is beyond every float, and an infinity is no value.
            ("a float", digits(count), &[400]),
            ("a fraction", format!("0.{}", digits(count)), &[204, 400]),
            (
                "a float with zeros",
                format!("{}1.5", "0".repeat(count)),
                &[204, 400],
            ),
            ("an exponent", format!("1e{}", digits(count)), &[400]),
            (
                "a small exponent",
                format!("1e-{}", digits(count)),
                &[204, 400],
            ),
        ] {
            let text = format!("digits v={number} 1");
            body(
                cases,
                "numbers without end",
                format!("{name} of {count} digits"),
                statuses,
                move || text.clone().into_bytes(),
            );
        }
        let text = format!("digits v=1 {}", digits(count));
        body(
            cases,
            "numbers without end",
            format!("a time of {count} digits"),
            &[400],
            move || text.clone().into_bytes(),
        );
    }
}

/// Units, their nanoseconds, and what each surface calls them.
const UNITS: [(i128, Option<&str>, &str); 6] = [
    (1, Some("nanosecond"), "n"),
    (1_000, Some("microsecond"), "u"),
    (1_000_000, Some("millisecond"), "ms"),
    (1_000_000_000, Some("second"), "s"),
    (60_000_000_000, None, "m"),
    (3_600_000_000_000, None, "h"),
];

fn times(cases: &mut Vec<Case>) {
    for (unit, third, first) in UNITS {
        let targets = [
            third.map(|name| format!("{V3}&precision={name}")),
            Some(format!("{V1}&precision={first}")),
        ];
        for target in targets.into_iter().flatten() {
            let edge = i128::from(i64::MAX) / unit;
            let mut edges = vec![
                0,
                -1,
                edge - 1,
                edge,
                edge + 1,
                1 - edge,
                -edge,
                -edge - 1,
                i64::MIN.into(),
                i64::MAX.into(),
            ];
            // In nanoseconds, some of them are the same.
            edges.sort_unstable();
            edges.dedup();
            for time in edges {
                let nanoseconds = time * unit;
                // The last ones of both ends are taken by the store itself.
                let statuses: &[u16] = match i128::from(i64::MAX) - nanoseconds.abs() {
                    3.. => &[204],
                    -3..3 => &[204, 400],
                    _ => &[400],
                };
                let line = format!("times,unit={first} v=1 {time}");
                let address = target.clone();
                cases.push(Case::new(
                    "times at the edge",
                    format!("{time} on {target}"),
                    statuses,
                    move |stage: &Stage| stage.post(&address, "", line.as_bytes()),
                ));
            }
        }
    }
}
