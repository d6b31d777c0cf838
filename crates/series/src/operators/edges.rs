//! Edges of buckets, for rows one after another.
//!
//! Does: say it in few steps where buckets are of one width. Does not: know calendars (`bucket` does).

use std::ops::Range;

use crate::bucket::{Bucket, Width};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Times that are far enough from the ends of time that a bucket around them ends before those.
const FAR_NS: i64 = 1 << 62;

/// The buckets of a query.
#[derive(Debug)]
pub(super) struct Edges<'a> {
    bucket: Option<&'a Bucket>,
    /// Of buckets of one width: when one starts, and the width.
    fixed: Option<(i64, i64)>,
    /// When the one bucket of a query without buckets starts.
    only_start: i64,
}

impl<'a> Edges<'a> {
    pub(super) fn new(bucket: Option<&'a Bucket>, only_start: i64) -> Self {
        let fixed = bucket.and_then(|bucket| {
            let Width::Fixed(width) = bucket.width else {
                return None;
            };
            let first = bucket.origin_ns.checked_add(bucket.offset.fixed_ns)?;
            let is_near = first.checked_abs()? < FAR_NS && width < FAR_NS / 2;
            (bucket.is_contiguous() && is_near).then_some((first.rem_euclid(width), width))
        });
        Self {
            bucket,
            fixed,
            only_start,
        }
    }

    /// First instant of the bucket of a time, and a time up to which, without it, all later times are in the same bucket.
    pub(super) fn around(&self, time: i64) -> (i64, i64) {
        if let Some((first, width)) = self.fixed
            && -FAR_NS < time
            && time < FAR_NS
        {
            let start = time - (time - first).rem_euclid(width);
            return (start, start + width);
        }
        match self.bucket {
            Some(bucket) => bucket.around(time),
            None => (self.only_start, i64::MAX),
        }
    }

    /// Rows that stand together and are of one group and bucket, with its group and start.
    pub(super) fn runs(
        &self,
        groups: &[u32],
        times: &[i64],
    ) -> impl Iterator<Item = ((u32, i64), Range<usize>)> {
        let mut row = 0;
        std::iter::from_fn(move || {
            let (&group, &time) = (groups.get(row)?, times.get(row)?);
            let (start, until) = self.around(time);
            let mut before = time;
            let is_same = |at: &usize| {
                let later = times.get(*at).copied().unwrap_or(i64::MIN);
                let is_same = groups.get(*at) == Some(&group)
                    && before <= later
                    && (later < until || later == time);
                before = later;
                is_same
            };
            let end = row + 1 + (row + 1..times.len()).take_while(is_same).count();
            let run = row..end;
            row = end;
            Some(((group, start), run))
        })
    }

    /// Whether the times from one to another are in one bucket.
    pub(super) fn is_one(&self, first: i64, last: i64) -> bool {
        self.bucket.is_none() || first == last || last < self.around(first).1
    }

    /// Whether a bucket may have a whole hour.
    pub(super) fn takes_hours(&self) -> bool {
        self.bucket.is_none_or(|bucket| match bucket.width {
            Width::Fixed(width) => bucket.is_contiguous() && width >= HOUR_NS,
            Width::Months(_) => bucket.is_contiguous(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Shift;

    #[test]
    fn the_short_way_finds_the_buckets_of_the_long_one() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.cast_signed()
        };
        for _ in 0..2000 {
            let bucket = Bucket {
                origin_ns: next() >> (next() & 63),
                offset: Shift {
                    months: 0,
                    fixed_ns: next() >> (1 + (next() & 31)),
                },
                ..Bucket::fixed((next() >> (next() & 63)).saturating_abs().max(1))
            };
            let edges = Edges::new(Some(&bucket), 0);
            for _ in 0..20 {
                let time = next() >> (next() & 63);
                assert_eq!(edges.around(time), bucket.around(time), "{bucket:?} {time}");
            }
        }
    }
}
