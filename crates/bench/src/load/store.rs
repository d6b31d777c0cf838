//! Effect of a load on the store, by the database's own figures: Nilometer's `/metrics`.
//!
//! Does: read those figures before and after, wait until the store has done what it does by itself after a load. Does
//! not: look into files; another database has no such figures, and then there are none in the report.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::LoadOptions;
use super::target::Target;

/// Pause between two looks at the figures.
const POLL: Duration = Duration::from_millis(200);

/// Figures of a store at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StoreFigures {
    /// Segment files.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Bytes of segment files ever written.
    pub segment_bytes_written: u64,
    /// Bytes of definition files.
    pub definition_bytes: u64,
    /// Rows that are in memory and not in segments.
    pub head_rows: u64,
    /// Series.
    pub series: u64,
    /// Memory of series and tag values.
    pub series_bytes: u64,
}

impl StoreFigures {
    /// From a page in Prometheus' text format; `None` if one is missing.
    fn parse(page: &str) -> Option<Self> {
        let figure = |name: &str| {
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(name));
            lines.find_map(|rest| rest.strip_prefix(' ')?.parse().ok())
        };
        Some(Self {
            segments: figure("nilometer_segments")?,
            segment_bytes: figure("nilometer_segment_bytes")?,
            segment_bytes_written: figure("nilometer_segment_bytes_written_total")?,
            definition_bytes: figure("nilometer_definition_bytes")?,
            head_rows: figure("nilometer_head_rows")?,
            series: figure("nilometer_series")?,
            series_bytes: figure("nilometer_series_bytes")?,
        })
    }

    pub(super) fn of(target: &Target) -> Option<Self> {
        Self::parse(&target.metrics()?)
    }
}

/// What a load did to a store.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StoreChange {
    /// Before the first batch.
    pub before: StoreFigures,
    /// When the rows were counted.
    pub loaded: StoreFigures,
    /// When nothing had been written for a while; the same as `loaded` if nobody waited.
    pub settled: StoreFigures,
    /// From the count to `settled`.
    pub settle_seconds: f64,
    /// Bytes of segments written since `before`, over the bytes by which segments grew until `settled`; 0 if they did not
    /// grow.
    pub write_amplification: f64,
    /// Bytes by which segments and definitions grew, over the values that were loaded; 0 when they are not known.
    pub bytes_per_value: f64,
}

impl StoreChange {
    /// Looks at the store after the load, and again when it has settled.
    pub(super) fn follow(
        before: StoreFigures,
        target: &Target,
        options: &LoadOptions,
        values: Option<u64>,
    ) -> Option<Self> {
        let loaded = StoreFigures::of(target)?;
        let begin = Instant::now();
        let (mut settled, mut changed) = (loaded, begin);
        while begin.elapsed() < options.settle_wait && changed.elapsed() < options.settle_quiet {
            thread::sleep(POLL);
            let now = StoreFigures::of(target)?;
            if now != settled {
                (settled, changed) = (now, Instant::now());
            }
        }
        Some(Self::new(
            before,
            loaded,
            settled,
            changed.duration_since(begin),
            values,
        ))
    }

    fn new(
        before: StoreFigures,
        loaded: StoreFigures,
        settled: StoreFigures,
        settle: Duration,
        values: Option<u64>,
    ) -> Self {
        let over = |part: u64, whole: u64| match whole {
            0 => 0.0,
            whole => part as f64 / whole as f64,
        };
        let grown = settled.segment_bytes.saturating_sub(before.segment_bytes);
        let defined = settled
            .definition_bytes
            .saturating_sub(before.definition_bytes);
        let written = settled
            .segment_bytes_written
            .saturating_sub(before.segment_bytes_written);
        Self {
            before,
            loaded,
            settled,
            settle_seconds: settle.as_secs_f64(),
            write_amplification: over(written, grown),
            bytes_per_value: over(grown + defined, values.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreChange, StoreFigures};
    use std::time::Duration;

    const PAGE: &str = "\
# HELP nilometer_segments Segment files.
# TYPE nilometer_segments gauge
nilometer_segments 3
nilometer_segment_bytes 1000
nilometer_segment_bytes_written_total 2500
nilometer_definition_bytes 200
nilometer_head_rows 7
nilometer_series 4
nilometer_series_bytes 99
nilometer_http_requests_total{route=\"/metrics\",status=\"200\"} 1
";

    #[test]
    fn figures_are_found_by_their_whole_names() {
        let figures = StoreFigures::parse(PAGE).unwrap();
        let bytes = (figures.segment_bytes, figures.segment_bytes_written);
        assert_eq!((figures.segments, bytes), (3, (1000, 2500)));
        assert_eq!((figures.series, figures.series_bytes), (4, 99));
        assert_eq!(StoreFigures::parse("go_goroutines 8\n"), None);
    }

    #[test]
    fn amplification_and_size_are_of_what_the_load_added() {
        let before = StoreFigures::parse(PAGE).unwrap();
        let settled = StoreFigures {
            segment_bytes: 2000,
            segment_bytes_written: 5000,
            definition_bytes: 700,
            ..before
        };
        let change = StoreChange::new(before, before, settled, Duration::ZERO, Some(3000));
        assert_eq!(
            (change.write_amplification, change.bytes_per_value),
            (2.5, 0.5)
        );
        let nothing = StoreChange::new(before, before, before, Duration::ZERO, None);
        assert_eq!(
            (nothing.write_amplification, nothing.bytes_per_value),
            (0.0, 0.0)
        );
    }
}
