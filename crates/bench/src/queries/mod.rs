//! The suite's questions about cpu-only, in Nilometer's SQL, and what it takes to time them.
//!
//! Does: fill the fifteen query types with seeded random hosts and windows, run them over HTTP, and report the times.
//! Does not: check the answers; the tests of the query engine do that.
//!
//! Windows begin at whole seconds: databases differ in whether they keep fractions of a second in a condition, and the
//! same statement should ask them all the same question.

mod run;

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub use run::{QueryTiming, run_queries, table};

use crate::calendar::format_rfc3339;
use crate::workload::{Spec, Workload, hostname};
use crate::{Error, Result};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR: Duration = Duration::from_hours(1);

/// One statement of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuerySpec {
    /// The suite's name of the type.
    pub name: &'static str,
    /// The statement.
    pub sql: String,
    /// How the data set made the question smaller than its name says, if it did.
    pub note: Option<String>,
}

/// What a type asks for.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Maximum per minute of some metrics of some hosts.
    SingleGroupBy {
        metrics: usize,
        hosts: u32,
        hours: u32,
    },
    /// Maximum per hour of all metrics of some hosts.
    MaxAll { hosts: u32 },
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
    ("cpu-max-all-1", Shape::MaxAll { hosts: 1 }),
    ("cpu-max-all-8", Shape::MaxAll { hosts: 8 }),
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

/// The names of all query types.
pub fn names() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(name, _)| *name)
}

/// `instances` statements of every type over the data set of `spec`, whose hosts and times are drawn from `seed`.
///
/// A window longer than the data set is cut to it, and eight hosts become all hosts of a smaller one; the specs say so.
pub fn cpu_only(spec: &Spec, seed: u64, instances: u32) -> Result<Vec<QuerySpec>> {
    if spec.workload != Workload::CpuOnly {
        return Err(Error::Spec {
            what: format!("there are queries for cpu-only, not for {}", spec.workload),
        });
    }
    spec.epochs()?;
    let mut draw = Draw {
        spec: *spec,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        note: Vec::new(),
    };
    let mut specs = Vec::new();
    for (name, shape) in TYPES {
        for _ in 0..instances {
            let sql = draw.statement(shape);
            let note = (!draw.note.is_empty()).then(|| draw.note.join(", "));
            draw.note.clear();
            specs.push(QuerySpec { name, sql, note });
        }
    }
    Ok(specs)
}

/// Draws what a statement leaves open.
#[derive(Debug)]
struct Draw {
    spec: Spec,
    random: Xoshiro256PlusPlus,
    /// How the statement under way had to be made smaller.
    note: Vec<String>,
}

impl Draw {
    fn statement(&mut self, shape: Shape) -> String {
        match shape {
            Shape::SingleGroupBy {
                metrics,
                hosts,
                hours,
            } => {
                let window = self.window(HOUR * hours);
                let hosts = self.hosts(hosts);
                let columns = aggregates("max", "max", metrics);
                format!(
                    "select time_bucket('1 minute', time) as minute, {columns} from cpu \
                     where {hosts} and {window} group by minute order by minute"
                )
            }
            Shape::MaxAll { hosts } => {
                let window = self.window(HOUR * 8);
                let hosts = self.hosts(hosts);
                let columns = aggregates("max", "max", METRICS_ALL);
                format!(
                    "select time_bucket('1 hour', time) as hour, {columns} from cpu \
                     where {hosts} and {window} group by hour order by hour"
                )
            }
            Shape::DoubleGroupBy { metrics } => {
                let window = self.window(HOUR * 12);
                let columns = aggregates("avg", "mean", metrics);
                format!(
                    "select time_bucket('1 hour', time) as hour, hostname, {columns} from cpu \
                     where {window} group by hour, hostname order by hour, hostname"
                )
            }
            Shape::HighCpu { hosts } => {
                let window = self.window(HOUR * 12);
                let hosts = hosts
                    .map(|count| format!(" and {}", self.hosts(count)))
                    .unwrap_or_default();
                format!("select * from cpu where usage_user > 90.0 and {window}{hosts}")
            }
            Shape::LastPoint => {
                "select distinct on (hostname) * from cpu order by hostname, time desc".to_owned()
            }
            Shape::GroupByOrderByLimit => {
                let (_, end) = self.window_ends(HOUR);
                format!(
                    "select time_bucket('1 minute', time) as minute, max(usage_user) as max_usage_user from cpu \
                     where time < {} group by minute order by minute desc limit 5",
                    timestamp(end)
                )
            }
        }
    }

    /// `hostname in (...)` with different hosts in random order.
    fn hosts(&mut self, count: u32) -> String {
        let drawn = count.min(self.spec.hosts);
        if drawn < count {
            self.note.push(format!("{drawn} hosts"));
        }
        let picked =
            rand::seq::index::sample(&mut self.random, self.spec.hosts as usize, drawn as usize);
        let names: Vec<String> = picked
            .into_iter()
            .map(|index| {
                format!(
                    "'{}'",
                    hostname(u32::try_from(index).expect("a host's number is below hosts: u32"))
                )
            })
            .collect();
        format!("hostname in ({})", names.join(", "))
    }

    /// A condition on time.
    fn window(&mut self, length: Duration) -> String {
        let (start, end) = self.window_ends(length);
        format!("time >= {} and time < {}", timestamp(start), timestamp(end))
    }

    /// A window within the data set that begins at a whole second after its start.
    fn window_ends(&mut self, length: Duration) -> (i64, i64) {
        let span_ns = self.spec.end_ns - self.spec.start_ns;
        let length_ns = i64::try_from(length.as_nanos()).expect("windows are hours");
        if length_ns > span_ns {
            self.note.push(format!(
                "{} s",
                Duration::from_nanos(span_ns.unsigned_abs()).as_secs_f64()
            ));
            return (self.spec.start_ns, self.spec.end_ns);
        }
        let start = self.spec.start_ns
            + self
                .random
                .random_range(0..=(span_ns - length_ns) / SECOND_NS)
                * SECOND_NS;
        (start, start + length_ns)
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

fn timestamp(time_ns: i64) -> String {
    format!("timestamp '{}'", format_rfc3339(time_ns))
}

#[cfg(test)]
mod tests;
