//! Smoothing for charts: `asap_smooth`.
//!
//! Rong and Bailis: "ASAP: Prioritizing Attention via Time Series Smoothing", 2017: the moving mean whose window makes the curve
//! as smooth as it gets while what is unusual stays as unusual (the kurtosis does not fall).

use crate::{Sample, difference};

/// Of the points, the part that the longest window may have.
const WINDOW_PART: usize = 10;

/// A peak of the autocorrelation is one from here on.
const PEAK_MIN: f64 = 0.2;

/// Smooths samples that are in the order of time; more than twice the resolution are averaged to that many first.
pub fn asap(samples: &[Sample], resolution: usize) -> Vec<Sample> {
    let resolution = resolution.max(1);
    let points = if samples.len() >= 2 * resolution {
        evenly(samples, resolution)
    } else {
        samples.to_vec()
    };
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let window = window_of(&values);
    let windows = points.windows(window);
    let smoothed = means(&values, window);
    windows
        .zip(smoothed)
        .filter_map(|(inside, value)| {
            let (first, last) = (inside.first()?, inside.last()?);
            let middle = i128::midpoint(i128::from(first.time), i128::from(last.time));
            let time = i64::try_from(middle).ok()?;
            Some(Sample { time, value })
        })
        .collect()
}

/// The means of equally long parts of the time; a part without samples lies on the line between its neighbours.
fn evenly(samples: &[Sample], parts: usize) -> Vec<Sample> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Vec::new();
    };
    let width = difference(last.time, first.time) / parts as f64;
    if width <= 0.0 {
        return vec![*first];
    }
    let mut sums = vec![(0.0, 0.0); parts];
    for sample in samples {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the whole part, of what is not above the number of parts"
        )]
        let part = (difference(sample.time, first.time) / width) as usize;
        if let Some((sum, count)) = sums.get_mut(part.min(parts - 1)) {
            *sum += sample.value;
            *count += 1.0;
        }
    }
    let start = |part: usize| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the difference of two times"
        )]
        let after = (part as f64 * width) as i128;
        i64::try_from(i128::from(first.time) + after).unwrap_or(last.time)
    };
    let known: Vec<(usize, f64)> = sums
        .iter()
        .enumerate()
        .filter(|(_, (_, count))| *count > 0.0)
        .map(|(part, (sum, count))| (part, sum / count))
        .collect();
    let mut points = Vec::with_capacity(parts);
    for pair in known.windows(2) {
        let [(from, value), (to, next)] = pair else {
            continue;
        };
        for part in *from..*to {
            let share = (part - from) as f64 / (to - from) as f64;
            points.push(Sample {
                time: start(part),
                value: value + (next - value) * share,
            });
        }
    }
    if let Some((part, value)) = known.last() {
        points.push(Sample {
            time: start(*part),
            value: *value,
        });
    }
    points
}

/// The moving means.
fn means(values: &[f64], window: usize) -> Vec<f64> {
    values
        .windows(window)
        .map(|inside| inside.iter().sum::<f64>() / window as f64)
        .collect()
}

/// How much the values go up and down from one to the next, and how unusual the unusual ones are.
fn shape(values: &[f64]) -> (f64, f64) {
    let steps: Vec<f64> = values
        .iter()
        .zip(values.iter().skip(1))
        .map(|(one, next)| next - one)
        .collect();
    let central = |values: &[f64], power: i32| {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let powers = values.iter().map(|value| (value - mean).powi(power));
        powers.sum::<f64>() / count
    };
    let roughness = central(&steps, 2).sqrt();
    let spread = central(values, 2);
    (roughness, central(values, 4) / (spread * spread))
}

/// The autocorrelation, by the distance.
fn correlations(values: &[f64], longest: usize) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let apart: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let of = |lag: usize| -> f64 {
        let pairs = apart.iter().zip(apart.iter().skip(lag));
        pairs.map(|(one, other)| one * other).sum()
    };
    let whole = of(0);
    (0..longest).map(|lag| of(lag) / whole).collect()
}

fn peaks(correlations: &[f64]) -> Vec<usize> {
    let at = |lag: usize| correlations.get(lag).copied().unwrap_or(f64::NEG_INFINITY);
    let inner = 2..correlations.len().saturating_sub(1);
    let peaks: Vec<usize> = inner
        .filter(|lag| {
            let value = at(*lag);
            value > PEAK_MIN && value > at(lag - 1) && value >= at(lag + 1)
        })
        .collect();
    if peaks.len() > 1 {
        return peaks;
    }
    // Without a period every window may be the best.
    (2..correlations.len()).collect()
}

fn window_of(values: &[f64]) -> usize {
    let longest = values.len() / WINDOW_PART;
    if longest < 2 {
        return 1;
    }
    let (mut smoothest, unusual) = shape(values);
    let correlations = correlations(values, longest + 1);
    let peaks = peaks(&correlations);
    let mut best = 1;
    let mut try_window = |window: usize| {
        let (roughness, kurtosis) = shape(&means(values, window));
        let keeps = kurtosis >= unusual;
        if keeps && roughness < smoothest {
            smoothest = roughness;
            best = window;
        }
        keeps
    };
    let mut least = 2;
    let mut most = longest;
    for (place, window) in peaks.iter().enumerate().rev() {
        if try_window(*window) {
            // Longer windows up to the next peak may be better; shorter ones are not.
            least = window + 1;
            most = peaks.get(place + 1).map_or(longest, |next| next - 1);
            break;
        }
    }
    while least <= most {
        let middle = usize::midpoint(least, most);
        if try_window(middle) {
            least = middle + 1;
        } else {
            most = middle - 1;
        }
    }
    best
}
