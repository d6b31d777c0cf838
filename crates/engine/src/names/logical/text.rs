//! Texts of days, times, intervals, UUIDs and floats, as PostgreSQL reads and prints them (ISO style).
//!
//! Does: read ISO 8601 and what PostgreSQL prints, and other spellings of days and times where these fail (`spelling`). Does not:
//! know zones by their names; the SQL language reads those before a value comes here.

use super::spelling::{Spelled, SpelledZone, spelled};

/// Months, days and nanoseconds of an interval.
pub(crate) type IntervalParts = (i32, i32, i64);

pub(super) const DAY_NS: i64 = 86_400_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// A float; `None` = the text is none.
pub(super) fn float(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// The 16 bytes of a UUID: digits in groups of four, with or without hyphens between them, maybe in braces.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0; 16];
    let mut digits = 0_usize;
    let mut after_hyphen = true;
    for letter in inner.bytes() {
        if letter == b'-' {
            if after_hyphen || !digits.is_multiple_of(4) {
                return None;
            }
            after_hyphen = true;
            continue;
        }
        after_hyphen = false;
        let nibble = char::from(letter).to_digit(16)?;
        let byte = bytes.get_mut(digits / 2)?;
        *byte = *byte << 4 | u8::try_from(nibble).ok()?;
        digits += 1;
    }
    (digits == 32 && !after_hyphen).then_some(bytes)
}

pub(super) fn print_uuid(bytes: [u8; 16]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Days since 1970 of a date of the Gregorian calendar, before its time too.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years that begin in March, in eras of 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year, month and day.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(super) fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Days since 1970, within 32 bits; `YYYY-MM-DD`, maybe with a time, which is left out as in a cast, or ` BC`; or another spelling.
pub(super) fn date(text: &str) -> Option<i64> {
    iso_date(text).or_else(|| spelled(text).and_then(|read| fitting(read.days)))
}

fn fitting(days: i64) -> Option<i64> {
    i32::try_from(days).ok().map(i64::from)
}

fn iso_date(text: &str) -> Option<i64> {
    let text =
        text.split_once(['T', ' ']).map_or(
            text,
            |(date, rest)| {
                if rest.trim() == "BC" { text } else { date }
            },
        );
    let (text, is_bc) = match text.strip_suffix(" BC") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let mut parts = text.splitn(3, '-');
    let year = parts.next()?;
    let (month, day) = (number(parts.next()?)?, number(parts.next()?)?);
    let year = number(year).filter(|_| year.len() >= 4)?;
    let year = if is_bc { 1 - year } else { year };
    if !(-5000..=5_874_897).contains(&year) {
        return None;
    }
    fitting(days_of(year, month, day)?)
}

/// Whether a text begins as a day does, so that it is a day that there is not if it is none.
pub(super) fn has_numbers_of_day(text: &str) -> bool {
    let day = text.trim().split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split('-').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

pub(super) fn print_date(days: i64) -> Option<String> {
    let days = i64::from(i32::try_from(days).ok()?);
    let (year, month, day) = date_of(days);
    Some(if year > 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{:04}-{month:02}-{day:02} BC", 1 - year)
    })
}

/// Nanoseconds of a time of day, `HH:MM[:SS[.fraction]]`; 24:00 is the end of the day.
pub(super) fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0), seconds)?;
    let ns = hours * HOUR_NS + minutes * MINUTE_NS + seconds;
    let fits = hours <= 24 && minutes < 60 && seconds <= MINUTE_NS && ns <= DAY_NS;
    fits.then_some(ns)
}

/// Nanoseconds of `SS[.fraction]`; digits beyond the ninth are rounded.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole = number(whole).filter(|whole| *whole <= 60)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = format!("{fraction:0<9}").chars().take(9).collect();
    let is_up = fraction.as_bytes().get(9).is_some_and(|next| *next >= b'5');
    Some(whole * SECOND_NS + number(&nine)? + i64::from(is_up))
}

pub(super) fn print_time_of_day(ns: i64) -> String {
    let (hours, minutes) = (ns / HOUR_NS, ns / MINUTE_NS % 60);
    let (seconds, rest) = (ns / SECOND_NS % 60, ns % SECOND_NS);
    let fraction = format!(".{rest:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

/// Nanoseconds since 1970 as the clock shows them.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    iso_timestamp(text)
        .map(|(ns, _)| ns)
        .or_else(|| spelled(text).and_then(clock_of))
}

fn clock_of(read: Spelled<'_>) -> Option<i64> {
    let ns = i128::from(read.days) * i128::from(DAY_NS) + i128::from(read.ns);
    i64::try_from(ns).ok()
}

/// The same, and what stands behind the time: a zone.
fn iso_timestamp(text: &str) -> Option<(i64, &str)> {
    let (day, rest) = match text.split_once(['T', ' ']) {
        Some((day, rest)) => (day, rest.trim_start()),
        None => (text, "00:00"),
    };
    let end = rest.find(|letter: char| !matches!(letter, '0'..='9' | ':' | '.'));
    let (time, zone) = rest.split_at(end.unwrap_or(rest.len()));
    let days = iso_date(day)?;
    let ns = i128::from(days) * i128::from(DAY_NS) + i128::from(time_of_day(time)?);
    Some((i64::try_from(ns).ok()?, zone.trim()))
}

/// Nanoseconds since 1970 of a moment; without a zone it is one of UTC.
pub(super) fn moment(text: &str) -> Option<i64> {
    iso_moment(text).or_else(|| {
        let read = spelled(text)?;
        let east = match read.zone {
            SpelledZone::Unsaid => 0,
            SpelledZone::Offset(seconds) => i64::from(seconds),
            SpelledZone::Name(_) => return None,
        };
        clock_of(read)?.checked_sub(east * SECOND_NS)
    })
}

fn iso_moment(text: &str) -> Option<i64> {
    let (ns, zone) = iso_timestamp(text)?;
    let offset = match zone {
        "" | "Z" | "z" | "UTC" | "utc" => 0,
        _ => {
            let (sign, digits) = match zone.split_at_checked(1)? {
                ("+", digits) => (1, digits),
                ("-", digits) => (-1, digits),
                _ => return None,
            };
            let (hours, minutes) = match digits.split_once(':') {
                Some(parts) => parts,
                None if digits.len() == 4 => digits.split_at(2),
                None => (digits, "0"),
            };
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            if hours > 15 || minutes > 59 {
                return None;
            }
            sign * (hours * HOUR_NS + minutes * MINUTE_NS)
        }
    };
    ns.checked_sub(offset)
}

pub(super) fn print_timestamp(ns: i64) -> Option<String> {
    let day = print_date(ns.div_euclid(DAY_NS))?;
    Some(format!(
        "{day}T{}",
        print_time_of_day(ns.rem_euclid(DAY_NS))
    ))
}

/// `1 year 2 mons 3 days 04:05:06.789`, each part with its own sign; units in full and short, `ago` turns all of them.
pub(super) fn interval(text: &str) -> Option<IntervalParts> {
    let mut words = text.split_ascii_whitespace().peekable();
    let (mut months, mut days, mut ns) = (0_i64, 0_i64, 0_i128);
    let mut is_any = false;
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case("ago") && is_any && words.peek().is_none() {
            (months, days, ns) = (-months, -days, -ns);
            break;
        }
        is_any = true;
        if word.contains(':') {
            let (sign, clock) = match word.split_at_checked(1)? {
                ("-", rest) => (-1, rest),
                ("+", rest) => (1, rest),
                _ => (1, word),
            };
            ns += sign * i128::from(clock_ns(clock)?);
            continue;
        }
        let digits = word.find(|letter: char| letter.is_ascii_alphabetic());
        let (value, unit) = match digits {
            Some(at) => word.split_at(at),
            None => (word, words.next()?),
        };
        let (sign, value) = match value.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, value.strip_prefix('+').unwrap_or(value)),
        };
        let unit = unit.trim_end_matches(',').to_ascii_lowercase();
        let whole = || number(value).map(|value| sign * value);
        match unit.as_str() {
            "year" | "years" | "yr" | "yrs" | "y" => {
                months = months.checked_add(whole()?.checked_mul(12)?)?;
            }
            "month" | "months" | "mon" | "mons" => months = months.checked_add(whole()?)?,
            "week" | "weeks" | "w" => days = days.checked_add(whole()?.checked_mul(7)?)?,
            "day" | "days" | "d" => days = days.checked_add(whole()?)?,
            unit => {
                let unit_ns = match unit {
                    "hour" | "hours" | "hr" | "hrs" | "h" => HOUR_NS,
                    "minute" | "minutes" | "min" | "mins" | "m" => MINUTE_NS,
                    "second" | "seconds" | "sec" | "secs" | "s" => SECOND_NS,
                    "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => 1_000_000,
                    "microsecond" | "microseconds" | "usec" | "usecs" | "us" => 1_000,
                    "nanosecond" | "nanoseconds" | "ns" => 1,
                    _ => return None,
                };
                ns += i128::from(sign) * parts_of(value, unit_ns)?;
            }
        }
    }
    is_any.then_some(())?;
    Some((
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        i64::try_from(ns).ok()?,
    ))
}

/// Nanoseconds of `H:MM[:SS[.fraction]]`, however many hours.
fn clock_ns(text: &str) -> Option<i64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let ns = minutes * MINUTE_NS + seconds(rest)?;
    (minutes < 60).then_some(())?;
    hours.checked_mul(HOUR_NS)?.checked_add(ns)
}

/// A number with a fraction, in units.
fn parts_of(text: &str, unit_ns: i64) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let nine: String = format!("{fraction:0<9}").chars().take(9).collect();
    let fraction = i128::from(number(&nine)?) * i128::from(unit_ns) / i128::from(SECOND_NS);
    Some(i128::from(number(whole)?) * i128::from(unit_ns) + fraction)
}

/// Years, months, days and a clock; behind a negative part a positive one has its sign, as PostgreSQL prints it.
pub(super) fn print_interval((months, days, ns): IntervalParts) -> String {
    let mut parts = Vec::new();
    let mut after_negative = false;
    for (value, one, many) in [
        (months / 12, "year", "years"),
        (months % 12, "mon", "mons"),
        (days, "day", "days"),
    ] {
        if value == 0 {
            continue;
        }
        let sign = if after_negative && value > 0 { "+" } else { "" };
        // One of 1 only: -1 days.
        let unit = if value == 1 { one } else { many };
        parts.push(format!("{sign}{value} {unit}"));
        after_negative = value < 0;
    }
    if ns != 0 || parts.is_empty() {
        let sign = match ns {
            ..0 => "-",
            _ if after_negative => "+",
            _ => "",
        };
        let ns = ns.unsigned_abs();
        let (hours, rest) = (ns / HOUR_NS.unsigned_abs(), ns % HOUR_NS.unsigned_abs());
        // Less than an hour fits.
        let rest = print_time_of_day(i64::try_from(rest).unwrap_or(0));
        let rest = rest.get(2..).unwrap_or_default();
        parts.push(format!("{sign}{hours:02}{rest}"));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days since 1970 by PostgreSQL 15: `select '...'::date - '1970-01-01'::date`.
    #[test]
    fn dates_are_the_days_of_postgresql() {
        let cases = [
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("1969-12-31", -1),
            ("0001-01-01", -719_162),
            ("4714-11-24 BC", -2_440_588),
            ("9999-12-31", 2_932_896),
        ];
        for (text, days) in cases {
            let read = date(text);
            assert_eq!(read, Some(days), "{text}");
            assert_eq!(print_date(days).as_deref(), Some(text));
        }
        for wrong in [
            "2001-02-29",
            "2001-13-01",
            "2001-00-01",
            "99-02-03",
            "x",
            "",
        ] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_have_nine_digits_and_an_offset() {
        assert_eq!(moment("1970-01-01T00:00:00.000000001Z"), Some(1));
        assert_eq!(moment("1970-01-01 02:00:00+02"), Some(0));
        assert_eq!(moment("1970-01-01 02:30+02:30"), Some(0));
        assert_eq!(moment("1969-12-31 23:59:59.999999999"), Some(-1));
        assert_eq!(
            print_timestamp(-1).as_deref(),
            Some("1969-12-31T23:59:59.999999999")
        );
        assert_eq!(moment("1970-01-01 25:00"), None);
        assert_eq!(moment("3000-01-01"), None);
    }

    /// Printed by PostgreSQL 15: `select '...'::interval`.
    #[test]
    fn intervals_print_as_in_postgresql() {
        let cases = [
            (
                "1 year 2 months 3 days 4 hours",
                "1 year 2 mons 3 days 04:00:00",
            ),
            ("-1 day +02:03:04.5", "-1 days +02:03:04.5"),
            ("90 minutes", "01:30:00"),
            ("1.5 hours ago", "-01:30:00"),
            ("14 mons", "1 year 2 mons"),
            ("0 s", "00:00:00"),
            ("100:00:00", "100:00:00"),
            ("2 weeks", "14 days"),
        ];
        for (text, expected) in cases {
            let parts = interval(text);
            assert_eq!(
                parts.map(print_interval).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for wrong in ["", "ago", "1", "one day", "1 parsec", "99999999999 years"] {
            assert_eq!(interval(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn uuids_are_read_in_every_form_and_printed_in_one() {
        let one = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for form in [
            one,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid(form).map(print_uuid).as_deref(), Some(one), "{form}");
        }
        for wrong in [
            "",
            "a0",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(uuid(wrong), None, "{wrong}");
        }
    }
}
