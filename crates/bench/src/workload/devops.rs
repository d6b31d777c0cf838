//! The suite's devops workload: nine tables of a host's processor, disk, kernel, memory, network and servers.
//!
//! Does: make the rows of all hosts table by table, epoch by epoch, as the suite orders them. Does not: list the fields
//! (`devops_tables` does).
//!
//! A host has two streams of random numbers: one for its tags and its processor, the same as in cpu-only, so that the
//! table `cpu` of both workloads is the same; and one for everything else.

use std::io::Write;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::cpu_only::{self, CpuFields, Processor};
use super::devops_tables::{Agent, TABLES};
use super::{Result, Spec};

/// All tables, in the order in which a host reports them.
pub(super) const TABLE_NAMES: [&str; 1 + TABLES.len()] = {
    let mut names = [cpu_only::TABLE; 1 + TABLES.len()];
    let mut at = 0;
    while at < TABLES.len() {
        names[at + 1] = TABLES[at].name();
        at += 1;
    }
    names
};

#[derive(Debug)]
struct Host {
    /// Table and tags of the processor's rows.
    cpu_prefix: String,
    processor: Processor,
    /// One for each of `TABLES`.
    agents: Vec<Agent>,
    random: Xoshiro256PlusPlus,
}

/// The points of a devops data set, from the first to the last.
#[derive(Debug)]
pub(super) struct DevopsPoints {
    hosts: Vec<Host>,
    cpu_fields: CpuFields,
    /// The end of every line of the current epoch.
    time_text: Vec<u8>,
    start_ns: i64,
    time_ns: i64,
    interval_ns: i64,
    epochs_left: u64,
    /// Place in `TABLE_NAMES` of the table under way.
    table: usize,
    next_host: usize,
    values: u64,
}

impl DevopsPoints {
    pub(super) fn new(spec: &Spec) -> Result<Self> {
        let epochs = spec.epochs()?;
        spec.rows()?;
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        let hosts = (0..spec.hosts)
            .map(|index| {
                let of_processor = Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64());
                let mut random = of_processor.clone();
                // 2^128 numbers further on, so the two never meet.
                random.jump();
                let (tags, processor) = Processor::of_host(index, of_processor);
                let agents = TABLES
                    .iter()
                    .map(|table| Agent::new(*table, &tags, &mut random))
                    .collect();
                Host {
                    cpu_prefix: format!("{}{tags}", cpu_only::TABLE),
                    processor,
                    agents,
                    random,
                }
            })
            .collect();
        let mut points = Self {
            hosts,
            cpu_fields: CpuFields::new(),
            time_text: Vec::new(),
            start_ns: spec.start_ns,
            time_ns: spec.start_ns,
            interval_ns: spec.interval_ns,
            epochs_left: epochs,
            table: 0,
            next_host: 0,
            values: 0,
        };
        points.render_time();
        Ok(points)
    }

    /// Appends up to `rows_max` lines; returns how many, 0 at the end.
    pub(super) fn write_batch(&mut self, rows_max: u32, out: &mut Vec<u8>) -> u32 {
        let mut rows = 0;
        while rows < rows_max && self.epochs_left > 0 {
            self.write_row(out);
            rows += 1;
            self.next_host += 1;
            if self.next_host == self.hosts.len() {
                self.next_table();
            }
        }
        rows
    }

    /// Field values written so far.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    fn write_row(&mut self, out: &mut Vec<u8>) {
        let host = &mut self.hosts[self.next_host];
        if let Some(agent) = self.table.checked_sub(1) {
            let uptime_ns = self.time_ns - self.start_ns;
            let agent = &mut host.agents[agent];
            self.values += agent.write(uptime_ns, out);
            agent.advance(&mut host.random);
        } else {
            out.extend_from_slice(host.cpu_prefix.as_bytes());
            self.cpu_fields.write(&mut host.processor, out);
            self.values += cpu_only::METRICS.len() as u64;
        }
        out.extend_from_slice(&self.time_text);
    }

    fn next_table(&mut self) {
        self.next_host = 0;
        self.table += 1;
        if self.table == TABLE_NAMES.len() {
            self.table = 0;
            self.epochs_left -= 1;
            // Only the time after the last epoch can overflow, and no row has it.
            self.time_ns = self.time_ns.saturating_add(self.interval_ns);
            self.render_time();
        }
    }

    fn render_time(&mut self) {
        self.time_text.clear();
        writeln!(self.time_text, " {}", self.time_ns).expect("writing to memory does not fail");
    }
}
