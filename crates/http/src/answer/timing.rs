//! The header `Server-Timing`: where the time of an answer went.
//!
//! Does: write times in milliseconds, and how much was read. Does not: measure.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use nilometer_service::Timings;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The answer, with what is known by now of where its time went.
pub fn with_timings(mut response: Response, timings: &Timings) -> Response {
    if let Ok(shown) = HeaderValue::try_from(shown(timings)) {
        response.headers_mut().insert(SERVER_TIMING, shown);
    }
    response
}

fn shown(timings: &Timings) -> String {
    let steps = timings.steps().into_iter();
    let mut parts: Vec<String> = steps
        .map(|(step, took)| format!("{};dur={:.3}", step.name(), took.as_secs_f64() * 1e3))
        .collect();
    if let Some(reads) = timings.reads() {
        let mut add = |name: &str, read: u64, skipped: u64| {
            parts.push(format!("{name};desc=\"{read} read, {skipped} skipped\""));
        };
        add("rows", reads.rows, reads.rows_skipped);
        add("blocks", reads.blocks, reads.blocks_skipped);
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::response::IntoResponse;
    use nilometer_service::{Threads, TimedReads, TimedStep};

    use super::*;

    #[test]
    fn times_are_in_milliseconds_and_counts_are_descriptions() {
        let timings = Timings::start(&Threads::of_caller());
        timings.add(TimedStep::Plan, Duration::from_micros(1500));
        timings.add(TimedStep::Turn, Duration::from_nanos(400));
        let header = |timings| {
            let response = with_timings("".into_response(), timings);
            let shown = response.headers().get(SERVER_TIMING).cloned();
            shown.unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(header(&timings), "turn;dur=0.000, plan;dur=1.500");
        timings.add_reads(&TimedReads {
            rows: 12,
            rows_skipped: 3600,
            blocks: 1,
            blocks_skipped: 0,
        });
        let read = "rows;desc=\"12 read, 3600 skipped\", blocks;desc=\"1 read, 0 skipped\"";
        assert!(header(&timings).ends_with(read), "{}", header(&timings));
    }
}
