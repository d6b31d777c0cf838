//! Promise: what was encoded is decoded, bit for bit, for every type and every distribution we could think of.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "the inputs are small, and a failed unwrap is the report"
)]

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, Encoding, Error, PageSet, TEXT_BYTES_MAX,
    VALUE_BYTES_MAX, ValuesRef, decode_i64s, decode_page, encode_i64s, encode_page, encode_page_of,
    page_header, varint,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Integers that stress one encoding or the choice between them.
fn integers() -> impl Strategy<Value = Vec<i64>> {
    let rows = 1..=BLOCK_ROWS_MAX;
    let edge = prop_oneof![
        Just(i64::MIN),
        Just(i64::MAX),
        Just(0),
        Just(-1),
        Just(1),
        any::<i64>()
    ];
    prop_oneof![
        (any::<i64>(), rows.clone()).prop_map(|(value, n)| vec![value; n]),
        (any::<i64>(), any::<i64>(), rows.clone()).prop_map(|(first, step, n)| {
            (0..n)
                .map(|index| first.wrapping_add(step.wrapping_mul(index as i64)))
                .collect()
        }),
        // Noise of every width above any base.
        (any::<i64>(), 0_u32..64, vec(any::<u64>(), rows.clone())).prop_map(
            |(base, shift, noise)| {
                noise
                    .iter()
                    .map(|value| base.wrapping_add((value >> shift) as i64))
                    .collect()
            }
        ),
        // Walks of every step width.
        (any::<i64>(), 0_u32..64, vec(any::<i64>(), rows.clone())).prop_map(
            |(start, shift, steps)| {
                let walk = steps.iter().scan(start, |at, step| {
                    *at = at.wrapping_add(step >> shift);
                    Some(*at)
                });
                walk.collect()
            }
        ),
        // Grids of every width, up to those that wrap around.
        (any::<i64>(), 0_u32..64, vec(-500_i64..500, rows.clone())).prop_map(
            |(base, shift, numbers)| {
                let width = (i64::MAX >> shift).max(1);
                numbers
                    .iter()
                    .map(|number| base.wrapping_add(number.wrapping_mul(width)))
                    .collect()
            }
        ),
        // Mostly quiet, with a few outliers of any size: patches.
        vec(
            prop_oneof![30 => -3_i64..4, 1 => any::<i64>(), 1 => 0_i64..100_000],
            rows.clone()
        ),
        // Steps of which a tenth to a half are wide: so many patches that they are put in before the sums.
        (2_u32..10, vec(any::<(u32, u32)>(), rows.clone())).prop_map(|(one_in, steps)| {
            let walk = steps.iter().scan(0_i64, |at, (chance, step)| {
                let is_wide = chance % one_in == 0;
                *at += i64::from(if is_wide { step >> 8 } else { step >> 30 });
                Some(*at)
            });
            walk.collect()
        }),
        // A counter that restarts.
        vec(
            prop_oneof![40 => 1_i64..9, 1 => Just(-1_000_000_i64)],
            rows.clone()
        )
        .prop_map(|steps| {
            let counter = steps.iter().scan(0_i64, |at, step| {
                *at = (*at + step).max(0);
                Some(*at)
            });
            counter.collect()
        }),
        // Noise that swells and calms, and what it sums up to.
        (
            any::<bool>(),
            vec((0_u32..64, vec(any::<u64>(), 32)), 1..=32)
        )
            .prop_map(|(is_sum, blocks)| {
                let noise = blocks
                    .iter()
                    .flat_map(|(shift, block)| block.iter().map(|value| (value >> *shift) as i64));
                let sums = noise.scan(0_i64, |sum, step| {
                    *sum = if is_sum { sum.wrapping_add(step) } else { step };
                    Some(*sum)
                });
                sums.collect()
            }),
        // Runs of any values, as long as they like.
        (vec((edge.clone(), 1_usize..200), 1..60), rows.clone()).prop_map(|(runs, n)| {
            let values = runs
                .iter()
                .flat_map(|(value, length)| vec![*value; *length]);
            values.take(n).collect()
        }),
        // A few values of any size, again and again.
        (
            vec(edge.clone(), 1..300),
            vec(any::<prop::sample::Index>(), rows.clone())
        )
            .prop_map(|(few, picks)| picks.iter().map(|pick| *pick.get(&few)).collect()),
        vec(edge, rows),
    ]
}

fn floats() -> impl Strategy<Value = Vec<f64>> {
    let rows = 1..=BLOCK_ROWS_MAX;
    let odd = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::from_bits(0xfff8_0000_dead_beef)),
        Just(f64::from_bits(0x7ff0_0000_0000_0001)),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(f64::from_bits(1)),
        Just(f64::MAX),
        Just(2_251_799_813_685_248.0),
        Just(-2_251_799_813_685_248.0),
        Just(9_007_199_254_740_993.0),
        any::<u64>().prop_map(f64::from_bits),
    ];
    prop_oneof![
        (-20_i32..21, vec(-1_000_000_i64..1_000_000, rows.clone())).prop_map(|(scale, values)| {
            values
                .iter()
                .map(|value| *value as f64 / 10_f64.powi(scale))
                .collect()
        }),
        (vec(
            prop_oneof![20 => (-100_000_i64..100_000).prop_map(|value| value as f64 / 100.0), 1 => odd.clone()],
            rows.clone()
        )),
        vec(odd.clone(), rows.clone()),
        vec(any::<f32>().prop_map(f64::from), rows.clone()),
        // Steps of every power of two, up to those that floats have no more bits for.
        (
            -140_i32..140,
            0_u32..64,
            vec(
                prop_oneof![30 => any::<i64>().prop_map(Some), 1 => Just(None)],
                rows.clone()
            ),
            odd.clone()
        )
            .prop_map(|(scale, shift, values, odd)| {
                let value = |value: &Option<i64>| {
                    value.map_or(odd, |value| (value >> shift) as f64 * 2_f64.powi(scale))
                };
                values.iter().map(value).collect()
            }),
        vec(0.0..1.0, rows.clone()),
        // Whole numbers, and a rare half that a sample may miss.
        vec(
            prop_oneof![50 => (0_i64..50).prop_map(|value| value as f64), 1 => Just(0.5)],
            rows
        ),
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let rows = 1..=200_usize;
    prop_oneof![
        vec(
            prop_oneof![Just(String::new()), Just("eu-west-1".to_owned()), "[a-c]"],
            rows.clone()
        ),
        vec(".{0,20}", rows.clone()),
        vec("[ab]{200,400}", 1..=20_usize),
        vec(Just(String::new()), rows),
    ]
}

/// A validity bitmap of any density for `rows` rows, with anything in its padding.
fn validity() -> impl Strategy<Value = Option<Vec<u8>>> {
    let bytes = BLOCK_ROWS_MAX / 8;
    prop_oneof![
        Just(None),
        vec(any::<u8>(), bytes).prop_map(Some),
        vec(Just(0), bytes).prop_map(Some),
        vec(Just(0xff), bytes).prop_map(Some),
        vec(prop_oneof![Just(0), Just(0x10)], bytes).prop_map(Some),
    ]
}

fn round_trip(column: ColumnRef<'_>) -> ColumnBuf {
    // What the caller has in the buffers must survive in the one and vanish from the other.
    let mut page = vec![7; 3];
    encode_page(column, &mut page).unwrap();
    assert_eq!(page[..3], [7; 3]);
    let header = page_header(&page[3..]).unwrap();
    assert_eq!(
        (header.rows, header.physical_type),
        (column.rows(), column.physical_type())
    );
    let mut out = ColumnBuf::default();
    let other = ["other", ""].concat();
    let stale = ValuesRef::Text {
        offsets: &[0, 2, 5],
        bytes: other.as_bytes(),
    };
    let mut stale_page = Vec::new();
    encode_page(
        ColumnRef {
            values: stale,
            validity: Some(&[1]),
        },
        &mut stale_page,
    )
    .unwrap();
    decode_page(&stale_page, &mut out).unwrap();
    decode_page(&page[3..], &mut out).unwrap();
    assert_eq!(
        (out.rows(), out.physical_type()),
        (column.rows(), column.physical_type())
    );
    // More encodings to choose from say the same. They cost next to nothing where they do not help: a writer prefers what is
    // fast to read to a quarter less, so that a smaller start may end a little larger.
    let bits = |column: &ColumnBuf| {
        let values = column.f64s().iter();
        values.map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    for set in [PageSet::Second, PageSet::Fourth] {
        let mut more = Vec::new();
        encode_page_of(column, set, &mut more).unwrap();
        assert!(3 * more.len() <= 4 * (page.len() - 3) + 24);
        let mut again = ColumnBuf::default();
        decode_page(&more, &mut again).unwrap();
        assert_eq!(
            (out.i64s(), out.u64s(), out.bools(), out.text()),
            (again.i64s(), again.u64s(), again.bools(), again.text())
        );
        assert_eq!(bits(&out), bits(&again));
        assert_eq!(out.validity(), again.validity());
    }
    out
}

fn is_present(validity: Option<&[u8]>, row: usize) -> bool {
    validity.is_none_or(|bitmap| bitmap[row / 8] & (1 << (row % 8)) != 0)
}

/// What decoding must give: the values where present, the default elsewhere.
fn expected<T: Clone + Default>(values: &[T], validity: Option<&[u8]>) -> Vec<T> {
    let slot = |(row, value): (usize, &T)| {
        if is_present(validity, row) {
            value.clone()
        } else {
            T::default()
        }
    };
    values.iter().enumerate().map(slot).collect()
}

fn assert_validity(out: &ColumnBuf, validity: Option<&[u8]>) {
    let has_nulls = (0..out.rows()).any(|row| !is_present(validity, row));
    assert_eq!(out.validity().is_some(), has_nulls);
    for row in 0..out.rows() {
        assert_eq!(
            is_present(out.validity(), row),
            is_present(validity, row),
            "row {row}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn signed_integers_round_trip(values in integers(), validity in validity()) {
        let validity = validity.as_deref();
        let out = round_trip(ColumnRef { values: ValuesRef::I64(&values), validity });
        prop_assert_eq!(out.i64s(), expected(&values, validity));
        assert_validity(&out, validity);
    }

    #[test]
    fn unsigned_integers_round_trip(values in integers(), validity in validity()) {
        let values: Vec<u64> = values.into_iter().map(|value| value as u64).collect();
        let validity = validity.as_deref();
        let out = round_trip(ColumnRef { values: ValuesRef::U64(&values), validity });
        prop_assert_eq!(out.u64s(), expected(&values, validity));
        assert_validity(&out, validity);
    }

    #[test]
    fn floats_round_trip_bit_for_bit(values in floats(), validity in validity()) {
        let validity = validity.as_deref();
        let out = round_trip(ColumnRef { values: ValuesRef::F64(&values), validity });
        let bits: Vec<u64> = out.f64s().iter().map(|value| value.to_bits()).collect();
        let expected: Vec<u64> = expected(&values, validity).iter().map(|value| value.to_bits()).collect();
        prop_assert_eq!(bits, expected);
        assert_validity(&out, validity);
    }

    #[test]
    fn booleans_round_trip(values in prop_oneof![
        vec(any::<bool>(), 1..=BLOCK_ROWS_MAX),
        vec(prop_oneof![60 => Just(true), 1 => Just(false)], 1..=BLOCK_ROWS_MAX),
    ], validity in validity()) {
        let validity = validity.as_deref();
        let out = round_trip(ColumnRef { values: ValuesRef::Bool(&values), validity });
        prop_assert_eq!(out.bools(), expected(&values, validity));
        assert_validity(&out, validity);
    }

    #[test]
    fn text_round_trips(values in texts(), validity in validity(), as_bytes: bool, gap in 0_usize..3) {
        // The first value need not start at the first byte.
        let mut bytes = vec![b'#'; gap];
        let mut offsets = vec![gap as u32];
        for value in &values {
            bytes.extend_from_slice(value.as_bytes());
            offsets.push(bytes.len() as u32);
        }
        let values_ref = if as_bytes {
            ValuesRef::Bytes { offsets: &offsets, bytes: &bytes }
        } else {
            ValuesRef::Text { offsets: &offsets, bytes: &bytes }
        };
        let validity = validity.as_deref();
        let out = round_trip(ColumnRef { values: values_ref, validity });
        let (offsets, bytes) = out.text();
        let decoded: Vec<&str> = offsets
            .windows(2)
            .map(|pair| std::str::from_utf8(&bytes[pair[0] as usize..pair[1] as usize]).unwrap())
            .collect();
        prop_assert_eq!(decoded, expected(&values, validity));
        assert_validity(&out, validity);
    }

    #[test]
    fn integer_streams_of_any_length_round_trip_and_stop_at_their_end(
        chunks in vec(integers(), 0..4), behind in vec(any::<u8>(), 0..4),
    ) {
        let values = chunks.concat();
        let mut bytes = Vec::new();
        encode_i64s(&values, &mut bytes);
        bytes.extend_from_slice(&behind);
        let mut input = bytes.as_slice();
        let mut out = vec![42];
        decode_i64s(&mut input, values.len(), &mut out).unwrap();
        prop_assert_eq!(out[0], 42);
        prop_assert_eq!(&out[1..], values);
        prop_assert_eq!(input, behind);
    }

    #[test]
    fn varints_round_trip(value: u64, shift in 0_u32..64) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        varint::put_u64(value, &mut bytes);
        varint::put_i64(value as i64, &mut bytes);
        varint::put_i64((value as i64).wrapping_neg(), &mut bytes);
        let mut input = bytes.as_slice();
        prop_assert_eq!(varint::get_u64(&mut input), Ok(value));
        prop_assert_eq!(varint::get_i64(&mut input), Ok(value as i64));
        prop_assert_eq!(varint::get_i64(&mut input), Ok((value as i64).wrapping_neg()));
        prop_assert!(input.is_empty());
    }
}

fn page_of(values: ValuesRef<'_>) -> Vec<u8> {
    let mut page = Vec::new();
    encode_page(
        ColumnRef {
            values,
            validity: None,
        },
        &mut page,
    )
    .unwrap();
    page
}

#[test]
fn varints_are_leb128() {
    // The examples of the DWARF specification, figures 22 and after, and the largest value.
    for (value, bytes) in [
        (2, vec![2]),
        (127, vec![127]),
        (128, vec![0x80, 1]),
        (129, vec![0x81, 1]),
        (12857, vec![0x80 + 57, 100]),
        (
            u64::MAX,
            vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ),
    ] {
        let mut out = Vec::new();
        varint::put_u64(value, &mut out);
        assert_eq!(out, bytes);
    }
    let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
    assert!(matches!(
        varint::get_u64(&mut too_long.as_slice()),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn an_empty_stream_takes_no_bytes() {
    let mut bytes = Vec::new();
    encode_i64s(&[], &mut bytes);
    assert!(bytes.is_empty());
    let mut out = Vec::new();
    decode_i64s(&mut bytes.as_slice(), 0, &mut out).unwrap();
    assert!(out.is_empty());
}

#[test]
fn even_times_take_a_few_bytes_however_many_they_are() {
    let times: Vec<i64> = (0..1024)
        .map(|index| 1_700_000_000_000_000_000 + index * 10_000_000_000)
        .collect();
    let page = page_of(ValuesRef::I64(&times));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Stride);
    assert!(page.len() <= 20, "{} bytes", page.len());
}

#[test]
fn times_taken_to_the_second_cost_what_seconds_cost() {
    // From 1 to 64 seconds apart: six bits each, and not the 36 of as many nanoseconds.
    let times: Vec<i64> = (0..1000_i64)
        .scan(1_700_000_000, |at, index| {
            *at += 1 + (index * index * 31 + index * 7) % 64;
            Some(*at * 1_000_000_000)
        })
        .collect();
    let page = page_of(ValuesRef::I64(&times));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Grid);
    assert!(page.len() <= 40 + 750, "{} bytes", page.len());
}

#[test]
fn decimals_of_fifteen_digits_have_no_exceptions() {
    // An exception costs eight bytes, and these steps need seven bits: one exception would show.
    let values: Vec<f64> = (0..1000)
        .map(|index| 1_234_567.0 + f64::from((index * 37) % 100) / 100.0)
        .collect();
    let page = page_of(ValuesRef::F64(&values));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Decimal);
    assert!(page.len() <= 4 + 2 + 8 + 875, "{} bytes", page.len());
}

fn page_of_second_set(values: ValuesRef<'_>) -> Vec<u8> {
    let mut page = Vec::new();
    let column = ColumnRef {
        values,
        validity: None,
    };
    encode_page_of(column, PageSet::Second, &mut page).unwrap();
    page
}

#[test]
fn a_thermometer_of_twelve_bits_takes_its_bits() {
    // Steps of 1/16 degree between 20 and 24 degrees: 64 of them, six bits.
    let values: Vec<f64> = (0..1000_u32)
        .map(|index| 20.0 + f64::from(index.wrapping_mul(2_654_435_761) >> 26) / 16.0)
        .collect();
    let page = page_of_second_set(ValuesRef::F64(&values));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Dyadic);
    assert!(page.len() <= 20 + 750, "{} bytes", page.len());
}

/// Zero is exact at any scale: it was once taken for the coarsest of them, and one zero among sixteen samples hid the steps.
#[test]
fn zeros_do_not_hide_the_steps_of_a_sensor() {
    let values: Vec<f64> = (0..1000_u32)
        .map(|index| {
            let step = index.wrapping_mul(2_654_435_761) >> 22;
            if index % 11 == 0 {
                0.0
            } else {
                f64::from(step) / 4096.0
            }
        })
        .collect();
    let page = page_of_second_set(ValuesRef::F64(&values));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Dyadic);
}

#[test]
fn random_fractions_take_the_bits_that_were_random() {
    // What `random()` of most languages gives: 53 random bits over 2^53, and not 64.
    let mut state = 1_u64;
    let values: Vec<f64> = (0..1000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / 9_007_199_254_740_992.0
        })
        .collect();
    let page = page_of_second_set(ValuesRef::F64(&values));
    assert!(page.len() <= 30 + 1000 * 53 / 8, "{} bytes", page.len());
}

#[test]
fn calm_between_bursts_is_as_small_as_calm() {
    // Of eight blocks of 32 values one is wild: 32 bits there, two elsewhere.
    let values: Vec<i64> = (0..1024_i64)
        .map(|index| {
            let noise = (index.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).unsigned_abs();
            (noise >> if index / 32 % 8 == 5 { 31 } else { 61 }) as i64
        })
        .collect();
    let page = page_of_second_set(ValuesRef::I64(&values));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Blocked);
    assert!(
        page.len() <= 4 * 32 * 4 + 28 * 32 * 2 / 8 + 100,
        "{} bytes",
        page.len()
    );
}

/// The log writes payloads so: compressing them took a fifth of the time of a write.
#[test]
fn what_is_written_quickly_is_plain_and_comes_back() {
    let values: Vec<[u8; 12]> = (0..600_u32)
        .map(|row| {
            let mut value = *b"0000 rows -7";
            value[..4].copy_from_slice(&row.to_le_bytes());
            value
        })
        .collect();
    let offsets: Vec<u32> = (0..=600).map(|row| row * 12).collect();
    let bytes = values.concat();
    let column = ColumnRef {
        values: ValuesRef::Bytes {
            offsets: &offsets,
            bytes: &bytes,
        },
        validity: None,
    };
    let encoded = |set| {
        let mut page = Vec::new();
        encode_page_of(column, set, &mut page).unwrap();
        page
    };
    let quick = encoded(PageSet::Quick);
    assert_eq!(page_header(&quick).unwrap().encoding, Encoding::Plain);
    let small = encoded(PageSet::First);
    assert_eq!(page_header(&small).unwrap().encoding, Encoding::PlainZstd);
    for page in [quick, small] {
        let mut out = ColumnBuf::default();
        decode_page(&page, &mut out).unwrap();
        assert_eq!(out.text(), (offsets.as_slice(), bytes.as_slice()));
    }
}

#[test]
fn a_restarted_counter_costs_one_patch() {
    let step = |index: i64| 47 + (index * 5) % 7;
    let steady: Vec<i64> = (0..1000)
        .scan(0, |at, index| {
            *at += step(index);
            Some(*at)
        })
        .collect();
    let mut restarted = steady.clone();
    for value in &mut restarted[600..] {
        *value -= steady[599];
    }
    let (steady, restarted) = (
        page_of(ValuesRef::I64(&steady)),
        page_of(ValuesRef::I64(&restarted)),
    );
    assert!(
        restarted.len() <= steady.len() + 16,
        "{} bytes against {}",
        restarted.len(),
        steady.len()
    );
}

#[test]
fn a_state_that_rarely_changes_takes_two_bytes_a_change() {
    let states: Vec<i64> = (0..1024).map(|index| (index / 64 * 7919) % 256).collect();
    let page = page_of(ValuesRef::I64(&states));
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::RunLength);
    assert!(page.len() <= 12 + 2 * 16, "{} bytes", page.len());
    let switches: Vec<bool> = states.iter().map(|state| state % 2 == 1).collect();
    let page = page_of(ValuesRef::Bool(&switches));
    assert!(page.len() <= 12 + 2 * 16, "{} bytes", page.len());
}

#[test]
fn a_walk_of_360_rows_takes_less_than_half_a_byte_a_value() {
    // Steps of -2 to 2 with frequencies about those of a rounded normal step of deviation 1, between 0 and 100.
    let mut state = 1_u64;
    let mut at = 50_i64;
    let walk: Vec<i64> = (0..360)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let step = match state >> 57 {
                0..=8 => -2,
                9..=39 => -1,
                40..=88 => 0,
                89..=119 => 1,
                _ => 2,
            };
            at = (at + step).clamp(0, 100);
            at
        })
        .collect();
    let page = page_of(ValuesRef::I64(&walk));
    assert!(page.len() <= 360 * 42 / 100, "{} bytes", page.len());
}

#[test]
fn times_of_series_that_tick_together_take_bits_not_bytes() {
    // Series of a few rows each, one after the other, as in a shared block: jumps back to the first time are frequent.
    for rows_each in [2, 4, 12] {
        let times: Vec<i64> = (0..1024)
            .map(|row| 1_700_000_000_000_000_000 + row % rows_each * 10_000_000_000)
            .collect();
        let page = page_of(ValuesRef::I64(&times));
        assert!(
            page.len() <= 1024 / 2 + 40,
            "{} bytes for series of {rows_each} rows",
            page.len()
        );
    }
}

#[test]
fn an_all_null_page_keeps_its_rows_and_type() {
    let validity = [0_u8; 16];
    let column = ColumnRef {
        values: ValuesRef::F64(&[1.5; 100]),
        validity: Some(&validity),
    };
    let out = round_trip(column);
    assert_eq!(out.f64s(), [0.0; 100]);
    let offsets = [0_u32; 101];
    let column = ColumnRef {
        values: ValuesRef::Text {
            offsets: &offsets,
            bytes: b"",
        },
        validity: Some(&validity),
    };
    assert_eq!(
        round_trip(column).text(),
        (offsets.as_slice(), [].as_slice())
    );
}

#[test]
fn impossible_columns_are_refused_and_leave_the_output_alone() {
    type Case<'a> = (ValuesRef<'a>, Option<&'a [u8]>, &'a dyn Fn(&Error) -> bool);
    let empty = ValuesRef::I64(&[]);
    let long = [0; BLOCK_ROWS_MAX + 1];
    let bytes = vec![b'x'; VALUE_BYTES_MAX + 1];
    let invalid = |error: &Error| matches!(error, Error::InvalidColumn { .. });
    let cases: [Case<'_>; 9] = [
        (empty, None, &|error| *error == Error::LimitRows { rows: 0 }),
        (ValuesRef::I64(&long), None, &|error| {
            *error == Error::LimitRows { rows: 1025 }
        }),
        (ValuesRef::I64(&[1; 9]), Some(&[1]), &invalid),
        (
            ValuesRef::Text {
                offsets: &[],
                bytes: b"",
            },
            None,
            &|error| *error == Error::LimitRows { rows: 0 },
        ),
        (
            ValuesRef::Text {
                offsets: &[0, 2, 1],
                bytes: b"abc",
            },
            None,
            &invalid,
        ),
        (
            ValuesRef::Text {
                offsets: &[0, 4],
                bytes: b"abc",
            },
            None,
            &invalid,
        ),
        (
            ValuesRef::Text {
                offsets: &[0, 1, 2],
                bytes: "\u{e9}".as_bytes(),
            },
            None,
            &invalid,
        ),
        (
            ValuesRef::Bytes {
                offsets: &[0, bytes.len() as u32],
                bytes: &bytes,
            },
            None,
            &|error| {
                *error
                    == Error::LimitTextBytes {
                        bytes: VALUE_BYTES_MAX + 1,
                    }
            },
        ),
        (
            // Only a value that stands alone may have more.
            ValuesRef::Bytes {
                offsets: &[0, 0, TEXT_BYTES_MAX as u32 + 1],
                bytes: &bytes,
            },
            None,
            &|error| {
                *error
                    == Error::LimitTextBytes {
                        bytes: TEXT_BYTES_MAX + 1,
                    }
            },
        ),
    ];
    for (values, validity, is_expected) in cases {
        let mut out = vec![9];
        let error = encode_page(ColumnRef { values, validity }, &mut out).unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        assert_eq!(out, [9]);
    }
}

#[test]
fn the_largest_text_page_round_trips() {
    let bytes: Vec<u8> = (0..TEXT_BYTES_MAX)
        .map(|index| ((index * index) >> 7) as u8)
        .collect();
    let offsets = [0, 5, TEXT_BYTES_MAX as u32];
    let out = round_trip(ColumnRef {
        values: ValuesRef::Bytes {
            offsets: &offsets,
            bytes: &bytes,
        },
        validity: None,
    });
    assert!(out.text() == (offsets.as_slice(), bytes.as_slice()));
}

/// A value of more than 16 MiB was refused, though the store lets values have 32. It stands alone among nulls, too.
#[test]
fn the_largest_value_round_trips_as_the_only_one_of_its_page() {
    let noise = |index: usize| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
    for bytes in [
        (0..VALUE_BYTES_MAX).map(noise).collect::<Vec<u8>>(),
        vec![b'x'; VALUE_BYTES_MAX],
        vec![b'x'; TEXT_BYTES_MAX + 1],
    ] {
        let end = bytes.len() as u32;
        for (offsets, validity) in [
            (vec![0, end], None),
            (vec![0, 0, end, end], Some([0b010_u8].as_slice())),
        ] {
            let out = round_trip(ColumnRef {
                values: ValuesRef::Bytes {
                    offsets: &offsets,
                    bytes: &bytes,
                },
                validity,
            });
            assert!(out.text() == (offsets.as_slice(), bytes.as_slice()));
        }
    }
}
