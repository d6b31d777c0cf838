//! The suite's questions about its data sets, in Nilometer's SQL, and what it takes to time them.
//!
//! Does: fill the suite's query types with seeded random hosts, trucks and windows, run them over HTTP from one or more
//! connections, while nothing else happens or while rows arrive, and report the times. Does not: check the answers; the
//! tests of the server do that.
//!
//! Windows begin at any microsecond, as the suite's do, so that their first and last buckets are cut and no border meets
//! a block, an hour or a minute by itself. They were whole seconds before, which asked less; figures of the two do not
//! compare.
//!
//! Next: `cpu` and `iot` for the statements, `run` for what the clock covers.

mod answer;
mod arrival;
mod cpu;
mod iot;
mod run;
mod timing;

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub use answer::AnswerFormat;
pub use arrival::{Arrival, run_while_loading};
pub use run::{QueryOptions, run_queries};
pub(crate) use timing::Spread;
pub use timing::{QueryTiming, table};

use crate::calendar::format_rfc3339;
use crate::workload::{FLEETS, Spec, Workload, hostname, truck_name};
use crate::{Error, Result};

const MICROSECOND_NS: i64 = 1000;
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

/// The names of a workload's query types, in the order of the suite's reports.
pub fn names(workload: Workload) -> Vec<&'static str> {
    match workload {
        Workload::CpuOnly => cpu::types().map(|(name, _)| name).collect(),
        Workload::Devops => cpu::devops_types().map(|(name, _)| name).collect(),
        Workload::Iot => iot::TYPES.map(|(name, _)| name).to_vec(),
    }
}

/// `instances` statements of every type over the data set of `spec`, whose hosts and times are drawn from `seed`.
///
/// A window longer than the data set is cut to it, and eight hosts become all hosts of a smaller one; the specs say so.
pub fn statements(spec: &Spec, seed: u64, instances: u32) -> Result<Vec<QuerySpec>> {
    spec.epochs()?;
    if instances == 0 {
        return Err(Error::Spec {
            what: "0 statements of a type ask nothing; give 1 or more".to_owned(),
        });
    }
    let mut draw = Draw {
        spec: *spec,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        note: Vec::new(),
    };
    Ok(match spec.workload {
        Workload::CpuOnly => draw.all(instances, cpu::types(), cpu::statement),
        Workload::Devops => draw.all(instances, cpu::devops_types(), cpu::statement),
        Workload::Iot => draw.all(instances, iot::TYPES.into_iter(), iot::statement),
    })
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
    fn all<S: Copy>(
        &mut self,
        instances: u32,
        types: impl Iterator<Item = (&'static str, S)>,
        statement: fn(S, &mut Self) -> String,
    ) -> Vec<QuerySpec> {
        let mut specs = Vec::new();
        for (name, shape) in types {
            for _ in 0..instances {
                let sql = statement(shape, self);
                let note = (!self.note.is_empty()).then(|| self.note.join(", "));
                self.note.clear();
                specs.push(QuerySpec { name, sql, note });
            }
        }
        specs
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
                let index = u32::try_from(index).expect("a host's number is below hosts: u32");
                format!("'{}'", hostname(index))
            })
            .collect();
        format!("hostname in ({})", names.join(", "))
    }

    /// The name of one truck, as a text of SQL.
    fn truck(&mut self) -> String {
        format!(
            "'{}'",
            truck_name(self.random.random_range(0..self.spec.hosts))
        )
    }

    /// The name of one fleet, as a text of SQL.
    fn fleet(&mut self) -> String {
        format!("'{}'", FLEETS[self.random.random_range(0..FLEETS.len())])
    }

    /// A condition on time.
    fn window(&mut self, length: Duration) -> String {
        let (start, end) = self.window_ends(length);
        format!("time >= {} and time < {}", timestamp(start), timestamp(end))
    }

    /// A window within the data set that begins some microseconds after its start.
    fn window_ends(&mut self, length: Duration) -> (i64, i64) {
        let span_ns = self.spec.end_ns - self.spec.start_ns;
        let length_ns = i64::try_from(length.as_nanos()).expect("windows are hours");
        if length_ns > span_ns {
            let seconds = Duration::from_nanos(span_ns.unsigned_abs()).as_secs_f64();
            self.note.push(format!("{seconds} s"));
            return (self.spec.start_ns, self.spec.end_ns);
        }
        let starts = (span_ns - length_ns) / MICROSECOND_NS;
        let start = self.spec.start_ns + self.random.random_range(0..=starts) * MICROSECOND_NS;
        (start, start + length_ns)
    }
}

fn timestamp(time_ns: i64) -> String {
    format!("timestamp '{}'", format_rfc3339(time_ns))
}

#[cfg(test)]
mod tests;
