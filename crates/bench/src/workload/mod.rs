//! What is loaded: data sets described by a few numbers and made point by point.
//!
//! Does: turn a [`Spec`] into batches of line protocol, the same bytes for the same spec, whatever the batch size.
//! Does not: open files or sockets; [`crate::generate`] writes what this makes.
//!
//! A workload is a module here (`cpu_only`, next `devops` and `iot`) that builds on [`hosts`](self) for the tags that
//! the devops workloads share and on `walk` for the distributions. To add one: a variant of [`Workload`], a variant of
//! [`Points`], and the arms of their matches.
//!
//! Random numbers: xoshiro256++ seeded through `SplitMix64`, normal steps by the ziggurat method. Every host has a
//! stream of its own, so host 7 says the same at every scale.

mod cpu_only;
mod hosts;
mod walk;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use hosts::hostname;

use crate::{Error, Result};

/// How the random numbers are made; part of a file's header, because another way makes other data.
pub const RANDOM: &str = "xoshiro256++, one stream per host, ziggurat normals";

/// The data sets this crate can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Workload {
    /// One table `cpu`: ten tags and ten integer metrics per host.
    CpuOnly,
}

impl Workload {
    /// The suite's name of the workload.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuOnly => "cpu-only",
        }
    }

    /// The tables its points go to.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::CpuOnly => &[cpu_only::TABLE],
        }
    }

    /// Names of the metrics of its first table, in the order of the text.
    pub fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::CpuOnly => &cpu_only::METRICS,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "cpu-only" => Ok(Self::CpuOnly),
            _ => Err(Error::Spec {
                what: format!("there is no workload {text:?}; there is cpu-only"),
            }),
        }
    }
}

/// A data set, described so that it can be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Which schema and distributions.
    pub workload: Workload,
    /// Number of hosts, the suite's scale.
    pub hosts: u32,
    /// Time of the first points, in nanoseconds since 1970.
    pub start_ns: i64,
    /// No point is at or after this time.
    pub end_ns: i64,
    /// Time from a point of a host to its next.
    pub interval_ns: i64,
    /// Same seed, same data.
    pub seed: u64,
}

impl Spec {
    /// Points in time at which every host reports.
    pub fn epochs(&self) -> Result<u64> {
        let wrong = |what: &str| {
            Err(Error::Spec {
                what: what.to_owned(),
            })
        };
        if self.hosts == 0 {
            return wrong("it has 0 hosts; give 1 or more");
        }
        if self.interval_ns <= 0 {
            return wrong("the interval between points must be longer than nothing");
        }
        let Some(span_ns) = self
            .end_ns
            .checked_sub(self.start_ns)
            .filter(|span| *span >= self.interval_ns)
        else {
            return wrong("from start to end there must be at least one interval");
        };
        // The suite's own rule: whole intervals only, so the last point lies one interval or more before the end.
        Ok((span_ns / self.interval_ns) as u64)
    }

    /// Rows of the whole data set.
    pub fn rows(&self) -> Result<u64> {
        self.epochs()?.checked_mul(u64::from(self.hosts)).ok_or_else(|| Error::Spec {
            what: "it has more than 2^64 rows; give fewer hosts, a shorter time or a longer interval".to_owned(),
        })
    }

    /// Metric values of the whole data set.
    pub fn values(&self) -> Result<u64> {
        let per_row = self.workload.metrics().len() as u64;
        self.rows()?.checked_mul(per_row).ok_or_else(|| Error::Spec {
            what: "it has more than 2^64 values; give fewer hosts, a shorter time or a longer interval".to_owned(),
        })
    }

    /// The points, from the first.
    pub fn points(&self) -> Result<Points> {
        match self.workload {
            Workload::CpuOnly => Ok(Points(PointsOf::CpuOnly(cpu_only::CpuPoints::new(self)?))),
        }
    }
}

/// A data set under way: hands out its points in the order of time, then host.
#[derive(Debug)]
pub struct Points(PointsOf);

#[derive(Debug)]
enum PointsOf {
    CpuOnly(cpu_only::CpuPoints),
}

impl Points {
    /// Appends up to `rows_max` lines to `out`; returns how many, and 0 at the end.
    pub fn write_batch(&mut self, rows_max: u32, out: &mut Vec<u8>) -> u32 {
        match &mut self.0 {
            PointsOf::CpuOnly(points) => points.write_batch(rows_max, out),
        }
    }
}
