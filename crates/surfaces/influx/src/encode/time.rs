//! Times of answers: RFC 3339 with nanoseconds, or integers since 1970.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};

use super::number::push_int;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// As text: nobody asked for integers.
    Text,
    /// As integers of a unit of so many nanoseconds.
    Integers(i64),
}

impl Times {
    /// What the parameter `epoch` asks for. Any text that is no unit means nanoseconds, as there.
    pub(crate) fn of_epoch(epoch: &str) -> Self {
        match epoch.trim() {
            "" => Self::Text,
            "u" => Self::Integers(1_000),
            "ms" => Self::Integers(1_000_000),
            "s" => Self::Integers(SECOND_NS),
            "m" => Self::Integers(60 * SECOND_NS),
            "h" => Self::Integers(3_600 * SECOND_NS),
            _ => Self::Integers(1),
        }
    }
}

/// Appends an integer of a unit; what is between two of them goes towards 1970, as integers are divided in Go.
pub(super) fn push_epoch(time_ns: i64, unit_ns: i64, out: &mut Vec<u8>) {
    push_int(time_ns / unit_ns.max(1), out);
}

/// The text of a time in UTC.
pub(crate) fn rfc3339(time_ns: i64) -> String {
    let mut text = Vec::new();
    push_rfc3339(time_ns, None, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends the text of a time, without quotes: fractions without zeros at their end, `Z` for UTC.
pub(super) fn push_rfc3339(time_ns: i64, zone: Option<Tz>, out: &mut Vec<u8>) {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let nanoseconds = time_ns.rem_euclid(SECOND_NS);
    let offset = zone.map_or(0, |zone| offset_s(zone, seconds));
    push_civil(seconds + offset, out);
    if nanoseconds > 0 {
        let mut digits = *b".000000000";
        let mut rest = nanoseconds;
        for digit in digits.iter_mut().skip(1).rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(digits.trim_ascii_end_zeros());
    }
    match zone {
        Some(_) if offset != 0 => push_offset(offset, out),
        // Go writes Z for every zone that is level with UTC.
        _ => out.push(b'Z'),
    }
}

trait TrimZeros {
    /// Without the zeros at the end.
    fn trim_ascii_end_zeros(&self) -> &[u8];
}

impl TrimZeros for [u8] {
    fn trim_ascii_end_zeros(&self) -> &[u8] {
        let kept = self.iter().rposition(|&digit| digit != b'0');
        self.get(..kept.map_or(0, |last| last + 1))
            .unwrap_or_default()
    }
}

/// Seconds by which a zone is ahead of UTC at a moment.
fn offset_s(zone: Tz, seconds: i64) -> i64 {
    DateTime::from_timestamp(seconds, 0).map_or(0, |utc| {
        let offset = zone.offset_from_utc_datetime(&utc.naive_utc());
        i64::from(offset.fix().local_minus_utc())
    })
}

fn push_offset(offset_s: i64, out: &mut Vec<u8>) {
    let minutes = offset_s.abs() / 60;
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    push_two(minutes / 60, out);
    out.push(b':');
    push_two(minutes % 60, out);
}

/// Date and time of seconds since 1970 in the Gregorian calendar: years run from March, so that leap days end them.
fn push_civil(seconds: i64, out: &mut Vec<u8>) {
    let (days, of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    // Days since 0000-03-01; an era of the calendar has 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    push_two(year / 100, out);
    push_two(year % 100, out);
    for (before, part) in [
        (b'-', month),
        (b'-', day),
        (b'T', of_day / 3_600),
        (b':', of_day / 60 % 60),
        (b':', of_day % 60),
    ] {
        out.push(before);
        push_two(part, out);
    }
}

fn push_two(value: i64, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10 % 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}
