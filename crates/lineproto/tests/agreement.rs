//! The fast parser and the reference parser find the same points and the same errors in every input: in good bodies, in
//! good bodies with damage, and in noise. Neither panics on any of them.

use std::fmt::Write as _;

use nilometer_lineproto::{Lines, OwnedPoint, Precision, Reader, SeriesKey, parse_line};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What a parser found in one line. The debug text of a point tells -0.0 from 0.0, which `==` does not.
type Found = (usize, Vec<u8>, Result<String, String>);

fn by_reference(input: &[u8], precision: Precision) -> Vec<Found> {
    let mut found = Vec::new();
    for (line_number, line) in Lines::new(input) {
        let result = match parse_line(line, line_number, precision) {
            Ok(Some(point)) => Ok(format!("{point:?}")),
            Ok(None) => continue,
            Err(error) => Err(error.to_string()),
        };
        found.push((line_number, line.to_vec(), result));
    }
    found
}

fn by_reader(input: &[u8], precision: Precision) -> Vec<Found> {
    let mut found = Vec::new();
    let mut reader = Reader::new(input, precision);
    while let Some(next) = reader.next() {
        found.push(match next {
            Err(error) => (
                error.line_number,
                error.line.to_vec(),
                Err(error.to_string()),
            ),
            Ok(point) => {
                let result = match SeriesKey::parse(point.series) {
                    Err(reason) => Err(point.error(reason).to_string()),
                    Ok(key) => Ok(format!(
                        "{:?}",
                        OwnedPoint {
                            measurement: key.measurement.into_owned(),
                            tags: key
                                .tags
                                .into_iter()
                                .map(|(k, v)| (k.into_owned(), v.into_owned()))
                                .collect(),
                            fields: point
                                .fields
                                .iter()
                                .map(|field| (
                                    field.name().into_owned(),
                                    field.value.clone().into_owned()
                                ))
                                .collect(),
                            timestamp: point.timestamp,
                        }
                    )),
                };
                (point.line_number, point.line.to_vec(), result)
            }
        });
    }
    found
}

fn agree(input: &[u8], precision: Precision) -> Result<Vec<Found>, TestCaseError> {
    let expected = by_reference(input, precision);
    prop_assert_eq!(
        &by_reader(input, precision),
        &expected,
        "{:?}",
        String::from_utf8_lossy(input)
    );
    Ok(expected)
}

fn precision() -> impl Strategy<Value = Precision> {
    use Precision::{Auto, Hour, Microsecond, Millisecond, Minute, Nanosecond, Second};
    select(vec![
        Nanosecond,
        Microsecond,
        Millisecond,
        Second,
        Minute,
        Hour,
        Auto,
    ])
}

/// A name as it stands in a line; `separators` are escaped.
fn name(separators: &'static str) -> impl Strategy<Value = String> {
    "[a-c]{1,2}|[a-z_]{1,20}|[a-b\"\\\\ ,=#\u{E9}]{0,4}[a-z]".prop_map(move |name| {
        let mut text = String::new();
        for c in name.chars() {
            if separators.contains(c) {
                text.push('\\');
            }
            text.push(c);
        }
        text
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<i8>().prop_map(|value| format!("{value}i")),
        1 => any::<i64>().prop_map(|value| format!("{value}i")),
        1 => any::<u64>().prop_map(|value| format!("{value}u")),
        1 => "-?[0-9]{1,25}(\\.[0-9]{0,25})?",
        1 => "-?\\.[0-9]{1,25}",
        1 => "-?[0-9]{1,3}\\.?[0-9]{0,3}[eE][+-]?[0-9]{1,2}",
        1 => any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
        1 => select(vec!["t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"]).prop_map(str::to_owned),
        2 => "\"([a-z =,#\n\r\u{E9}]|\\\\\"|\\\\\\\\|\\\\n){0,12}\"",
    ]
}

/// One good line. Few different names and timestamps, so that lines resemble each other as those of a collector do.
fn line() -> impl Strategy<Value = String> {
    let tags = vec((name(" ,="), name(" ,=")), 0..3);
    let fields = prop_oneof![
        3 => vec((select(vec!["usage_user", "usage_system", "a", "b\\ c", "load"]).prop_map(str::to_owned), value()), 1..6),
        1 => vec((name(" ,="), value()), 1..25),
    ];
    let time = prop_oneof![
        Just(String::new()),
        Just(" 1451606400".to_owned()),
        Just(" 1451606400000000000".to_owned()),
        "[ ]{1,2}-?[0-9]{1,7}[ ]{0,2}",
    ];
    let ending = select(vec!["\n", "\n", "\n", "\r\n", " \n", "\n\n", "\n# c=\"\n"]);
    let measurement = prop_oneof![
        select(vec!["cpu", "mem", "disk"]).prop_map(str::to_owned),
        name(" ,").prop_filter("no comment", |name| !name.starts_with('#')),
    ];
    (
        select(vec!["", "", "", " ", "\t"]),
        measurement,
        tags,
        select(vec![" ", " ", "  ", " \t"]),
        fields,
        time,
        ending,
    )
        .prop_map(|(indent, measurement, tags, gap, fields, time, ending)| {
            let mut line = format!("{indent}{measurement}");
            for (key, value) in tags {
                write!(line, ",{key}={value}").expect("a string takes every text");
            }
            for (i, (key, value)) in fields.iter().enumerate() {
                let before = if i == 0 { gap } else { "," };
                write!(line, "{before}{key}={value}").expect("a string takes every text");
            }
            line + &time + ending
        })
}

/// Bytes that mean something to the parsers, and others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        12 => select(b" ,=\"\\\n\r\t\0#-+.0189eEiutfNa".to_vec()),
        1 => any::<u8>(),
    ]
}

#[derive(Debug, Clone)]
enum Damage {
    Replace(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Cut(usize),
    Repeat(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        4 => (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        3 => any::<usize>().prop_map(Damage::Remove),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => (any::<usize>(), 1..30_usize).prop_map(|(at, bytes)| Damage::Repeat(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    match *damage {
        Damage::Replace(at, byte) => bytes[at % len] = byte,
        Damage::Insert(at, byte) => bytes.insert(at % len, byte),
        Damage::Remove(at) => drop(bytes.remove(at % len)),
        Damage::Cut(at) => bytes.truncate(at % len),
        Damage::Repeat(at, count) => {
            let start = at % len;
            let part = bytes[start..(start + count).min(len)].to_vec();
            bytes.splice(start..start, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2000)))]

    #[test]
    fn good_bodies_give_the_same_points(lines in vec(line(), 1..8)) {
        let found = agree(lines.concat().as_bytes(), Precision::Nanosecond)?;
        // A name may end up as two tags of one key or a number may be out of range, and nothing else may be wrong.
        for (_, line, result) in found {
            if let Err(text) = result {
                let known = ["duplicate tags", "value out of range", "invalid float"];
                prop_assert!(known.iter().any(|end| text.ends_with(end)), "{text} in {line:?}");
            }
        }
    }

    #[test]
    fn damaged_bodies_give_the_same_points_and_errors(
        lines in vec(line(), 1..5),
        damages in vec(damage(), 1..6),
        precision in precision(),
    ) {
        let mut body = lines.concat().into_bytes();
        for damage in &damages {
            apply(&mut body, damage);
        }
        agree(&body, precision)?;
    }

    #[test]
    fn noise_of_meaningful_bytes_gives_the_same_errors(body in vec(byte(), 0..60), precision in precision()) {
        agree(&body, precision)?;
    }

    #[test]
    fn noise_after_a_good_start_gives_the_same_points_and_errors(
        start in select(vec!["a", "a,b=", "a,b=c", "a,b=c v=", "a v=\"", "a v=1i", "a v=1 ", "a v=1,w=", "a v=-", "a v=0."]),
        noise in vec(byte(), 0..20),
        precision in precision(),
    ) {
        let mut body = start.as_bytes().to_vec();
        body.extend_from_slice(&noise);
        agree(&body, precision)?;
    }

    #[test]
    fn random_bytes_give_the_same_errors(body in vec(any::<u8>(), 0..200), precision in precision()) {
        agree(&body, precision)?;
    }

    #[test]
    fn any_bytes_are_a_series_or_an_error(series in vec(byte(), 0..40)) {
        if let Ok(key) = SeriesKey::parse(&series) {
            prop_assert!(!key.measurement.is_empty());
            prop_assert!(key.tags.iter().all(|(key, value)| !key.is_empty() && !value.is_empty()));
            prop_assert!(key.tags.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}

#[test]
fn bodies_with_many_fields_and_repeated_keys_agree() {
    let mut body = String::new();
    for count in [15, 16, 17, 18, 40, 300] {
        for step in [1, 3, 7, count] {
            let fields: Vec<String> = (0..count)
                .map(|i| format!("k{}={i}i", (i * step) % (count / 2 + 1)))
                .collect();
            writeln!(body, "m {} {count}", fields.join(",")).expect("a string takes every text");
        }
    }
    assert_eq!(
        by_reader(body.as_bytes(), Precision::Second),
        by_reference(body.as_bytes(), Precision::Second)
    );
}

#[test]
fn every_prefix_of_a_body_agrees() {
    let body = "cpu,host=a\\ b,core=0 usage=58i,load=0.25,up=true,note=\"x \\\"y\\\"\nz\",n=7u,e=1e3 1451606400000000000\r\n\
                cpu,host=a\\ b,core=1 usage=59i,load=0.5,up=false,note=\"\",n=18446744073709551615u,e=-1.5E-3 1451606400000000000\n";
    for end in 0..=body.len() {
        let prefix = &body.as_bytes()[..end];
        assert_eq!(
            by_reader(prefix, Precision::Nanosecond),
            by_reference(prefix, Precision::Nanosecond),
            "{end} bytes"
        );
    }
}
