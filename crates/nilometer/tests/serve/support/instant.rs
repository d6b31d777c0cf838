//! Time stamps of answers as Unix nanoseconds.

use chrono::DateTime;

/// The instant of an RFC 3339 text, in Unix nanoseconds. PostgreSQL's blank between date and time is taken as well.
pub(crate) fn nanoseconds(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1))
        .unwrap_or_else(|error| panic!("{text:?} is no RFC 3339 time: {error}"))
        .timestamp_nanos_opt()
        .unwrap_or_else(|| panic!("{text:?} does not fit 64 bits of nanoseconds"))
}

#[test]
fn time_stamps_keep_all_their_fraction_digits() {
    assert_eq!(nanoseconds("1970-01-01T00:00:00Z"), 0);
    assert_eq!(
        nanoseconds("2016-01-01T00:00:00.5Z"),
        1_451_606_400_500_000_000
    );
    assert_eq!(
        nanoseconds("2016-01-01T00:00:00.000000001Z"),
        1_451_606_400_000_000_001
    );
    assert_eq!(
        nanoseconds("2016-01-01 01:00:00+01:00"),
        1_451_606_400_000_000_000
    );
    assert_eq!(nanoseconds("1969-12-31T23:59:59.999999999Z"), -1);
}
