//! Times of the statements of one type, and a table of them for people.

use std::fmt::Write;

use serde::Serialize;

use crate::load::grouped;

/// How long the statements of one type took: from sending the request to having the whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryTiming {
    /// The suite's name of the type.
    pub name: &'static str,
    /// Connections that asked at the same time.
    pub clients: u32,
    /// Requests timed, of all connections together.
    pub runs: usize,
    /// The shortest.
    pub min_ms: f64,
    /// Half took no longer.
    pub median_ms: f64,
    /// 99 of 100 took no longer; the longest of fewer than a hundred.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Answers a second, of all connections together.
    pub per_second: f64,
    /// Rows of the last answer.
    pub rows: usize,
    /// Bytes of the last answer.
    pub answer_bytes: usize,
    /// How the data set made the question smaller than its name says, if it did.
    pub note: Option<String>,
}

/// The figures of some times in milliseconds, of which there is at least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(millis: &mut [f64]) -> Self {
        millis.sort_by(f64::total_cmp);
        let at = |place: usize| millis.get(place).copied().unwrap_or(0.0);
        let count = millis.len();
        Self {
            min: at(0),
            median: f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2)),
            // Nearest rank: one of the measured values.
            p99: at((count * 99).div_ceil(100).saturating_sub(1)),
            max: at(count.saturating_sub(1)),
        }
    }
}

/// Timings as a table for people.
pub fn table(timings: &[QueryTiming]) -> String {
    let mut out = format!(
        "{:<34}{:>6}{:>10}{:>11}{:>10}{:>10}{:>10}{:>10}\n",
        "query", "runs", "min ms", "median ms", "p99 ms", "max ms", "per s", "rows"
    );
    for t in timings {
        let note = t
            .note
            .as_ref()
            .map(|note| format!("  ({note})"))
            .unwrap_or_default();
        writeln!(
            out,
            "{:<34}{:>6}{:>10.2}{:>11.2}{:>10.2}{:>10.2}{:>10.1}{:>10}{note}",
            t.name,
            t.runs,
            t.min_ms,
            t.median_ms,
            t.p99_ms,
            t.max_ms,
            t.per_second,
            grouped(t.rows as u64)
        )
        .expect("writing to memory does not fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_the_middle_and_percentiles_are_measured_values() {
        let of = |list: &[f64]| Spread::of(&mut list.to_vec());
        let one = of(&[3.0]);
        assert_eq!(
            (one.min, one.median, one.p99, one.max),
            (3.0, 3.0, 3.0, 3.0)
        );
        let two = of(&[2.0, 1.0]);
        assert_eq!(
            (two.min, two.median, two.p99, two.max),
            (1.0, 1.5, 2.0, 2.0)
        );
        let list: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let many = of(&list);
        assert_eq!(
            (many.min, many.median, many.p99, many.max),
            (1.0, 100.5, 198.0, 200.0)
        );
    }
}
