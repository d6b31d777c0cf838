use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::segment::summary::{Moment, Totals};

const KINDS: [PhysicalType; 4] = [
    PhysicalType::I64,
    PhysicalType::U64,
    PhysicalType::F64,
    PhysicalType::Bool,
];

/// Entries with rows at even steps, some of them the widest there are.
fn entries(seeds: &[(u8, u16, u32)]) -> Vec<HourEntry> {
    let mut keys: Vec<(u32, i64, u32)> = seeds
        .iter()
        .map(|&(series, hour, rows)| {
            let hour = i64::from(hour) - 1000;
            let hour = if hour % 50 == 0 {
                i64::MAX / HOUR_NS
            } else {
                hour
            };
            let hour = if hour % 50 == 1 {
                i64::MIN.div_euclid(HOUR_NS)
            } else {
                hour
            };
            (u32::from(series), hour, rows % 5000 + 2)
        })
        .collect();
    keys.sort_unstable();
    keys.dedup_by_key(|key| (key.0, key.1));
    keys.into_iter()
        .map(|(series, hour, rows)| {
            let start = hour.checked_mul(HOUR_NS).unwrap_or(i64::MIN);
            HourEntry {
                series,
                hour,
                rows,
                min_time: start,
                max_time: start.saturating_add(i64::from(rows)).min(i64::MAX - 1),
            }
        })
        .collect()
}

fn totals(kind: PhysicalType, a: u64, b: u64) -> Totals {
    match kind {
        PhysicalType::I64 => Totals::Int {
            min: a as i64,
            max: b as i64,
            sum: i128::from(a as i64) * i128::from(b as i64),
        },
        PhysicalType::U64 => Totals::Unsigned {
            min: a,
            max: b,
            sum: u128::from(a) * u128::from(b),
        },
        // Sums of floats may be moved to decimals of few digits; whole numbers are there already.
        PhysicalType::F64 => Totals::Float {
            min: f64::from_bits(a),
            max: f64::from_bits(b),
            sum: f64::from(a as i32),
            non_finite: a % 2 == 1,
        },
        _ => Totals::Bool { trues: a % 5000 },
    }
}

/// Bits, so that NaN equals itself.
fn bits(summary: &Summary) -> (u64, Moment, Moment, Vec<u64>) {
    let numbers = match summary.totals {
        Totals::Int { min, max, sum } => {
            vec![min as u64, max as u64, sum as u64, (sum >> 64) as u64]
        }
        Totals::Unsigned { min, max, sum } => vec![min, max, sum as u64, (sum >> 64) as u64],
        Totals::Float {
            min,
            max,
            sum,
            non_finite,
        } => vec![
            min.to_bits(),
            max.to_bits(),
            sum.to_bits(),
            u64::from(non_finite),
        ],
        Totals::Bool { trues } => vec![trues],
    };
    (summary.count, summary.first, summary.last, numbers)
}

proptest! {
    #[test]
    fn rollups_read_back_as_written(
        seeds in vec((0u8..5, 0u16..2000, any::<u32>()), 1..300),
        numbers in vec((any::<u64>(), any::<u64>(), 0u8..10), 300),
        picked in vec(any::<bool>(), 300),
        is_first in any::<bool>(),
    ) {
        let format = if is_first { SegmentFormat::First } else { SegmentFormat::Second };
        let entries = entries(&seeds);
        let mut rollups = GroupRollups::new(entries.clone(), format);
        let mut expected = Vec::new();
        for (id, kind) in (1..).zip(KINDS) {
            let values: Vec<Option<Summary>> = entries.iter().zip(&numbers).map(|(entry, &(a, b, how))| {
                let late = i64::from(how == 1 && entry.max_time > entry.min_time + 1);
                (how > 0).then_some(Summary {
                    count: u64::from(entry.rows) - u64::from(how % 2),
                    first: Moment { time: entry.min_time + late, bits: if kind == PhysicalType::Bool { a % 2 } else { a } },
                    last: Moment { time: entry.max_time - late / 2, bits: if kind == PhysicalType::Bool { b % 2 } else { b } },
                    totals: totals(kind, a, b),
                })
            }).collect();
            rollups.push(id, kind, &values);
            expected.push(values);
        }
        let mut bytes = Vec::new();
        rollups.encode(&mut bytes);
        let read = GroupRollups::decode(&bytes, format).unwrap();
        prop_assert_eq!(&read.entries, &entries);
        let all: Vec<usize> = (0..entries.len()).collect();
        let some: Vec<usize> = all.iter().copied().filter(|at| picked[*at]).collect();
        for ((id, kind), values) in (1..).zip(KINDS).zip(expected) {
            for wanted in [&all, &some] {
                let got = read.column(id, kind, wanted, true).unwrap().expect("it was written");
                let without = read.column(id, kind, wanted, false).unwrap().expect("it was written");
                for (one, other) in got.iter().zip(&without) {
                    let totals = |it: &Option<Summary>| it.as_ref().map(|it| (it.count, bits(it).3));
                    prop_assert_eq!(totals(one), totals(other));
                }
                let got: Vec<_> = got.iter().map(|value| value.as_ref().map(bits)).collect();
                let values: Vec<_> = wanted.iter().map(|at| values[*at].as_ref().map(bits)).collect();
                prop_assert_eq!(got, values, "{:?}", kind);
            }
            prop_assert!(read.column(id, PhysicalType::Text, &all, true).unwrap().is_none());
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_rollups(
        seeds in vec((0u8..3, 0u16..99, any::<u32>()), 1..20),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        noise in vec(any::<u8>(), 0..200),
    ) {
        let look = |bytes: &[u8]| {
            for format in [SegmentFormat::First, SegmentFormat::Second] {
                let Ok(read) = GroupRollups::decode(bytes, format) else { continue };
                let all: Vec<usize> = (0..read.entries.len()).collect();
                for (id, kind) in (1..).zip(KINDS) {
                    drop(read.column(id, kind, &all, true));
                    drop(read.column(id, kind, &all, false));
                }
            }
        };
        look(&noise);
        let entries = entries(&seeds);
        let mut rollups = GroupRollups::new(entries.clone(), SegmentFormat::Second);
        for (id, kind) in (1..).zip(KINDS) {
            let value = |entry: &HourEntry| Some(Summary {
                count: u64::from(entry.rows),
                first: Moment { time: entry.min_time, bits: 1 },
                last: Moment { time: entry.max_time, bits: 0 },
                totals: totals(kind, 7, 9),
            });
            let values: Vec<Option<Summary>> = entries.iter().map(value).collect();
            rollups.push(id, kind, &values);
        }
        let mut bytes = Vec::new();
        rollups.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        look(&bytes);
        look(&bytes[..at]);
    }
}

#[test]
fn a_claim_of_many_hours_takes_no_memory() {
    let mut bytes = Vec::new();
    varint::put_u64(u64::from(u32::MAX), &mut bytes);
    bytes.extend_from_slice(&[0; 16]);
    assert!(GroupRollups::decode(&bytes, SegmentFormat::Second).is_err());
}
