//! Buckets of time: fixed widths and calendar months, with an origin, an offset and a time zone.
//!
//! Does: say where the bucket of a time begins and ends, and list the buckets of a range. Does not: hold rows.
//!
//! Fixed widths count from the origin, months from the origin's month; in a zone both are those of the clocks on the wall
//! there. What happens twice when clocks are set back is the second; what never happens is read with the offset from before.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::timezone::Tz;

use crate::calendar::{add_months, from_local, month, month_start, to_local};
use crate::context::Context;
use crate::error::Error;
use crate::long::Asks;

const DAY_NS: i128 = 86_400_000_000_000;

/// No country has set its clocks by more at once than a day (Samoa's, in 2011).
const CLOCKS_SET_NS_MAX: i128 = DAY_NS;

/// How wide a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Nanoseconds, at least 1.
    Fixed(i64),
    /// Calendar months, at least 1.
    Months(i32),
}

/// How far the edges of the buckets are moved: months of the calendar first, then nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shift {
    /// Calendar months.
    pub months: i32,
    /// Nanoseconds.
    pub fixed_ns: i64,
}

/// A time zone, by name or offset.
#[derive(Debug, Clone)]
pub struct Zone {
    name: Arc<str>,
    tz: Tz,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Zone {
    /// A zone by its name in the IANA's list, or an offset such as `+02:00`; `None` = there is none.
    pub fn of(name: &str) -> Option<Self> {
        Some(Self {
            name: Arc::from(name),
            tz: Tz::from_str(name).ok()?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Buckets of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// How wide they are.
    pub width: Width,
    /// A time at which one begins, before the offset is added; of months its month counts. In a zone its local time counts, so
    /// days that begin at midnight there have an origin that is midnight there.
    pub origin_ns: i64,
    /// How far their edges are moved.
    pub offset: Shift,
    /// Whose clocks they follow; `None` = UTC.
    pub zone: Option<Zone>,
}

impl Bucket {
    /// Of a fixed width, from 1970.
    pub fn fixed(width_ns: i64) -> Self {
        Self {
            width: Width::Fixed(width_ns),
            origin_ns: 0,
            offset: Shift::default(),
            zone: None,
        }
    }

    /// Whether each bucket has the times from its start to the start of the next, and no others.
    pub fn is_contiguous(&self) -> bool {
        self.zone.is_none() && self.offset.months == 0
    }

    /// First instant of the bucket of a time, and a time up to which, without it, all times are in the same bucket.
    pub(crate) fn around(&self, time_ns: i64) -> (i64, i64) {
        let next = time_ns.saturating_add(1);
        let Some((start, end)) = self.exact(i128::from(time_ns)) else {
            // Beyond the calendar: all of it is one bucket.
            return (i64::MIN, next);
        };
        (clamped(start), clamped(end))
    }

    fn exact(&self, time_ns: i128) -> Option<(i128, i128)> {
        let Some(zone) = &self.zone else {
            return self.around_local(time_ns, i128::from(self.origin_ns));
        };
        let origin = to_local(i128::from(self.origin_ns), zone.tz)?;
        let (start, _) = self.around_local(to_local(time_ns, zone.tz)?, origin)?;
        // Clocks are set in the middle of buckets, so only this time is known to be in it.
        Some((from_local(start, zone.tz)?, time_ns + 1))
    }

    /// The same in the time that the clocks show.
    fn around_local(&self, unshifted_ns: i128, origin_ns: i128) -> Option<(i128, i128)> {
        let time_ns = self.back(unshifted_ns)?;
        let (start, end) = match self.width {
            Width::Fixed(width) => {
                let width = i128::from(width);
                let start = time_ns - (time_ns - origin_ns).rem_euclid(width);
                (start, start + width)
            }
            Width::Months(width) => {
                let start = month(time_ns)?;
                let start = start - (start - month(origin_ns)?).rem_euclid(width);
                (month_start(start)?, month_start(start + width)?)
            }
        };
        // Months have lengths of their own, so where the next bucket starts does not say which times are in this one.
        let end = if self.offset.months == 0 {
            self.forth(end)?
        } else {
            unshifted_ns + 1
        };
        Some((self.forth(start)?, end))
    }

    fn back(&self, time_ns: i128) -> Option<i128> {
        let moved = add_months(time_ns, self.offset.months.checked_neg()?)?;
        Some(moved - i128::from(self.offset.fixed_ns))
    }

    fn forth(&self, time_ns: i128) -> Option<i128> {
        let moved = add_months(time_ns, self.offset.months)?;
        Some(moved + i128::from(self.offset.fixed_ns))
    }

    /// How many buckets a range has, about, without listing them.
    pub(crate) fn count(&self, first_ns: i64, last_ns: i64) -> u64 {
        let width = match self.width {
            Width::Fixed(width) => i128::from(width.max(1)),
            // The shortest month.
            Width::Months(months) => i128::from(months.max(1)) * 28 * DAY_NS,
        };
        let length = (i128::from(last_ns) - i128::from(first_ns)).max(0);
        u64::try_from(length / width + 1).unwrap_or(u64::MAX)
    }

    /// First instants of the buckets that have a time from the first to the last, both included, ascending. `None` = some
    /// are beyond the calendar.
    pub(crate) fn grid(
        &self,
        first_ns: i64,
        last_ns: i64,
        context: &Context,
    ) -> Result<Option<Vec<i64>>, Error> {
        let asks = &mut Asks::of(context);
        self.grid_asking(first_ns, last_ns, asks).transpose()
    }

    fn grid_asking(
        &self,
        first_ns: i64,
        last_ns: i64,
        asks: &mut Asks<'_>,
    ) -> Option<Result<Vec<i64>, Error>> {
        let (first, last) = (i128::from(first_ns), i128::from(last_ns));
        let shifted = |time_ns: i128| match &self.zone {
            Some(zone) => to_local(time_ns, zone.tz),
            None => Some(time_ns),
        };
        let origin = shifted(i128::from(self.origin_ns))?;
        let (mut local, _) = self.around_local(shifted(first)?, origin)?;
        // Where clocks are set, buckets may begin at one instant or swap places, by no more than this.
        let slack = self.zone.as_ref().map_or(0, |_| CLOCKS_SET_NS_MAX);
        let mut grid = Vec::new();
        loop {
            if let Err(ended) = asks.rows(1) {
                return Some(Err(ended));
            }
            let start = match &self.zone {
                Some(zone) => from_local(local, zone.tz)?,
                None => local,
            };
            if start > last + slack {
                break;
            }
            if start <= last {
                grid.push(clamped(start));
            }
            local = match self.width {
                Width::Fixed(width) => local + i128::from(width),
                Width::Months(months) => {
                    let start = self.back(local)?;
                    self.forth(add_months(start, months)?)?
                }
            };
        }
        grid.sort_unstable();
        grid.dedup();
        Some(Ok(grid))
    }
}

fn clamped(time_ns: i128) -> i64 {
    i64::try_from(time_ns).unwrap_or(if time_ns < 0 { i64::MIN } else { i64::MAX })
}
