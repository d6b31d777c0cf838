//! Promise: summaries say what the published algorithms and arithmetic say, whatever the order and the parts in which values
//! came, and come back from their bytes as they were, or say that the bytes are damaged.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers that are drawn are small"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by it, in its helpers too")]

use nilometer_summaries::{
    Basis, Candlestick, Counter, End, Error, Extremes, Flavour, Frequencies, Heartbeats,
    HyperLogLog, Method, Moments, Pairs, Sample, Scalar, States, Summary, TDigest, TimeWeight,
    UddSketch, asap,
};
use proptest::prelude::*;

fn sample(time: i64, value: f64) -> Sample {
    Sample { time, value }
}

fn near(one: f64, other: f64, within: f64) -> bool {
    (one - other).abs() <= within * other.abs().max(1.0)
}

/// Sums of powers of the distance from the mean, in two passes.
fn powers(values: &[f64], power: i32) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(power)).sum()
}

/// One summary of each kind, with something in it.
fn all() -> Vec<Summary> {
    let mut moments = Moments::default();
    let mut pairs = Pairs::default();
    let mut counter = Counter::new(Flavour::Counter, sample(0, 5.0));
    let mut gauge = Counter::new(Flavour::Gauge, sample(0, 5.0));
    let mut weight = TimeWeight::new(Method::Linear, sample(0, 5.0));
    let mut candle = Candlestick::of_tick(sample(0, 5.0), Some(2.0));
    let mut largest = Extremes::new(End::Max, 3).unwrap();
    let mut udd = UddSketch::new(8, 0.01).unwrap();
    let mut digest = TDigest::new(10).unwrap();
    let mut few = HyperLogLog::new(4096).unwrap();
    let mut many = HyperLogLog::new(16).unwrap();
    let mut frequent = Frequencies::above(0.2).unwrap();
    let mut states = States::new(false, 0, Scalar::Text("on".into()));
    let mut compact = States::new(true, 0, Scalar::Int(1));
    let mut beats = Heartbeats::new(0, 1000, 7).unwrap();
    for step in 1..60 {
        let value = f64::from(step * 37 % 11) - 3.0;
        let time = i64::from(step) * 10;
        moments.add(value);
        pairs.add(value, f64::from(step));
        counter.add(sample(time, value));
        gauge.add(sample(time, value));
        weight.add(sample(time, value));
        candle.merge(&Candlestick::of_tick(sample(time, value), Some(1.0)));
        largest.add(Scalar::Float(value), Some(Scalar::Time(time)));
        udd.add(value);
        digest.add(value);
        few.add(&Scalar::Int(time));
        many.add(&Scalar::Int(time));
        frequent.add(Scalar::Text(format!("{value}").into()));
        let state = if step % 3 == 0 { "on" } else { "off" };
        states.add(time, &Scalar::Text(state.into())).unwrap();
        compact
            .add(time, &Scalar::Int(i64::from(step) % 3))
            .unwrap();
        beats.add(time).unwrap();
    }
    vec![
        Summary::Moments(moments),
        Summary::Pairs(Box::new(pairs)),
        Summary::Counter(Box::new(counter.with_bounds(0, 10_000).unwrap())),
        Summary::Counter(Box::new(gauge)),
        Summary::TimeWeight(weight),
        Summary::Candlestick(Box::new(candle)),
        Summary::Extremes(largest),
        Summary::UddSketch(Box::new(udd)),
        Summary::TDigest(digest),
        Summary::HyperLogLog(few),
        Summary::HyperLogLog(many),
        Summary::Frequencies(Box::new(frequent)),
        Summary::States(Box::new(states)),
        Summary::States(Box::new(compact)),
        Summary::Heartbeats(beats),
    ]
}

#[test]
fn every_kind_comes_back_from_its_bytes() {
    for summary in all() {
        let bytes = summary.encode();
        let read = Summary::decode(&bytes).unwrap();
        assert_eq!(read.kind(), summary.kind());
        assert_eq!(read.encode(), bytes, "{}", summary.name());
    }
}

#[test]
fn a_changed_byte_and_a_cut_are_found_in_every_kind() {
    for summary in all() {
        let bytes = summary.encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(
                Summary::decode(&changed).is_err(),
                "{} at {at}",
                summary.name()
            );
            assert!(Summary::decode(&bytes[..at]).is_err());
        }
    }
    assert_eq!(Summary::decode(b"text"), Err(Error::Foreign));
    assert_eq!(Summary::decode(b""), Err(Error::Foreign));
}

/// The bytes of a later version are no damage.
#[test]
fn a_newer_version_is_named() {
    let mut bytes = all()[0].encode();
    bytes[2] = 9;
    let error = Summary::decode(&bytes).unwrap_err();
    assert_eq!(
        error,
        Error::Newer {
            version: 9,
            known: 1
        }
    );
}

/// A checksum keeps out what was damaged by chance, not what somebody made: the contents are checked as well.
#[test]
fn bytes_with_a_right_checksum_are_read_with_care() {
    for summary in all() {
        let bytes = summary.encode();
        let body = bytes.len() - 4;
        for at in 3..body {
            for value in [0x00, 0x7f, 0x80, 0xff] {
                let mut made = bytes[..body].to_vec();
                made[at] = value;
                made.extend(crc32c::crc32c(&made).to_le_bytes());
                if let Ok(mut read) = Summary::decode(&made) {
                    // Whatever it is, it can be merged and written.
                    let _ = read.merge(summary.clone());
                    let _ = read.encode();
                }
            }
        }
    }
}

#[test]
fn summaries_of_two_kinds_do_not_mix() {
    let all = all();
    let mut moments = all[0].clone();
    let error = moments.merge(all[1].clone()).unwrap_err();
    assert!(matches!(error, Error::Kinds { .. }), "{error}");
}

#[test]
fn a_count_of_distinct_values_is_within_its_error() {
    for (registers, values) in [(1024, 10), (1024, 500), (1024, 3000), (4096, 100_000)] {
        let mut one = HyperLogLog::new(registers).unwrap();
        let mut parts = [one.clone(), one.clone()];
        for value in 0..values {
            let value = Scalar::Int(value);
            one.add(&value);
            parts[usize::from(value.to_string().len().is_multiple_of(2))].add(&value);
        }
        // Four standard errors: once in 16,000.
        assert!(
            near(one.count(), values as f64, 4.0 * one.error()),
            "{values}: {}",
            one.count()
        );
        let [mut left, right] = parts;
        left.merge(&right).unwrap();
        assert_eq!(left.count().to_bits(), one.count().to_bits());
    }
}

#[test]
fn a_frequent_value_is_never_missed() {
    // 5 % of the values, in a stream of which the rest are all different.
    let mut frequent = Frequencies::above(0.05).unwrap();
    let mut other = frequent.clone();
    for step in 0..10_000i64 {
        let value = if step % 20 == 7 { 1 } else { 100 + step };
        let part = if step < 5000 {
            &mut frequent
        } else {
            &mut other
        };
        part.add(Scalar::Int(value));
    }
    frequent.merge(&other).unwrap();
    let found = frequent.values();
    let found = found.iter().find(|it| it.value == Scalar::Int(1)).unwrap();
    assert!(found.min <= 0.05 && found.max >= 0.05, "{found:?}");
}

#[test]
fn the_most_frequent_values_of_a_zeta_distribution_are_found() {
    let mut top = Frequencies::top(3, 1.5).unwrap();
    for value in 1..200i64 {
        let times = (5000.0 * (value as f64).powf(-1.5)) as usize;
        (0..times).for_each(|_| top.add(Scalar::Int(value)));
    }
    let most = top.most(None).unwrap();
    assert_eq!(most, [1, 2, 3].map(Scalar::Int));
}

#[test]
fn the_window_of_a_wave_is_its_period() {
    let wave: Vec<Sample> = (0..400i32)
        .map(|x| {
            let wave = (f64::from(x) * std::f64::consts::PI / 10.0).sin();
            let higher = if (190..230).contains(&x) { 5.0 } else { 0.0 };
            sample(i64::from(x), wave + higher)
        })
        .collect();
    let smooth = asap(&wave, 400);
    let calm = smooth.iter().filter(|it| it.time < 150);
    let highest = calm.map(|it| it.value.abs()).fold(0.0, f64::max);
    assert!(highest < 0.2, "{highest}");
    assert!(smooth.iter().any(|it| it.value > 4.0));
    assert_eq!(asap(&wave[..5], 400), wave[..5]);
    assert_eq!(asap(&[], 10), []);
}

proptest! {
    #[test]
    fn moments_are_those_of_two_passes(
        values in prop::collection::vec(-1e3f64..1e3, 3..60),
        cut in 0usize..60,
    ) {
        let cut = cut.min(values.len());
        let mut one = Moments::default();
        let mut other = Moments::default();
        values[..cut].iter().for_each(|value| one.add(*value));
        values[cut..].iter().for_each(|value| other.add(*value));
        one.merge(&other);
        let n = values.len() as f64;
        let variance = powers(&values, 2) / (n - 1.0);
        prop_assert!(near(one.variance(Basis::Sample).unwrap(), variance, 1e-9));
        prop_assert!(near(one.mean().unwrap(), values.iter().sum::<f64>() / n, 1e-9));
        if variance > 1.0 {
            let spread = (powers(&values, 2) / n).sqrt();
            let skewness = powers(&values, 3) / n / spread.powi(3);
            let kurtosis = powers(&values, 4) / n / spread.powi(4);
            prop_assert!(near(one.skewness(Basis::Population).unwrap(), skewness, 1e-7));
            prop_assert!(near(one.kurtosis(Basis::Population).unwrap(), kurtosis, 1e-7));
        }
    }

    #[test]
    fn a_line_is_that_of_least_squares(
        pairs in prop::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 3..40),
        cut in 0usize..40,
    ) {
        let cut = cut.min(pairs.len());
        let (mut one, mut other) = (Pairs::default(), Pairs::default());
        pairs[..cut].iter().for_each(|(y, x)| one.add(*y, *x));
        pairs[cut..].iter().for_each(|(y, x)| other.add(*y, *x));
        one.merge(&other);
        let n = pairs.len() as f64;
        let (my, mx) = (
            pairs.iter().map(|it| it.0).sum::<f64>() / n,
            pairs.iter().map(|it| it.1).sum::<f64>() / n,
        );
        let xy: f64 = pairs.iter().map(|(y, x)| (y - my) * (x - mx)).sum();
        let xx: f64 = pairs.iter().map(|(_, x)| (x - mx) * (x - mx)).sum();
        prop_assume!(xx > 1.0);
        prop_assert!(near(one.slope().unwrap(), xy / xx, 1e-8));
        prop_assert!(near(one.intercept().unwrap(), my - mx * xy / xx, 1e-7));
    }

    #[test]
    fn a_counter_of_parts_is_that_of_the_whole(
        values in prop::collection::vec(0u32..50, 2..50),
        cuts in prop::collection::btree_set(1usize..50, 0..6),
    ) {
        let samples: Vec<Sample> = (0i64..).zip(&values)
            .map(|(time, value)| sample(time * 1_000_000_000, f64::from(*value)))
            .collect();
        // The model: every step up counts, and after a step down what is shown.
        let steps = values.windows(2);
        let grown: u32 = steps.map(|it| if it[1] < it[0] { it[1] } else { it[1] - it[0] }).sum();
        let resets = values.windows(2).filter(|it| it[1] < it[0]).count() as u64;
        for flavour in [Flavour::Counter, Flavour::Gauge] {
            let of = |samples: &[Sample]| {
                let mut counter = Counter::new(flavour, samples[0]);
                samples[1..].iter().for_each(|sample| counter.add(*sample));
                counter
            };
            let whole = of(&samples);
            let mut from = 0;
            let mut parts: Option<Counter> = None;
            for cut in cuts.iter().copied().filter(|cut| *cut < samples.len()).chain([samples.len()]) {
                let part = of(&samples[from..cut]);
                match &mut parts {
                    Some(parts) => parts.append(&part).unwrap(),
                    None => parts = Some(part),
                }
                from = cut;
            }
            let parts = parts.unwrap();
            if flavour == Flavour::Counter {
                prop_assert!(near(whole.delta(), f64::from(grown), 1e-9));
                prop_assert_eq!(whole.resets(), resets);
            }
            prop_assert!(near(parts.delta(), whole.delta(), 1e-9));
            prop_assert_eq!(parts.resets(), whole.resets());
            prop_assert_eq!(parts.changes(), whole.changes());
            prop_assert_eq!(parts.growth_left().to_bits(), whole.growth_left().to_bits());
            prop_assert_eq!(parts.growth_right().to_bits(), whole.growth_right().to_bits());
            let slopes = (parts.line().slope().unwrap(), whole.line().slope().unwrap());
            prop_assert!(near(slopes.0, slopes.1, 1e-6), "{slopes:?}");
        }
    }

    #[test]
    fn a_sketch_is_within_its_error(
        values in prop::collection::vec(-1e6f64..1e6, 1..300),
        buckets in 4i64..200,
        share in 0.0f64..=1.0,
        cut in 0usize..300,
    ) {
        let cut = cut.min(values.len());
        let mut one = UddSketch::new(buckets, 0.01).unwrap();
        let mut other = one.clone();
        values[..cut].iter().for_each(|value| one.add(*value));
        values[cut..].iter().for_each(|value| other.add(*value));
        one.merge(other).unwrap();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = ((values.len() as f64 * share) as usize).min(values.len() - 1);
        let exact = sorted[rank];
        let found = one.quantile(share).unwrap();
        prop_assert!((found - exact).abs() <= exact.abs() * one.error() * 1.000_001,
            "{found} for {exact}, {}", one.error());
    }

    #[test]
    fn a_digest_is_within_a_centroid(
        values in prop::collection::vec(-1e6f64..1e6, 1..2000),
        share in 0.0f64..=1.0,
        cut in 0usize..2000,
    ) {
        let cut = cut.min(values.len());
        let mut one = TDigest::new(100).unwrap();
        let mut other = one.clone();
        values[..cut].iter().for_each(|value| one.add(*value));
        values[cut..].iter().for_each(|value| other.add(*value));
        one.merge(other).unwrap();
        let found = one.quantile(share).unwrap();
        // A centroid in the middle has 2 % of the values at most, so a value is off by less than two of them.
        let below = values.iter().filter(|value| **value < found).count() as f64;
        let off = (below / values.len() as f64 - share).abs();
        prop_assert!(off <= 0.04 + 1.0 / values.len() as f64, "{off}");
        let rank = one.rank(found).unwrap();
        prop_assert!((rank - share).abs() <= 0.04 + 1.0 / values.len() as f64, "{rank} for {share}");
    }

    #[test]
    fn lives_are_those_of_every_nanosecond(
        beats in prop::collection::vec(0i64..200, 1..30),
        length in 1i64..30,
    ) {
        let mut one = Heartbeats::new(0, 100, length).unwrap();
        let mut other = Heartbeats::new(100, 100, length).unwrap();
        for beat in &beats {
            let part = if *beat < 100 { &mut one } else { &mut other };
            part.add(*beat).unwrap();
        }
        one.merge(&other).unwrap();
        let lives = |at: i64| beats.iter().any(|beat| *beat <= at && at < beat + length);
        let up = (0..200).filter(|at| lives(*at)).count() as i64;
        prop_assert_eq!(one.uptime(), up);
        prop_assert_eq!(one.downtime(), 200 - up);
        for at in 0..200 {
            prop_assert_eq!(one.live_at(at).unwrap(), lives(at));
        }
    }

    #[test]
    fn timelines_of_parts_are_those_of_the_whole(
        steps in prop::collection::vec((1i64..9, 0i64..3), 1..30),
        cut in 0usize..30,
    ) {
        let mut at = 0;
        let rows: Vec<(i64, Scalar)> = steps.iter().map(|(step, state)| {
            at += step;
            (at, Scalar::Int(*state))
        }).collect();
        for is_compact in [false, true] {
            let of = |rows: &[(i64, Scalar)]| {
                let mut states = States::new(is_compact, rows[0].0, rows[0].1.clone());
                rows[1..].iter().for_each(|(time, state)| states.add(*time, state).unwrap());
                states
            };
            let whole = of(&rows);
            let cut = cut.clamp(1, rows.len());
            let mut parts = of(&rows[..cut]);
            if cut < rows.len() {
                parts.append(&of(&rows[cut..])).unwrap();
            }
            for state in 0..3 {
                let pairs = rows.windows(2).filter(|it| it[0].1 == Scalar::Int(state));
                let lasted: i64 = pairs.map(|it| it[1].0 - it[0].0).sum();
                prop_assert_eq!(whole.duration_in(&Scalar::Int(state)), lasted);
                prop_assert_eq!(parts.duration_in(&Scalar::Int(state)), lasted);
            }
            if !is_compact {
                prop_assert_eq!(parts.periods().unwrap(), whole.periods().unwrap());
                let bytes = Summary::States(Box::new(parts)).encode();
                prop_assert!(Summary::decode(&bytes).is_ok());
            }
        }
    }

    #[test]
    fn the_largest_are_those_of_a_sort(
        values in prop::collection::vec(-50i64..50, 1..80),
        count in 1i64..10,
    ) {
        for end in [End::Max, End::Min] {
            let mut kept = Extremes::new(end, count).unwrap();
            for value in &values {
                kept.add(Scalar::Int(*value), None);
            }
            let mut sorted = values.clone();
            sorted.sort_unstable();
            if end == End::Max {
                sorted.reverse();
            }
            sorted.truncate(usize::try_from(count).unwrap());
            let found: Vec<Scalar> = kept.sorted().into_iter().map(|it| it.0).collect();
            let sorted: Vec<Scalar> = sorted.into_iter().map(Scalar::Int).collect();
            prop_assert_eq!(found, sorted);
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Summary::decode(&bytes).is_err());
    }
}
