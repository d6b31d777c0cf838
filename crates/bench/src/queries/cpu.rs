//! The questions about the table `cpu`, for cpu-only and devops.
//!
//! The suite asks both workloads the same. Its reports show fifteen types; its generator knows a sixteenth, of 32 hosts
//! over a day, which is asked of devops here.

use super::{Draw, HOUR, timestamp};
use crate::workload::Workload;

/// What a type asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Maximum per minute of some metrics of some hosts.
    SingleGroupBy {
        metrics: usize,
        hosts: u32,
        hours: u32,
    },
    /// Maximum per hour of all metrics of some hosts.
    MaxAll { hosts: u32, hours: u32 },
    /// Mean per hour and host of some metrics.
    DoubleGroupBy { metrics: usize },
    /// Rows of one or of all hosts with a busy processor.
    HighCpu { hosts: Option<u32> },
    /// The newest row of every host.
    LastPoint,
    /// Maximum of the five newest minutes before a time.
    GroupByOrderByLimit,
}

const METRICS_ALL: usize = 10;

/// The types in the order of the suite's reports.
const TYPES: [(&str, Shape); 15] = [
    (
        "single-groupby-1-1-1",
        Shape::SingleGroupBy {
            metrics: 1,
            hosts: 1,
            hours: 1,
        },
    ),
    (
        "single-groupby-1-1-12",
        Shape::SingleGroupBy {
            metrics: 1,
            hosts: 1,
            hours: 12,
        },
    ),
    (
        "single-groupby-1-8-1",
        Shape::SingleGroupBy {
            metrics: 1,
            hosts: 8,
            hours: 1,
        },
    ),
    (
        "single-groupby-5-1-1",
        Shape::SingleGroupBy {
            metrics: 5,
            hosts: 1,
            hours: 1,
        },
    ),
    (
        "single-groupby-5-1-12",
        Shape::SingleGroupBy {
            metrics: 5,
            hosts: 1,
            hours: 12,
        },
    ),
    (
        "single-groupby-5-8-1",
        Shape::SingleGroupBy {
            metrics: 5,
            hosts: 8,
            hours: 1,
        },
    ),
    ("cpu-max-all-1", Shape::MaxAll { hosts: 1, hours: 8 }),
    ("cpu-max-all-8", Shape::MaxAll { hosts: 8, hours: 8 }),
    ("double-groupby-1", Shape::DoubleGroupBy { metrics: 1 }),
    ("double-groupby-5", Shape::DoubleGroupBy { metrics: 5 }),
    (
        "double-groupby-all",
        Shape::DoubleGroupBy {
            metrics: METRICS_ALL,
        },
    ),
    ("high-cpu-1", Shape::HighCpu { hosts: Some(1) }),
    ("high-cpu-all", Shape::HighCpu { hosts: None }),
    ("lastpoint", Shape::LastPoint),
    ("groupby-orderby-limit", Shape::GroupByOrderByLimit),
];

/// The type that only devops is asked.
const DAY_OF_MANY: (&str, Shape) = (
    "cpu-max-all-32-24",
    Shape::MaxAll {
        hosts: 32,
        hours: 24,
    },
);
/// Where it stands.
const DAY_OF_MANY_AT: usize = 8;

/// The types of cpu-only.
pub(super) fn types() -> impl Iterator<Item = (&'static str, Shape)> {
    TYPES.into_iter()
}

/// The types of devops.
pub(super) fn devops_types() -> impl Iterator<Item = (&'static str, Shape)> {
    let (before, after) = TYPES.split_at(DAY_OF_MANY_AT);
    let all = before.iter().chain([&DAY_OF_MANY]).chain(after);
    all.copied()
}

/// A statement of a type.
pub(super) fn statement(shape: Shape, draw: &mut Draw) -> String {
    match shape {
        Shape::SingleGroupBy {
            metrics,
            hosts,
            hours,
        } => {
            let window = draw.window(HOUR * hours);
            let hosts = draw.hosts(hosts);
            let columns = aggregates("max", "max", metrics);
            format!(
                "select time_bucket('1 minute', time) as minute, {columns} from cpu \
                 where {hosts} and {window} group by minute order by minute"
            )
        }
        Shape::MaxAll { hosts, hours } => {
            let window = draw.window(HOUR * hours);
            let hosts = draw.hosts(hosts);
            let columns = aggregates("max", "max", METRICS_ALL);
            format!(
                "select time_bucket('1 hour', time) as hour, {columns} from cpu \
                 where {hosts} and {window} group by hour order by hour"
            )
        }
        Shape::DoubleGroupBy { metrics } => {
            let window = draw.window(HOUR * 12);
            let columns = aggregates("avg", "mean", metrics);
            format!(
                "select time_bucket('1 hour', time) as hour, hostname, {columns} from cpu \
                 where {window} group by hour, hostname order by hour, hostname"
            )
        }
        Shape::HighCpu { hosts } => {
            let window = draw.window(HOUR * 12);
            let hosts = hosts
                .map(|count| format!(" and {}", draw.hosts(count)))
                .unwrap_or_default();
            format!("select * from cpu where usage_user > 90.0 and {window}{hosts}")
        }
        Shape::LastPoint => {
            "select distinct on (hostname) * from cpu order by hostname, time desc".to_owned()
        }
        Shape::GroupByOrderByLimit => {
            let (_, end) = draw.window_ends(HOUR);
            format!(
                "select time_bucket('1 minute', time) as minute, max(usage_user) as max_usage_user from cpu \
                 where time < {} group by minute order by minute desc limit 5",
                timestamp(end)
            )
        }
    }
}

/// `max(usage_user) as max_usage_user, ...` for the first metrics.
fn aggregates(function: &str, label: &str, metrics: usize) -> String {
    let columns: Vec<String> = Workload::CpuOnly.metrics()[..metrics]
        .iter()
        .map(|metric| format!("{function}({metric}) as {label}_{metric}"))
        .collect();
    columns.join(", ")
}
