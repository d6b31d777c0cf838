//! Promise: the statistics of a page say what a reader of all its rows would find.

#![expect(
    clippy::cast_possible_truncation,
    clippy::big_endian_bytes,
    reason = "the inputs are small, and prefixes compare as big-endian numbers"
)]

use nilometer_codec::stats::{Edge, Statistics, statistics};
use nilometer_codec::{BLOCK_ROWS_MAX, ColumnRef, ValuesRef};
use proptest::collection::vec;
use proptest::prelude::*;

/// The rows that have a value, and the bitmap that says so.
fn rows_and_validity<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = (Vec<Option<T>>, Vec<T>, Vec<u8>)> {
    vec(
        (value, prop_oneof![Just(true), any::<bool>()]),
        1..=BLOCK_ROWS_MAX,
    )
    .prop_map(|rows| {
        let mut validity = vec![0; rows.len().div_ceil(8)];
        for (row, (_, is_present)) in rows.iter().enumerate() {
            validity[row / 8] |= u8::from(*is_present) << (row % 8);
        }
        let present = rows
            .iter()
            .map(|(value, is_present)| is_present.then(|| value.clone()))
            .collect();
        (
            present,
            rows.into_iter().map(|(value, _)| value).collect(),
            validity,
        )
    })
}

fn edges<T>(rows: &[Option<T>], bits: impl Fn(&T) -> u64) -> (u32, Option<Edge>, Option<Edge>) {
    let present: Vec<Edge> = rows
        .iter()
        .enumerate()
        .filter_map(|(row, value)| {
            value.as_ref().map(|value| Edge {
                row: row as u16,
                bits: bits(value),
            })
        })
        .collect();
    (
        present.len() as u32,
        present.first().copied(),
        present.last().copied(),
    )
}

proptest! {
    #[test]
    fn of_signed_integers((rows, values, validity) in rows_and_validity(prop_oneof![any::<i64>(), -5_i64..5, Just(i64::MIN), Just(i64::MAX)])) {
        let found = statistics(ColumnRef { values: ValuesRef::I64(&values), validity: Some(&validity) });
        prop_assert_eq!((found.non_null, found.first, found.last), edges(&rows, |value| *value as u64));
        let mut sorted: Vec<i64> = rows.into_iter().flatten().collect();
        sorted.sort_unstable();
        if let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) {
            let sum = sorted.iter().map(|value| i128::from(*value)).sum();
            prop_assert_eq!(found.values, Statistics::Int { min, max, sum });
        }
    }

    #[test]
    fn of_unsigned_integers((rows, values, validity) in rows_and_validity(prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)])) {
        let found = statistics(ColumnRef { values: ValuesRef::U64(&values), validity: Some(&validity) });
        prop_assert_eq!((found.non_null, found.first, found.last), edges(&rows, |value| *value));
        let mut sorted: Vec<u64> = rows.into_iter().flatten().collect();
        sorted.sort_unstable();
        if let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) {
            let sum = sorted.iter().map(|value| u128::from(*value)).sum();
            prop_assert_eq!(found.values, Statistics::Unsigned { min, max, sum });
        }
    }

    #[test]
    fn of_floats((rows, values, validity) in rows_and_validity(prop_oneof![8 => -1e9..1e9, 1 => Just(0.0), 1 => Just(-0.0)])) {
        let found = statistics(ColumnRef { values: ValuesRef::F64(&values), validity: Some(&validity) });
        prop_assert_eq!((found.non_null, found.first, found.last), edges(&rows, |value: &f64| value.to_bits()));
        let mut sorted: Vec<f64> = rows.into_iter().flatten().collect();
        // Summed in another order than the page: only the tolerance of the promise may lie between.
        sorted.sort_unstable_by(f64::total_cmp);
        let Statistics::Float { min, max, sum, non_finite } = found.values else { panic!("{found:?}") };
        prop_assert!(!non_finite);
        if let (Some(first), Some(last)) = (sorted.first(), sorted.last()) {
            prop_assert_eq!((min.to_bits(), max.to_bits()), (first.to_bits(), last.to_bits()));
            let magnitudes: f64 = sorted.iter().map(|value| value.abs()).sum();
            prop_assert!((sum - sorted.iter().sum::<f64>()).abs() <= 1e-12 * magnitudes);
        }
    }

    #[test]
    fn of_floats_that_are_not_finite(position: prop::sample::Index, odd in prop_oneof![
        Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)
    ], n in 1..=BLOCK_ROWS_MAX) {
        let mut values = vec![1.0; n];
        values[position.index(n)] = odd;
        let found = statistics(ColumnRef { values: ValuesRef::F64(&values), validity: None });
        prop_assert!(matches!(found.values, Statistics::Float { non_finite: true, .. }), "{:?}", found);
    }

    #[test]
    fn of_floats_among_which_nan_is_the_greatest_whatever_its_bits(values in prop::collection::vec(prop_oneof![
        Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), -1e9..1e9
    ], 1..20)) {
        let found = statistics(ColumnRef { values: ValuesRef::F64(&values), validity: None });
        let Statistics::Float { min, max, .. } = found.values else { panic!("{found:?}") };
        let numbers: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        if numbers.is_empty() {
            prop_assert!(min.is_nan() && max.is_nan(), "{found:?}");
        } else {
            let smallest = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert_eq!(min.to_bits(), smallest.to_bits());
            let largest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(if numbers.len() < values.len() { max.is_nan() } else { max.to_bits() == largest.to_bits() }, "{found:?}");
        }
    }

    #[test]
    fn of_booleans((rows, values, validity) in rows_and_validity(any::<bool>())) {
        let found = statistics(ColumnRef { values: ValuesRef::Bool(&values), validity: Some(&validity) });
        prop_assert_eq!((found.non_null, found.first, found.last), edges(&rows, |value| u64::from(*value)));
        let trues = rows.iter().filter(|row| **row == Some(true)).count() as u32;
        prop_assert_eq!(found.values, Statistics::Bool { trues });
    }

    #[test]
    fn text_bounds_hold((rows, values, validity) in rows_and_validity(prop_oneof![
        vec(any::<u8>(), 0..12), vec(Just(0xff), 6..11), vec(0_u8..2, 6..11), Just(Vec::new())
    ])) {
        let mut offsets = vec![0];
        for value in &values {
            offsets.push(offsets.last().unwrap() + value.len() as u32);
        }
        let bytes = values.concat();
        let column = ColumnRef { values: ValuesRef::Bytes { offsets: &offsets, bytes: &bytes }, validity: Some(&validity) };
        let found = statistics(column);
        let padded = |value: &[u8]| -> [u8; 8] { std::array::from_fn(|index| value.get(index).copied().unwrap_or(0)) };
        prop_assert_eq!(
            (found.non_null, found.first, found.last),
            edges(&rows, |value: &Vec<u8>| u64::from_be_bytes(padded(value)))
        );
        let Statistics::Text { min_prefix, max_prefix } = found.values else { panic!("{found:?}") };
        let present: Vec<&Vec<u8>> = rows.iter().flatten().collect();
        for value in &present {
            prop_assert!(min_prefix <= padded(value), "{:?} is below {:?}", value, min_prefix);
            let is_bounded = max_prefix != [0xff; 8];
            prop_assert!(!is_bounded || value.as_slice() <= max_prefix.as_slice() || padded(value) == max_prefix, "{:?} is above {:?}", value, max_prefix);
            prop_assert!(!is_bounded || padded(value) <= max_prefix);
        }
        // Bounds that skip nothing would pass the above: they must also touch the values.
        if let Some(min) = present.iter().min() {
            prop_assert_eq!(min_prefix, padded(min));
        }
        if let Some(max) = present.iter().max().filter(|max| max.len() <= 8) {
            prop_assert_eq!(max_prefix, padded(max));
        }
    }
}

#[test]
fn a_long_text_rounds_its_upper_bound_up() {
    let bound = |text: &[u8]| {
        let offsets = [0, text.len() as u32];
        let column = ColumnRef {
            values: ValuesRef::Bytes {
                offsets: &offsets,
                bytes: text,
            },
            validity: None,
        };
        match statistics(column).values {
            Statistics::Text { max_prefix, .. } => max_prefix,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bound(b"nilomete"), *b"nilomete");
    assert_eq!(bound(b"nilometer"), *b"nilometf");
    assert_eq!(bound(b"nilomet\xffr"), *b"nilomeu\0");
    assert_eq!(bound(&[0xff; 9]), [0xff; 8]);
}
