//! Wide numbers as narrow ones, where a language says that they are cut.
//!
//! Does: wrap and saturate. Does not: check; who needs an error asks `try_from`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "saturation is what is asked for, and `as` does it; see each function"
)]

/// The last 64 bits: what is left of a result that wraps around.
pub(crate) fn low_bits(value: i128) -> u64 {
    (value & i128::from(u64::MAX)) as u64
}

/// The same as a signed integer.
pub(crate) fn wrapped(value: i128) -> i64 {
    low_bits(value).cast_signed()
}

/// Towards zero, and the nearest end of what an integer can be; NaN is 0.
pub(crate) fn saturated(value: f64) -> i64 {
    value as i64
}

/// The same without a sign.
pub(crate) fn saturated_unsigned(value: f64) -> u64 {
    value as u64
}

/// The same as a place in a list.
pub(crate) fn place(value: f64) -> usize {
    value as usize
}
