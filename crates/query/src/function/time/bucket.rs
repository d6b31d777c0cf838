//! Bucket boundaries: arithmetic on nanoseconds and on the calendar, without Arrow or SQL.

use arrow::array::timezone::Tz;
use nilometer_series::calendar::{add_months, from_local, month, month_start, to_local};
use nilometer_series::{Bucket, Shift as SeriesShift, Width as SeriesWidth, Zone};

/// 2000-01-03T00:00:00Z, a Monday, so that weeks start on Mondays.
pub(crate) const ORIGIN_NS: i128 = 946_857_600_000_000_000;

pub(crate) const DAY_NS: i128 = 86_400_000_000_000;

/// January 2000, in months since the year 0: where months are counted from.
const FIRST_MONTH: i32 = 2000 * 12;

/// No country has set its clocks by more at once than a day (Samoa's, in 2011).
const CLOCKS_SET_NS_MAX: i128 = DAY_NS;

/// How wide a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Nanoseconds, or units of an integer time.
    Fixed(i128),
    /// Calendar months.
    Months(i32),
}

/// How far the edges of the buckets are moved: months of the calendar first, then nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) months: i32,
    pub(crate) fixed: i128,
}

impl Shift {
    fn back(self, time_ns: i128) -> Option<i128> {
        Some(add_months(time_ns, self.months.checked_neg()?)? - self.fixed)
    }

    fn forth(self, time_ns: i128) -> Option<i128> {
        Some(add_months(time_ns, self.months)? + self.fixed)
    }
}

/// Width, and what shifts the edges of the buckets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets {
    pub(crate) width: Width,
    pub(crate) origin: Option<i128>,
    pub(crate) offset: Shift,
    pub(crate) zone: Option<Tz>,
}

impl Buckets {
    /// Calendar months, from January 1970.
    pub(crate) fn months(months: i32) -> Bucket {
        Bucket {
            width: SeriesWidth::Months(months),
            ..Bucket::fixed(1)
        }
    }

    /// The same as the buckets of a series query; `None` = it has none such. The zone is given by its name.
    pub(crate) fn of_series(&self, zone: Option<&str>) -> Option<Bucket> {
        let zone = match zone {
            Some(name) => Some(Zone::of(name)?),
            None => None,
        };
        // In a zone the origin that nobody named is what the clocks show there.
        let by_clocks = |local_ns: i128| match self.zone {
            Some(zone) => from_local(local_ns, zone),
            None => Some(local_ns),
        };
        let offset = SeriesShift {
            months: self.offset.months,
            fixed_ns: i64::try_from(self.offset.fixed).ok()?,
        };
        let (width, origin) = match self.width {
            Width::Fixed(width) => {
                let fixed = i64::try_from(width).ok()?;
                let origin = match self.origin {
                    Some(origin) => origin,
                    None => by_clocks(ORIGIN_NS)?,
                };
                if zone.is_none() && offset.months == 0 {
                    // Where one begins says where all do.
                    let first = (origin + self.offset.fixed).rem_euclid(width);
                    return Some(Bucket {
                        origin_ns: i64::try_from(first).ok()?,
                        ..Bucket::fixed(fixed)
                    });
                }
                (SeriesWidth::Fixed(fixed), origin)
            }
            Width::Months(months) => {
                let origin = match self.origin {
                    Some(origin) => origin,
                    None => by_clocks(month_start(FIRST_MONTH)?)?,
                };
                (SeriesWidth::Months(months), origin)
            }
        };
        Some(Bucket {
            width,
            origin_ns: i64::try_from(origin).ok()?,
            offset,
            zone,
        })
    }

    /// First instants of the buckets from the one of `start_ns` up to, without, `finish_ns`, sorted. `None` if there
    /// are more than `buckets_max`, or some are beyond the calendar.
    pub(crate) fn grid(
        &self,
        start_ns: i128,
        finish_ns: i128,
        buckets_max: usize,
    ) -> Option<Vec<i128>> {
        let shifted = |time_ns: i128| match self.zone {
            Some(zone) => to_local(time_ns, zone),
            None => Some(time_ns),
        };
        let (mut local, _) = self.around_local(shifted(start_ns)?)?;
        // Where clocks are set, buckets of local time may begin at one instant or swap places, by no more than this.
        let slack = self.zone.map_or(0, |_| CLOCKS_SET_NS_MAX);
        let mut grid = Vec::new();
        loop {
            let bucket = match self.zone {
                Some(zone) => from_local(local, zone)?,
                None => local,
            };
            if bucket >= finish_ns + slack {
                break;
            }
            if bucket < finish_ns && grid.last() != Some(&bucket) {
                if grid.len() == buckets_max {
                    return None;
                }
                grid.push(bucket);
            }
            local = match self.width {
                Width::Fixed(width) => local + width,
                Width::Months(months) => {
                    let start = self.offset.back(local)?;
                    self.offset.forth(add_months(start, months)?)?
                }
            };
        }
        grid.sort_unstable();
        grid.dedup();
        Some(grid)
    }

    /// First instant of the bucket of `time_ns` and first instant of the next one, or `None` beyond the calendar.
    /// In a time zone, the second may come too early (never too late): clocks are set in the middle of buckets.
    pub(crate) fn around(&self, time_ns: i128) -> Option<(i128, i128)> {
        let Some(zone) = self.zone else {
            return self.around_local(time_ns);
        };
        let (start, _) = self.around_local(to_local(time_ns, zone)?)?;
        Some((from_local(start, zone)?, time_ns + 1))
    }

    /// The same in the time that the clocks of the zone show.
    fn around_local(&self, unshifted_ns: i128) -> Option<(i128, i128)> {
        let origin = match (self.origin, self.zone) {
            (Some(origin), Some(zone)) => Some(to_local(origin, zone)?),
            (origin, _) => origin,
        };
        let time_ns = self.offset.back(unshifted_ns)?;
        let (start, end) = match self.width {
            Width::Fixed(width) => {
                let start = time_ns - (time_ns - origin.unwrap_or(ORIGIN_NS)).rem_euclid(width);
                (start, start + width)
            }
            Width::Months(width) => {
                let first = origin.map_or(Some(FIRST_MONTH), month)?;
                let start = month(time_ns)?;
                let start = start - (start - first).rem_euclid(width);
                (month_start(start)?, month_start(start + width)?)
            }
        };
        let start = self.offset.forth(start)?;
        // Months have lengths of their own, so where the next bucket starts does not say which times are in this one.
        let end = if self.offset.months == 0 {
            self.offset.forth(end)?
        } else {
            unshifted_ns + 1
        };
        Some((start, end))
    }
}
