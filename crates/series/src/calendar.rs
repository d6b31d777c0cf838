//! Calendar and time zones: months, and the clocks on the wall, in nanoseconds since 1970.
//!
//! `None` = beyond what the calendar has.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone};

const SECOND_NS: i128 = 1_000_000_000;

/// The civil time of an instant, without a zone.
fn civil(time_ns: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(time_ns.div_euclid(SECOND_NS)).ok()?;
    let nanoseconds = u32::try_from(time_ns.rem_euclid(SECOND_NS)).ok()?;
    Some(DateTime::from_timestamp(seconds, nanoseconds)?.naive_utc())
}

fn nanoseconds(civil: NaiveDateTime) -> i128 {
    let utc = civil.and_utc();
    i128::from(utc.timestamp()) * SECOND_NS + i128::from(utc.timestamp_subsec_nanos())
}

/// The month of an instant, in months since the year 0.
pub fn month(time_ns: i128) -> Option<i32> {
    let civil = civil(time_ns)?;
    Some(civil.year() * 12 + i32::try_from(civil.month0()).ok()?)
}

/// The instant at which a month begins, in months since the year 0.
pub fn month_start(month: i32) -> Option<i128> {
    let of_year = u32::try_from(month.rem_euclid(12)).ok()? + 1;
    let date = NaiveDate::from_ymd_opt(month.div_euclid(12), of_year, 1)?;
    Some(nanoseconds(date.and_hms_opt(0, 0, 0)?))
}

/// As `PostgreSQL` adds months: the day of the month stays, or becomes the month's last.
pub fn add_months(time_ns: i128, months: i32) -> Option<i128> {
    if months == 0 {
        return Some(time_ns);
    }
    let civil = civil(time_ns)?;
    let count = chrono::Months::new(months.unsigned_abs());
    let moved = if months > 0 {
        civil.checked_add_months(count)?
    } else {
        civil.checked_sub_months(count)?
    };
    Some(nanoseconds(moved))
}

/// What the clocks of a zone show at an instant, as if it were UTC.
pub fn to_local(time_ns: i128, zone: Tz) -> Option<i128> {
    let offset = zone.offset_from_utc_datetime(&civil(time_ns)?).fix();
    Some(time_ns + i128::from(offset.local_minus_utc()) * SECOND_NS)
}

/// The instant of a local time. What happens twice (clocks set back) is the second; what never happens (set forward)
/// is read with the offset from before, as `PostgreSQL` does both.
pub fn from_local(local_ns: i128, zone: Tz) -> Option<i128> {
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
    Some(local_ns - i128::from(offset.local_minus_utc()) * SECOND_NS)
}
