//! Results of a load: figures for a file and a table for people.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::{LoadOptions, Run, StoreChange};
use crate::batch_file::Header;

/// How long requests took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyMs {
    /// Half of the requests took no longer.
    pub p50: f64,
    /// 95 of 100 requests took no longer.
    pub p95: f64,
    /// 99 of 100 requests took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl LatencyMs {
    /// Of any number of requests; zeros if there are none.
    pub(crate) fn of(durations: &[Duration]) -> Self {
        let mut ms: Vec<f64> = durations.iter().map(|d| d.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        // Nearest rank: a percentile is one of the measured values.
        let at = |percent: usize| {
            let rank = (ms.len() * percent).div_ceil(100).max(1);
            ms.get(rank - 1).copied().unwrap_or(0.0)
        };
        Self {
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }
}

/// The count after the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Visible {
    /// Rows a query counts.
    pub rows: u64,
    /// Rows a query counted before the load.
    pub rows_before: u64,
    /// How often it was counted until the rows were there.
    pub counts: u32,
    /// From the last acknowledgement's arrival to the right count's.
    pub seconds: f64,
}

/// Everything measured in one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Where the rows went.
    pub url: String,
    /// The database there.
    pub database: String,
    /// The file they came from.
    pub file: String,
    /// What the file says about itself, if it is a batch file.
    pub data_set: Option<Header>,
    /// Rows acknowledged.
    pub rows: u64,
    /// Metric values in them; unknown for plain line protocol, whose lines are not looked into, and for a part of a file whose
    /// rows differ.
    pub values: Option<u64>,
    /// First request sent to last batch acknowledged.
    pub seconds: f64,
    /// Rows acknowledged a second.
    pub rows_per_second: f64,
    /// Values acknowledged a second.
    pub values_per_second: Option<f64>,
    /// Bytes of line protocol.
    pub text_bytes: u64,
    /// Line protocol a second, in millions of bytes.
    pub text_mb_per_second: f64,
    /// Requests that were acknowledged.
    pub batches: u64,
    /// How long they took.
    pub latency_ms: LatencyMs,
    /// Sending threads.
    pub workers: u32,
    /// Rows of a full batch.
    pub batch_rows: u32,
    /// What the server says its acknowledgement means.
    pub sync_mode: String,
    /// Connections opened; more than the workers means that the server closes them.
    pub connections: u64,
    /// Batches sent again because the server asked for time.
    pub retries: u64,
    /// Processor time of the loader's threads.
    pub loader_cpu_seconds: f64,
    /// The count after the load.
    pub visible: Visible,
    /// What the load did to the store, if the database says.
    pub store: Option<StoreChange>,
}

impl LoadReport {
    pub(super) fn new(
        options: &LoadOptions,
        header: Option<&Header>,
        sync_mode: String,
        run: &Run,
        visible: Visible,
    ) -> Self {
        let seconds = run.elapsed.as_secs_f64();
        let per_second = |amount: u64| {
            if seconds > 0.0 {
                amount as f64 / seconds
            } else {
                0.0
            }
        };
        // A part of a file is counted only where all rows are alike.
        let values = header.and_then(|header| {
            let is_whole = header.rows == run.rows;
            is_whole
                .then_some(header.values)
                .or_else(|| header.workload.values_of_rows(run.rows))
        });
        Self {
            url: options.url.clone(),
            database: options.database.clone(),
            file: options.file.display().to_string(),
            data_set: header.cloned(),
            rows: run.rows,
            values,
            seconds,
            rows_per_second: per_second(run.rows),
            values_per_second: values.map(per_second),
            text_bytes: run.text_bytes,
            text_mb_per_second: per_second(run.text_bytes) / 1e6,
            batches: run.latencies.len() as u64,
            latency_ms: LatencyMs::of(&run.latencies),
            workers: options.workers,
            batch_rows: header.map_or(options.batch_rows, |header| header.batch_rows),
            sync_mode,
            connections: run.connections,
            retries: run.retries,
            loader_cpu_seconds: run.cpu.as_secs_f64(),
            visible,
            store: None,
        }
    }

    /// A table of two columns.
    pub fn table(&self) -> String {
        let ms = &self.latency_ms;
        let mut lines = vec![
            ("rows", grouped(self.rows)),
            (
                "values",
                self.values.map_or_else(|| "unknown".to_owned(), grouped),
            ),
            ("seconds", format!("{:.3}", self.seconds)),
            ("rows/s", grouped_f64(self.rows_per_second)),
            (
                "values/s",
                self.values_per_second
                    .map_or_else(|| "unknown".to_owned(), grouped_f64),
            ),
            ("text", format!("{:.1} MB/s", self.text_mb_per_second)),
            (
                "batches",
                format!(
                    "{} of {} rows",
                    grouped(self.batches),
                    grouped(self.batch_rows.into())
                ),
            ),
            (
                "workers",
                format!("{} ({} connections)", self.workers, self.connections),
            ),
            (
                "latency",
                format!(
                    "p50 {:.1}, p95 {:.1}, p99 {:.1}, max {:.1} ms",
                    ms.p50, ms.p95, ms.p99, ms.max
                ),
            ),
            ("sync mode", self.sync_mode.clone()),
            ("loader CPU", format!("{:.3} s", self.loader_cpu_seconds)),
            (
                "visible",
                format!(
                    "{} rows, counted in {:.1} ms",
                    grouped(self.visible.rows),
                    self.visible.seconds * 1e3
                ),
            ),
        ];
        if self.retries > 0 {
            lines.push(("retries", grouped(self.retries)));
        }
        if let Some(store) = &self.store {
            lines.extend(store_lines(store));
        }
        lines.iter().fold(String::new(), |mut out, (name, value)| {
            writeln!(out, "{name:<11} {value}").expect("writing to memory does not fail");
            out
        })
    }
}

fn store_lines(store: &StoreChange) -> [(&'static str, String); 3] {
    let settled = &store.settled;
    [
        (
            "store",
            format!(
                "{} bytes in {} segments, {} of definitions, {} rows in memory, {:.1} s after the count",
                grouped(settled.segment_bytes),
                grouped(settled.segments),
                grouped(settled.definition_bytes),
                grouped(settled.head_rows),
                store.settle_seconds
            ),
        ),
        (
            "size",
            format!("{:.4} bytes a value", store.bytes_per_value),
        ),
        (
            "amplified",
            format!("{:.2} bytes written a byte kept", store.write_amplification),
        ),
    ]
}

/// `4320000` as `4,320,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rates are shown without decimals, and are far below 2^63"
)]
fn grouped_f64(number: f64) -> String {
    grouped(number.round().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::{LatencyMs, grouped};
    use std::time::Duration;

    #[test]
    fn percentiles_are_measured_values_of_the_nearest_rank() {
        let durations: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(
            LatencyMs::of(&durations),
            LatencyMs {
                p50: 100.0,
                p95: 190.0,
                p99: 198.0,
                max: 200.0
            }
        );
        assert_eq!(
            LatencyMs::of(&durations[..1]),
            LatencyMs {
                p50: 200.0,
                p95: 200.0,
                p99: 200.0,
                max: 200.0
            }
        );
        assert_eq!(
            LatencyMs::of(&[]),
            LatencyMs {
                p50: 0.0,
                p95: 0.0,
                p99: 0.0,
                max: 0.0
            }
        );
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(4_320_000), "4,320,000");
    }
}
