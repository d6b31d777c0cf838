//! Workloads: data sets described by a few numbers and made point by point.
//!
//! Does: turn a [`Spec`] into batches of line protocol, the same bytes for the same spec, whatever the batch size.
//! Does not: open files or sockets; [`crate::generate`] writes what this makes.
//!
//! A workload is a module here (`cpu_only`, `devops`, `iot`) that builds on [`hosts`](self) for the tags that
//! the devops workloads share and on `walk` for the distributions. To add one: a variant of [`Workload`], a variant of
//! [`Points`], and the arms of their matches.
//!
//! Random numbers: xoshiro256++ seeded through `SplitMix64`, normal steps by the ziggurat method. Every host and every truck
//! has a stream of its own, so host 7 says the same at every scale (the load of trucks is the exception, see `iot`).

mod cpu_only;
mod devops;
mod devops_tables;
mod hosts;
mod iot;
mod walk;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use hosts::hostname;
pub(crate) use iot::{FLEETS, truck_name};

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
    /// Nine tables per host, `cpu` among them, with 101 metrics.
    Devops,
    /// Two tables per truck, with rows that are missing, late or incomplete.
    Iot,
}

impl Workload {
    /// The suite's name of the workload.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuOnly => "cpu-only",
            Self::Devops => "devops",
            Self::Iot => "iot",
        }
    }

    /// The tables its points go to.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::CpuOnly => &[cpu_only::TABLE],
            Self::Devops => &devops::TABLE_NAMES,
            Self::Iot => &iot::TABLES,
        }
    }

    /// Names of the metrics of its first table, in the order of the text.
    pub fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::CpuOnly | Self::Devops => &cpu_only::METRICS,
            Self::Iot => &iot::READINGS_METRICS,
        }
    }

    /// Values of what one host says at one time, in all tables; of a truck, if nothing is absent.
    fn values_at_once(self) -> u64 {
        match self {
            Self::CpuOnly => cpu_only::METRICS.len() as u64,
            Self::Devops => {
                let others = devops_tables::TABLES.iter().map(|table| table.row_values());
                cpu_only::METRICS.len() as u64 + others.sum::<u64>()
            }
            Self::Iot => iot::VALUES_AT_ONCE,
        }
    }

    /// Values of some rows, if every row has the same number of them.
    pub(crate) fn values_of_rows(self, rows: u64) -> Option<u64> {
        match self {
            Self::CpuOnly => Some(rows * cpu_only::METRICS.len() as u64),
            Self::Devops | Self::Iot => None,
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
            "devops" => Ok(Self::Devops),
            "iot" => Ok(Self::Iot),
            _ => Err(Error::Spec {
                what: format!("there is no workload {text:?}; there are cpu-only, devops and iot"),
            }),
        }
    }
}

/// A data set, described so that it can be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Which schema and distributions.
    pub workload: Workload,
    /// Number of hosts, or of trucks: the suite's scale.
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

    /// Rows of the whole data set; of iot, those before some go missing.
    pub fn rows(&self) -> Result<u64> {
        self.of_all(self.workload.tables().len() as u64, "rows")
    }

    /// Metric values of the whole data set; of iot, those before some go missing.
    pub fn values(&self) -> Result<u64> {
        self.of_all(self.workload.values_at_once(), "values")
    }

    /// `each` of every host at every time.
    fn of_all(&self, each: u64, what: &str) -> Result<u64> {
        let reports = self.epochs()?.checked_mul(u64::from(self.hosts));
        reports.and_then(|reports| reports.checked_mul(each)).ok_or_else(|| Error::Spec {
            what: format!("it has more than 2^64 {what}; give fewer hosts, a shorter time or a longer interval"),
        })
    }

    /// The points, from the first.
    pub fn points(&self) -> Result<Points> {
        Ok(Points(match self.workload {
            Workload::CpuOnly => PointsOf::CpuOnly(cpu_only::CpuPoints::new(self)?),
            Workload::Devops => PointsOf::Devops(devops::DevopsPoints::new(self)?),
            Workload::Iot => PointsOf::Iot(Box::new(iot::IotPoints::new(self)?)),
        }))
    }
}

impl Spec {
    /// Host, time and percents of each row of cpu-only, in the order of time and host.
    pub(crate) fn cpu_rows(&self) -> Result<impl Iterator<Item = (i32, i64, [u8; 10])> + use<>> {
        if self.workload != Workload::CpuOnly {
            let what = "records of TStorage are made of the workload cpu-only alone".to_owned();
            return Err(Error::Spec { what });
        }
        cpu_only::CpuPoints::new(self)
    }
}

/// A data set under way: hands out its points in the order of time, table, host; iot's in the order in which they arrive.
#[derive(Debug)]
pub struct Points(PointsOf);

#[derive(Debug)]
enum PointsOf {
    CpuOnly(cpu_only::CpuPoints),
    Devops(devops::DevopsPoints),
    Iot(Box<iot::IotPoints>),
}

impl Points {
    /// Appends up to `rows_max` lines to `out`; returns how many, and 0 at the end.
    pub fn write_batch(&mut self, rows_max: u32, out: &mut Vec<u8>) -> u32 {
        match &mut self.0 {
            PointsOf::CpuOnly(points) => points.write_batch(rows_max, out),
            PointsOf::Devops(points) => points.write_batch(rows_max, out),
            PointsOf::Iot(points) => points.write_batch(rows_max, out),
        }
    }

    /// Metric values written so far.
    pub fn values(&self) -> u64 {
        match &self.0 {
            PointsOf::CpuOnly(points) => points.values(),
            PointsOf::Devops(points) => points.values(),
            PointsOf::Iot(points) => points.values(),
        }
    }

    /// Lines written so far whose table, tags and time an earlier line had: a database shows so many rows fewer.
    pub fn replaced(&self) -> u64 {
        match &self.0 {
            PointsOf::CpuOnly(_) | PointsOf::Devops(_) => 0,
            PointsOf::Iot(points) => points.replaced(),
        }
    }
}
