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
    let moment = Moment::of(time_ns, zone);
    push_date(moment.day, out);
    moment.push_clock(out);
}

/// A time by its day and clock where it is shown.
struct Moment {
    day: i64,
    second_of_day: i64,
    nanosecond: i64,
    offset_s: i64,
}

impl Moment {
    fn of(time_ns: i64, zone: Option<Tz>) -> Self {
        let seconds = time_ns.div_euclid(SECOND_NS);
        let offset_s = zone.map_or(0, |zone| offset_s(zone, seconds));
        let local = seconds + offset_s;
        Self {
            day: local.div_euclid(DAY_S),
            second_of_day: local.rem_euclid(DAY_S),
            nanosecond: time_ns.rem_euclid(SECOND_NS),
            offset_s,
        }
    }

    /// Appends what comes after the date.
    fn push_clock(&self, out: &mut Vec<u8>) {
        let [hour, minute, second] = [
            self.second_of_day / 3_600,
            self.second_of_day / 60 % 60,
            self.second_of_day % 60,
        ]
        .map(two);
        let parts = [
            [b'T', hour[0], hour[1]],
            [b':', minute[0], minute[1]],
            [b':', second[0], second[1]],
        ];
        out.extend_from_slice(parts.as_flattened());
        if self.nanosecond > 0 {
            let mut digits = *b".000000000";
            let mut rest = self.nanosecond;
            for digit in digits.iter_mut().skip(1).rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            out.extend_from_slice(digits.trim_ascii_end_zeros());
        }
        // Go writes Z for every zone that is level with UTC.
        if self.offset_s == 0 {
            out.push(b'Z');
        } else {
            push_offset(self.offset_s, out);
        }
    }
}

/// The text of a time, with quotes, as long as rows have the same one, and its date as long as they have the same day.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    time_ns: i64,
    day: i64,
    /// Empty = there was none yet.
    text: Vec<u8>,
}

/// A quote and the date, of which the year has four digits.
const DATE_BYTES: usize = 11;

impl Stamp {
    /// Appends the text of a time. All times of it have one zone.
    #[inline]
    pub(super) fn push(&mut self, time_ns: i64, zone: Option<Tz>, out: &mut Vec<u8>) {
        if time_ns != self.time_ns || self.text.is_empty() {
            self.set(time_ns, zone);
        }
        out.extend_from_slice(&self.text);
    }

    fn set(&mut self, time_ns: i64, zone: Option<Tz>) {
        let moment = Moment::of(time_ns, zone);
        self.text.truncate(DATE_BYTES);
        if self.text.is_empty() || self.day != moment.day {
            self.text.clear();
            self.text.push(b'"');
            push_date(moment.day, &mut self.text);
        }
        moment.push_clock(&mut self.text);
        self.text.push(b'"');
        (self.time_ns, self.day) = (time_ns, moment.day);
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
    out.extend_from_slice(&two(minutes / 60));
    out.push(b':');
    out.extend_from_slice(&two(minutes % 60));
}

/// The date of a day since 1970 in the Gregorian calendar: years run from March, so that leap days end them.
fn push_date(day: i64, out: &mut Vec<u8>) {
    // Days since 0000-03-01; an era of the calendar has 400 years.
    let shifted = day + 719_468;
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
    out.extend_from_slice([two(year / 100), two(year % 100)].as_flattened());
    for part in [month, day] {
        out.push(b'-');
        out.extend_from_slice(&two(part));
    }
}

fn two(value: i64) -> [u8; 2] {
    [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]
}
