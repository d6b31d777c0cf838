//! Extremes of values, and planning for values that are near each other: as 16-bit numbers eight are compared or counted at a
//! time.
//!
//! Does: give the extremes and the counts that a plan is made from. Does not: decide anything, or give other numbers
//! than the slower way in `integer.rs` and `patch.rs`.

use crate::BLOCK_ROWS_MAX;

/// Fewest values for which it pays to narrow them.
pub(super) const ROWS_MIN: usize = 64;

/// How far from the first value others may be, so that any difference of two fits 16 bits.
const REACH: i64 = 1 << 14;

/// Values looked at before the next ones: wide ones are found out soon.
const GLANCE: usize = 64;

/// Room for one 16-bit number of every value.
pub(super) type Room<T> = [T; BLOCK_ROWS_MAX];

/// The values minus the first one, or `None` if one of them is too far from it.
pub(super) fn narrow<'a>(values: &[i64], room: &'a mut Room<i16>) -> Option<&'a [i16]> {
    let first = values[0];
    for (narrow, values) in room.chunks_mut(GLANCE).zip(values.chunks(GLANCE)) {
        let mut union = 0;
        for (narrow, value) in narrow.iter_mut().zip(values) {
            let from_first = value.wrapping_sub(first);
            union |= from_first.wrapping_add(REACH) as u64;
            *narrow = from_first as i16;
        }
        if union >= 2 * REACH as u64 {
            return None;
        }
    }
    Some(&room[..values.len()])
}

/// The extremes of values and of differences between neighbours.
pub(super) struct Extremes {
    pub(super) value_min: i64,
    pub(super) value_max: i64,
    pub(super) delta_min: i64,
    pub(super) delta_max: i64,
}

impl Extremes {
    pub(super) fn of(values: &[i64]) -> Self {
        let first = values[0];
        let first_delta = values.get(1).map_or(0, |second| second.wrapping_sub(first));
        let start = Self {
            value_min: first,
            value_max: first,
            delta_min: first_delta,
            delta_max: first_delta,
        };
        values.array_windows().fold(start, |so_far, [a, b]| {
            let delta = b.wrapping_sub(*a);
            Self {
                value_min: so_far.value_min.min(*b),
                value_max: so_far.value_max.max(*b),
                delta_min: so_far.delta_min.min(delta),
                delta_max: so_far.delta_max.max(delta),
            }
        })
    }

    /// Of the narrow values that begin with `first`.
    pub(super) fn of_narrow(first: i64, narrow: &[i16]) -> Self {
        let (mut min, mut max) = (0, 0);
        for value in narrow {
            (min, max) = (min.min(*value), max.max(*value));
        }
        let (mut delta_min, mut delta_max) = (i16::MAX, i16::MIN);
        for (from, to) in narrow.iter().zip(&narrow[1..]) {
            let delta = to.wrapping_sub(*from);
            (delta_min, delta_max) = (delta_min.min(delta), delta_max.max(delta));
        }
        Self {
            value_min: first.wrapping_add(i64::from(min)),
            value_max: first.wrapping_add(i64::from(max)),
            delta_min: i64::from(delta_min),
            delta_max: i64::from(delta_max),
        }
    }
}

/// The narrow values, counted from the smallest of all, which is `min`; zeros follow.
pub(super) fn offsets(first: i64, narrow: &[i16], min: i64) -> Room<u16> {
    let mut offsets = [0; BLOCK_ROWS_MAX];
    let min = min.wrapping_sub(first) as i16;
    for (offset, value) in offsets.iter_mut().zip(narrow) {
        *offset = value.wrapping_sub(min) as u16;
    }
    offsets
}

/// The differences of narrow neighbours, counted from the smallest of all, which is `min`; zeros follow.
pub(super) fn delta_offsets(narrow: &[i16], min: i64) -> Room<u16> {
    let mut offsets = [0; BLOCK_ROWS_MAX];
    let min = min as i16;
    for (offset, (from, to)) in offsets.iter_mut().zip(narrow.iter().zip(&narrow[1..])) {
        *offset = to.wrapping_sub(*from).wrapping_sub(min) as u16;
    }
    offsets
}

/// How many offsets need more than `width` bits.
pub(super) fn wider(offsets: &[u16], width: u32) -> usize {
    if width >= u16::BITS {
        return 0;
    }
    let count = offsets.iter().fold(0_u16, |count, offset| {
        // In 16 bits, as the offsets are; there are at most BLOCK_ROWS_MAX.
        count.wrapping_add(u16::from(offset >> width != 0))
    });
    usize::from(count)
}
