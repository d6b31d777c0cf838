//! Summaries of two-step aggregates: bytes that users store in a `bytea` and hand back.

use nilometer_summaries::{Basis, Summary, rows};

/// What a summary holds in memory for each of its bytes, at most: a hash table and an order of frequent values take the most.
const MEMORY_TIMES_MAX: usize = 64;
/// Beside that: registers and buffers whose size a summary says itself.
const MEMORY_BYTES_MAX: usize = 1 << 20;

/// A summary behind a head and a checksum that hold: an error, or one that takes memory in proportion, answers every question, can be
/// merged with itself and comes back from its bytes the same.
pub(crate) fn summary(data: &[u8]) {
    // As they are: bytes that a client made up.
    let _ = Summary::decode(data);
    let _ = rows::decode_samples(data);
    let _ = rows::decode_timeline(data);
    let _ = rows::decode_parts(data);
    let Some((kind, contents)) = data.split_first() else {
        return;
    };
    // Kinds of rows on their way between workers are tried too.
    let kind = if *kind < 0x80 { *kind % 14 } else { *kind };
    let mut bytes = vec![0x4e, 0xa9, 1, kind];
    bytes.extend(contents);
    bytes.extend(nilometer_codec::crc32c(0, &bytes).to_le_bytes());
    let _ = rows::decode_samples(&bytes);
    let _ = rows::decode_timeline(&bytes);
    let _ = rows::decode_parts(&bytes);
    let Ok(summary) = Summary::decode(&bytes) else {
        return;
    };
    assert!(
        summary.bytes() <= MEMORY_BYTES_MAX + MEMORY_TIMES_MAX * bytes.len(),
        "{} bytes hold {} of {}",
        bytes.len(),
        summary.bytes(),
        summary.name()
    );
    let written = summary.encode();
    let again = Summary::decode(&written).expect("what was written is read");
    assert_eq!(again.encode(), written);
    ask(&summary);
    let mut merged = summary.clone();
    // Of what has an order in time, the second half cannot be the first again: that is an error, and changes nothing else.
    if merged.merge(summary).is_ok() {
        ask(&merged);
        // Counts that nobody has counted may be too many together, which the reader says.
        let written = merged.encode();
        if let Ok(again) = Summary::decode(&written) {
            assert_eq!(again.encode(), written);
        }
    }
}

/// Every question of a summary. Answers are not looked at: there is no telling what made-up sums mean.
fn ask(summary: &Summary) {
    let times = [i64::MIN, -1, 0, 1, 1_700_000_000_000_000_000, i64::MAX];
    let shares = [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 0.3, 1.0, f64::MAX];
    let _ = (summary.begins(), summary.name(), summary.bytes());
    match summary {
        Summary::Moments(it) => ask_moments(it),
        Summary::Pairs(it) => ask_pairs(it),
        Summary::Counter(it) => {
            let _ = (it.delta(), it.rate(), it.rate_left(), it.rate_right());
            let _ = (it.zero_time(), it.resets(), it.changes(), it.duration());
            let _ = (it.extrapolated_delta(), it.extrapolated_rate());
            ask_pairs(it.line());
            for (from, to) in pairs_of(&times) {
                let _ = it.interpolated(from, to, Some(it), Some(it));
                let _ = it.interpolated(from, to, None, None);
                let _ = it.clone().with_bounds(from, to);
            }
        }
        Summary::TimeWeight(it) => {
            let _ = (it.average(), it.integral());
            for (from, to) in pairs_of(&times) {
                let _ = it.interpolated(from, to, Some(it), Some(it));
                let _ = it.interpolated(from, to, None, None);
            }
        }
        Summary::Candlestick(it) => {
            let _ = (it.open(), it.high(), it.low(), it.close());
            let _ = (it.volume(), it.vwap());
        }
        Summary::Extremes(it) => drop(it.clone().sorted()),
        Summary::UddSketch(it) => {
            let _ = (it.count(), it.mean(), it.error());
            for share in shares {
                let _ = (it.quantile(share), it.rank(share));
            }
        }
        Summary::TDigest(it) => {
            let mut it = it.clone();
            let _ = (it.count(), it.mean(), it.min(), it.max());
            for share in shares {
                let _ = (it.quantile(share), it.rank(share));
            }
        }
        Summary::HyperLogLog(it) => {
            let _ = (it.count(), it.error());
        }
        Summary::Frequencies(it) => {
            let _ = (it.values(), it.most(None), it.most(Some(i64::MAX)));
            let _ = (it.most(Some(-1)), it.value_kind());
        }
        Summary::States(it) => {
            let _ = (it.durations().count(), it.periods());
            let states = it.durations().map(|(state, _)| state).take(3);
            for state in states {
                for (from, to) in pairs_of(&times) {
                    let _ = it.duration_between(state, from, to);
                    let _ = it.interpolated_duration(state, from, to, Some(it));
                }
            }
            for time in times {
                let _ = it.state_at(time);
            }
        }
        Summary::Heartbeats(it) => {
            let _ = (it.uptime(), it.downtime(), it.dead_ranges());
            let _ = it.clone().after(Some(it));
            for time in times {
                let _ = it.live_at(time);
            }
        }
    }
}

fn ask_moments(it: &nilometer_summaries::Moments) {
    let _ = (it.count(), it.sum(), it.mean());
    for basis in [Basis::Sample, Basis::Population] {
        let _ = (it.variance(basis), it.deviation(basis));
        let _ = (it.skewness(basis), it.kurtosis(basis));
    }
}

fn ask_pairs(it: &nilometer_summaries::Pairs) {
    ask_moments(it.x());
    ask_moments(it.y());
    let _ = (it.slope(), it.intercept(), it.x_intercept());
    let _ = (it.correlation(), it.determination());
    for basis in [Basis::Sample, Basis::Population] {
        let _ = it.covariance(basis);
    }
}

fn pairs_of(times: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    times
        .iter()
        .flat_map(move |from| times.iter().map(move |to| (*from, *to)))
}
