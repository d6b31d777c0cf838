//! Times as few ranges.
//!
//! Does: split times where much lies between them; join ranges that touch, or the nearest if they are too many. Does not: know
//! whose times they are.

/// Ranges of one batch in one table: late rows that lie far apart in as many buckets are told apart. Each is a row of five integers
/// in the batch.
pub(super) const RANGES_MAX: usize = 256;

/// The ranges that times up to the last one of interest lie in: split where more than `gap` lies between two of them, at the widest
/// gaps if they are many. New rows mostly lie behind it, and cost one look at each.
pub(in crate::engine) fn spans(times: &[i64], gap: i64, until: i64) -> Vec<(i64, i64)> {
    let of_interest = || times.iter().copied().filter(|time| *time <= until);
    let (Some(first), Some(last)) = (of_interest().min(), of_interest().max()) else {
        return Vec::new();
    };
    if last.abs_diff(first) <= gap.unsigned_abs() {
        return vec![(first, last)];
    }
    let mut sorted: Vec<i64> = of_interest().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for time in sorted {
        match ranges.last_mut() {
            Some((_, end)) if time.abs_diff(*end) <= gap.unsigned_abs() => *end = time,
            _ => ranges.push((time, time)),
        }
    }
    join(ranges, RANGES_MAX)
}

/// Ranges in order, those that overlap or touch as one, and no more than `most`: the nearest are joined.
pub(super) fn join(mut ranges: Vec<(i64, i64)>, most: usize) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    if joined.len() <= most {
        return joined;
    }
    let mut gaps: Vec<(u64, usize)> = joined
        .windows(2)
        .enumerate()
        .filter_map(|(at, pair)| match pair {
            [(_, end), (start, _)] => Some((start.abs_diff(*end), at + 1)),
            _ => None,
        })
        .collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    gaps.truncate(most.saturating_sub(1));
    let starts: std::collections::BTreeSet<usize> = gaps.into_iter().map(|(_, at)| at).collect();
    let mut few: Vec<(i64, i64)> = Vec::new();
    for (at, (first, last)) in joined.into_iter().enumerate() {
        match few.last_mut() {
            Some((_, end)) if !starts.contains(&at) => *end = last,
            _ => few.push((first, last)),
        }
    }
    few
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_split_where_more_than_a_bucket_lies_between() {
        let spans = |times: &[i64]| spans(times, 10, i64::MAX);
        assert_eq!(spans(&[]), vec![]);
        assert_eq!(spans(&[5, 1, 11]), vec![(1, 11)]);
        assert_eq!(
            spans(&[500, 1, 11, 22, 501]),
            vec![(1, 11), (22, 22), (500, 501)]
        );
        assert_eq!(
            super::spans(&[500, 1, 11, 22, 501], 10, 22),
            vec![(1, 11), (22, 22)]
        );
        assert_eq!(super::spans(&[500, 501], 10, 499), vec![]);
        assert_eq!(
            spans(&[i64::MAX, i64::MIN]),
            vec![(i64::MIN, i64::MIN), (i64::MAX, i64::MAX)]
        );
    }

    #[test]
    fn too_many_ranges_are_joined_where_the_gaps_are_narrow() {
        let ranges = vec![(0, 0), (2, 2), (10, 10), (13, 13), (100, 100)];
        assert_eq!(join(ranges.clone(), 3), vec![(0, 2), (10, 13), (100, 100)]);
        assert_eq!(join(ranges, 1), vec![(0, 100)]);
        assert_eq!(join(vec![(5, 9), (1, 4), (2, 3)], 8), vec![(1, 9)]);
    }

    /// Every time lies in a range, and the ranges are apart.
    #[test]
    fn no_time_is_lost() {
        let mut seed = 7u64;
        for round in 0..400 {
            let mut times = Vec::new();
            for _ in 0..round {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                times.push((seed >> 40).cast_signed());
            }
            let ranges = spans(&times, 1_000, i64::MAX);
            assert!(ranges.len() <= RANGES_MAX, "{round}");
            assert!(
                ranges.windows(2).all(|pair| pair[0].1 < pair[1].0),
                "{round}"
            );
            for time in times {
                assert!(
                    ranges
                        .iter()
                        .any(|(first, last)| (*first..=*last).contains(&time))
                );
            }
        }
    }
}
