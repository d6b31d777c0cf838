//! What the language accepts, and what it means. Each case runs through both parsers.

use nilometer_lineproto::{FieldValue, OwnedPoint, Precision, Reader, SeriesKey, parse_line};

fn text(text: &str) -> FieldValue<'static> {
    FieldValue::Text(text.to_owned().into())
}

/// The one point of `input`, after checking that the reader finds the same.
fn parse(input: &str) -> OwnedPoint {
    let slow = match parse_line(input.as_bytes(), 1, Precision::Nanosecond) {
        Ok(Some(point)) => point,
        other => panic!("{input:?}: {other:?}"),
    };
    let mut reader = Reader::new(input.as_bytes(), Precision::Nanosecond);
    let point = reader
        .next()
        .expect("there is a line")
        .expect("the reference parser accepts it");
    let key = SeriesKey::parse(point.series).expect("the reference parser accepts it");
    let fast = OwnedPoint {
        measurement: key.measurement.into_owned(),
        tags: key
            .tags
            .into_iter()
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect(),
        fields: point
            .fields
            .iter()
            .map(|field| (field.name().into_owned(), field.value.clone().into_owned()))
            .collect(),
        timestamp: point.timestamp,
    };
    assert_eq!(fast, slow, "{input:?}");
    assert!(reader.next().is_none());
    slow
}

fn check(
    input: &str,
    measurement: &str,
    tags: &[(&str, &str)],
    fields: &[(&str, FieldValue<'static>)],
    timestamp: Option<i64>,
) {
    let expected = OwnedPoint {
        measurement: measurement.to_owned(),
        tags: tags
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        fields: fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        timestamp,
    };
    assert_eq!(parse(input), expected, "{input:?}");
}

fn check_value(literal: &str, value: &FieldValue<'static>) {
    for (before, after, timestamp) in [
        ("", "", None),
        ("", " 7", Some(7)),
        ("a=1i,", ",z=2i 7", Some(7)),
        ("", "\n", None),
    ] {
        let point = parse(&format!("m {before}v={literal}{after}"));
        let found = point
            .fields
            .iter()
            .find(|(name, _)| name == "v")
            .map(|(_, value)| value);
        assert_eq!(found, Some(value), "{literal}");
        assert_eq!(point.timestamp, timestamp);
    }
}

/// Python's `influxdb` writes `m\=x` for the measurement `m=x`, which was one of another name then. What is expected is what
/// InfluxDB 1.6.7 lists.
#[test]
fn a_measurement_loses_the_escapes_of_separators_and_quotes_and_keeps_other_backslashes() {
    for (text, measurement) in [
        ("foo\\,bar", "foo,bar"),
        ("cpu\\ load", "cpu load"),
        ("cpu\\=load", "cpu=load"),
        ("cpu\\\"load", "cpu\"load"),
        ("cpu\\\\=load", "cpu\\=load"),
        ("cpu=load", "cpu=load"),
        ("\\ cpu", " cpu"),
        ("\\cpu", "\\cpu"),
        ("a\\\\,b", "a\\,b"),
    ] {
        let one = [("v", FieldValue::Integer(1))];
        check(&format!("{text} v=1i"), measurement, &[], &one, None);
        check(
            &format!("{text},t=x v=1i"),
            measurement,
            &[("t", "x")],
            &one,
            None,
        );
    }
}

#[test]
fn tags_lose_the_escapes_of_comma_equals_and_space_and_keep_other_backslashes() {
    for (text, key, value) in [
        ("region\\,zone=east", "region,zone", "east"),
        ("region\\ zone=east", "region zone", "east"),
        ("reg\\\\=ion=east", "reg\\=ion", "east"),
        ("\\ =east", " ", "east"),
        ("regions=east\\,west", "regions", "east,west"),
        ("regions=\\\\ east", "regions", "\\ east"),
        ("regions=eas\\\\ t", "regions", "eas\\ t"),
        ("regions=east\\\\ ", "regions", "east\\ "),
        ("regions=eas\\t", "regions", "eas\\t"),
        ("regions=\\\\,\\,\\=east", "regions", "\\,,=east"),
        ("equals\\=foo=tag\\=value", "equals=foo", "tag=value"),
    ] {
        let one = [("v", FieldValue::Integer(1))];
        check(
            &format!("cpu,{text} v=1i"),
            "cpu",
            &[(key, value)],
            &one,
            None,
        );
    }
}

#[test]
fn field_keys_lose_the_escapes_of_comma_equals_and_space_and_keep_other_backslashes() {
    for (text, name) in [
        ("value\\,ms", "value,ms"),
        ("value\\ ms", "value ms"),
        ("a\\ ", "a "),
        ("b\\=c", "b=c"),
        ("\\a", "\\a"),
        ("\\=", "="),
        ("a\\\"b", "a\\\"b"),
    ] {
        let last = (name, FieldValue::Integer(2));
        check(
            &format!("m {text}=2i"),
            "m",
            &[],
            std::slice::from_ref(&last),
            None,
        );
        check(
            &format!("m x=1i,{text}=2i 3"),
            "m",
            &[],
            &[("x", FieldValue::Integer(1)), last],
            Some(3),
        );
    }
}

#[test]
fn a_backslash_at_the_end_of_a_tag_value_hides_the_separator() {
    check(
        "m,path=C:\\,t v=2i",
        "m",
        &[("path", "C:,t")],
        &[("v", FieldValue::Integer(2))],
        None,
    );
    check(
        "m,path=C:\\ t v=2i",
        "m",
        &[("path", "C: t")],
        &[("v", FieldValue::Integer(2))],
        None,
    );
}

#[test]
fn an_equals_sign_may_be_the_first_byte_of_a_tag_value() {
    check(
        "cpu,host== v=1i",
        "cpu",
        &[("host", "=")],
        &[("v", FieldValue::Integer(1))],
        None,
    );
    check(
        "cpu,host==a,b=c v=1i",
        "cpu",
        &[("b", "c"), ("host", "=a")],
        &[("v", FieldValue::Integer(1))],
        None,
    );
}

#[test]
fn quotes_mean_nothing_outside_field_values() {
    let one = [("value", FieldValue::Float(1.0))];
    check(
        "\"cpu\",host=a value=1.0 1",
        "\"cpu\"",
        &[("host", "a")],
        &one,
        Some(1),
    );
    check(
        "cpu,\"host\"=\"serverA\" value=1.0 1",
        "cpu",
        &[("\"host\"", "\"serverA\"")],
        &one,
        Some(1),
    );
    check(
        "cpu,host=\"a value=1.0 1",
        "cpu",
        &[("host", "\"a")],
        &one,
        Some(1),
    );
    check(
        "cpu \"a=1i",
        "cpu",
        &[],
        &[("\"a", FieldValue::Integer(1))],
        None,
    );
    check(
        "cpu,h=hey\\ \"ya a=1i",
        "cpu",
        &[("h", "hey \"ya")],
        &[("a", FieldValue::Integer(1))],
        None,
    );
}

#[test]
fn tags_are_sorted_by_their_names_without_escapes() {
    check(
        "cpu,last=1,first=2,\\ a=3,b\\=c=4 v=1i",
        "cpu",
        &[(" a", "3"), ("b=c", "4"), ("first", "2"), ("last", "1")],
        &[("v", FieldValue::Integer(1))],
        None,
    );
    let line: Vec<String> = (0..1000).rev().map(|i| format!(",t{i:03}=x")).collect();
    let tags: Vec<(String, String)> = (0..1000)
        .map(|i| (format!("t{i:03}"), "x".to_owned()))
        .collect();
    assert_eq!(parse(&format!("m{} v=1", line.concat())).tags, tags);
}

#[test]
fn the_suffix_decides_the_type_of_a_number() {
    for (literal, value) in [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("-1e+3", -1000.0),
        ("1.0e4", 1e4),
        ("1E4", 1e4),
        ("-1.0e-4", -1e-4),
        ("1.e2", 100.0),
        ("12345678", 12_345_678.0),
        (
            "123456789012345678901234567890",
            123_456_789_012_345_678_901_234_567_890.0,
        ),
        ("9007199254740993", 9_007_199_254_740_993.0),
        ("0.1", 0.1),
        ("0.30000000000000004", 0.300_000_000_000_000_04),
        ("85.71428571428571", 85.714_285_714_285_71),
        ("1e-400", 0.0),
        ("000000000000000000000000.25", 0.25),
        ("0.0000000000000000000000001", 1e-25),
    ] {
        check_value(literal, &FieldValue::Float(value));
    }
    for (literal, value) in [
        ("0i", 0),
        ("-0i", 0),
        ("58i", 58),
        ("-7i", -7),
        ("1234567i", 1_234_567),
        ("12345678i", 12_345_678),
        ("123456789i", 123_456_789),
        ("1234567890123456i", 1_234_567_890_123_456),
        ("9223372036854775807i", i64::MAX),
        ("-9223372036854775808i", i64::MIN),
        ("0009223372036854775807i", i64::MAX),
        ("-0009223372036854775808i", i64::MIN),
    ] {
        check_value(literal, &FieldValue::Integer(value));
    }
    for (literal, value) in [
        ("0u", 0),
        ("0000u", 0),
        ("18446744073709551615u", u64::MAX),
        ("00018446744073709551615u", u64::MAX),
        ("5u", 5),
    ] {
        check_value(literal, &FieldValue::Unsigned(value));
    }
}

#[test]
fn floats_keep_every_bit_and_the_sign_of_zero() {
    for (literal, bits) in [
        ("-0", (-0.0_f64).to_bits()),
        ("-0.0", (-0.0_f64).to_bits()),
        ("1.7976931348623157e308", f64::MAX.to_bits()),
        ("-1.7976931348623157e308", f64::MIN.to_bits()),
        ("5e-324", 1),
        ("2.2250738585072014e-308", f64::MIN_POSITIVE.to_bits()),
        ("3.141592653589793", std::f64::consts::PI.to_bits()),
    ] {
        let point = parse(&format!("m v={literal}"));
        assert!(
            matches!(point.fields[0].1, FieldValue::Float(value) if value.to_bits() == bits),
            "{literal}: {point:?}"
        );
    }
    let largest = format!("1797693134862315708{}", "0".repeat(290));
    check_value(&largest, &FieldValue::Float(f64::MAX));
}

#[test]
fn booleans_have_ten_spellings() {
    for literal in ["t", "T", "true", "True", "TRUE"] {
        check_value(literal, &FieldValue::Boolean(true));
    }
    for literal in ["f", "F", "false", "False", "FALSE"] {
        check_value(literal, &FieldValue::Boolean(false));
    }
}

#[test]
fn strings_hold_anything_and_escape_two_characters() {
    for (literal, value) in [
        ("\"\"", ""),
        ("\"foo bar\"", "foo bar"),
        ("\"1,0\"", "1,0"),
        ("\"foo=bar\"", "foo=bar"),
        ("\"foo\nbar\"", "foo\nbar"),
        ("\"a\r\n\r\n# b\n\"", "a\r\n\r\n# b\n"),
        ("\"foo \\\" bar\"", "foo \" bar"),
        ("\"foo\\,bar\"", "foo\\,bar"),
        ("\"foo\\\\\"", "foo\\"),
        ("\"test\\\\\\\"\"", "test\\\""),
        ("\"{Hello\\\"{,}\\\" World}\"", "{Hello\"{,}\" World}"),
        ("\"\\n\\t\\x\"", "\\n\\t\\x"),
        ("\"C:\\\\dir\\file\"", "C:\\dir\\file"),
        ("\"\\\\\\\\\"", "\\\\"),
        ("\"w\u{E8} \u{1F600}\"", "w\u{E8} \u{1F600}"),
        ("\"\0\"", "\0"),
    ] {
        check_value(literal, &text(value));
    }
}

#[test]
fn of_a_field_that_occurs_twice_the_last_value_stays_in_the_first_place() {
    check(
        "m a=1i,b=2i,a=3i,c=4i,b=t,a=\"z\" 5",
        "m",
        &[],
        &[
            ("a", text("z")),
            ("b", FieldValue::Boolean(true)),
            ("c", FieldValue::Integer(4)),
        ],
        Some(5),
    );
    let many: Vec<String> = (0..200).map(|i| format!("f{}={i}i", i % 70)).collect();
    let point = parse(&format!("m {}", many.join(",")));
    assert_eq!(point.fields.len(), 70);
    for (i, (name, value)) in point.fields.iter().enumerate() {
        let last = if i < 60 { i + 140 } else { i + 70 };
        assert_eq!(
            (name.as_str(), value),
            (format!("f{i}").as_str(), &FieldValue::Integer(last as i64))
        );
    }
}

#[test]
fn white_space_is_skipped_before_the_line_between_its_parts_and_after_it() {
    let one = [("value", FieldValue::Float(1.0))];
    for input in [
        "cpu value=1.0 12",
        "cpu    value=1.0 12",
        "cpu value=1.0     12",
        "cpu      value=1.0     12",
        "cpu value=1.0 12   ",
        "cpu value=1.0 12\n",
        "cpu   value=1.0 12 \n",
        "cpu value=1.0 12\r\n",
        "cpu value=1.0 12  \r\n",
        "cpu value=1.0 12\r",
        " \t\0cpu value=1.0 12",
        "cpu \t\0value=1.0 \t\x0012",
    ] {
        check(input, "cpu", &[], &one, Some(12));
    }
    for input in [
        "cpu value=1.0",
        "cpu value=1.0 ",
        "cpu value=1.0  \r\n",
        "cpu value=1.0\r\n",
        "cpu value=1.0 \t",
    ] {
        check(input, "cpu", &[], &one, None);
    }
}

#[test]
fn blank_lines_and_comments_are_no_points() {
    for input in [
        "",
        " ",
        "\n",
        "\r\n",
        " \t\0",
        "# comment",
        "  # comment=\"",
        "#\n",
    ] {
        assert_eq!(
            parse_line(input.as_bytes(), 1, Precision::Nanosecond),
            Ok(None)
        );
        assert!(
            Reader::new(input.as_bytes(), Precision::Nanosecond)
                .next()
                .is_none(),
            "{input:?}"
        );
    }
}

#[test]
fn timestamps_reach_from_the_first_time_to_the_last() {
    let one = [("value", FieldValue::Float(1.0))];
    for timestamp in [
        0,
        1,
        -1,
        1_451_606_400_000_000_000,
        i64::MAX - 1,
        i64::MIN + 2,
    ] {
        check(
            &format!("cpu value=1 {timestamp}"),
            "cpu",
            &[],
            &one,
            Some(timestamp),
        );
        check(
            &format!("cpu value=1 {timestamp}\n"),
            "cpu",
            &[],
            &one,
            Some(timestamp),
        );
    }
    check("cpu value=1 -0", "cpu", &[], &one, Some(0));
    check(
        "cpu value=1 000000000000000000000000000042",
        "cpu",
        &[],
        &one,
        Some(42),
    );
}
