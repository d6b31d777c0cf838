//! Every error a line can get, word for word. The texts and most of the lines are InfluxDB 1.x's own; clients match some
//! of them, and users search for them.

use nilometer_lineproto::{Precision, Reader, Reason, SeriesKey, parse_line};

/// What either parser says about an input of one bad line, series text included.
fn texts(input: &[u8], precision: Precision) -> [String; 2] {
    let slow = parse_line(input, 1, precision)
        .expect_err("the reference parser accepts it")
        .to_string();
    let mut reader = Reader::new(input, precision);
    let fast = match reader.next().expect("there is a line") {
        Err(error) => error.to_string(),
        Ok(point) => match SeriesKey::parse(point.series) {
            Ok(_) => panic!("the reader accepts {:?}", String::from_utf8_lossy(input)),
            Err(reason) => point.error(reason).to_string(),
        },
    };
    assert!(
        reader.next().is_none(),
        "more than one line in {:?}",
        String::from_utf8_lossy(input)
    );
    [slow, fast]
}

fn check(line: &str, reason: &str) {
    let expected = format!("unable to parse '{line}': {reason}");
    for text in texts(line.as_bytes(), Precision::Nanosecond) {
        assert_eq!(text, expected);
    }
}

fn check_all(reason: &str, lines: &[&str]) {
    for line in lines {
        check(line, reason);
    }
}

#[test]
fn a_bad_series_is_named_by_what_is_missing_in_it() {
    check_all(
        "missing measurement",
        &[",host=a value=1", ",", ", value=1"],
    );
    check_all(
        "missing tag key",
        &[
            "cpu, value=1",
            "cpu,",
            "cpu,,,",
            "cpu,host=serverA,=us-east value=1i",
            "cpu,host=serverAa\\,,=us-east value=1i",
            "cpu,host=serverA\\,,=us-east value=1i",
            "cpu, =serverA value=1i",
            "cpu,host=serverA, value=1i",
        ],
    );
    check_all(
        "missing tag value",
        &[
            "cpu,host",
            "cpu,host,",
            "cpu,host=",
            "cpu,host value=1i",
            "cpu,host=serverA,region value=1i",
            "cpu,host=serverA,region= value=1i",
            "cpu,host=serverA,region=,zone=us-west value=1i",
            "cpu,host\\=a value=1i",
        ],
    );
    check_all(
        "invalid tag format",
        &[
            "cpu,host=f=o,",
            "cpu,host=f\\==o,",
            "cpu,host=a=b value=1",
            "m,path=C:\\,t=x v=1i",
        ],
    );
    check_all(
        "duplicate tags",
        &[
            "cpu,host=serverA,host=serverB value=1i 1000000000",
            "cpu,b=2,b=1,c=3 value=1i 1000000000",
            "cpu,b=2,c=3,b=1 value=1i 1000000000",
            "cpu,a\\,b=1,a\\,b=1 value=1i",
        ],
    );
}

#[test]
fn bad_fields_are_named_by_what_is_wrong_with_them() {
    check_all(
        "missing fields",
        &[
            "cpu_load_short,host=server01,region=us-west",
            "cpu",
            "cpu,host==",
            "=",
            "cpu\\ v=1",
        ],
    );
    check_all(
        "missing field key",
        &[
            "cpu,host=serverA,region=us-west =",
            "cpu =123i",
            "cpu value=123i,=456i",
            "cpu  =1",
        ],
    );
    check_all(
        "missing field value",
        &[
            "cpu value=",
            "cpu value= 1000000000i",
            "cpu value=,value2=1i",
            "cpu a=1,b=",
        ],
    );
    check_all(
        "invalid field format",
        &[
            "cpu,host=server01,region=us-west 1434055562000000000i",
            "cpu value=1i,b",
            "cpu value=1i,b 12",
            "cpu value=1i,",
            "cpu value=1i, 12",
            "cpu ,a=1",
            "cpu ",
            "m f=\"blah\"=123,r 1531703600000000000",
            "m f=\"a\"b",
            "cpu \"\\, '= \"\\ v=1.0",
        ],
    );
    check_all(
        "unbalanced quotes",
        &[
            "cpu,host=serverA value=\"test",
            "cpu,host=serverA value=\"test\"\"",
            "m f=\"",
            "m f=\"a\\\"",
            "m f=\"a\"b\"",
        ],
    );
}

#[test]
fn bad_values_are_named_by_their_type() {
    let numbers = [
        "-", "-i", "-.", ".", ".i", "1.0i", "1ii", "1i1", "1a", "42+3", "0.-1", "1.1.1", ".1a",
        "9ie10", "9e10i", "1e3i", "1ui", "1iu", "1.0u", "-123u", "-u", "--1u", "NaN", "nan", "nAn",
        "N", "-Inf", "-inf", "0x10", "1_000", "1\t", "-+5",
    ];
    for number in numbers {
        check(&format!("cpu v={number}"), "invalid number");
        check(&format!("cpu v={number},w=1"), "invalid number");
        check(&format!("cpu v={number} 12"), "invalid number");
    }
    for float in [
        "1e400", "-1e400", "1e", "1e+", "-e-e-e", ".e5", "1e5e5", "1e5.5", "-.e1",
    ] {
        check(&format!("cpu v={float}"), "invalid float");
    }
    let largest = format!("1797693134862315708{}", "0".repeat(290));
    check(&format!("cpu v=1{largest}"), "invalid float");
    for boolean in [
        "a", "inf", "+1", "tru", "trues", "tRUE", "TRue", "fals", "falsey", "yes", "=1", "i",
        "'x'", "true\t",
    ] {
        check(&format!("cpu v={boolean}"), "invalid boolean");
        check(&format!("cpu v={boolean},w=1 12"), "invalid boolean");
    }
}

#[test]
fn integers_beyond_64_bits_are_shown_as_go_shows_them() {
    check(
        "cpu,host=serverA,region=us-west value=9223372036854775808i",
        "unable to parse integer 9223372036854775808: strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
    );
    check(
        "cpu value=-9223372036854775809i",
        "unable to parse integer -9223372036854775809: strconv.ParseInt: parsing \"-9223372036854775809\": value out of range",
    );
    check(
        "cpu value=99999999999999999999999i,b=1",
        "unable to parse integer 99999999999999999999999: strconv.ParseInt: parsing \"99999999999999999999999\": value out of range",
    );
    check(
        "cpu,host=serverA,region=us-west value=18446744073709551616u",
        "unable to parse unsigned 18446744073709551616: strconv.ParseUint: parsing \"18446744073709551616\": value out of range",
    );
}

#[test]
fn bad_timestamps_are_named() {
    check_all(
        "bad timestamp",
        &[
            "a v=1 0\\",
            "cpu value=1 -/",
            "cpu value=1 -1?",
            "cpu value=1 1-",
            "cpu value=1 1.0",
            "cpu value=1 12i",
            "cpu v=1 1\t",
        ],
    );
    check(
        "cpu value=1 -",
        "strconv.ParseInt: parsing \"-\": invalid syntax",
    );
    for digits in [
        "9223372036854775808",
        "-92233720368547758078",
        "-9223372036854775809",
        "99999999999999999999",
    ] {
        check(
            &format!("cpu value=1 {digits}"),
            &format!("strconv.ParseInt: parsing \"{digits}\": value out of range"),
        );
    }
    let range = "time outside range -9223372036854775806 - 9223372036854775806";
    check_all(
        range,
        &[
            "cpu value=1 9223372036854775807",
            "cpu value=1 -9223372036854775807",
            "cpu value=1 -9223372036854775808",
            "cpu value=1 9223372036854775807 12",
        ],
    );
    let line = "cpu value=1 9223372036854776";
    for text in texts(line.as_bytes(), Precision::Microsecond) {
        assert_eq!(text, format!("unable to parse '{line}': {range}"));
    }
    check_all(
        "point is invalid",
        &[
            "cpu value=1 12 13",
            "cpu value=1 12 x",
            "cpu value=1 12  \t",
        ],
    );
}

#[test]
fn keys_may_be_65535_bytes_and_no_longer() {
    let longest = format!("m,t={}", "x".repeat(65_535 - 4 - 4 - 1));
    assert_eq!(longest.len() + 4 + 1, 65_535);
    let good = format!("{longest} v=1");
    assert!(parse_line(good.as_bytes(), 1, Precision::Nanosecond).is_ok());
    assert!(matches!(
        Reader::new(good.as_bytes(), Precision::Nanosecond).next(),
        Some(Ok(_))
    ));
    check(
        &format!("{longest} vw=1"),
        "max key length exceeded: 65536 > 65535",
    );
    check(
        &format!("{longest} v=1,vwxyz=1 bad"),
        "max key length exceeded: 65539 > 65535",
    );

    let series = format!("m,t={}", "x".repeat(65_532));
    check(
        &format!("{series} v=bad"),
        "max key length exceeded: 65536 > 65535",
    );
    assert_eq!(
        SeriesKey::parse(series.as_bytes()),
        Err(Reason::KeyTooLong { bytes: 65_536 })
    );
    assert!(SeriesKey::parse(&series.as_bytes()[..65_535]).is_ok());
}

#[test]
fn bytes_that_are_not_utf_8_are_refused_wherever_they_are() {
    for line in [
        &b"c\xFFpu v=1"[..],
        b"cpu,h\xFFst=a v=1",
        b"cpu,host=\xFF v=1",
        b"cpu v\xFF=1",
        b"cpu a=1,v\xC3=1",
        b"cpu v=\"\xE2\x82\"",
        b"cpu v=\"\xFF\\\\\" 12",
    ] {
        for text in texts(line, Precision::Nanosecond) {
            assert!(text.ends_with("': invalid UTF-8"), "{text}");
        }
    }
}

#[test]
fn the_first_thing_wrong_is_the_one_reported() {
    check("cpu,host= v=bad x", "missing tag value");
    check("cpu,a=1,a=2", "missing fields");
    check("cpu,a=1,a=2 v=bad", "duplicate tags");
    check("cpu,a=1,a=2 v=1 bad", "duplicate tags");
    check("cpu v=bad,=1 bad", "invalid boolean");
    check("cpu v=1 bad bad", "bad timestamp");
}

#[test]
fn the_line_is_shown_without_blanks_before_it_and_without_its_ending() {
    let expected = "unable to parse 'cpu v=x  ': invalid boolean";
    for input in [
        "cpu v=x  ",
        " \t\0cpu v=x  \n",
        "\n\ncpu v=x  \r\n",
        "cpu v=x  \r\r\n",
    ] {
        let mut reader = Reader::new(input.as_bytes(), Precision::Nanosecond);
        let error = reader
            .next()
            .expect("there is a line")
            .expect_err("it is bad");
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.to_owned_error().to_string(), expected);
    }
}

#[test]
fn a_kept_error_shows_the_start_of_a_long_line() {
    // 1021 bytes and then characters of three bytes: the cut is inside one of them, and moves before it.
    let line = format!("cpu v={}{}", "x".repeat(1021 - 6), "\u{20AC}".repeat(1000));
    let mut reader = Reader::new(line.as_bytes(), Precision::Nanosecond);
    let error = reader
        .next()
        .expect("there is a line")
        .expect_err("it is bad");
    assert_eq!(error.line.len(), line.len());
    let kept = error.to_owned_error();
    assert_eq!(kept.line, format!("{}\u{20AC}...", &line[..1021]));
    assert_eq!(
        kept.to_string(),
        format!("unable to parse '{}': invalid boolean", kept.line)
    );
    assert_eq!(kept.line_number, 1);
}
