//! Times as text: written as PostgreSQL writes them (`2024-05-01 12:00:00.5+00`), and read.
//!
//! Does: days to dates and back, up to nine digits behind the second, offsets of zones. Does not: know a zone by itself; the
//! session's is handed in.

use arrow::array::timezone::Tz;
use bytes::{BufMut, BytesMut};
use chrono::{Offset, TimeZone};

pub(crate) const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;
/// Microseconds from 1970, where times are counted from here, to 2000, where PostgreSQL counts from.
pub(crate) const EPOCH_US: i64 = 946_684_800_000_000;
/// Days of the same.
pub(crate) const EPOCH_DAYS: i32 = 10_957;

/// Year, month and day of a number of days since 1970 (Howard Hinnant's algorithm, in years that begin with March).
pub(crate) fn date_of_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (
        year,
        u32::try_from(month).unwrap_or(1),
        u32::try_from(day).unwrap_or(1),
    )
}

/// The number of days since 1970 of a date; `None` = there is no such day.
pub(crate) fn days_of_date(year: i64, month: u32, day: u32) -> Option<i64> {
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day == 0 || day > length || !(-300_000..=300_000).contains(&year) {
        return None;
    }
    let (month, day) = (i64::from(month), i64::from(day));
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(era * 146_097 + of_era - 719_468)
}

fn two(out: &mut BytesMut, number: i64) {
    let number = u8::try_from(number.rem_euclid(100)).unwrap_or(0);
    out.put_u8(b'0' + number / 10);
    out.put_u8(b'0' + number % 10);
}

/// A date without what comes after it. Returns whether the year is before the first one.
fn put_days(out: &mut BytesMut, days: i64) -> bool {
    let (year, month, day) = date_of_days(days);
    let is_before = year <= 0;
    let year = if is_before { 1 - year } else { year };
    if year < 10_000 {
        two(out, year / 100);
        two(out, year % 100);
    } else {
        out.extend_from_slice(year.to_string().as_bytes());
    }
    out.put_u8(b'-');
    two(out, i64::from(month));
    out.put_u8(b'-');
    two(out, i64::from(day));
    is_before
}

/// A date.
pub(crate) fn put_date(out: &mut BytesMut, days: i64) {
    if put_days(out, days) {
        out.extend_from_slice(b" BC");
    }
}

/// Digits behind the second, without zeros at their end.
fn put_fraction(out: &mut BytesMut, ns: i64) {
    if ns == 0 {
        return;
    }
    let mut digits = [0; 9];
    let mut rest = ns;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    let end = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    out.put_u8(b'.');
    out.extend_from_slice(digits.get(..=end).unwrap_or_default());
}

/// A time of day, in nanoseconds since midnight.
pub(crate) fn put_time(out: &mut BytesMut, ns: i64) {
    let seconds = ns.div_euclid(NS_PER_S);
    put_clock(out, seconds);
    put_fraction(out, ns.rem_euclid(NS_PER_S));
}

fn put_clock(out: &mut BytesMut, seconds: i64) {
    two(out, seconds / 3600);
    out.put_u8(b':');
    two(out, seconds / 60 % 60);
    out.put_u8(b':');
    two(out, seconds % 60);
}

/// A time: seconds and nanoseconds since 1970, in a zone, or `None` for one that has none.
pub(crate) fn put_timestamp(out: &mut BytesMut, seconds: i64, ns: i64, zone: Option<Zone>) {
    let offset = zone.map_or(0, |zone| zone.offset_at(seconds));
    let local = seconds + i64::from(offset);
    let is_before = put_days(out, local.div_euclid(S_PER_DAY));
    out.put_u8(b' ');
    put_clock(out, local.rem_euclid(S_PER_DAY));
    put_fraction(out, ns);
    if zone.is_some() {
        put_offset(out, offset);
    }
    if is_before {
        out.extend_from_slice(b" BC");
    }
}

fn put_offset(out: &mut BytesMut, offset: i32) {
    out.put_u8(if offset < 0 { b'-' } else { b'+' });
    let offset = i64::from(offset.abs());
    two(out, offset / 3600);
    let (minutes, seconds) = (offset / 60 % 60, offset % 60);
    if minutes != 0 || seconds != 0 {
        out.put_u8(b':');
        two(out, minutes);
    }
    if seconds != 0 {
        out.put_u8(b':');
        two(out, seconds);
    }
}

/// A session's time zone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Zone {
    #[default]
    Utc,
    Of(Tz),
}

impl Zone {
    /// Of the name that a language gives it; `None` = UTC.
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name.map(str::parse::<Tz>) {
            Some(Ok(zone)) => Self::Of(zone),
            // The language has checked the name: what it does not know there is refused before.
            _ => Self::Utc,
        }
    }

    /// Seconds east of Greenwich at a time.
    fn offset_at(self, seconds: i64) -> i32 {
        let Self::Of(zone) = self else { return 0 };
        let Some(time) = chrono::DateTime::from_timestamp(seconds, 0) else {
            return 0;
        };
        let offset = zone.offset_from_utc_datetime(&time.naive_utc());
        offset.fix().local_minus_utc()
    }

    /// Seconds since 1970 of a clock in this zone. A clock that is set back has an hour twice, which is the earlier one, and
    /// one that is set forward lacks one, which is read by the offset before it; as PostgreSQL does both.
    fn seconds_of(self, local: i64) -> Option<i64> {
        let Self::Of(zone) = self else {
            return Some(local);
        };
        let clock = chrono::DateTime::from_timestamp(local, 0)?.naive_utc();
        let offset = match zone.offset_from_local_datetime(&clock) {
            chrono::LocalResult::Single(offset) | chrono::LocalResult::Ambiguous(offset, _) => {
                offset.fix().local_minus_utc()
            }
            chrono::LocalResult::None => self.offset_at(local - S_PER_DAY),
        };
        Some(local - i64::from(offset))
    }
}

/// Why a text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTime {
    /// It is written otherwise.
    Syntax,
    /// It is beyond what there is: 1677-09-21 to 2262-04-11 in nanoseconds.
    Range,
}

/// Nanoseconds since 1970 of a text such as `2024-05-01 12:00:00.5+02`; without an offset it is a clock of the zone.
pub(crate) fn read(text: &[u8], zone: Zone) -> Result<i64, NoTime> {
    read_with(text, |offset, local| match offset {
        Some(offset) => Some(local - offset),
        None => zone.seconds_of(local),
    })
}

/// What the clock of such a text shows, as if it were one of UTC; an offset says nothing, as of a `timestamp`.
pub(crate) fn read_local(text: &[u8]) -> Result<i64, NoTime> {
    read_with(text, |_, local| Some(local))
}

fn read_with(
    text: &[u8],
    seconds_of: impl FnOnce(Option<i64>, i64) -> Option<i64>,
) -> Result<i64, NoTime> {
    let mut rest = text.trim_ascii();
    let year_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(4..=6).contains(&year_digits) {
        return Err(NoTime::Syntax);
    }
    let year = i64::from(digits(&mut rest, year_digits)?);
    take(&mut rest, b'-')?;
    let month = digits(&mut rest, 2)?;
    take(&mut rest, b'-')?;
    let day = digits(&mut rest, 2)?;
    let days = days_of_date(year, month, day).ok_or(NoTime::Range)?;
    let mut of_day = 0;
    let mut ns = 0;
    let mut offset = None;
    if let Some((b' ' | b'T' | b't', after)) = rest.split_first() {
        rest = after.trim_ascii_start();
        let hour = digits(&mut rest, 2)?;
        take(&mut rest, b':')?;
        let minute = digits(&mut rest, 2)?;
        let mut second = 0;
        if take(&mut rest, b':').is_ok() {
            second = digits(&mut rest, 2)?;
            if take(&mut rest, b'.').is_ok() {
                ns = fraction(&mut rest)?;
            }
        }
        let is_clock = (hour < 24 && minute < 60 && second <= 60)
            || (hour, minute, second, ns) == (24, 0, 0, 0);
        if !is_clock {
            return Err(NoTime::Range);
        }
        of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        offset = read_offset(rest.trim_ascii_start())?;
    } else if !rest.is_empty() {
        offset = read_offset(rest)?;
    }
    let local = days * S_PER_DAY + of_day;
    let seconds = seconds_of(offset, local).ok_or(NoTime::Range)?;
    let ns = i128::from(seconds) * i128::from(NS_PER_S) + i128::from(ns);
    i64::try_from(ns).map_err(|_| NoTime::Range)
}

fn digits(rest: &mut &[u8], count: usize) -> Result<u32, NoTime> {
    let (digits, after) = rest.split_at_checked(count).ok_or(NoTime::Syntax)?;
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(NoTime::Syntax);
        }
        number = number * 10 + u32::from(digit - b'0');
    }
    *rest = after;
    Ok(number)
}

fn take(rest: &mut &[u8], byte: u8) -> Result<(), NoTime> {
    match rest.split_first() {
        Some((first, after)) if *first == byte => {
            *rest = after;
            Ok(())
        }
        _ => Err(NoTime::Syntax),
    }
}

/// Nanoseconds of the digits behind the point. More than nine say less than a nanosecond: they are rounded away.
fn fraction(rest: &mut &[u8]) -> Result<i64, NoTime> {
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(NoTime::Syntax);
    }
    let (all, after) = rest.split_at(count);
    *rest = after;
    let mut ns = 0;
    for at in 0..9 {
        ns = ns * 10 + all.get(at).map_or(0, |digit| i64::from(digit - b'0'));
    }
    let rounds_up = all.get(9).is_some_and(|digit| *digit >= b'5');
    Ok((ns + i64::from(rounds_up)).min(NS_PER_S - 1))
}

/// Seconds east of Greenwich; `None` = nothing is said.
fn read_offset(text: &[u8]) -> Result<Option<i64>, NoTime> {
    let mut rest = text;
    let sign = match rest.split_first() {
        None => return Ok(None),
        Some((b'Z' | b'z', [])) => return Ok(Some(0)),
        Some((b'+', after)) => {
            rest = after;
            1
        }
        Some((b'-', after)) => {
            rest = after;
            -1
        }
        Some(_) if rest.eq_ignore_ascii_case(b"UTC") => return Ok(Some(0)),
        Some(_) => return Err(NoTime::Syntax),
    };
    let hours = digits(&mut rest, 2)?;
    let mut parts = [0, 0];
    for part in &mut parts {
        if rest.is_empty() {
            break;
        }
        let _ = take(&mut rest, b':');
        *part = digits(&mut rest, 2)?;
    }
    if !rest.is_empty() {
        return Err(NoTime::Syntax);
    }
    let [minutes, seconds] = parts;
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(NoTime::Range);
    }
    Ok(Some(
        sign * i64::from(hours * 3600 + minutes * 60 + seconds),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(ns: i64, zone: Option<Zone>) -> String {
        let mut out = BytesMut::new();
        put_timestamp(
            &mut out,
            ns.div_euclid(NS_PER_S),
            ns.rem_euclid(NS_PER_S),
            zone,
        );
        String::from_utf8(out.to_vec()).unwrap()
    }

    proptest! {
        /// P15: what COPY writes and reads again is the same nanosecond.
        #[test]
        fn a_time_that_was_written_is_read_again(ns in any::<i64>(), zone in 0usize..5) {
            let names = ["UTC", "+05:30", "-03:00", "Europe/Berlin", "America/New_York"];
            let zone = Zone::of(Some(names[zone]));
            prop_assert_eq!(read(shown(ns, Some(zone)).as_bytes(), Zone::Utc), Ok(ns));
        }

        #[test]
        fn dates_are_those_of_another_calendar(days in -700_000i64..2_000_000) {
            let (year, month, day) = date_of_days(days);
            let other = chrono::DateTime::from_timestamp(days * S_PER_DAY, 0).unwrap();
            prop_assert_eq!(other.format("%Y-%m-%d").to_string(), format!("{year:04}-{month:02}-{day:02}"));
            prop_assert_eq!(days_of_date(year, month, day), Some(days));
        }

        #[test]
        fn no_text_is_a_panic(text in "[0-9T:+.Zz -]{0,40}") {
            let _ = read(text.as_bytes(), Zone::Utc);
        }
    }

    #[test]
    fn times_are_written_as_postgresql_writes_them() {
        let berlin = Zone::of(Some("Europe/Berlin"));
        for (ns, zone, text) in [
            (0, Some(Zone::Utc), "1970-01-01 00:00:00+00"),
            (1_500_000_000, None, "1970-01-01 00:00:01.5"),
            (-1, Some(Zone::Utc), "1969-12-31 23:59:59.999999999+00"),
            (
                1_714_564_800_000_000_000,
                Some(berlin),
                "2024-05-01 14:00:00+02",
            ),
            (
                1_704_067_200_123_000_000,
                Some(berlin),
                "2024-01-01 01:00:00.123+01",
            ),
            // Before there were zones: 53 minutes and 28 seconds.
            (
                -2_500_000_000_000_000_000,
                Some(berlin),
                "1890-10-11 20:26:48+00:53:28",
            ),
        ] {
            assert_eq!(shown(ns, zone), text);
        }
        let mut out = BytesMut::new();
        put_date(&mut out, days_of_date(-43, 3, 15).unwrap());
        assert_eq!(&out[..], b"0044-03-15 BC");
    }

    #[test]
    fn texts_that_are_no_time_are_refused() {
        for (text, why) in [
            ("", NoTime::Syntax),
            ("yesterday", NoTime::Syntax),
            ("2024-05", NoTime::Syntax),
            ("2024-05-01 12", NoTime::Syntax),
            ("2024-05-01 12:00:00+", NoTime::Syntax),
            ("2024-05-01 12:00:00 Mars", NoTime::Syntax),
            ("2024-02-30", NoTime::Range),
            ("2024-05-01 25:00:00", NoTime::Range),
            ("2024-05-01 12:61:00", NoTime::Range),
            ("2300-01-01", NoTime::Range),
            ("2024-05-01 12:00:00+99", NoTime::Range),
        ] {
            assert_eq!(read(text.as_bytes(), Zone::Utc), Err(why), "{text}");
        }
        let clock = |text: &str| read(text.as_bytes(), Zone::of(Some("Europe/Berlin")));
        // The hour that is there twice, and the one that is not there.
        assert_eq!(clock("2024-10-27 02:30:00"), Ok(1_729_989_000 * NS_PER_S));
        assert_eq!(clock("2024-03-31 02:30:00"), Ok(1_711_848_600 * NS_PER_S));
    }
}
