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

/// The processor of one host.
#[derive(Debug)]
pub(super) struct Processor {
    random: Xoshiro256PlusPlus,
    walks: [PercentWalk; METRICS.len()],
}

impl Processor {
    /// The tags of a host and its processor, both from the host's stream of random numbers.
    pub(super) fn of_host(index: u32, mut random: Xoshiro256PlusPlus) -> (String, Self) {
        let tags = draw_tags(index, &mut random);
        let walks = std::array::from_fn(|_| PercentWalk::start(&mut random));
        (tags, Self { random, walks })
    }
}

/// `usage_user=58i`, with the comma or space before it, of metric m and value v at m * VALUES + v.
#[derive(Debug)]
pub(super) struct CpuFields(Vec<String>);

impl CpuFields {
    pub(super) fn new() -> Self {
        let fields = METRICS.iter().enumerate().flat_map(|(m, name)| {
            let before = if m == 0 { ' ' } else { ',' };
            (0..VALUES).map(move |value| format!("{before}{name}={value}i"))
        });
        Self(fields.collect())
    }

    /// Writes the fields of a row and takes the step to the next one.
    pub(super) fn write(&self, processor: &mut Processor, out: &mut Vec<u8>) {
        for (m, walk) in processor.walks.iter_mut().enumerate() {
            out.extend_from_slice(self.0[m * VALUES + walk.percent()].as_bytes());
            // The step to the next epoch is taken here, while the state is at hand: the first row shows the start.
            walk.advance(&mut processor.random);
        }
    }
}

/// Rows as numbers, with the same values as the text.
impl Iterator for CpuPoints {
    type Item = (i32, i64, [u8; METRICS.len()]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.epochs_left == 0 {
            return None;
        }
        let host = self.next_host;
        let processor = self.hosts.get_mut(host)?;
        let mut percents = [0; METRICS.len()];
        for (percent, walk) in percents.iter_mut().zip(&mut processor.walks) {
            *percent = u8::try_from(walk.percent()).unwrap_or(u8::MAX);
            walk.advance(&mut processor.random);
        }
        let row = (
            i32::try_from(host).unwrap_or(i32::MAX),
            self.time_ns,
            percents,
        );
        self.rows += 1;
        self.next_host += 1;
        if self.next_host == self.hosts.len() {
            self.next_epoch();
        }
        Some(row)
    }
}

/// The points of a cpu-only data set, from the first to the last.
#[derive(Debug)]
pub(super) struct CpuPoints {
    hosts: Vec<Processor>,
    /// Table and tags of all hosts, end to end; `prefix_ends` says where each ends.
    prefixes: Vec<u8>,
    prefix_ends: Vec<usize>,
    fields: CpuFields,
    /// The end of every line of the current epoch.
    time_text: Vec<u8>,
    time_ns: i64,
    interval_ns: i64,
    epochs_left: u64,
    next_host: usize,
    rows: u64,
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
            let random = Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64());
            let (tags, processor) = Processor::of_host(index, random);
            prefixes.extend_from_slice(TABLE.as_bytes());
            prefixes.extend_from_slice(tags.as_bytes());
            prefix_ends.push(prefixes.len());
            hosts.push(processor);
        }
        let mut points = Self {
            hosts,
            prefixes,
            prefix_ends,
            fields: CpuFields::new(),
            time_text: Vec::new(),
            time_ns: spec.start_ns,
            interval_ns: spec.interval_ns,
            epochs_left: epochs,
            next_host: 0,
            rows: 0,
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
            self.rows += 1;
            self.next_host += 1;
            if self.next_host == self.hosts.len() {
                self.next_epoch();
            }
        }
        rows
    }

    /// Field values written so far.
    pub(super) fn values(&self) -> u64 {
        self.rows * METRICS.len() as u64
    }

    fn write_row(&mut self, index: usize, out: &mut Vec<u8>) {
        let begin = if index == 0 {
            0
        } else {
            self.prefix_ends[index - 1]
        };
        out.extend_from_slice(&self.prefixes[begin..self.prefix_ends[index]]);
        self.fields.write(&mut self.hosts[index], out);
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
