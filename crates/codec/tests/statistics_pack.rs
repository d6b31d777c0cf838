//! Promise: packed statistics come back bit for bit, are small, and no bytes whatever make their decoder panic.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use nilometer_codec::stats::{
    Edge, PageStatistics, Statistics, decode_statistics, encode_statistics, statistics,
};
use nilometer_codec::{ColumnRef, Error, PAGES_MAX, PhysicalType, ValuesRef};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [PhysicalType; 6] = [
    PhysicalType::I64,
    PhysicalType::U64,
    PhysicalType::F64,
    PhysicalType::Bool,
    PhysicalType::Text,
    PhysicalType::Bytes,
];

/// The statistics with floats as their bits, so that NaN equals itself.
fn bits(page: &PageStatistics) -> (u32, Option<Edge>, Option<Edge>, [u128; 3], bool) {
    let prefix = |bytes: [u8; 8]| u128::from(u64::from_le_bytes(bytes));
    let (numbers, flag) = match page.values {
        Statistics::Int { min, max, sum } => ([min as u128, max as u128, sum as u128], false),
        Statistics::Unsigned { min, max, sum } => ([min.into(), max.into(), sum], false),
        Statistics::Float {
            min,
            max,
            sum,
            non_finite,
        } => (
            [min, max, sum].map(|value| value.to_bits().into()),
            non_finite,
        ),
        Statistics::Bool { trues } => ([trues.into(), 0, 0], false),
        Statistics::Text {
            min_prefix,
            max_prefix,
        } => ([prefix(min_prefix), prefix(max_prefix), 0], false),
    };
    (page.non_null, page.first, page.last, numbers, flag)
}

fn packed(pages: &[Option<PageStatistics>], kind: PhysicalType) -> Vec<u8> {
    // What the caller has in the buffer must survive.
    let mut bytes = vec![7; 3];
    encode_statistics(pages, kind, &mut bytes);
    assert_eq!(bytes[..3], [7; 3]);
    bytes.split_off(3)
}

fn assert_round_trip(pages: &[Option<PageStatistics>], kind: PhysicalType) {
    let mut bytes = packed(pages, kind);
    let end = bytes.len();
    bytes.extend_from_slice(b"after");
    let mut input = bytes.as_slice();
    let found = decode_statistics(&mut input, pages.len(), kind).unwrap();
    assert_eq!(input, &bytes[end..]);
    let bits = |pages: &[Option<PageStatistics>]| -> Vec<_> {
        pages.iter().map(|page| page.as_ref().map(bits)).collect()
    };
    assert_eq!(bits(&found), bits(pages));
}

/// Rows of a page: how many values, the row of the first one, the row of the last one; none at all for 0.
fn frames() -> impl Strategy<Value = (u32, u16, u16)> + Clone {
    prop_oneof![
        Just((1024, 0, 1023)),
        Just((0, 0, 0)),
        (0_u16..1024).prop_map(|row| (1, row, row)),
        (0_u16..1024, 0_u16..1024, any::<u32>()).prop_map(|(a, b, n)| {
            let (first, last) = (a.min(b), a.max(b));
            if first == last {
                (1, first, last)
            } else {
                (2 + n % u32::from(last - first), first, last)
            }
        }),
    ]
}

/// Pages of one type; `values` makes its statistics and edges of five words.
fn pages(
    word: impl Strategy<Value = u64> + Clone,
    values: impl Fn([u64; 5]) -> (Statistics, u64, u64) + Clone,
    zeros: Statistics,
) -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let page = (
        frames(),
        [word.clone(), word.clone(), word.clone(), word.clone(), word],
    )
        .prop_map(move |((non_null, first_row, last_row), words)| {
            if non_null == 0 {
                return PageStatistics {
                    non_null,
                    first: None,
                    last: None,
                    values: zeros,
                };
            }
            let (values, first, last) = values(words);
            let edge = |row, bits| Some(Edge { row, bits });
            PageStatistics {
                non_null,
                first: edge(first_row, first),
                last: edge(last_row, last),
                values,
            }
        });
    prop_oneof![
        vec(
            prop_oneof![6 => page.clone().prop_map(Some), 1 => Just(None)],
            0..=256_usize
        ),
        vec(page.prop_map(Some), 1..=5_usize),
    ]
}

fn words() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        0_u64..100,
        any::<u64>(),
        Just(0),
        Just(u64::MAX),
        Just(1 << 63)
    ]
}

/// The bits of floats, the odd ones included.
fn float_words() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        4 => (-100_000_i32..100_000).prop_map(|value| (f64::from(value) / 100.0).to_bits()),
        1 => any::<u64>(),
        1 => prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(f64::NAN),
            Just(f64::from_bits(0xfff8_0000_dead_beef)),
            Just(f64::from_bits(0x7ff0_0000_0000_0001)),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(f64::from_bits(1)),
            Just(f64::MAX),
            Just(2_251_799_813_685_248.0),
        ]
        .prop_map(f64::to_bits),
    ]
}

fn wide(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn signed() -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let of = |[min, max, low, high, first]: [u64; 5]| {
        let (min, max, sum) = (min as i64, max as i64, wide(low, high) as i128);
        (Statistics::Int { min, max, sum }, first, low)
    };
    let zeros = Statistics::Int {
        min: 0,
        max: 0,
        sum: 0,
    };
    pages(words(), of, zeros)
}

fn unsigned() -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let of = |[min, max, low, high, first]: [u64; 5]| {
        let sum = wide(low, high);
        (Statistics::Unsigned { min, max, sum }, first, low)
    };
    let zeros = Statistics::Unsigned {
        min: 0,
        max: 0,
        sum: 0,
    };
    pages(words(), of, zeros)
}

fn floating() -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let of = |[min, max, sum, first, last]: [u64; 5]| {
        let values = Statistics::Float {
            min: f64::from_bits(min),
            max: f64::from_bits(max),
            sum: f64::from_bits(sum),
            non_finite: last % 2 == 1,
        };
        (values, first, last)
    };
    let zeros = Statistics::Float {
        min: 0.0,
        max: 0.0,
        sum: 0.0,
        non_finite: false,
    };
    pages(float_words(), of, zeros)
}

fn boolean() -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let of = |[trues, first, last, ..]: [u64; 5]| {
        let trues = (trues % 1025) as u32;
        (Statistics::Bool { trues }, first % 2, last % 2)
    };
    pages(words(), of, Statistics::Bool { trues: 0 })
}

fn textual() -> impl Strategy<Value = Vec<Option<PageStatistics>>> {
    let of = |[min, max, first, last, _]: [u64; 5]| {
        let values = Statistics::Text {
            min_prefix: min.to_le_bytes(),
            max_prefix: max.to_le_bytes(),
        };
        (values, first, last)
    };
    let zeros = Statistics::Text {
        min_prefix: [0; 8],
        max_prefix: [0; 8],
    };
    pages(words(), of, zeros)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn of_signed_integers(pages in signed()) {
        assert_round_trip(&pages, PhysicalType::I64);
    }

    #[test]
    fn of_unsigned_integers(pages in unsigned()) {
        assert_round_trip(&pages, PhysicalType::U64);
    }

    #[test]
    fn of_floats(pages in floating()) {
        assert_round_trip(&pages, PhysicalType::F64);
    }

    #[test]
    fn of_booleans(pages in boolean()) {
        assert_round_trip(&pages, PhysicalType::Bool);
    }

    #[test]
    fn of_text_and_bytes(pages in textual()) {
        assert_round_trip(&pages, PhysicalType::Text);
        assert_round_trip(&pages, PhysicalType::Bytes);
    }

    #[test]
    fn of_real_columns(columns in vec(vec(prop_oneof![-9.0_f64..9.0, Just(f64::NAN), Just(0.5)], 1..40), 1..40), nulls in any::<[u8; 5]>()) {
        let of = |values: &Vec<f64>| Some(statistics(ColumnRef { values: ValuesRef::F64(values), validity: Some(&nulls) }));
        let pages: Vec<_> = columns.iter().map(of).collect();
        assert_round_trip(&pages, PhysicalType::F64);
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..200), pages in 0_usize..300) {
        for kind in KINDS {
            let _ = decode_statistics(&mut bytes.as_slice(), pages, kind);
        }
    }

    #[test]
    fn cut_bytes_are_errors((kind, pages) in any_kind(), cut in any::<prop::sample::Index>()) {
        let bytes = packed(&pages, kind);
        prop_assume!(!bytes.is_empty());
        let mut input = &bytes[..cut.index(bytes.len())];
        prop_assert!(decode_statistics(&mut input, pages.len(), kind).is_err());
    }

    #[test]
    fn flipped_bits_give_an_error_or_sound_statistics((kind, pages) in any_kind(), bit in any::<prop::sample::Index>()) {
        let mut bytes = packed(&pages, kind);
        prop_assume!(!bytes.is_empty());
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        for kind in KINDS {
            let Ok(found) = decode_statistics(&mut bytes.as_slice(), pages.len(), kind) else { continue };
            prop_assert_eq!(found.len(), pages.len());
            for page in found.iter().flatten() {
                let rows = page.first.zip(page.last).map(|(first, last)| (first.row, last.row));
                match rows {
                    None => prop_assert_eq!(page.non_null, 0),
                    Some((first, last)) => {
                        prop_assert!(first <= last && last < 1024);
                        prop_assert!((1..=u32::from(last - first) + 1).contains(&page.non_null));
                    }
                }
            }
        }
    }
}

fn any_kind() -> impl Strategy<Value = (PhysicalType, Vec<Option<PageStatistics>>)> {
    prop_oneof![
        signed().prop_map(|pages| (PhysicalType::I64, pages)),
        unsigned().prop_map(|pages| (PhysicalType::U64, pages)),
        floating().prop_map(|pages| (PhysicalType::F64, pages)),
        boolean().prop_map(|pages| (PhysicalType::Bool, pages)),
        textual().prop_map(|pages| (PhysicalType::Text, pages)),
    ]
}

#[test]
fn pages_without_statistics_cost_a_byte_or_two_together() {
    for kind in KINDS {
        assert_eq!(packed(&[], kind), []);
        let none = vec![None; 256];
        assert!(packed(&none, kind).len() <= 2);
        assert_round_trip(&none, kind);
    }
}

#[test]
fn statistics_that_contradict_themselves_are_dropped() {
    let sound = statistics(ColumnRef {
        values: ValuesRef::I64(&[1, 2, 3]),
        validity: None,
    });
    let far = Some(Edge { row: 1024, bits: 3 });
    let broken = [
        PageStatistics {
            non_null: 4,
            ..sound
        },
        PageStatistics {
            non_null: 1,
            ..sound
        },
        PageStatistics {
            non_null: 0,
            ..sound
        },
        PageStatistics {
            first: None,
            ..sound
        },
        PageStatistics { last: far, ..sound },
        PageStatistics {
            first: sound.last,
            last: sound.first,
            ..sound
        },
        PageStatistics {
            values: Statistics::Bool { trues: 1 },
            ..sound
        },
    ];
    let pages: Vec<_> = [sound].iter().chain(&broken).copied().map(Some).collect();
    let bytes = packed(&pages, PhysicalType::I64);
    let found = decode_statistics(&mut bytes.as_slice(), pages.len(), PhysicalType::I64).unwrap();
    assert_eq!(found[0], Some(sound));
    assert_eq!(found[1..], [None; 7]);
}

#[test]
fn the_example_of_the_format_page_is_what_is_written_and_read() {
    let nulls = [0; 1];
    let of = |validity| {
        let values = ValuesRef::I64(&[5, 3, 9]);
        Some(statistics(ColumnRef { values, validity }))
    };
    let pages = [None, of(Some(&nulls)), of(None)];
    let bytes = [
        1, 0, 2, 0, 6, 0, 0, 0, 0, 0, 6, 0, 12, 0, 0, 12, 0, 0, 4, 0, 16, 0, 0,
    ];
    assert_eq!(packed(&pages, PhysicalType::I64), bytes);
    let found = decode_statistics(&mut bytes.as_slice(), 3, PhysicalType::I64).unwrap();
    assert_eq!(found, pages);
}

#[test]
fn sums_of_floats_are_decimals_and_steps() {
    // One page of the two values 0.5 and 1.5, in RAW but for the sum: 20 tenths, and a step up.
    let raw = |value: f64| [&[4], value.to_le_bytes().as_slice()].concat();
    let lists = [raw(0.5), raw(1.5), raw(1.5), raw(0.5)].concat();
    let bytes = [
        &[0, 4, 0, 4, 0, 0, 0, 0],
        lists.as_slice(),
        &[0, 0],
        &[1, 1, 0, 40, 0, 2],
    ]
    .concat();
    let found = decode_statistics(&mut bytes.as_slice(), 1, PhysicalType::F64).unwrap();
    let edge = |row, value: f64| {
        Some(Edge {
            row,
            bits: value.to_bits(),
        })
    };
    let expected = PageStatistics {
        non_null: 2,
        first: edge(0, 0.5),
        last: edge(1, 1.5),
        values: Statistics::Float {
            min: 0.5,
            max: 1.5,
            sum: 2.0 + 2.0 * f64::EPSILON,
            non_finite: false,
        },
    };
    assert_eq!(found, [Some(expected)]);
}

#[test]
fn too_many_pages_are_refused_before_memory_is_taken() {
    let pages = PAGES_MAX + 1;
    let answer = decode_statistics(&mut [0, 0].as_slice(), pages, PhysicalType::I64);
    assert_eq!(answer, Err(Error::LimitPages { pages }));
    assert_round_trip(&vec![None; PAGES_MAX], PhysicalType::I64);
}

/// Walks between 0 and 100, as pages of 1024 rows.
fn walk() -> Vec<Vec<i64>> {
    let (mut at, mut state) = (50_i64, 1_u64);
    let mut step = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        at = (at + (state >> 40) as i64 % 5 - 2).clamp(0, 100);
        at
    };
    (0..256)
        .map(|_| (0..1024).map(|_| step()).collect())
        .collect()
}

#[test]
fn a_page_of_small_integers_costs_seven_bytes() {
    let of = |values: &Vec<i64>| {
        Some(statistics(ColumnRef {
            values: ValuesRef::I64(values),
            validity: None,
        }))
    };
    let pages: Vec<_> = walk().iter().map(of).collect();
    let bytes = packed(&pages, PhysicalType::I64).len();
    assert!(bytes <= 7 * 256, "{bytes} bytes of 256 pages");
}

#[test]
fn a_page_of_small_decimals_costs_ten_bytes() {
    for scale in [1.0, 10.0, 100.0] {
        let of = |values: &Vec<i64>| {
            let floats: Vec<f64> = values.iter().map(|value| *value as f64 / scale).collect();
            Some(statistics(ColumnRef {
                values: ValuesRef::F64(&floats),
                validity: None,
            }))
        };
        let pages: Vec<_> = walk().iter().map(of).collect();
        let bytes = packed(&pages, PhysicalType::F64).len();
        assert!(
            bytes <= 10 * 256,
            "{bytes} bytes of 256 pages at scale {scale}"
        );
    }
}
