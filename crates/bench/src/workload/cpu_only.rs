//! The suite's cpu-only workload: what a monitoring agent says about ten kinds of processor time, per host.
//!
//! The text is assembled from pieces that are made once: the tags of a host, `name=value` of every metric with every
//! value it can have, and the time of an epoch. A row is then thirteen copies and ten random steps.

use std::io::Write;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::hosts::draw_tags;
use super::walk::PercentWalk;
use super::{Result, Spec};

pub(super) const TABLE: &str = "cpu";

pub(super) const METRICS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

/// Values 0 to 100, both included.
const VALUES: usize = 101;

#[derive(Debug)]
struct Host {
    random: Xoshiro256PlusPlus,
    walks: [PercentWalk; METRICS.len()],
}

/// The points of a cpu-only data set, from the first to the last.
#[derive(Debug)]
pub(super) struct CpuPoints {
    hosts: Vec<Host>,
    /// Table and tags of all hosts, end to end; `prefix_ends` says where each ends.
    prefixes: Vec<u8>,
    prefix_ends: Vec<usize>,
    /// `usage_user=58i`, with the comma or space before it, of metric m and value v at m * VALUES + v.
    fields: Vec<String>,
    /// The end of every line of the current epoch.
    time_text: Vec<u8>,
    time_ns: i64,
    interval_ns: i64,
    epochs_left: u64,
    next_host: usize,
}

impl CpuPoints {
    pub(super) fn new(spec: &Spec) -> Result<Self> {
        let epochs = spec.epochs()?;
        spec.rows()?;
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        let mut hosts = Vec::new();
        let mut prefixes = Vec::new();
        let mut prefix_ends = Vec::new();
        for index in 0..spec.hosts {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64());
            prefixes.extend_from_slice(TABLE.as_bytes());
            prefixes.extend_from_slice(draw_tags(index, &mut random).as_bytes());
            prefix_ends.push(prefixes.len());
            let walks = std::array::from_fn(|_| PercentWalk::start(&mut random));
            hosts.push(Host { random, walks });
        }
        let fields = METRICS
            .iter()
            .enumerate()
            .flat_map(|(m, name)| {
                let before = if m == 0 { ' ' } else { ',' };
                (0..VALUES).map(move |value| format!("{before}{name}={value}i"))
            })
            .collect();
        let mut points = Self {
            hosts,
            prefixes,
            prefix_ends,
            fields,
            time_text: Vec::new(),
            time_ns: spec.start_ns,
            interval_ns: spec.interval_ns,
            epochs_left: epochs,
            next_host: 0,
        };
        points.render_time();
        Ok(points)
    }

    /// Appends up to `rows_max` lines; returns how many, 0 at the end.
    pub(super) fn write_batch(&mut self, rows_max: u32, out: &mut Vec<u8>) -> u32 {
        let mut rows = 0;
        while rows < rows_max && self.epochs_left > 0 {
            self.write_row(self.next_host, out);
            rows += 1;
            self.next_host += 1;
            if self.next_host == self.hosts.len() {
                self.next_epoch();
            }
        }
        rows
    }

    fn write_row(&mut self, index: usize, out: &mut Vec<u8>) {
        let begin = if index == 0 {
            0
        } else {
            self.prefix_ends[index - 1]
        };
        out.extend_from_slice(&self.prefixes[begin..self.prefix_ends[index]]);
        let host = &mut self.hosts[index];
        for (m, walk) in host.walks.iter_mut().enumerate() {
            out.extend_from_slice(self.fields[m * VALUES + walk.percent()].as_bytes());
            // The step to the next epoch is taken here, while the state is at hand: the first row shows the start.
            walk.advance(&mut host.random);
        }
        out.extend_from_slice(&self.time_text);
    }

    fn next_epoch(&mut self) {
        self.next_host = 0;
        self.epochs_left -= 1;
        // The last epoch lies before the end, so only the one after it can overflow, and that one is never written.
        self.time_ns = self.time_ns.saturating_add(self.interval_ns);
        self.render_time();
    }

    fn render_time(&mut self) {
        self.time_text.clear();
        writeln!(self.time_text, " {}", self.time_ns).expect("writing to memory does not fail");
    }
}
