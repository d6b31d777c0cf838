//! Times as text: RFC 3339 in UTC, from and to nanoseconds since 1970.
//!
//! Written here because the benchmark needs two functions of a calendar and no time zones.

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Writes a time as `2016-01-01T00:00:00Z`, with as many decimals as it needs.
///
/// ```
/// assert_eq!(nilometer_bench::calendar::format_rfc3339(1_451_606_400_000_000_000), "2016-01-01T00:00:00Z");
/// ```
pub fn format_rfc3339(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let nanos = time_ns.rem_euclid(SECOND_NS);
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
    let second_of_day = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos != 0 {
        let decimals = format!("{nanos:09}");
        text.push('.');
        text.push_str(decimals.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Reads `2016-01-01T00:00:00Z` (decimals allowed, UTC only); `None` for anything else.
///
/// ```
/// use nilometer_bench::calendar::parse_rfc3339;
/// assert_eq!(parse_rfc3339("2016-01-01T00:00:00.5Z"), Some(1_451_606_400_500_000_000));
/// assert_eq!(parse_rfc3339("2016-02-30T00:00:00Z"), None);
/// ```
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, decimals) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = format!("{decimals:0<9}").parse().ok()?;
    let seconds =
        days_from_civil(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
}

/// Three fixed-width decimal numbers with a separator.
fn numbers(text: &str, separator: char, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut out = [0; 3];
    let mut parts = text.split(separator);
    for (slot, width) in out.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Both directions count in years that begin in March, so that the leap day is the last day of a year and the lengths of
// the months before it follow one formula: (153 * month + 2) / 5.

/// Days since 1970-01-01 to a date of the proleptic Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // From 0000-03-01.
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// A date of the proleptic Gregorian calendar to days since 1970-01-01.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::{format_rfc3339, parse_rfc3339};

    #[test]
    fn known_instants_read_and_write() {
        // Seconds by `date -u -d <text> +%s`.
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2016-01-01T00:00:00Z", 1_451_606_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(parse_rfc3339(text), Some(seconds * 1_000_000_000), "{text}");
            assert_eq!(format_rfc3339(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "2016-01-01",
            "2016-01-01T00:00:00",
            "2016-1-01T00:00:00Z",
            "2016-13-01T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2016-01-01T24:00:00Z",
            "2016-01-01T00:00:00.Z",
            "2016-01-01T00:00:00.1234567890Z",
            "9999-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_instant_survives_its_text(time_ns: i64) {
            let text = format_rfc3339(time_ns);
            // The earliest nanoseconds have a whole second that does not fit, which reading refuses.
            if time_ns.div_euclid(1_000_000_000).checked_mul(1_000_000_000).is_some() {
                proptest::prop_assert_eq!(parse_rfc3339(&text), Some(time_ns));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            if let Some(time_ns) = parse_rfc3339(&text) {
                proptest::prop_assert!(text.ends_with('Z'), "{time_ns}");
            }
        }
    }
}
