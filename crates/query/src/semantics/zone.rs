//! Times as text in a time zone: how a statement's literals are read.
//!
//! Does: read a date, a time of day down to minutes or nanoseconds, and an offset or the name of a zone, in ISO 8601 or else as
//! PostgreSQL reads them (the engine's `spelled`); say on which side of all times one lies that is too far away. Does not: read UUIDs (`function::text_time`), or files of other programs.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use chrono::{Datelike, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

use nilometer_engine::{Spelled, SpelledZone, spelled};

use crate::error::Error;

/// Nanoseconds of a second.
const SECOND_NS: i128 = 1_000_000_000;

/// The zone of a session that names none.
const UTC: &str = "UTC";

/// What is tried of the clock around a gap: no zone ever left out more than a day.
const GAP_MAX: Duration = Duration::days(1);

/// A time zone, by name or offset.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    name: Arc<str>,
    tz: Tz,
}

/// When a text says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instant {
    /// Unix nanoseconds.
    At(i64),
    /// Before all times that are kept.
    Before,
    /// After all of them.
    After,
}

impl Default for Zone {
    fn default() -> Self {
        Self {
            name: Arc::from(UTC),
            tz: Tz::from_str("+00:00").expect("an offset of hours and minutes"),
        }
    }
}

impl Zone {
    /// A zone by its name in the IANA's list, or an offset such as `+02:00`.
    pub(crate) fn of(name: &str) -> Result<Self, Error> {
        let name = name.trim();
        if name.eq_ignore_ascii_case(UTC) || name.eq_ignore_ascii_case("z") {
            return Ok(Self::default());
        }
        match Tz::from_str(name) {
            Ok(tz) => Ok(Self {
                name: Arc::from(name),
                tz,
            }),
            Err(_) => Err(Error::Plan {
                message: format!(
                    "unknown time zone \"{name}\": write a name such as Europe/Berlin or an offset such as +02:00"
                ),
                position: None,
            }),
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn is_utc(&self) -> bool {
        &*self.name == UTC
    }

    /// Whether its clock is off by whole hours, as far as this century's first days say.
    pub(crate) fn has_whole_hours(&self) -> bool {
        const NEW_YEAR_2001_NS: i64 = 978_307_200_000_000_000;
        let clock = self.clock(NEW_YEAR_2001_NS);
        clock.is_some_and(|ns| ns % 3_600_000_000_000 == 0)
    }

    /// The time that a text says, in this zone where it does not name one; or why it is none.
    pub(crate) fn read(&self, text: &str) -> Result<Instant, String> {
        self.read_iso(text).or_else(|why| {
            let read = spelled(text).and_then(|read| self.instant_of(read));
            read.ok_or_else(|| self.refusal(text, why))
        })
    }

    fn read_iso(&self, text: &str) -> Result<Instant, &'static str> {
        let (local, zone) = match split(text)? {
            Said::Time(local, zone) => (local, zone),
            Said::Beyond(instant) => return Ok(instant),
        };
        let tz = match zone {
            "" => self.tz,
            "Z" | "z" | "GMT" => Self::default().tz,
            named => Tz::from_str(named).map_err(|_| "its time zone is not known")?,
        };
        Ok(instant_at(utc(local, tz)))
    }

    /// When it is that another spelling says; `None` = its zone is not known.
    fn instant_of(&self, read: Spelled<'_>) -> Option<Instant> {
        let tz = match read.zone {
            SpelledZone::Offset(east) => return Some(instant_east(read, i128::from(east))),
            SpelledZone::Unsaid => self.tz,
            SpelledZone::Name(name) => Tz::from_str(name).ok()?,
        };
        Some(match clock_of(read) {
            Ok(local) => instant_at(utc(local, tz)),
            Err(beyond) => beyond,
        })
    }

    /// The same of a time without a zone: what the clock on the wall shows, whatever offset the text has.
    pub(crate) fn read_clock(text: &str) -> Result<Instant, String> {
        let utc = Self::default();
        match split(text) {
            Ok(Said::Time(local, _)) => Ok(instant_at(local)),
            Ok(Said::Beyond(instant)) => Ok(instant),
            Err(why) => match spelled(text) {
                Some(read) => Ok(instant_east(read, 0)),
                None => Err(utc.refusal(text, why)),
            },
        }
    }

    /// The instant at which the clock on the wall of this zone shows a time.
    pub(crate) fn instant(&self, clock_ns: i64) -> Instant {
        let local = chrono::DateTime::from_timestamp_nanos(clock_ns).naive_utc();
        let time = utc(local, self.tz);
        match time.and_utc().timestamp_nanos_opt() {
            Some(ns) => Instant::At(ns),
            None if clock_ns < 0 => Instant::Before,
            None => Instant::After,
        }
    }

    /// What the clock on the wall of this zone shows at an instant; `None` = a time that is not kept.
    pub(crate) fn clock(&self, instant_ns: i64) -> Option<i64> {
        let time = chrono::DateTime::from_timestamp_nanos(instant_ns).naive_utc();
        let local = self.tz.from_utc_datetime(&time).naive_local();
        local.and_utc().timestamp_nanos_opt()
    }

    fn refusal(&self, text: &str, why: &str) -> String {
        format!(
            "'{text}' is no time: {why}; write it as '2026-01-31 12:00:00', with Z or an offset such as +01:00 where it is not in {}",
            self.name
        )
    }
}

/// The instant of a time in UTC.
fn instant_at(time: NaiveDateTime) -> Instant {
    match time.and_utc().timestamp_nanos_opt() {
        Some(ns) => Instant::At(ns),
        None if time.and_utc().timestamp() < 0 => Instant::Before,
        None => Instant::After,
    }
}

/// The instant at which a clock so many seconds east of UTC shows a time.
fn instant_east(read: Spelled<'_>, east: i128) -> Instant {
    let seconds = i128::from(read.days) * 86_400 - east;
    let ns = seconds * SECOND_NS + i128::from(read.ns);
    match i64::try_from(ns) {
        Ok(ns) => Instant::At(ns),
        Err(_) if ns < 0 => Instant::Before,
        Err(_) => Instant::After,
    }
}

/// What the clock shows, or on which side of the calendar that is.
fn clock_of(read: Spelled<'_>) -> Result<NaiveDateTime, Instant> {
    let midnight = read.days.checked_mul(86_400);
    let midnight = midnight.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    let time = midnight.and_then(|it| {
        it.naive_utc()
            .checked_add_signed(Duration::nanoseconds(read.ns))
    });
    time.ok_or(if read.days < 0 {
        Instant::Before
    } else {
        Instant::After
    })
}

/// What a time says that is further away than any that is kept.
pub(crate) fn beyond(text: &str) -> String {
    format!(
        "'{text}' is beyond the times there are, which are 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z"
    )
}

/// What a text says, before any zone.
enum Said<'a> {
    /// What the clock shows, and the zone or offset that is named.
    Time(NaiveDateTime, &'a str),
    Beyond(Instant),
}

fn split(text: &str) -> Result<Said<'_>, &'static str> {
    let text = text.trim();
    match text {
        "infinity" | "+infinity" => return Ok(Said::Beyond(Instant::After)),
        "-infinity" => return Ok(Said::Beyond(Instant::Before)),
        _ => {}
    }
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (day, rest) = text.split_at(end);
    let day = date(day)?;
    let rest = rest.get(1..).unwrap_or_default().trim_start();
    if rest.is_empty() {
        return Ok(Said::Time(day.and_time(NaiveTime::MIN), ""));
    }
    let is_of_clock = |letter: char| letter.is_ascii_digit() || matches!(letter, ':' | '.');
    let end = rest
        .find(|letter| !is_of_clock(letter))
        .unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(end);
    let zone = zone.trim();
    let zone = if zone.eq_ignore_ascii_case(UTC) {
        "Z"
    } else {
        zone
    };
    if is_end_of_day(clock) {
        // The last day of the calendar is far from all times.
        let next = day.succ_opt().unwrap_or(day);
        return Ok(Said::Time(next.and_time(NaiveTime::MIN), zone));
    }
    let clock = time_of_day(clock).ok_or("its time of day is none")?;
    Ok(Said::Time(day.and_time(clock), zone))
}

fn date(text: &str) -> Result<NaiveDate, &'static str> {
    const NO_DATE: &str = "it does not begin with a date";
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NO_DATE);
    };
    let digits = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.parse::<u32>().ok();
        number.filter(|_| is_number && lengths.contains(&part.len()))
    };
    let (Some(year), Some(month), Some(day)) = (
        digits(year, 4..=6),
        digits(month, 1..=2),
        digits(day, 1..=2),
    ) else {
        return Err(NO_DATE);
    };
    // A year after the end of the calendar is after all times, as its last one is.
    let year = i32::try_from(year).map_or(NaiveDate::MAX.year(), |year| {
        year.min(NaiveDate::MAX.year())
    });
    NaiveDate::from_ymd_opt(year, month, day).ok_or("there is no such day")
}

/// `24:00`, which is the next midnight, and nothing after it.
fn is_end_of_day(clock: &str) -> bool {
    let is_24 = clock.strip_prefix("24");
    is_24.is_some_and(|rest| {
        let is_zero = rest.bytes().all(|byte| matches!(byte, b'0' | b':' | b'.'));
        is_zero && time_of_day(&format!("00{rest}")).is_some()
    })
}

/// `05:00`, `05:00:07`, `05:00:07.25`, or the same without colons.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let has_point = text.contains('.');
    let mut parts = [0u32; 3];
    let number = |part: &str| {
        let is_number = part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| is_number)
    };
    let count = if clock.contains(':') {
        let mut count = 0;
        for part in clock.split(':') {
            *parts.get_mut(count)? = number(part)?;
            count += 1;
        }
        count
    } else if matches!(clock.len(), 4 | 6) {
        for (at, slot) in parts.iter_mut().take(clock.len() / 2).enumerate() {
            *slot = number(clock.get(at * 2..at * 2 + 2)?)?;
        }
        clock.len() / 2
    } else {
        return None;
    };
    if has_point && (count < 3 || fraction.is_empty()) {
        return None;
    }
    // Digits after the nanoseconds are cut off.
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0u32, |sum, digit| {
        sum.wrapping_mul(10) + u32::from(digit.wrapping_sub(b'0') % 10)
    });
    let [hour, minute, second] = parts;
    match second {
        // A leap second is the moment after the last one before it.
        60 => NaiveTime::from_hms_nano_opt(hour, minute, 59, 1_000_000_000 + nanos),
        second => NaiveTime::from_hms_nano_opt(hour, minute, second, nanos),
    }
}

/// The time in UTC at which a zone's clock shows this one. Where the clock is set back it shows an hour twice: the second
/// one is meant, in standard time; where it is set forward the hour that it leaves out goes on by the clock before. So
/// `PostgreSQL` has it.
fn utc(local: NaiveDateTime, tz: Tz) -> NaiveDateTime {
    match tz.from_local_datetime(&local) {
        LocalResult::Single(time) | LocalResult::Ambiguous(_, time) => time.naive_utc(),
        LocalResult::None => {
            let before = local.checked_sub_signed(GAP_MAX).unwrap_or(local);
            let before = tz.from_local_datetime(&before).latest();
            let passed = before.and_then(|it| it.naive_utc().checked_add_signed(GAP_MAX));
            // There is none at the ends of the calendar, which are far from all times.
            passed.unwrap_or(local)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: i64 = 1_000_000_000;

    fn at(zone: &str, text: &str) -> Option<i64> {
        match Zone::of(zone).unwrap().read(text) {
            Ok(Instant::At(ns)) => Some(ns),
            Ok(other) => panic!("{text}: {other:?}"),
            Err(_) => None,
        }
    }

    /// Expected seconds are those of `date -u -d TEXT +%s`.
    #[test]
    fn what_people_write_is_a_time() {
        for (text, seconds) in [
            ("2024-01-01", 1_704_067_200),
            ("2024-1-1", 1_704_067_200),
            ("2024-01-01 05:00", 1_704_085_200),
            ("2024-01-01T05:00", 1_704_085_200),
            (" 2024-01-01  05:00:00 ", 1_704_085_200),
            ("2024-01-01t05:00:00z", 1_704_085_200),
            ("2024-01-01 05:00Z", 1_704_085_200),
            ("2024-01-01 05:00 UTC", 1_704_085_200),
            ("2024-01-01 05:00+01", 1_704_081_600),
            ("2024-01-01 05:00 -01:30", 1_704_090_600),
            ("2024-01-01 0500", 1_704_085_200),
            ("2024-01-01 050000+01:00", 1_704_081_600),
            ("2024-07-01 05:00 Europe/Berlin", 1_719_802_800),
            ("1969-12-31 23:59", -60),
            // The midnight at its end, as PostgreSQL has it.
            ("2024-01-01 24:00", 1_704_153_600),
            ("2024-12-31T24:00:00.000Z", 1_735_689_600),
            ("2024-01-01 2400+01:00", 1_704_150_000),
        ] {
            assert_eq!(at("UTC", text), Some(seconds * NS), "{text}");
        }
        // PostgreSQL's other spellings.
        for (text, seconds) in [
            ("2024-01-01Z", 1_704_067_200),
            ("2024-01-01 5:00:00+1", 1_704_081_600),
            ("Mon Jan 01 05:00:00 2024 PST", 1_704_114_000),
            ("2024/1/1 5:00 AM", 1_704_085_200),
            ("Jan 1 2024 05:00 Europe/Berlin", 1_704_081_600),
        ] {
            assert_eq!(at("UTC", text), Some(seconds * NS), "{text}");
        }
        assert_eq!(
            at("Europe/Berlin", "1/1/2024 5:00"),
            Some(1_704_081_600 * NS)
        );
        let fraction = at("UTC", "1970-01-01 00:00:01.2500000019");
        assert_eq!(fraction, Some(1_250_000_001));
        for text in [
            "",
            "x",
            "2024",
            "2024-01",
            "2024-13-01",
            "2024-02-30",
            "2024-01-01 25:00",
            "2024-01-01 24:01",
            "2024-01-01 24:00:00.5",
            "2024-01-01 24",
            "2024-01-01 05",
            "2024-01-01 05:00.5",
            "2024-01-01 05:00:00.",
            "2024-01-01 05:00 Mars",
            "05:00",
            "+2024-01-01",
            "2024-01-01 ::",
            "2024-01-01 1:2:3:4",
            "2024-01-01 05:61",
        ] {
            assert_eq!(at("UTC", text), None, "{text}");
        }
    }

    /// Expected seconds are those of `TZ=Europe/Berlin date -d TEXT +%s`, and of `PostgreSQL` 17 at the changes of the clock.
    #[test]
    fn a_time_without_offset_is_in_the_sessions_zone() {
        for (text, seconds) in [
            ("2024-01-01", 1_704_063_600),
            ("2024-07-01 05:00", 1_719_802_800),
            ("2024-07-01 05:00Z", 1_719_810_000),
            // Left out: from 02:00 to 03:00 of that night.
            ("2024-03-31 02:30", 1_711_848_600),
            // There twice: the second one.
            ("2024-10-27 02:30", 1_729_992_600),
        ] {
            assert_eq!(at("Europe/Berlin", text), Some(seconds * NS), "{text}");
        }
        assert_eq!(at("+05:30", "1970-01-01 05:30"), Some(0));
        assert!(Zone::of("Europe/Berlim").is_err());
    }

    #[test]
    fn what_is_too_far_away_is_on_a_side() {
        let utc = Zone::default();
        for (text, side) in [
            ("2262-04-11T23:47:16.854775807Z", Instant::At(i64::MAX)),
            ("2262-04-11T23:47:16.854775808Z", Instant::After),
            ("2300-01-01", Instant::After),
            ("999999-01-01", Instant::After),
            ("infinity", Instant::After),
            ("1677-09-21T00:12:43.145224192Z", Instant::At(i64::MIN)),
            ("1677-09-21T00:12:43.145224191Z", Instant::Before),
            ("0001-01-01", Instant::Before),
            ("-infinity", Instant::Before),
        ] {
            assert_eq!(utc.read(text), Ok(side), "{text}");
        }
    }
}
