//! Timestamps become nanoseconds by the unit the request names, in the spellings of each API.

use nilometer_lineproto::{Precision, Reader, parse_line};

use Precision::{Auto, Hour, Microsecond, Millisecond, Minute, Nanosecond, Second};

fn time_of(timestamp: &str, precision: Precision) -> Option<i64> {
    let line = format!("cpu,host=serverA,region=us-west value=1.0 {timestamp}");
    let slow = parse_line(line.as_bytes(), 1, precision)
        .ok()
        .flatten()
        .map(|point| point.timestamp);
    let mut reader = Reader::new(line.as_bytes(), precision);
    let fast = reader
        .next()
        .expect("there is a line")
        .ok()
        .map(|point| point.timestamp);
    assert_eq!(slow, fast, "{timestamp} {precision:?}");
    slow.flatten()
}

#[test]
fn each_unit_is_multiplied_to_nanoseconds() {
    for (precision, timestamp, time_ns) in [
        (Nanosecond, "946730096789012345", 946_730_096_789_012_345),
        (Microsecond, "946730096789012", 946_730_096_789_012_000),
        (Millisecond, "946730096789", 946_730_096_789_000_000),
        (Second, "946730096", 946_730_096_000_000_000),
        (Minute, "15778834", 946_730_040_000_000_000),
        (Hour, "262980", 946_728_000_000_000_000),
        (Second, "-1", -1_000_000_000),
    ] {
        assert_eq!(time_of(timestamp, precision), Some(time_ns));
    }
}

#[test]
fn a_product_beyond_the_range_is_an_error_and_one_at_its_edge_is_not() {
    for (precision, last) in [
        (Microsecond, 9_223_372_036_854_775_i64),
        (Millisecond, 9_223_372_036_854),
        (Second, 9_223_372_036),
        (Minute, 153_722_867),
        (Hour, 2_562_047),
    ] {
        assert_eq!(
            time_of(&last.to_string(), precision),
            Some(last * precision.multiplier())
        );
        assert_eq!(
            time_of(&(-last).to_string(), precision),
            Some(-last * precision.multiplier())
        );
        assert_eq!(time_of(&(last + 1).to_string(), precision), None);
        assert_eq!(time_of(&(-last - 1).to_string(), precision), None);
    }
    assert_eq!(
        time_of("9223372036854775806", Nanosecond),
        Some(i64::MAX - 1)
    );
    assert_eq!(time_of("9223372036854775807", Nanosecond), None);
}

#[test]
fn auto_takes_each_timestamp_for_the_unit_its_size_suggests() {
    for (timestamp, time_ns) in [
        ("1708976567", 1_708_976_567_000_000_000),
        ("1708976567123", 1_708_976_567_123_000_000),
        ("1708976567123456", 1_708_976_567_123_456_000),
        ("1708976567123456789", 1_708_976_567_123_456_789),
        ("-1708976567123", -1_708_976_567_123_000_000),
        ("0", 0),
        ("4999999999", 4_999_999_999_000_000_000),
        ("5000000000", 5_000_000_000_000_000),
        ("4999999999999", 4_999_999_999_999_000_000),
        ("5000000000000", 5_000_000_000_000_000),
        ("4999999999999999", 4_999_999_999_999_999_000),
        ("5000000000000000", 5_000_000_000_000_000),
    ] {
        assert_eq!(time_of(timestamp, Auto), Some(time_ns), "{timestamp}");
    }
    assert_eq!(Auto.of(i64::MIN), Nanosecond);
}

/// How an API reads its parameter, and what it should read.
type Api<'a> = (fn(&str) -> Option<Precision>, &'a [(&'a str, Precision)]);

#[test]
fn each_api_has_its_own_spellings() {
    let v1 = [
        ("", Nanosecond),
        ("n", Nanosecond),
        ("ns", Nanosecond),
        ("u", Microsecond),
        ("ms", Millisecond),
        ("s", Second),
        ("m", Minute),
        ("h", Hour),
    ];
    let v2 = [
        ("ns", Nanosecond),
        ("us", Microsecond),
        ("ms", Millisecond),
        ("s", Second),
    ];
    let v3 = [
        ("auto", Auto),
        ("nanosecond", Nanosecond),
        ("microsecond", Microsecond),
        ("millisecond", Millisecond),
        ("second", Second),
        ("ns", Nanosecond),
        ("n", Nanosecond),
        ("us", Microsecond),
        ("u", Microsecond),
        ("ms", Millisecond),
        ("s", Second),
    ];
    let apis: [Api; 3] = [
        (Precision::from_v1, &v1),
        (Precision::from_v2, &v2),
        (Precision::from_v3, &v3),
    ];
    let all = [
        "",
        "n",
        "ns",
        "u",
        "us",
        "\u{B5}",
        "\u{B5}s",
        "ms",
        "s",
        "m",
        "h",
        "auto",
        "nanosecond",
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "S",
        "MS",
        " s",
    ];
    for (from, spellings) in apis {
        for text in all {
            let expected = spellings
                .iter()
                .find(|(spelling, _)| *spelling == text)
                .map(|(_, precision)| *precision);
            assert_eq!(from(text), expected, "{text:?}");
        }
    }
}

#[test]
fn the_servers_clock_is_cut_to_the_unit() {
    let now = 946_730_096_789_012_345;
    for (precision, time_ns) in [
        (Nanosecond, now),
        (Microsecond, 946_730_096_789_012_000),
        (Millisecond, 946_730_096_789_000_000),
        (Second, 946_730_096_000_000_000),
        (Minute, 946_730_040_000_000_000),
        (Hour, 946_728_000_000_000_000),
        (Auto, now),
    ] {
        assert_eq!(precision.truncate(now), time_ns);
    }
}

#[test]
fn one_timestamp_text_is_one_time_in_every_line_of_a_body() {
    let body = b"a v=1 10\na v=1 10\na v=1 100\na v=1 1\na v=1 10 \na v=1\na v=1 10";
    let mut reader = Reader::new(body, Second);
    let mut times = Vec::new();
    while let Some(point) = reader.next() {
        times.push(
            point
                .expect("each line is good")
                .timestamp
                .map(|time_ns| time_ns / 1_000_000_000),
        );
    }
    assert_eq!(
        times,
        [
            Some(10),
            Some(10),
            Some(100),
            Some(1),
            Some(10),
            None,
            Some(10)
        ]
    );
}
