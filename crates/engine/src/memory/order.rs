//! Sorting rows by (series, time), stable, so that arrival order - LSN order - decides between equals.

/// Digit of the radix sort: 2^11 counters stay in the first-level cache.
const DIGIT_BITS: u32 = 11;

/// The order in which `series` and `times` ascend together; equal rows keep their order.
///
/// A least-significant-digit radix sort over the series ids, then a check of each series' times, which nearly always
/// ascend already.
pub(crate) fn sorted_order(series: &[u32], times: &[i64]) -> Vec<u32> {
    let rows = u32::try_from(series.len()).expect("a run holds less than 2^32 rows");
    let mut order: Vec<u32> = (0..rows).collect();
    let min = series.iter().copied().min().unwrap_or(0);
    let max = series.iter().copied().max().unwrap_or(0);
    if !series.is_sorted() {
        let mut scratch = vec![0u32; order.len()];
        let bits = u32::BITS - (max - min).leading_zeros();
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            radix_pass(series, min, shift, &order, &mut scratch);
            std::mem::swap(&mut order, &mut scratch);
        }
    }
    let series_of = |row: u32| series.get(row as usize).copied().unwrap_or(0);
    let time_of = |row: u32| times.get(row as usize).copied().unwrap_or(0);
    for rows in order.chunk_by_mut(|&a, &b| series_of(a) == series_of(b)) {
        if !rows.is_sorted_by_key(|&row| time_of(row)) {
            rows.sort_by_key(|&row| time_of(row));
        }
    }
    order
}

fn radix_pass(series: &[u32], min: u32, shift: u32, from: &[u32], to: &mut [u32]) {
    const BUCKETS: usize = 1 << DIGIT_BITS;
    let digit = |row: u32| {
        let id = series.get(row as usize).copied().unwrap_or(0) - min;
        (id >> shift) as usize % BUCKETS
    };
    let mut starts = [0u32; BUCKETS];
    for &row in from {
        if let Some(count) = starts.get_mut(digit(row)) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += std::mem::replace(start, sum);
    }
    for &row in from {
        if let Some(start) = starts.get_mut(digit(row)) {
            if let Some(slot) = to.get_mut(*start as usize) {
                *slot = row;
            }
            *start += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sorted_order;

    #[test]
    fn agrees_with_a_stable_comparison_sort() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for (rows, series_max, times_max) in
            [(0, 1, 1), (1, 9, 9), (1000, 10, 5), (5000, 1 << 31, 100)]
        {
            let series: Vec<u32> = (0..rows).map(|_| (next() % series_max) as u32).collect();
            let times: Vec<i64> = (0..rows)
                .map(|_| (next() % times_max) as i64 - 50)
                .collect();
            let mut expected: Vec<u32> = (0..rows as u32).collect();
            expected.sort_by_key(|&row| (series[row as usize], times[row as usize]));
            assert_eq!(sorted_order(&series, &times), expected, "{rows} rows");
        }
    }
}
