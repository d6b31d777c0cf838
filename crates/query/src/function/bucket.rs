//! Where a bucket of time begins: arithmetic on nanoseconds and on the calendar, without Arrow or SQL.

use arrow::array::timezone::Tz;
use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone};

/// 2000-01-03T00:00:00Z, a Monday, so that weeks start on Mondays.
pub(crate) const ORIGIN_NS: i128 = 946_857_600_000_000_000;

pub(super) const DAY_NS: i128 = 86_400_000_000_000;

/// How wide a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Nanoseconds, or units of an integer time.
    Fixed(i128),
    /// Calendar months.
    Months(i32),
}

/// Width, and what shifts the edges of the buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    pub(super) width: Width,
    pub(super) origin: Option<i128>,
    pub(super) offset: i128,
    pub(super) zone: Option<Tz>,
}

impl Buckets {
    /// First instant of the bucket of `time_ns` and first instant of the next one, or `None` beyond the calendar.
    /// In a time zone, the second may come too early (never too late): clocks are set in the middle of buckets.
    pub(super) fn around(&self, time_ns: i128) -> Option<(i128, i128)> {
        let Some(zone) = self.zone else {
            let (start, end) = self.around_local(time_ns, self.origin)?;
            return Some((start, end));
        };
        let origin = match self.origin {
            Some(origin) => Some(to_local(origin, zone)?),
            None => None,
        };
        let (start, _) = self.around_local(to_local(time_ns, zone)?, origin)?;
        Some((from_local(start, zone)?, time_ns + 1))
    }

    fn around_local(&self, time_ns: i128, origin: Option<i128>) -> Option<(i128, i128)> {
        let time_ns = time_ns - self.offset;
        let (start, end) = match self.width {
            Width::Fixed(width) => {
                let start = time_ns - (time_ns - origin.unwrap_or(ORIGIN_NS)).rem_euclid(width);
                (start, start + width)
            }
            Width::Months(width) => {
                let first = origin.map_or(Some(2000 * 12), month)?;
                let start = month(time_ns)?;
                let start = start - (start - first).rem_euclid(width);
                (month_start(start)?, month_start(start + width)?)
            }
        };
        Some((start + self.offset, end + self.offset))
    }
}

/// The civil time of an instant, without a zone.
fn civil(time_ns: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(time_ns.div_euclid(1_000_000_000)).ok()?;
    let nanoseconds = u32::try_from(time_ns.rem_euclid(1_000_000_000)).ok()?;
    Some(DateTime::from_timestamp(seconds, nanoseconds)?.naive_utc())
}

fn nanoseconds(civil: NaiveDateTime) -> i128 {
    let utc = civil.and_utc();
    i128::from(utc.timestamp()) * 1_000_000_000 + i128::from(utc.timestamp_subsec_nanos())
}

/// Months since the year 0.
fn month(time_ns: i128) -> Option<i32> {
    let civil = civil(time_ns)?;
    Some(civil.year() * 12 + i32::try_from(civil.month0()).ok()?)
}

fn month_start(month: i32) -> Option<i128> {
    let of_year = u32::try_from(month.rem_euclid(12)).ok()? + 1;
    let date = NaiveDate::from_ymd_opt(month.div_euclid(12), of_year, 1)?;
    Some(nanoseconds(date.and_hms_opt(0, 0, 0)?))
}

fn to_local(time_ns: i128, zone: Tz) -> Option<i128> {
    let offset = zone.offset_from_utc_datetime(&civil(time_ns)?).fix();
    Some(time_ns + i128::from(offset.local_minus_utc()) * 1_000_000_000)
}

/// The instant of a local time. What happens twice (clocks set back) is the second; what never happens (set forward)
/// is read with the offset from before, as `PostgreSQL` does both.
fn from_local(local_ns: i128, zone: Tz) -> Option<i128> {
    let local = civil(local_ns)?;
    let offset = match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) => offset.fix(),
        MappedLocalTime::Ambiguous(first, second) => {
            let (first, second) = (first.fix(), second.fix());
            if first.local_minus_utc() < second.local_minus_utc() {
                first
            } else {
                second
            }
        }
        MappedLocalTime::None => {
            let day_before = local.checked_sub_signed(chrono::TimeDelta::days(1))?;
            zone.offset_from_local_datetime(&day_before)
                .earliest()?
                .fix()
        }
    };
    Some(local_ns - i128::from(offset.local_minus_utc()) * 1_000_000_000)
}
